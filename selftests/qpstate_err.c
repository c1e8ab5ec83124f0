// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* qpstate: what goes wrong on the way, and what both ends get to know of it. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "qpstate.h"

/* -------------------------------------------------------------------- RNR */

/* "case: what: part: outcome" */
#define say2(what, part, ...) \
	do { \
		char text[128]; \
		\
		snprintf(text, sizeof(text), "%s: %s", what, part); \
		say(text, __VA_ARGS__); \
	} while (0)

static void rnr_finite(unsigned int retry, enum ibv_wr_opcode op, const char *what)
{
	struct pair p;
	uint64_t t;
	int err;

	pair_make(&p, NULL);
	p.param.rnr_retry = retry;
	p.param.min_rnr_timer = 1;
	pair_connect(&p);
	t = now_us();
	err = post(&p, &p.a, &(struct req){ op, 1, 0, 64 });
	if (err)
		say2(what, "post_send", "%s", err_name(err));
	post(&p, &p.a, &(struct req){ op, 2, 0, 64, .flags = -1 });
	say2(what, "completions", "%s", completions(p.a.scq, 2));
	t = now_us() - t;
	/* Slow machines; a bound all the same. */
	say2(what, "when", "%s", t < 6000000 ? "in time" : "too late");
	say2(what, "states", "sender %s, receiver %s", await_state(&p.a, IBV_QPS_ERR), side_state(&p.b));
	pair_free(&p);
}

void case_rnr(void)
{
	struct ibv_wc wc;
	struct pair p;
	unsigned int i;

	rnr_finite(0, IBV_WR_SEND, "SEND, no receive, rnr_retry 0");
	rnr_finite(1, IBV_WR_SEND, "SEND, no receive, rnr_retry 1");
	rnr_finite(3, IBV_WR_SEND_WITH_IMM, "SEND_WITH_IMM, no receive, rnr_retry 3");
	rnr_finite(1, IBV_WR_RDMA_WRITE_WITH_IMM, "WRITE_WITH_IMM, no receive, rnr_retry 1");

	/*
	 * Without an end it waits; the receive is posted late and from user
	 * space alone, with no system call of this QP before or after.
	 */
	for (i = 0; i < 3; i++) {
		pair_new(&p);
		post(&p, &p.a, &(struct req){ i == 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND,
		     1, 0, 64, .roff = 64 });
		say("rnr_retry 7, before the receive", "%s", cq_wait(p.a.scq, &wc, 300) ?
		    status_name(wc.status) : "waits");
		if (i)
			usleep(700000);
		post_recv(&p.b, 1, 0, 64, 0);
		say("rnr_retry 7, after it", "%s %s", completion(p.a.scq, NULL),
		    completion(p.b.rcq, NULL));
		say("rnr_retry 7, afterwards", "%s", still_works(&p));
		pair_free(&p);
	}
	/* Finite, but the receive comes in time. */
	pair_make(&p, NULL);
	p.param.rnr_retry = 6;
	p.param.min_rnr_timer = 30;	/* 328 ms */
	pair_connect(&p);
	post(&p, &p.a, &(struct req){ IBV_WR_SEND, 1, 0, 64 });
	usleep(100000);
	post_recv(&p.b, 1, 0, 64, 0);
	say("rnr_retry 6, receive in time", "%s %s", completion(p.a.scq, NULL),
	    completion(p.b.rcq, NULL));
	pair_free(&p);
	say("events", "%s", events(0));
}

/* ----------------------------------------------------------------- errors */

static struct ibv_mr *mr_local, *mr_none, *mr_small, *mr_other_pd, *mr_write, *mr_read;
static struct ibv_pd *pd2;
static uint32_t dead_key;

/*
 * A good request, a bad one and another on a fresh pair.  @recv: what b posts
 * for each of them.
 */
