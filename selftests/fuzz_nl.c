// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Random requests to the netlink family, made of its specification
 * (nl_table.py): what is right, what is nearly right, and noise. Several
 * processes send at once, one of them without privileges; what is right is
 * done, so devices and lanes come and go meanwhile.
 *
 * It fails when an answer is none (no errno, an answer to nobody), when one
 * without privileges gets something done, when one hangs, and when the requests
 * were so bad that some command, though often given, never succeeded or never was
 * refused.
 */
#define _GNU_SOURCE
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"

#define MAX_OPS		32
#define MAX_ATTRS	64
#define MAX_ELEMS	24
#define WORKERS		3

struct attr {
	char name[32], type[12];
	uint16_t number;
	uint64_t min, max;
	unsigned int len;
	bool asked;		/* one of the request's */
};

struct op {
	char name[32];
	uint8_t number;
	bool dump, admin;
	unsigned int nr_attrs;
	struct attr attr[MAX_ATTRS];
};

static struct op ops[MAX_OPS];
static unsigned int nr_ops;
static uint16_t family;
static uint32_t group;

static struct stats {
	uint64_t sent, dumps, torn, noise;
	uint64_t done[MAX_OPS], refused[MAX_OPS];
	char complaint[256];
} *stats;

/* ---------------------------------------------------------- specification */

static void read_spec(const char *path)
{
	FILE *f = fopen(path, "r");
	struct op *op = NULL;
	uint64_t wanted = 0;
	char line[512];

	if (!f)
		die_errno("%s", path);
	while (fgets(line, sizeof(line), f)) {
		struct attr a = { 0 };
		unsigned int number, dump, admin;
		char *word, *save;
		int at;

		if (sscanf(line, "attr %hu %31s %11s %llu %llu %u", &a.number, a.name, a.type,
			   (unsigned long long *)&a.min, (unsigned long long *)&a.max,
			   &a.len) == 6) {
			if (!op || op->nr_attrs == MAX_ATTRS || a.number >= 64)
				die("%s: %s", path, line);
			a.asked = wanted >> a.number & 1;
			op->attr[op->nr_attrs++] = a;
			continue;
		}
		op = &ops[nr_ops];
		if (nr_ops++ == MAX_OPS || sscanf(line, "op %u %31s %u %u%n", &number, op->name,
						  &dump, &admin, &at) != 4)
			die("%s: %s", path, line);
		op->number = number;
		op->dump = dump;
		op->admin = admin;
		wanted = 0;
		for (word = strtok_r(line + at, "\n ", &save); word;
		     word = strtok_r(NULL, "\n ", &save))
			wanted |= 1ULL << atoi(word);
	}
	fclose(f);
	if (nr_ops < 2)
		die("%s: no operations", path);
}

/* --------------------------------------------------------------- messages */

struct elem {
	uint16_t type, claim;	/* what nla_type and nla_len say */
	uint16_t len;		/* how much there is */
	uint8_t data[600];
};

struct msg {
	size_t len;
	uint8_t buf[1 << 15];
};

static uint64_t rng;
static bool privileged;

static void value_string(const struct attr *a, struct elem *e)
{
	static const char * const devs[] = {
		"agg0", "agg0", "agg0", "agg0", "agg0", "fuzz0", "fuzz0", "fuzz1", "fuzz2", "rxe0",
		"nope", "%s", "a/b", "",
	};
	static const char * const ibdevs[] = {
		"rxe0", "rxe1", "rxe2", "rxe3", "agg0", "fuzz0", "nope", "",
	};
	static const char * const netdevs[] = {
		"mgmt0", "lane0", "lane1", "lane2", "lane3", "lo", "nope", "",
	};
	const char *s;

	if (!rnd(&rng, 12)) {
		/* Any bytes, of a length around the limit, with or without an end. */
		e->len = rnd(&rng, 3) ? a->len + rnd(&rng, 5) - 2 : rnd(&rng, sizeof(e->data));
		for (unsigned int i = 0; i < e->len; i++)
			e->data[i] = rnd(&rng, 3) ? 'a' + rnd(&rng, 26) : rnd64(&rng);
		if (e->len && rnd(&rng, 2))
			e->data[e->len - 1] = 0;
		return;
	}
	if (!strcmp(a->name, "dev-name"))
		s = devs[rnd(&rng, ARRAY_SIZE(devs))];
	else if (!strcmp(a->name, "ibdev-name"))
		s = ibdevs[rnd(&rng, ARRAY_SIZE(ibdevs))];
	else
		s = netdevs[rnd(&rng, ARRAY_SIZE(netdevs))];
	e->len = strlen(s) + !!rnd(&rng, 20);
	memcpy(e->data, s, strlen(s) + 1);
}

