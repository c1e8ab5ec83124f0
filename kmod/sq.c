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
 *
 * When the path fails (failover.c) what the lane says of the failed requests is
 * not the truth: they are *unresolved* until agg_sq_resolve() knows from the
 * peer which of them were executed. Those are marked done and skipped, the
 * others are taken from the ring again. For this each request remembers how
 * many packets had been sent on the lane QP when it ended: requests never end
 * in the middle of a packet, so the count is the PSN less the first one.
 */
#include <linux/percpu.h>

#include "failover.h"
#include "session.h"
#include "wqe.h"

#define AGG_SQ_BATCH	8	/* requests handed to a lane in one post */
#define AGG_FLUSH_BATCH	256	/* requests flushed in one go */

/* One request, copied out of the ring and turned into the lane's. */
struct agg_sq_work {
	union {
		struct ib_send_wr wr;
		struct ib_rdma_wr rdma;
		struct ib_atomic_wr atomic;
	};
	union {
		struct ib_sge sge[AGG_MAX_SGE];
		struct rxe_sge elem_sge[AGG_MAX_SGE];	/* with the application's keys */
	};
	u8 data[AGG_MAX_INLINE] __aligned(8);
};

static_assert(sizeof(struct ib_sge) == sizeof(struct rxe_sge));
static_assert(offsetof(struct ib_sge, addr) == offsetof(struct rxe_sge, addr));
static_assert(offsetof(struct ib_sge, length) == offsetof(struct rxe_sge, length));
static_assert(offsetof(struct ib_sge, lkey) == offsetof(struct rxe_sge, lkey));

/* The flags of a ring's element are those of verbs. */
static_assert(AGG_WQE_FENCE == IB_SEND_FENCE);
static_assert(AGG_WQE_SIGNALED == IB_SEND_SIGNALED);
static_assert(AGG_WQE_SOLICITED == IB_SEND_SOLICITED);
static_assert(AGG_WQE_INLINE == IB_SEND_INLINE);
static_assert(AGG_WQE_IP_CSUM == IB_SEND_IP_CSUM);

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

