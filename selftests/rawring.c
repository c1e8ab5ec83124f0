// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A hostile user of the shared rings: no libibverbs in between, so nothing is
 * checked before the kernel sees it.  Each case runs in a process of its own
 * and may end in errors or in nothing; what must not happen is a request that
 * succeeds with keys or memory that are not ours, a process that hangs, a
 * device that no longer works, and any word of the kernel (that is for
 * agg_hostile.sh to see).
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rawring.h"

uint8_t *mem, *guard;
struct rmr mr;
uint64_t rng = 1;

const uint32_t wild[NR_WILD] = {
	0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 127, 128, 255, 256, 4095, 4096, 0xffff,
	0x10000, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffff0, 0xfffffffe, 0xffffffff,
};

/* ------------------------------------------------------------------ tools */

void must(int err, const char *what)
{
	if (err)
		die("%s: %s", what, strerror(err));
}

void pair(struct rdev *d, struct rqp *a, struct rqp *b)
{
	must(raw_pair(d, a, b), "a pair of QPs");
}

/*
 * Everything that makes the kernel look at the rings, then what came of it.
 * Returns the number of successful sends; the wr_id of each is in @ids if that
 * is not NULL (room for 64).
 */
unsigned int kick(struct rdev *d, struct rqp *qp, unsigned int ms, uint64_t *ids)
{
	struct ib_uverbs_wc wc;
	unsigned int n = 0, seen = 0;

	raw_doorbell(d, qp);
	raw_notify(d, &qp->scq, false);
	raw_notify(d, &qp->rcq, false);
	while (seen++ < 200 && raw_poll(&qp->scq, &wc, ms)) {
		if (wc.status)
			continue;
		if (ids && n < 64)
			ids[n] = wc.wr_id;
		n++;
	}
	while (seen++ < 400 && raw_poll(&qp->rcq, &wc, 0))
		;
	return n;
}

/* A SEND and a WRITE on a fresh pair, with checked content. */
void works(struct rdev *d)
{
	struct ib_uverbs_wc wc;
	struct rqp a, b;
	unsigned int i;

	pair(d, &a, &b);
	for (i = 0; i < 3; i++) {
		pattern_fill(mem + 1024, rng + i, 0, 700);
		memset(mem + 2048, 0, 2048);
		raw_recv(&b, mem + 2048, 1024, mr.lkey);
		ring_produce(&b.rq);
		raw_send(&a, IBV_WR_RDMA_WRITE, mem + 1024, 700, mr.lkey, mem + 3072, mr.rkey);
		ring_produce(&a.sq);
		raw_send(&a, IBV_WR_SEND, mem + 1024, 700, mr.lkey, NULL, 0);
		ring_produce(&a.sq);
		must(raw_doorbell(d, &a), "doorbell");
		if (!raw_poll(&a.scq, &wc, 10000) || wc.status)
			die("afterwards: a WRITE does not work (status %u)", wc.status);
		if (!raw_poll(&a.scq, &wc, 10000) || wc.status)
			die("afterwards: a SEND does not work (status %u)", wc.status);
		if (!raw_poll(&b.rcq, &wc, 10000) || wc.status || wc.byte_len != 700)
			die("afterwards: a receive does not work (status %u)", wc.status);
		if (pattern_check(mem + 2048, rng + i, 0, 700) >= 0 ||
		    pattern_check(mem + 3072, rng + i, 0, 700) >= 0)
			die("afterwards: wrong content");
	}
	raw_free(d, &a);
	raw_free(d, &b);
}

/* ------------------------------------------------------------ send rings */

static void case_producer(struct rdev *d)
{
	struct rqp a, b;
	unsigned int i;

	for (i = 0; i < NR_WILD; i++) {
		pair(d, &a, &b);
		raw_recv(&b, mem, 64, mr.lkey);
		ring_produce(&b.rq);
		a.sq.q->producer_index = wild[i];
		kick(d, &a, 5, NULL);
		b.rq.q->producer_index = wild[NR_WILD - 1 - i];
		kick(d, &b, 5, NULL);
		a.sq.q->producer_index = a.sq.q->consumer_index - 1;
		kick(d, &a, 5, NULL);
		raw_free(d, &a);
		raw_free(d, &b);
	}
}