static void value(const struct attr *a, struct elem *e)
{
	uint64_t v;

	memset(e, 0, sizeof(*e));
	e->type = a->number;
	if (!strcmp(a->type, "string")) {
		value_string(a, e);
	} else if (a->type[0] == 'u' || a->type[0] == 's') {
		switch (rnd(&rng, 8)) {
		case 0:
			v = fuzz_word(&rng) | (uint64_t)fuzz_word(&rng) << 32;
			break;
		case 1:
			v = (rnd(&rng, 2) ? a->min : a->max) + rnd(&rng, 3) - 1;
			break;
		default:
			/* Most ranges are wide and what is there is small. */
			v = a->min + rnd(&rng, umin(a->max - a->min, 40) + 1);
			if (!strcmp(a->name, "ibdev-port") && rnd(&rng, 8))
				v = 1;
			break;
		}
		e->len = a->len;
		memcpy(e->data, &v, sizeof(v));
	} else {
		e->len = rnd(&rng, 4) ? a->len : rnd(&rng, 100);
		if (rnd(&rng, 2))
			for (unsigned int i = 0; i < e->len; i++)
				e->data[i] = rnd64(&rng);
	}
	e->claim = NLA_HDRLEN + e->len;
}

/* Make it wrong in one way; returns the new number of elements. */
static unsigned int spoil(const struct op *op, struct elem *e, unsigned int n)
{
	unsigned int i = n ? rnd(&rng, n) : 0, k;

	switch (rnd(&rng, 12)) {
	case 0:		/* missing */
		if (n)
			e[i] = e[--n];
		break;
	case 1:		/* twice */
		if (n && n < MAX_ELEMS)
			e[n++] = e[i];
		break;
	case 2:		/* one of the set that is no part of the request, or of none */
		if (n < MAX_ELEMS)
			value(&op->attr[rnd(&rng, op->nr_attrs)], &e[n++]);
		break;
	case 3:
		if (n < MAX_ELEMS) {
			value(&op->attr[0], &e[n]);
			e[n++].type = rnd(&rng, 2) ? rnd(&rng, 80) : rnd64(&rng);
		}
		break;
	case 4:		/* shorter, longer */
		if (n) {
			e[i].len = rnd(&rng, 3) ? rnd(&rng, 10) : rnd(&rng, sizeof(e->data));
			e[i].claim = NLA_HDRLEN + e[i].len;
		}
		break;
	case 5:		/* its header lies */
		if (n)
			e[i].claim = rnd(&rng, 2) ? rnd(&rng, 8) : fuzz_word(&rng);
		break;
	case 6:
		if (n)
			e[i].type |= rnd(&rng, 2) ? NLA_F_NESTED : NLA_F_NET_BYTEORDER;
		break;
	case 7:		/* nests of nests */
		if (n) {
			for (k = 0; k + 4 <= sizeof(e->data); k += 4) {
				uint16_t nla[2] = { sizeof(e->data) - k, 1 | NLA_F_NESTED };

				memcpy(e[i].data + k, nla, 4);
			}
			e[i].len = 4 * rnd(&rng, sizeof(e->data) / 4);
			e[i].claim = NLA_HDRLEN + e[i].len;
			e[i].type |= NLA_F_NESTED;
		}
		break;
	case 8:		/* another order */
		if (n > 1) {
			struct elem t = e[i];

			k = rnd(&rng, n);
			e[i] = e[k];
			e[k] = t;
		}
		break;
	default:	/* other bytes */
		if (n && e[i].len)
			e[i].data[rnd(&rng, e[i].len)] ^= 1 << rnd(&rng, 8);
		break;
	}
	return n;
}

