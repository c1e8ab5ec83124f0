// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* qpstate: completion queues, and what is refused at creation. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "qpstate.h"

static struct ibv_comp_channel *chan;

/* A pair whose a sends into @cq. */
static void pair_on(struct pair *p, struct ibv_cq *scq)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = scq,
		.cap = { 100, DEPTH, 1, 1, 0 },
	};

	pair_make(p, NULL);
	if (ibv_destroy_qp(p->a.qp))
		die_errno("destroy_qp");
	attr.recv_cq = p->a.rcq;
	p->a.qp = ibv_create_qp(pd, &attr);
	if (!p->a.qp)
		die_errno("create_qp");
	pair_connect(p);
}

/* @n WRITEs, finished: a later one of another CQ's QP cannot tell, so wait for memory. */
static void writes(struct pair *p, unsigned int from, unsigned int n)
{
	volatile uint32_t *there = (volatile uint32_t *)p->b.mem;
	uint64_t end = now_us() + 5000000;
	unsigned int i;
	int err;

	for (i = from; i < from + n; i++) {
		uint32_t word = i + 1;

		memcpy(p->a.mem + 4 * (i % 64), &word, 4);
		err = post(p, &p->a, &(struct req){ IBV_WR_RDMA_WRITE, i, 4 * (i % 64), 4 });
		if (err)
			die("WRITE %u: %s", i, strerror(err));
		while (*there != word && now_us() < end)
			usleep(100);
	}
	/* and its acknowledgment comes back */
	usleep(100000);
}

static const char *in_order(struct ibv_cq *cq, unsigned int from, unsigned int n)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = from; i < from + n; i++) {
		if (!cq_wait(cq, &wc, 2000))
			return "one is missing";
		if (wc.status)
			return status_name(wc.status);
		if (wc.wr_id != i)
			return "out of order";
	}
	return "in order";
}

static void overflow(void)
{
	struct ibv_cq *cq;
	struct pair p, q;
	struct ibv_wc wc;
	unsigned int n = 0, room;

	cq = ibv_create_cq(dev.ctx, 5, NULL, NULL, 0);
	if (!cq)
		die_errno("create_cq");
	room = cq->cqe;
	say("CQ of 5", "%s", room >= 5 ? "has room for 5" : "is smaller");
	pair_on(&p, cq);
	pair_new(&q);
	writes(&p, 0, room);
	say("a full CQ, events", "%s", events(100));
	writes(&p, room, 1);
	say("one too many, events", "%s", events(1000));
	while (ibv_poll_cq(cq, 1, &wc) == 1 && n < 1000)
		n++;
	say("one too many, completions left", "%s", n == room ? "all that fitted" :
	    n > room ? "too many" : "fewer");
	say("one too many, another QP", "%s", still_works(&q));
	events(50);
	pair_free(&q);
	pair_free(&p);
	if (ibv_destroy_cq(cq))
		die_errno("destroy_cq");
	say("events at the end", "%s", events(50));
}

static void resize(void)
{
	struct ibv_cq *cq;
	struct pair p;
	int err;

	cq = ibv_create_cq(dev.ctx, 15, NULL, NULL, 0);
	if (!cq)
		die_errno("create_cq");
	pair_on(&p, cq);
	writes(&p, 0, 10);
	err = ibv_resize_cq(cq, 100);
	say("resize 15 to 100 with 10 in it", "%s, %s", err_name(err),
	    cq->cqe >= 100 ? "large enough" : "too small");
	say("resize: entries", "%s", in_order(cq, 0, 5));
	writes(&p, 10, 40);
	say("resize: more entries", "%s", in_order(cq, 5, 20));
	err = ibv_resize_cq(cq, 7);
	say("resize to 7 with 25 in it", "%s", err_name(err));
	say("resize: still there", "%s", in_order(cq, 25, 10));
	err = ibv_resize_cq(cq, 15);
	say("resize to 15 with 15 in it", "%s", err_name(err));
	say("resize: the last", "%s", in_order(cq, 35, 15));
	writes(&p, 50, 7);
	say("resize: new ones", "%s", in_order(cq, 50, 7));
	say("resize to 0", "%s", err_name(ibv_resize_cq(cq, 0)));
	say("resize beyond the limit", "%s", err_name(ibv_resize_cq(cq, dev.attr.max_cqe + 1)));
	writes(&p, 57, 3);
	say("after refusals", "%s", in_order(cq, 57, 3));
	/* Many times, while completions come. */
	for (unsigned int i = 0; i < 20; i++) {
		post(&p, &p.a, &(struct req){ IBV_WR_RDMA_WRITE, 60 + i, 0, 4 });
		if (!err)
			err = ibv_resize_cq(cq, i & 1 ? 40 : 63);
	}
	say("resize 20 times under traffic", "%s, %s", err_name(err), in_order(cq, 60, 20));
	pair_free(&p);
	if (ibv_destroy_cq(cq))
		die_errno("destroy_cq");
}

