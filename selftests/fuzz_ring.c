// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An unprivileged process with several QPs, connected to each other in some
 * way, whose threads write into the rings what they like: good requests, nearly
 * good ones, and noise, while others ring doorbells, arm and resize CQs, take QPs
 * through their states and make new ones. It works in rounds of a process each,
 * which ends by itself or is killed.
 *
 * Next to the memory that the QPs may write lies some that they may only read,
 * and some that is not registered; another process has memory whose keys are
 * known. It fails when any of these is written, when a good pair of QPs does not
 * work after a round, when a process hangs, and when nothing ever succeeded.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"
#include "rawuv.h"

#define MEM_LEN		65536	/* of each of the areas */
#define NR_QPS		6
#define THREADS		4
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define RESPONSE(r)	((uintptr_t)memset(&(r), 0, sizeof(r)))

enum { AREA_OPEN, AREA_READ_ONLY, AREA_NONE, AREAS };

static struct fuzz_opts opts;
static uint8_t *area[AREAS];	/* shared with the parent, which looks at them */
static uint8_t *victim;
static struct rmr victim_mr;

static struct stats {
	uint64_t rounds, doorbells, posted, wild, resized, reset, anew;
	uint64_t good, bad;	/* completions */
	uint64_t killed;
} *stats;

/* One QP as it was made; never freed, for others may be looking at it. */
struct fqp {
	struct rqp qp;
	struct fqp *peer;
};

static struct {
	struct rdev d;
	struct rmr open, read_only;
	int channel;
	struct fqp *qp[NR_QPS];
	bool stop;
} g;

static struct fqp *qp_of(uint64_t *rng)
{
	return __atomic_load_n(&g.qp[rnd(rng, NR_QPS)], __ATOMIC_ACQUIRE);
}

/* ---------------------------------------------------------------- objects */

static int make_cq(struct rcq *cq, uint32_t cqe)
{
	struct ib_uverbs_create_cq cmd = { .cqe = cqe, .comp_channel = g.channel };
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct rxe_create_cq_resp rxe;
	} resp;
	int err;

	cmd.response = RESPONSE(resp);
	err = raw_cmd(g.d.fd, IB_USER_VERBS_CMD_CREATE_CQ, &cmd, sizeof(cmd), sizeof(resp));
	if (err)
		return err;
	memset(cq, 0, sizeof(*cq));
	cq->handle = resp.core.cq_handle;
	cq->ring.offset = resp.rxe.mi.offset;
	cq->ring.size = resp.rxe.mi.size;
	return ring_map(&g.d, &cq->ring);
}

static struct fqp *make_qp(uint64_t *rng)
{
	struct ib_uverbs_create_qp cmd = {
		.pd_handle = g.d.pd,
		.max_send_wr = 1 + rnd(rng, 64),
		.max_recv_wr = 1 + rnd(rng, 64),
		.max_send_sge = rnd(rng, 9),
		.max_recv_sge = rnd(rng, 9),
		.max_inline_data = rnd(rng, 2) ? rnd(rng, 300) : 0,
		.sq_sig_all = rnd(rng, 2),
		.qp_type = IBV_QPT_RC,
	};
	struct {
		struct ib_uverbs_create_qp_resp core;
		struct rxe_create_qp_resp rxe;
	} resp;
	struct fqp *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		die("no memory");
	err = make_cq(&f->qp.scq, 1 + rnd(rng, 100));
	if (!err)
		err = make_cq(&f->qp.rcq, 1 + rnd(rng, 100));
	if (err)
		die("create_cq: %s", strerror(err));
	cmd.send_cq_handle = f->qp.scq.handle;
	cmd.recv_cq_handle = rnd(rng, 4) ? f->qp.rcq.handle : f->qp.scq.handle;
	cmd.response = RESPONSE(resp);
	err = raw_cmd(g.d.fd, IB_USER_VERBS_CMD_CREATE_QP, &cmd, sizeof(cmd), sizeof(resp));
	if (err)
		die("create_qp: %s", strerror(err));
	f->qp.handle = resp.core.qp_handle;
	f->qp.qpn = resp.core.qpn;
	f->qp.max_send_sge = resp.core.max_send_sge;
	f->qp.max_recv_sge = resp.core.max_recv_sge;
	f->qp.max_inline = resp.core.max_inline_data;
	f->qp.sq.offset = resp.rxe.sq_mi.offset;
	f->qp.sq.size = resp.rxe.sq_mi.size;
	f->qp.rq.offset = resp.rxe.rq_mi.offset;
	f->qp.rq.size = resp.rxe.rq_mi.size;
	err = ring_map(&g.d, &f->qp.sq);
	if (!err)
		err = ring_map(&g.d, &f->qp.rq);
	if (err)
		die("mmap: %s", strerror(err));
	return f;
}