/* The attributes of a request, as good as chance wills. */
static unsigned int request(const struct op *op, struct elem *e)
{
	/* A device has a name or an index, a new one lies on a name or an index. */
	bool by_name = rnd(&rng, 4), netdev_by_name = rnd(&rng, 4);
	unsigned int n = 0, i;
	bool new = !strcmp(op->name, "dev-new");

	for (i = 0; i < op->nr_attrs && n < MAX_ELEMS - 4; i++) {
		const struct attr *a = &op->attr[i];

		if (!a->asked)
			continue;
		if (!strcmp(a->name, "dev-name") && !by_name && !new)
			continue;
		if (!strcmp(a->name, "dev-index") && by_name)
			continue;
		if (!strcmp(a->name, "ifname") && !netdev_by_name)
			continue;
		if (!strcmp(a->name, "ifindex") && netdev_by_name)
			continue;
		/* What is optional: few parameters at a time. */
		if (a->number > 4 && !strncmp(op->name, "param", 5) && rnd(&rng, 8))
			continue;
		value(a, &e[n++]);
	}
	if (!rnd(&rng, 3))
		for (i = 1 + rnd(&rng, 3); i; i--)
			n = spoil(op, e, n);
	return n;
}

static uint32_t next_seq;

/* The answer is not judged when noise comes over the message: who knows what is asked then. */
static void put(struct msg *m, const struct op *op, uint16_t flags, const struct elem *e,
		unsigned int n, bool judge)
{
	struct nlmsghdr *h = (void *)(m->buf + m->len);
	struct genlmsghdr *g = (void *)(h + 1);
	uint8_t *p = (void *)(g + 1);

	*h = (struct nlmsghdr){
		.nlmsg_type = family, .nlmsg_flags = NLM_F_REQUEST | flags,
		/* Our slot of the table of answers is in it. */
		.nlmsg_seq = next_seq++ << 8 | (judge ? op - ops : 0xff),
	};
	*g = (struct genlmsghdr){ .cmd = op->number, .version = 1 };
	while (n--) {
		uint16_t nla[2] = { e->claim, e->type };

		memcpy(p, nla, 4);
		memcpy(p + 4, e->data, e->len);
		memset(p + 4 + e->len, 0, -e->len & 3);
		p += 4 + NLA_ALIGN(e->len);
		e++;
	}
	h->nlmsg_len = p - (uint8_t *)h;
	m->len += NLMSG_ALIGN(h->nlmsg_len);
}

/* Wrong in the headers, or anywhere. */
static void noise(struct msg *m)
{
	struct nlmsghdr *h = (void *)m->buf;
	struct genlmsghdr *g = (void *)(h + 1);
	unsigned int i;

	fuzz_count(&stats->noise);
	switch (rnd(&rng, 8)) {
	case 0:
		h->nlmsg_len = rnd(&rng, 2) ? rnd(&rng, 40) : fuzz_word(&rng);
		break;
	case 1:
		h->nlmsg_flags = rnd64(&rng);
		break;
	case 2:
		g->cmd = rnd64(&rng);
		break;
	case 3:
		g->version = rnd64(&rng);
		break;
	case 4:
		g->reserved = fuzz_word(&rng);
		break;
	case 5:		/* cut, and the header may know */
		m->len = rnd(&rng, m->len) + 1;
		if (rnd(&rng, 2))
			h->nlmsg_len = m->len;
		break;
	default:
		for (i = 1 + rnd(&rng, 8); i && m->len > sizeof(*h) + sizeof(*g); i--)
			m->buf[sizeof(*h) + rnd(&rng, m->len - sizeof(*h))] = rnd64(&rng);
		break;
	}
}

/* ---------------------------------------------------------------- answers */

static void complain(const char *what, const struct op *op, int err)
{
	snprintf(stats->complaint, sizeof(stats->complaint), "%s: %s (%d)", op->name, what, err);
}

static void answered(uint32_t seq, int err, bool dump)
{
	const struct op *op = &ops[seq & 0xff];

	if ((seq & 0xff) >= nr_ops)
		return;
	if (err > 0 || err < -133)
		complain("an error that is none", op, err);
	if (!err && op->admin && !privileged && !dump)
		complain("done for nobody", op, err);
	fuzz_count(err ? &stats->refused[op - ops] : &stats->done[op - ops]);
}

