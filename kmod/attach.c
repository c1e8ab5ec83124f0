// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ATTACH: two agg QPs agree on a path and exchange their lane QPs.
 *
 * Of the two ends the one with the smaller (GID, QPN) leads: it alone chooses
 * a path and OFFERs it. The follower ASKs the leader to lead and waits for the
 * offer, which arrives on the leader's own connection. Either end answers from
 * the kernel, before its application has named the peer; but a lane QP leaves
 * RESET only in agg_lqp_rtr(), when the application has named exactly this
 * GID and QPN.
 *
 * qp->mutex is never held while a reply is awaited: with both ends in one
 * device the reply may need it. So after each wait it is checked, by cookie,
 * that the QP is still the one that asked.
 *
 * A QP is often connected again while its old peer still holds on to the old
 * connection. Such a peer answers WAIT, and its own ASK or OFFER, once its
 * application has come as far, ends the wait.
 */
#include "agg.h"
#include "session.h"
#include "trace.h"

/*
 * Helpers
 */

static unsigned int agg_ms_left(unsigned long deadline)
{
	long left = deadline - jiffies;

	return left > 0 ? jiffies_to_msecs(left) : 0;
}

static int agg_attach_errno(u8 status)
{
	switch (status) {
	case AGG_WIRE_OK:
		return 0;
	case AGG_WIRE_NO_QP:
	case AGG_WIRE_GONE:
		return -ENOENT;
	case AGG_WIRE_MISMATCH:
		return -EADDRINUSE;
	case AGG_WIRE_NO_LANE:
		return -ENETUNREACH;
	case AGG_WIRE_WAIT:
		return -EAGAIN;
	case AGG_WIRE_BUSY:
		return -EBUSY;
	default:
		return -ECONNREFUSED;
	}
}

static u8 agg_attach_status(int err)
{
	switch (err) {
	case 0:
		return AGG_WIRE_OK;
	case -ENETUNREACH:
	case -ENETDOWN:
		return AGG_WIRE_NO_LANE;
	case -EADDRINUSE:
		return AGG_WIRE_MISMATCH;
	case -EAGAIN:
		return AGG_WIRE_WAIT;
	case -ENOMEM:
	case -ENOBUFS:
	case -ENFILE:
		return AGG_WIRE_BUSY;
	case -ENOENT:
		return AGG_WIRE_GONE;
	case -ESTALE:
		return AGG_WIRE_STALE;
	case -ESHUTDOWN:
		return AGG_WIRE_IN_ERROR;
	case -EPROTO:
		return AGG_WIRE_BAD_STATE;
	default:
		return AGG_WIRE_REFUSED;
	}
}

/**
 * agg_qp_is_self() - is the QP connected to itself?
 * @qp: the QP; its peer is known
 *
 * Context: any; qp->mutex is held.
 */
bool agg_qp_is_self(const struct agg_qp *qp)
{
	return qp->dqpn == qp->ibqp.qp_num && !memcmp(&qp->sgid, &qp->dgid, sizeof(qp->sgid));
}

/**
 * agg_qp_leads() - is this end the one that chooses paths? (rule 12)
 * @qp: the QP; its peer is known
 *
 * Context: any; qp->mutex is held.
 */
bool agg_qp_leads(const struct agg_qp *qp)
{
	int cmp = memcmp(qp->sgid.raw, qp->dgid.raw, sizeof(qp->sgid.raw));

	return cmp < 0 || (!cmp && qp->ibqp.qp_num <= qp->dqpn);
}

static bool agg_qp_has_peer(const struct agg_qp *qp, const u8 *sgid, const u8 *dgid, u32 dqpn)
{
	return qp->peer && qp->dqpn == dqpn && !memcmp(qp->sgid.raw, sgid, 16) &&
	       !memcmp(qp->dgid.raw, dgid, 16);
}