static void bad(const char *what, const struct req *r, uint32_t recv_lkey, uint32_t recv_len,
		int access, bool local)
{
	bool has_recv = r->op == IBV_WR_SEND || r->op == IBV_WR_SEND_WITH_IMM ||
			r->op == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct req first = { IBV_WR_RDMA_WRITE, 1, 0, 8, .roff = 1 << 20 };
	struct req last = { IBV_WR_RDMA_WRITE, 3, 0, 8, .roff = 1 << 20 };
	struct req second = *r;
	struct pair p;
	int err;

	pair_make(&p, NULL);
	if (access >= 0)
		p.param.access = access;
	pair_connect(&p);
	if (access >= 0 && !(access & IBV_ACCESS_REMOTE_WRITE)) {
		/* A WRITE of nothing needs no leave. */
		first.len = 0;
		last.len = 0;
	}
	if (has_recv) {
		post_recv(&p.b, 11, 4096, recv_len, recv_lkey);
		post_recv(&p.b, 12, 4096, 4096, 0);
	}
	second.id = 2;
	post(&p, &p.a, &first);
	err = post(&p, &p.a, &second);
	post(&p, &p.a, &last);
	if (err) {
		say2(what, "post_send", "%s", err_name(err));
		say2(what, "others", "%s", completions(p.a.scq, 2));
	} else {
		say2(what, "sends", "%s", completions(p.a.scq, 3));
		say2(what, "sender", "%s", await_state(&p.a, IBV_QPS_ERR));
	}
	/* Where the fault is the sender's the receives stay. */
	if (has_recv)
		say2(what, "receives", "%s", completions(p.b.rcq, local ? 0 : 2));
	else
		usleep(50000);
	/* A responder in error knows it at the latest when it sends. */
	if (!err && !local) {
		post(&p, &p.b, &(struct req){ IBV_WR_RDMA_WRITE, 4, 0, 8, .roff = 1 << 20 });
		say2(what, "responder's own request", "%s", completions(p.b.scq, 1));
		await_state(&p.b, IBV_QPS_ERR);
	}
	say2(what, "responder", "%s", side_state(&p.b));
	say2(what, "events", "%s", events(0));
	pair_free(&p);
}

static void unsignaled_failure(void)
{
	struct pair p;

	pair_new(&p);
	post(&p, &p.a, &(struct req){ IBV_WR_RDMA_WRITE, 1, 0, 8, .flags = -1 });
	post(&p, &p.a, &(struct req){ IBV_WR_RDMA_WRITE, 2, 0, 8, .flags = -1, .rkey = dead_key });
	post(&p, &p.a, &(struct req){ IBV_WR_RDMA_WRITE, 3, 0, 8, .flags = -1 });
	say("an unsignalled one fails", "%s", completions(p.a.scq, 2));
	pair_free(&p);
}

/*
 * The lane flushes both; the READ may not be called a success without its data
 * because the fault of the request behind it is plain.
 */
static void read_before_fault(void)
{
	const uint32_t len = 60000;
	struct utsname host;
	bool lied = false;
	struct ibv_wc wc;
	struct pair p;
	uint32_t i;
	int n;

	/*
	 * Here soft-RoCE of 6.1 can leave the READ where it is: its requester is in
	 * error and repeats nothing, its completer waits.
	 */
	if (!uname(&host) && !strncmp(host.release, "6.1.", 4))
		return;
	for (n = 0; n < 20; n++) {
		pair_new(&p);
		memset(p.a.mem, 0xa5, len);
		memset(p.b.mem, 0x5a, len);
		post(&p, &p.a, &(struct req){ IBV_WR_RDMA_READ, 1, 0, len });
		post(&p, &p.a, &(struct req){ IBV_WR_SEND, 2, 0, 64, .lkey = 0x7fff1234 });
		if (!cq_wait(p.a.scq, &wc, 20000) || wc.wr_id != 1)
			die("a READ before a fault: no completion");
		for (i = 0; i < len; i++)
			lied |= wc.status == IBV_WC_SUCCESS && p.a.mem[i] != 0x5a;
		pair_free(&p);
	}
	say("a READ before a fault", "%s", lied ? "success without its data" : "as it ended");
}

/* The other end's death is seen by the retry counter. */
static void peer_gone(void)
{
	struct pair p;

	pair_make(&p, NULL);
	p.param.timeout = 10;
	p.param.retry_cnt = 2;
	pair_connect(&p);
	say("before the peer goes", "%s", still_works(&p));
	qp_to(p.b.qp, IBV_QPS_ERR);
	post(&p, &p.a, &(struct req){ IBV_WR_RDMA_WRITE, 1, 0, 8 });
	say("a WRITE to a QP in ERR", "%s, then %s", completion(p.a.scq, NULL),
	    await_state(&p.a, IBV_QPS_ERR));
	pair_free(&p);
}

