// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receives that nobody tells the kernel of.  ibv_post_recv() and ibv_poll_cq()
 * of the soft-RoCE provider only touch shared memory; so a receiver may live
 * without one system call on its device, and every receive it posts must be
 * found all the same: at once, not with luck.
 *
 * Two processes, one QP each.  The receiver only posts and polls; the sender
 * sends one by one or in bursts, faster or slower than receives come.  Every
 * message is checked, and the time from a receive that a SEND waits for to its
 * completion is measured.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define MSG		48
#define DEPTH		32

struct phase {
	const char *name;
	unsigned int outstanding;	/* receives kept posted */
	unsigned int batch;		/* receives posted at once, at most */
	unsigned int burst;		/* SENDs in one post, at most */
	unsigned int recv_delay;	/* us, at most, before a receive is posted */
	unsigned int send_delay;	/* us, at most, before a burst */
	unsigned int share;		/* of the messages, in percent */
};

static const struct phase phases[] = {
	{ "one receive, posted late", 1, 1, 1, 300, 0, 25 },
	{ "one receive, posted at once", 1, 1, 1, 0, 0, 15 },
	{ "one receive, bursts of SENDs", 1, 1, 16, 100, 0, 15 },
	{ "few receives, slow sender", 3, 1, 1, 0, 500, 10 },
	{ "many receives, refilled one by one", 32, 1, 8, 20, 100, 15 },
	{ "many receives, refilled in batches", 32, 32, 32, 1000, 0, 20 },
};

/* One end, in its process. */
struct end {
	struct dev dev;
	struct ibv_pd *pd;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
	int ctl;
	uint64_t rng;
};

static unsigned int total = 20000;
static unsigned int deadline_ms = 10000;
static uint64_t seed = 1;
static const char *dev_name, *gid_name;

static void pause_us(struct end *e, unsigned int most)
{
	uint64_t us = most ? rnd(&e->rng, most + 1) : 0, end;

	if (!us)
		return;
	if (rnd(&e->rng, 2)) {
		struct timespec ts = { .tv_nsec = us * 1000 };

		nanosleep(&ts, NULL);
		return;
	}
	for (end = now_us() + us; now_us() < end;)
		;
}

static void end_open(struct end *e, int ctl)
{
	struct qp_param param = QP_PARAM_DEFAULT;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { DEPTH, DEPTH, 1, 1, MSG },
	};
	struct qp_conn mine, peer;
	char sync = 0;
	int err;

	e->ctl = ctl;
	e->rng = seed + ctl;
	dev_open(&e->dev, dev_name, gid_name);
	e->pd = ibv_alloc_pd(e->dev.ctx);
	e->scq = ibv_create_cq(e->dev.ctx, DEPTH, NULL, NULL, 0);
	e->rcq = ibv_create_cq(e->dev.ctx, DEPTH, NULL, NULL, 0);
	e->buf = mmap(NULL, DEPTH * MSG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!e->pd || !e->scq || !e->rcq || e->buf == MAP_FAILED)
		die_errno("setup");
	e->mr = ibv_reg_mr(e->pd, e->buf, DEPTH * MSG, IBV_ACCESS_LOCAL_WRITE);
	attr.send_cq = e->scq;
	attr.recv_cq = e->rcq;
	e->qp = ibv_create_qp(e->pd, &attr);
	if (!e->mr || !e->qp)
		die_errno("setup");
	mine = (struct qp_conn){ e->qp->qp_num, 77, e->dev.gid };
	fd_write(ctl, &mine, sizeof(mine));
	fd_read(ctl, &peer, sizeof(peer));
	param.min_rnr_timer = 1;	/* 10 us */
	param.timeout = 18;
	err = qp_init(&e->dev, e->qp, &param) ?: qp_rtr(&e->dev, e->qp, &param, &peer) ?:
	      qp_rts(e->qp, &param, mine.psn);
	if (err)
		die("modify_qp: %s", strerror(err));
	fd_write(ctl, &sync, 1);
	fd_read(ctl, &sync, 1);
}

static void end_close(struct end *e)
{
	char sync = 0;

	fd_write(e->ctl, &sync, 1);
	fd_read(e->ctl, &sync, 1);
	if (ibv_destroy_qp(e->qp) || ibv_destroy_cq(e->scq) || ibv_destroy_cq(e->rcq) ||
	    ibv_dereg_mr(e->mr) || ibv_dealloc_pd(e->pd))
		die_errno("objects cannot be freed");
	dev_close(&e->dev);
}

/*
 * The receive was not found.  Would it be, if the kernel had a reason to look?
 * That tells a wake-up that was lost from a device that is stuck.
 */
