// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Path failover: when the path of a QP fails, find out with the peer what was
 * executed on it, and go on by another one. Documentation/failover.rst has the
 * rules; their numbers stand here where each is kept. What may follow what is
 * decided in fence.c.
 *
 * INVARIANTS
 *  - AGG_QPF_PATH is set by whoever sees the failure, anywhere; both engines
 *    stop at once, and the work item does the rest. It is cleared, under
 *    qp->mutex, when the next path is connected.
 *  - The lane QP becomes quiet, its state is frozen and qp->lqp is cleared in
 *    one go under qp->mutex: nobody sees a lane QP between ERR and quiet.
 *  - qp->mutex is not held while the peer is asked. After each question it is
 *    checked, by cookie and epoch, that the answer is still wanted.
 *  - An error of the application wins: once AGG_QPF_ERROR is set no path is
 *    looked for, but FENCEs of the peer are answered, so that it learns what of
 *    its own was executed.
 *
 * Requests of a QP without a path stay in the application's ring. They wait for
 * failover_timeout; receives wait for ever, as on a NIC whose cable is out.
 */
#include "failover.h"
#include "session.h"
#include "trace.h"

#define AGG_TIME_WAIT_MS	2000	/* old packets live no longer */
#define AGG_FO_CALL_MS		1000	/* for one question to the peer */
#define AGG_FO_RETRY_MS		20	/* first pause between two tries, doubled */
#define AGG_FO_RETRY_MAX_MS	1000
#define AGG_FO_HOLD_MS		300	/* a READY is lost, not late */
#define AGG_FO_BLAME_LANE	3	/* local faults of lanes until it is the request's */
#define AGG_FO_BLAME_RETRY	8	/* paths that died with the same request */

static const char * const agg_cause_names[] = {
	[AGG_CAUSE_NONE]	= "none",
	[AGG_CAUSE_RETRY]	= "retries exhausted",
	[AGG_CAUSE_LANE_FAULT]	= "lane fault",
	[AGG_CAUSE_LANE_DOWN]	= "lane down",
	[AGG_CAUSE_LANE_GONE]	= "lane removed",
	[AGG_CAUSE_PEER]	= "peer",
	[AGG_CAUSE_CONNECT]	= "not connected",
	[AGG_CAUSE_MOVE]	= "moved",
	[AGG_CAUSE_PROBE]	= "probes not answered",
};

/**
 * agg_cause_name() - why a path was given up
 * @cause: the cause
 *
 * Context: any. Return: a static string.
 */
const char *agg_cause_name(enum agg_cause cause)
{
	return cause < ARRAY_SIZE(agg_cause_names) ? agg_cause_names[cause] : "?";
}

/*
 * Pace
 */

/* How long to wait before the next try. */
static unsigned int agg_fo_pause(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;

	fo->retry = clamp(fo->retry * 2, (unsigned long)AGG_FO_RETRY_MS,
			  (unsigned long)AGG_FO_RETRY_MAX_MS);
	return fo->retry;
}

/* Something has come through: the path works, and the next failure is another one. */
static void agg_fo_proven(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;

	fo->retry = 0;
	fo->lost_since = 0;
	fo->avoid = 0;
}

/*
 * Noticing
 */

/**
 * agg_fo_queue() - have the work item run
 * @qp: the QP
 * @ms: in how many ms; this replaces what was asked for before
 *
 * Context: any.
 */
void agg_fo_queue(struct agg_qp *qp, unsigned int ms)
{
	if (!READ_ONCE(qp->dead))
		mod_delayed_work(agg_fo_wq, &qp->fo.work, msecs_to_jiffies(ms));
}

/**
 * agg_fo_mark() - both engines stop at once; the path is to be given up
 * @qp: the QP
 * @cause: why
 *
 * Context: any; who calls sees to the rest. Return: false if it was marked before.
 */
bool agg_fo_mark(struct agg_qp *qp, enum agg_cause cause)
{
	if (test_and_set_bit(AGG_QPF_PATH, &qp->flags))
		return false;
	/* A work item that runs meanwhile takes the cause of the failure before. */
	WRITE_ONCE(qp->fo.cause, cause);
	qp->fo.since = ktime_get_ns();
	return true;
}

/**
 * agg_qp_path_failed() - the path is to be given up
 * @lqp: its lane QP; nothing happens if it is not the home path any more
 * @cause: why
 *
 * Context: any; the engines stop at once, the rest follows in a work item.
 */