/**
 * agg_qp_flow() - what the QP's flow is hashed by
 * @qp: the QP; its peer is known
 *
 * Context: any; qp->mutex is held. Return: the flow.
 */
struct agg_flow agg_qp_flow(const struct agg_qp *qp)
{
	struct agg_flow flow = {
		.sqpn = qp->ibqp.qp_num,
		.dqpn = qp->dqpn,
	};

	memcpy(flow.sgid, qp->sgid.raw, 16);
	memcpy(flow.dgid, qp->dgid.raw, 16);
	return flow;
}

static int agg_qp_set_peer(struct agg_qp *qp, const u8 *sgid, const u8 *dgid, u32 dqpn)
{
	struct agg_flow flow;
	struct agg_peer *peer;

	lockdep_assert_held(&qp->mutex);

	if (qp->peer)
		return 0;
	memcpy(qp->sgid.raw, sgid, 16);
	memcpy(qp->dgid.raw, dgid, 16);
	qp->dqpn = dqpn;
	flow = agg_qp_flow(qp);
	qp->flow_hash = agg_flow_hash(&flow);

	peer = agg_peer_get(qp->dev, &qp->sgid, &qp->dgid);
	if (IS_ERR(peer))
		return PTR_ERR(peer);
	qp->peer = peer;
	return 0;
}

/**
 * agg_qp_fill() - what all messages about a QP have in common
 * @qp: the QP; its peer is known
 * @kind: enum agg_wire_attach_kind
 * @m: filled
 *
 * Context: process; qp->mutex is held.
 */
void agg_qp_fill(struct agg_qp *qp, u8 kind, struct agg_wire_attach *m)
{
	const struct agg_fence *f = &qp->fo.fence;
	struct agg_lqp *lqp = qp->lqp;

	lockdep_assert_held(&qp->mutex);

	memset(m, 0, sizeof(*m));
	m->kind = kind;
	m->flags = qp->named ? AGG_WIRE_ATTACH_NAMED : 0;
	m->instance_src = qp->dev->instance;
	m->instance_dst = qp->peer_instance;
	m->cookie_src = qp->cookie;
	m->cookie_dst = qp->peer_cookie;
	m->epoch = f->epoch;
	m->lanes_ok = agg_pd_usable_lanes(qp->pd);
	if (f->state != AGG_FENCE_NONE && f->state != AGG_FENCE_LIVE) {
		/* The leader need not try what we know to be dead. */
		if (m->lanes_ok & ~qp->fo.avoid)
			m->lanes_ok &= ~qp->fo.avoid;
		/* Rules 7 and 13. */
		if (!qp->fo.untold)
			agg_wire_set_frozen(m, &f->own);
	}
	m->sqpn = qp->ibqp.qp_num;
	m->dqpn = qp->dqpn;
	memcpy(m->sgid, qp->sgid.raw, 16);
	memcpy(m->dgid, qp->dgid.raw, 16);
	m->slane = AGG_WIRE_LANE_NONE;
	m->dlane = AGG_WIRE_LANE_NONE;
	m->rnr_timer = qp->attr.min_rnr_timer;
	m->max_rd_atomic = qp->attr.max_rd_atomic;
	m->max_dest_rd_atomic = qp->attr.max_dest_rd_atomic;
	if (!lqp)
		return;
	m->slane = lqp->lane->id;
	m->dlane = lqp->peer_lane;
	m->lane_qpn = lqp->ibqp->qp_num;
	m->psn = lqp->psn;
	m->mtu = READ_ONCE(lqp->lane->mtu);
	memcpy(m->lane_gid, lqp->gid.raw, 16);
}

/**
 * agg_qp_paired() - the peer's end of the path is known
 * @qp: the QP, with its end
 * @m: the offer, or the reply to it
 *
 * Context: process; qp->mutex is held.
 */
