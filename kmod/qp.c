// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RC queue pairs: creation, state changes, errors, removal.
 *
 * Two mutexes: modify_lock keeps the application's own modify_qp calls apart,
 * also while one waits for the peer; qp->mutex protects the state and is not
 * held while waiting, since the peer's ATTACH needs it.
 *
 * Errors are found where no mutex can be taken. AGG_QPF_ERROR stops both
 * engines at once; err_work then makes the change of state.
 *
 * Removal: dead is set and the lane QP goes, so no completion comes any more;
 * then our own reference is dropped and the others (an ATTACH being answered,
 * a key being asked for) are awaited; then the work items, which hold no
 * reference, are cancelled.
 */
#include <linux/random.h>
#include <linux/topology.h>
#include <rdma/ib_cache.h>
#include <rdma/uverbs_ioctl.h>

#include "agg.h"
#include "session.h"
#include "trace.h"
#include "wqe.h"

#define AGG_QPN_MIN	0x11
#define AGG_QPN_MAX	0xfffffe	/* 0xffffff is multicast */

/*
 * References and events
 */

/**
 * agg_qp_get() - find a QP by number
 * @dev: the device
 * @qpn: agg QP number
 *
 * Context: process. Return: the QP with a reference, or NULL.
 */
struct agg_qp *agg_qp_get(struct agg_dev *dev, u32 qpn)
{
	struct agg_qp *qp;

	/* The lock, not RCU: the core frees a QP without a grace period. */
	xa_lock(&dev->qps);
	qp = xa_load(&dev->qps, qpn);
	if (qp && !refcount_inc_not_zero(&qp->ref))
		qp = NULL;
	xa_unlock(&dev->qps);
	return qp;
}

/**
 * agg_qp_put() - drop a reference
 * @qp: the QP
 *
 * Context: any.
 */
void agg_qp_put(struct agg_qp *qp)
{
	if (refcount_dec_and_test(&qp->ref))
		complete(&qp->released);
}

/**
 * agg_qp_event() - raise an asynchronous event of the QP
 * @qp: the QP
 * @type: which
 *
 * Context: any.
 */
void agg_qp_event(struct agg_qp *qp, enum ib_event_type type)
{
	struct ib_event ev = {
		.device = &qp->dev->ibdev,
		.element.qp = &qp->ibqp,
		.event = type,
	};

	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&ev, qp->ibqp.qp_context);
}

/* Work items hold no reference: destroy_qp cancels them once @dead is set. */
static void agg_qp_queue(struct agg_qp *qp, struct workqueue_struct *wq, struct work_struct *work)
{
	if (!READ_ONCE(qp->dead))
		queue_work(wq, work);
}

/**
 * agg_qp_kick() - let both engines go on, in process context
 * @qp: the QP
 *
 * Context: any.
 */
void agg_qp_kick(struct agg_qp *qp)
{
	agg_qp_queue(qp, agg_hi_wq, &qp->kick_work);
}

/**
 * agg_qp_retry() - as agg_qp_kick(), a little later: memory was short
 * @qp: the QP
 *
 * Context: any.
 */
void agg_qp_retry(struct agg_qp *qp)
{
	if (!READ_ONCE(qp->dead))
		queue_delayed_work(agg_wq, &qp->retry_work, msecs_to_jiffies(20));
}

static void agg_qp_retry_work(struct work_struct *work)
{
	struct agg_qp *qp = container_of(to_delayed_work(work), struct agg_qp, retry_work);

	agg_sq_run(qp);
}

static void agg_qp_kick_work(struct work_struct *work)
{
	struct agg_qp *qp = container_of(work, struct agg_qp, kick_work);

	agg_sq_run(qp);
	agg_rq_run(qp);
}

/**
 * agg_qp_fail() - the QP must go to the error state
 * @qp: the QP
 *
 * Context: any; the engines stop at once, the rest follows in a work item.
 */
void agg_qp_fail(struct agg_qp *qp)
{
	if (!test_and_set_bit(AGG_QPF_ERROR, &qp->flags) || READ_ONCE(qp->events))
		agg_qp_queue(qp, agg_wq, &qp->err_work);
}