void agg_qp_path_failed(struct agg_lqp *lqp, enum agg_cause cause)
{
	struct agg_qp *qp = lqp->qp;

	if (READ_ONCE(qp->lqp) != lqp || agg_qp_ending(qp))
		return;
	if (agg_fo_mark(qp, cause))
		agg_fo_queue(qp, 0);
}

/* The path is there; unless it, or its lane, died while the flag stood for what was. */
static void agg_fo_alive(struct agg_qp *qp)
{
	clear_bit(AGG_QPF_PATH, &qp->flags);
	/* The state of both after the flag: one of us sees the other. */
	smp_mb__after_atomic();
	if (!agg_lane_usable(READ_ONCE(qp->lqp->lane->state)))
		agg_qp_path_failed(qp->lqp, AGG_CAUSE_LANE_DOWN);
	else if (agg_probe_is_dead(qp->lqp->path))
		agg_qp_path_failed(qp->lqp, AGG_CAUSE_PROBE);
}

/**
 * agg_fo_not_connected() - our end of the first path could not be connected
 * @qp: the QP
 *
 * Context: process; qp->mutex is held.
 */
void agg_fo_not_connected(struct agg_qp *qp)
{
	lockdep_assert_held(&qp->mutex);

	qp->fo.avoid |= BIT(qp->lqp->lane->id);
	agg_qp_path_failed(qp->lqp, AGG_CAUSE_CONNECT);
}

/**
 * agg_fo_failing() - is the QP between two paths?
 * @qp: the QP
 *
 * Context: any; stable under qp->mutex only as long as the answer is yes.
 */
bool agg_fo_failing(const struct agg_qp *qp)
{
	return !READ_ONCE(qp->lqp) || test_bit(AGG_QPF_PATH, &qp->flags);
}

/**
 * agg_fo_kick_all() - something may have become reachable, or better
 * @dev: the device
 *
 * Context: process.
 */
void agg_fo_kick_all(struct agg_dev *dev)
{
	struct agg_qp *qp;
	unsigned long qpn;

	/* What is waited for, before who waits is called. */
	atomic_inc(&dev->reach_seq);
	xa_lock(&dev->qps);
	xa_for_each(&dev->qps, qpn, qp) {
		wake_up_all(&qp->attach_wait);
		if (!test_bit(AGG_QPF_PATH, &qp->flags))
			continue;
		WRITE_ONCE(qp->fo.retry, 0);
		agg_fo_queue(qp, 0);
	}
	xa_unlock(&dev->qps);
	agg_move_kick(dev);
}

/*
 * Endings
 */

/* No path will be had: what waits for one fails. */
static void agg_fo_lose(struct agg_qp *qp, const char *why)
{
	lockdep_assert_held(&qp->mutex);

	agg_count(qp->dev, FAILOVER_LOST);
	pr_info_ratelimited("rdma_agg: %s: qpn %#x: no path to %pI6c qpn %#x: %s\n",
			    dev_name(&qp->dev->ibdev.dev), qp->ibqp.qp_num, qp->dgid.raw,
			    qp->dqpn, why);
	trace_agg_qp_failover(qp, "lost", qp->fo.cause, -ETIMEDOUT);
	agg_sq_abandon(qp, IB_WC_RETRY_EXC_ERR);
	agg_qp_fail(qp);
}

/*
 * Rule 2: the peer is gone, or in error. As with a NIC nobody learns of it who
 * does not send. But where the peer's request has failed our lane QP, which is
 * why both are in error, that is what has failed our QP.
 */
static void agg_fo_over(struct agg_qp *qp, bool in_error)
{
	lockdep_assert_held(&qp->mutex);

	/* The send engine reads it; agg_sq_has_work() takes its lock after this. */
	WRITE_ONCE(qp->fo.fence.state, AGG_FENCE_OVER);
	trace_agg_qp_failover(qp, "over", qp->fo.cause, 0);

	if (in_error && qp->fo.cause == AGG_CAUSE_LANE_FAULT) {
		agg_qp_fail(qp);
	} else if (agg_sq_has_work(qp)) {
		agg_sq_abandon(qp, IB_WC_RETRY_EXC_ERR);
		agg_qp_fail(qp);
	}
}

/*
 * Quiet
 */

/**
 * agg_fo_quiesce() - the lane QP becomes quiet and leaves; what it has executed is kept
 * @qp: the QP; its path is marked as failed, or it ends
 *
 * Context: sleeps until the lane has flushed; qp->mutex is held.
 */
