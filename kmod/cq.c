// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues: a ring the application reads, into which the completions
 * of all lanes are merged.
 */
#include <rdma/uverbs_ioctl.h>

#include "agg.h"

/* struct rxe_cqe of the provider: struct ib_uverbs_wc in 64 bytes. */
#define AGG_CQE_SIZE	64

static_assert(sizeof(struct ib_uverbs_wc) <= AGG_CQE_SIZE);

static void agg_cq_event(struct agg_cq *cq, enum ib_event_type type)
{
	struct ib_event ev = {
		.device = cq->ibcq.device,
		.element.cq = &cq->ibcq,
		.event = type,
	};

	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&ev, cq->ibcq.cq_context);
}

/**
 * agg_cq_post() - write one completion
 * @cq: the CQ
 * @wc: the completion
 * @solicited: it may wake an application that waits for solicited ones only
 *
 * Context: any; sq.lock or rq.lock may be held, so the application's handler
 * must be one that takes no verb (uverbs: it only wakes a reader).
 *
 * Return: false if the CQ was full; the completion is lost, and the caller
 * moves its QP to the error state. IB_EVENT_CQ_ERR was raised, once.
 */
bool agg_cq_post(struct agg_cq *cq, const struct ib_uverbs_wc *wc, bool solicited)
{
	bool notify = false, first_loss = false, full;
	unsigned long flags;
	u32 cons, used;

	spin_lock_irqsave(&cq->lock, flags);
	/* Pairs with the application's store-release: it has read the element. */
	cons = smp_load_acquire(&cq->ring->buf->consumer_index) & cq->ring->mask;
	used = (cq->prod - cons) & cq->ring->mask;
	full = used == cq->ring->mask;
	if (full) {
		first_loss = !cq->overflow;
		cq->overflow = true;
	} else {
		memcpy(agg_ring_elem(cq->ring, cq->prod), wc, sizeof(*wc));
		cq->prod = (cq->prod + 1) & cq->ring->mask;
		/* Pairs with the application's load-acquire: element before index. */
		smp_store_release(&cq->ring->buf->producer_index, cq->prod);
		cq->completions++;
		if (used + 1 > cq->depth_max)
			cq->depth_max = used + 1;

		if ((cq->notify & IB_CQ_NEXT_COMP) ||
		    ((cq->notify & IB_CQ_SOLICITED) && solicited)) {
			cq->notify = 0;
			cq->events++;
			notify = true;
		}
	}
	spin_unlock_irqrestore(&cq->lock, flags);

	if (notify)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	if (full)
		agg_count(to_adev(cq->ibcq.device), CQ_OVERFLOW);
	if (first_loss)
		agg_cq_event(cq, IB_EVENT_CQ_ERR);
	return !full;
}

/**
 * agg_create_cq() - ops.create_cq
 * @ibcq: allocated by the core
 * @attr: size and vector
 * @arg: user data; kernel users are not supported yet
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int agg_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct agg_create_cq_arg *arg)
{
	struct ib_udata *udata = agg_create_cq_udata(arg);
	struct agg_dev *dev = to_adev(ibcq->device);
	struct rxe_create_cq_resp resp = {};
	struct agg_cq *cq = to_acq(ibcq);
	struct agg_ucontext *uctx;
	struct agg_ring *ring;
	int err;

	if (!udata)
		return -EOPNOTSUPP;
	if (attr->flags)
		return -EOPNOTSUPP;
	if (attr->cqe < 1 || attr->cqe > dev->attr.max_cqe || udata->outlen < sizeof(resp))
		return -EINVAL;

	uctx = rdma_udata_to_drv_context(udata, struct agg_ucontext, ibuc);
	ring = agg_ring_create(dev, &uctx->ibuc, attr->cqe, AGG_CQE_SIZE);
	if (IS_ERR(ring))
		return PTR_ERR(ring);

	agg_ring_info(ring, &resp.mi);
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err) {
		agg_ring_unpublish(ring);
		return err;
	}

	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->qps);
	cq->ring = ring;
	ibcq->cqe = ring->mask;
	return 0;
}

/**
 * agg_destroy_cq() - ops.destroy_cq
 * @ibcq: no QP uses it
 * @udata: not used
 *
 * Context: may sleep. Return: 0.
 */