static bool got_event(struct ibv_cq *cq, unsigned int ms)
{
	struct pollfd pfd = { .fd = chan->fd, .events = POLLIN };
	struct ibv_cq *which;
	void *ctx;

	if (poll(&pfd, 1, ms) != 1 || ibv_get_cq_event(chan, &which, &ctx))
		return false;
	if (which != cq)
		die("an event of another CQ");
	ibv_ack_cq_events(which, 1);
	return true;
}

#define EVENT(cq, ms) (got_event(cq, ms) ? "event" : "no event")

static void notify(void)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 8, DEPTH, 1, 1, 0 } };
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct pair p;
	int i;

	chan = ibv_create_comp_channel(dev.ctx);
	if (!chan)
		die_errno("create_comp_channel");
	cq = ibv_create_cq(dev.ctx, 64, NULL, chan, 0);
	if (!cq)
		die_errno("create_cq");
	pair_make(&p, NULL);
	if (ibv_destroy_qp(p.b.qp))
		die_errno("destroy_qp");
	attr.send_cq = p.b.scq;
	attr.recv_cq = cq;
	p.b.qp = ibv_create_qp(pd, &attr);
	if (!p.b.qp)
		die_errno("create_qp");
	pair_connect(&p);
	for (i = 0; i < 10; i++)
		post_recv(&p.b, i, 0, 64, 0);
#define SEND(...) \
	do { \
		post(&p, &p.a, &(struct req){ IBV_WR_SEND, 1, 0, 8, __VA_ARGS__ }); \
		completion(p.a.scq, NULL); \
	} while (0)
	SEND();
	say("not armed", "%s", EVENT(cq, 200));
	completion(cq, NULL);
	say("armed", "%s", err_name(ibv_req_notify_cq(cq, 0)));
	say("armed, nothing happened", "%s", EVENT(cq, 100));
	SEND();
	say("armed, a SEND", "%s", EVENT(cq, 5000));
	SEND();
	say("not armed again", "%s", EVENT(cq, 200));
	completion(cq, NULL);
	completion(cq, NULL);
	ibv_req_notify_cq(cq, 1);
	SEND();
	say("armed for solicited, a SEND", "%s", EVENT(cq, 200));
	/* Again, should that one have used it up. */
	ibv_req_notify_cq(cq, 1);
	SEND(.flags = IBV_SEND_SOLICITED);
	say("armed for solicited, a solicited SEND", "%s", EVENT(cq, 5000));
	completion(cq, NULL);
	completion(cq, NULL);
	ibv_req_notify_cq(cq, 1);
	ibv_req_notify_cq(cq, 0);
	SEND();
	say("armed for solicited, then for all", "%s", EVENT(cq, 5000));
	completion(cq, NULL);
	ibv_req_notify_cq(cq, 0);
	ibv_req_notify_cq(cq, 1);
	SEND();
	say("armed for all, then for solicited", "%s", EVENT(cq, 1000));
	completion(cq, NULL);
	/* Drain whatever the last one left, arm for solicited, and let it flush. */
	got_event(cq, 10);
	ibv_req_notify_cq(cq, 1);
	qp_to(p.b.qp, IBV_QPS_ERR);
	say("armed for solicited, an error", "%s", EVENT(cq, 5000));
	for (i = 0; i < 20 && cq_wait(cq, &wc, 50); i++)
		;
	pair_free(&p);
	if (ibv_destroy_cq(cq) || ibv_destroy_comp_channel(chan))
		die_errno("destroy_cq");
}

static void busy(void)
{
	struct pair p;
	int err;

	pair_new(&p);
	err = ibv_destroy_cq(p.a.scq);
	say("destroy_cq in use", "%s", err_name(err));
	err = ibv_destroy_cq(p.b.rcq);
	say("destroy_cq in use for receives", "%s", err_name(err));
	err = ibv_dealloc_pd(pd);
	say("dealloc_pd in use", "%s", err_name(err));
	say("afterwards", "%s", still_works(&p));
	pair_free(&p);
}

void case_cq(void)
{
	overflow();
	resize();
	notify();
	busy();
}

/* ----------------------------------------------------------------- limits */

static void try_cq(const char *what, int cqe, int vector)
{
	struct ibv_cq *cq;

	errno = 0;
	cq = ibv_create_cq(dev.ctx, cqe, NULL, NULL, vector);
	say(what, "%s", cq ? "ok" : err_name(errno));
	if (cq)
		ibv_destroy_cq(cq);
}

static void try_qp(const char *what, struct ibv_qp_cap cap, enum ibv_qp_type type)
{
	struct ibv_cq *cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = { .qp_type = type, .send_cq = cq, .recv_cq = cq, .cap = cap };
	struct ibv_qp *qp;

	if (!cq)
		die_errno("create_cq");
	errno = 0;
	qp = ibv_create_qp(pd, &attr);
	say(what, "%s", qp ? "ok" : err_name(errno));
	if (qp) {
		say("its capacity", "%s", attr.cap.max_send_wr >= cap.max_send_wr &&
		    attr.cap.max_recv_wr >= cap.max_recv_wr &&
		    attr.cap.max_send_sge >= cap.max_send_sge &&
		    attr.cap.max_recv_sge >= cap.max_recv_sge &&
		    attr.cap.max_inline_data >= cap.max_inline_data ? "enough" : "less than asked");
		ibv_destroy_qp(qp);
	}
	ibv_destroy_cq(cq);
}

