// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Which of our lanes lead to which lanes of a peer, and our end of a path that is
 * chosen: for the first path of a QP (attach.c), the next one after a failure
 * (failover.c), and a better one (move.c).
 */
#include "agg.h"
#include "session.h"

/* The address of @lane from which @peer can be reached. */
static bool agg_lane_gid_for(struct agg_lane *lane, const u8 *peer, union ib_gid *gid)
{
	union ib_gid own[AGG_LANE_GIDS];
	unsigned int n = agg_lane_gids(lane, own);
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (agg_gid_class(own[i].raw) == agg_gid_class(peer)) {
			*gid = own[i];
			return true;
		}
	}
	return false;
}

/**
 * agg_path_gids() - a pair of addresses for a path
 * @lane: our lane
 * @peer: the peer's lane
 * @gid: filled with the address of our lane
 * @peer_gid: filled with the address of the peer's
 *
 * Context: process. Return: whether they have addresses of the same kind.
 */
bool agg_path_gids(struct agg_lane *lane, const struct agg_wire_lane *peer, union ib_gid *gid,
		   union ib_gid *peer_gid)
{
	int i;

	for (i = 0; i < peer->nr_gids; i++) {
		if (agg_lane_gid_for(lane, peer->gid[i], gid)) {
			memcpy(peer_gid->raw, peer->gid[i], sizeof(peer_gid->raw));
			return true;
		}
	}
	return false;
}

/**
 * agg_pd_usable_lanes() - our lanes that a QP could be given now
 * @pd: its PD
 *
 * Context: any. Return: bit per lane id.
 */
unsigned long agg_pd_usable_lanes(struct agg_pd *pd)
{
	struct agg_dev *dev = to_adev(pd->ibpd.device);
	unsigned long lanes = READ_ONCE(pd->lanes);
	unsigned int i;

	rcu_read_lock();
	for (i = 0; i < AGG_MAX_LANES; i++) {
		struct agg_lane *lane = rcu_dereference(dev->lanes[i]);

		if (!lane || READ_ONCE(lane->dead) || !agg_lane_open(lane))
			__clear_bit(i, &lanes);
	}
	rcu_read_unlock();
	return lanes;
}

static void agg_qp_install_lqp(struct agg_qp *qp, struct agg_lqp *lqp)
{
	agg_qp_lock_queues(qp);
	qp->lqp = lqp;
	agg_qp_unlock_queues(qp);
}

struct agg_path {
	unsigned long eligible;		/* our lanes */
	struct agg_wire_lane peer[AGG_MAX_LANES];	/* by id of our lane */
};

/*
 * Which of our lanes lead to the peer, and where. Lanes of equal rail belong
 * together; if the hosts have no rail in common, any lane is tried with any.
 */
static void agg_qp_paths(struct agg_qp *qp, struct agg_peer *peer, unsigned long lanes,
			 struct agg_path *path)
{
	/* A peer that has failed over tells which of its lanes the QP can use. */
	u64 theirs_ok = qp->fo.fence.state == AGG_FENCE_KNOWN ? qp->peer_lanes_ok : U64_MAX;
	struct agg_wire_lane *theirs;
	bool rails = false;
	unsigned int n, i, j;
	union ib_gid a, b;
	int pass;

	path->eligible = 0;
	theirs = kcalloc(AGG_MAX_LANES, sizeof(*theirs), GFP_KERNEL);
	if (!theirs)
		return;
	n = agg_peer_lanes(peer, theirs, AGG_MAX_LANES);

	for (pass = 0; pass < 2 && !rails; pass++) {
		for_each_set_bit(i, &lanes, AGG_MAX_LANES) {
			struct agg_lane *lane = agg_lane_get(qp->dev, i);

			if (!lane)
				continue;
			for (j = 0; j < n; j++) {
				/* Spread over their lanes when rails do not say. */
				struct agg_wire_lane *t = &theirs[pass ? (i + j) % n : j];
				bool same = t->rail == READ_ONCE(lane->rail);

				rails |= same;
				if ((!pass && !same) || !agg_lane_usable(t->state) ||
				    !(theirs_ok & BIT(t->id)) || !agg_path_gids(lane, t, &a, &b) ||
				    agg_probe_path_dead(lane, &a, &b, t->probe_qpn))
					continue;
				path->peer[i] = *t;
				__set_bit(i, &path->eligible);
				break;
			}
			agg_lane_put(lane);
		}
	}
	kfree(theirs);
}

