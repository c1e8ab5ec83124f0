/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * uverbs without libibverbs: commands are written to the device file as they
 * are, and the rings belong to the caller.
 */
#ifndef SELFTESTS_RAWUV_H
#define SELFTESTS_RAWUV_H

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>

#include "common.h"

struct rdev {
	int fd, async_fd;
	uint32_t pd;
	uint8_t gid[16];
	int gid_index;
};

/* What the kernel said of a ring, and our own idea of it: its header may be scribbled. */
struct ring {
	struct rxe_queue_buf *q;
	uint64_t offset;
	uint32_t size;
	uint32_t shift, mask;
	uint32_t prod, cons;
};

struct rcq {
	uint32_t handle, cqe;
	struct ring ring;
};

struct rqp {
	uint32_t handle, qpn;
	uint32_t max_send_sge, max_recv_sge, max_inline;
	struct ring sq, rq;
	struct rcq scq, rcq;
};

struct rmr {
	uint32_t handle, lkey, rkey;
};

/* All return 0 or an errno value. */
int raw_cmd(int fd, uint32_t command, void *cmd, size_t cmd_len, size_t resp_len);
/* Dies when it cannot be opened. */
void raw_open(struct rdev *d, const char *name, const char *gid);
int raw_reg_mr(struct rdev *d, void *addr, uint64_t len, uint32_t access, struct rmr *mr);
int raw_dereg_mr(struct rdev *d, struct rmr *mr);
/* @map: also map the rings */
int raw_create_cq(struct rdev *d, uint32_t cqe, struct rcq *cq, bool map);
int raw_resize_cq(struct rdev *d, struct rcq *cq, uint32_t cqe);
int raw_destroy_cq(struct rdev *d, struct rcq *cq);
int raw_create_qp(struct rdev *d, struct rqp *qp, bool map);
int raw_destroy_qp(struct rdev *d, struct rqp *qp);
int raw_modify(struct rdev *d, struct rqp *qp, int state, uint32_t dest_qpn, uint32_t rq_psn,
	       uint32_t sq_psn);
int raw_notify(struct rdev *d, struct rcq *cq, bool solicited);
/* post_send as the provider does it: no request, only "look at the ring" */
int raw_doorbell(struct rdev *d, struct rqp *qp);
int ring_map(struct rdev *d, struct ring *r);

/* QPs and CQs of one pair, in RTS with each other */
int raw_pair(struct rdev *d, struct rqp *a, struct rqp *b);
int raw_connect(struct rdev *d, struct rqp *a, struct rqp *b);
void raw_free(struct rdev *d, struct rqp *qp);

static inline void *ring_elem(const struct ring *r, uint32_t i)
{
	return r->q->data + ((size_t)(i & r->mask) << r->shift);
}

static inline void ring_produce(struct ring *r)
{
	r->prod = (r->prod + 1) & r->mask;
	__atomic_store_n(&r->q->producer_index, r->prod, __ATOMIC_RELEASE);
}

struct rxe_send_wqe *raw_send(struct rqp *qp, uint32_t opcode, void *addr, uint32_t len,
			      uint32_t lkey, void *remote, uint32_t rkey);
struct rxe_recv_wqe *raw_recv(struct rqp *qp, void *addr, uint32_t len, uint32_t lkey);
/* A completion within @ms. */
bool raw_poll(struct rcq *cq, struct ib_uverbs_wc *wc, unsigned int ms);

#endif