void agg_fo_quiesce(struct agg_qp *qp)
{
	struct agg_lqp *lqp = qp->lqp;
	u32 psn = 0, recvs = 0;
	int err = 0;

	lockdep_assert_held(&qp->mutex);

	agg_move_stop(qp);
	if (lqp) {
		err = agg_lqp_quiesce(lqp, &psn);
		recvs = lqp->recvs;
		if (psn || qp->sq.psn_cons)
			agg_fo_proven(qp);
		agg_sq_quiet(lqp);
		agg_rq_rewind(qp);
		qp->fo.failed_lane = lqp->lane->id;
		if (lqp->was_rtr)
			agg_lqp_retire(lqp);
		else
			agg_lqp_release(lqp);
	}
	if (agg_fence_quiet(&qp->fo.fence, psn, recvs))
		qp->fo.untold = err;
	/* Told to the peer, too: our lane may be the one that does not work. */
	if (qp->fo.cause == AGG_CAUSE_RETRY || qp->fo.cause == AGG_CAUSE_LANE_FAULT ||
	    qp->fo.cause == AGG_CAUSE_PROBE ||
	    (qp->fo.cause == AGG_CAUSE_PEER && qp->fo.fence.leader))
		qp->fo.avoid |= BIT(qp->fo.failed_lane);
	trace_agg_qp_failover(qp, "quiet", qp->fo.cause, err);
	if (err && !agg_qp_ending(qp)) {
		/* Rule 4: without a PSN nothing can be said of the peer's requests. */
		qp->fo.fence.state = AGG_FENCE_OVER;
		agg_fo_lose(qp, "the lane does not tell what it has executed");
	}
	if (agg_qp_ending(qp)) {
		agg_sq_run(qp);
		agg_rq_run(qp);
	}
}

/* Destroy the lane QPs whose time is up; returns ms until the next one's is, or 0. */
static unsigned int agg_fo_reap(struct agg_qp *qp)
{
	struct agg_lqp *lqp, *next;
	unsigned long now = jiffies;

	list_for_each_entry_safe(lqp, next, &qp->fo.old, old_node) {
		unsigned long end = lqp->retired + msecs_to_jiffies(AGG_TIME_WAIT_MS);

		if (time_before(now, end))
			return jiffies_to_msecs(end - now) + 1;
		agg_lqp_release(lqp);
	}
	return 0;
}

/**
 * agg_fo_lose_lane() - nothing of the QP stays on a lane that leaves
 * @qp: the QP
 * @lane: the lane
 *
 * Rule 6: the state is frozen before the lane QP is destroyed.
 *
 * Context: sleeps until the lane has flushed; qp->mutex is held.
 */
void agg_fo_lose_lane(struct agg_qp *qp, struct agg_lane *lane)
{
	struct agg_lqp *lqp = qp->lqp, *next;

	lockdep_assert_held(&qp->mutex);

	if (lqp && lqp->lane == lane) {
		switch (qp->fo.fence.state) {
		case AGG_FENCE_NONE:
			agg_qp_drop_attach(qp);
			break;
		case AGG_FENCE_OFFERED:
			/* Rule 14: the offer stands, though nothing is behind it. */
			agg_lqp_destroy(lqp);
			break;
		default:
			agg_fo_mark(qp, AGG_CAUSE_LANE_GONE);
			agg_fo_quiesce(qp);
			agg_fo_queue(qp, 0);
			break;
		}
	}
	list_for_each_entry_safe(lqp, next, &qp->fo.old, old_node)
		if (lqp->lane == lane)
			agg_lqp_release(lqp);
}

/*
 * Classification
 */

/*
 * A request that finds every lane at fault is at fault itself: soft-RoCE of
 * 6.12 does not say of a bad local address which request had it.
 */
static void agg_fo_blame(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;
	enum ib_wc_status status = IB_WC_RETRY_EXC_ERR;
	unsigned int limit = AGG_FO_BLAME_RETRY;
	struct agg_lane *lane;
	bool fine;

	if (fo->cause == AGG_CAUSE_LANE_FAULT) {
		limit = AGG_FO_BLAME_LANE;
		status = qp->sq.fault_status;
		if (!status || status == IB_WC_WR_FLUSH_ERR)
			status = IB_WC_LOC_QP_OP_ERR;
	} else if (fo->cause != AGG_CAUSE_RETRY) {
		return;
	}

	/* Only a lane that is well otherwise accuses anyone. */
	lane = agg_lane_get(qp->dev, fo->failed_lane);
	fine = lane && agg_lane_usable(READ_ONCE(lane->state));
	if (lane)
		agg_lane_put(lane);
	if (!fine || agg_sq_idle(qp))
		return;

	if (!fo->blame || fo->blame_at != qp->sq.cons) {
		fo->blame_at = qp->sq.cons;
		fo->blame = 0;
	}
	if (++fo->blame < limit)
		return;
	fo->blame = 0;
	agg_sq_abandon(qp, status);
	agg_qp_fail(qp);
}

