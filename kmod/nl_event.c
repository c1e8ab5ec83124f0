// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The netlink family itself, and its notices to the group "mon".
 */
#include <linux/rwsem.h>
#include <net/genetlink.h>
#include <net/netlink.h>

#include "agg.h"
#include "nl.h"
#include "session.h"

/*
 * Generated, with the policies, the table of operations, and the multicast
 * groups as a static array; hence included and not compiled by itself.
 */
#include "generated/netlink_policy.c"

static_assert((int)RDMA_AGG_LANE_STATE_DOWN == AGG_LANE_DOWN);
static_assert((int)RDMA_AGG_LANE_STATE_PROBE == AGG_LANE_PROBE);
static_assert((int)RDMA_AGG_LANE_STATE_UP == AGG_LANE_UP);
static_assert((int)RDMA_AGG_LANE_STATE_CONGESTED == AGG_LANE_CONGESTED);
static_assert((int)RDMA_AGG_LANE_STATE_PAUSED == AGG_LANE_PAUSED);
static_assert((int)RDMA_AGG_LANE_STATE_STORM == AGG_LANE_STORM);
static_assert(RDMA_AGG_LANE_STATE_STORM + 1 == AGG_LANE_STATES);
static_assert((int)RDMA_AGG_CAUSE_NONE == AGG_CAUSE_NONE);
static_assert((int)RDMA_AGG_CAUSE_PEER == AGG_CAUSE_PEER);
static_assert((int)RDMA_AGG_CAUSE_CONNECT == AGG_CAUSE_CONNECT);

/* Taken to send a notice; written to stop notices when the family goes. */
static DECLARE_RWSEM(agg_nl_sem);
static bool agg_nl_ready;

struct genl_family agg_nl_family __ro_after_init = {
	.name		= RDMA_AGG_FAMILY_NAME,
	.version	= RDMA_AGG_FAMILY_VERSION,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.ops		= rdma_agg_nl_ops,
	.n_ops		= ARRAY_SIZE(rdma_agg_nl_ops),
	.mcgrps		= rdma_agg_nl_mcgrps,
	.n_mcgrps	= ARRAY_SIZE(rdma_agg_nl_mcgrps),
};

/* ---- Notices ---- */

/* Has the group a listener in the device's namespace? Then the netdev, held. */
static struct net_device *agg_nl_listened(struct agg_dev *dev)
{
	struct net_device *ndev;

	lockdep_assert_held(&agg_nl_sem);

	if (!agg_nl_ready)
		return NULL;
	/*
	 * dev->net is no reference: the namespace may be gone with the netdev.
	 * While the netdev is held, its namespace is there.
	 */
	ndev = agg_dev_get_netdev(dev);
	if (ndev && !genl_has_listeners(&agg_nl_family, dev_net(ndev), RDMA_AGG_NLGRP_MON)) {
		dev_put(ndev);
		ndev = NULL;
	}
	return ndev;
}

/* Send a notice that @fill builds, or tell listeners that they have missed one. */
static void agg_nl_notify(struct agg_dev *dev, u8 cmd, enum rdma_agg_event event,
			  int (*fill)(struct agg_nl_msg *msg, struct agg_dev *dev, const void *obj),
			  const void *obj)
{
	struct net_device *ndev;
	struct sk_buff *skb;
	int err = -ENOBUFS;

	down_read(&agg_nl_sem);
	ndev = agg_nl_listened(dev);
	if (!ndev)
		goto out;
	skb = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (skb) {
		struct agg_nl_msg msg = {
			.skb = skb,
			.cmd = cmd,
			.event = event,
			.old_state = -1,
		};

		err = fill(&msg, dev, obj);
		if (err)
			nlmsg_free(skb);
		else
			genlmsg_multicast_netns(&agg_nl_family, dev_net(ndev), skb, 0,
						RDMA_AGG_NLGRP_MON, GFP_KERNEL);
	}
	/* They ask for everything then, as after an overrun of their own buffer. */
	if (err)
		genl_set_err(&agg_nl_family, dev_net(ndev), 0, RDMA_AGG_NLGRP_MON, -ENOBUFS);
	dev_put(ndev);
out:
	up_read(&agg_nl_sem);
}

static int agg_nl_fill_dev_ntf(struct agg_nl_msg *msg, struct agg_dev *dev, const void *obj)
{
	return agg_nl_fill_dev(msg, dev);
}

/**
 * agg_nl_dev_event() - tell listeners that a device has come or goes
 * @dev: the device, with its identity netdev
 * @added: it has come
 *
 * Context: may sleep; any lock of ours may be held.
 */
void agg_nl_dev_event(struct agg_dev *dev, bool added)
{
	agg_nl_notify(dev, RDMA_AGG_CMD_DEV_NTF, added ? RDMA_AGG_EVENT_NEW : RDMA_AGG_EVENT_DEL,
		      agg_nl_fill_dev_ntf, NULL);
}