static void try_mr(const char *what, void *addr, size_t len, int access)
{
	struct ibv_mr *m;

	errno = 0;
	m = ibv_reg_mr(pd, addr, len, access);
	say(what, "%s", m ? "ok" : err_name(errno));
	if (m)
		ibv_dereg_mr(m);
}

void case_limits(void)
{
	uint32_t wr = dev.attr.max_qp_wr, sge = dev.attr.max_sge;
	struct ibv_qp_cap cap = { 16, 16, 2, 2, 64 };
	uint8_t *hole, *ro;

	try_cq("CQ of 1", 1, 0);
	try_cq("CQ of 0", 0, 0);
	try_cq("CQ of -1", -1, 0);
	try_cq("CQ of the most", dev.attr.max_cqe, 0);
	try_cq("CQ of more than the most", dev.attr.max_cqe + 1, 0);
	try_cq("CQ of 2^31 - 1", 0x7fffffff, 0);
	try_cq("CQ on the last vector", 16, dev.ctx->num_comp_vectors - 1);
	try_cq("CQ on a vector beyond", 16, dev.ctx->num_comp_vectors);

	try_qp("QP", cap, IBV_QPT_RC);
	try_qp("QP of one each", (struct ibv_qp_cap){ 1, 1, 1, 1, 0 }, IBV_QPT_RC);
	try_qp("QP of nothing", (struct ibv_qp_cap){ 0, 0, 0, 0, 0 }, IBV_QPT_RC);
	try_qp("QP with the most elements", (struct ibv_qp_cap){ 16, 16, sge, sge, 0 }, IBV_QPT_RC);
	try_qp("QP with too many send elements", (struct ibv_qp_cap){ 16, 16, sge + 1, 1, 0 },
	       IBV_QPT_RC);
	try_qp("QP with too many receive elements", (struct ibv_qp_cap){ 16, 16, 1, sge + 1, 0 },
	       IBV_QPT_RC);
	try_qp("QP with too many sends", (struct ibv_qp_cap){ wr + 1, 16, 1, 1, 0 }, IBV_QPT_RC);
	try_qp("QP with too many receives", (struct ibv_qp_cap){ 16, wr + 1, 1, 1, 0 }, IBV_QPT_RC);
	try_qp("QP with 2^32 - 1 sends", (struct ibv_qp_cap){ 0xffffffff, 16, 1, 1, 0 },
	       IBV_QPT_RC);
	try_qp("QP with 512 bytes inline", (struct ibv_qp_cap){ 16, 16, 1, 1, 512 }, IBV_QPT_RC);
	try_qp("QP with 64 KiB inline", (struct ibv_qp_cap){ 16, 16, 1, 1, 65536 }, IBV_QPT_RC);
	try_qp("QP of type XRC", cap, IBV_QPT_XRC_SEND);
	try_qp("QP of type 200", cap, 200);

	hole = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (hole == MAP_FAILED || ro == MAP_FAILED)
		die_errno("memory");
	munmap(hole + 4096, 4096);
	try_mr("MR", hole, 4096, IBV_ACCESS_LOCAL_WRITE);
	try_mr("MR of one byte", hole + 5, 1, IBV_ACCESS_LOCAL_WRITE);
	try_mr("MR over a hole", hole, 12288, IBV_ACCESS_LOCAL_WRITE);
	try_mr("MR of nothing", hole, 0, IBV_ACCESS_LOCAL_WRITE);
	try_mr("MR at NULL", NULL, 4096, IBV_ACCESS_LOCAL_WRITE);
	try_mr("MR of the whole address space", (void *)4096, SIZE_MAX / 2, IBV_ACCESS_LOCAL_WRITE);
	try_mr("MR that wraps", (void *)(UINTPTR_MAX - 4095), 8192, IBV_ACCESS_LOCAL_WRITE);
	try_mr("MR of read-only memory, to write", ro, 4096, IBV_ACCESS_LOCAL_WRITE);
	try_mr("MR of read-only memory, to read", ro, 4096, IBV_ACCESS_REMOTE_READ);
	try_mr("MR with remote but no local write", hole, 4096, IBV_ACCESS_REMOTE_WRITE);
	try_mr("MR with atomics but no local write", hole, 4096, IBV_ACCESS_REMOTE_ATOMIC);
	try_mr("MR with relaxed ordering", hole, 4096, IBV_ACCESS_LOCAL_WRITE |
	       IBV_ACCESS_RELAXED_ORDERING);
	try_mr("MR with on-demand paging", hole, 4096, IBV_ACCESS_LOCAL_WRITE |
	       IBV_ACCESS_ON_DEMAND);
	try_mr("MR with an unknown flag", hole, 4096, 1 << 12);
	munmap(hole, 4096);
	munmap(hole + 8192, 4096);
	munmap(ro, 4096);
}
