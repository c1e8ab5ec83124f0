// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receive forwarding: receives go from the application's ring to the lane
 * receive queue of the home path, in order, up to its depth.
 *
 * Indices as in sq.c: [cons, fwd) are on the lane, [fwd, producer) wait in
 * the ring. A ring slot is released when its receive completes. The ring is
 * looked at whenever we are called for the QP or its CQ; when the lane has
 * none left and the ring is empty the trap is armed (ring.c).
 *
 * A receive that a lane flushes because the path failed has met no message: it
 * is taken from the ring again for the next path.
 */
#include "agg.h"
#include "wqe.h"

#define AGG_RQ_BATCH	16
#define AGG_FLUSH_BATCH	256	/* receives flushed in one go */

struct agg_rq_work {
	struct ib_recv_wr wr;
	union {
		struct ib_sge sge[AGG_MAX_SGE];
		struct rxe_sge elem_sge[AGG_MAX_SGE];	/* as in sq.c */
	};
};

struct agg_rq_scratch {
	struct rxe_recv_wqe wqe;
	struct agg_rq_work work[AGG_RQ_BATCH];
};

/* Used with interrupts off and rq.lock held, so there is one user per CPU. */
static struct agg_rq_scratch __percpu *agg_rq_scratch;

static u32 agg_rq_pending(const struct agg_rq *rq)
{
	u32 n = (agg_ring_producer(rq->ring) - rq->fwd) & rq->ring->mask;

	/* A wild producer index must not lap the receives on the lane. */
	return min(n, rq->ring->mask - (rq->fwd - rq->cons));
}

/**
 * agg_rq_wants_look() - tell whether agg_rq_run() might find something to do
 * @qp: the QP
 *
 * Context: any; no lock, so only a hint.
 */
bool agg_rq_wants_look(const struct agg_qp *qp)
{
	return READ_ONCE(qp->state) >= IB_QPS_RTR &&
	       agg_ring_producer(qp->rq.ring) != (READ_ONCE(qp->rq.fwd) & qp->rq.ring->mask);
}

static bool agg_rq_retire(struct agg_qp *qp, struct ib_uverbs_wc *wc, bool solicited)
{
	struct agg_rq *rq = &qp->rq;

	wc->wr_id = rq->slots[rq->cons & rq->ring->mask].wr_id;
	wc->qp_num = qp->ibqp.qp_num;
	rq->cons++;
	/* Pairs with the application's load-acquire: the element is free. */
	smp_store_release(&rq->ring->buf->consumer_index, rq->cons & rq->ring->mask);
	if (test_bit(AGG_QPF_DISCARD, &qp->flags))
		return true;
	return agg_cq_post(qp->rcq, wc, solicited);
}

/* In ERR: what never went to a lane is flushed after what did. */
static void agg_rq_flush_ring(struct agg_qp *qp, bool settled)
{
	struct agg_rq *rq = &qp->rq;
	unsigned int n;

	lockdep_assert_held(&rq->lock);

	/* Nothing meets the receives on the lane now. */
	while (settled && rq->cons != rq->fwd) {
		struct ib_uverbs_wc wc = { .status = IB_WC_WR_FLUSH_ERR };

		if (!agg_rq_retire(qp, &wc, true))
			agg_qp_fatal(qp);
	}

	/* The application can go on moving its index: a bound, with interrupts off. */
	for (n = 0; rq->cons == rq->fwd && agg_rq_pending(rq); n++) {
		const struct rxe_recv_wqe *ring = agg_ring_elem(rq->ring, rq->fwd);
		struct ib_uverbs_wc wc = { .status = IB_WC_WR_FLUSH_ERR };

		if (n == AGG_FLUSH_BATCH) {
			agg_qp_kick(qp);
			break;
		}

		rq->slots[rq->fwd & rq->ring->mask].wr_id = READ_ONCE(ring->wr_id);
		rq->fwd++;
		if (!agg_rq_retire(qp, &wc, true)) {
			agg_qp_fatal(qp);
			break;
		}
	}
}

/* May receives go to the lane now? */
static bool agg_rq_open(const struct agg_qp *qp)
{
	const struct agg_lqp *lqp = qp->lqp;

	return lqp && !lqp->stopped && lqp->state >= IB_QPS_RTR &&
	       !(READ_ONCE(qp->flags) & (BIT(AGG_QPF_ERROR) | BIT(AGG_QPF_PATH)));
}

/* Nobody will tell any more what became of the receives in [cons, fwd). */
static bool agg_rq_settled(const struct agg_qp *qp)
{
	struct agg_lqp *lqp = qp->lqp;

	return !lqp || (lqp->rq_unresolved && completion_done(&lqp->rq_idle));
}

/*
 * Who brings us back? While the lane has a receive, its completion does. With
 * none there and none here only the trap can. And a receive that was posted
 * since the ring was looked at must not be left to either.
 */