static void case_header(struct rdev *d)
{
	struct ib_uverbs_wc wc;
	struct rqp a, b;
	unsigned int i;

	/* The kernel has its own size and index: good requests go through. */
	pair(d, &a, &b);
	for (i = 0; i < NR_WILD; i++) {
		struct ring *rings[] = { &a.sq, &a.rq, &a.scq.ring, &b.rq, &b.rcq.ring };
		unsigned int k;

		for (k = 0; k < ARRAY_SIZE(rings); k++) {
			rings[k]->q->log2_elem_size = wild[i];
			rings[k]->q->index_mask = wild[(i + k) % NR_WILD];
			memset(rings[k]->q->pad_1, i, sizeof(rings[k]->q->pad_1));
			memset(rings[k]->q->pad_2, i, sizeof(rings[k]->q->pad_2));
		}
		a.sq.q->consumer_index = wild[i];
		b.rq.q->consumer_index = wild[i];
		pattern_fill(mem, i, 0, 64);
		raw_recv(&b, mem + 512, 64, mr.lkey);
		ring_produce(&b.rq);
		raw_send(&a, IBV_WR_SEND, mem, 64, mr.lkey, NULL, 0);
		ring_produce(&a.sq);
		must(raw_doorbell(d, &a), "doorbell");
		if (!raw_poll(&a.scq, &wc, 10000) || wc.status ||
		    !raw_poll(&b.rcq, &wc, 10000) || wc.status)
			die("header scribbled with 0x%x: a SEND does not work", wild[i]);
		if (pattern_check(mem + 512, i, 0, 64) >= 0)
			die("header scribbled with 0x%x: wrong content", wild[i]);
	}
	raw_free(d, &a);
	raw_free(d, &b);
}

/* One hostile request on a fresh pair; it must not succeed if @never. */
static void hostile(struct rdev *d, const char *what, uint32_t opcode,
		    void (*spoil)(struct rxe_send_wqe *wqe, uint32_t v), uint32_t v, bool never)
{
	struct rxe_send_wqe *wqe;
	struct rqp a, b;

	pair(d, &a, &b);
	raw_recv(&b, mem + 8192, 4096, mr.lkey);
	ring_produce(&b.rq);
	wqe = raw_send(&a, opcode, mem, 8, mr.lkey, mem + 4096, mr.rkey);
	spoil(wqe, v);
	ring_produce(&a.sq);
	if (kick(d, &a, 10, NULL) && never)
		die("%s 0x%x, opcode %u: it succeeds", what, v, opcode);
	raw_free(d, &a);
	raw_free(d, &b);
}

static void spoil_num_sge(struct rxe_send_wqe *w, uint32_t v)
{
	w->dma.num_sge = v;
}

static void spoil_length(struct rxe_send_wqe *w, uint32_t v)
{
	w->dma.length = v;
	w->dma.resid = v;
	w->dma.sge[0].length = v;
}

static void spoil_sum(struct rxe_send_wqe *w, uint32_t v)
{
	unsigned int i;

	w->dma.num_sge = 4;
	for (i = 0; i < 4; i++) {
		w->dma.sge[i] = w->dma.sge[0];
		w->dma.sge[i].length = v;
	}
	w->dma.length = 4 * v;
	w->dma.resid = 4 * v;
}

static void spoil_state(struct rxe_send_wqe *w, uint32_t v)
{
	w->dma.cur_sge = v;
	w->dma.sge_offset = v;
	w->dma.resid = v;
	w->dma.reserved = v;
	w->status = v;
	w->state = v;
	w->mask = v;
	w->first_psn = v;
	w->last_psn = v;
	w->ack_length = v;
	w->ssn = v;
	w->has_rd_atomic = v;
	w->iova = v;
	w->wr.reserved = v;
}

static void spoil_flags(struct rxe_send_wqe *w, uint32_t v)
{
	w->wr.send_flags = v;
}

static void spoil_inline(struct rxe_send_wqe *w, uint32_t v)
{
	w->wr.send_flags |= IBV_SEND_INLINE;
	w->dma.length = v;
	w->dma.resid = v;
	w->dma.num_sge = v;
}

