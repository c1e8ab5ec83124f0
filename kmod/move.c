// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Moving a QP to a better path while its own is well: off a lane that drains, and
 * back to one that has returned. Documentation/failover.rst, rules 20 and 21.
 *
 * A work item of the device looks at all QPs that we lead when something has
 * become better (agg_move_kick()). For balance one QP moves at a time, since each
 * move changes what is best for the next; off a draining lane all do.
 *
 * A move begins by holding back what the application sends. What waits then would
 * have waited in any case, behind what is under way. When that is done the peer is
 * asked; it holds back as well, for a moment, and agrees when it has nothing under
 * way. Then both ends give up the path as if it had failed, with the difference that
 * nothing is to be repeated. Whatever goes wrong in between is a failure of the path.
 *
 * fo.moving and all else here is under qp->mutex.
 */
#include "failover.h"
#include "session.h"
#include "trace.h"

#define AGG_MOVE_RETRY_MS	20	/* the peer has something under way: ask again */
#define AGG_MOVE_PATIENCE_MS	2000	/* for both ends to have nothing under way */
#define AGG_MOVE_PAUSE_MS	100	/* after an attempt that failed; doubled */
#define AGG_MOVE_PAUSE_MAX_MS	5000
#define AGG_MOVE_HOLD_MS	300	/* the peer goes on if we do not ask again */

/**
 * agg_move_kick() - some QP may have a better path now
 * @dev: the device
 *
 * Context: process.
 */
void agg_move_kick(struct agg_dev *dev)
{
	mod_delayed_work(agg_fo_wq, &dev->move_work, 0);
}

/* Hold requests back, or let them go. Returns whether nothing is under way. */
static bool agg_move_hold(struct agg_qp *qp, bool hold)
{
	bool idle;

	agg_qp_lock_queues(qp);
	qp->lqp->hold = hold;
	idle = agg_sq_idle(qp);
	agg_qp_unlock_queues(qp);
	return idle;
}

/**
 * agg_move_stop() - there is nothing to move any more
 * @qp: the QP
 *
 * Its path has failed, or the QP ends.
 *
 * Context: process; qp->mutex is held.
 */
void agg_move_stop(struct agg_qp *qp)
{
	lockdep_assert_held(&qp->mutex);

	if (!qp->fo.moving)
		return;
	qp->fo.moving = false;
	clear_bit(AGG_QPF_MOVE_WAIT, &qp->flags);
	atomic_dec(&qp->dev->nr_moving);
	agg_move_kick(qp->dev);
}

/* A move has led to nothing: it is not tried again at once. */
static void agg_move_pause(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;

	lockdep_assert_held(&qp->mutex);

	fo->move_pause = clamp(fo->move_pause * 2, AGG_MOVE_PAUSE_MS, AGG_MOVE_PAUSE_MAX_MS);
	fo->move_after = jiffies + msecs_to_jiffies(fo->move_pause);
}

/**
 * agg_move_done() - a move has led to a path
 * @qp: the QP, with its lane QP
 *
 * One that leads back to the old lane is repeated a few times; then only when
 * something becomes reachable, as the peer's memory on a lane that could not be
 * registered there.
 *
 * Context: process; qp->mutex is held.
 */
void agg_move_done(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;

	lockdep_assert_held(&qp->mutex);

	fo->moves++;
	agg_count(qp->dev, MOVE);
	if (qp->lqp->lane->id != fo->failed_lane) {
		fo->move_pause = 0;
		fo->move_futile = false;
		return;
	}
	fo->move_futile = fo->move_pause == AGG_MOVE_PAUSE_MAX_MS;
	fo->move_seq = atomic_read(&qp->dev->reach_seq);
	agg_move_pause(qp);
}

/* It stays where it is, for now. */
static void agg_move_give_up(struct agg_qp *qp, int err)
{
	trace_agg_qp_failover(qp, "not moved", AGG_CAUSE_MOVE, err);
	agg_move_pause(qp);
	agg_move_hold(qp, false);
	agg_move_stop(qp);
	agg_sq_run(qp);
}