static void agg_rq_settle(struct agg_qp *qp)
{
	struct agg_rq *rq = &qp->rq;

	lockdep_assert_held(&rq->lock);

	if (rq->cons != rq->fwd || qp->state < IB_QPS_RTR) {
		rq->dry_since = 0;
	} else if (agg_rq_pending(rq)) {
		rq->dry_since = 0;
		/* Else who opens the way runs the engine. */
		if (agg_rq_open(qp) || qp->state == IB_QPS_ERR)
			agg_qp_kick(qp);
	} else {
		if (!rq->dry_since)
			rq->dry_since = ktime_get_ns();
		agg_qp_want_trap(qp);
	}
}

/**
 * agg_rq_complete() - a receive completion of a lane
 * @lqp: where it was posted
 * @wc: the completion
 *
 * Context: as agg_sq_complete().
 */
void agg_rq_complete(struct agg_lqp *lqp, const struct ib_wc *wc)
{
	struct ib_uverbs_wc uwc = {
		.status = wc->status,
		.vendor_err = wc->vendor_err,
	};
	struct agg_qp *qp = lqp->qp;
	struct agg_rq *rq = &qp->rq;
	struct agg_lane_stats *st;
	unsigned long flags;

	spin_lock_irqsave(&rq->lock, flags);
	if (wc->wr_id == AGG_WR_MARK) {
		if (qp->state == IB_QPS_ERR)
			agg_rq_flush_ring(qp, lqp->rq_unresolved);
		agg_rq_settle(qp);
		/* The last touch of @lqp and @qp, see agg_sq_marked(). */
		complete_all(&lqp->rq_idle);
		spin_unlock_irqrestore(&rq->lock, flags);
		return;
	}
	if (wc->status == IB_WC_WR_FLUSH_ERR && (lqp->rq_unresolved || !agg_qp_ending(qp))) {
		/* The path failed: it meets its message on the next one. */
		lqp->rq_unresolved = true;
		this_cpu_inc(lqp->lane->stats->rx_flushed);
		if (!agg_qp_ending(qp))
			agg_qp_path_failed(lqp, AGG_CAUSE_LANE_FAULT);
		spin_unlock_irqrestore(&rq->lock, flags);
		return;
	}
	/* One lane receive queue: completions come in order. */
	if (WARN_ON_ONCE(rq->cons == rq->fwd || (u32)wc->wr_id != rq->cons)) {
		spin_unlock_irqrestore(&rq->lock, flags);
		return;
	}

	st = this_cpu_ptr(lqp->lane->stats);
	if (wc->status == IB_WC_SUCCESS) {
		agg_probe_came_through(READ_ONCE(lqp->path));
		uwc.opcode = wc->opcode;
		uwc.byte_len = wc->byte_len;
		uwc.wc_flags = wc->wc_flags & IB_WC_WITH_IMM;
		uwc.src_qp = qp->dqpn;
		uwc.port_num = 1;
		if (uwc.wc_flags)
			uwc.ex.imm_data = wc->ex.imm_data;
		st->rx_reqs++;
		st->rx_bytes += wc->byte_len;
		lqp->recvs++;
	} else if (wc->status == IB_WC_WR_FLUSH_ERR) {
		st->rx_flushed++;
	} else {
		st->rx_errors++;
	}
	/*
	 * Whether a message was solicited is not in the lane's completion, so
	 * every receive counts as such: one wake-up too many, never one too few.
	 */
	if (!agg_rq_retire(qp, &uwc, true))
		agg_qp_fatal(qp);
	else if (wc->status != IB_WC_SUCCESS)
		agg_qp_fail(qp);
	spin_unlock_irqrestore(&rq->lock, flags);

	agg_rq_run(qp);
}

/*
 * Copy the receive at @fwd out of the ring and turn it into the lane's. A key
 * the PD does not have becomes the poison key: a message that meets the
 * receive finds it at fault, as it would on one device. Returns false if the
 * element cannot be meant.
 */
static bool agg_rq_take(struct agg_qp *qp, struct agg_lqp *lqp, struct agg_rq_scratch *s,
			struct agg_rq_work *w)
{
	struct agg_rq *rq = &qp->rq;
	const struct agg_wqe_limits lim = {
		.max_sge = rq->max_sge,
		.max_msg = qp->dev->max_msg_sz,
	};
	struct rxe_recv_wqe *wqe = &s->wqe;
	enum agg_wqe_verdict verdict;
	u32 i;

	verdict = agg_wqe_get_recv(agg_ring_elem(rq->ring, rq->fwd), &lim, wqe, w->elem_sge);
	rq->slots[rq->fwd & rq->ring->mask].wr_id = wqe->wr_id;
	if (verdict != AGG_WQE_OK)
		return false;