/**
 * agg_qp_fatal() - as agg_qp_fail(), and the application gets IB_EVENT_QP_FATAL
 * @qp: the QP
 *
 * Context: any.
 */
void agg_qp_fatal(struct agg_qp *qp)
{
	set_bit(IB_EVENT_QP_FATAL, &qp->events);
	agg_qp_fail(qp);
}

/*
 * Receive-ring trap
 */

/**
 * agg_qp_want_trap() - the lane has no receive and the ring is empty
 * @qp: the QP
 *
 * Context: any. Arming sleeps, so a work item does it.
 */
void agg_qp_want_trap(struct agg_qp *qp)
{
	agg_qp_queue(qp, agg_hi_wq, &qp->trap_work);
}

/**
 * agg_qp_ring_trapped() - the application touched the trapped ring
 * @qp: the QP
 *
 * Context: page fault of the application, ring->trap_lock is held.
 */
void agg_qp_ring_trapped(struct agg_qp *qp)
{
	agg_qp_queue(qp, agg_hi_wq, &qp->trap_work);
}

/*
 * Before arming, look a few times. An application posts the next receive soon
 * after it has seen a completion, and the first touch of a trapped ring is the
 * element, with the index a moment behind: arming at once would make a storm
 * of faults. The last look, after arming, catches a post that slipped in.
 */
static void agg_qp_trap_work(struct work_struct *work)
{
	struct agg_qp *qp = container_of(work, struct agg_qp, trap_work);
	int i;

	for (i = 0; i < 5; i++) {
		if (agg_rq_wants_look(qp))
			goto run;
		if (READ_ONCE(qp->dead))
			return;
		usleep_range(10, 30);
	}
	if (!agg_ring_arm(qp->rq.ring) || !agg_rq_wants_look(qp))
		return;
run:
	agg_rq_run(qp);
}

/*
 * States
 */

static void agg_qp_set_state(struct agg_qp *qp, enum ib_qp_state state, unsigned long caller)
{
	enum ib_qp_state from = qp->state;

	lockdep_assert_held(&qp->mutex);

	agg_qp_lock_queues(qp);
	WRITE_ONCE(qp->state, state);
	agg_qp_unlock_queues(qp);

	if (from != state) {
		trace_agg_qp_state(qp, from, state, caller);
		agg_nl_qp_event(qp);
	}
}

/*
 * Stop, and have everything flushed: first what is on the lane, by the lane,
 * then what is in the rings. Returns without waiting for it.
 */
static void agg_qp_to_err(struct agg_qp *qp)
{
	lockdep_assert_held(&qp->mutex);

	set_bit(AGG_QPF_ERROR, &qp->flags);
	if (qp->state != IB_QPS_ERR) {
		if (qp->state != IB_QPS_RESET)
			agg_count(qp->dev, QP_FATAL);
		agg_qp_set_state(qp, IB_QPS_ERR, _RET_IP_);
	}
	if (qp->lqp)
		agg_lqp_error(qp->lqp);
	agg_sq_run(qp);
	agg_rq_run(qp);
	wake_up_all(&qp->attach_wait);
}

/**
 * agg_dev_each_qp() - call for each QP of a device, with its mutex held
 * @dev: the device
 * @call: may sleep
 * @arg: for it
 *
 * QPs that are made meanwhile may be left out.
 *
 * Context: process; no lock of ours is held.
 */
void agg_dev_each_qp(struct agg_dev *dev, void (*call)(struct agg_qp *qp, void *arg), void *arg)
{
	struct agg_qp *qp;
	unsigned long qpn;

	/* As agg_qp_get(); the walk goes by number, so it stands the gaps. */
	xa_lock(&dev->qps);
	xa_for_each(&dev->qps, qpn, qp) {
		if (!refcount_inc_not_zero(&qp->ref))
			continue;
		xa_unlock(&dev->qps);
		mutex_lock(&qp->mutex);
		call(qp, arg);
		mutex_unlock(&qp->mutex);
		agg_qp_put(qp);
		cond_resched();
		xa_lock(&dev->qps);
	}
	xa_unlock(&dev->qps);
}

static void agg_qp_dev_goes(struct agg_qp *qp, void *arg)
{
	if (!qp->dead && qp->state >= IB_QPS_RTR)
		agg_qp_to_err(qp);
}