/* Its rings stay mapped: somebody may be writing into them. */
static void drop_qp(struct fqp *f)
{
	raw_destroy_qp(&g.d, &f->qp);
	raw_destroy_cq(&g.d, &f->qp.scq);
	raw_destroy_cq(&g.d, &f->qp.rcq);
}

static void connect_to(struct fqp *f, struct fqp *peer)
{
	raw_modify(&g.d, &f->qp, IBV_QPS_RESET, 0, 0, 0);
	raw_modify(&g.d, &f->qp, IBV_QPS_INIT, 0, 0, 0);
	raw_modify(&g.d, &f->qp, IBV_QPS_RTR, peer->qp.qpn, 1, 0);
	raw_modify(&g.d, &f->qp, IBV_QPS_RTS, 0, 0, 1);
}

/* Both ends, one after the other: each waits a little for the other's. */
static void join(struct fqp *a, struct fqp *b)
{
	struct fqp *both[2] = { a, b };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		raw_modify(&g.d, &both[i]->qp, IBV_QPS_RESET, 0, 0, 0);
		raw_modify(&g.d, &both[i]->qp, IBV_QPS_INIT, 0, 0, 0);
	}
	for (i = 0; i < 2; i++)
		raw_modify(&g.d, &both[i]->qp, IBV_QPS_RTR, both[!i]->qp.qpn, 1, 0);
	for (i = 0; i < 2; i++)
		raw_modify(&g.d, &both[i]->qp, IBV_QPS_RTS, 0, 0, 1);
}

/* --------------------------------------------------------------- elements */

static uint64_t any_addr(uint64_t *rng)
{
	switch (rnd(rng, 10)) {
	case 0:
		return (uintptr_t)area[rnd(rng, AREAS)] + rnd(rng, MEM_LEN);
	case 1:
		return (uintptr_t)victim + rnd(rng, MEM_LEN);
	case 2:
		return (uint64_t)fuzz_word(rng) << 32 | fuzz_word(rng);
	default:
		return (uintptr_t)area[AREA_OPEN] + (rnd(rng, MEM_LEN / 2) & ~7ULL);
	}
}

static uint32_t any_key(uint64_t *rng, bool remote)
{
	switch (rnd(rng, 16)) {
	case 0:
		return fuzz_word(rng);
	case 1:
		return remote ? g.read_only.rkey : g.read_only.lkey;
	case 2:
		return remote ? victim_mr.rkey : victim_mr.lkey;
	case 3:
		return (remote ? g.open.rkey : g.open.lkey) ^ 1 << rnd(rng, 16);
	default:
		return remote ? g.open.rkey : g.open.lkey;
	}
}

static uint32_t any_len(uint64_t *rng)
{
	return rnd(rng, 40) ? rnd(rng, rnd(rng, 4) ? 64 : 5000) : fuzz_word(rng);
}

static void list(uint64_t *rng, struct rxe_dma_info *dma, uint32_t max_sge)
{
	uint32_t i, room = max_sge;

	dma->num_sge = rnd(rng, max_sge + 1);
	for (i = 0, dma->length = 0; i < dma->num_sge && i < room; i++) {
		dma->sge[i].addr = any_addr(rng);
		dma->sge[i].length = any_len(rng);
		dma->sge[i].lkey = any_key(rng, false);
		dma->length += dma->sge[i].length;
	}
	dma->resid = dma->length;
	if (!rnd(rng, 60))
		dma->num_sge = fuzz_word(rng);
}

