// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* rawring: hostile use of the mappings, the file and the commands. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rawring.h"

/* The next SEND from a to b arrives, with the right content. */
static void exchange(struct rdev *d, struct rqp *a, struct rqp *b, const char *when)
{
	static uint64_t key = 1000;
	struct ib_uverbs_wc wc;

	key++;
	pattern_fill(mem, key, 0, 200);
	memset(mem + 4096, 0, 200);
	raw_send(a, IBV_WR_SEND, mem, 200, mr.lkey, NULL, 0);
	ring_produce(&a->sq);
	must(raw_doorbell(d, a), "doorbell");
	/* The SEND waits: so the receive must be found without any call. */
	usleep(20000);
	raw_recv(b, mem + 4096, 200, mr.lkey);
	ring_produce(&b->rq);
	if (!raw_poll(&b->rcq, &wc, 10000))
		die("%s: a receive is not found", when);
	if (wc.status || wc.byte_len != 200 || pattern_check(mem + 4096, key, 0, 200) >= 0)
		die("%s: a receive went wrong (status %u)", when, wc.status);
	if (!raw_poll(&a->scq, &wc, 10000) || wc.status)
		die("%s: a SEND went wrong", when);
}

static void refused(struct rdev *d, const char *what, uint64_t off, size_t len, int prot, int flags)
{
	void *p = mmap(NULL, len, prot, flags, d->fd, off);

	if (p == MAP_FAILED)
		return;
	/* A refusal comes late, too, if it comes. */
	if (prot & PROT_READ)
		*(volatile uint8_t *)p;
	die("mmap %s is not refused", what);
}

void case_mmap(struct rdev *d)
{
	const int rw = PROT_READ | PROT_WRITE;
	struct rdev other;
	struct rqp a, b, c;
	struct rcq cq;
	char index[16];
	void *p;

	must(raw_create_qp(d, &a, false), "create_qp");
	refused(d, "beyond the end", a.sq.offset, a.sq.size + 4096, rw, MAP_SHARED);
	if (a.sq.size <= 4096 || a.sq.offset == a.rq.offset)
		die("unexpected sizes or offsets of rings");
	refused(d, "of less", a.sq.offset, 4096, rw, MAP_SHARED);
	refused(d, "from the middle", a.sq.offset + 4096, a.sq.size - 4096, rw, MAP_SHARED);
	refused(d, "privately", a.sq.offset, a.sq.size, rw, MAP_PRIVATE);
	refused(d, "privately and read-only", a.sq.offset, a.sq.size, PROT_READ, MAP_PRIVATE);
	refused(d, "of nothing there", 0, 4096, rw, MAP_SHARED);
	refused(d, "far away", 1ULL << 40, 4096, rw, MAP_SHARED);
	refused(d, "at the end of all", (1ULL << 52) - 4096, 4096, rw, MAP_SHARED);
	/* Another opener of the device. */
	snprintf(index, sizeof(index), "%d", d->gid_index);
	raw_open(&other, dev_name, index);
	refused(&other, "of another's ring", a.sq.offset, a.sq.size, rw, MAP_SHARED);
	close(other.fd);
	close(other.async_fd);
	/* After all that, as it should be; but once. */
	must(ring_map(d, &a.sq), "mmap");
	must(ring_map(d, &a.rq), "mmap");
	refused(d, "a second time", a.sq.offset, a.sq.size, rw, MAP_SHARED);
	refused(d, "of a receive ring a second time", a.rq.offset, a.rq.size, rw, MAP_SHARED);
	must(raw_create_qp(d, &b, true), "create_qp");
	must(raw_connect(d, &a, &b), "connect");
	exchange(d, &a, &b, "after refusals");
	/* A ring that is gone. */
	must(raw_create_qp(d, &c, false), "create_qp");
	must(raw_destroy_qp(d, &c), "destroy_qp");
	refused(d, "of a QP that is gone", c.sq.offset, c.sq.size, rw, MAP_SHARED);
	must(raw_create_cq(d, 15, &cq, false), "create_cq");
	must(raw_destroy_cq(d, &cq), "destroy_cq");
	refused(d, "of a CQ that is gone", cq.ring.offset, cq.ring.size, rw, MAP_SHARED);
	/* A mapping outlives its object. */
	must(raw_destroy_qp(d, &a), "destroy_qp");
	memset(a.sq.q, 0x5a, a.sq.size);
	memset(a.rq.q, 0x5a, a.rq.size);
	/* Over the top of a mapping that is there. */
	p = mmap(a.sq.q, a.sq.size, rw, MAP_SHARED | MAP_FIXED, d->fd, b.sq.offset);
	if (p != MAP_FAILED)
		die("mmap over another ring is not refused");
	raw_free(d, &b);
}