void agg_qp_paired(struct agg_qp *qp, const struct agg_wire_attach *m)
{
	struct agg_lqp *lqp = qp->lqp;

	lockdep_assert_held(&qp->mutex);

	lqp->peer_qpn = m->lane_qpn;
	lqp->peer_psn = m->psn;
	memcpy(lqp->peer_gid.raw, m->lane_gid, 16);
	if (m->mtu)
		lqp->mtu = m->mtu;
	qp->peer_rnr_timer = m->rnr_timer;
	agg_count(qp->dev, ATTACH_OK);
	trace_agg_qp_attach(qp, m->epoch, lqp->lane->id, lqp->peer_lane, 0);
}

/* The first path. */
static void agg_qp_attached(struct agg_qp *qp, const struct agg_wire_attach *m)
{
	agg_qp_paired(qp, m);
	qp->peer_cookie = m->cookie_src;
	qp->peer_instance = m->instance_src;
	qp->attached = true;
	agg_fo_begin(qp, m->epoch);
	wake_up_all(&qp->attach_wait);
}

/*
 * Leaving
 */

static void agg_qp_forget_peer(struct agg_qp *qp, bool tell)
{
	struct agg_wire_attach m;

	lockdep_assert_held(&qp->mutex);

	if (tell && qp->peer && qp->peer_cookie) {
		agg_qp_fill(qp, AGG_WIRE_OFFER, &m);
		agg_peer_detach(qp->peer, &m);
	}
	qp->attached = false;
	agg_fo_end(qp);
	if (qp->peer) {
		/* Without a lane QP it asks for no more keys. */
		agg_peer_key_cancel(qp->peer, qp);
		agg_peer_put(qp->peer);
	}
	qp->peer = NULL;
	qp->peer_cookie = 0;
	qp->peer_instance = 0;
	qp->peer_rnr_timer = 0;
}

/**
 * agg_qp_drop_attach() - undo an ATTACH that the application has not used
 * @qp: the QP, not yet in RTR
 *
 * Context: may sleep; qp->mutex is held.
 */
void agg_qp_drop_attach(struct agg_qp *qp)
{
	agg_qp_forget_peer(qp, true);
}

/**
 * agg_qp_detach() - leave the peer: reset or removal of the QP
 * @qp: the QP; its lane QP is gone on return
 *
 * Context: sleeps until the lane has flushed; qp->mutex is held.
 */
void agg_qp_detach(struct agg_qp *qp)
{
	agg_qp_forget_peer(qp, true);
	qp->named = false;
	memset(&qp->dgid, 0, sizeof(qp->dgid));
	qp->dqpn = 0;
}

/*
 * The leader
 */

/* Both ends are this QP: nobody to ask. */
static int agg_qp_lead_self(struct agg_qp *qp)
{
	struct agg_wire_attach m;

	/* Another lane may have the same rail. */
	qp->lqp->peer_lane = qp->lqp->lane->id;
	agg_qp_fill(qp, AGG_WIRE_OFFER, &m);
	agg_qp_attached(qp, &m);
	return 0;
}

/*
 * Choose a path and offer it, until an offer is accepted. -EAGAIN: the peer
 * will call when it is ready.
 */