static void write_send(uint64_t *rng, struct fqp *f, uint32_t index)
{
	struct rxe_send_wqe *w = ring_elem(&f->qp.sq, index);
	uint32_t op = rnd(rng, 60) ? rnd(rng, 7) : fuzz_word(rng);

	w->wr.wr_id = rnd64(rng);
	w->wr.opcode = op;
	w->wr.send_flags = rnd(rng, 8);
	if (!rnd(rng, 100))
		w->wr.send_flags = fuzz_word(rng);
	w->wr.ex.imm_data = rnd64(rng);
	w->wr.wr.rdma.remote_addr = any_addr(rng);
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w->wr.wr.atomic.compare_add = rnd(rng, 3);
		w->wr.wr.atomic.swap = rnd(rng, 3);
		w->wr.wr.atomic.rkey = any_key(rng, true);
		if (f->qp.max_send_sge) {
			w->dma.num_sge = 1;
			w->dma.length = 8;
			w->dma.sge[0].addr = any_addr(rng);
			w->dma.sge[0].length = rnd(rng, 20) ? 8 : any_len(rng);
			w->dma.sge[0].lkey = any_key(rng, false);
		}
		return;
	}
	w->wr.wr.rdma.rkey = any_key(rng, true);
	if (!rnd(rng, 6)) {
		w->wr.send_flags |= IBV_SEND_INLINE;
		w->dma.length = rnd(rng, 30) ? rnd(rng, f->qp.max_inline + 1) : fuzz_word(rng);
		memset(w->dma.inline_data, op, umin(w->dma.length, f->qp.max_inline));
		return;
	}
	list(rng, &w->dma, f->qp.max_send_sge);
}

static void write_recv(uint64_t *rng, struct fqp *f, uint32_t index)
{
	struct rxe_recv_wqe *w = ring_elem(&f->qp.rq, index);

	w->wr_id = rnd64(rng);
	list(rng, &w->dma, f->qp.max_recv_sge);
	/* Mostly with room for what the sends above bring. */
	if (f->qp.max_recv_sge && rnd(rng, 4)) {
		w->dma.num_sge = 1;
		w->dma.sge[0].addr = (uintptr_t)area[AREA_OPEN];
		w->dma.sge[0].length = MEM_LEN;
		w->dma.sge[0].lkey = g.open.lkey;
	}
}

static void produce(uint64_t *rng, struct fqp *f, bool send)
{
	struct ring *r = send ? &f->qp.sq : &f->qp.rq;
	uint32_t prod = __atomic_load_n(&r->q->producer_index, __ATOMIC_ACQUIRE);
	uint32_t n = 1 + rnd(rng, 6), i;

	for (i = 0; i < n; i++)
		send ? write_send(rng, f, prod + i) : write_recv(rng, f, prod + i);
	__atomic_store_n(&r->q->producer_index, (prod + n) & r->mask, __ATOMIC_RELEASE);
	__atomic_fetch_add(&stats->posted, n, __ATOMIC_RELAXED);
}

/* What no program does. */
static void scribble(uint64_t *rng, struct fqp *f)
{
	struct ring *rings[] = { &f->qp.sq, &f->qp.sq, &f->qp.rq, &f->qp.scq.ring, &f->qp.rcq.ring };
	struct ring *r = rings[rnd(rng, ARRAY_SIZE(rings))];
	uint32_t *word, i;

	fuzz_count(&stats->wild);
	switch (rnd(rng, 6)) {
	case 0:
		r->q->producer_index = fuzz_word(rng);
		break;
	case 1:
		r->q->consumer_index = fuzz_word(rng);
		break;
	case 2:
		r->q->producer_index += rnd(rng, 9) - 4;
		break;
	case 3:		/* anywhere */
		word = (uint32_t *)r->q + rnd(rng, r->size / 4);
		*word = fuzz_word(rng);
		break;
	case 4:		/* an element, while it may be read */
		word = ring_elem(r, rnd64(rng));
		for (i = 0; i < 8; i++)
			word[rnd(rng, (1u << r->shift) / 4)] = fuzz_word(rng);
		break;
	default:	/* back and forth */
		word = ring_elem(&f->qp.sq, rnd64(rng));
		word += rnd(rng, sizeof(struct rxe_send_wqe) / 4);
		i = *word;
		*word = fuzz_word(rng);
		sched_yield();
		*word = i;
		break;
	}
}