void case_unmap(struct rdev *d)
{
	struct ib_uverbs_wc wc;
	struct rqp a, b;
	unsigned int i;

	/* The kernel has its own mapping: what is in the ring goes on. */
	pair(d, &a, &b);
	for (i = 0; i < 8; i++) {
		raw_recv(&b, mem + 4096, 64, mr.lkey);
		ring_produce(&b.rq);
	}
	for (i = 0; i < 8; i++) {
		raw_send(&a, IBV_WR_SEND, mem, 64, mr.lkey, NULL, 0);
		ring_produce(&a.sq);
	}
	munmap(a.sq.q, a.sq.size);
	munmap(b.rq.q, b.rq.size);
	must(raw_doorbell(d, &a), "doorbell");
	for (i = 0; i < 8; i++)
		if (!raw_poll(&b.rcq, &wc, 10000) || wc.status)
			die("rings unmapped: receive %u does not come", i);
	raw_doorbell(d, &a);
	a.sq.q = NULL;
	b.rq.q = NULL;
	raw_free(d, &a);
	raw_free(d, &b);

	/* Unmapped while the trap is armed and a SEND waits. */
	pair(d, &a, &b);
	raw_recv(&b, mem + 4096, 64, mr.lkey);
	ring_produce(&b.rq);
	raw_send(&a, IBV_WR_SEND, mem, 64, mr.lkey, NULL, 0);
	ring_produce(&a.sq);
	raw_send(&a, IBV_WR_SEND, mem, 64, mr.lkey, NULL, 0);
	ring_produce(&a.sq);
	raw_doorbell(d, &a);
	raw_poll(&b.rcq, &wc, 10000);
	usleep(50000);
	munmap(b.rq.q, b.rq.size);
	raw_notify(d, &b.rcq, false);
	raw_doorbell(d, &b);
	usleep(20000);
	b.rq.q = NULL;
	/* Completions into a ring that nobody maps. */
	munmap(a.scq.ring.q, a.scq.ring.size);
	a.scq.ring.q = NULL;
	for (i = 0; i < 10; i++) {
		raw_send(&b, IBV_WR_RDMA_WRITE, mem, 8, mr.lkey, mem + 4096, mr.rkey);
		ring_produce(&b.sq);
		raw_doorbell(d, &b);
	}
	raw_free(d, &a);
	raw_free(d, &b);

	/* A part of a ring. */
	pair(d, &a, &b);
	munmap(b.rq.q, 4096);
	raw_send(&a, IBV_WR_SEND, mem, 64, mr.lkey, NULL, 0);
	ring_produce(&a.sq);
	raw_doorbell(d, &a);
	raw_notify(d, &b.rcq, false);
	usleep(50000);
	if (b.rq.size > 4096)
		munmap((uint8_t *)b.rq.q + 4096, b.rq.size - 4096);
	b.rq.q = NULL;
	raw_free(d, &a);
	raw_free(d, &b);
}