static void __noreturn lost(struct end *e, const char *where, uint64_t n)
{
	struct ibv_wc wc;
	bool came;

	came = ibv_poll_cq(e->rcq, 1, &wc) == 1;
	if (came)
		die("%s: message %llu: it came just after %u ms", where, (unsigned long long)n,
		    deadline_ms);
	ibv_req_notify_cq(e->rcq, 0);
	came = cq_wait(e->rcq, &wc, 3000);
	die("%s: message %llu: nothing came within %u ms of the receive; after req_notify_cq it %s",
	    where, (unsigned long long)n, deadline_ms, came ? "came" : "did not come either");
}

static void post_one(struct end *e, uint64_t seq)
{
	uint8_t *at = e->buf + seq % DEPTH * MSG;
	struct ibv_sge sge = { (uintptr_t)at, MSG, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = seq, .sg_list = &sge, .num_sge = 1 }, *bad;
	int err;

	memset(at, 0, MSG);
	err = ibv_post_recv(e->qp, &wr, &bad);
	if (err)
		die("post_recv: %s", strerror(err));
}

static void check_one(struct end *e, uint64_t seq, const struct ibv_wc *wc)
{
	if (wc->status)
		die("message %llu: %s", (unsigned long long)seq, ibv_wc_status_str(wc->status));
	if (wc->wr_id != seq || wc->byte_len != MSG)
		die("message %llu: completion of receive %llu, %u bytes", (unsigned long long)seq,
		    (unsigned long long)wc->wr_id, wc->byte_len);
	if (pattern_check(e->buf + seq % DEPTH * MSG, seq, 0, MSG) >= 0)
		die("message %llu: wrong content", (unsigned long long)seq);
}