static int agg_qp_lead(struct agg_qp *qp, struct agg_peer *peer, u64 cookie, unsigned long deadline)
{
	struct agg_wire_attach req, resp;
	unsigned long tried = 0;
	int err;

	for (;;) {
		mutex_lock(&qp->mutex);
		err = -ECANCELED;
		if (qp->dead || qp->cookie != cookie || !qp->peer)
			break;
		err = 0;
		if (qp->attached)
			break;
		if (!qp->lqp) {
			err = agg_qp_lead_create(qp, peer, &tried);
			if (err)
				break;
		}
		if (agg_qp_is_self(qp)) {
			err = agg_qp_lead_self(qp);
			break;
		}
		agg_qp_fill(qp, AGG_WIRE_OFFER, &req);
		mutex_unlock(&qp->mutex);

		err = agg_peer_attach(peer, &req, &resp, max(agg_ms_left(deadline), 1U));

		mutex_lock(&qp->mutex);
		if (qp->dead || qp->cookie != cookie || !qp->lqp ||
		    qp->lqp->ibqp->qp_num != req.lane_qpn) {
			/* Reset, removed, or led by another thread meanwhile. */
			err = qp->attached ? 0 : -ECANCELED;
			break;
		}
		if (qp->attached) {
			err = 0;
			break;
		}
		if (!err)
			err = agg_attach_errno(resp.status);
		if (!err) {
			agg_qp_attached(qp, &resp);
			break;
		}
		/* The lane is of no use to the peer; the choice must not stick. */
		agg_lqp_destroy(qp->lqp);
		clear_bit(AGG_QPF_PATH, &qp->flags);
		if (err != -ENETUNREACH)
			break;
		mutex_unlock(&qp->mutex);
	}
	mutex_unlock(&qp->mutex);
	return err;
}

/*
 * The application's modify_qp(RTR)
 */

/**
 * agg_qp_learn_poison() - learn what the peer's lane never accepts, and where it answers
 * @qp: attached; the session to the peer is up
 *
 * Context: process; qp->mutex is held. Return: 0 or -ENETUNREACH: the peer's
 * lane has gone.
 */
int agg_qp_learn_poison(struct agg_qp *qp)
{
	struct agg_wire_lane theirs;

	lockdep_assert_held(&qp->mutex);

	if (!agg_peer_lane(qp->peer, qp->lqp->peer_lane, &theirs))
		return -ENETUNREACH;
	qp->lqp->peer_poison = theirs.poison_rkey;
	qp->lqp->probe_qpn = theirs.probe_qpn;
	qp->lqp->probe_qkey = theirs.probe_qkey;
	return 0;
}

static int agg_qp_ask(struct agg_qp *qp, struct agg_peer *peer, unsigned long deadline)
{
	struct agg_wire_attach req, resp;
	bool attached;
	int err;

	mutex_lock(&qp->mutex);
	agg_qp_fill(qp, AGG_WIRE_ASK, &req);
	attached = qp->attached;
	mutex_unlock(&qp->mutex);
	if (attached)
		return 0;

	err = agg_peer_attach(peer, &req, &resp, max(agg_ms_left(deadline), 1U));
	if (err)
		return err;
	return agg_attach_errno(resp.status);
}

static int agg_qp_wait_attached(struct agg_qp *qp, unsigned long deadline, int err)
{
	long left = deadline - jiffies;

	wait_event_timeout(qp->attach_wait,
			   READ_ONCE(qp->attached) || READ_ONCE(qp->dead) ||
			   test_bit(AGG_QPF_ERROR, &qp->flags), max(left, 1L));
	if (READ_ONCE(qp->attached))
		return 0;
	return err == -EADDRINUSE ? err : -ETIMEDOUT;
}

/*
 * No path now. Lanes come and go: wait for one, here or there, to become usable.
 * @seq is dev->reach_seq from before it was looked for.
 */
static bool agg_qp_await_lane(struct agg_qp *qp, int seq, unsigned long deadline)
{
	long left = deadline - jiffies;

	if (left <= 0 || !READ_ONCE(qp->pd->lanes))
		return false;
	return wait_event_timeout(qp->attach_wait,
				  atomic_read(&qp->dev->reach_seq) != seq ||
				  READ_ONCE(qp->attached) || READ_ONCE(qp->dead) ||
				  test_bit(AGG_QPF_ERROR, &qp->flags), left);
}

