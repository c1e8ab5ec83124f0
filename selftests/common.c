// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

const char *progname = "?";
void (*die_hook)(const char *text);

static void vdie(int err, const char *fmt, va_list ap)
{
	char text[512];
	size_t n;

	vsnprintf(text, sizeof(text), fmt, ap);
	n = strlen(text);
	if (err)
		snprintf(text + n, sizeof(text) - n, ": %s", strerror(err));
	fflush(stdout);
	fprintf(stderr, "%s: %s\n", progname, text);
	if (die_hook) {
		void (*hook)(const char *) = die_hook;

		die_hook = NULL;
		hook(text);
	}
	_exit(1);
}

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vdie(0, fmt, ap);
	va_end(ap);
	abort();
}

void die_errno(const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	va_start(ap, fmt);
	vdie(err ? err : EIO, fmt, ap);
	va_end(ap);
	abort();
}

/* Word @i of the pattern: neighbouring keys and words share no bytes to speak of. */
static inline uint64_t pattern_word(uint64_t key, uint64_t i)
{
	uint64_t w = (key ^ i) * 0x9e3779b97f4a7c15ULL;

	return w ^ (w >> 32) ^ key;
}

uint8_t pattern_byte(uint64_t key, uint64_t off)
{
	return pattern_word(key, off >> 3) >> (8 * (off & 7));
}

void pattern_fill(void *buf, uint64_t key, uint64_t off, size_t len)
{
	uint8_t *p = buf;

	for (; len && (off & 7); len--)
		*p++ = pattern_byte(key, off++);
	for (; len >= 8; len -= 8, p += 8, off += 8) {
		uint64_t w = htole64(pattern_word(key, off >> 3));

		memcpy(p, &w, 8);
	}
	for (; len; len--)
		*p++ = pattern_byte(key, off++);
}

int64_t pattern_check(const void *buf, uint64_t key, uint64_t off, size_t len)
{
	const uint8_t *p = buf;
	size_t i = 0;

	for (; i < len && ((off + i) & 7); i++)
		if (p[i] != pattern_byte(key, off + i))
			return i;
	for (; i + 8 <= len; i += 8) {
		uint64_t w;

		memcpy(&w, p + i, 8);
		if (le64toh(w) != pattern_word(key, (off + i) >> 3))
			break;
	}
	for (; i < len; i++)
		if (p[i] != pattern_byte(key, off + i))
			return i;
	return -1;
}

int64_t fill_check(const void *buf, uint8_t value, size_t len)
{
	const uint8_t *p = buf;

	if (!len)
		return -1;
	if (p[0] == value && !memcmp(p, p + 1, len - 1))
		return -1;
	for (size_t i = 0; i < len; i++)
		if (p[i] != value)
			return i;
	return -1;
}

uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ULL + ts.tv_nsec / 1000;
}

/* ------------------------------------------------------------- device */

static int find_gid(struct dev *dev, const union ibv_gid *want)
{
	int any = -1, i;

	for (i = 0; i < dev->port.gid_tbl_len; i++) {
		struct ibv_gid_entry e;
		const uint8_t *r = e.gid.raw;

		if (ibv_query_gid_ex(dev->ctx, 1, i, &e, 0))
			continue;
		if (e.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (want) {
			if (!memcmp(&e.gid, want, 16))
				return i;
			continue;
		}
		if (any < 0)
			any = i;
		if (!memcmp(r, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12))
			return i;
	}
	return any;
}

static bool parse_gid(const char *s, union ibv_gid *gid)
{
	struct in_addr v4;

	if (inet_pton(AF_INET6, s, gid->raw) == 1)
		return true;
	if (inet_pton(AF_INET, s, &v4) != 1)
		return false;
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = 0xff;
	gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &v4, 4);
	return true;
}

void dev_open(struct dev *dev, const char *name, const char *gid)
{
	struct ibv_device **list, *found = NULL;
	union ibv_gid want;
	char *end;
	int n = 0, i, err;

	memset(dev, 0, sizeof(*dev));
	dev->name = name;
	list = ibv_get_device_list(&n);
	for (i = 0; list && i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			found = list[i];
	if (!found)
		die("no device %s", name);
	errno = 0;
	dev->ctx = ibv_open_device(found);
	if (!dev->ctx)
		die_errno("open %s", name);
	ibv_free_device_list(list);
	err = ibv_query_device(dev->ctx, &dev->attr);
	if (err)
		die("query_device %s: %s", name, strerror(err));
	err = ibv_query_port(dev->ctx, 1, &dev->port);
	if (err)
		die("query_port %s: %s", name, strerror(err));
	if (!gid) {
		dev->gid_index = find_gid(dev, NULL);
	} else if (parse_gid(gid, &want)) {
		dev->gid_index = find_gid(dev, &want);
	} else {
		dev->gid_index = strtol(gid, &end, 0);
		if (*end || end == gid)
			die("%s is neither a GID index nor an address", gid);
	}
	if (dev->gid_index < 0)
		die("%s has no RoCE v2 GID%s%s", name, gid ? " of " : "", gid ? gid : "");
	err = ibv_query_gid(dev->ctx, 1, dev->gid_index, &dev->gid);
	if (err)
		die("%s: no GID %d", name, dev->gid_index);
}

void dev_close(struct dev *dev)
{
	if (ibv_close_device(dev->ctx))
		die_errno("close %s", dev->name);
	dev->ctx = NULL;
}

/* ---------------------------------------------------------------- QPs */

int qp_init(struct dev *dev, struct ibv_qp *qp, const struct qp_param *p)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = p->access,
	};

	(void)dev;
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_ACCESS_FLAGS);
}