static void spoil_lkey(struct rxe_send_wqe *w, uint32_t v)
{
	w->dma.sge[0].lkey = v;
}

static void spoil_rkey(struct rxe_send_wqe *w, uint32_t v)
{
	if (w->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    w->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		w->wr.wr.atomic.rkey = v;
	else
		w->wr.wr.rdma.rkey = v;
}

static void spoil_addr(struct rxe_send_wqe *w, uint32_t v)
{
	w->dma.sge[0].addr = (uint64_t)v << 32 | v;
}

static void spoil_remote(struct rxe_send_wqe *w, uint32_t v)
{
	w->wr.wr.rdma.remote_addr = (uint64_t)v << 32 | v;
}

static void case_elements(struct rdev *d)
{
	unsigned int i;

	for (i = 0; i < NR_WILD; i++) {
		hostile(d, "num_sge", IBV_WR_SEND, spoil_num_sge, wild[i], wild[i] > 4);
		hostile(d, "length", IBV_WR_RDMA_WRITE, spoil_length, wild[i],
			wild[i] > MEM_LEN);
		hostile(d, "sum of lengths", IBV_WR_RDMA_READ, spoil_sum, wild[i],
			wild[i] > MEM_LEN);
		if (i % 3 == 0)
			hostile(d, "state words", IBV_WR_SEND, spoil_state, wild[i], false);
	}
}

static void case_inline(struct rdev *d)
{
	unsigned int i;

	for (i = 0; i < NR_WILD; i++) {
		hostile(d, "inline", IBV_WR_SEND, spoil_inline, wild[i], wild[i] > 4096);
		if (i % 4 == 0) {
			hostile(d, "inline READ", IBV_WR_RDMA_READ, spoil_inline, wild[i], true);
			hostile(d, "inline atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, spoil_inline,
				wild[i], true);
		}
	}
}

static void case_flags(struct rdev *d)
{
	unsigned int i;

	for (i = 0; i < 32; i++)
		hostile(d, "flags", i & 1 ? IBV_WR_SEND : IBV_WR_RDMA_READ, spoil_flags,
			1u << i | IBV_SEND_SIGNALED, false);
	hostile(d, "flags", IBV_WR_SEND, spoil_flags, 0xffffffff, false);
}

/*
 * All opcodes, and those of kernel consumers and of extended QPs.  What is not
 * among the seven must fail: the keys in it would go untranslated.
 */
static void spoil_opcode(struct rxe_send_wqe *w, uint32_t v)
{
	w->wr.opcode = v;
	w->wr.wr.mw.addr = (uintptr_t)mem;
	w->wr.wr.mw.length = 4096;
	w->wr.wr.mw.mr_lkey = mr.lkey;
	w->wr.wr.mw.mw_rkey = mr.rkey;
	w->wr.wr.mw.rkey = mr.rkey;
	w->wr.wr.mw.access = 0xf;
}

static void case_opcodes(struct rdev *d)
{
	static const uint32_t more[] = {
		32, 33, 0x20, 0x21, 0x7f, 0x80, 0xf0, 0xff, 0x100, 0x106, 0x8000, 0x80000000,
		0xffffffff,
	};
	unsigned int i;

	for (i = 7; i < 20; i++)
		hostile(d, "opcode", i, spoil_opcode, i, true);
	for (i = 0; i < ARRAY_SIZE(more); i++)
		hostile(d, "opcode", 0, spoil_opcode, more[i], true);
}

/*
 * Keys that are not ours.  Small ones may be those of a lane: an untranslated
 * key would succeed here.
 */
static void case_keys(struct rdev *d)
{
	unsigned int i;
	uint32_t v;

	for (i = 0; i < 24; i++) {
		v = i < 8 ? i << 8 : i < 16 ? wild[i] : (uint32_t)rnd64(&rng);
		/* another variant of our own index, too */
		if (i == 23)
			v = mr.lkey ^ 1;
		if (v == mr.lkey || v == mr.rkey)
			continue;
		hostile(d, "lkey", i & 1 ? IBV_WR_SEND : IBV_WR_RDMA_READ, spoil_lkey, v, true);
		hostile(d, "rkey", i & 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, spoil_rkey, v,
			true);
	}
	for (i = 8; i < NR_WILD; i += 4) {
		hostile(d, "address", IBV_WR_SEND, spoil_addr, wild[i], true);
		hostile(d, "remote address", IBV_WR_RDMA_READ, spoil_remote, wild[i], true);
	}
}

/* --------------------------------------------------------- receive rings */

static void case_receives(struct rdev *d)
{
	struct ib_uverbs_wc wc;
	struct rqp a, b;
	unsigned int i, kind;

	for (i = 0; i < NR_WILD; i++) {
		struct rxe_recv_wqe *r;

		kind = i % 5;
		pair(d, &a, &b);
		r = raw_recv(&b, mem + 4096, 4096, mr.lkey);
		switch (kind) {
		case 0:
			r->dma.num_sge = wild[i];
			break;
		case 1:
			r->dma.sge[0].length = wild[i];
			r->dma.length = wild[NR_WILD - 1 - i];
			break;
		case 2:
			r->dma.sge[0].lkey = wild[i];
			break;
		case 3:
			r->dma.sge[0].addr = (uint64_t)wild[i] << 32;
			break;
		case 4:
			r->dma.cur_sge = wild[i];
			r->dma.sge_offset = wild[i];
			r->dma.resid = wild[i];
			r->reserved = wild[i];
			break;
		}
		ring_produce(&b.rq);
		raw_send(&a, IBV_WR_SEND, mem, 64, mr.lkey, NULL, 0);
		ring_produce(&a.sq);
		raw_doorbell(d, &a);
		raw_notify(d, &b.rcq, false);
		if (raw_poll(&b.rcq, &wc, 30) && !wc.status && kind >= 2 && kind <= 3)
			die("a receive with a bad key or address succeeds (0x%x)", wild[i]);
		raw_free(d, &a);
		raw_free(d, &b);
	}
}

/* -------------------------------------------------------- completion rings */

static void case_cq(struct rdev *d)
{
	struct ib_uverbs_wc wc;
	struct rqp a, b;
	unsigned int i, n;

	for (i = 0; i < NR_WILD; i += 2) {
		pair(d, &a, &b);
		for (n = 0; n < 10; n++) {
			a.scq.ring.q->consumer_index = wild[(i + n) % NR_WILD];
			if (n & 1)
				a.scq.ring.q->producer_index = wild[i];
			memset(a.scq.ring.q->data, 0xff, 4096 - sizeof(*a.scq.ring.q));
			raw_send(&a, IBV_WR_RDMA_WRITE, mem, 8, mr.lkey, mem + 4096, mr.rkey);
			ring_produce(&a.sq);
			raw_doorbell(d, &a);
			raw_notify(d, &a.scq, n & 1);
		}
		/* Full for ever: nobody consumes. */
		a.scq.ring.q->consumer_index = a.scq.ring.q->producer_index + 1;
		for (n = 0; n < 5; n++) {
			raw_send(&a, IBV_WR_RDMA_WRITE, mem, 8, mr.lkey, mem + 4096, mr.rkey);
			ring_produce(&a.sq);
			raw_doorbell(d, &a);
		}
		raw_poll(&a.scq, &wc, 10);
		if (i % 6 == 0)
			raw_resize_cq(d, &a.scq, 100);
		raw_free(d, &a);
		raw_free(d, &b);
	}
}

/* ---------------------------------------------------------------- threads */

struct storm {
	struct rdev *d;
	struct rqp *qp;
	uint64_t end, rng;
	int kind;
};

static uint32_t wild_of(uint64_t *r)
{
	return rnd(r, 3) ? wild[rnd(r, NR_WILD)] : (uint32_t)rnd64(r);
}

/* Changes elements while the kernel may be reading them. */
static void scribble(struct storm *s)
{
	struct ring *r = rnd(&s->rng, 3) ? &s->qp->sq : &s->qp->rq;
	uint32_t i = rnd64(&s->rng);

	if (r == &s->qp->sq) {
		struct rxe_send_wqe *w = ring_elem(r, i);

		switch (rnd(&s->rng, 8)) {
		case 0:
			w->dma.num_sge = wild_of(&s->rng);
			break;
		case 1:
			w->dma.length = wild_of(&s->rng);
			break;
		case 2:
			w->wr.opcode = rnd(&s->rng, 20);
			break;
		case 3:
			w->wr.send_flags = wild_of(&s->rng) & 0x1f;
			break;
		case 4:
			w->dma.sge[0].lkey = wild_of(&s->rng);
			break;
		case 5:
			w->dma.sge[0].length = wild_of(&s->rng);
			break;
		case 6:
			w->wr.wr.rdma.rkey = wild_of(&s->rng);
			break;
		default:
			w->dma.num_sge = 1;
			w->dma.sge[0].addr = (uintptr_t)mem;
			w->dma.sge[0].length = 8;
			w->dma.sge[0].lkey = mr.lkey;
			w->wr.opcode = rnd(&s->rng, 5);
			w->wr.send_flags = IBV_SEND_SIGNALED;
			w->wr.wr.rdma.remote_addr = (uintptr_t)mem;
			w->wr.wr.rdma.rkey = mr.rkey;
		}
		return;
	}
	struct rxe_recv_wqe *w = ring_elem(r, i);

	w->dma.num_sge = rnd(&s->rng, 2) ? 1 : wild_of(&s->rng);
	w->dma.sge[0].addr = (uintptr_t)mem;
	w->dma.sge[0].length = wild_of(&s->rng);
	w->dma.sge[0].lkey = rnd(&s->rng, 2) ? mr.lkey : wild_of(&s->rng);
}

static void *storm(void *p)
{
	struct storm *s = p;

	while (now_us() < s->end) {
		switch (s->kind) {
		case 0:
			scribble(s);
			break;
		case 1:
			s->qp->sq.q->producer_index = rnd64(&s->rng);
			s->qp->rq.q->producer_index = rnd64(&s->rng);
			raw_doorbell(s->d, s->qp);
			break;
		case 2:
			raw_doorbell(s->d, s->qp);
			raw_notify(s->d, &s->qp->scq, false);
			raw_notify(s->d, &s->qp->rcq, true);
			s->qp->scq.ring.q->consumer_index = s->qp->scq.ring.q->producer_index;
			break;
		case 3:
			/* Errors end the fun: start anew, while the others go on. */
			usleep(5000);
			raw_modify(s->d, s->qp, IBV_QPS_ERR, 0, 0, 0);
			raw_modify(s->d, s->qp, IBV_QPS_RESET, 0, 0, 0);
			raw_modify(s->d, s->qp, IBV_QPS_INIT, 0, 0, 0);
			raw_modify(s->d, s->qp, IBV_QPS_RTR, s->qp->qpn, 1, 0);
			raw_modify(s->d, s->qp, IBV_QPS_RTS, 0, 0, 1);
			break;
		}
	}
	return NULL;
}

static unsigned int storm_ms = 1500;

static void storms(struct rdev *d, const int *kinds, unsigned int n, bool destroy_early)
{
	pthread_t threads[8];
	struct storm s[8];
	struct rqp a, b;
	unsigned int i;

	pair(d, &a, &b);
	for (i = 0; i < n; i++) {
		s[i] = (struct storm){ d, i % 3 == 2 ? &b : &a, now_us() + storm_ms * 1000ULL,
				       rng + i, kinds[i] };
		if (pthread_create(&threads[i], NULL, storm, &s[i]))
			die("no thread");
	}
	if (destroy_early) {
		usleep(storm_ms * 300);
		raw_destroy_qp(d, &a);
		usleep(storm_ms * 200);
		raw_destroy_qp(d, &b);
	}
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	if (destroy_early)
		return;		/* the rest goes with the process */
	raw_free(d, &a);
	raw_free(d, &b);
}

static void case_doorbells(struct rdev *d)
{
	static const int kinds[] = { 2, 2, 2, 2 };

	storms(d, kinds, 4, false);
}

static void case_race(struct rdev *d)
{
	static const int kinds[] = { 0, 1, 2, 0, 1, 3, 3 };

	storms(d, kinds, 5, false);
	storms(d, kinds, 7, false);
}

static void case_destroy(struct rdev *d)
{
	static const int kinds[] = { 0, 1, 2, 1 };

	storms(d, kinds, 4, true);
}

static void case_resize(struct rdev *d)
{
	struct rqp a, b;
	unsigned int i;

	/* One thread: the rings move, and another would touch what is unmapped. */
	pair(d, &a, &b);
	for (i = 0; i < 40; i++) {
		a.sq.q->producer_index = rnd64(&rng);
		a.scq.ring.q->consumer_index = rnd64(&rng);
		raw_doorbell(d, &a);
		raw_resize_cq(d, &a.scq, rnd(&rng, 100));
		raw_resize_cq(d, &a.rcq, wild[rnd(&rng, NR_WILD)]);
	}
	raw_free(d, &a);
	raw_free(d, &b);
}

/* The process ends in the middle of it all. */
static void case_close(struct rdev *d)
{
	static const int kinds[] = { 0, 1, 2, 1 };
	unsigned int i;

	for (i = 0; i < 6; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct rdev mine;
			struct rmr m;
			char index[16];

			snprintf(index, sizeof(index), "%d", d->gid_index);
			alarm(0);
			raw_open(&mine, dev_name, index);
			must(raw_reg_mr(&mine, mem, MEM_LEN, ALL_ACCESS, &m), "reg_mr");
			mr = m;
			if (i & 1) {
				/* close() under the feet of the threads */
				storm_ms = 300;
				ualarm(100000, 0);
			} else {
				storm_ms = 200;
			}
			signal(SIGALRM, SIG_DFL);
			storms(&mine, kinds, 4, false);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

/* ------------------------------------------------------------- random loop */

unsigned int fuzz_seconds = 5;

static void fuzz_step(struct rdev *d, struct rqp *a, struct rqp *b)
{
	struct ring *rings[] = {
		&a->sq, &a->sq, &a->sq, &a->rq, &b->rq, &a->scq.ring, &b->rcq.ring,
	};
	struct ring *r = rings[rnd(&rng, ARRAY_SIZE(rings))];
	struct storm s = { d, rnd(&rng, 2) ? a : b, 0, rnd64(&rng), 0 };
	uint32_t *word;
	unsigned int i;

	switch (rnd(&rng, 12)) {
	case 0:
		r->q->producer_index = wild_of(&rng);
		break;
	case 1:
		r->q->consumer_index = wild_of(&rng);
		break;
	case 2:
		word = (uint32_t *)r->q + rnd(&rng, r->size / 4);
		*word = wild_of(&rng);
		break;
	case 3:
		word = ring_elem(r, rnd64(&rng));
		for (i = 0; i < 32; i++)
			word[i] = wild_of(&rng);
		break;
	case 4:
	case 5:
		for (i = 0; i < 8; i++)
			scribble(&s);
		break;
	case 6:
		raw_send(a, rnd(&rng, 7), mem, rnd(&rng, 64), mr.lkey, mem + 4096, mr.rkey);
		ring_produce(&a->sq);
		break;
	case 7:
		raw_recv(b, mem + 8192, 64, mr.lkey);
		ring_produce(&b->rq);
		break;
	case 8:
		raw_notify(d, rnd(&rng, 2) ? &a->scq : &b->rcq, rnd(&rng, 2));
		break;
	case 9:
		if (!rnd(&rng, 10)) {
			raw_modify(d, a, rnd(&rng, 7), b->qpn, 1, 2);
			raw_modify(d, b, rnd(&rng, 7), a->qpn, 2, 1);
		}
		break;
	default:
		raw_doorbell(d, rnd(&rng, 4) ? a : b);
	}
}

static void case_random(struct rdev *d)
{
	uint64_t end = now_us() + fuzz_seconds * 1000000ULL;
	struct rqp a, b;
	unsigned int i, rounds = 0;

	while (now_us() < end) {
		pair(d, &a, &b);
		for (i = 0; i < 150; i++)
			fuzz_step(d, &a, &b);
		raw_free(d, &a);
		raw_free(d, &b);
		rounds++;
	}
	printf("# %u rounds of 150 steps\n", rounds);
}

/* -------------------------------------------------------------------- main */

const char *dev_name;

static const struct {
	const char *name;
	void (*run)(struct rdev *d);
	unsigned int limit;	/* seconds */
	bool agg_only;		/* would hurt a bare soft-RoCE device */
} cases[] = {
	{ "producer", case_producer, 60, true },
	{ "header", case_header, 60, false },
	{ "elements", case_elements, 90, true },
	{ "inline", case_inline, 60, true },
	{ "flags", case_flags, 60, true },
	{ "opcodes", case_opcodes, 60, true },
	{ "keys", case_keys, 90, false },
	{ "receives", case_receives, 60, true },
	{ "cq", case_cq, 60, true },
	{ "mmap", case_mmap, 60, true },
	{ "unmap", case_unmap, 60, true },
	{ "move", case_move, 60, true },
	{ "protect", case_protect, 60, false },
	{ "fork", case_fork, 60, false },
	{ "advice", case_advice, 60, true },
	{ "command", case_command, 60, true },
	{ "state", case_state, 60, true },
	{ "doorbells", case_doorbells, 60, true },
	{ "race", case_race, 60, true },
	{ "destroy", case_destroy, 60, true },
	{ "resize", case_resize, 60, true },
	{ "close", case_close, 60, true },
	{ "random", case_random, 120, true },
};

static const char *run_one(unsigned int i, const char *gid)
{
	static char text[128];
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die_errno("fork");
	if (pid == 0) {
		struct rdev d;

		alarm(cases[i].limit + (i == ARRAY_SIZE(cases) - 1 ? fuzz_seconds : 0));
		raw_open(&d, dev_name, gid);
		must(raw_reg_mr(&d, mem, MEM_LEN, ALL_ACCESS, &mr), "reg_mr");
		cases[i].run(&d);
		works(&d);
		if (fill_check(guard, 0x77, MEM_LEN) >= 0)
			die("memory that is not registered was written");
		fflush(stdout);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		die_errno("waitpid");
	if (WIFSIGNALED(status)) {
		snprintf(text, sizeof(text), "%s", WTERMSIG(status) == SIGALRM ? "it hangs" :
			 strsignal(WTERMSIG(status)));
		return text;
	}
	if (WEXITSTATUS(status)) {
		snprintf(text, sizeof(text), "exit %d", WEXITSTATUS(status));
		return text;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "dev", required_argument, NULL, 'd' },
		{ "gid", required_argument, NULL, 'g' },
		{ "only", required_argument, NULL, 'o' },
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 'T' },
		{ "bare", no_argument, NULL, 'b' },
		{ "list", no_argument, NULL, 'l' },
		{ }
	};
	const char *gid = NULL, *only = NULL, *why;
	unsigned int i, failed = 0, done = 0;
	bool bare = false;
	uint8_t *area;
	int opt;

	progname = "rawring";
	while ((opt = getopt_long(argc, argv, "d:g:o:s:T:bl", longs, NULL)) != -1) {
		switch (opt) {
		case 'd':
			dev_name = optarg;
			break;
		case 'g':
			gid = optarg;
			break;
		case 'o':
			only = optarg;
			break;
		case 's':
			rng = parse_size(optarg);
			break;
		case 'T':
			fuzz_seconds = parse_size(optarg);
			break;
		case 'b':
			bare = true;
			break;
		case 'l':
			for (i = 0; i < ARRAY_SIZE(cases); i++)
				printf("%s\n", cases[i].name);
			return 0;
		default:
			dev_name = NULL;
			goto usage;
		}
	}
usage:
	if (!dev_name || !gid || optind < argc) {
		fprintf(stderr,
			"usage: rawring --dev DEVICE --gid INDEX [--only CASE] [--seed N]\n"
			"               [--seconds RANDOM] [--bare] | --list\n"
			"--bare leaves out what a bare soft-RoCE device does not survive\n");
		return 2;
	}
	/* Never registered: memory on both sides of what is. */
	area = mmap(NULL, 2 * MEM_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		die_errno("memory");
	mem = area;
	guard = area + MEM_LEN;
	memset(guard, 0x77, MEM_LEN);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t t = now_us();

		if ((only && strcmp(only, cases[i].name)) || (bare && cases[i].agg_only))
			continue;
		why = run_one(i, gid);
		done++;
		printf("%s %s (%.1f s)%s%s\n", why ? "not ok" : "ok", cases[i].name,
		       (now_us() - t) / 1e6, why ? ": " : "", why ? why : "");
		failed += !!why;
	}
	if (!done)
		die("no case %s", only ? only : "");
	return failed ? 1 : 0;
}