struct agg_nl_lane_change {
	struct agg_lane *lane;
	int old_state;
};

static int agg_nl_fill_lane_ntf(struct agg_nl_msg *msg, struct agg_dev *dev, const void *obj)
{
	const struct agg_nl_lane_change *change = obj;

	msg->old_state = change->old_state;
	return agg_nl_fill_lane(msg, dev, change->lane);
}

/**
 * agg_nl_lane_event() - tell listeners of a lane
 * @lane: the lane, held
 * @from: the state it had
 * @to: the state it has; equal to @from when the lane has just joined or,
 *	with lane->dead set, left
 *
 * Context: may sleep; any lock of ours may be held.
 */
void agg_nl_lane_event(struct agg_lane *lane, enum agg_lane_state from, enum agg_lane_state to)
{
	struct agg_nl_lane_change change = {
		.lane = lane,
		.old_state = from != to ? (int)from : -1,
	};
	enum rdma_agg_event event = RDMA_AGG_EVENT_CHANGE;

	if (from == to)
		event = READ_ONCE(lane->dead) ? RDMA_AGG_EVENT_DEL : RDMA_AGG_EVENT_NEW;
	agg_nl_notify(lane->dev, RDMA_AGG_CMD_LANE_NTF, event, agg_nl_fill_lane_ntf, &change);
}

/**
 * agg_nl_lane_set_event() - tell listeners that a lane has a new rail or weight
 * @lane: the lane, held
 *
 * Context: may sleep.
 */
void agg_nl_lane_set_event(struct agg_lane *lane)
{
	struct agg_nl_lane_change change = { .lane = lane, .old_state = -1 };

	agg_nl_notify(lane->dev, RDMA_AGG_CMD_LANE_NTF, RDMA_AGG_EVENT_CHANGE,
		      agg_nl_fill_lane_ntf, &change);
}

static int agg_nl_fill_peer_ntf(struct agg_nl_msg *msg, struct agg_dev *dev, const void *obj)
{
	return agg_nl_fill_peer(msg, dev, obj, false);
}

/**
 * agg_nl_peer_event() - tell listeners of a session
 * @dev: the device, with its identity netdev
 * @gid: the peer
 * @up: the session is established
 * @err: why it is not, -errno or 0
 *
 * Context: may sleep; any lock of ours may be held.
 */
void agg_nl_peer_event(struct agg_dev *dev, const union ib_gid *gid, bool up, int err)
{
	struct agg_peer_info info = {
		.gid = *gid,
		.up = up,
		.last_err = err,
	};

	agg_nl_notify(dev, RDMA_AGG_CMD_PEER_NTF, RDMA_AGG_EVENT_CHANGE, agg_nl_fill_peer_ntf,
		      &info);
}

static int agg_nl_fill_qp_ntf(struct agg_nl_msg *msg, struct agg_dev *dev, const void *obj)
{
	/* the counterpart of the cast to const void * in agg_nl_qp_event() */
	return agg_nl_fill_qp(msg, dev, (struct agg_qp *)obj);
}

/**
 * agg_nl_qp_event() - tell listeners of a QP
 * @qp: the QP, held
 *
 * Context: may sleep; any mutex of ours may be held.
 */
void agg_nl_qp_event(struct agg_qp *qp)
{
	agg_nl_notify(qp->dev, RDMA_AGG_CMD_QP_NTF,
		      READ_ONCE(qp->dead) ? RDMA_AGG_EVENT_DEL : RDMA_AGG_EVENT_CHANGE,
		      agg_nl_fill_qp_ntf, qp);
}

static int agg_nl_fill_param_ntf(struct agg_nl_msg *msg, struct agg_dev *dev, const void *obj)
{
	return agg_nl_fill_param(msg, dev);
}

/**
 * agg_nl_param_event() - tell listeners of new parameters
 * @dev: the device
 *
 * Context: may sleep.
 */
void agg_nl_param_event(struct agg_dev *dev)
{
	agg_nl_notify(dev, RDMA_AGG_CMD_PARAM_NTF, RDMA_AGG_EVENT_CHANGE,
		      agg_nl_fill_param_ntf, NULL);
}

/* ---- The family ---- */

/**
 * agg_netlink_init() - register the family
 *
 * Context: module init.
 * Return: 0 or -errno.
 */
int __init agg_netlink_init(void)
{
	int err = genl_register_family(&agg_nl_family);

	if (err)
		return err;
	down_write(&agg_nl_sem);
	agg_nl_ready = true;
	up_write(&agg_nl_sem);
	return 0;
}

/**
 * agg_netlink_exit() - unregister the family
 *
 * Devices may still be there: their notices go nowhere from now on.
 *
 * Context: module exit or a failed init.
 */
void agg_netlink_exit(void)
{
	down_write(&agg_nl_sem);
	agg_nl_ready = false;
	up_write(&agg_nl_sem);
	genl_unregister_family(&agg_nl_family);
}
