// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What an RC device does at the edges: every state transition, flushes, RNR,
 * errors at both ends, CQ overflow and resize, events, limits.  It judges
 * nothing: the lines are compared with those of a bare lane (agg_qpstate.sh).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "qpstate.h"

struct dev dev;
struct ibv_pd *pd;
uint8_t *buf;
struct ibv_mr *mr;
unsigned int patience = 8000;
static const char *case_name;

/* ------------------------------------------------------------------ words */

void say(const char *what, const char *fmt, ...)
{
	va_list ap;

	printf("%s: %s: ", case_name, what);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

const char *err_name(int err)
{
	if (!err)
		return "ok";
	return strerrorname_np(err) ? strerrorname_np(err) : "an unknown error";
}

const char *state_name(int state)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS", [IBV_QPS_SQD] = "SQD", [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return (unsigned int)state < ARRAY_SIZE(names) ? names[state] : "?";
}

const char *status_name(int status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "ok",
		[IBV_WC_LOC_LEN_ERR] = "LOC_LEN",
		[IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP",
		[IBV_WC_LOC_PROT_ERR] = "LOC_PROT",
		[IBV_WC_WR_FLUSH_ERR] = "FLUSH",
		[IBV_WC_MW_BIND_ERR] = "MW_BIND",
		[IBV_WC_BAD_RESP_ERR] = "BAD_RESP",
		[IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS",
		[IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ",
		[IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS",
		[IBV_WC_REM_OP_ERR] = "REM_OP",
		[IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC",
		[IBV_WC_REM_ABORT_ERR] = "REM_ABORT",
		[IBV_WC_FATAL_ERR] = "FATAL",
		[IBV_WC_GENERAL_ERR] = "GENERAL",
	};

	if ((unsigned int)status < ARRAY_SIZE(names) && names[status])
		return names[status];
	return "another status";
}

/* ------------------------------------------------------------------ pairs */

struct qp_param *default_param(struct qp_param *p)
{
	static const struct qp_param d = QP_PARAM_DEFAULT;

	*p = d;
	return p;
}

static void side_make(struct side *s, const struct ibv_qp_cap *cap, uint8_t *mem)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { DEPTH, DEPTH, 2, 2, 64 },
	};

	if (cap)
		attr.cap = *cap;
	s->mem = mem;
	s->scq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	s->rcq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	if (!s->scq || !s->rcq)
		die_errno("create_cq");
	attr.send_cq = s->scq;
	attr.recv_cq = s->rcq;
	s->qp = ibv_create_qp(pd, &attr);
	if (!s->qp)
		die_errno("create_qp");
}

void pair_make(struct pair *p, const struct ibv_qp_cap *cap)
{
	default_param(&p->param);
	side_make(&p->a, cap, buf);
	side_make(&p->b, cap, buf + HALF);
}

void pair_connect(struct pair *p)
{
	qp_connect_pair(&dev, p->a.qp, p->b.qp, &p->param);
}

void pair_new(struct pair *p)
{
	pair_make(p, NULL);
	pair_connect(p);
}

static void side_free(struct side *s)
{
	if (ibv_destroy_qp(s->qp))
		die_errno("destroy_qp");
	if (ibv_destroy_cq(s->scq) || ibv_destroy_cq(s->rcq))
		die_errno("destroy_cq");
}

void pair_free(struct pair *p)
{
	side_free(&p->a);
	side_free(&p->b);
}

int side_to(struct pair *p, struct side *s, enum ibv_qp_state state)
{
	struct side *other = s == &p->a ? &p->b : &p->a;
	struct qp_conn peer = { other->qp->qp_num, 1000, dev.gid };
	const char *now = side_state(s);

	/* Into RTS again, or back: nothing else may be set. */
	if (state == IBV_QPS_RTS && strcmp(now, "RTR"))
		return qp_to(s->qp, state);
	switch (state) {
	case IBV_QPS_INIT:
		return qp_init(&dev, s->qp, &p->param);
	case IBV_QPS_RTR:
		return qp_rtr(&dev, s->qp, &p->param, &peer);
	case IBV_QPS_RTS:
		return qp_rts(s->qp, &p->param, 1000);
	default:
		return qp_to(s->qp, state);
	}
}

const char *side_state(struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err;

	err = ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init);
	return err ? err_name(err) : state_name(attr.qp_state);
}

const char *await_state(struct side *s, enum ibv_qp_state state)
{
	uint64_t end = now_us() + patience * 1000;

	while (strcmp(side_state(s), state_name(state)) && now_us() < end)
		usleep(2000);
	return side_state(s);
}

/* --------------------------------------------------------------- requests */

int post(struct pair *p, struct side *s, const struct req *r)
{
	struct side *other = s == &p->a ? &p->b : &p->a;
	struct ibv_sge sge = {
		.addr = r->addr ? r->addr : (uintptr_t)s->mem + r->off,
		.length = r->len,
		.lkey = r->lkey ? r->lkey : mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = r->id,
		.opcode = r->op,
		.send_flags = r->flags < 0 ? 0 : r->flags | IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = r->len ? 1 : 0,
		.imm_data = htonl(r->id),
	}, *bad;
	uint64_t raddr = r->raddr ? r->raddr : (uintptr_t)other->mem + r->roff;
	uint32_t rkey = r->rkey ? r->rkey : mr->rkey;

	if (r->op == IBV_WR_ATOMIC_CMP_AND_SWP || r->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = r->cmp_add;
		wr.wr.atomic.swap = r->swap;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(s->qp, &wr, &bad);
}

int post_recv(struct side *s, uint64_t id, uint32_t off, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)s->mem + off,
		.length = len,
		.lkey = lkey ? lkey : mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = len ? 1 : 0 }, *bad;

	return ibv_post_recv(s->qp, &wr, &bad);
}