static void agg_fo_classify(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;
	struct agg_resolved r = {};
	int err;

	lockdep_assert_held(&qp->mutex);

	if (agg_qp_ending(qp))
		return;
	err = agg_sq_resolve(qp, &fo->fence.peer, &r);
	fo->resolved += r.resolved;
	fo->replayed += r.replayed;
	atomic64_add(r.resolved, &qp->dev->cnt[AGG_CNT_RESOLVED]);
	atomic64_add(r.replayed, &qp->dev->cnt[AGG_CNT_REPLAYED]);
	trace_agg_qp_failover(qp, "known", fo->cause, err);

	switch (err) {
	case 0:
		agg_fo_blame(qp);
		break;
	case -EIO:
		/* Rule 11; the request has been reported. */
		agg_count(qp->dev, ATOMIC_LOST);
		pr_info_ratelimited("rdma_agg: %s: qpn %#x: the result of an atomic was lost with its path\n",
				    dev_name(&qp->dev->ibdev.dev), qp->ibqp.qp_num);
		agg_qp_fail(qp);
		break;
	default:
		pr_warn_ratelimited("rdma_agg: %s: qpn %#x: %pI6c says it has executed %u packets and %u receives, which cannot be\n",
				    dev_name(&qp->dev->ibdev.dev), qp->ibqp.qp_num, qp->dgid.raw,
				    fo->fence.peer.psn, fo->fence.peer.recvs);
		agg_fo_lose(qp, "the peer's state is not to be trusted");
		break;
	}
	agg_rq_run(qp);
}

/* A message of the peer carries its frozen state. */
static void agg_fo_learn(struct agg_qp *qp, const struct agg_wire_attach *m)
{
	struct agg_frozen peer = {
		.epoch = m->frozen_epoch,
		.psn = m->frozen_psn,
		.recvs = m->frozen_recvs,
	};

	if (!(m->flags & AGG_WIRE_ATTACH_FROZEN))
		return;
	qp->peer_lanes_ok = m->lanes_ok;
	switch (agg_fence_learn(&qp->fo.fence, &peer)) {
	case 1:
		qp->fo.poll_at = jiffies + HZ;
		agg_fo_classify(qp);
		break;
	case -1:
		agg_fo_lose(qp, "the peer contradicts itself");
		break;
	default:
		break;
	}
}

/*
 * The next path
 */

/*
 * Connect our end; the peer's is known. What fails here is the ordinary failure
 * of a path that is attached, but for a pause before the next one.
 */
static int agg_fo_connect(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;
	struct agg_lqp *lqp = qp->lqp;
	int err = 0;

	lockdep_assert_held(&qp->mutex);

	if (qp->state >= IB_QPS_RTR) {
		err = agg_qp_learn_poison(qp);
		if (!err)
			err = agg_lqp_rtr(lqp);
	}
	if (!err && qp->state >= IB_QPS_RTS)
		err = agg_lqp_rts(lqp, 0);
	if (!err && !agg_lane_usable(READ_ONCE(lqp->lane->state)))
		err = -ENETDOWN;

	fo->last_cause = fo->cause;
	fo->move_attempt = 0;
	trace_agg_qp_failover(qp, err ? "not connected" : "connected", fo->cause, err);
	if (err) {
		fo->cause = AGG_CAUSE_CONNECT;
		fo->avoid |= BIT(lqp->lane->id);
		return err;
	}
	if (fo->cause == AGG_CAUSE_MOVE) {
		agg_move_done(qp);
		goto out;
	}
	fo->failovers++;
	fo->last_us = min_t(u64, div_u64(ktime_get_ns() - fo->since, NSEC_PER_USEC), U32_MAX);
	fo->max_us = max(fo->max_us, fo->last_us);
	agg_count(qp->dev, FAILOVER);
out:
	agg_fo_alive(qp);
	wake_up_all(&qp->attach_wait);
	agg_nl_qp_event(qp);
	agg_rq_run(qp);
	agg_sq_run(qp);
	return 0;
}