static int agg_qp_agree(struct agg_qp *qp, struct agg_peer *peer, u64 cookie,
			unsigned long deadline)
{
	int err, seq;

	do {
		seq = atomic_read(&qp->dev->reach_seq);
		err = agg_qp_leads(qp) ? agg_qp_lead(qp, peer, cookie, deadline) :
					 agg_qp_ask(qp, peer, deadline);
	} while (err == -ENETUNREACH && agg_qp_await_lane(qp, seq, deadline));
	if (!err || err == -EAGAIN || err == -EADDRINUSE)
		err = agg_qp_wait_attached(qp, deadline, err);
	return err;
}

static const char *agg_attach_why(int err)
{
	switch (err) {
	case -ENOENT:
		return "the peer has no such QP";
	case -EADDRINUSE:
		return "the peer's QP is connected to another one";
	case -ENETUNREACH:
		return "no usable lane in common";
	case -EADDRNOTAVAIL:
		return "a lane's address is gone";
	default:
		return agg_sess_strerror(err);
	}
}

/**
 * agg_qp_attach() - agree with the named peer on a path
 * @qp: the QP, in INIT
 * @sgid: our GID
 * @dgid: the peer's
 * @dqpn: its QP
 *
 * Context: sleeps for at most connect_timeout; qp->mutex is held, and given
 * up meanwhile; qp->modify_lock is held throughout.
 * Return: 0 with qp->lqp set, or -errno (see agg_modify_qp()).
 */
int agg_qp_attach(struct agg_qp *qp, const union ib_gid *sgid, const union ib_gid *dgid, u32 dqpn)
{
	unsigned int timeout = READ_ONCE(qp->dev->params.connect_timeout_ms);
	unsigned long deadline = jiffies + msecs_to_jiffies(timeout);
	struct agg_peer *peer;
	u64 cookie;
	int err;

	lockdep_assert_held(&qp->mutex);

	/* Somebody else was faster, but is not who the application wants. */
	if (qp->peer && !agg_qp_has_peer(qp, sgid->raw, dgid->raw, dqpn))
		agg_qp_drop_attach(qp);
	err = agg_qp_set_peer(qp, sgid->raw, dgid->raw, dqpn);
	if (err)
		return err;
	qp->named = true;
	cookie = qp->cookie;
	/* Our own reference: an ATTACH may replace qp->peer while we wait. */
	peer = agg_peer_get(qp->dev, sgid, dgid);
	mutex_unlock(&qp->mutex);

	err = PTR_ERR_OR_ZERO(peer);
	if (!err) {
		err = agg_peer_connect(peer, timeout);
		if (!err)
			err = agg_qp_agree(qp, peer, cookie, deadline);
		agg_peer_put(peer);
	}

	mutex_lock(&qp->mutex);
	if (!err && !qp->attached)
		err = -ENETUNREACH;
	if (err) {
		agg_count(qp->dev, ATTACH_FAIL);
		trace_agg_qp_attach(qp, 0, AGG_LANE_NONE, AGG_LANE_NONE, err);
		pr_info_ratelimited("rdma_agg: %s: qpn %#x: no path to %pI6c qpn %#x: %s (%d)\n",
				    dev_name(&qp->dev->ibdev.dev), qp->ibqp.qp_num, dgid->raw,
				    dqpn, agg_attach_why(err), err);
		agg_qp_detach(qp);
	}
	return err;
}

/*
 * Requests of peers
 */

/*
 * Make room for a new ATTACH of (sgid, sqpn). False: not now, the application
 * is still busy with an older connection.
 */
static int agg_qp_accept_peer(struct agg_qp *qp, const struct agg_wire_attach *req)
{
	bool fresh = qp->state == IB_QPS_RESET || qp->state == IB_QPS_INIT;

	lockdep_assert_held(&qp->mutex);

	if (qp->dead)
		return -ENOENT;
	if (!fresh)
		return qp->named && !agg_qp_has_peer(qp, req->dgid, req->sgid, req->sqpn) ?
		       -EADDRINUSE : -EAGAIN;
	if (qp->named && !agg_qp_has_peer(qp, req->dgid, req->sgid, req->sqpn))
		return -EADDRINUSE;

	if (qp->peer && (!agg_qp_has_peer(qp, req->dgid, req->sgid, req->sqpn) ||
			 (qp->peer_cookie && qp->peer_cookie != req->cookie_src)))
		/* An older incarnation of the peer, or another peer. */
		agg_qp_forget_peer(qp, false);
	return agg_qp_set_peer(qp, req->dgid, req->sgid, req->sqpn);
}

