// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The send engine: takes requests from the application's ring in order, posts
 * them to the home path, retires them in order.
 *
 * Indices run freely and are masked on use:
 *
 *	cons <= issue <= producer (the application's, hostile)
 *
 * [cons, issue) are on the lane, [issue, producer) wait in the ring. Invariants:
 *  - an element of the ring is copied once, into the scratch of the CPU, and
 *    only the copy is looked at; what is needed later is kept in the slot;
 *  - the ring's consumer index moves before a completion is shown, so that
 *    whoever has polled it finds the room it stands for;
 *  - a request with a local fault waits until all before it are retired, then
 *    it gets its error and the QP goes to ERR: errors come in post order.
 *
 * On the lane the last request of each post is signalled, and what the
 * application signalled: the completion of one retires all before it, and none
 * is left of which nobody tells. In ERR the lane reports every request that
 * failed, and a marker behind the last one retires those that had succeeded.
 */
#include <linux/percpu.h>

#include "agg.h"
#include "session.h"

#define AGG_SQ_BATCH	8	/* requests handed to a lane in one post */
#define AGG_FLUSH_BATCH	256	/* requests flushed in one go */

/* One request, copied out of the ring and turned into the lane's. */
struct agg_sq_work {
	union {
		struct ib_send_wr wr;
		struct ib_rdma_wr rdma;
		struct ib_atomic_wr atomic;
	};
	struct ib_sge sge[AGG_MAX_SGE];
	u8 data[AGG_MAX_INLINE] __aligned(8);
};

struct agg_sq_scratch {
	struct rxe_send_wqe wqe;
	struct agg_sq_work work[AGG_SQ_BATCH];
};

/* Used with interrupts off and sq.lock held, so there is one user per CPU. */
static struct agg_sq_scratch __percpu *agg_sq_scratch;

static u32 agg_sq_pending(const struct agg_sq *sq)
{
	u32 n = (agg_ring_producer(sq->ring) - sq->issue) & sq->ring->mask;

	/* A wild producer index must not lap the requests on the lane. */
	return min(n, sq->ring->mask - (sq->issue - sq->cons));
}

/*
 * Completions
 */

static u32 agg_wc_opcode(u8 opcode)
{
	switch (opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return IB_UVERBS_WC_RDMA_WRITE;
	case IB_WR_RDMA_READ:
		return IB_UVERBS_WC_RDMA_READ;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return IB_UVERBS_WC_COMP_SWAP;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return IB_UVERBS_WC_FETCH_ADD;
	default:
		return IB_UVERBS_WC_SEND;
	}
}

/* Show a completion; false if the CQ was full. */
static bool agg_sq_cqe(struct agg_qp *qp, const struct agg_send_slot *slot,
		       enum ib_wc_status status, u32 vendor_err)
{
	struct ib_uverbs_wc wc = {
		.wr_id = slot->wr_id,
		.status = status,
		.vendor_err = vendor_err,
		.qp_num = qp->ibqp.qp_num,
	};

	if (test_bit(AGG_QPF_DISCARD, &qp->flags))
		return true;
	if (status == IB_WC_SUCCESS) {
		wc.opcode = agg_wc_opcode(slot->opcode);
		wc.byte_len = slot->length;
		if (slot->opcode == IB_WR_RDMA_WRITE_WITH_IMM ||
		    slot->opcode == IB_WR_SEND_WITH_IMM)
			wc.wc_flags = IB_WC_WITH_IMM;
	}
	/* An error is always worth waking for (IBA 11.4.2.2). */
	return agg_cq_post(qp->scq, &wc, status != IB_WC_SUCCESS);
}

static bool agg_opcode_reads(u8 opcode)
{
	return opcode == IB_WR_RDMA_READ || opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IB_WR_ATOMIC_FETCH_AND_ADD;
}

/* The oldest request is done. */
static bool agg_sq_retire(struct agg_qp *qp, enum ib_wc_status status, u32 vendor_err)
{
	struct agg_sq *sq = &qp->sq;
	struct agg_send_slot slot = sq->slots[sq->cons & sq->ring->mask];

	sq->cons++;
	if (agg_opcode_reads(slot.opcode))
		sq->reads--;
	/* Pairs with the application's load-acquire: the element is free. */
	smp_store_release(&sq->ring->buf->consumer_index, sq->cons & sq->ring->mask);
	if (status == IB_WC_SUCCESS && !slot.signaled)
		return true;
	return agg_sq_cqe(qp, &slot, status, vendor_err);
}

static void agg_sq_count_done(struct agg_lqp *lqp, u32 reqs, u64 bytes, enum ib_wc_status status)
{
	struct agg_lane_stats *st = this_cpu_ptr(lqp->lane->stats);

	/* Interrupts are off: nobody else on this CPU. */
	st->tx_done_reqs += reqs;
	st->tx_done_bytes += bytes;
	if (status == IB_WC_WR_FLUSH_ERR)
		st->tx_flushed++;
	else if (status != IB_WC_SUCCESS)
		st->tx_errors++;
}

/* Retire everything before @end as done. */
static bool agg_sq_retire_to(struct agg_lqp *lqp, u32 end)
{
	struct agg_qp *qp = lqp->qp;
	struct agg_sq *sq = &qp->sq;
	u32 reqs = end - sq->cons;
	u64 bytes = 0;
	bool ok = true;

	while (sq->cons != end) {
		bytes += sq->slots[sq->cons & sq->ring->mask].length;
		ok &= agg_sq_retire(qp, IB_WC_SUCCESS, 0);
	}
	agg_sq_count_done(lqp, reqs, bytes, IB_WC_SUCCESS);
	return ok;
}

/* In ERR: what never went to a lane is flushed after what did. */
static void agg_sq_flush_ring(struct agg_qp *qp)
{
	struct agg_sq *sq = &qp->sq;
	unsigned int n;

	lockdep_assert_held(&sq->lock);

	/* The lane went without telling; it never does the request now. */
	while (!qp->lqp && sq->cons != sq->issue)
		if (!agg_sq_retire(qp, IB_WC_WR_FLUSH_ERR, 0))
			agg_qp_fatal(qp);

	/* The application can go on moving its index: a bound, with interrupts off. */
	for (n = 0; sq->cons == sq->issue && agg_sq_pending(sq); n++) {
		const struct rxe_send_wqe *ring = agg_ring_elem(sq->ring, sq->issue);
		struct agg_send_slot *slot = &sq->slots[sq->issue & sq->ring->mask];

		if (n == AGG_FLUSH_BATCH) {
			agg_qp_kick(qp);
			break;
		}
		slot->wr_id = READ_ONCE(ring->wr.wr_id);
		slot->opcode = IB_WR_SEND;
		slot->length = 0;
		slot->signaled = true;
		sq->issue++;
		if (!agg_sq_retire(qp, IB_WC_WR_FLUSH_ERR, 0)) {
			agg_qp_fatal(qp);
			break;
		}
	}
}

/* The marker behind the last request of a lane QP that was stopped. */
static void agg_sq_marked(struct agg_lqp *lqp)
{
	struct agg_qp *qp = lqp->qp;

	lockdep_assert_held(&qp->sq.lock);

	/* What failed has been reported as such; what is left was done. */
	if (!agg_sq_retire_to(lqp, qp->sq.issue))
		agg_qp_fatal(qp);
	if (qp->state == IB_QPS_ERR)
		agg_sq_flush_ring(qp);
	/*
	 * The last touch of @lqp and @qp but for the unlock: agg_lqp_destroy()
	 * waits for this and then takes the lock.
	 */
	complete(&lqp->sq_idle);
}

/* A request failed; those before it are done. */
static bool agg_sq_failed(struct agg_lqp *lqp, const struct ib_wc *wc)
{
	struct agg_qp *qp = lqp->qp;
	struct agg_sq *sq = &qp->sq;
	u32 index = (u32)wc->wr_id;
	enum ib_wc_status status = wc->status;
	u32 length = sq->slots[index & sq->ring->mask].length;
	bool ok;

	if (sq->rnr_exceeded && index == sq->rnr_index && status == IB_WC_WR_FLUSH_ERR)
		status = IB_WC_RNR_RETRY_EXC_ERR;

	ok = agg_sq_retire_to(lqp, index);
	ok &= agg_sq_retire(qp, status, wc->vendor_err);
	agg_sq_count_done(lqp, 1, length, status);
	return ok;
}

/**
 * agg_sq_complete() - a send completion of a lane
 * @lqp: where it was posted
 * @wc: the completion
 *
 * Context: drain of the lane CQ (hard interrupt or process). The marker of
 * @lqp comes after all others on the same lane CQ and so keeps @lqp and its
 * QP until this has returned for them.
 */
void agg_sq_complete(struct agg_lqp *lqp, const struct ib_wc *wc)
{
	struct agg_qp *qp = lqp->qp;
	struct agg_sq *sq = &qp->sq;
	unsigned long flags;
	bool sqd_done;
	bool ok = true;

	spin_lock_irqsave(&sq->lock, flags);
	if (wc->wr_id == AGG_WR_MARK) {
		agg_sq_marked(lqp);
		spin_unlock_irqrestore(&sq->lock, flags);
		return;
	}
	/* Nothing but what was posted can complete. */
	if (!WARN_ON_ONCE((u32)wc->wr_id - sq->cons >= sq->issue - sq->cons))
		ok = wc->status == IB_WC_SUCCESS ?
		     agg_sq_retire_to(lqp, (u32)wc->wr_id + 1) : agg_sq_failed(lqp, wc);
	if (!ok)
		agg_qp_fatal(qp);
	else if (wc->status != IB_WC_SUCCESS)
		agg_qp_fail(qp);
	sqd_done = qp->state == IB_QPS_SQD && sq->cons == sq->issue;
	spin_unlock_irqrestore(&sq->lock, flags);

	if (sqd_done)
		agg_qp_sqd_done(qp);
	agg_sq_run(qp);
}

/*
 * Taking requests from the ring
 */

/*
 * Copy the scatter list. Zero-length elements are dropped: 0 means 2^31 to
 * some devices. Returns the sum of lengths, or -errno.
 */
static s64 agg_sq_sges(struct agg_qp *qp, struct agg_lqp *lqp, const struct rxe_send_wqe *ring,
		       u32 num_sge, struct agg_sq_work *w)
{
	u64 sum = 0;
	int n = 0;
	u32 i;

	if (num_sge > qp->sq.max_sge || num_sge > AGG_MAX_SGE)
		return -EINVAL;

	for (i = 0; i < num_sge; i++) {
		struct rxe_sge sge;
		u32 lkey;

		memcpy(&sge, &ring->dma.sge[i], sizeof(sge));
		barrier();	/* as above: one copy, no second look */
		if (!sge.length)
			continue;
		sum += sge.length;
		if (agg_mr_lkey(qp->pd, lqp->lane->id, sge.lkey, &lkey))
			lkey = lqp->lane->poison->lkey;
		w->sge[n].addr = sge.addr;
		w->sge[n].length = sge.length;
		w->sge[n].lkey = lkey;
		n++;
	}
	w->wr.num_sge = n;
	w->wr.sg_list = w->sge;
	return sum;
}

/* Inline data lies in the ring; the lane takes it from a kernel address. */
static s64 agg_sq_inline(struct agg_qp *qp, const struct rxe_send_wqe *ring, u32 length,
			 struct agg_sq_work *w)
{
	if (length > qp->sq.max_inline || length > AGG_MAX_INLINE)
		return -EINVAL;

	memcpy(w->data, ring->dma.inline_data, length);
	w->sge[0].addr = (uintptr_t)w->data;
	w->sge[0].length = length;
	w->sge[0].lkey = 0;
	w->wr.num_sge = length ? 1 : 0;
	w->wr.sg_list = w->sge;
	return length;
}

/*
 * The lane's rkey for a remote access, or any if none is @needed; @status tells
 * why there is none.
 * Returns false if it is being asked for.
 */
static bool agg_sq_rkey(struct agg_qp *qp, struct agg_lqp *lqp, u32 rkey, bool needed,
			u32 *lane_rkey, u8 *status)
{
	int err;

	*lane_rkey = lqp->peer_poison;
	if (!needed)
		return true;

	err = agg_peer_key(qp->peer, rkey, lqp->peer_lane, lane_rkey, qp);
	switch (err) {
	case 0:
		return true;
	case -EINPROGRESS:
		return false;
	case -ENOENT:
		/* The peer's lane refuses, as it would a key it does not know. */
		*lane_rkey = lqp->peer_poison;
		return true;
	case -ENOMEM:
		/* Nobody was asked, so nobody will kick us. */
		agg_qp_retry(qp);
		return false;
	default:
		*status = IB_WC_RETRY_EXC_ERR;
		return true;
	}
}

enum agg_take {
	AGG_TAKE_OK,
	AGG_TAKE_WAIT,		/* for a remote key, or behind a fence */
	AGG_TAKE_BAD,		/* sq->fail_status says why */
};

/*
 * Copy the request at @issue out of the ring, check it and turn it into a
 * request to the lane.
 */
static enum agg_take agg_sq_take(struct agg_qp *qp, struct agg_lqp *lqp,
				 struct agg_sq_scratch *s, struct agg_sq_work *w)
{
	struct agg_sq *sq = &qp->sq;
	const struct rxe_send_wqe *ring = agg_ring_elem(sq->ring, sq->issue);
	struct agg_send_slot *slot = &sq->slots[sq->issue & sq->ring->mask];
	struct rxe_send_wqe *wqe = &s->wqe;
	u8 status = IB_WC_SUCCESS;
	u32 rkey = 0;
	s64 length;

	memcpy(wqe, ring, sizeof(*wqe));
	/* The application may be writing it at this moment. */
	barrier();

	slot->wr_id = wqe->wr.wr_id;
	slot->opcode = min_t(u32, wqe->wr.opcode, U8_MAX);
	slot->signaled = sq->sig_all || (wqe->wr.send_flags & IB_SEND_SIGNALED);
	slot->length = 0;

	sq->fail_status = IB_WC_LOC_QP_OP_ERR;
	if (wqe->wr.send_flags & ~(IB_SEND_FENCE | IB_SEND_SIGNALED | IB_SEND_SOLICITED |
				   IB_SEND_INLINE | IB_SEND_IP_CSUM))
		return AGG_TAKE_BAD;

	/*
	 * The fence is kept here, not by the lane: soft-RoCE stops for ever when
	 * it must repeat a fenced request after later READs have gone out. The
	 * completion of what is waited for runs the engine again.
	 */
	if ((wqe->wr.send_flags & IB_SEND_FENCE) && sq->reads)
		return AGG_TAKE_WAIT;

	memset(&w->atomic, 0, sizeof(w->atomic));
	switch (wqe->wr.opcode) {
	case IB_WR_SEND_WITH_IMM:
		w->wr.ex.imm_data = wqe->wr.ex.imm_data;
		break;
	case IB_WR_SEND:
		break;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		w->wr.ex.imm_data = wqe->wr.ex.imm_data;
		fallthrough;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_READ:
		w->rdma.remote_addr = wqe->wr.wr.rdma.remote_addr;
		rkey = wqe->wr.wr.rdma.rkey;
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		if (qp->dev->attr.atomic_cap == IB_ATOMIC_NONE)
			return AGG_TAKE_BAD;
		w->atomic.remote_addr = wqe->wr.wr.atomic.remote_addr;
		w->atomic.compare_add = wqe->wr.wr.atomic.compare_add;
		w->atomic.swap = wqe->wr.wr.atomic.swap;
		rkey = wqe->wr.wr.atomic.rkey;
		break;
	default:
		/* FLUSH, ATOMIC_WRITE, BIND_MW and others carry keys we do not translate. */
		return AGG_TAKE_BAD;
	}
	w->wr.opcode = wqe->wr.opcode;
	w->wr.send_flags = wqe->wr.send_flags & IB_SEND_SOLICITED;

	if (wqe->wr.send_flags & IB_SEND_INLINE) {
		/* Only what carries data outwards can have it inline. */
		if (wqe->wr.opcode == IB_WR_RDMA_READ ||
		    wqe->wr.opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
		    wqe->wr.opcode == IB_WR_ATOMIC_FETCH_AND_ADD)
			return AGG_TAKE_BAD;
		length = agg_sq_inline(qp, ring, wqe->dma.length, w);
		w->wr.send_flags |= IB_SEND_INLINE;
	} else {
		length = agg_sq_sges(qp, lqp, ring, wqe->dma.num_sge, w);
	}
	if (length < 0)
		return AGG_TAKE_BAD;
	if (length > qp->dev->max_msg_sz) {
		sq->fail_status = IB_WC_LOC_LEN_ERR;
		return AGG_TAKE_BAD;
	}
	slot->length = length;

	switch (wqe->wr.opcode) {
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		if (length != 8) {
			sq->fail_status = IB_WC_LOC_LEN_ERR;
			return AGG_TAKE_BAD;
		}
		if (w->atomic.remote_addr & 7) {
			sq->fail_status = IB_WC_REM_INV_REQ_ERR;
			return AGG_TAKE_BAD;
		}
		if (!agg_sq_rkey(qp, lqp, rkey, true, &w->atomic.rkey, &status))
			return AGG_TAKE_WAIT;
		break;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		/* An access of no bytes needs no key (IBA C9-88). */
		if (!agg_sq_rkey(qp, lqp, rkey, length, &w->rdma.rkey, &status))
			return AGG_TAKE_WAIT;
		break;
	case IB_WR_RDMA_READ:
		/*
		 * Nor does this, but soft-RoCE looks for the key of a READ of
		 * no bytes that is sent again.
		 */
		if (!agg_sq_rkey(qp, lqp, rkey, true, &w->rdma.rkey, &status))
			return AGG_TAKE_WAIT;
		break;
	}
	if (status != IB_WC_SUCCESS) {
		sq->fail_status = status;
		return AGG_TAKE_BAD;
	}

	w->wr.wr_id = sq->issue;
	if (slot->signaled || test_bit(AGG_QPF_RNR_WATCH, &qp->flags))
		w->wr.send_flags |= IB_SEND_SIGNALED;
	if (agg_opcode_reads(slot->opcode))
		sq->reads++;
	return AGG_TAKE_OK;
}

/* The request at @issue is at fault and all before it are retired. */
static void agg_sq_fail_head(struct agg_qp *qp)
{
	struct agg_sq *sq = &qp->sq;

	/* It was never counted as a READ under way. */
	sq->slots[sq->issue & sq->ring->mask].opcode = IB_WR_SEND;
	sq->issue++;
	if (!agg_sq_retire(qp, sq->fail_status, 0))
		agg_qp_fatal(qp);
	sq->block = AGG_SQ_RUN;
	agg_count(qp->dev, BAD_WQE);
	agg_qp_fail(qp);
}

/*
 * Post up to a batch; true if there may be more to do at once. Requests that
 * the lane did not take stay in the ring.
 */
static bool agg_sq_batch(struct agg_qp *qp)
{
	struct agg_sq_scratch *s = this_cpu_ptr(agg_sq_scratch);
	struct agg_lqp *lqp = qp->lqp;
	const struct ib_send_wr *bad = NULL;
	struct agg_sq *sq = &qp->sq;
	struct agg_lane_stats *st;
	u32 first = sq->issue;
	u32 n, room, i;
	bool more;
	int err;

	lockdep_assert_held(&sq->lock);

	if (qp->state != IB_QPS_RTS || !lqp || lqp->stopped ||
	    test_bit(AGG_QPF_ERROR, &qp->flags))
		return false;

	room = lqp->sq_depth - (sq->issue - sq->cons);
	n = min3(agg_sq_pending(sq), room, (u32)AGG_SQ_BATCH);
	more = n == AGG_SQ_BATCH;

	for (i = 0; i < n && sq->block == AGG_SQ_RUN; i++) {
		enum agg_take t = agg_sq_take(qp, lqp, s, &s->work[i]);

		if (t == AGG_TAKE_WAIT) {
			more = false;
			break;
		}
		if (t == AGG_TAKE_BAD) {
			sq->block = AGG_SQ_FAIL;
			break;
		}
		if (i)
			s->work[i - 1].wr.next = &s->work[i].wr;
		sq->issue++;
	}
	n = i;

	if (n) {
		s->work[n - 1].wr.next = NULL;
		/* What stops behind it (SQD, a local fault) need not ask again. */
		s->work[n - 1].wr.send_flags |= IB_SEND_SIGNALED;
		st = this_cpu_ptr(lqp->lane->stats);
		err = ib_post_send(lqp->ibqp, &s->work[0].wr, &bad);
		if (unlikely(err)) {
			/* The depth was reserved: the lane is at fault. */
			while (n && bad && &s->work[n - 1].wr != bad)
				n--;
			n = n && bad ? n - 1 : 0;
			sq->issue = first + n;
			agg_qp_fatal(qp);
			more = false;
		}
		for (i = 0; i < n; i++) {
			st->tx_reqs++;
			st->tx_bytes += sq->slots[(first + i) & sq->ring->mask].length;
		}
	}

	if (sq->block == AGG_SQ_FAIL) {
		more = false;
		if (sq->cons == sq->issue)
			agg_sq_fail_head(qp);
	}
	return more;
}

/**
 * agg_sq_run() - post what can be posted; in ERR flush what is left
 * @qp: the QP
 *
 * Context: any; of process context interrupts are off for a batch at a time.
 */
void agg_sq_run(struct agg_qp *qp)
{
	struct agg_sq *sq = &qp->sq;
	unsigned long flags;
	bool more;

	do {
		spin_lock_irqsave(&sq->lock, flags);
		more = agg_sq_batch(qp);
		if (unlikely(qp->state == IB_QPS_ERR))
			agg_sq_flush_ring(qp);
		spin_unlock_irqrestore(&sq->lock, flags);
	} while (more);
}

/**
 * agg_post_send() - ops.post_send, the doorbell
 * @ibqp: the QP
 * @wr: NULL; requests are in the ring
 * @bad_wr: set if @wr is not NULL
 *
 * Also a chance to look at the receive ring.
 *
 * Context: process context from uverbs. Return: 0 or -errno.
 */
int agg_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad_wr)
{
	struct agg_qp *qp = to_aqp(ibqp);

	if (wr) {
		*bad_wr = wr;
		return -EOPNOTSUPP;
	}
	if (READ_ONCE(qp->state) < IB_QPS_RTS)
		return -EINVAL;

	agg_count(qp->dev, DOORBELLS);
	agg_sq_run(qp);
	if (test_bit(AGG_QPF_RNR_WATCH, &qp->flags))
		agg_qp_watch_rnr(qp);
	if (agg_rq_wants_look(qp))
		agg_rq_run(qp);
	return 0;
}

/**
 * agg_sq_init() - allocate what the engines of all QPs share
 *
 * Context: module init. Return: 0 or -ENOMEM.
 */
int agg_sq_init(void)
{
	agg_sq_scratch = alloc_percpu(struct agg_sq_scratch);
	return agg_sq_scratch ? 0 : -ENOMEM;
}

/**
 * agg_sq_exit() - free it
 *
 * Context: module exit.
 */
void agg_sq_exit(void)
{
	free_percpu(agg_sq_scratch);
}