	for (i = 0; i < wqe->dma.num_sge; i++) {
		u32 lkey;

		if (agg_mr_lkey(qp->pd, lqp->lane->id, w->sge[i].lkey, &lkey))
			lkey = lqp->lane->poison->lkey;
		w->sge[i].lkey = lkey;
	}
	w->wr.wr_id = rq->fwd;
	w->wr.sg_list = w->sge;
	w->wr.num_sge = wqe->dma.num_sge;
	return true;
}

/* Forward up to a batch; true if there may be more to do at once. */
static bool agg_rq_batch(struct agg_qp *qp)
{
	struct agg_rq_scratch *s = this_cpu_ptr(agg_rq_scratch);
	const struct ib_recv_wr *bad = NULL;
	struct agg_lqp *lqp = qp->lqp;
	struct agg_rq *rq = &qp->rq;
	u32 first = rq->fwd;
	bool more, fail = false, refused = false;
	u32 n, room, i;

	lockdep_assert_held(&rq->lock);

	if (!agg_rq_open(qp))
		return false;

	room = lqp->rq_depth - (rq->fwd - rq->cons);
	n = min3(agg_rq_pending(rq), room, (u32)AGG_RQ_BATCH);
	more = n == AGG_RQ_BATCH;

	for (i = 0; i < n; i++) {
		if (!agg_rq_take(qp, lqp, s, &s->work[i])) {
			fail = true;
			break;
		}
		s->work[i].wr.next = NULL;
		if (i)
			s->work[i - 1].wr.next = &s->work[i].wr;
		rq->fwd++;
	}
	n = i;

	if (n && unlikely(ib_post_recv(lqp->ibqp, &s->work[0].wr, &bad))) {
		/* The depth was reserved: the lane is at fault. */
		while (n && bad && &s->work[n - 1].wr != bad)
			n--;
		n = n && bad ? n - 1 : 0;
		rq->fwd = first + n;
		agg_qp_path_failed(lqp, AGG_CAUSE_LANE_FAULT);
		refused = true;
	}
	this_cpu_add(lqp->lane->stats->rx_posted, n);

	if (fail) {
		agg_count(qp->dev, BAD_WQE);
		agg_qp_fatal(qp);
		return false;
	}
	return more && !refused;
}

/**
 * agg_rq_rewind() - the receives that met no message go to the next path
 * @qp: its lane QP is quiet
 *
 * Rule 16: from the first one that was not completed, in order.
 *
 * Context: process; qp->mutex is held.
 */
void agg_rq_rewind(struct agg_qp *qp)
{
	lockdep_assert_held(&qp->mutex);

	spin_lock_irq(&qp->rq.lock);
	qp->rq.fwd = qp->rq.cons;
	spin_unlock_irq(&qp->rq.lock);
}

/**
 * agg_rq_run() - forward what can be forwarded; in ERR flush what is left
 * @qp: the QP
 *
 * Context: any; of process context interrupts are off for a batch at a time.
 */
void agg_rq_run(struct agg_qp *qp)
{
	struct agg_rq *rq = &qp->rq;
	unsigned long flags;
	bool more;

	do {
		spin_lock_irqsave(&rq->lock, flags);
		more = agg_rq_batch(qp);
		if (unlikely(qp->state == IB_QPS_ERR))
			agg_rq_flush_ring(qp, agg_rq_settled(qp));
		if (!more)
			agg_rq_settle(qp);
		spin_unlock_irqrestore(&rq->lock, flags);
	} while (more);
}

/**
 * agg_post_recv() - ops.post_recv: applications write the ring, nobody calls it
 * @ibqp: the QP
 * @wr: requests
 * @bad_wr: set to @wr
 *
 * Context: any. Return: -EOPNOTSUPP.
 */
int agg_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad_wr)
{
	*bad_wr = wr;
	return -EOPNOTSUPP;
}

/**
 * agg_rq_dry_ms() - how long the QP has had no receive at all
 * @qp: the QP
 *
 * Context: any. Return: milliseconds; 0 if there is one.
 */
u32 agg_rq_dry_ms(struct agg_qp *qp)
{
	unsigned long flags;
	u64 since;

	/* A post that nobody has noticed yet counts. */
	agg_rq_run(qp);
	spin_lock_irqsave(&qp->rq.lock, flags);
	since = qp->rq.dry_since;
	spin_unlock_irqrestore(&qp->rq.lock, flags);
	return since ? div_u64(ktime_get_ns() - since, NSEC_PER_MSEC) : 0;
}

/**
 * agg_rq_init() - allocate what the forwarding of all QPs shares
 *
 * Context: module init. Return: 0 or -ENOMEM.
 */
int agg_rq_init(void)
{
	agg_rq_scratch = alloc_percpu(struct agg_rq_scratch);
	return agg_rq_scratch ? 0 : -ENOMEM;
}

/**
 * agg_rq_exit() - free it
 *
 * Context: module exit.
 */
void agg_rq_exit(void)
{
	free_percpu(agg_rq_scratch);
}