static int agg_qp_take_offer(struct agg_qp *qp, const struct agg_wire_attach *req)
{
	int err;

	lockdep_assert_held(&qp->mutex);

	if (req->flags & AGG_WIRE_ATTACH_FROZEN)
		return agg_fo_offered(qp, req);
	if (qp->attached && qp->lqp && qp->peer_cookie == req->cookie_src &&
	    qp->lqp->peer_qpn == req->lane_qpn && qp->fo.fence.epoch == req->epoch)
		return 0;	/* A repetition: the same answer. */

	/* One that comes late, when that path has failed already (rule 15). */
	if (qp->attached && qp->peer_cookie == req->cookie_src && qp->fo.fence.epoch != req->epoch)
		return -ESTALE;

	err = agg_qp_accept_peer(qp, req);
	if (err)
		return err;
	if (agg_qp_leads(qp))
		return -EPROTO;
	/* A new offer replaces one the leader has given up. */
	qp->attached = false;
	agg_fo_end(qp);
	err = agg_qp_follow_create(qp, req);
	if (!err)
		agg_qp_attached(qp, req);
	return err;
}

/* The follower wants us to lead; answer when it has our offer. */
static int agg_qp_take_ask(struct agg_qp *qp, const struct agg_wire_attach *req)
{
	unsigned int timeout = READ_ONCE(qp->dev->params.connect_timeout_ms);
	unsigned long deadline = jiffies + msecs_to_jiffies(timeout);
	union ib_gid sgid, dgid;
	struct agg_peer *peer;
	u64 cookie;
	int err;

	mutex_lock(&qp->mutex);
	if (qp->attached && qp->peer_cookie == req->cookie_src) {
		mutex_unlock(&qp->mutex);
		return 0;
	}
	err = agg_qp_accept_peer(qp, req);
	if (!err && !agg_qp_leads(qp))
		err = -EPROTO;
	cookie = qp->cookie;
	sgid = qp->sgid;
	dgid = qp->dgid;
	mutex_unlock(&qp->mutex);
	if (err)
		return err;

	peer = agg_peer_get(qp->dev, &sgid, &dgid);
	if (IS_ERR(peer))
		return PTR_ERR(peer);
	err = agg_peer_connect(peer, timeout);
	if (!err)
		err = agg_qp_lead(qp, peer, cookie, deadline);
	agg_peer_put(peer);
	return err;
}

static int agg_attach_take(struct agg_qp *qp, const struct agg_wire_attach *req,
			   struct agg_wire_attach *resp)
{
	int err;

	if (req->kind == AGG_WIRE_ASK) {
		err = agg_qp_take_ask(qp, req);
		mutex_lock(&qp->mutex);
	} else {
		mutex_lock(&qp->mutex);
		err = agg_qp_take_offer(qp, req);
	}
	if (qp->peer)
		agg_qp_fill(qp, req->kind, resp);
	else
		resp->lanes_ok = agg_pd_usable_lanes(qp->pd);
	mutex_unlock(&qp->mutex);
	return err;
}

/* Has the QP had no receive for the grace time? */
static u8 agg_rqstate_rx(struct agg_qp *qp, const struct agg_wire_attach *req)
{
	u32 grace = READ_ONCE(qp->dev->params.rnr_grace_ms);
	bool known;

	mutex_lock(&qp->mutex);
	known = qp->cookie == req->cookie_dst && qp->peer_cookie == req->cookie_src;
	mutex_unlock(&qp->mutex);
	if (!known)
		return AGG_WIRE_GONE;
	return agg_rq_dry_ms(qp) >= grace ? AGG_WIRE_DRY : AGG_WIRE_OK;
}