int qp_rtr(struct dev *dev, struct ibv_qp *qp, const struct qp_param *p, const struct qp_conn *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = p->mtu ? p->mtu : dev->port.active_mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = p->rd_atomic,
		.min_rnr_timer = p->min_rnr_timer,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = peer->gid,
				.sgid_index = dev->gid_index,
				.hop_limit = 64,
				.traffic_class = p->traffic_class,
			},
		},
	};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER);
}

int qp_rts(struct ibv_qp *qp, const struct qp_param *p, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = p->timeout,
		.retry_cnt = p->retry_cnt,
		.rnr_retry = p->rnr_retry,
		.max_rd_atomic = p->rd_atomic,
	};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int qp_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void qp_connect_pair2(struct dev *da, struct ibv_qp *a, struct dev *db, struct ibv_qp *b,
		      const struct qp_param *p)
{
	struct qp_conn ca = { a->qp_num, (a->qp_num * 7919) & 0xffffff, da->gid };
	struct qp_conn cb = { b->qp_num, (b->qp_num * 104729) & 0xffffff, db->gid };
	int err;

	err = qp_init(da, a, p);
	if (!err)
		err = qp_init(db, b, p);
	if (err)
		die("modify_qp to INIT: %s", strerror(err));
	err = qp_rtr(da, a, p, &cb);
	if (!err)
		err = qp_rtr(db, b, p, &ca);
	if (err)
		die("modify_qp to RTR: %s", strerror(err));
	err = qp_rts(a, p, ca.psn);
	if (!err)
		err = qp_rts(b, p, cb.psn);
	if (err)
		die("modify_qp to RTS: %s", strerror(err));
}

void qp_connect_pair(struct dev *dev, struct ibv_qp *a, struct ibv_qp *b, const struct qp_param *p)
{
	qp_connect_pair2(dev, a, dev, b, p);
}

bool cq_wait(struct ibv_cq *cq, struct ibv_wc *wc, unsigned int ms)
{
	uint64_t end = now_us() + ms * 1000ULL;
	struct timespec pause = { .tv_nsec = 50000 };
	unsigned int i;
	int n;

	for (i = 0;; i++) {
		n = ibv_poll_cq(cq, 1, wc);
		if (n < 0)
			die("poll_cq failed");
		if (n)
			return true;
		if (now_us() > end)
			return false;
		/* Two that only poll starve the kernel's threads of a small machine. */
		if (i < 50)
			sched_yield();
		else
			nanosleep(&pause, NULL);
	}
}

const char *wc_opcode_str(enum ibv_wc_opcode op)
{
	static const char *const names[] = {
		[IBV_WC_SEND] = "SEND",
		[IBV_WC_RDMA_WRITE] = "RDMA_WRITE",
		[IBV_WC_RDMA_READ] = "RDMA_READ",
		[IBV_WC_COMP_SWAP] = "COMP_SWAP",
		[IBV_WC_FETCH_ADD] = "FETCH_ADD",
		[IBV_WC_RECV] = "RECV",
		[IBV_WC_RECV_RDMA_WITH_IMM] = "RECV_RDMA_WITH_IMM",
	};

	return (unsigned int)op < ARRAY_SIZE(names) && names[op] ? names[op] : "other";
}

/* ---------------------------------------------------------------- TCP */

int tcp_accept(int port, unsigned int timeout_s)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int fd, one = 1, conn;
	struct pollfd pfd;

	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die_errno("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, 1))
		die_errno("port %d", port);
	pfd.fd = fd;
	pfd.events = POLLIN;
	if (poll(&pfd, 1, timeout_s * 1000) != 1)
		die("no client within %u s", timeout_s);
	conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	if (conn < 0)
		die_errno("accept");
	close(fd);
	setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return conn;
}

int tcp_connect(const char *host, int port, unsigned int timeout_s)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai, *a;
	uint64_t end = now_us() + timeout_s * 1000000ULL;
	struct timespec pause = { .tv_nsec = 50000000 };
	int fd = -1, one = 1, err;
	char service[16];

	snprintf(service, sizeof(service), "%d", port);
	err = getaddrinfo(host, service, &hints, &ai);
	if (err)
		die("%s: %s", host, gai_strerror(err));
	for (;;) {
		for (a = ai; a; a = a->ai_next) {
			fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
			if (fd < 0)
				die_errno("socket");
			if (!connect(fd, a->ai_addr, a->ai_addrlen)) {
				freeaddrinfo(ai);
				setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
				return fd;
			}
			close(fd);
		}
		if (now_us() > end)
			die_errno("connect %s port %d", host, port);
		nanosleep(&pause, NULL);
	}
}

void fd_write(int fd, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die_errno("the other end is gone");
		p += n;
		len -= n;
	}
}

void fd_read(int fd, void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len) {
		ssize_t n = read(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			die("the other end closed the connection");
		if (n < 0)
			die_errno("the other end is gone");
		p += n;
		len -= n;
	}
}

uint64_t parse_size(const char *s)
{
	char *end;
	uint64_t v = strtoull(s, &end, 0);

	if (end == s)
		die("%s is not a size", s);
	switch (tolower((unsigned char)*end)) {
	case 'k':
		v <<= 10;
		break;
	case 'm':
		v <<= 20;
		break;
	case 0:
		return v;
	default:
		die("%s is not a size", s);
	}
	if (end[1])
		die("%s is not a size", s);
	return v;
}