static void consume(uint64_t *rng, struct rcq *cq)
{
	struct ring *r = &cq->ring;
	uint32_t prod = __atomic_load_n(&r->q->producer_index, __ATOMIC_ACQUIRE) & r->mask;
	uint32_t cons = r->q->consumer_index & r->mask;

	while (cons != prod) {
		struct ib_uverbs_wc *wc = ring_elem(r, cons);

		fuzz_count(wc->status ? &stats->bad : &stats->good);
		cons = (cons + 1) & r->mask;
	}
	if (rnd(rng, 8))
		__atomic_store_n(&r->q->consumer_index, cons, __ATOMIC_RELEASE);
}

/* ---------------------------------------------------------------- threads */

static void step_rings(uint64_t *rng)
{
	struct fqp *f = qp_of(rng);

	switch (rnd(rng, 8)) {
	case 0:
		if (!rnd(rng, 4))
			scribble(rng, f);
		break;
	case 1:
	case 2:
		produce(rng, f, false);
		break;
	case 3:
	case 4:
		produce(rng, f, true);
		break;
	case 5:
		consume(rng, &f->qp.scq);
		consume(rng, &f->qp.rcq);
		break;
	case 6:
		raw_notify(&g.d, rnd(rng, 2) ? &f->qp.scq : &f->qp.rcq, rnd(rng, 2));
		break;
	default:
		fuzz_count(&stats->doorbells);
		raw_doorbell(&g.d, &f->qp);
	}
}

static void resize(uint64_t *rng, struct rcq *cq)
{
	struct ib_uverbs_resize_cq cmd = {
		.cq_handle = cq->handle, .cqe = rnd(rng, 4) ? 1 + rnd(rng, 300) : fuzz_word(rng),
	};
	struct {
		struct ib_uverbs_resize_cq_resp core;
		struct rxe_resize_cq_resp rxe;
	} resp;
	struct ring r = { 0 };

	cmd.response = RESPONSE(resp);
	if (raw_cmd(g.d.fd, IB_USER_VERBS_CMD_RESIZE_CQ, &cmd, sizeof(cmd), sizeof(resp)))
		return;
	fuzz_count(&stats->resized);
	r.offset = resp.rxe.mi.offset;
	r.size = resp.rxe.mi.size;
	/*
	 * Threads are looking at the old one, which stays mapped; the new one is
	 * only written to here.
	 */
	if (rnd(rng, 2) && !ring_map(&g.d, &r)) {
		r.q->consumer_index = fuzz_word(rng);
		memset(r.q->data, rnd64(rng), 256);
		if (rnd(rng, 2))
			munmap(r.q, r.size);
	}
}