/**
 * agg_qp_eligible() - which of our lanes lead to the peer now
 * @qp: a QP that we lead; its peer is known
 * @lanes: those that are considered
 *
 * Context: may sleep; qp->mutex is held. Return: bit per lane id.
 */
unsigned long agg_qp_eligible(struct agg_qp *qp, unsigned long lanes)
{
	struct agg_path *path = kzalloc(sizeof(*path), GFP_KERNEL);
	unsigned long eligible;

	lockdep_assert_held(&qp->mutex);

	if (!path)
		return 0;
	agg_qp_paths(qp, qp->peer, lanes, path);
	eligible = path->eligible;
	kfree(path);
	return eligible;
}

/**
 * agg_qp_lead_create() - choose a path and create our end of it
 * @qp: the QP, without a lane QP
 * @peer: its peer
 * @tried: lanes not to be considered; the chosen one is added
 *
 * Context: may sleep; qp->mutex is held. Return: 0 with qp->lqp set, or -errno;
 * -ENETUNREACH: no lane is left.
 */
int agg_qp_lead_create(struct agg_qp *qp, struct agg_peer *peer, unsigned long *tried)
{
	struct agg_flow flow = agg_qp_flow(qp);
	const struct agg_wire_lane *to;
	struct agg_path *path;
	struct agg_lane *lane;
	struct agg_lqp *lqp;
	u32 queue;
	int err;

	lockdep_assert_held(&qp->mutex);

	path = kzalloc(sizeof(*path), GFP_KERNEL);
	if (!path)
		return -ENOMEM;

	for (;;) {
		agg_qp_paths(qp, peer, agg_pd_usable_lanes(qp->pd) & ~*tried, path);
		err = agg_select_lane(qp->dev, &flow, path->eligible, qp->node, &lane, &queue);
		if (err)
			break;
		to = &path->peer[lane->id];
		__set_bit(lane->id, tried);

		lqp = agg_lqp_create(qp, lane, queue);
		if (!IS_ERR(lqp)) {
			lqp->peer_lane = to->id;
			lqp->mtu = to->mtu;
			agg_path_gids(lane, to, &lqp->gid, &lqp->peer_gid);
			agg_qp_install_lqp(qp, lqp);
			break;
		}
		err = PTR_ERR(lqp);
		agg_select_release(qp->dev, lane);
		agg_lane_put(lane);
		if (err != -ENETDOWN && err != -ENOBUFS)
			break;
	}
	kfree(path);
	return err;
}

/**
 * agg_qp_follow_create() - create our end of the path that the leader offers
 * @qp: the QP, without a lane QP
 * @req: the offer
 *
 * Context: may sleep; qp->mutex is held. Return: 0 with qp->lqp set, or -errno;
 * -ENETUNREACH: the lane is of no use.
 */
int agg_qp_follow_create(struct agg_qp *qp, const struct agg_wire_attach *req)
{
	union ib_gid peer_gid;
	struct agg_lane *lane;
	struct agg_lqp *lqp;
	int err;

	lockdep_assert_held(&qp->mutex);

	if (!(agg_pd_usable_lanes(qp->pd) & BIT(req->dlane)))
		return -ENETUNREACH;
	lane = agg_lane_get(qp->dev, req->dlane);
	if (!lane)
		return -ENETUNREACH;

	agg_select_account(qp->dev, lane);
	lqp = agg_lqp_create(qp, lane, qp->flow_hash % lane->nr_tx);
	if (IS_ERR(lqp)) {
		err = PTR_ERR(lqp);
		goto err_lane;
	}
	agg_qp_install_lqp(qp, lqp);
	lqp->peer_lane = req->slane;
	lqp->mtu = IB_MTU_4096;
	memcpy(peer_gid.raw, req->lane_gid, sizeof(peer_gid.raw));
	if (!agg_lane_gid_for(lane, req->lane_gid, &lqp->gid) ||
	    agg_probe_path_dead(lane, &lqp->gid, &peer_gid, 0)) {
		agg_lqp_destroy(lqp);
		return -ENETUNREACH;
	}
	return 0;

err_lane:
	agg_select_release(qp->dev, lane);
	agg_lane_put(lane);
	return err;
}