/**
 * agg_fo_call() - ask the peer something
 * @qp: the QP; what follows must look at its state again
 * @req: the question
 * @resp: the answer
 *
 * Context: sleeps; qp->mutex is held, and given up meanwhile.
 * Return: 0; -ECANCELED: the QP has another peer, or ends; or as agg_peer_attach().
 */
int agg_fo_call(struct agg_qp *qp, struct agg_wire_attach *req, struct agg_wire_attach *resp)
{
	union ib_gid sgid = qp->sgid, dgid = qp->dgid;
	u64 cookie = qp->cookie, peer_cookie = qp->peer_cookie;
	struct agg_peer *peer;
	int err;

	lockdep_assert_held(&qp->mutex);

	mutex_unlock(&qp->mutex);
	/* Our own reference: qp->peer may change meanwhile. */
	peer = agg_peer_get(qp->dev, &sgid, &dgid);
	err = PTR_ERR_OR_ZERO(peer);
	if (!err) {
		err = agg_peer_connect(peer, AGG_FO_CALL_MS);
		if (!err)
			err = agg_peer_attach(peer, req, resp, AGG_FO_CALL_MS);
		agg_peer_put(peer);
	}
	mutex_lock(&qp->mutex);
	if (qp->dead || qp->cookie != cookie || qp->peer_cookie != peer_cookie || !qp->peer ||
	    agg_qp_ending(qp))
		return -ECANCELED;
	return err;
}

/* QUIET: tell the peer what we have executed and learn what it has. */
static int agg_fo_ask(struct agg_qp *qp)
{
	struct agg_fence *f = &qp->fo.fence;
	struct agg_wire_attach req, resp;
	u32 epoch = f->own.epoch;
	int err;

	lockdep_assert_held(&qp->mutex);

	agg_qp_fill(qp, AGG_WIRE_FENCE, &req);
	req.epoch = epoch;
	if (agg_qp_is_self(qp)) {
		agg_fo_learn(qp, &req);
		return 0;
	}
	err = agg_fo_call(qp, &req, &resp);
	/* Rule 9: it counts for this epoch, and if it was not learned otherwise. */
	if (err || f->own.epoch != epoch ||
	    (f->state != AGG_FENCE_QUIET && f->state != AGG_FENCE_KNOWN))
		return err;

	switch (resp.status) {
	case AGG_WIRE_OK:
		agg_fo_learn(qp, &resp);
		return f->state == AGG_FENCE_QUIET ? -EPROTO : 0;
	case AGG_WIRE_IN_ERROR:
		agg_fo_learn(qp, &resp);
		if (!agg_qp_ending(qp))
			agg_fo_over(qp, true);
		return 0;
	case AGG_WIRE_NO_QP:
	case AGG_WIRE_GONE:
		agg_fo_over(qp, false);
		return 0;
	default:
		return -EAGAIN;
	}
}

/* KNOWN, follower: the leader offers. But see now and then that it is there. */
static int agg_fo_await_offer(struct agg_qp *qp)
{
	if (time_before(jiffies, qp->fo.poll_at))
		return -EAGAIN;
	qp->fo.poll_at = jiffies + HZ;
	return agg_fo_ask(qp);
}

/* KNOWN, leader: choose a path and create our end of it. */
static int agg_fo_choose(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;
	unsigned long tried;
	int err;

	lockdep_assert_held(&qp->mutex);

	if (!fo->offer) {
		fo->offer = kmalloc(sizeof(*fo->offer), GFP_KERNEL);
		if (!fo->offer)
			return -ENOMEM;
	}
	tried = fo->avoid;
	err = agg_qp_lead_create(qp, qp->peer, &tried);
	if (err == -ENETUNREACH && fo->avoid) {
		/* There is nothing better than what has failed. */
		tried = 0;
		fo->avoid = 0;
		err = agg_qp_lead_create(qp, qp->peer, &tried);
	}
	if (err)
		return err;

	agg_fence_offer(&fo->fence);
	agg_qp_fill(qp, AGG_WIRE_OFFER, fo->offer);
	if (!agg_qp_is_self(qp))
		return 0;
	/* Nobody to ask; and another lane may have the same rail. */
	qp->lqp->peer_lane = qp->lqp->lane->id;
	agg_fence_attach(&fo->fence, fo->fence.epoch);
	agg_qp_paired(qp, fo->offer);
	return agg_fo_connect(qp);
}

/* The follower has everything; it posts when it hears this, or a little later. */
static void agg_fo_send_ready(struct agg_qp *qp)
{
	struct agg_wire_attach req, resp;

	agg_qp_fill(qp, AGG_WIRE_READY, &req);
	agg_fo_call(qp, &req, &resp);
}