void case_errors(void)
{
	const int all = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_mr *dead;

	mr_local = ibv_reg_mr(pd, buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE);
	mr_none = ibv_reg_mr(pd, buf, BUF_LEN, 0);
	mr_small = ibv_reg_mr(pd, buf + HALF, 4096, IBV_ACCESS_LOCAL_WRITE | all);
	mr_write = ibv_reg_mr(pd, buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	mr_read = ibv_reg_mr(pd, buf, BUF_LEN, IBV_ACCESS_REMOTE_READ);
	pd2 = ibv_alloc_pd(dev.ctx);
	if (!pd2)
		die_errno("alloc_pd");
	mr_other_pd = ibv_reg_mr(pd2, buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE | all);
	dead = ibv_reg_mr(pd, buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE | all);
	if (!mr_local || !mr_none || !mr_small || !mr_other_pd || !mr_write || !mr_read || !dead)
		die_errno("reg_mr");
	dead_key = dead->rkey;
	if (ibv_dereg_mr(dead))
		die_errno("dereg_mr");

#define BAD_HERE(what, ...) bad(what, &(struct req){ __VA_ARGS__ }, 0, 4096, -1, true)
#define BAD(what, ...) bad(what, &(struct req){ __VA_ARGS__ }, 0, 4096, -1, false)
	BAD_HERE("SEND, unknown lkey", IBV_WR_SEND, .len = 64, .lkey = 0x7fff1234);
	BAD_HERE("SEND, lkey of a MR that is gone", IBV_WR_SEND, .len = 64, .lkey = dead_key);
	BAD_HERE("SEND, lkey of another PD", IBV_WR_SEND, .len = 64, .lkey = mr_other_pd->lkey);
	BAD_HERE("SEND, beyond the MR", IBV_WR_SEND, .off = BUF_LEN - 32, .len = 64);
	BAD_HERE("SEND, before the MR", IBV_WR_SEND, .addr = (uintptr_t)buf - 64, .len = 64);
	BAD_HERE("SEND, at the end of the address space", IBV_WR_SEND, .addr = ~0ULL - 63, .len = 64);
	BAD_HERE("WRITE, unknown lkey", IBV_WR_RDMA_WRITE, .len = 64, .lkey = 0x7fff1234);
	BAD_HERE("READ, unknown lkey", IBV_WR_RDMA_READ, .len = 64, .lkey = 0x7fff1234);
	BAD_HERE("READ, into memory without local write", IBV_WR_RDMA_READ, .len = 64,
	    .lkey = mr_none->lkey);
	BAD_HERE("FETCH_ADD, unknown lkey", IBV_WR_ATOMIC_FETCH_AND_ADD, .len = 8, .lkey = 0x7fff1234);

	bad("SEND, receive too short", &(struct req){ IBV_WR_SEND, .len = 64 }, 0, 32, -1, false);
	bad("SEND of many packets, receive too short",
	    &(struct req){ IBV_WR_SEND, .len = 20000 }, 0, 10000, -1, false);
	bad("SEND, receive of nothing", &(struct req){ IBV_WR_SEND, .len = 64 }, 0, 0, -1, false);
	bad("SEND, receive with unknown lkey", &(struct req){ IBV_WR_SEND, .len = 64 },
	    0x7fff1234, 64, -1, false);
	bad("SEND, receive with lkey of a MR that is gone", &(struct req){ IBV_WR_SEND, .len = 64 },
	    dead_key, 64, -1, false);
	bad("SEND, receive without local write", &(struct req){ IBV_WR_SEND, .len = 64 },
	    mr_none->lkey, 64, -1, false);
	bad("SEND, receive of another PD", &(struct req){ IBV_WR_SEND, .len = 64 },
	    mr_other_pd->lkey, 64, -1, false);

	BAD("WRITE, unknown rkey", IBV_WR_RDMA_WRITE, .len = 64, .rkey = 0x7fff1234);
	BAD("WRITE, rkey of a MR that is gone", IBV_WR_RDMA_WRITE, .len = 64, .rkey = dead_key);
	BAD("WRITE, rkey of another PD", IBV_WR_RDMA_WRITE, .len = 64, .rkey = mr_other_pd->rkey);
	BAD("WRITE, beyond the MR", IBV_WR_RDMA_WRITE, .len = 64, .roff = 4090,
	    .rkey = mr_small->rkey);
	BAD("WRITE of many packets, beyond the MR", IBV_WR_RDMA_WRITE, .len = 20000,
	    .rkey = mr_small->rkey);
	BAD("WRITE, before the MR", IBV_WR_RDMA_WRITE, .len = 64, .raddr = (uintptr_t)buf + 64,
	    .rkey = mr_small->rkey);
	BAD("WRITE, MR without remote write", IBV_WR_RDMA_WRITE, .len = 64,
	    .rkey = mr_local->rkey);
	bad("WRITE, QP without remote write", &(struct req){ IBV_WR_RDMA_WRITE, .len = 64 }, 0, 0,
	    IBV_ACCESS_REMOTE_READ, false);
	BAD("WRITE_WITH_IMM, unknown rkey", IBV_WR_RDMA_WRITE_WITH_IMM, .len = 64,
	    .rkey = 0x7fff1234);
	BAD("READ, unknown rkey", IBV_WR_RDMA_READ, .len = 64, .rkey = 0x7fff1234);
	BAD("READ, rkey of a MR that is gone", IBV_WR_RDMA_READ, .len = 64, .rkey = dead_key);
	BAD("READ, beyond the MR", IBV_WR_RDMA_READ, .len = 64, .roff = 4090,
	    .rkey = mr_small->rkey);
	BAD("READ, MR without remote read", IBV_WR_RDMA_READ, .len = 64, .rkey = mr_write->rkey);
	bad("READ, QP without remote read", &(struct req){ IBV_WR_RDMA_READ, .len = 64 }, 0, 0,
	    IBV_ACCESS_REMOTE_WRITE, false);
	BAD("FETCH_ADD, unknown rkey", IBV_WR_ATOMIC_FETCH_AND_ADD, .len = 8, .rkey = 0x7fff1234);
	BAD("FETCH_ADD, MR without remote atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, .len = 8,
	    .rkey = mr_write->rkey);
	BAD("FETCH_ADD, unaligned", IBV_WR_ATOMIC_FETCH_AND_ADD, .len = 8, .roff = 4);
	BAD("CMP_SWP, unaligned", IBV_WR_ATOMIC_CMP_AND_SWP, .len = 8, .roff = 1);
	bad("CMP_SWP, QP without remote atomic", &(struct req){ IBV_WR_ATOMIC_CMP_AND_SWP,
	    .len = 8 }, 0, 0, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	    false);
	unsignaled_failure();
	read_before_fault();
	peer_gone();

	if (ibv_dereg_mr(mr_local) || ibv_dereg_mr(mr_none) || ibv_dereg_mr(mr_small) ||
	    ibv_dereg_mr(mr_other_pd) || ibv_dereg_mr(mr_write) || ibv_dereg_mr(mr_read) ||
	    ibv_dealloc_pd(pd2))
		die_errno("dereg_mr");
}

/* ------------------------------------------------------------------ sizes */

static void zero(const char *what, enum ibv_wr_opcode op, uint32_t rkey)
{
	struct ibv_wc wc;
	struct pair p;
	int err;

	pair_new(&p);
	post_recv(&p.b, 1, 0, 64, 0);
	err = post(&p, &p.a, &(struct req){ op, 1, 0, 0, .rkey = rkey });
	say(what, "%s %s", err_name(err), completion(p.a.scq, NULL));
	if (op != IBV_WR_RDMA_WRITE && op != IBV_WR_RDMA_READ) {
		say2(what, "receive", "%s", completion(p.b.rcq, &wc));
		say2(what, "byte_len", "%u", wc.byte_len);
	}
	pair_free(&p);
}

static void huge(const char *what, enum ibv_wr_opcode op)
{
	const uint32_t len = 8 << 20;
	struct ibv_wc wc;
	struct pair p;
	uint8_t *from = buf, *to = buf + HALF;
	int err;

	pair_new(&p);
	if (op == IBV_WR_RDMA_READ) {
		from = buf + HALF;
		to = buf;
	}
	pattern_fill(from, op + 1, 0, len);
	memset(to, 0, len + 64);
	if (op == IBV_WR_SEND)
		post_recv(&p.b, 1, 0, len, 0);
	err = post(&p, &p.a, &(struct req){ op, 1, 0, len });
	say(what, "%s %s", err_name(err), cq_wait(p.a.scq, &wc, 60000) ? status_name(wc.status) :
	    "none");
	if (op == IBV_WR_SEND) {
		say2(what, "receive", "%s", completion(p.b.rcq, &wc));
		say2(what, "byte_len", "%u", wc.byte_len);
	}
	say2(what, "content", "%s", pattern_check(to, op + 1, 0, len) < 0 ? "right" : "wrong");
	say2(what, "beyond it", "%s", fill_check(to + len, 0, 64) < 0 ? "untouched" : "overwritten");
	pair_free(&p);
}

/* Elements as the library lets them through. */
static void elements(const char *what, enum ibv_wr_opcode op, uint32_t len0, uint32_t len1,
		     int num, int flags)
{
	struct ibv_sge sge[3] = {
		{ (uintptr_t)buf, len0, mr->lkey },
		{ (uintptr_t)buf + 4096, len1, mr->lkey },
		{ (uintptr_t)buf + 8192, 8, mr->lkey },
	};
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = op, .sg_list = sge, .num_sge = num,
		.send_flags = IBV_SEND_SIGNALED | flags,
	}, *bad;
	struct pair p;
	int err;

	pair_new(&p);
	post_recv(&p.b, 1, 0, 8192, 0);
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)buf + HALF;
		wr.wr.atomic.rkey = mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)buf + HALF;
		wr.wr.rdma.rkey = mr->rkey;
	}
	err = ibv_post_send(p.a.qp, &wr, &bad);
	say2(what, "post_send", "%s", err_name(err));
	if (!err)
		say2(what, "completion", "%s", completion(p.a.scq, NULL));
	pair_free(&p);
}