/* The oldest request is done. */
static bool agg_sq_retire(struct agg_qp *qp, enum ib_wc_status status, u32 vendor_err)
{
	struct agg_sq *sq = &qp->sq;
	struct agg_send_slot slot = sq->slots[sq->cons & sq->ring->mask];

	sq->slots[sq->cons & sq->ring->mask].done = false;
	sq->cons++;
	if (!slot.done) {
		sq->psn_cons = slot.psn_end;
		sq->takes += agg_opcode_takes_receive(slot.opcode);
		if (agg_opcode_reads(slot.opcode))
			sq->reads--;
	}
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

/* Retire everything before @end as done, and what an earlier path did behind it. */
static bool agg_sq_retire_to(struct agg_lqp *lqp, u32 end)
{
	struct agg_qp *qp = lqp->qp;
	struct agg_sq *sq = &qp->sq;
	u32 reqs = 0;
	u64 bytes = 0;
	bool ok = true;

	for (;;) {
		const struct agg_send_slot *slot = &sq->slots[sq->cons & sq->ring->mask];

		if (sq->cons == sq->issue || (sq->cons == end && !slot->done))
			break;
		if (sq->cons == end)
			end++;
		if (!slot->done) {
			reqs++;
			bytes += slot->length;
		}
		ok &= agg_sq_retire(qp, IB_WC_SUCCESS, 0);
	}
	agg_sq_count_done(lqp, reqs, bytes, IB_WC_SUCCESS);
	return ok;
}

/* Nobody will tell any more what became of the requests in [cons, issue). */
static bool agg_sq_settled(const struct agg_qp *qp)
{
	struct agg_lqp *lqp = qp->lqp;

	return !lqp || (lqp->sq_unresolved && completion_done(&lqp->sq_idle));
}

/* In ERR: what never went to a lane is flushed after what did. */
static void agg_sq_flush_ring(struct agg_qp *qp, bool settled)
{
	struct agg_sq *sq = &qp->sq;
	unsigned int n;

	lockdep_assert_held(&sq->lock);

	/* The lane never does them now. */
	while (settled && sq->cons != sq->issue) {
		const struct agg_send_slot *slot = &sq->slots[sq->cons & sq->ring->mask];

		if (qp->lqp && !slot->done)
			agg_sq_count_done(qp->lqp, 1, slot->length, IB_WC_WR_FLUSH_ERR);
		if (!agg_sq_retire(qp, IB_WC_WR_FLUSH_ERR, 0))
			agg_qp_fatal(qp);
	}

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
	if (!lqp->sq_unresolved && !agg_sq_retire_to(lqp, qp->sq.issue))
		agg_qp_fatal(qp);
	if (qp->state == IB_QPS_ERR)
		agg_sq_flush_ring(qp, lqp->sq_unresolved);
	/*
	 * The last touch of @lqp and @qp but for the unlock: agg_lqp_destroy()
	 * waits for this and then takes the lock.
	 */
	complete_all(&lqp->sq_idle);
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

/*
 * Is the path to blame, not the application? A flush that nobody asked for has
 * its cause elsewhere: with soft-RoCE of 6.12 a local fault flushes itself, too.
 */
static bool agg_wc_blames_path(const struct agg_sq *sq, const struct ib_wc *wc,
			       enum agg_cause *cause)
{
	bool suspect = sq->slots[(u32)wc->wr_id & sq->ring->mask].suspect;

	switch (wc->status) {
	case IB_WC_RETRY_EXC_ERR:
	case IB_WC_RESP_TIMEOUT_ERR:
		*cause = AGG_CAUSE_RETRY;
		return true;
	case IB_WC_FATAL_ERR:
	case IB_WC_GENERAL_ERR:
		*cause = AGG_CAUSE_LANE_FAULT;
		return true;
	case IB_WC_LOC_QP_OP_ERR:
	case IB_WC_WR_FLUSH_ERR:
		/* A key that we know to be wrong explains it. */
		*cause = AGG_CAUSE_LANE_FAULT;
		return !suspect;
	default:
		return false;
	}
}

/* A completion with an error. */
static bool agg_sq_error(struct agg_lqp *lqp, const struct ib_wc *wc)
{
	struct agg_qp *qp = lqp->qp;
	struct agg_sq *sq = &qp->sq;
	enum agg_cause cause;
	bool ok = true;

	if (agg_qp_ending(qp))
		/* Once something was left unresolved the marker settles the rest. */
		return lqp->sq_unresolved || agg_sq_failed(lqp, wc);

	/* Nor of what came after: a request at fault is found so on the next path. */
	if (lqp->sq_unresolved) {
		agg_qp_path_failed(lqp, AGG_CAUSE_LANE_FAULT);
		return true;
	}
	if (!agg_wc_blames_path(sq, wc, &cause)) {
		ok = agg_sq_failed(lqp, wc);
		agg_qp_fail(qp);
		return ok;
	}
	/* The lane answers in order: those before it were done. */
	ok = agg_sq_retire_to(lqp, (u32)wc->wr_id);
	lqp->sq_unresolved = true;
	sq->fault_status = wc->status;
	agg_qp_path_failed(lqp, cause);
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
	bool ok = true;

	spin_lock_irqsave(&sq->lock, flags);
	if (wc->wr_id == AGG_WR_MARK) {
		agg_sq_marked(lqp);
		spin_unlock_irqrestore(&sq->lock, flags);
		return;
	}
	if (wc->status == IB_WC_SUCCESS)
		agg_probe_came_through(READ_ONCE(lqp->path));
	/* Nothing but what was posted can complete. */
	if (!WARN_ON_ONCE((u32)wc->wr_id - sq->cons >= sq->issue - sq->cons))
		ok = wc->status == IB_WC_SUCCESS ?
		     agg_sq_retire_to(lqp, (u32)wc->wr_id + 1) : agg_sq_error(lqp, wc);
	if (!ok)
		agg_qp_fatal(qp);
	spin_unlock_irqrestore(&sq->lock, flags);

	agg_sq_run(qp);
}

/*
 * Taking requests from the ring
 */

/* What the verdict on an element is to the application. */
static enum ib_wc_status agg_wqe_status(enum agg_wqe_verdict verdict)
{
	switch (verdict) {
	case AGG_WQE_LENGTH:
		return IB_WC_LOC_LEN_ERR;
	case AGG_WQE_ALIGN:
		return IB_WC_REM_INV_REQ_ERR;
	default:
		return IB_WC_LOC_QP_OP_ERR;
	}
}

/* Put the lane's keys into the scatter list; for a key the PD does not have, one that fails. */
static void agg_sq_sges(struct agg_qp *qp, struct agg_lqp *lqp, u32 num,
			struct agg_send_slot *slot, struct agg_sq_work *w)
{
	u32 i;

	for (i = 0; i < num; i++) {
		u32 lkey;

		if (agg_mr_lkey(qp->pd, lqp->lane->id, w->sge[i].lkey, &lkey)) {
			lkey = lqp->lane->poison->lkey;
			slot->suspect = true;
		}
		w->sge[i].lkey = lkey;
	}
	w->wr.num_sge = num;
	w->wr.sg_list = w->sge;
}

/* Inline data was copied out of the ring; the lane takes it from a kernel address. */
static void agg_sq_inline(u32 length, struct agg_sq_work *w)
{
	w->sge[0].addr = (uintptr_t)w->data;
	w->sge[0].length = length;
	w->sge[0].lkey = 0;
	w->wr.num_sge = length ? 1 : 0;
	w->wr.sg_list = w->sge;
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
	const struct agg_wqe_limits lim = {
		.max_sge = sq->max_sge,
		.max_inline = sq->max_inline,
		.max_msg = qp->dev->max_msg_sz,
		.atomics = qp->dev->attr.atomic_cap != IB_ATOMIC_NONE,
	};
	struct agg_send_slot *slot = &sq->slots[sq->issue & sq->ring->mask];
	struct rxe_send_wqe *wqe = &s->wqe;
	enum agg_wqe_verdict verdict;
	u8 status = IB_WC_SUCCESS;
	u32 packets;

	verdict = agg_wqe_get_send(agg_ring_elem(sq->ring, sq->issue), &lim, wqe, w->elem_sge,
				   w->data);
	slot->wr_id = wqe->wr.wr_id;
	slot->opcode = min_t(u32, wqe->wr.opcode, U8_MAX);
	slot->signaled = sq->sig_all || (wqe->wr.send_flags & IB_SEND_SIGNALED);
	slot->length = 0;
	slot->suspect = false;
	slot->psn_end = sq->psn;
	if (verdict != AGG_WQE_OK) {
		sq->fail_status = agg_wqe_status(verdict);
		return AGG_TAKE_BAD;
	}

	/*
	 * The fence is kept here, not by the lane: soft-RoCE stops for ever when
	 * it must repeat a fenced request after later READs have gone out. The
	 * completion of what is waited for runs the engine again.
	 */
	if ((wqe->wr.send_flags & IB_SEND_FENCE) && sq->reads)
		return AGG_TAKE_WAIT;

	slot->length = wqe->dma.length;
	/* Within half the PSN space old and new can be told apart. */
	packets = agg_packets(slot->length, lqp->mtu_bytes);
	if (sq->cons != sq->issue && sq->psn - sq->psn_cons + packets > AGG_PSN_WINDOW)
		return AGG_TAKE_WAIT;

	memset(&w->atomic, 0, sizeof(w->atomic));
	w->wr.opcode = wqe->wr.opcode;
	w->wr.send_flags = wqe->wr.send_flags & (IB_SEND_SOLICITED | IB_SEND_INLINE);
	if (wqe->wr.send_flags & IB_SEND_INLINE)
		agg_sq_inline(wqe->dma.length, w);
	else
		agg_sq_sges(qp, lqp, wqe->dma.num_sge, slot, w);

	switch (wqe->wr.opcode) {
	case IB_WR_SEND_WITH_IMM:
		w->wr.ex.imm_data = wqe->wr.ex.imm_data;
		break;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		w->wr.ex.imm_data = wqe->wr.ex.imm_data;
		fallthrough;
	case IB_WR_RDMA_WRITE:
		w->rdma.remote_addr = wqe->wr.wr.rdma.remote_addr;
		/* An access of no bytes needs no key (IBA C9-88). */
		if (!agg_sq_rkey(qp, lqp, wqe->wr.wr.rdma.rkey, slot->length, &w->rdma.rkey,
				 &status))
			return AGG_TAKE_WAIT;
		break;
	case IB_WR_RDMA_READ:
		w->rdma.remote_addr = wqe->wr.wr.rdma.remote_addr;
		/*
		 * Nor does this, but soft-RoCE looks for the key of a READ of
		 * no bytes that is sent again.
		 */
		if (!agg_sq_rkey(qp, lqp, wqe->wr.wr.rdma.rkey, true, &w->rdma.rkey, &status))
			return AGG_TAKE_WAIT;
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		w->atomic.remote_addr = wqe->wr.wr.atomic.remote_addr;
		w->atomic.compare_add = wqe->wr.wr.atomic.compare_add;
		w->atomic.swap = wqe->wr.wr.atomic.swap;
		if (!agg_sq_rkey(qp, lqp, wqe->wr.wr.atomic.rkey, true, &w->atomic.rkey, &status))
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
	sq->psn += packets;
	slot->psn_end = sq->psn;
	return AGG_TAKE_OK;
}

/* The request at @issue is at fault and all before it are retired. */
static void agg_sq_fail_head(struct agg_qp *qp)
{
	struct agg_sq *sq = &qp->sq;

	/* It was never counted as a READ under way, or otherwise. */
	sq->slots[sq->issue & sq->ring->mask].opcode = IB_WR_RDMA_WRITE;
	sq->issue++;
	if (!agg_sq_retire(qp, sq->fail_status, 0))
		agg_qp_fatal(qp);
	sq->block = AGG_SQ_RUN;
	agg_count(qp->dev, BAD_WQE);
	agg_qp_fail(qp);
}

static void agg_sq_issued(struct agg_sq *sq)
{
	sq->issue++;
	if (sq->replay_left)
		sq->replay_left--;
}

/* The lane did not take the requests from @issue on: they stay in the ring. */
static void agg_sq_unissue(struct agg_sq *sq, u32 issue, u32 psn)
{
	while (sq->issue != issue) {
		const struct agg_send_slot *slot = &sq->slots[--sq->issue & sq->ring->mask];

		if (!slot->done && agg_opcode_reads(slot->opcode))
			sq->reads--;
		sq->replay_left++;
	}
	sq->psn = psn;
}

/* The request at @issue was executed on an earlier path. */
static void agg_sq_skip(struct agg_qp *qp)
{
	struct agg_sq *sq = &qp->sq;
	bool first = sq->cons == sq->issue;

	agg_sq_issued(sq);
	/* Else the completion of one before it retires it. */
	if (first && !agg_sq_retire(qp, IB_WC_SUCCESS, 0))
		agg_qp_fatal(qp);
}

/* With nothing under way: what follows next may have been executed, too. */
static void agg_sq_skip_done(struct agg_qp *qp)
{
	struct agg_sq *sq = &qp->sq;

	while (sq->cons == sq->issue && sq->replay_left &&
	       sq->slots[sq->issue & sq->ring->mask].done)
		agg_sq_skip(qp);
}

/*
 * There is no path, and there will be none. The first request gets an error, the
 * others are flushed in ERR. False if there is no request, and so nobody to tell.
 */
static bool agg_sq_give_up(struct agg_qp *qp, enum ib_wc_status status)
{
	struct agg_sq *sq = &qp->sq;

	lockdep_assert_held(&sq->lock);

	agg_sq_skip_done(qp);
	if (sq->cons == sq->issue) {
		const struct rxe_send_wqe *ring = agg_ring_elem(sq->ring, sq->issue);
		struct agg_send_slot *slot = &sq->slots[sq->issue & sq->ring->mask];

		if (!agg_sq_pending(sq))
			return false;
		slot->wr_id = READ_ONCE(ring->wr.wr_id);
		slot->opcode = IB_WR_RDMA_WRITE;
		slot->length = 0;
		slot->psn_end = sq->psn;
		sq->issue++;
	}
	if (!agg_sq_retire(qp, status, 0))
		agg_qp_fatal(qp);
	return true;
}

/**
 * agg_sq_abandon() - report the first request, if there is one, as failed
 * @qp: a QP without a path; its lane QP is quiet
 * @status: of the error
 *
 * The caller moves the QP to ERR, which flushes the others.
 *
 * Context: process.
 */
void agg_sq_abandon(struct agg_qp *qp, enum ib_wc_status status)
{
	spin_lock_irq(&qp->sq.lock);
	agg_sq_give_up(qp, status);
	spin_unlock_irq(&qp->sq.lock);
}

/**
 * agg_sq_has_work() - does the application wait for something it sent?
 * @qp: the QP
 *
 * Context: process.
 */
bool agg_sq_has_work(struct agg_qp *qp)
{
	struct agg_sq *sq = &qp->sq;
	bool work;

	spin_lock_irq(&sq->lock);
	work = !agg_sq_idle(qp) || (qp->state == IB_QPS_RTS && agg_sq_pending(sq));
	spin_unlock_irq(&sq->lock);
	return work;
}

/**
 * agg_sq_quiet() - the lane QP is quiet: its lane has nothing of us any more
 * @lqp: qp->lqp; every completion was processed
 *
 * Context: process; qp->mutex is held.
 */
void agg_sq_quiet(struct agg_lqp *lqp)
{
	struct agg_qp *qp = lqp->qp;
	struct agg_sq *sq = &qp->sq;
	u32 i;

	spin_lock_irq(&sq->lock);
	for (i = sq->cons; i != sq->issue; i++) {
		const struct agg_send_slot *slot = &sq->slots[i & sq->ring->mask];

		if (!slot->done)
			agg_sq_count_done(lqp, 1, slot->length, IB_WC_WR_FLUSH_ERR);
	}
	spin_unlock_irq(&sq->lock);
}

/**
 * agg_sq_idle() - has the QP nothing under way?
 * @qp: the QP; sq.lock is held, or the answer is a hint
 *
 * What must be repeated on the next path is under way, too.
 *
 * Context: any.
 */
bool agg_sq_idle(const struct agg_qp *qp)
{
	const struct agg_sq *sq = &qp->sq;

	return READ_ONCE(sq->cons) == READ_ONCE(sq->issue) && !READ_ONCE(sq->replay_left);
}

/* Rule 10, first half: what the peer says must be possible. */
static int agg_sq_check_frozen(const struct agg_sq *sq, const struct agg_frozen *peer,
			       u32 *executed)
{
	u32 takes = sq->takes;
	u32 i;

	*executed = agg_psn_expand(sq->psn_cons, peer->psn);
	if (*executed - sq->psn_cons > sq->psn - sq->psn_cons)
		return -EPROTO;

	for (i = sq->cons; i != sq->issue; i++) {
		const struct agg_send_slot *slot = &sq->slots[i & sq->ring->mask];

		if (slot->done)
			continue;
		if ((s32)(slot->psn_end - *executed) > 0)
			break;
		takes += agg_opcode_takes_receive(slot->opcode);
	}
	/* Rule 4. */
	return takes == peer->recvs ? 0 : -EPROTO;
}

/**
 * agg_sq_resolve() - what became of the requests that were under way
 * @qp: its lane QP is quiet
 * @peer: what the peer's lane QP has executed
 * @r: counts, added to
 *
 * Rules 10 and 11. What was executed is done, the rest is taken from the ring
 * again on the next path, with PSNs that begin at 0.
 *
 * Context: process; qp->mutex is held.
 * Return: 0; -EPROTO: the peer's numbers are impossible, nothing is changed;
 * -EIO: an atomic was executed and its result is lost: that is reported, and
 * the QP must go to ERR.
 */
int agg_sq_resolve(struct agg_qp *qp, const struct agg_frozen *peer, struct agg_resolved *r)
{
	struct agg_sq *sq = &qp->sq;
	u32 executed, i;
	bool lost = false;
	int err;

	lockdep_assert_held(&qp->mutex);

	spin_lock_irq(&sq->lock);
	err = agg_sq_check_frozen(sq, peer, &executed);
	if (err)
		goto out;

	for (i = sq->cons; i != sq->issue && !lost; i++) {
		struct agg_send_slot *slot = &sq->slots[i & sq->ring->mask];

		if (slot->done)
			continue;
		switch (agg_fate_of((s32)(slot->psn_end - executed) <= 0,
				    agg_opcode_reads(slot->opcode),
				    agg_opcode_atomic(slot->opcode))) {
		case AGG_FATE_DONE:
			slot->done = true;
			r->resolved++;
			break;
		case AGG_FATE_AGAIN:
			r->replayed++;
			break;
		case AGG_FATE_LOST:
			lost = true;
			break;
		}
	}

	while (sq->cons != sq->issue && sq->slots[sq->cons & sq->ring->mask].done)
		if (!agg_sq_retire(qp, IB_WC_SUCCESS, 0))
			agg_qp_fatal(qp);
	sq->reads = 0;
	if (lost) {
		/* A READ before it has no result either, and cannot wait for one. */
		sq->slots[sq->cons & sq->ring->mask].opcode = IB_WR_RDMA_WRITE;
		if (!agg_sq_retire(qp, IB_WC_RETRY_EXC_ERR, 0))
			agg_qp_fatal(qp);
		for (i = sq->cons; i != sq->issue; i++)
			sq->slots[i & sq->ring->mask].opcode = IB_WR_RDMA_WRITE;
		err = -EIO;
		goto out;
	}
	sq->replay_left += sq->issue - sq->cons;
	sq->issue = sq->cons;
	sq->psn = 0;
	sq->psn_cons = 0;
	sq->takes = 0;
	sq->block = AGG_SQ_RUN;
	agg_sq_skip_done(qp);
out:
	spin_unlock_irq(&sq->lock);
	return err;
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
	u32 at[AGG_SQ_BATCH], psn[AGG_SQ_BATCH];
	struct agg_lane_stats *st;
	u32 n, want, room, i;
	bool more;
	int err;

	lockdep_assert_held(&sq->lock);

	if (unlikely(!lqp)) {
		/* The peer is gone: as on a NIC, who sends learns of it. */
		if (READ_ONCE(qp->fo.fence.state) == AGG_FENCE_OVER &&
		    qp->state == IB_QPS_RTS && !agg_qp_ending(qp) &&
		    agg_sq_give_up(qp, IB_WC_RETRY_EXC_ERR))
			agg_qp_fail(qp);
		return false;
	}
	if (lqp->stopped || lqp->hold ||
	    (READ_ONCE(qp->flags) & (BIT(AGG_QPF_ERROR) | BIT(AGG_QPF_PATH))))
		return false;

	room = lqp->sq_depth - (sq->issue - sq->cons);
	want = min3(agg_sq_pending(sq), room, (u32)AGG_SQ_BATCH);
	if (qp->state != IB_QPS_RTS)
		/* A send queue that drains still repeats what was under way. */
		want = qp->state == IB_QPS_SQD ? min(want, sq->replay_left) : 0;
	more = want == AGG_SQ_BATCH;

	for (n = 0; want && sq->block == AGG_SQ_RUN; want--) {
		enum agg_take t;

		/* Executed on an earlier path. */
		if (sq->slots[sq->issue & sq->ring->mask].done) {
			agg_sq_skip(qp);
			continue;
		}
		psn[n] = sq->psn;
		at[n] = sq->issue;
		t = agg_sq_take(qp, lqp, s, &s->work[n]);
		if (t == AGG_TAKE_WAIT) {
			more = false;
			break;
		}
		if (t == AGG_TAKE_BAD) {
			sq->block = AGG_SQ_FAIL;
			break;
		}
		if (n)
			s->work[n - 1].wr.next = &s->work[n].wr;
		agg_sq_issued(sq);
		n++;
	}

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
			/*
			 * What it took may have nobody behind it that is
			 * signalled: the peer will say what became of it.
			 */
			agg_sq_unissue(sq, at[n], psn[n]);
			lqp->sq_unresolved = true;
			sq->fault_status = IB_WC_GENERAL_ERR;
			agg_qp_path_failed(lqp, AGG_CAUSE_LANE_FAULT);
			more = false;
		}
		for (i = 0; i < n; i++) {
			st->tx_reqs++;
			st->tx_bytes += sq->slots[at[i] & sq->ring->mask].length;
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
 * In SQD it tells, once, when nothing is under way any more.
 *
 * Context: any; of process context interrupts are off for a batch at a time.
 */
void agg_sq_run(struct agg_qp *qp)
{
	struct agg_sq *sq = &qp->sq;
	bool drained = false;
	unsigned long flags;
	bool more;

	do {
		spin_lock_irqsave(&sq->lock, flags);
		more = agg_sq_batch(qp);
		if (unlikely(qp->state != IB_QPS_RTS)) {
			if (qp->state == IB_QPS_ERR)
				agg_sq_flush_ring(qp, agg_sq_settled(qp));
			drained = sq->draining && qp->state == IB_QPS_SQD && agg_sq_idle(qp);
			if (drained)
				sq->draining = false;
		}
		spin_unlock_irqrestore(&sq->lock, flags);
	} while (more);
	if (unlikely(drained))
		agg_qp_sqd_done(qp);
	if (unlikely(test_bit(AGG_QPF_MOVE_WAIT, &qp->flags)) && agg_sq_idle(qp) &&
	    test_and_clear_bit(AGG_QPF_MOVE_WAIT, &qp->flags))
		agg_fo_queue(qp, 0);
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