/* OFFERED: repeat the offer as it is until the peer says something about it. */
static int agg_fo_propose(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;
	struct agg_fence *f = &fo->fence;
	struct agg_wire_attach req = *fo->offer, resp;
	u32 epoch = f->epoch;
	int err;

	lockdep_assert_held(&qp->mutex);

	err = agg_fo_call(qp, &req, &resp);
	if (err || f->epoch != epoch || f->state != AGG_FENCE_OFFERED)
		return err;

	switch (resp.status) {
	case AGG_WIRE_OK:
		agg_fence_attach(f, epoch);
		if (!qp->lqp) {
			/* Its lane has left: rule 14, finish and fence again. */
			fo->cause = AGG_CAUSE_LANE_GONE;
			return 0;
		}
		agg_qp_paired(qp, &resp);
		err = agg_fo_connect(qp);
		if (!err)
			agg_fo_send_ready(qp);
		return err;
	case AGG_WIRE_NO_LANE:
	case AGG_WIRE_BUSY:
	case AGG_WIRE_REFUSED:
		agg_fence_turned_down(f);
		if (!qp->lqp)
			return 0;
		fo->avoid |= BIT(qp->lqp->lane->id);
		agg_lqp_destroy(qp->lqp);
		return -ENETUNREACH;
	case AGG_WIRE_NO_QP:
	case AGG_WIRE_GONE:
	case AGG_WIRE_IN_ERROR:
		agg_fence_turned_down(f);
		if (qp->lqp)
			agg_lqp_destroy(qp->lqp);
		agg_fo_over(qp, resp.status == AGG_WIRE_IN_ERROR);
		return 0;
	default:
		return -EAGAIN;
	}
}

static bool agg_fo_expired(struct agg_qp *qp)
{
	unsigned int ms = READ_ONCE(qp->dev->params.failover_timeout_ms);
	struct agg_failover *fo = &qp->fo;

	if (!agg_sq_has_work(qp)) {
		fo->lost_since = 0;
		return false;
	}
	if (!fo->lost_since)
		fo->lost_since = jiffies | 1;
	return time_after_eq(jiffies, fo->lost_since + msecs_to_jiffies(ms));
}

/* LIVE: the peer said that it is ready, or has forgotten to. */
static void agg_fo_unhold(struct agg_qp *qp)
{
	struct agg_lqp *lqp = qp->lqp;

	lockdep_assert_held(&qp->mutex);

	if (!lqp || !lqp->hold || qp->fo.moving)
		return;
	agg_qp_lock_queues(qp);
	lqp->hold = false;
	agg_qp_unlock_queues(qp);
	agg_sq_run(qp);
}

/* LIVE and well: ms until READY is taken as lost, or 0. */
static unsigned int agg_fo_rest(struct agg_qp *qp)
{
	unsigned long now = jiffies;

	if (!qp->lqp || !qp->lqp->hold || qp->fo.moving)
		return 0;
	if (time_before(now, qp->fo.hold_until))
		return jiffies_to_msecs(qp->fo.hold_until - now) + 1;
	agg_fo_unhold(qp);
	return 0;
}

/* Go as far as possible. Returns after how many ms to try again; 0: somebody will call. */
static unsigned int agg_fo_step(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;
	int err;

	for (;;) {
		if (qp->dead || !qp->peer || agg_qp_ending(qp)) {
			agg_move_stop(qp);
			return 0;
		}

		err = 0;
		switch (fo->fence.state) {
		case AGG_FENCE_LIVE:
			if (test_bit(AGG_QPF_PATH, &qp->flags)) {
				agg_fo_quiesce(qp);
				break;
			}
			if (!fo->moving)
				return agg_fo_rest(qp);
			err = agg_move_step(qp);
			if (err > 0)
				return err;
			break;
		case AGG_FENCE_QUIET:
			err = agg_fo_ask(qp);
			break;
		case AGG_FENCE_KNOWN:
			err = fo->fence.leader ? agg_fo_choose(qp) : agg_fo_await_offer(qp);
			break;
		case AGG_FENCE_OFFERED:
			err = agg_fo_propose(qp);
			break;
		default:
			return 0;
		}
		if (!err)
			continue;
		if (err == -ECANCELED) {
			agg_move_stop(qp);
			return 0;
		}
		if (agg_fo_expired(qp)) {
			agg_fo_lose(qp, "failover_timeout is over");
			return 0;
		}
		return agg_fo_pause(qp);
	}
}