static void step_control(uint64_t *rng)
{
	unsigned int i = rnd(rng, NR_QPS);
	struct fqp *f, *new, *peer;

	/* In pairs mostly: who holds on to another lets one wait. */
	f = __atomic_load_n(&g.qp[i], __ATOMIC_ACQUIRE);
	peer = rnd(rng, 6) ? __atomic_load_n(&g.qp[i ^ 1], __ATOMIC_ACQUIRE) : qp_of(rng);
	usleep(rnd(rng, 8000));
	switch (rnd(rng, 12)) {
	case 0:
		resize(rng, rnd(rng, 2) ? &f->qp.scq : &f->qp.rcq);
		break;
	case 1:		/* one side alone */
		connect_to(f, peer);
		break;
	case 2:
		raw_modify(&g.d, &f->qp, rnd(rng, 7), peer->qp.qpn, rnd(rng, 3), rnd(rng, 3));
		break;
	case 3:
		fuzz_count(&stats->anew);
		new = make_qp(rng);
		/* Two threads may replace the same one. */
		f = __atomic_exchange_n(&g.qp[i], new, __ATOMIC_ACQ_REL);
		drop_qp(f);
		join(new, peer);
		break;
	default:
		/* Most stand in ERR soon: two of them start anew. */
		fuzz_count(&stats->reset);
		f->qp.sq.q->producer_index = 0;
		join(f, peer);
	}
}

struct thread {
	uint64_t rng;
	bool control;
};

static void *run(void *p)
{
	struct thread *t = p;

	while (!__atomic_load_n(&g.stop, __ATOMIC_RELAXED)) {
		t->control ? step_control(&t->rng) : step_rings(&t->rng);
		/* With few processors the kernel's own threads are to be heard too. */
		if (!rnd(&t->rng, 50))
			usleep(500);
	}
	return NULL;
}