static void agg_move_begin(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;

	fo->moving = true;
	fo->move_since = jiffies;
	fo->move_asked = false;
	atomic_inc(&qp->dev->nr_moving);
	agg_move_hold(qp, true);
	agg_fo_queue(qp, 0);
}

/* The peer is asked; -EAGAIN: it has something under way. */
static int agg_move_ask(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;
	struct agg_wire_attach req, resp;
	u32 epoch = fo->fence.epoch;
	int err;

	/* Rule 21. An attempt that was not answered is repeated. */
	if (!fo->move_asked)
		fo->move_attempt++;
	fo->move_asked = true;
	agg_qp_fill(qp, AGG_WIRE_MOVE, &req);
	req.attempt = fo->move_attempt;
	err = agg_fo_call(qp, &req, &resp);
	if (err == -ECANCELED)
		return err;
	if (fo->fence.state != AGG_FENCE_LIVE || fo->fence.epoch != epoch || !fo->moving ||
	    test_bit(AGG_QPF_PATH, &qp->flags))
		return 0;
	if (err)
		return -EAGAIN;

	switch (resp.status) {
	case AGG_WIRE_OK:
		agg_fo_mark(qp, AGG_CAUSE_MOVE);
		return 0;
	case AGG_WIRE_BUSY:
		fo->move_asked = false;
		return -EAGAIN;
	default:
		return -ECONNREFUSED;
	}
}

/**
 * agg_move_step() - go on with a move
 * @qp: a QP with a path that is well, moving
 *
 * Context: work item of the failover; qp->mutex is held, and given up while the
 * peer is asked. Return: 0: look again at the state of the QP; -ECANCELED: the QP
 * is another one; or after how many ms to call again.
 */
int agg_move_step(struct agg_qp *qp)
{
	struct agg_failover *fo = &qp->fo;
	unsigned long end = fo->move_since + msecs_to_jiffies(AGG_MOVE_PATIENCE_MS);
	unsigned long now = jiffies;
	bool idle;
	int err;

	lockdep_assert_held(&qp->mutex);

	/* The lock in agg_move_hold() orders it before the look: agg_sq_run() calls. */
	set_bit(AGG_QPF_MOVE_WAIT, &qp->flags);
	idle = agg_move_hold(qp, true);
	if (!idle && time_before(now, end))
		return jiffies_to_msecs(end - now) + 1;
	clear_bit(AGG_QPF_MOVE_WAIT, &qp->flags);

	err = idle ? agg_qp_is_self(qp) : -ETIMEDOUT;
	if (err > 0) {
		agg_fo_mark(qp, AGG_CAUSE_MOVE);
		return 0;
	}
	if (!err)
		err = agg_move_ask(qp);
	if (!err || err == -ECANCELED)
		return err;
	if (err == -EAGAIN && time_before(jiffies, end))
		return AGG_MOVE_RETRY_MS;
	agg_move_give_up(qp, err);
	return 0;
}

/**
 * agg_move_rx() - the leader asks to move
 * @qp: the QP it names
 * @req: the MOVE
 * @resp: the reply
 *
 * Context: work item of the session; sleeps until the lane has flushed.
 * Return: status of the reply.
 */
u8 agg_move_rx(struct agg_qp *qp, const struct agg_wire_attach *req,
	       struct agg_wire_attach *resp)
{
	struct agg_failover *fo = &qp->fo;
	enum agg_fence_verdict verdict;
	bool idle = false;
	u8 status;