void case_move(struct rdev *d)
{
	struct rqp a, b;
	unsigned int i;
	void *p;

	pair(d, &a, &b);
	exchange(d, &a, &b, "before");
	for (i = 0; i < 10; i++) {
		/* A place of its own, so that it moves for sure. */
		void *place = mmap(NULL, b.rq.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		p = mremap(b.rq.q, b.rq.size, b.rq.size, MREMAP_MAYMOVE | MREMAP_FIXED, place);
		if (p == MAP_FAILED) {
			/* A refusal is fine; then it stays where it was. */
			munmap(place, b.rq.size);
			break;
		}
		b.rq.q = p;
		exchange(d, &a, &b, "after mremap");
	}
	printf("# receive ring moved %u times\n", i);
	p = mremap(b.rq.q, b.rq.size, b.rq.size + 8192, MREMAP_MAYMOVE);
	if (p != MAP_FAILED) {
		/* Beyond the end there is nothing to touch. */
		b.rq.q = p;
		printf("# a larger mapping is granted\n");
		exchange(d, &a, &b, "after growing");
		munmap((uint8_t *)p + b.rq.size, 8192);
	}
	/* A second mapping by mremap of no old length. */
	p = mremap(b.rq.q, 0, b.rq.size, MREMAP_MAYMOVE);
	if (p != MAP_FAILED) {
		struct rxe_queue_buf *old = b.rq.q;

		printf("# a second mapping by mremap is granted\n");
		exchange(d, &a, &b, "with two mappings");
		b.rq.q = p;
		exchange(d, &a, &b, "by the second mapping");
		munmap(old, b.rq.size);
		exchange(d, &a, &b, "after unmapping the first");
	}
	p = mremap(a.sq.q, a.sq.size, 4096, 0);
	if (p == a.sq.q)
		raw_doorbell(d, &a);
	raw_free(d, &a);
	raw_free(d, &b);
}

void case_protect(struct rdev *d)
{
	struct rqp a, b;
	unsigned int i;

	pair(d, &a, &b);
	for (i = 0; i < 10; i++) {
		mprotect(b.rq.q, b.rq.size, i & 1 ? PROT_NONE : PROT_READ);
		if (!(i & 1) && b.rq.q->index_mask == 0xdead)
			die("unlikely");
		raw_notify(d, &b.rcq, false);
		mprotect(b.rq.q, b.rq.size, PROT_READ | PROT_WRITE);
		exchange(d, &a, &b, "after mprotect");
		/* Reading is no post: it must not use up the trap. */
		usleep(5000);
		if (b.rq.q->consumer_index == 0xdeadbeef)
			die("unlikely");
	}
	mprotect(b.rq.q, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	exchange(d, &a, &b, "with PROT_EXEC");
	raw_free(d, &a);
	raw_free(d, &b);
}

void case_fork(struct rdev *d)
{
	struct rqp a, b;
	unsigned int i;
	int status;
	pid_t pid;

	pair(d, &a, &b);
	for (i = 0; i < 8; i++) {
		pid = fork();
		if (pid < 0)
			die_errno("fork");
		if (pid == 0) {
			unsigned int k;

			/* Not the parent's business what this does to the ring. */
			for (k = 0; k < 50; k++) {
				raw_doorbell(d, &a);
				raw_notify(d, &b.rcq, false);
				if (i & 1)
					munmap(b.rq.q, b.rq.size);
				else
					usleep(1000);
				if (i == 4)
					raise(SIGKILL);
			}
			_exit(0);
		}
		exchange(d, &a, &b, "beside a child");
		if (waitpid(pid, &status, 0) != pid)
			die_errno("waitpid");
		exchange(d, &a, &b, "after a child");
	}
	/* The child outlives the objects. */
	pid = fork();
	if (pid == 0) {
		usleep(100000);
		b.rq.q->producer_index++;
		a.sq.q->producer_index++;
		raw_doorbell(d, &a);
		_exit(0);
	}
	raw_free(d, &a);
	raw_free(d, &b);
	waitpid(pid, &status, 0);
}

void case_advice(struct rdev *d)
{
	static const int advice[] = {
		MADV_DONTNEED, MADV_REMOVE, MADV_FREE, MADV_DONTFORK, MADV_DOFORK, MADV_MERGEABLE,
		MADV_HUGEPAGE, MADV_COLD, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
		MADV_WILLNEED, 25 /* MADV_COLLAPSE */,
	};
	struct rqp a, b;
	unsigned int i;

	pair(d, &a, &b);
	for (i = 0; i < ARRAY_SIZE(advice); i++) {
		madvise(b.rq.q, b.rq.size, advice[i]);
		madvise(a.sq.q, a.sq.size, advice[i]);
		exchange(d, &a, &b, "after madvise");
	}
	mlock(b.rq.q, b.rq.size);
	msync(b.rq.q, b.rq.size, MS_SYNC);
	exchange(d, &a, &b, "after mlock");
	munlock(b.rq.q, b.rq.size);
	/* A ring as the memory of a request: not a page that can be pinned. */
	{
		struct rmr bad;

		if (!raw_reg_mr(d, b.rq.q, b.rq.size, ALL_ACCESS, &bad))
			die("a ring can be registered as memory");
	}
	raw_free(d, &a);
	raw_free(d, &b);
}

/* Commands that the provider never gives. */
void case_command(struct rdev *d)
{
	struct {
		struct ib_uverbs_post_send cmd;
		struct ib_uverbs_send_wr wr;
		struct ib_uverbs_sge sge;
	} post;
	struct {
		struct ib_uverbs_post_recv cmd;
		struct ib_uverbs_recv_wr wr;
		struct ib_uverbs_sge sge;
	} recv;
	struct ib_uverbs_poll_cq poll_cmd;
	uint8_t answer[256];
	struct rqp a, b;
	unsigned int i;

	pair(d, &a, &b);
	/* Requests in the command: the ring is the only way. */
	for (i = 0; i < 12; i++) {
		memset(&post, 0, sizeof(post));
		post.cmd.response = (uintptr_t)answer;
		post.cmd.qp_handle = a.handle;
		post.cmd.wr_count = 1;
		post.cmd.sge_count = 1;
		post.cmd.wqe_size = sizeof(post.wr);
		post.wr.num_sge = 1;
		post.wr.opcode = i;
		post.wr.send_flags = IBV_SEND_SIGNALED;
		post.wr.wr.rdma.remote_addr = (uintptr_t)mem + 4096;
		post.wr.wr.rdma.rkey = i & 1 ? mr.rkey : 0x1234;
		post.sge.addr = (uintptr_t)mem;
		post.sge.length = 8;
		post.sge.lkey = i & 1 ? mr.lkey : 0x1234;
		raw_cmd(d->fd, IB_USER_VERBS_CMD_POST_SEND, &post, sizeof(post), 4);
		post.cmd.wr_count = wild[i * 2];
		raw_cmd(d->fd, IB_USER_VERBS_CMD_POST_SEND, &post, sizeof(post), 4);
		post.cmd.wr_count = 1;
		post.cmd.wqe_size = wild[i * 2];
		raw_cmd(d->fd, IB_USER_VERBS_CMD_POST_SEND, &post, sizeof(post), 4);
		post.cmd.wqe_size = 0;
		post.cmd.wr_count = 0;
		raw_cmd(d->fd, IB_USER_VERBS_CMD_POST_SEND, &post, sizeof(post), 4);
	}
	memset(&recv, 0, sizeof(recv));
	recv.cmd.response = (uintptr_t)answer;
	recv.cmd.qp_handle = b.handle;
	recv.cmd.wr_count = 1;
	recv.cmd.sge_count = 1;
	recv.cmd.wqe_size = sizeof(recv.wr);
	recv.wr.num_sge = 1;
	recv.sge.addr = (uintptr_t)mem;
	recv.sge.length = 64;
	recv.sge.lkey = mr.lkey;
	raw_cmd(d->fd, IB_USER_VERBS_CMD_POST_RECV, &recv, sizeof(recv), 4);
	memset(&poll_cmd, 0, sizeof(poll_cmd));
	poll_cmd.response = (uintptr_t)answer;
	poll_cmd.cq_handle = a.scq.handle;
	poll_cmd.ne = 1;
	raw_cmd(d->fd, IB_USER_VERBS_CMD_POLL_CQ, &poll_cmd, sizeof(poll_cmd), 56);
	/* Every command with garbage, short and long, on handles of all kinds. */
	for (i = 0; i < 64; i++) {
		uint32_t words[32];
		uint64_t response;
		unsigned int k;

		if (i == IB_USER_VERBS_CMD_GET_CONTEXT || i == IB_USER_VERBS_CMD_DEALLOC_PD)
			continue;
		for (k = 0; k < 32; k++)
			words[k] = k < 2 ? 0 : k & 1 ? wild[rnd(&rng, NR_WILD)] : rnd(&rng, 12);
		response = rnd(&rng, 2) ? (uintptr_t)answer : rnd64(&rng);
		memcpy(words, &response, sizeof(response));
		raw_cmd(d->fd, i, words, 16 + rnd(&rng, 12) * 8, 64);
	}
	/* That may have destroyed our objects: the rest goes with the process. */
	close(d->fd);
	close(d->async_fd);
	{
		char index[16];

		snprintf(index, sizeof(index), "%d", d->gid_index);
		raw_open(d, dev_name, index);
		must(raw_reg_mr(d, mem, MEM_LEN, ALL_ACCESS, &mr), "reg_mr");
	}
}

/* Rings used in states that do not allow it. */
void case_state(struct rdev *d)
{
	struct rqp a, b;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		must(raw_create_qp(d, &a, true), "create_qp");
		must(raw_create_qp(d, &b, true), "create_qp");
		if (i >= 1)
			must(raw_modify(d, &a, IBV_QPS_INIT, 0, 0, 0), "to INIT");
		if (i >= 2)
			must(raw_modify(d, &a, IBV_QPS_RTR, b.qpn, 1, 0), "to RTR");
		if (i == 3)
			must(raw_modify(d, &a, IBV_QPS_ERR, 0, 0, 0), "to ERR");
		raw_send(&a, IBV_WR_RDMA_WRITE, mem, 8, mr.lkey, mem + 4096, mr.rkey);
		ring_produce(&a.sq);
		raw_recv(&a, mem, 64, mr.lkey);
		ring_produce(&a.rq);
		if (kick(d, &a, 10, NULL))
			die("a WRITE succeeds in state %u", i);
		raw_modify(d, &a, IBV_QPS_RESET, 0, 0, 0);
		if (kick(d, &a, 10, NULL))
			die("a WRITE succeeds in RESET");
		raw_free(d, &a);
		raw_free(d, &b);
	}
	/* To itself. */
	must(raw_create_qp(d, &a, true), "create_qp");
	must(raw_modify(d, &a, IBV_QPS_INIT, 0, 0, 0), "to INIT");
	if (!raw_modify(d, &a, IBV_QPS_RTR, a.qpn, 1, 0) &&
	    !raw_modify(d, &a, IBV_QPS_RTS, 0, 0, 1)) {
		raw_recv(&a, mem + 4096, 64, mr.lkey);
		ring_produce(&a.rq);
		raw_send(&a, IBV_WR_SEND, mem, 64, mr.lkey, NULL, 0);
		ring_produce(&a.sq);
		printf("# a QP connected to itself: %u sends succeed\n", kick(d, &a, 100, NULL));
	} else {
		printf("# a QP cannot be connected to itself\n");
	}
	raw_free(d, &a);
}