static void round_of(uint64_t seed, unsigned int ms)
{
	struct ib_uverbs_create_comp_channel cmd = { 0 };
	struct ib_uverbs_create_comp_channel_resp resp;
	struct thread t[THREADS];
	pthread_t id[THREADS];
	uint64_t rng = seed;
	unsigned int i;
	int err;

	raw_open(&g.d, opts.dev, opts.gid);
	cmd.response = RESPONSE(resp);
	err = raw_cmd(g.d.fd, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &cmd, sizeof(cmd), sizeof(resp));
	if (err)
		die("create_comp_channel: %s", strerror(err));
	g.channel = resp.fd;
	err = raw_reg_mr(&g.d, area[AREA_OPEN], MEM_LEN, ACCESS, &g.open);
	if (!err)
		err = raw_reg_mr(&g.d, area[AREA_READ_ONLY], MEM_LEN, IBV_ACCESS_REMOTE_READ,
				 &g.read_only);
	if (err)
		die("reg_mr: %s", strerror(err));
	for (i = 0; i < NR_QPS; i++)
		g.qp[i] = make_qp(&rng);
	/* In pairs, in a triangle, to themselves. */
	for (i = 0; i < NR_QPS; i += 2)
		join(g.qp[i], g.qp[rnd(&rng, 4) ? i + 1 : rnd(&rng, NR_QPS)]);
	for (i = 0; i < THREADS; i++) {
		t[i] = (struct thread){ .rng = seed + 1 + i, .control = i < 2 };
		if (pthread_create(&id[i], NULL, run, &t[i]))
			die("no thread");
	}
	usleep(ms * 1000);
	switch (rnd(&rng, 3)) {
	case 0:
		_exit(0);
	case 1:		/* under the hands of the threads */
		close(g.d.fd);
		usleep(1000);
		_exit(0);
	}
	__atomic_store_n(&g.stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	for (i = 0; i < NR_QPS; i++)
		drop_qp(g.qp[i]);
	_exit(0);
}

/* ----------------------------------------------------------------- parent */

/* A fresh pair, and each operation with checked content. */
static void works(struct rdev *d, struct rmr *mr, uint8_t *mem, uint64_t key)
{
	static const uint32_t op[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ };
	struct ib_uverbs_wc wc;
	struct rqp a, b;
	unsigned int i;
	int err;

	err = raw_pair(d, &a, &b);
	if (err)
		die("afterwards: a pair of QPs: %s", strerror(err));
	for (i = 0; i < ARRAY_SIZE(op); i++) {
		bool read = op[i] == IBV_WR_RDMA_READ;

		pattern_fill(mem + (read ? 2048 : 0), key + i, 0, 700);
		memset(mem + (read ? 0 : 2048), 0, 700);
		raw_recv(&b, mem + 2048, 1024, mr->lkey);
		if (op[i] == IBV_WR_SEND)
			ring_produce(&b.rq);
		raw_send(&a, op[i], mem, 700, mr->lkey, mem + 2048, mr->rkey);
		ring_produce(&a.sq);
		err = raw_doorbell(d, &a);
		if (err || !raw_poll(&a.scq, &wc, 20000) || wc.status)
			die("afterwards: operation %u fails (%d, status %u)", op[i], err, wc.status);
		if (op[i] == IBV_WR_SEND && (!raw_poll(&b.rcq, &wc, 20000) || wc.status))
			die("afterwards: a receive fails (status %u)", wc.status);
		if (pattern_check(mem + (read ? 0 : 2048), key + i, 0, 700) >= 0)
			die("afterwards: wrong content of operation %u", op[i]);
	}
	raw_free(d, &a);
	raw_free(d, &b);
}

static void untouched(const uint8_t *mem, uint64_t key, const char *what)
{
	int64_t at = pattern_check(mem, key, 0, MEM_LEN);

	if (at >= 0)
		die("memory %s was written at %lld", what, (long long)at);
}

int main(int argc, char **argv)
{
	uint8_t *mem;
	struct rdev d;
	struct rmr mr;
	uint64_t end;
	int i;

	fuzz_begin("fuzz_ring", argc, argv, &opts, 64 << 20);
	stats = fuzz_shared(sizeof(*stats));
	for (i = 0; i < AREAS; i++)
		area[i] = fuzz_shared(MEM_LEN);
	victim = fuzz_shared(MEM_LEN);
	mem = fuzz_shared(MEM_LEN);
	pattern_fill(area[AREA_READ_ONLY], 1, 0, MEM_LEN);
	pattern_fill(area[AREA_NONE], 2, 0, MEM_LEN);
	pattern_fill(victim, 3, 0, MEM_LEN);
	raw_open(&d, opts.dev, opts.gid);
	if (raw_reg_mr(&d, victim, MEM_LEN, ACCESS, &victim_mr) ||
	    raw_reg_mr(&d, mem, MEM_LEN, ACCESS, &mr))
		die("reg_mr");

	for (end = now_us() + opts.seconds * 1000000ULL; now_us() < end; stats->rounds++) {
		uint64_t rng = opts.seed + stats->rounds * 1000;
		unsigned int ms = 500 + rnd(&rng, 2500);
		bool murder = !rnd(&rng, 3);
		pid_t pid;
		int status;

		pid = fuzz_fork();
		if (pid == 0) {
			close(d.fd);
			close(d.async_fd);
			round_of(rng, ms);
		}
		if (murder) {
			usleep(ms * 500);
			kill(pid, SIGKILL);
			stats->killed++;
		}
		status = fuzz_reap(pid, ms + 60000);
		/* Its threads may fall over what others have unmapped or closed. */
		if (WIFEXITED(status) ? WEXITSTATUS(status) : !murder)
			die("round %llu ended with status 0x%x", (unsigned long long)stats->rounds,
			    status);
		untouched(area[AREA_READ_ONLY], 1, "that is registered for reading");
		untouched(area[AREA_NONE], 2, "that is not registered");
		untouched(victim, 3, "of another process");
		works(&d, &mr, mem, rng);
	}
	printf("# %llu rounds, %llu of them killed; %llu elements, %llu doorbells, %llu wild writes\n",
	       (unsigned long long)stats->rounds, (unsigned long long)stats->killed,
	       (unsigned long long)stats->posted, (unsigned long long)stats->doorbells,
	       (unsigned long long)stats->wild);
	printf("# %llu CQs resized, %llu QPs anew, %llu reset; completions: %llu good, %llu bad\n",
	       (unsigned long long)stats->resized, (unsigned long long)stats->anew,
	       (unsigned long long)stats->reset, (unsigned long long)stats->good,
	       (unsigned long long)stats->bad);
	if (!stats->good || !stats->bad)
		die("nothing ever succeeded, or nothing ever failed");
	return 0;
}