/* All that has come; returns how many messages. */
static unsigned int drain(int fd, size_t size, unsigned int max)
{
	static uint8_t buf[1 << 16] __attribute__((aligned(8)));
	unsigned int n = 0;
	ssize_t got;

	while (n < max && (got = recv(fd, buf, size, MSG_DONTWAIT)) > 0) {
		struct nlmsghdr *h = (void *)buf;

		for (n++; NLMSG_OK(h, got); h = NLMSG_NEXT(h, got)) {
			if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(4))
				answered(h->nlmsg_seq, *(int *)NLMSG_DATA(h), false);
			else if (h->nlmsg_type == NLMSG_DONE && h->nlmsg_len >= NLMSG_LENGTH(4))
				answered(h->nlmsg_seq, *(int *)NLMSG_DATA(h), true);
		}
	}
	return n;
}

static int open_socket(void)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	int one = 1;

	if (fd < 0 || bind(fd, (void *)&sa, sizeof(sa)))
		die_errno("netlink");
	if (rnd(&rng, 2))
		setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof(one));
	if (rnd(&rng, 2))
		setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	if (rnd(&rng, 2))
		setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &one, sizeof(one));
	/* Hears all that changes; may also never listen. */
	if (!rnd(&rng, 3))
		setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group));
	if (!rnd(&rng, 3)) {
		int bytes = rnd(&rng, 10000);

		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	}
	return fd;
}

/* What takes away comes seldom, or there would be nothing. */
static const struct op *any_op(void)
{
	const struct op *op;

	do
		op = &ops[rnd(&rng, nr_ops)];
	while (strstr(op->name, "-del") && rnd(&rng, 6));
	return op;
}

/* A dump that is not read to its end, or while others are asked for. */
static void torn_dump(void)
{
	static struct msg m;
	struct elem e[MAX_ELEMS];
	int fd = open_socket();
	const struct op *op;
	unsigned int i;

	fuzz_count(&stats->torn);
	for (i = 0; i < 1 + rnd(&rng, 3); i++) {
		do
			op = any_op();
		while (!op->dump);
		m.len = 0;
		put(&m, op, NLM_F_DUMP, e, rnd(&rng, 3) ? 0 : request(op, e), true);
		send(fd, m.buf, m.len, MSG_DONTWAIT);
		drain(fd, 200 + rnd(&rng, 8000), rnd(&rng, 3));
		if (rnd(&rng, 2)) {
			op = any_op();
			m.len = 0;
			put(&m, op, NLM_F_ACK, e, request(op, e), true);
			send(fd, m.buf, m.len, MSG_DONTWAIT);
		}
	}
	if (rnd(&rng, 2))
		shutdown(fd, SHUT_RDWR);
	close(fd);
}

static void worker(uint64_t seed, unsigned int seconds)
{
	uint64_t end = now_us() + seconds * 1000000ULL;
	static struct elem e[MAX_ELEMS];
	static struct msg m;
	int fd = -1;

	rng = seed;
	while (now_us() < end && !stats->complaint[0]) {
		unsigned int i, n = rnd(&rng, 20) ? 1 : 1 + rnd(&rng, 6);
		bool judge = rnd(&rng, 10);

		if (fd < 0 || !rnd(&rng, 200)) {
			if (fd >= 0)
				close(fd);
			fd = open_socket();
		}
		if (!rnd(&rng, 12)) {
			torn_dump();
			continue;
		}
		m.len = 0;
		for (i = 0; i < n; i++) {
			const struct op *op = any_op();
			uint16_t flags = rnd(&rng, 8) ? NLM_F_ACK : rnd64(&rng) & 0xf00;

			if (op->dump && !rnd(&rng, 3)) {
				flags = NLM_F_DUMP;
				fuzz_count(&stats->dumps);
			}
			put(&m, op, flags, e, flags == NLM_F_DUMP && rnd(&rng, 4) ?
			    0 : request(op, e), judge);
		}
		if (!judge)
			noise(&m);
		send(fd, m.buf, m.len, MSG_DONTWAIT);
		fuzz_count(&stats->sent);
		/* Requests are done when send() returns, but for the rest of a dump. */
		while (drain(fd, sizeof(m.buf), 50) == 50)
			;
	}
	_exit(0);
}