static void agg_fo_work(struct work_struct *work)
{
	struct agg_qp *qp = container_of(to_delayed_work(work), struct agg_qp, fo.work);
	unsigned int again, reap;

	mutex_lock(&qp->mutex);
	again = agg_fo_step(qp);
	reap = agg_fo_reap(qp);
	if (!again || (reap && reap < again))
		again = reap;
	/* A kick that came meanwhile has queued it already, and sooner. */
	if (again && !qp->dead)
		queue_delayed_work(agg_fo_wq, &qp->fo.work, msecs_to_jiffies(again));
	mutex_unlock(&qp->mutex);
}

/*
 * Messages of the peer
 */

/**
 * agg_fo_is_for() - does the peer mean this QP, and this connection of it?
 * @qp: the QP
 * @req: the message
 *
 * Context: process; qp->mutex is held. Return: whether it does.
 */
bool agg_fo_is_for(const struct agg_qp *qp, const struct agg_wire_attach *req)
{
	return qp->attached && !qp->dead && qp->fo.fence.state != AGG_FENCE_NONE &&
	       qp->cookie == req->cookie_dst && qp->peer_cookie == req->cookie_src;
}

/**
 * agg_fo_refusal() - what a peer is told whose message leads to nothing
 * @verdict: what fence.c says of it
 *
 * Context: any. Return: status of the reply.
 */
u8 agg_fo_refusal(enum agg_fence_verdict verdict)
{
	switch (verdict) {
	case AGG_FENCE_REFUSE:
		return AGG_WIRE_BUSY;
	case AGG_FENCE_STALE:
		return AGG_WIRE_STALE;
	default:
		return AGG_WIRE_BAD_STATE;
	}
}

/**
 * agg_fence_rx() - the peer's FENCE
 * @qp: the QP it names
 * @req: the FENCE
 * @resp: the reply
 *
 * Rules 2, 7 and 8: we answer when we are quiet ourselves.
 *
 * Context: work item of the session; sleeps until the lane has flushed.
 * Return: status of the reply.
 */
u8 agg_fence_rx(struct agg_qp *qp, const struct agg_wire_attach *req,
		struct agg_wire_attach *resp)
{
	struct agg_failover *fo = &qp->fo;
	enum agg_fence_verdict verdict;
	u8 status;

	mutex_lock(&qp->mutex);
	if (!agg_fo_is_for(qp, req)) {
		/* Our first offer was taken, and failed, before we heard of it. */
		bool early = !qp->dead && qp->peer && !qp->attached && qp->lqp &&
			     qp->cookie == req->cookie_dst && qp->dqpn == req->sqpn;

		mutex_unlock(&qp->mutex);
		return early ? AGG_WIRE_WAIT : agg_tomb_rx(qp->dev, req, resp);
	}

	verdict = agg_fence_asked(&fo->fence, req->epoch);
	switch (verdict) {
	case AGG_FENCE_DRAIN:
		/* What it has agreed to, before it said so. */
		agg_fo_mark(qp, fo->moving ? AGG_CAUSE_MOVE : AGG_CAUSE_PEER);
		agg_fo_quiesce(qp);
		fallthrough;
	case AGG_FENCE_ANSWER:
		agg_fo_learn(qp, req);
		agg_qp_fill(qp, AGG_WIRE_FENCE, resp);
		resp->epoch = req->epoch;
		status = agg_qp_ending(qp) || fo->fence.state == AGG_FENCE_OVER ?
			 AGG_WIRE_IN_ERROR : AGG_WIRE_OK;
		agg_fo_queue(qp, 0);
		break;
	default:
		status = agg_fo_refusal(verdict);
		break;
	}
	mutex_unlock(&qp->mutex);
	return status;
}

/**
 * agg_fo_offered() - the leader's offer of the next path
 * @qp: the QP, attached to this peer
 * @req: the OFFER, with the leader's frozen state
 *
 * Rules 15 and 16.
 *
 * Context: work item of the session; may sleep; qp->mutex is held.
 * Return: 0: our end exists; -ESTALE, -ESHUTDOWN: the QP is in error, -EPROTO, or
 * why there is no end, which is so for ever.
 */