	mutex_lock(&qp->mutex);
	if (!agg_fo_is_for(qp, req)) {
		mutex_unlock(&qp->mutex);
		return AGG_WIRE_GONE;
	}
	if (fo->fence.state == AGG_FENCE_LIVE && !fo->fence.leader &&
	    fo->fence.epoch == req->epoch && qp->lqp && !READ_ONCE(qp->sq.replay_left)) {
		/* For the next attempt, too. */
		idle = agg_move_hold(qp, true) && qp->state >= IB_QPS_RTR;
		fo->hold_until = jiffies + msecs_to_jiffies(AGG_MOVE_HOLD_MS);
		agg_fo_queue(qp, AGG_MOVE_HOLD_MS);
	}

	verdict = agg_fence_move(&fo->fence, req->epoch, req->attempt, idle);
	switch (verdict) {
	case AGG_FENCE_DRAIN:
		agg_fo_mark(qp, AGG_CAUSE_MOVE);
		agg_fo_quiesce(qp);
		fallthrough;
	case AGG_FENCE_ANSWER:
		agg_qp_fill(qp, AGG_WIRE_MOVE, resp);
		resp->epoch = req->epoch;
		status = AGG_WIRE_OK;
		agg_fo_queue(qp, 0);
		break;
	default:
		status = agg_fo_refusal(verdict);
		break;
	}
	mutex_unlock(&qp->mutex);
	return status;
}

/*
 * Which QPs
 */

/* Is there a better path? @must: the one it has is to be left. */
static bool agg_move_wanted(struct agg_qp *qp, bool *must)
{
	struct agg_lane *lane = qp->lqp->lane;
	unsigned long eligible, ours;
	struct agg_wire_lane theirs;

	*must = !agg_lane_open(lane) ||
		(!agg_qp_is_self(qp) &&
		 (!agg_peer_lane(qp->peer, qp->lqp->peer_lane, &theirs) ||
		  !agg_lane_usable(theirs.state)));
	ours = agg_pd_usable_lanes(qp->pd);
	if (*must)
		ours &= ~BIT(lane->id);
	eligible = agg_qp_eligible(qp, ours);
	if (*must || !(eligible & BIT(lane->id)))
		return eligible;
	return agg_select_better(qp, eligible);
}

/* @arg: ms after which to look again, or 0; it becomes the least of all QPs. */
static void agg_move_consider(struct agg_qp *qp, void *arg)
{
	struct agg_failover *fo = &qp->fo;
	unsigned int *again = arg, ms = 0;
	unsigned long now = jiffies;
	bool must;

	lockdep_assert_held(&qp->mutex);

	if (qp->dead || fo->fence.state != AGG_FENCE_LIVE || !fo->fence.leader || fo->moving ||
	    !qp->lqp || qp->state < IB_QPS_RTR || agg_qp_ending(qp) ||
	    test_bit(AGG_QPF_PATH, &qp->flags) ||
	    (fo->move_futile && fo->move_seq == atomic_read(&qp->dev->reach_seq)) ||
	    !agg_move_wanted(qp, &must))
		return;

	if (READ_ONCE(qp->sq.replay_left))
		/* To hold back would hold back what is still to be repeated. */
		ms = AGG_MOVE_RETRY_MS;
	else if (time_before(now, fo->move_after))
		ms = jiffies_to_msecs(fo->move_after - now) + 1;
	else if (must || !atomic_read(&qp->dev->nr_moving))
		/* If not, the end of the one that moves brings us back. */
		agg_move_begin(qp);
	if (ms && (!*again || ms < *again))
		*again = ms;
}

static void agg_move_work(struct work_struct *work)
{
	struct agg_dev *dev = container_of(to_delayed_work(work), struct agg_dev, move_work);
	unsigned int again = 0;

	agg_dev_each_qp(dev, agg_move_consider, &again);
	if (again)
		queue_delayed_work(agg_fo_wq, &dev->move_work, msecs_to_jiffies(again));
}

/**
 * agg_move_init() - a new device
 * @dev: the device
 *
 * Context: process.
 */
void agg_move_init(struct agg_dev *dev)
{
	INIT_DELAYED_WORK(&dev->move_work, agg_move_work);
	atomic_set(&dev->nr_moving, 0);
}