static void full_queues(void)
{
	struct ibv_qp_cap cap = { 7, 7, 1, 1, 0 };
	struct ibv_wc wc;
	struct pair p;
	unsigned int sends = 0, recvs = 0, n;
	int err;

	pair_make(&p, &cap);
	pair_connect(&p);
	do {
		err = post_recv(&p.a, recvs, 8192, 64, 0);
		recvs += !err;
	} while (!err && recvs < 1000);
	say("receive queue of 7", "takes %u, then %s", recvs, err_name(err));
	do {
		err = post(&p, &p.a, &(struct req){ IBV_WR_SEND, sends, 0, 64 });
		sends += !err;
	} while (!err && sends < 1000);
	say("send queue of 7", "takes %u, then %s", sends, err_name(err));
	for (n = 0; n < sends; n++)
		post_recv(&p.b, n, 8192, 64, 0);
	say("send queue of 7", "%s", completions(p.a.scq, sends));
	/* Round and round. */
	for (n = 0; n < 100; n++) {
		err = post_recv(&p.b, n, 8192, 64, 0) ?:
		      post(&p, &p.a, &(struct req){ IBV_WR_SEND, n, 0, 64 });
		if (err || !cq_wait(p.a.scq, &wc, patience) || wc.status || wc.wr_id != n)
			break;
	}
	say("queues of 7 used 100 times", "%s", n == 100 ? "ok" : "stops");
	pair_free(&p);
}