/**
 * agg_dev_fail_qps() - the device is going: move all its QPs to ERR
 * @dev: the device
 *
 * Context: process; no lock of ours is held.
 */
void agg_dev_fail_qps(struct agg_dev *dev)
{
	agg_dev_each_qp(dev, agg_qp_dev_goes, NULL);
}

static void agg_qp_err_work(struct work_struct *work)
{
	struct agg_qp *qp = container_of(work, struct agg_qp, err_work);
	unsigned long events;
	unsigned int i;

	mutex_lock(&qp->mutex);
	/* It may have been reset meanwhile. */
	if (test_bit(AGG_QPF_ERROR, &qp->flags) && !qp->dead)
		agg_qp_to_err(qp);
	mutex_unlock(&qp->mutex);

	events = xchg(&qp->events, 0);
	for_each_set_bit(i, &events, BITS_PER_LONG)
		agg_qp_event(qp, i);
}

/* Forget everything: rings are emptied without completions. */
static void agg_qp_to_reset(struct agg_qp *qp)
{
	u32 prod, i;

	lockdep_assert_held(&qp->mutex);

	set_bit(AGG_QPF_DISCARD, &qp->flags);
	agg_qp_set_state(qp, IB_QPS_RESET, _RET_IP_);
	agg_qp_detach(qp);

	spin_lock_irq(&qp->sq.lock);
	prod = agg_ring_producer(qp->sq.ring);
	qp->sq.issue = prod;
	qp->sq.cons = prod;
	qp->sq.block = AGG_SQ_RUN;
	qp->sq.reads = 0;
	qp->sq.psn = 0;
	qp->sq.psn_cons = 0;
	qp->sq.takes = 0;
	qp->sq.replay_left = 0;
	qp->sq.draining = false;
	for (i = 0; i <= qp->sq.ring->mask; i++)
		qp->sq.slots[i].done = false;
	qp->sq.rnr_exceeded = false;
	WRITE_ONCE(qp->sq.ring->buf->consumer_index, prod);
	spin_unlock_irq(&qp->sq.lock);

	spin_lock_irq(&qp->rq.lock);
	prod = agg_ring_producer(qp->rq.ring);
	qp->rq.fwd = prod;
	qp->rq.cons = prod;
	qp->rq.dry_since = 0;
	WRITE_ONCE(qp->rq.ring->buf->consumer_index, prod);
	spin_unlock_irq(&qp->rq.lock);

	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->cookie = get_random_u64();
	qp->node = numa_node_id();
	clear_bit(AGG_QPF_RNR_WATCH, &qp->flags);
	clear_bit(AGG_QPF_ERROR, &qp->flags);
	clear_bit(AGG_QPF_DISCARD, &qp->flags);
	qp->events = 0;
}

static void agg_qp_store_attr(struct agg_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	struct ib_qp_attr *to = &qp->attr;

	if (mask & IB_QP_ACCESS_FLAGS)
		to->qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_PKEY_INDEX)
		to->pkey_index = attr->pkey_index;
	if (mask & IB_QP_PORT)
		to->port_num = attr->port_num;
	if (mask & IB_QP_QKEY)
		to->qkey = attr->qkey;
	if (mask & IB_QP_AV) {
		to->ah_attr = attr->ah_attr;
		/* Its reference is the caller's. */
		to->ah_attr.grh.sgid_attr = NULL;
	}
	if (mask & IB_QP_PATH_MTU)
		to->path_mtu = attr->path_mtu;
	if (mask & IB_QP_TIMEOUT)
		to->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		to->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		to->rnr_retry = attr->rnr_retry;
	if (mask & IB_QP_RQ_PSN)
		to->rq_psn = attr->rq_psn & 0xffffff;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_ALT_PATH) {
		to->alt_ah_attr = attr->alt_ah_attr;
		to->alt_ah_attr.grh.sgid_attr = NULL;
		to->alt_port_num = attr->alt_port_num;
		to->alt_pkey_index = attr->alt_pkey_index;
		to->alt_timeout = attr->alt_timeout;
	}
	if (mask & IB_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IB_QP_SQ_PSN)
		to->sq_psn = attr->sq_psn & 0xffffff;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_PATH_MIG_STATE)
		to->path_mig_state = attr->path_mig_state;
	if (mask & IB_QP_DEST_QPN)
		to->dest_qp_num = attr->dest_qp_num;
	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = attr->en_sqd_async_notify;
}