static void find_family(void)
{
	struct {
		struct nlmsghdr h;
		struct genlmsghdr g;
		struct nlattr a;
		char name[12];
	} ask = {
		.h = { sizeof(ask), GENL_ID_CTRL, NLM_F_REQUEST, 1, 0 },
		.g = { CTRL_CMD_GETFAMILY, 1, 0 },
		.a = { NLA_HDRLEN + sizeof("rdma_agg"), CTRL_ATTR_FAMILY_NAME },
		.name = "rdma_agg",
	};
	static uint8_t buf[1 << 15];
	int fd = open_socket();
	ssize_t len, at;

	send(fd, &ask, sizeof(ask), 0);
	len = recv(fd, buf, sizeof(buf), 0);
	/* Attributes begin behind both headers; the groups come last. */
	for (at = NLMSG_HDRLEN + GENL_HDRLEN; at + 4 <= len; ) {
		struct nlattr *a = (void *)(buf + at);

		if (a->nla_len < 4)
			break;
		if ((a->nla_type & NLA_TYPE_MASK) == CTRL_ATTR_FAMILY_ID)
			family = *(uint16_t *)(a + 1);
		if ((a->nla_type & NLA_TYPE_MASK) == CTRL_ATTR_MCAST_GROUPS) {
			struct nlattr *g = a + 2;	/* in the first group */

			while ((uint8_t *)g < buf + at + a->nla_len && g->nla_len >= 4) {
				if (g->nla_type == CTRL_ATTR_MCAST_GRP_ID)
					group = *(uint32_t *)(g + 1);
				g = (void *)((uint8_t *)g + NLA_ALIGN(g->nla_len));
			}
		}
		at += NLA_ALIGN(a->nla_len);
	}
	close(fd);
	if (!family || !group)
		die("no family rdma_agg, or it has no group");
}

int main(int argc, char **argv)
{
	struct fuzz_opts o;
	pid_t pid[WORKERS];
	uint64_t done = 0;
	unsigned int i;
	int rc = 0;

	progname = "fuzz_nl";
	fuzz_options(argc, argv, &o);
	if (!o.spec)
		die("usage: fuzz_nl --spec FILE [--seed N] [--seconds N]");
	if (geteuid())
		die("only root can do what is right");
	read_spec(o.spec);
	stats = fuzz_shared(sizeof(*stats));
	rng = o.seed;
	find_family();
	for (i = 0; i < WORKERS; i++) {
		pid[i] = fuzz_fork();
		if (pid[i])
			continue;
		privileged = i;
		if (!privileged && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
			die_errno("to become nobody");
		worker(o.seed + i, o.seconds);
	}
	for (i = 0; i < WORKERS; i++) {
		int status = fuzz_reap(pid[i], (o.seconds + 60) * 1000);

		if (status) {
			printf("worker %u ended with status 0x%x\n", i, status);
			rc = 1;
		}
	}
	if (stats->complaint[0]) {
		printf("%s\n", stats->complaint);
		rc = 1;
	}
	for (i = 0; i < nr_ops; i++) {
		done += stats->done[i];
		printf("# %s: %llu done, %llu refused\n", ops[i].name,
		       (unsigned long long)stats->done[i], (unsigned long long)stats->refused[i]);
		/* On a slow machine there may be few. */
		if ((!stats->done[i] || !stats->refused[i]) &&
		    stats->done[i] + stats->refused[i] > 1000) {
			printf("%s: never done, or never refused\n", ops[i].name);
			rc = 1;
		}
	}
	printf("# %llu messages, %llu dumps, %llu torn, %llu with noise\n",
	       (unsigned long long)stats->sent, (unsigned long long)stats->dumps,
	       (unsigned long long)stats->torn, (unsigned long long)stats->noise);
	if (done < 20)
		die("only %llu requests were done", (unsigned long long)done);
	return rc;
}