void case_sizes(void)
{
	zero("SEND of nothing", IBV_WR_SEND, 0);
	zero("SEND_WITH_IMM of nothing", IBV_WR_SEND_WITH_IMM, 0);
	zero("WRITE of nothing", IBV_WR_RDMA_WRITE, 0);
	zero("WRITE of nothing, unknown rkey", IBV_WR_RDMA_WRITE, 0x7fff1234);
	zero("WRITE_WITH_IMM of nothing, unknown rkey", IBV_WR_RDMA_WRITE_WITH_IMM, 0x7fff1234);
	zero("READ of nothing", IBV_WR_RDMA_READ, 0);
	zero("READ of nothing, unknown rkey", IBV_WR_RDMA_READ, 0x7fff1234);
	huge("SEND of 8 MiB", IBV_WR_SEND);
	huge("WRITE of 8 MiB", IBV_WR_RDMA_WRITE);
	huge("READ of 8 MiB", IBV_WR_RDMA_READ);
	elements("WRITE, first element empty", IBV_WR_RDMA_WRITE, 0, 64, 2, 0);
	elements("WRITE, last element empty", IBV_WR_RDMA_WRITE, 64, 0, 2, 0);
	elements("WRITE, only empty elements", IBV_WR_RDMA_WRITE, 0, 0, 2, 0);
	elements("WRITE, 3 elements of 2", IBV_WR_RDMA_WRITE, 8, 8, 3, 0);
	elements("WRITE of 2 GiB", IBV_WR_RDMA_WRITE, 0x80000000, 0, 1, 0);
	elements("WRITE of 2 GiB and a byte", IBV_WR_RDMA_WRITE, 0x80000000, 1, 2, 0);
	elements("WRITE of 4 GiB in two", IBV_WR_RDMA_WRITE, 0x80000000, 0x80000000, 2, 0);
	elements("SEND of 4 GiB - 1", IBV_WR_SEND, 0xffffffff, 0, 1, 0);
	elements("SEND, inline", IBV_WR_SEND, 64, 0, 1, IBV_SEND_INLINE);
	elements("SEND, inline of two", IBV_WR_SEND, 32, 32, 2, IBV_SEND_INLINE);
	elements("SEND, inline of nothing", IBV_WR_SEND, 0, 0, 0, IBV_SEND_INLINE);
	elements("SEND, inline beyond the limit", IBV_WR_SEND, 1025, 0, 1, IBV_SEND_INLINE);
	elements("READ, inline", IBV_WR_RDMA_READ, 8, 0, 1, IBV_SEND_INLINE);
	elements("FETCH_ADD of 4 bytes", IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0, 1, 0);
	elements("FETCH_ADD of 16 bytes", IBV_WR_ATOMIC_FETCH_AND_ADD, 16, 0, 1, 0);
	elements("FETCH_ADD without an element", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, 0, 0);
	full_queues();
}