/* The next @n messages of the sender. */
static void send_some(struct end *e, uint64_t seq, unsigned int n)
{
	struct ibv_send_wr wr[DEPTH], *bad;
	struct ibv_sge sge[DEPTH];
	struct ibv_wc wc;
	unsigned int i;
	int err;

	for (i = 0; i < n; i++) {
		uint8_t *at = e->buf + (seq + i) % DEPTH * MSG;

		pattern_fill(at, seq + i, 0, MSG);
		sge[i] = (struct ibv_sge){ (uintptr_t)at, MSG, e->mr->lkey };
		memset(&wr[i], 0, sizeof(wr[i]));
		wr[i].wr_id = seq + i;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	err = ibv_post_send(e->qp, wr, &bad);
	if (err)
		die("post_send: %s", strerror(err));
	for (i = 0; i < n; i++) {
		if (!cq_wait(e->scq, &wc, deadline_ms + 5000))
			die("SEND %llu: no completion", (unsigned long long)seq + i);
		if (wc.status || wc.wr_id != seq + i)
			die("SEND %llu: %s, wr_id %llu", (unsigned long long)seq + i,
			    ibv_wc_status_str(wc.status), (unsigned long long)wc.wr_id);
	}
}

static unsigned int messages(const struct phase *p)
{
	return umax((uint64_t)total * p->share / 100, 1);
}

static void run_sender(int ctl)
{
	static struct end e;
	uint64_t seq = 0, last = 0;
	unsigned int i, n;
	char sync = 0;

	progname = "trap sender";
	end_open(&e, ctl);
	for (i = 0; i < ARRAY_SIZE(phases); i++) {
		const struct phase *p = &phases[i];

		last += messages(p);
		while (seq < last) {
			pause_us(&e, p->send_delay);
			n = umin(1 + rnd(&e.rng, p->burst), last - seq);
			send_some(&e, seq, n);
			seq += n;
		}
		fd_read(ctl, &sync, 1);
		fd_write(ctl, &sync, 1);
	}
	/* Those that a forked child's receives wait for. */
	for (i = 0; i < 100; i++)
		send_some(&e, seq++, 1);
	end_close(&e);
}

static void forks(struct end *e, uint64_t seq);

static void run_receiver(int ctl)
{
	static struct end e;
	uint64_t seq = 0, posted = 0, last = 0;
	unsigned int i, n;
	char sync = 0;

	progname = "trap receiver";
	end_open(&e, ctl);
	for (i = 0; i < ARRAY_SIZE(phases); i++) {
		const struct phase *p = &phases[i];
		uint64_t sum = 0, worst = 0, start = now_us(), from = seq, when[DEPTH];

		last += messages(p);
		while (seq < last) {
			struct ibv_wc wc;
			uint64_t us;

			/* Refill; then wait for the oldest. */
			if (posted < last && (posted == seq ||
			    posted - seq <= p->outstanding - umin(p->batch, p->outstanding))) {
				pause_us(&e, p->recv_delay);
				n = 1 + rnd(&e.rng, p->batch);
				while (n-- && posted < last && posted - seq < p->outstanding) {
					when[posted % DEPTH] = now_us();
					post_one(&e, posted++);
				}
			}
			if (!cq_wait(e.rcq, &wc, deadline_ms))
				lost(&e, p->name, seq - from);
			us = now_us() - when[seq % DEPTH];
			sum += us;
			worst = umax(worst, us);
			check_one(&e, seq++, &wc);
		}
		printf("%s: %llu messages in %llu ms; from receive to completion %llu us on average, %llu us at most\n",
		       p->name, (unsigned long long)(seq - from),
		       (unsigned long long)(now_us() - start) / 1000,
		       (unsigned long long)(sum / (seq - from)), (unsigned long long)worst);
		fflush(stdout);
		fd_write(ctl, &sync, 1);
		fd_read(ctl, &sync, 1);
	}
	forks(&e, seq);
	end_close(&e);
}

/*
 * A child inherits the mapping.  What it posts counts, whether it lives on or
 * not, and the parent's receives are found as before.
 */
static void forks(struct end *e, uint64_t seq)
{
	pid_t pid, child[10];
	struct ibv_wc wc;
	unsigned int i;
	int status;

	for (i = 0; i < 100; i++) {
		pid = i % 10 ? 1 : fork();
		if (pid < 0)
			die_errno("fork");
		if (pid == 0) {
			if (i % 20 == 0)
				post_one(e, seq);
			/* Some stay for a while, with the mapping. */
			if (i % 40 == 0)
				usleep(100000);
			_exit(0);
		}
		if (i % 10 == 0)
			child[i / 10] = pid;
		if (i % 20)
			post_one(e, seq);
		if (!cq_wait(e->rcq, &wc, deadline_ms))
			lost(e, "after a fork", i);
		/* The child's memory is not ours: only its completion counts. */
		if (i % 20)
			check_one(e, seq, &wc);
		else if (wc.status || wc.wr_id != seq)
			die("a child's receive: %s, wr_id %llu", ibv_wc_status_str(wc.status),
			    (unsigned long long)wc.wr_id);
		seq++;
	}
	for (i = 0; i < ARRAY_SIZE(child); i++)
		waitpid(child[i], &status, 0);
	printf("forks: 100 messages\n");
}

/*
 * The receiver dies while a SEND waits for a receive, that is, while the trap
 * is armed; the sender then fails or is killed.
 */
static void deaths(unsigned int times)
{
	unsigned int i;
	int sv[2], status;
	pid_t r, s;

	for (i = 0; i < times; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv))
			die_errno("socketpair");
		s = fork();
		if (s == 0) {
			static struct end e;

			close(sv[1]);
			progname = "trap sender";
			end_open(&e, sv[0]);
			/* The second one has no receive. */
			send_some(&e, 0, 1);
			send_some(&e, 1, 1);
			_exit(0);
		}
		r = fork();
		if (r == 0) {
			static struct end e;
			struct ibv_wc wc;

			close(sv[0]);
			progname = "trap receiver";
			end_open(&e, sv[1]);
			post_one(&e, 0);
			if (!cq_wait(e.rcq, &wc, deadline_ms))
				die("before its death: nothing came");
			if (i % 3 == 0)
				usleep(20000);
			if (i % 3 == 1)
				_exit(0);
			raise(SIGKILL);
		}
		close(sv[0]);
		close(sv[1]);
		if (r < 0 || s < 0)
			die_errno("fork");
		waitpid(r, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status))
			die("the receiver failed before its death");
		if (i & 1)
			usleep(20000);
		kill(s, SIGKILL);
		waitpid(s, &status, 0);
	}
	printf("deaths: %u\n", times);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "dev", required_argument, NULL, 'd' },
		{ "gid", required_argument, NULL, 'g' },
		{ "count", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "deadline", required_argument, NULL, 'D' },
		{ "deaths", required_argument, NULL, 'k' },
		{ }
	};
	unsigned int kills = 10;
	int opt, sv[2], status;
	pid_t pid;

	progname = "trap";
	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((opt = getopt_long(argc, argv, "d:g:n:s:D:k:", longs, NULL)) != -1) {
		switch (opt) {
		case 'd':
			dev_name = optarg;
			break;
		case 'g':
			gid_name = optarg;
			break;
		case 'n':
			total = parse_size(optarg);
			break;
		case 's':
			seed = parse_size(optarg);
			break;
		case 'D':
			deadline_ms = parse_size(optarg);
			break;
		case 'k':
			kills = parse_size(optarg);
			break;
		default:
			dev_name = NULL;
			goto usage;
		}
	}
usage:
	if (!dev_name || optind < argc) {
		fprintf(stderr, "usage: trap --dev DEVICE [--gid GID] [--count MESSAGES] [--seed N]\n"
			"            [--deadline MS] [--deaths N]\n");
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv))
		die_errno("socketpair");
	pid = fork();
	if (pid < 0)
		die_errno("fork");
	if (pid == 0) {
		close(sv[1]);
		run_sender(sv[0]);
		return 0;
	}
	close(sv[0]);
	run_receiver(sv[1]);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
		die("the sender failed");
	close(sv[1]);
	deaths(kills);
	printf("end\n");
	return 0;
}