const char *completion(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct ibv_wc local;

	if (!wc)
		wc = &local;
	return cq_wait(cq, wc, patience) ? status_name(wc->status) : "none";
}

const char *completions(struct ibv_cq *cq, unsigned int n)
{
	static char ring[4][1024];
	static unsigned int next;
	char *text = ring[next++ % 4];
	struct ibv_wc wc;
	size_t used = 0;
	unsigned int i;

	text[0] = 0;
	for (i = 0; i < n; i++) {
		if (!cq_wait(cq, &wc, patience)) {
			used += snprintf(text + used, sizeof(ring[0]) - used, " none");
			break;
		}
		used += snprintf(text + used, sizeof(ring[0]) - used, " %llu=%s",
				 (unsigned long long)wc.wr_id, status_name(wc.status));
	}
	if (cq_wait(cq, &wc, 20))
		snprintf(text + used, sizeof(ring[0]) - used, " + %llu=%s",
			 (unsigned long long)wc.wr_id, status_name(wc.status));
	return *text ? text + 1 : "none";
}

const char *events(unsigned int ms)
{
	static char text[512];
	struct pollfd pfd = { .fd = dev.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;
	size_t used = 0;

	text[0] = 0;
	while (poll(&pfd, 1, ms) == 1 && !ibv_get_async_event(dev.ctx, &ev)) {
		const char *name = ibv_event_type_str(ev.event_type);

		/* Those of addresses have nothing to do with us. */
		if (ev.event_type != IBV_EVENT_GID_CHANGE && used < sizeof(text))
			used += snprintf(text + used, sizeof(text) - used, "%s%s",
					 used ? ", " : "", name);
		ibv_ack_async_event(&ev);
	}
	return used ? text : "none";
}

const char *still_works(struct pair *p)
{
	static unsigned int count;
	struct side *to = &p->b, *from = &p->a, *tmp;
	struct ibv_wc wc;
	unsigned int i;
	int err;

	for (i = 0; i < 2; i++) {
		count++;
		pattern_fill(from->mem + 4096, count, 0, 3000);
		memset(to->mem + 8192, 0, 3000);
		err = post_recv(to, count, 8192, 3000, 0);
		if (err)
			return "post_recv fails";
		err = post(p, from, &(struct req){ IBV_WR_SEND, count, 4096, 3000 });
		if (err)
			return "post_send fails";
		if (!cq_wait(from->scq, &wc, patience))
			return "no send completion";
		if (wc.status || wc.wr_id != count)
			return status_name(wc.status);
		if (!cq_wait(to->rcq, &wc, patience))
			return "no receive completion";
		if (wc.status || wc.wr_id != count)
			return status_name(wc.status);
		if (pattern_check(to->mem + 8192, count, 0, 3000) >= 0)
			return "wrong content";
		tmp = to;
		to = from;
		from = tmp;
	}
	return "ok";
}

/* ------------------------------------------------------------ transitions */

static int drive(struct pair *p, struct side *s, enum ibv_qp_state to)
{
	static const enum ibv_qp_state way[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	unsigned int i;
	int err;

	if (to == IBV_QPS_RESET)
		return 0;
	if (to == IBV_QPS_ERR)
		return side_to(p, s, IBV_QPS_INIT) ?: side_to(p, s, IBV_QPS_ERR);
	for (i = 0; i < ARRAY_SIZE(way); i++) {
		err = side_to(p, s, way[i]);
		if (err || way[i] == to)
			return err;
	}
	return side_to(p, s, to);
}

static void case_transitions(void)
{
	static const enum ibv_qp_state states[] = {
		IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE,
		IBV_QPS_ERR,
	};
	unsigned int f, t;
	struct pair p;
	char what[64];
	int err;

	for (f = 0; f < ARRAY_SIZE(states); f++) {
		if (states[f] == IBV_QPS_SQE)
			continue;
		for (t = 0; t < ARRAY_SIZE(states); t++) {
			pair_make(&p, NULL);
			snprintf(what, sizeof(what), "%s to %s", state_name(states[f]),
				 state_name(states[t]));
			err = drive(&p, &p.b, IBV_QPS_RTS);
			if (!err)
				err = drive(&p, &p.a, states[f]);
			if (err) {
				say(what, "the start is not reached: %s", err_name(err));
			} else {
				err = side_to(&p, &p.a, states[t]);
				say(what, "%s, then %s", err_name(err), side_state(&p.a));
			}
			pair_free(&p);
		}
	}
}

/* A transition with something wrong in it. */
struct twist {
	const char *what;
	enum ibv_qp_state to;
	int drop, add;		/* bits of the mask */
	void (*change)(struct ibv_qp_attr *attr);
};

#define CHANGE(name, statement) \
	static void name(struct ibv_qp_attr *a) \
	{ \
		statement; \
	}

CHANGE(bad_port, a->port_num = 2)
CHANGE(bad_port_zero, a->port_num = 0)
CHANGE(bad_pkey, a->pkey_index = 5000)
CHANGE(bad_mtu, a->path_mtu = 8)
CHANGE(bad_sgid, a->ah_attr.grh.sgid_index = 250)
CHANGE(bad_ah_port, a->ah_attr.port_num = 9)
CHANGE(bad_grh, a->ah_attr.is_global = 0)
CHANGE(bad_dest_rd, a->max_dest_rd_atomic = 255)
CHANGE(bad_rd, a->max_rd_atomic = 255)
CHANGE(bad_cur, a->cur_qp_state = IBV_QPS_RTS)
CHANGE(good_cur, a->cur_qp_state = IBV_QPS_RTR)
CHANGE(no_route, memset(&a->ah_attr.grh.dgid, 0, 16); a->ah_attr.grh.dgid.raw[10] = 0xff;
       a->ah_attr.grh.dgid.raw[11] = 0xff; a->ah_attr.grh.dgid.raw[12] = 203;
       a->ah_attr.grh.dgid.raw[14] = 113; a->ah_attr.grh.dgid.raw[15] = 99)
CHANGE(nothing, (void)a)

static const struct twist twists[] = {
	{ "INIT without port", IBV_QPS_INIT, IBV_QP_PORT, 0, nothing },
	{ "INIT without pkey_index", IBV_QPS_INIT, IBV_QP_PKEY_INDEX, 0, nothing },
	{ "INIT without access flags", IBV_QPS_INIT, IBV_QP_ACCESS_FLAGS, 0, nothing },
	{ "INIT with a qkey", IBV_QPS_INIT, 0, IBV_QP_QKEY, nothing },
	{ "INIT with port 2", IBV_QPS_INIT, 0, 0, bad_port },
	{ "INIT with port 0", IBV_QPS_INIT, 0, 0, bad_port_zero },
	{ "INIT with pkey_index 5000", IBV_QPS_INIT, 0, 0, bad_pkey },
	{ "RTR without address", IBV_QPS_RTR, IBV_QP_AV, 0, nothing },
	{ "RTR without path MTU", IBV_QPS_RTR, IBV_QP_PATH_MTU, 0, nothing },
	{ "RTR without QPN", IBV_QPS_RTR, IBV_QP_DEST_QPN, 0, nothing },
	{ "RTR without PSN", IBV_QPS_RTR, IBV_QP_RQ_PSN, 0, nothing },
	{ "RTR without RNR timer", IBV_QPS_RTR, IBV_QP_MIN_RNR_TIMER, 0, nothing },
	{ "RTR with a timeout", IBV_QPS_RTR, 0, IBV_QP_TIMEOUT, nothing },
	{ "RTR with MTU code 8", IBV_QPS_RTR, 0, 0, bad_mtu },
	{ "RTR with GID index 250", IBV_QPS_RTR, 0, 0, bad_sgid },
	{ "RTR with address port 9", IBV_QPS_RTR, 0, 0, bad_ah_port },
	{ "RTR without GRH", IBV_QPS_RTR, 0, 0, bad_grh },
	{ "RTR with 255 incoming READs", IBV_QPS_RTR, 0, 0, bad_dest_rd },
	{ "RTR to an address without route", IBV_QPS_RTR, 0, 0, no_route },
	{ "RTS without timeout", IBV_QPS_RTS, IBV_QP_TIMEOUT, 0, nothing },
	{ "RTS without retry count", IBV_QPS_RTS, IBV_QP_RETRY_CNT, 0, nothing },
	{ "RTS without PSN", IBV_QPS_RTS, IBV_QP_SQ_PSN, 0, nothing },
	{ "RTS with 255 READs", IBV_QPS_RTS, 0, 0, bad_rd },
	{ "RTS with the right current state", IBV_QPS_RTS, 0, IBV_QP_CUR_STATE, good_cur },
	{ "RTS with a wrong current state", IBV_QPS_RTS, 0, IBV_QP_CUR_STATE, bad_cur },
};

static int full_attr(struct pair *p, enum ibv_qp_state to, struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = to;
	attr->port_num = 1;
	attr->qp_access_flags = p->param.access;
	attr->path_mtu = dev.port.active_mtu;
	attr->dest_qp_num = p->b.qp->qp_num;
	attr->rq_psn = 1000;
	attr->max_dest_rd_atomic = 4;
	attr->min_rnr_timer = 12;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = 1;
	attr->ah_attr.grh.dgid = dev.gid;
	attr->ah_attr.grh.sgid_index = dev.gid_index;
	attr->ah_attr.grh.hop_limit = 64;
	attr->sq_psn = 1000;
	attr->timeout = 17;
	attr->retry_cnt = 7;
	attr->rnr_retry = 7;
	attr->max_rd_atomic = 4;
	if (to == IBV_QPS_INIT)
		return IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
	if (to == IBV_QPS_RTR)
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
}

static void case_attributes(void)
{
	struct ibv_qp_attr attr;
	struct pair p;
	unsigned int i;
	int mask, err;

	for (i = 0; i < ARRAY_SIZE(twists); i++) {
		const struct twist *t = &twists[i];

		pair_make(&p, NULL);
		if (drive(&p, &p.b, IBV_QPS_RTS) || drive(&p, &p.a, t->to - 1))
			die("%s: the start is not reached", t->what);
		mask = full_attr(&p, t->to, &attr);
		t->change(&attr);
		err = ibv_modify_qp(p.a.qp, &attr, (mask & ~t->drop) | t->add);
		say(t->what, "%s, then %s", err_name(err), side_state(&p.a));
		if (err) {
			/* A refusal changes nothing. */
			err = side_to(&p, &p.a, t->to);
			say(t->what, "then done right: %s, then %s", err_name(err),
			    side_state(&p.a));
		}
		pair_free(&p);
	}
}

#define SAME(field, want) \
	say("query: " #field, "%s", attr.field == (want) ? "as set" : "differs")

static void case_query(void)
{
	/* Alternate paths (not RoCE) and the SQD flag aside. */
	const int all = (1 << 21) - 1;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pair p;
	int err;

	pair_make(&p, NULL);
	p.param.timeout = 15;
	p.param.retry_cnt = 5;
	p.param.rnr_retry = 3;
	p.param.min_rnr_timer = 9;
	p.param.rd_atomic = 2;
	p.param.traffic_class = 32;
	p.param.mtu = IBV_MTU_1024;
	p.param.access = IBV_ACCESS_REMOTE_WRITE;
	drive(&p, &p.b, IBV_QPS_RTS);
	drive(&p, &p.a, IBV_QPS_RTS);
	err = ibv_query_qp(p.a.qp, &attr, all, &init);
	say("query", "%s", err_name(err));
	say("query: state", "%s", state_name(attr.qp_state));
	say("query: current state", "%s", state_name(attr.cur_qp_state));
	SAME(path_mtu, IBV_MTU_1024);
	SAME(rq_psn, 1000u);
	SAME(sq_psn, 1000u);
	SAME(dest_qp_num, p.b.qp->qp_num);
	SAME(port_num, 1);
	SAME(timeout, 15);
	SAME(retry_cnt, 5);
	SAME(rnr_retry, 3);
	SAME(min_rnr_timer, 9);
	SAME(max_rd_atomic, 2);
	SAME(max_dest_rd_atomic, 2);
	SAME(pkey_index, 0);
	SAME(qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
	SAME(ah_attr.is_global, 1);
	SAME(ah_attr.grh.sgid_index, dev.gid_index);
	SAME(ah_attr.grh.hop_limit, 64);
	SAME(ah_attr.grh.traffic_class, 32);
	say("query: destination GID", "%s",
	    memcmp(&attr.ah_attr.grh.dgid, &dev.gid, 16) ? "differs" : "as set");
	say("query: capacity", "%s", attr.cap.max_send_wr >= DEPTH && attr.cap.max_recv_wr >= DEPTH &&
	    attr.cap.max_send_sge >= 2 && attr.cap.max_recv_sge >= 2 &&
	    attr.cap.max_inline_data >= 64 ? "at least as asked for" : "too small");
	say("query: CQs and type", "%s", init.send_cq == p.a.scq && init.recv_cq == p.a.rcq &&
	    init.qp_type == IBV_QPT_RC && !init.srq && !init.sq_sig_all ? "right" : "wrong");

	/* Changes within RTS */
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTS;
	attr.min_rnr_timer = 20;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	err = ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER |
			    IBV_QP_ACCESS_FLAGS);
	say("RTS to RTS with another RNR timer and access", "%s", err_name(err));
	ibv_query_qp(p.a.qp, &attr, all, &init);
	SAME(min_rnr_timer, 20);
	SAME(qp_access_flags, IBV_ACCESS_REMOTE_READ);
	err = post(&p, &p.b, &(struct req){ IBV_WR_RDMA_READ, 1, 0, 64 });
	say("RTS to RTS: READ allowed now", "%s %s", err_name(err), completions(p.b.scq, 1));
	err = post(&p, &p.b, &(struct req){ IBV_WR_RDMA_WRITE, 2, 0, 64 });
	say("RTS to RTS: WRITE forbidden now", "%s %s", err_name(err), completions(p.b.scq, 1));
	pair_free(&p);
}

/* --------------------------------------------------------- flush and reuse */

static void fill_queues(struct pair *p, unsigned int sends, unsigned int recvs)
{
	unsigned int i;
	int err;

	for (i = 0; i < recvs; i++) {
		err = post_recv(&p->a, 100 + i, 8192, 64, 0);
		if (err)
			die("post_recv: %s", strerror(err));
	}
	for (i = 0; i < sends; i++) {
		/* every second one unsignalled: a flush shows it all the same */
		err = post(p, &p->a, &(struct req){ IBV_WR_SEND, 200 + i, 0, 64,
			   .flags = i & 1 ? -1 : 0 });
		if (err)
			die("post_send: %s", strerror(err));
	}
}

static void case_flush(void)
{
	struct pair p;
	unsigned int i;
	int err;

	/* b has no receive: the SENDs wait. */
	pair_new(&p);
	fill_queues(&p, 6, 5);
	err = qp_to(p.a.qp, IBV_QPS_ERR);
	say("RTS to ERR with work outstanding", "%s", err_name(err));
	say("its sends", "%s", completions(p.a.scq, 6));
	say("its receives", "%s", completions(p.a.rcq, 5));
	err = post(&p, &p.a, &(struct req){ IBV_WR_SEND, 300, 0, 64, .flags = -1 });
	say("post_send in ERR", "%s", err_name(err));
	say("post_send in ERR: completion", "%s", completions(p.a.scq, 1));
	err = post_recv(&p.a, 301, 8192, 64, 0);
	say("post_recv in ERR", "%s", err_name(err));
	/* A receive has no doorbell: it flushes with the next entry at the latest. */
	post(&p, &p.a, &(struct req){ IBV_WR_SEND, 302, 0, 64 });
	say("post_recv in ERR: completion", "%s", completions(p.a.rcq, 1));
	say("another post_send in ERR", "%s", completions(p.a.scq, 1));
	say("peer meanwhile", "%s", side_state(&p.b));
	say("events", "%s", events(50));
	pair_free(&p);

	/* ERR from INIT: receives flush. */
	pair_make(&p, NULL);
	drive(&p, &p.a, IBV_QPS_INIT);
	for (i = 0; i < 3; i++)
		post_recv(&p.a, 400 + i, 8192, 64, 0);
	err = qp_to(p.a.qp, IBV_QPS_ERR);
	say("INIT to ERR with receives", "%s", err_name(err));
	say("INIT to ERR: completions", "%s", completions(p.a.rcq, 3));
	pair_free(&p);

	/* Destroying a QP with work outstanding waits for nobody. */
	pair_new(&p);
	fill_queues(&p, 6, 5);
	pair_free(&p);
	say("destroy with work outstanding", "ok");
}

static void case_reset(void)
{
	struct ibv_wc wc;
	struct pair p;
	unsigned int i;
	int err;

	pair_new(&p);
	for (i = 0; i < 3; i++) {
		fill_queues(&p, 4, 3);
		if (i == 1)
			qp_to(p.a.qp, IBV_QPS_ERR);
		err = qp_to(p.a.qp, IBV_QPS_RESET) ?: qp_to(p.b.qp, IBV_QPS_RESET);
		say("to RESET with work outstanding", "%s, then %s", err_name(err),
		    side_state(&p.a));
		while (cq_wait(p.a.scq, &wc, 20) || cq_wait(p.a.rcq, &wc, 20))
			if (i != 1)
				say("a completion came", "%s", status_name(wc.status));
		pair_connect(&p);
		say("used again", "%s", still_works(&p));
	}
	/* Only one end starts anew: the other one's requests find no QP. */
	pair_free(&p);

	pair_new(&p);
	say("before", "%s", still_works(&p));
	err = post_recv(&p.b, 1, 8192, 64, 0);
	qp_to(p.b.qp, IBV_QPS_RESET);
	say("peer reset, its receives", "%s", cq_wait(p.b.rcq, &wc, 50) ?
	    status_name(wc.status) : "gone");
	err = post(&p, &p.a, &(struct req){ IBV_WR_SEND, 2, 0, 64 });
	say("a SEND to a QP in RESET", "%s", err_name(err));
	pair_free(&p);
}

static void case_sqd(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_SQD,
		.en_sqd_async_notify = 1,
	};
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;
	struct pair p;
	int err;

	pair_new(&p);
	err = ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
	say("RTS to SQD, idle", "%s, then %s", err_name(err), side_state(&p.a));
	say("events", "%s", events(300));
	post_recv(&p.b, 1, 0, 64, 0);
	err = post(&p, &p.a, &(struct req){ IBV_WR_SEND, 1, 0, 64 });
	say("post_send in SQD", "%s", err_name(err));
	say("it is held", "%s", cq_wait(p.a.scq, &wc, 200) ? status_name(wc.status) : "yes");
	err = post_recv(&p.a, 7, 4096, 64, 0) ?:
	      post(&p, &p.b, &(struct req){ IBV_WR_SEND, 7, 0, 64 });
	say("receiving in SQD", "%s %s", completion(p.a.rcq, NULL), completion(p.b.scq, NULL));
	err = qp_to(p.a.qp, IBV_QPS_RTS);
	say("SQD to RTS", "%s, then %s", err_name(err), side_state(&p.a));
	say("it goes now", "%s", cq_wait(p.a.scq, &wc, 1500) && cq_wait(p.b.rcq, &wc, 1500) ?
	    status_name(wc.status) : "no");
	say("afterwards", "%s", still_works(&p));

	/* With a SEND that waits for its receive. */
	post(&p, &p.a, &(struct req){ IBV_WR_SEND, 2, 0, 64 });
	attr.qp_state = IBV_QPS_SQD;
	err = ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
	say("RTS to SQD with a SEND waiting", "%s", err_name(err));
	say("events before it is done", "%s", events(200));
	ibv_query_qp(p.a.qp, &attr, IBV_QP_STATE, &init);
	say("draining", "%s", attr.sq_draining ? "yes" : "no");
	post_recv(&p.b, 2, 0, 64, 0);
	say("it ends", "%s %s", completion(p.a.scq, NULL), completion(p.b.rcq, NULL));
	say("events after it is done", "%s", events(500));
	ibv_query_qp(p.a.qp, &attr, IBV_QP_STATE, &init);
	say("still draining", "%s", attr.sq_draining ? "yes" : "no");
	err = qp_to(p.a.qp, IBV_QPS_RTS);
	say("SQD to RTS again", "%s", err_name(err));
	say("afterwards", "%s", still_works(&p));
	pair_free(&p);
}

/* ------------------------------------------------------------------- main */

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "transition", case_transitions },
	{ "attribute", case_attributes },
	{ "query", case_query },
	{ "flush", case_flush },
	{ "reset", case_reset },
	{ "sqd", case_sqd },
	{ "rnr", case_rnr },
	{ "error", case_errors },
	{ "size", case_sizes },
	{ "dereg", case_dereg },
	{ "cq", case_cq },
	{ "limit", case_limits },
};

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "dev", required_argument, NULL, 'd' },
		{ "gid", required_argument, NULL, 'g' },
		{ "only", required_argument, NULL, 'o' },
		{ "list", no_argument, NULL, 'l' },
		{ }
	};
	const char *name = NULL, *gid = NULL, *only = NULL;
	unsigned int i, done = 0;
	int opt;

	progname = "qpstate";
	while ((opt = getopt_long(argc, argv, "d:g:o:l", longs, NULL)) != -1) {
		switch (opt) {
		case 'd':
			name = optarg;
			break;
		case 'g':
			gid = optarg;
			break;
		case 'o':
			only = optarg;
			break;
		case 'l':
			for (i = 0; i < ARRAY_SIZE(cases); i++)
				printf("%s\n", cases[i].name);
			return 0;
		default:
			name = NULL;
			goto usage;
		}
	}
usage:
	if (!name || optind < argc) {
		fprintf(stderr, "usage: qpstate --dev DEVICE [--gid GID] [--only CASE] | --list\n");
		return 2;
	}
	dev_open(&dev, name, gid);
	/* For events(): nothing there must not block. */
	fcntl(dev.ctx->async_fd, F_SETFL, fcntl(dev.ctx->async_fd, F_GETFL) | O_NONBLOCK);
	pd = ibv_alloc_pd(dev.ctx);
	if (!pd)
		die_errno("alloc_pd");
	buf = mmap(NULL, BUF_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED)
		die_errno("memory");
	mr = ibv_reg_mr(pd, buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!mr)
		die_errno("reg_mr");
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		if (only && strcmp(only, cases[i].name))
			continue;
		case_name = cases[i].name;
		cases[i].run();
		events(0);
		done++;
	}
	if (!done)
		die("no case %s", only);
	if (ibv_dereg_mr(mr) || ibv_dealloc_pd(pd))
		die("objects cannot be freed at the end");
	dev_close(&dev);
	printf("end\n");
	return 0;
}