/**
 * agg_attach_rx() - answer an ATTACH of a peer
 * @dev: the device it is for
 * @req: the request; its GIDs are those of the session
 * @resp: the reply
 *
 * Context: work item of the session, one for each request; may sleep.
 */
void agg_attach_rx(struct agg_dev *dev, const struct agg_wire_attach *req,
		   struct agg_wire_attach *resp)
{
	struct agg_qp *qp;

	memset(resp, 0, sizeof(*resp));
	resp->kind = req->kind;
	resp->slane = AGG_WIRE_LANE_NONE;
	resp->dlane = AGG_WIRE_LANE_NONE;

	qp = agg_qp_get(dev, req->dqpn);
	if (!qp) {
		resp->status = req->kind == AGG_WIRE_FENCE ? agg_tomb_rx(dev, req, resp) :
			       AGG_WIRE_NO_QP;
	} else {
		u8 status;

		switch (req->kind) {
		case AGG_WIRE_RQSTATE:
			status = agg_rqstate_rx(qp, req);
			break;
		case AGG_WIRE_FENCE:
			status = agg_fence_rx(qp, req, resp);
			break;
		case AGG_WIRE_READY:
			status = agg_ready_rx(qp, req);
			break;
		case AGG_WIRE_MOVE:
			status = agg_move_rx(qp, req, resp);
			break;
		default:
			status = agg_attach_status(agg_attach_take(qp, req, resp));
			break;
		}
		agg_qp_put(qp);
		resp->status = status;
	}

	resp->instance_src = dev->instance;
	resp->instance_dst = req->instance_src;
	resp->sqpn = req->dqpn;
	resp->dqpn = req->sqpn;
	resp->cookie_dst = req->cookie_src;
	memcpy(resp->sgid, req->dgid, 16);
	memcpy(resp->dgid, req->sgid, 16);
}

/**
 * agg_detach_rx() - the peer's QP is gone
 * @dev: the device the message is for
 * @req: its last ATTACH
 *
 * A QP that the application uses is left alone, as a NIC would: what it still
 * sends is not answered and fails.
 *
 * Context: work item of the session; may sleep.
 */
void agg_detach_rx(struct agg_dev *dev, const struct agg_wire_attach *req)
{
	struct agg_qp *qp = agg_qp_get(dev, req->dqpn);

	if (!qp)
		return;
	mutex_lock(&qp->mutex);
	if (qp->attached && qp->peer_cookie == req->cookie_src && !qp->dead &&
	    (qp->state == IB_QPS_RESET || qp->state == IB_QPS_INIT))
		agg_qp_forget_peer(qp, false);
	mutex_unlock(&qp->mutex);
	agg_qp_put(qp);
}

/**
 * agg_qp_peer_is_dry() - ask the peer whether our SEND waits for a receive
 * @qp: the QP
 *
 * Context: may sleep. Return: true only if the peer said so.
 */
bool agg_qp_peer_is_dry(struct agg_qp *qp)
{
	struct agg_wire_attach req, resp;
	struct agg_peer *peer;
	union ib_gid sgid, dgid;
	int err;

	mutex_lock(&qp->mutex);
	if (!qp->peer || qp->dead) {
		mutex_unlock(&qp->mutex);
		return false;
	}
	agg_qp_fill(qp, AGG_WIRE_RQSTATE, &req);
	sgid = qp->sgid;
	dgid = qp->dgid;
	mutex_unlock(&qp->mutex);

	peer = agg_peer_get(qp->dev, &sgid, &dgid);
	if (IS_ERR(peer))
		return false;
	err = agg_peer_attach(peer, &req, &resp, 1000);
	agg_peer_put(peer);
	return !err && resp.status == AGG_WIRE_DRY;
}