static int agg_qp_check_attr(struct agg_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	const struct ib_device_attr *dev = &qp->dev->attr;

	if ((mask & IB_QP_PORT) && attr->port_num != 1)
		return -EINVAL;
	if ((mask & IB_QP_PKEY_INDEX) && attr->pkey_index)
		return -EINVAL;
	if ((mask & IB_QP_ACCESS_FLAGS) &&
	    (attr->qp_access_flags & ~(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
				       IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC)))
		return -EINVAL;
	if ((mask & IB_QP_AV) && !(rdma_ah_get_ah_flags(&attr->ah_attr) & IB_AH_GRH))
		return -EINVAL;
	if ((mask & IB_QP_PATH_MTU) &&
	    (attr->path_mtu < IB_MTU_256 || attr->path_mtu > IB_MTU_4096))
		return -EINVAL;
	if ((mask & IB_QP_TIMEOUT) && attr->timeout > 31)
		return -EINVAL;
	if ((mask & IB_QP_RETRY_CNT) && attr->retry_cnt > 7)
		return -EINVAL;
	if ((mask & IB_QP_RNR_RETRY) && attr->rnr_retry > 7)
		return -EINVAL;
	if ((mask & IB_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31)
		return -EINVAL;
	if ((mask & IB_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > dev->max_qp_rd_atom)
		return -EINVAL;
	if ((mask & IB_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > dev->max_qp_rd_atom)
		return -EINVAL;
	if ((mask & IB_QP_CAP))
		return -EINVAL;
	return 0;
}

/*
 * The first path cannot be connected, perhaps since its lane went down this
 * moment: see whether another can within connect_timeout. If not, it is a matter
 * of cabling or addresses, and the application shall know.
 */
static int agg_qp_await_path(struct agg_qp *qp, int err)
{
	unsigned int timeout = READ_ONCE(qp->dev->params.connect_timeout_ms);

	lockdep_assert_held(&qp->mutex);

	pr_info_ratelimited("rdma_agg: %s: qpn %#x: lane %s/%u does not reach %pI6c (%d)\n",
			    dev_name(&qp->dev->ibdev.dev), qp->ibqp.qp_num,
			    qp->lqp->lane->ibdev_name, qp->lqp->lane->port,
			    qp->lqp->peer_gid.raw, err);
	agg_fo_not_connected(qp);
	mutex_unlock(&qp->mutex);
	wait_event_timeout(qp->attach_wait, !agg_fo_failing(qp) || agg_qp_ending(qp),
			   msecs_to_jiffies(timeout));
	mutex_lock(&qp->mutex);
	return agg_fo_failing(qp) || agg_qp_ending(qp) ? err : 0;
}

/* INIT -> RTR; qp->mutex is held, and given up while the peer is awaited. */
static int agg_qp_to_rtr(struct agg_qp *qp, const struct ib_qp_attr *attr)
{
	int err;

	lockdep_assert_held(&qp->mutex);

	err = agg_qp_attach(qp, &attr->ah_attr.grh.sgid_attr->gid,
			    &rdma_ah_read_grh(&attr->ah_attr)->dgid, attr->dest_qp_num);
	if (err)
		return err;

	agg_qp_set_state(qp, IB_QPS_RTR, _RET_IP_);
	/* If the path has failed already, the next one gets the state. */
	if (agg_fo_failing(qp))
		return 0;
	err = agg_qp_learn_poison(qp);
	if (!err)
		err = agg_lqp_rtr(qp->lqp);
	if (err)
		err = agg_qp_await_path(qp, err);
	if (err) {
		if (!agg_qp_ending(qp))
			agg_qp_set_state(qp, IB_QPS_INIT, _RET_IP_);
		agg_qp_detach(qp);
	}
	return err;
}

static int agg_qp_to_rts(struct agg_qp *qp, enum ib_qp_state cur, int mask)
{
	int err;

	if (qp->attr.rnr_retry < 7)
		set_bit(AGG_QPF_RNR_WATCH, &qp->flags);
	else
		clear_bit(AGG_QPF_RNR_WATCH, &qp->flags);

	if (agg_fo_failing(qp))
		err = 0;
	else if (cur == IB_QPS_RTR)
		err = agg_lqp_rts(qp->lqp, mask);
	else
		err = agg_lqp_update(qp->lqp, mask);
	if (err)
		return err;
	agg_qp_set_state(qp, IB_QPS_RTS, _RET_IP_);
	return 0;
}

/**
 * agg_qp_sqd_done() - the send queue of a QP in SQD is drained
 * @qp: the QP
 *
 * Context: any.
 */
void agg_qp_sqd_done(struct agg_qp *qp)
{
	if (READ_ONCE(qp->attr.en_sqd_async_notify))
		agg_qp_event(qp, IB_EVENT_SQ_DRAINED);
}

static void agg_qp_to_sqd(struct agg_qp *qp)
{
	spin_lock_irq(&qp->sq.lock);
	qp->sq.draining = true;
	spin_unlock_irq(&qp->sq.lock);
	agg_qp_set_state(qp, IB_QPS_SQD, _RET_IP_);
	/* Perhaps it is drained already; agg_modify_qp() runs the engine. */
}

static int agg_qp_move(struct agg_qp *qp, enum ib_qp_state cur, enum ib_qp_state new,
		       const struct ib_qp_attr *attr, int mask)
{
	switch (new) {
	case IB_QPS_RESET:
		agg_qp_to_reset(qp);
		return 0;
	case IB_QPS_INIT:
		agg_qp_set_state(qp, IB_QPS_INIT, _RET_IP_);
		return 0;
	case IB_QPS_RTR:
		return agg_qp_to_rtr(qp, attr);
	case IB_QPS_RTS:
		return agg_qp_to_rts(qp, cur, mask);
	case IB_QPS_SQD:
		if (cur == IB_QPS_SQD)
			return agg_fo_failing(qp) ? 0 : agg_lqp_update(qp->lqp, mask);
		agg_qp_to_sqd(qp);
		return 0;
	case IB_QPS_ERR:
		agg_qp_to_err(qp);
		return 0;
	default:
		return -EINVAL;
	}
}

/**
 * agg_modify_qp() - ops.modify_qp
 * @ibqp: the QP
 * @attr: new attributes
 * @mask: which
 * @udata: not used
 *
 * INIT to RTR agrees with the peer's module on the lanes, within
 * connect_timeout.
 *
 * Context: process. Return: 0 or -errno; for RTR those of agg_peer_connect(),
 * -ENOENT: the peer has no such QP, -EADDRINUSE: it talks to another one,
 * -ENETUNREACH: no lane in common.
 */
int agg_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct agg_qp *qp = to_aqp(ibqp);
	enum ib_qp_state cur, new;
	struct ib_qp_attr old;
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;

	mutex_lock(&qp->modify_lock);
	mutex_lock(&qp->mutex);

	if (test_bit(AGG_QPF_ERROR, &qp->flags) && qp->state != IB_QPS_ERR)
		agg_qp_to_err(qp);
	cur = qp->state;
	new = mask & IB_QP_STATE ? attr->qp_state : cur;
	err = -EINVAL;
	if ((mask & IB_QP_CUR_STATE) && attr->cur_qp_state != cur)
		goto out;
	if (!ib_modify_qp_is_ok(cur, new, IB_QPT_RC, mask))
		goto out;
	/* While the send queue drains there is no way out but these two. */
	if (cur == IB_QPS_SQD && new != IB_QPS_ERR && new != IB_QPS_RESET && !agg_sq_idle(qp))
		goto out;
	err = agg_qp_check_attr(qp, attr, mask);
	if (err)
		goto out;

	old = qp->attr;
	agg_qp_store_attr(qp, attr, mask);
	err = agg_qp_move(qp, cur, new, attr, mask);
	if (err)
		qp->attr = old;
out:
	mutex_unlock(&qp->mutex);
	mutex_unlock(&qp->modify_lock);
	if (!err) {
		agg_sq_run(qp);
		agg_rq_run(qp);
	}
	return err;
}

/*
 * As responder a lane QP can fail without a word, if it has no receive that
 * would be flushed. Ask it.
 */
static void agg_qp_check_lane(struct agg_qp *qp)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	lockdep_assert_held(&qp->mutex);

	if (!qp->lqp || qp->lqp->stopped || qp->lqp->state < IB_QPS_RTR)
		return;
	if (!ib_query_qp(qp->lqp->ibqp, &attr, IB_QP_STATE, &init) && attr.qp_state == IB_QPS_ERR)
		agg_qp_path_failed(qp->lqp, AGG_CAUSE_LANE_FAULT);
}

/**
 * agg_query_qp() - ops.query_qp
 * @ibqp: the QP
 * @attr: filled
 * @mask: all are filled
 * @init: filled
 *
 * PSNs are the application's own; those on the lanes differ.
 *
 * Context: process. Return: 0.
 */
int agg_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init)
{
	struct agg_qp *qp = to_aqp(ibqp);

	mutex_lock(&qp->mutex);
	agg_qp_check_lane(qp);
	*attr = qp->attr;
	attr->qp_state = test_bit(AGG_QPF_ERROR, &qp->flags) ? IB_QPS_ERR : qp->state;
	attr->cur_qp_state = attr->qp_state;
	attr->cap = qp->cap;
	if (attr->qp_state == IB_QPS_SQD)
		attr->sq_draining = !agg_sq_idle(qp);
	mutex_unlock(&qp->mutex);

	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->cap = qp->cap;
	init->sq_sig_type = qp->sq.sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->qp_type = ibqp->qp_type;
	init->port_num = 1;
	return 0;
}