/* ------------------------------------------------------------------ dereg */

void case_dereg(void)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_mr *m;
	struct ibv_wc wc;
	struct pair p;
	unsigned int i;
	int err;

	/* The source of a SEND that waits for its receive. */
	pair_new(&p);
	m = ibv_reg_mr(pd, buf, 4096, all);
	if (!m)
		die_errno("reg_mr");
	post(&p, &p.a, &(struct req){ IBV_WR_SEND, 1, 0, 64, .lkey = m->lkey });
	usleep(20000);
	err = ibv_dereg_mr(m);
	say("dereg_mr of a SEND's source", "%s", err_name(err));
	post_recv(&p.b, 1, 0, 64, 0);
	cq_wait(p.a.scq, &wc, patience);
	/* Done, or refused, or caught in the middle. */
	say("the SEND", "%s", wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_LOC_PROT_ERR ||
	    wc.status == IBV_WC_LOC_QP_OP_ERR || wc.status == IBV_WC_WR_FLUSH_ERR ? "ends" :
	    status_name(wc.status));
	pair_free(&p);

	/* The target of WRITEs that are under way: some succeed, then none. */
	pair_new(&p);
	m = ibv_reg_mr(pd, buf + HALF, 1 << 20, all);
	if (!m)
		die_errno("reg_mr");
	for (i = 0; i < 12; i++)
		post(&p, &p.a, &(struct req){ IBV_WR_RDMA_WRITE, i, 0, 1 << 20, .rkey = m->rkey });
	cq_wait(p.a.scq, &wc, patience);
	err = ibv_dereg_mr(m);
	say("dereg_mr of a WRITE's target", "%s", err_name(err));
	/* Nothing may land any more. */
	memset(buf + HALF, 0x11, 1 << 20);
	for (i = 1; i < 12 && cq_wait(p.a.scq, &wc, patience) && !wc.status; i++)
		;
	say("the WRITEs", "%s", i == 12 || wc.status == IBV_WC_REM_ACCESS_ERR ?
	    "end with ok or REM_ACCESS" : status_name(wc.status));
	pair_free(&p);
	say("memory after dereg_mr", "%s", fill_check(buf + HALF, 0x11, 1 << 20) < 0 ?
	    "untouched" : "overwritten");

	/* A receive's memory. */
	pair_new(&p);
	m = ibv_reg_mr(pd, buf + HALF, 4096, all);
	if (!m)
		die_errno("reg_mr");
	post_recv(&p.b, 1, 0, 64, m->lkey);
	err = ibv_dereg_mr(m);
	say("dereg_mr of a receive's memory", "%s", err_name(err));
	post(&p, &p.a, &(struct req){ IBV_WR_SEND, 1, 0, 64 });
	say("the receive", "%s", completion(p.b.rcq, NULL));
	say("its SEND", "%s", completion(p.a.scq, NULL));
	pair_free(&p);

	/* Keys are not given out again at once. */
	m = ibv_reg_mr(pd, buf, 4096, all);
	for (i = 0; m && i < 200; i++) {
		uint32_t old = m->rkey;

		if (ibv_dereg_mr(m))
			break;
		m = ibv_reg_mr(pd, buf, 4096, all);
		if (m && m->rkey == old)
			break;
	}
	say("200 registrations, each with another key", "%s", i == 200 ? "yes" : "no");
	if (m)
		ibv_dereg_mr(m);
}