int agg_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct agg_cq *cq = to_acq(ibcq);

	WARN_ON(!list_empty(&cq->qps));
	agg_ring_unpublish(cq->ring);
	return 0;
}

/**
 * agg_resize_cq() - ops.resize_user_cq (resize_cq before 7.1)
 * @ibcq: the CQ
 * @cqe: least number of completions it shall hold
 * @udata: where the new ring is told
 *
 * Completions that wait are moved. The old ring lives until the application
 * has unmapped it.
 *
 * Context: may sleep. Return: 0, or -EINVAL: more completions wait than fit.
 */
int agg_resize_cq(struct ib_cq *ibcq, agg_resize_cqe cqe, struct ib_udata *udata)
{
	struct agg_dev *dev = to_adev(ibcq->device);
	struct rxe_resize_cq_resp resp = {};
	struct agg_cq *cq = to_acq(ibcq);
	struct agg_ring *ring, *old;
	struct agg_ucontext *uctx;
	u32 cons, n, i;
	int err;

	if (!udata || udata->outlen < sizeof(resp))
		return -EINVAL;
	if (cqe < 1 || cqe > dev->attr.max_cqe)
		return -EINVAL;

	uctx = rdma_udata_to_drv_context(udata, struct agg_ucontext, ibuc);
	ring = agg_ring_create(dev, &uctx->ibuc, cqe, AGG_CQE_SIZE);
	if (IS_ERR(ring))
		return PTR_ERR(ring);

	/*
	 * Tell the new ring before the old one is abandoned: if that fails
	 * nothing has changed.
	 */
	agg_ring_info(ring, &resp.mi);
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err)
		goto err_ring;

	spin_lock_irq(&cq->lock);
	old = cq->ring;
	cons = READ_ONCE(old->buf->consumer_index) & old->mask;
	n = (cq->prod - cons) & old->mask;
	if (n > ring->mask || n > cqe) {
		spin_unlock_irq(&cq->lock);
		err = -EINVAL;
		goto err_ring;
	}
	for (i = 0; i < n; i++)
		memcpy(agg_ring_elem(ring, i), agg_ring_elem(old, cons + i), AGG_CQE_SIZE);
	cq->prod = n;
	WRITE_ONCE(ring->buf->producer_index, n);
	cq->ring = ring;
	cq->overflow = false;
	spin_unlock_irq(&cq->lock);

	ibcq->cqe = ring->mask;
	agg_ring_unpublish(old);
	return 0;

err_ring:
	agg_ring_unpublish(ring);
	return err;
}

/**
 * agg_poll_cq() - ops.poll_cq: applications read the ring, nobody calls it
 * @ibcq: CQ
 * @n: room in @wc
 * @wc: not touched
 *
 * Context: any. Return: 0.
 */
int agg_poll_cq(struct ib_cq *ibcq, int n, struct ib_wc *wc)
{
	return 0;
}

/**
 * agg_req_notify_cq() - ops.req_notify_cq
 * @ibcq: CQ
 * @flags: next or solicited completion
 *
 * Also a chance to look at the receive rings: an application that sleeps for
 * completions posts receives just before it arms.
 *
 * Context: process context from uverbs. Return: 0, or 1: IB_CQ_REPORT_MISSED_EVENTS
 * was asked for and completions wait.
 */
int agg_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct agg_cq *cq = to_acq(ibcq);
	struct agg_qp *qp, *prev = NULL;
	unsigned long irq;
	int missed = 0;
	u32 cons;

	spin_lock_irqsave(&cq->lock, irq);
	cq->notify |= flags & IB_CQ_SOLICITED_MASK;
	cons = READ_ONCE(cq->ring->buf->consumer_index) & cq->ring->mask;
	if ((flags & IB_CQ_REPORT_MISSED_EVENTS) && cons != cq->prod)
		missed = 1;

	list_for_each_entry(qp, &cq->qps, rcq_node) {
		if (!agg_rq_wants_look(qp) || !refcount_inc_not_zero(&qp->ref))
			continue;
		/* The reference keeps @qp in the list while the lock is off. */
		spin_unlock_irqrestore(&cq->lock, irq);
		if (prev)
			agg_qp_put(prev);
		agg_rq_run(qp);
		prev = qp;
		spin_lock_irqsave(&cq->lock, irq);
	}
	spin_unlock_irqrestore(&cq->lock, irq);
	if (prev)
		agg_qp_put(prev);
	return missed;
}