/*
 * A finite rnr_retry
 */

/* Encoding of min_rnr_timer in units of 10 us (IBA table 45). */
static u32 agg_rnr_usec(u8 timer)
{
	static const u16 tens[32] = {
		65535, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
		1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return tens[timer & 31] * 10;
}

/*
 * On the lane a SEND that meets no receive is retried for ever. An
 * application that wants an error gets it after the grace time plus the time
 * its own retries would have taken at the peer's pace.
 */
static unsigned long agg_qp_rnr_jiffies(const struct agg_qp *qp)
{
	u32 us = (qp->attr.rnr_retry + 1) * agg_rnr_usec(READ_ONCE(qp->peer_rnr_timer));

	return msecs_to_jiffies(READ_ONCE(qp->dev->params.rnr_grace_ms)) + usecs_to_jiffies(us) + 1;
}

/**
 * agg_qp_watch_rnr() - watch that SENDs meet receives
 * @qp: a QP with finite rnr_retry that was given something to send
 *
 * Context: any.
 */
void agg_qp_watch_rnr(struct agg_qp *qp)
{
	if (!READ_ONCE(qp->dead) && !delayed_work_pending(&qp->rnr_work))
		queue_delayed_work(agg_wq, &qp->rnr_work, agg_qp_rnr_jiffies(qp));
}

static void agg_qp_rnr_work(struct work_struct *work)
{
	struct agg_qp *qp = container_of(to_delayed_work(work), struct agg_qp, rnr_work);
	struct agg_sq *sq = &qp->sq;
	bool busy, stuck, exceeded = false;
	u32 cons;

	spin_lock_irq(&sq->lock);
	cons = sq->cons;
	busy = qp->state == IB_QPS_RTS && !agg_sq_idle(qp);
	/* Without a path it is no receive that is missing. */
	stuck = busy && cons != sq->issue && !test_bit(AGG_QPF_PATH, &qp->flags) &&
		cons == sq->watch_cons &&
		agg_opcode_takes_receive(sq->slots[cons & sq->ring->mask].opcode);
	sq->watch_cons = cons;
	spin_unlock_irq(&sq->lock);
	if (!busy)
		return;

	/* It may be lost, or late: only the peer knows that it has no receive. */
	if (stuck && agg_qp_peer_is_dry(qp)) {
		spin_lock_irq(&sq->lock);
		if (sq->cons == cons && sq->cons != sq->issue && qp->state == IB_QPS_RTS &&
		    !test_bit(AGG_QPF_PATH, &qp->flags)) {
			sq->rnr_index = cons;
			sq->rnr_exceeded = true;
			exceeded = true;
			/* Under the lock: a reset must not come in between. */
			agg_qp_fail(qp);
		}
		spin_unlock_irq(&sq->lock);
	}
	if (exceeded) {
		agg_count(qp->dev, RNR_EXCEEDED);
		return;
	}
	agg_qp_watch_rnr(qp);
}

/*
 * Creation and removal
 */

static int agg_qp_check_init(struct agg_dev *dev, const struct ib_qp_init_attr *init)
{
	const struct ib_qp_cap *cap = &init->cap;

	if (init->qp_type != IB_QPT_RC)
		return -EOPNOTSUPP;
	if (init->create_flags || init->srq)
		return -EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	if (cap->max_send_wr > dev->attr.max_qp_wr || cap->max_recv_wr > dev->attr.max_qp_wr ||
	    cap->max_send_sge > dev->attr.max_send_sge ||
	    cap->max_recv_sge > dev->attr.max_recv_sge || cap->max_inline_data > AGG_MAX_INLINE)
		return -EINVAL;
	return 0;
}

/* The two rings, their slots, and what the provider is told of them. */
static int agg_qp_init_rings(struct agg_qp *qp, struct ib_qp_init_attr *init,
			     struct ib_ucontext *uctx, struct ib_udata *udata)
{
	struct rxe_create_qp_resp resp = {};
	struct agg_dev *dev = qp->dev;
	struct ib_qp_cap *cap = &init->cap;
	u32 bytes;
	int err;

	/* One space in the element serves the scatter list and inline data. */
	bytes = max_t(u32, cap->max_send_sge * sizeof(struct rxe_sge), cap->max_inline_data);
	bytes = round_up(bytes, sizeof(struct rxe_sge));
	qp->sq.max_sge = bytes / sizeof(struct rxe_sge);
	qp->sq.max_inline = bytes;
	qp->sq.ring = agg_ring_create(dev, uctx, cap->max_send_wr,
				      sizeof(struct rxe_send_wqe) + bytes);
	if (IS_ERR(qp->sq.ring)) {
		err = PTR_ERR(qp->sq.ring);
		qp->sq.ring = NULL;
		return err;
	}

	qp->rq.max_sge = cap->max_recv_sge;
	qp->rq.ring = agg_ring_create(dev, uctx, cap->max_recv_wr,
				      sizeof(struct rxe_recv_wqe) +
				      cap->max_recv_sge * sizeof(struct rxe_sge));
	if (IS_ERR(qp->rq.ring)) {
		err = PTR_ERR(qp->rq.ring);
		qp->rq.ring = NULL;
		return err;
	}

	qp->sq.slots = kvcalloc(qp->sq.ring->mask + 1, sizeof(*qp->sq.slots), GFP_KERNEL);
	qp->rq.slots = kvcalloc(qp->rq.ring->mask + 1, sizeof(*qp->rq.slots), GFP_KERNEL);
	if (!qp->sq.slots || !qp->rq.slots)
		return -ENOMEM;

	cap->max_send_wr = qp->sq.ring->mask;
	cap->max_recv_wr = qp->rq.ring->mask;
	cap->max_send_sge = qp->sq.max_sge;
	cap->max_inline_data = qp->sq.max_inline;
	qp->cap = *cap;

	agg_ring_info(qp->sq.ring, &resp.sq_mi);
	agg_ring_info(qp->rq.ring, &resp.rq_mi);
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

static void agg_qp_free_rings(struct agg_qp *qp)
{
	agg_ring_unpublish(qp->sq.ring);
	agg_ring_unpublish(qp->rq.ring);
	kvfree(qp->sq.slots);
	kvfree(qp->rq.slots);
}

/**
 * agg_create_qp() - ops.create_qp
 * @ibqp: allocated by the core
 * @init: attributes; capabilities are set to what is there
 * @udata: user data; kernel users are not supported yet
 *
 * Nothing is created on a lane until the peer is known.
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int agg_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct agg_dev *dev = to_adev(ibqp->device);
	struct agg_ucontext *uctx;
	struct agg_qp *qp = to_aqp(ibqp);
	unsigned long irq;
	u32 qpn;
	int err;

	if (!udata)
		return -EOPNOTSUPP;
	err = agg_qp_check_init(dev, init);
	if (err)
		return err;
	if (udata->inlen || udata->outlen < sizeof(struct rxe_create_qp_resp))
		return -EINVAL;
	uctx = rdma_udata_to_drv_context(udata, struct agg_ucontext, ibuc);

	qp->dev = dev;
	qp->pd = to_apd(ibqp->pd);
	qp->scq = to_acq(init->send_cq);
	qp->rcq = to_acq(init->recv_cq);
	refcount_set(&qp->ref, 1);
	init_completion(&qp->released);
	qp->cookie = get_random_u64();
	mutex_init(&qp->modify_lock);
	mutex_init(&qp->mutex);
	qp->state = IB_QPS_RESET;
	init_waitqueue_head(&qp->attach_wait);
	spin_lock_init(&qp->sq.lock);
	spin_lock_init(&qp->rq.lock);
	qp->sq.sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	INIT_WORK(&qp->kick_work, agg_qp_kick_work);
	INIT_WORK(&qp->trap_work, agg_qp_trap_work);
	INIT_WORK(&qp->err_work, agg_qp_err_work);
	INIT_DELAYED_WORK(&qp->rnr_work, agg_qp_rnr_work);
	INIT_DELAYED_WORK(&qp->retry_work, agg_qp_retry_work);
	agg_fo_init(qp);
	qp->created = ktime_get_real_ns();

	err = agg_qp_init_rings(qp, init, &uctx->ibuc, udata);
	if (err)
		goto err_rings;

	/* The only place that chooses QP numbers. */
	err = xa_alloc_cyclic(&dev->qps, &qpn, NULL, XA_LIMIT(AGG_QPN_MIN, AGG_QPN_MAX),
			      &dev->next_qpn, GFP_KERNEL);
	if (err < 0) {
		err = -ENOMEM;
		goto err_rings;
	}
	ibqp->qp_num = qpn;

	agg_ring_settrap(qp->rq.ring, qp);
	spin_lock_irqsave(&qp->rcq->lock, irq);
	list_add_tail(&qp->rcq_node, &qp->rcq->qps);
	spin_unlock_irqrestore(&qp->rcq->lock, irq);

	/* Publish last; the slot is reserved, so this cannot fail. */
	xa_store(&dev->qps, qpn, qp, GFP_KERNEL);
	return 0;

err_rings:
	agg_qp_free_rings(qp);
	return err;
}

/**
 * agg_destroy_qp() - ops.destroy_qp
 * @ibqp: the QP
 * @udata: not used
 *
 * Context: sleeps until the lane has flushed. Return: 0.
 */
int agg_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct agg_qp *qp = to_aqp(ibqp);
	struct agg_dev *dev = qp->dev;
	unsigned long irq;
	int i;

	mutex_lock(&qp->mutex);
	/* No ATTACH gets anything out of it from now on. */
	WRITE_ONCE(qp->dead, true);
	set_bit(AGG_QPF_DISCARD, &qp->flags);
	set_bit(AGG_QPF_ERROR, &qp->flags);
	agg_qp_detach(qp);
	mutex_unlock(&qp->mutex);
	wake_up_all(&qp->attach_wait);

	/* Not before its tombstone is there (rule 19). */
	xa_erase(&dev->qps, ibqp->qp_num);

	/* No page fault wakes it any more. */
	agg_ring_settrap(qp->rq.ring, NULL);

	agg_qp_put(qp);
	wait_for_completion(&qp->released);

	/*
	 * Only the items themselves can still queue one another. After the
	 * first round all that began before @dead was set have ended.
	 */
	for (i = 0; i < 2; i++) {
		cancel_delayed_work_sync(&qp->rnr_work);
		cancel_delayed_work_sync(&qp->retry_work);
		cancel_work_sync(&qp->kick_work);
		cancel_work_sync(&qp->trap_work);
		cancel_work_sync(&qp->err_work);
		agg_fo_cancel(qp);
	}

	spin_lock_irqsave(&qp->rcq->lock, irq);
	list_del(&qp->rcq_node);
	spin_unlock_irqrestore(&qp->rcq->lock, irq);

	agg_qp_free_rings(qp);
	return 0;
}
