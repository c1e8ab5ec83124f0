// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues on the lanes and their drain.
 *
 * A lane may call our completion handler with its own CQ and QP locks held
 * (soft-RoCE of 6.12), from hard interrupt (mlx5) or from a tasklet
 * (soft-RoCE of 6.1). So the handler takes no lock and calls no verb: it
 * kicks an irq_work, which drains a budget; a work item does the rest.
 *
 * One drainer at a time: @kicks counts the reasons to drain. Who raises it
 * from 0 owns the drain and hands the ownership to the work item when the
 * budget is spent; it is over when the owner has subtracted all it saw.
 */
#include <linux/irq_work.h>

#include "agg.h"

#define AGG_DRAIN_BUDGET	64	/* completions per irq_work */
#define AGG_DRAIN_WORK_BUDGET	1024	/* per round of the work item */

static void agg_lcq_dispatch(struct ib_wc *wc, bool rx)
{
	struct agg_lqp *lqp = wc->qp->qp_context;

	if (rx)
		agg_rq_complete(lqp, wc);
	else
		agg_sq_complete(lqp, wc);
}

/* Drain up to @budget completions; true if the CQ is empty and armed. */
static bool agg_lcq_poll(struct agg_lcq *lcq, unsigned int budget)
{
	unsigned int done = 0;
	int n, i;

	for (;;) {
		n = ib_poll_cq(lcq->cq, ARRAY_SIZE(lcq->wc), lcq->wc);
		for (i = 0; i < n; i++)
			agg_lcq_dispatch(&lcq->wc[i], lcq->rx);
		if (n > 0) {
			done += n;
			WRITE_ONCE(lcq->completions, lcq->completions + n);
		}
		if (n == ARRAY_SIZE(lcq->wc)) {
			if (done >= budget)
				return false;
			continue;
		}
		if (done > lcq->batch_max)
			WRITE_ONCE(lcq->batch_max, done);
		/* Armed, or something came meanwhile and the handler was not called. */
		if (ib_req_notify_cq(lcq->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) <= 0)
			return true;
		if (done >= budget)
			return false;
	}
}

/* The owner's loop; false: budget spent, the ownership is kept. */
static bool agg_lcq_drain(struct agg_lcq *lcq, unsigned int budget)
{
	int seen;

	do {
		seen = atomic_read(&lcq->kicks);
		if (!agg_lcq_poll(lcq, budget))
			return false;
	} while (atomic_sub_return(seen, &lcq->kicks));
	return true;
}

static void agg_lcq_irq_work(struct irq_work *w)
{
	struct agg_lcq *lcq = container_of(w, struct agg_lcq, irq_work);

	if (atomic_inc_return(&lcq->kicks) != 1)
		return;
	if (!agg_lcq_drain(lcq, AGG_DRAIN_BUDGET)) {
		WRITE_ONCE(lcq->rescheds, lcq->rescheds + 1);
		queue_work(agg_hi_wq, &lcq->work);
	}
}

static void agg_lcq_work(struct work_struct *w)
{
	struct agg_lcq *lcq = container_of(w, struct agg_lcq, work);

	if (!agg_lcq_drain(lcq, AGG_DRAIN_WORK_BUDGET))
		queue_work(agg_hi_wq, &lcq->work);
}

/* The lane's completion handler; see the head of this file. */
static void agg_lcq_event(struct ib_cq *cq, void *ctx)
{
	struct agg_lcq *lcq = ctx;

	WRITE_ONCE(lcq->interrupts, lcq->interrupts + 1);
	irq_work_queue(&lcq->irq_work);
}

static void agg_lcq_error(struct ib_event *ev, void *ctx)
{
	struct agg_lcq *lcq = ctx;

	/* Depths are reserved: this is the lane's fault, not an overflow. */
	pr_err_ratelimited("rdma_agg: %s: lane %s/%u: completion queue event %s\n",
			   dev_name(&lcq->lane->dev->ibdev.dev), lcq->lane->ibdev_name,
			   lcq->lane->port, ib_event_msg(ev->event));
}

/**
 * agg_lcq_init() - create a completion queue on a lane and arm it
 * @lcq: zeroed
 * @lane: the lane
 * @rx: for receives
 * @vector: completion vector
 * @size: completions it must hold
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int agg_lcq_init(struct agg_lcq *lcq, struct agg_lane *lane, bool rx, u32 vector, u32 size)
{
	struct ib_cq_init_attr attr = {
		.cqe = size,
		.comp_vector = vector,
	};
	int err;

	lcq->lane = lane;
	lcq->rx = rx;
	lcq->vector = vector;
	lcq->size = size;
	atomic_set(&lcq->kicks, 0);
	atomic_set(&lcq->credits, size);
	init_irq_work(&lcq->irq_work, agg_lcq_irq_work);
	INIT_WORK(&lcq->work, agg_lcq_work);

	lcq->cq = ib_create_cq(lane->ibdev, agg_lcq_event, agg_lcq_error, lcq, &attr);
	if (IS_ERR(lcq->cq)) {
		err = PTR_ERR(lcq->cq);
		lcq->cq = NULL;
		return err;
	}
	ib_req_notify_cq(lcq->cq, IB_CQ_NEXT_COMP);
	return 0;
}

/**
 * agg_lcq_destroy() - destroy a lane CQ
 * @lcq: no lane QP uses it
 *
 * The caller frees @lcq only after an RCU grace period: soft-RoCE of 6.1 does
 * not wait for its tasklet, so a call of our handler may still be under way.
 *
 * Context: may sleep.
 */
void agg_lcq_destroy(struct agg_lcq *lcq)
{
	if (!lcq->cq)
		return;

	/*
	 * Nothing more will complete. Let a drain under way end before the CQ
	 * goes; the irq_work may hand over to the work item, never the reverse.
	 */
	irq_work_sync(&lcq->irq_work);
	flush_work(&lcq->work);
	while (atomic_read(&lcq->kicks)) {
		irq_work_sync(&lcq->irq_work);
		flush_work(&lcq->work);
	}
	/* Keep the ownership: a call that comes late finds it taken and leaves. */
	atomic_inc(&lcq->kicks);
	ib_destroy_cq(lcq->cq);
	irq_work_sync(&lcq->irq_work);
	lcq->cq = NULL;
}

/**
 * agg_lcq_reserve() - take room for a lane QP's completions
 * @lcq: lane CQ
 * @n: completions
 *
 * Context: any. Return: true if there was room; give it back with
 * agg_lcq_unreserve().
 */
bool agg_lcq_reserve(struct agg_lcq *lcq, u32 n)
{
	if (atomic_sub_return(n, &lcq->credits) >= 0)
		return true;
	atomic_add(n, &lcq->credits);
	return false;
}

/**
 * agg_lcq_unreserve() - give back what agg_lcq_reserve() took
 * @lcq: lane CQ
 * @n: completions
 *
 * Context: any.
 */
void agg_lcq_unreserve(struct agg_lcq *lcq, u32 n)
{
	atomic_add(n, &lcq->credits);
}