int agg_fo_offered(struct agg_qp *qp, const struct agg_wire_attach *req)
{
	struct agg_frozen peer = { .epoch = req->frozen_epoch };
	struct agg_fence *f = &qp->fo.fence;
	int err;

	lockdep_assert_held(&qp->mutex);

	if (!agg_fo_is_for(qp, req))
		return -ENOENT;
	/* Nothing was executed on a pair that the leader has not connected. */
	if (agg_qp_ending(qp) && f->state != AGG_FENCE_LIVE)
		return -ESHUTDOWN;
	switch (agg_fence_offered(f, req->epoch, &peer)) {
	case AGG_FENCE_REPEAT:
		return qp->lqp ? 0 : -ESTALE;
	case AGG_FENCE_TAKE:
		break;
	case AGG_FENCE_REFUSE:
		return f->state == AGG_FENCE_OVER ? -ESHUTDOWN : -ENETUNREACH;
	case AGG_FENCE_STALE:
		return -ESTALE;
	default:
		return -EPROTO;
	}

	agg_fo_learn(qp, req);
	if (agg_qp_ending(qp))
		return -ESHUTDOWN;
	err = agg_qp_follow_create(qp, req);
	if (err) {
		agg_fence_refuse(f, req->epoch);
		return err;
	}
	agg_fence_attach(f, req->epoch);
	agg_qp_paired(qp, req);
	/* Rule 17: what we send before the leader is ready is only repeated later. */
	qp->lqp->hold = true;
	qp->fo.hold_until = jiffies + msecs_to_jiffies(AGG_FO_HOLD_MS);
	/* Both ends are there, so it is a yes, whatever becomes of ours. */
	agg_fo_queue(qp, agg_fo_connect(qp) ? agg_fo_pause(qp) : AGG_FO_HOLD_MS);
	return 0;
}

/**
 * agg_ready_rx() - the leader's end takes packets
 * @qp: the QP it names
 * @req: the message
 *
 * Context: work item of the session; may sleep. Return: status of the reply.
 */
u8 agg_ready_rx(struct agg_qp *qp, const struct agg_wire_attach *req)
{
	u8 status = AGG_WIRE_GONE;

	mutex_lock(&qp->mutex);
	if (agg_fo_is_for(qp, req)) {
		status = AGG_WIRE_STALE;
		if (qp->fo.fence.state == AGG_FENCE_LIVE && qp->fo.fence.epoch == req->epoch) {
			agg_fo_unhold(qp);
			status = AGG_WIRE_OK;
		}
	}
	mutex_unlock(&qp->mutex);
	return status;
}

/*
 * Lifetime
 */

/**
 * agg_fo_init() - a new QP
 * @qp: the QP
 *
 * Context: process.
 */
void agg_fo_init(struct agg_qp *qp)
{
	INIT_DELAYED_WORK(&qp->fo.work, agg_fo_work);
	INIT_LIST_HEAD(&qp->fo.old);
}

/**
 * agg_fo_cancel() - the QP goes: wait for the work item
 * @qp: dead
 *
 * Context: process; sleeps for as long as the peer may be asked something.
 */
void agg_fo_cancel(struct agg_qp *qp)
{
	cancel_delayed_work_sync(&qp->fo.work);
}

/**
 * agg_fo_begin() - the first path is attached
 * @qp: the QP
 * @epoch: of the pair
 *
 * Context: process; qp->mutex is held.
 */
void agg_fo_begin(struct agg_qp *qp, u32 epoch)
{
	lockdep_assert_held(&qp->mutex);

	agg_fence_init(&qp->fo.fence, agg_qp_leads(qp), epoch);
	qp->fo.move_attempt = 0;
	qp->fo.move_futile = false;
	/* What was noted while there was no pair yet, nobody has acted on. */
	agg_fo_alive(qp);
}

/**
 * agg_fo_end() - the peer is left; its last question may still come
 * @qp: the QP; all its lane QPs are gone on return
 *
 * Context: sleeps until the lane has flushed; qp->mutex is held.
 */
void agg_fo_end(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;
	struct agg_lqp *lqp, *next;

	lockdep_assert_held(&qp->mutex);

	agg_move_stop(qp);
	if (fo->fence.state != AGG_FENCE_NONE) {
		if (fo->fence.state == AGG_FENCE_LIVE)
			agg_fo_quiesce(qp);
		agg_tomb_add(qp);
	}
	if (qp->lqp)
		agg_lqp_destroy(qp->lqp);
	list_for_each_entry_safe(lqp, next, &fo->old, old_node)
		agg_lqp_release(lqp);
	kfree(fo->offer);
	fo->offer = NULL;
	memset(&fo->fence, 0, sizeof(fo->fence));
	agg_fo_proven(qp);
	fo->blame = 0;
	fo->untold = false;
	clear_bit(AGG_QPF_PATH, &qp->flags);
}
