// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Objects as netlink messages.
 *
 * These functions are called for replies, dumps and notices, the latter with
 * mutexes of ours held: so they take none. They return -EMSGSIZE when the
 * object does not fit, and have then put nothing.
 */
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <net/netlink.h>
#include <rdma/restrack.h>

#include "agg.h"
#include "nl.h"
#include "session.h"
#include "stats.h"

/* ---- What all objects have ---- */

static void *agg_nl_start(const struct agg_nl_msg *msg)
{
	return genlmsg_put(msg->skb, msg->portid, msg->seq, &agg_nl_family, msg->flags, msg->cmd);
}

/* Name and index have the same numbers in all sets (netlink.c sees to it). */
static int agg_nl_put_dev(const struct agg_nl_msg *msg, struct agg_dev *dev)
{
	if (nla_put_u32(msg->skb, RDMA_AGG_A_DEV_DEV_INDEX, dev->ibdev.index) ||
	    nla_put_string(msg->skb, RDMA_AGG_A_DEV_DEV_NAME, dev_name(&dev->ibdev.dev)))
		return -EMSGSIZE;
	return 0;
}

/* So has the event, in those sets that have notices about objects. */
static int agg_nl_put_event(const struct agg_nl_msg *msg)
{
	if (msg->event < 0)
		return 0;
	return nla_put_u32(msg->skb, RDMA_AGG_A_DEV_EVENT, msg->event);
}

static int agg_nl_put_gid(struct sk_buff *skb, int attr, const union ib_gid *gid)
{
	return nla_put(skb, attr, sizeof(*gid), gid);
}

/* ---- Devices and lanes ---- */

static unsigned int agg_nl_count_qps(struct agg_dev *dev)
{
	unsigned long qpn;
	unsigned int n = 0;
	void *qp;

	xa_for_each(&dev->qps, qpn, qp)
		n++;
	return n;
}

static void agg_nl_count_lanes(struct agg_dev *dev, u32 *lanes, u32 *usable)
{
	struct agg_lane *lane;
	int i;

	*lanes = 0;
	*usable = 0;
	rcu_read_lock();
	for (i = 0; i < AGG_MAX_LANES; i++) {
		lane = rcu_dereference(dev->lanes[i]);
		if (!lane)
			continue;
		++*lanes;
		*usable += agg_lane_usable(READ_ONCE(lane->state));
	}
	rcu_read_unlock();
}

static u32 agg_nl_policy(struct agg_dev *dev)
{
	u32 id;

	rcu_read_lock();
	id = rcu_dereference(dev->policy)->id;
	rcu_read_unlock();
	return id;
}

static int agg_nl_put_netdev(const struct agg_nl_msg *msg, struct agg_dev *dev)
{
	struct net_device *ndev = agg_dev_get_netdev(dev);
	int err;

	if (!ndev)
		return 0;
	err = nla_put_u32(msg->skb, RDMA_AGG_A_DEV_IFINDEX, ndev->ifindex) ?:
	      nla_put_string(msg->skb, RDMA_AGG_A_DEV_IFNAME, ndev->name);
	dev_put(ndev);
	return err;
}

/**
 * agg_nl_fill_dev() - put a device
 * @msg: where to
 * @dev: the device
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int agg_nl_fill_dev(struct agg_nl_msg *msg, struct agg_dev *dev)
{
	struct sk_buff *skb = msg->skb;
	u32 lanes, usable;
	enum ib_mtu mtu;
	void *hdr;
	u64 speed;

	agg_nl_count_lanes(dev, &lanes, &usable);
	agg_dev_speed(dev, &speed, &mtu);

	hdr = agg_nl_start(msg);
	if (!hdr)
		return -EMSGSIZE;
	if (agg_nl_put_dev(msg, dev) ||
	    agg_nl_put_event(msg) ||
	    agg_nl_put_netdev(msg, dev) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_DEV_NODE_GUID, be64_to_cpu(dev->ibdev.node_guid),
			      RDMA_AGG_A_DEV_PAD) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_DEV_INSTANCE, dev->instance, RDMA_AGG_A_DEV_PAD) ||
	    nla_put_u32(skb, RDMA_AGG_A_DEV_PORT_STATE, READ_ONCE(dev->port_state)) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_DEV_SPEED, speed, RDMA_AGG_A_DEV_PAD) ||
	    nla_put_u32(skb, RDMA_AGG_A_DEV_MTU, ib_mtu_enum_to_int(mtu)) ||
	    nla_put_u32(skb, RDMA_AGG_A_DEV_POLICY, agg_nl_policy(dev)) ||
	    nla_put_u32(skb, RDMA_AGG_A_DEV_LANES, lanes) ||
	    nla_put_u32(skb, RDMA_AGG_A_DEV_USABLE_LANES, usable) ||
	    nla_put_u32(skb, RDMA_AGG_A_DEV_QPS, agg_nl_count_qps(dev)) ||
	    nla_put_u32(skb, RDMA_AGG_A_DEV_LANES_EPOCH, READ_ONCE(dev->lanes_epoch))) {
		genlmsg_cancel(skb, hdr);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, hdr);
	return 0;
}

static int agg_nl_put_lane_state(const struct agg_nl_msg *msg, const struct agg_lane *lane)
{
	/* what the notice is about, though the lane may have moved on */
	if (msg->old_state >= 0 &&
	    nla_put_u32(msg->skb, RDMA_AGG_A_LANE_OLD_STATE, msg->old_state))
		return -EMSGSIZE;
	return nla_put_u32(msg->skb, RDMA_AGG_A_LANE_STATE, READ_ONCE(lane->state));
}

static int agg_nl_put_lane_gids(const struct agg_nl_msg *msg, struct agg_lane *lane)
{
	union ib_gid gid[AGG_LANE_GIDS];
	unsigned int n, i;

	n = agg_lane_gids(lane, gid);
	for (i = 0; i < n; i++)
		if (agg_nl_put_gid(msg->skb, RDMA_AGG_A_LANE_GID, &gid[i]))
			return -EMSGSIZE;
	return 0;
}

/**
 * agg_nl_fill_lane() - put a lane
 * @msg: where to
 * @dev: its device
 * @lane: the lane, held
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int agg_nl_fill_lane(struct agg_nl_msg *msg, struct agg_dev *dev, struct agg_lane *lane)
{
	struct sk_buff *skb = msg->skb;
	u64 stat[AGG_STAT_LANE_NR];
	void *hdr;

	agg_stats_of_lane(lane, stat);

	hdr = agg_nl_start(msg);
	if (!hdr)
		return -EMSGSIZE;
	if (agg_nl_put_dev(msg, dev) ||
	    agg_nl_put_event(msg) ||
	    nla_put_string(skb, RDMA_AGG_A_LANE_IBDEV_NAME, lane->ibdev_name) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_IBDEV_PORT, lane->port) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_LANE_ID, lane->id) ||
	    nla_put_string(skb, RDMA_AGG_A_LANE_IFNAME, lane->netdev_name) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_RAIL, READ_ONCE(lane->rail)) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_WEIGHT, READ_ONCE(lane->weight)) ||
	    nla_put_u8(skb, RDMA_AGG_A_LANE_WEIGHT_FIXED, READ_ONCE(lane->weight_fixed)) ||
	    agg_nl_put_lane_state(msg, lane) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_SPEED, READ_ONCE(lane->speed)) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_MTU, ib_mtu_enum_to_int(READ_ONCE(lane->mtu))) ||
	    (lane->numa_node != NUMA_NO_NODE &&
	     nla_put_s32(skb, RDMA_AGG_A_LANE_NUMA_NODE, lane->numa_node)) ||
	    agg_nl_put_lane_gids(msg, lane) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_TX_QUEUES, lane->nr_tx) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_RX_QUEUES, lane->nr_rx) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_FLOWS, READ_ONCE(lane->home_flows)) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_QPS, READ_ONCE(lane->nr_qps)) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_LANE_OUTSTANDING_BYTES, stat[AGG_STAT_OUT_BYTES],
			      RDMA_AGG_A_LANE_PAD) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_LANE_STATE_CHANGES, READ_ONCE(lane->state_changes),
			      RDMA_AGG_A_LANE_PAD) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_LANE_CREATED, lane->created, RDMA_AGG_A_LANE_PAD) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_ADMIN, READ_ONCE(lane->admin)) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_PATHS, READ_ONCE(lane->probe.nr_paths)) ||
	    nla_put_u32(skb, RDMA_AGG_A_LANE_PATHS_DEAD, READ_ONCE(lane->probe.nr_dead))) {
		genlmsg_cancel(skb, hdr);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, hdr);
	return 0;
}

/* ---- Peers and QPs ---- */

static int agg_nl_put_peer_more(struct sk_buff *skb, const struct agg_peer_info *peer)
{
	if (agg_nl_put_gid(skb, RDMA_AGG_A_PEER_SGID, &peer->sgid) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_PEER_INSTANCE, peer->instance,
			      RDMA_AGG_A_PEER_PAD) ||
	    nla_put_u32(skb, RDMA_AGG_A_PEER_LANES, peer->nr_lanes) ||
	    nla_put_u32(skb, RDMA_AGG_A_PEER_KEYS, peer->nr_keys) ||
	    nla_put_u32(skb, RDMA_AGG_A_PEER_QPS, peer->users) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_PEER_SINCE, peer->since, RDMA_AGG_A_PEER_PAD) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_PEER_TX_MESSAGES, peer->tx_msgs,
			      RDMA_AGG_A_PEER_PAD) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_PEER_RX_MESSAGES, peer->rx_msgs,
			      RDMA_AGG_A_PEER_PAD) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_PEER_RECONNECTS, peer->reconnects,
			      RDMA_AGG_A_PEER_PAD))
		return -EMSGSIZE;
	return 0;
}

/**
 * agg_nl_fill_peer() - put a peer
 * @msg: where to
 * @dev: the device
 * @peer: what is known of the peer
 * @all: all of it; else only what a notice tells: who, and how it is
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int agg_nl_fill_peer(struct agg_nl_msg *msg, struct agg_dev *dev,
		     const struct agg_peer_info *peer, bool all)
{
	struct sk_buff *skb = msg->skb;
	void *hdr;

	hdr = agg_nl_start(msg);
	if (!hdr)
		return -EMSGSIZE;
	if (agg_nl_put_dev(msg, dev) ||
	    agg_nl_put_event(msg) ||
	    agg_nl_put_gid(skb, RDMA_AGG_A_PEER_GID, &peer->gid) ||
	    nla_put_u32(skb, RDMA_AGG_A_PEER_STATE,
			peer->up ? RDMA_AGG_PEER_STATE_UP : RDMA_AGG_PEER_STATE_DOWN) ||
	    (peer->last_err && !peer->up &&
	     nla_put_u32(skb, RDMA_AGG_A_PEER_ERROR, abs(peer->last_err))) ||
	    (all && agg_nl_put_peer_more(skb, peer))) {
		genlmsg_cancel(skb, hdr);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, hdr);
	return 0;
}

/* What is told of a home path; taken under sq.lock, so it is of one moment. */
struct agg_nl_path {
	enum ib_qp_state state;
	bool there;
	u8 lane_id;
	u8 peer_lane;
	u32 port;
	u32 tx, rx;
	u32 lane_qpn, peer_qpn;
	union ib_gid peer_gid;
	char ibdev_name[IB_DEVICE_NAME_MAX];
};

/*
 * qp->lqp and what is in it change under qp->mutex and both ring locks: any
 * of them keeps it. The mutex may be the caller's already, so not that one.
 */
static void agg_nl_read_path(struct agg_qp *qp, struct agg_nl_path *path)
{
	const struct agg_lqp *lqp;
	unsigned long flags;

	spin_lock_irqsave(&qp->sq.lock, flags);
	path->state = qp->state;
	lqp = qp->lqp;
	path->there = lqp;
	if (lqp) {
		path->lane_id = lqp->lane->id;
		path->port = lqp->lane->port;
		memcpy(path->ibdev_name, lqp->lane->ibdev_name, sizeof(path->ibdev_name));
		path->tx = lqp->scq - lqp->lane->tx;
		path->rx = lqp->rcq - lqp->lane->rx;
		path->lane_qpn = lqp->ibqp->qp_num;
		path->peer_lane = lqp->peer_lane;
		path->peer_qpn = lqp->peer_qpn;
		path->peer_gid = lqp->peer_gid;
	}
	spin_unlock_irqrestore(&qp->sq.lock, flags);
}

static int agg_nl_put_path(struct sk_buff *skb, const struct agg_nl_path *path, bool attached)
{
	if (!path->there)
		return 0;
	if (nla_put_u32(skb, RDMA_AGG_A_QP_LANE_ID, path->lane_id) ||
	    nla_put_string(skb, RDMA_AGG_A_QP_IBDEV_NAME, path->ibdev_name) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_IBDEV_PORT, path->port) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_TX_QUEUE, path->tx) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_RX_QUEUE, path->rx) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_LANE_QPN, path->lane_qpn))
		return -EMSGSIZE;
	if (!attached)
		return 0;
	if (nla_put_u32(skb, RDMA_AGG_A_QP_PEER_LANE_ID, path->peer_lane) ||
	    agg_nl_put_gid(skb, RDMA_AGG_A_QP_PEER_LANE_GID, &path->peer_gid) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_PEER_LANE_QPN, path->peer_qpn))
		return -EMSGSIZE;
	return 0;
}

/* The numbers move meanwhile; each is right by itself. */
static int agg_nl_put_failover(struct sk_buff *skb, const struct agg_qp *qp)
{
	const struct agg_failover *fo = &qp->fo;

	if (nla_put_u32(skb, RDMA_AGG_A_QP_EPOCH, READ_ONCE(fo->fence.epoch)) ||
	    nla_put_u8(skb, RDMA_AGG_A_QP_FAILING, agg_fo_failing(qp)) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_FAILOVERS, READ_ONCE(fo->failovers)) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_MOVES, READ_ONCE(fo->moves)))
		return -EMSGSIZE;
	if (!READ_ONCE(fo->failovers))
		return 0;
	if (nla_put_u32(skb, RDMA_AGG_A_QP_FAILOVER_CAUSE, READ_ONCE(fo->last_cause)) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_FAILOVER_LAST, READ_ONCE(fo->last_us)) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_FAILOVER_MAX, READ_ONCE(fo->max_us)) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_QP_REQUESTS_REPLAYED, READ_ONCE(fo->replayed),
			      RDMA_AGG_A_QP_PAD) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_QP_REQUESTS_RESOLVED, READ_ONCE(fo->resolved),
			      RDMA_AGG_A_QP_PAD))
		return -EMSGSIZE;
	return 0;
}

/* The caller holds the QP, and so its restrack entry and the task in it. */
static int agg_nl_put_owner(struct sk_buff *skb, const struct agg_qp *qp)
{
	const struct rdma_restrack_entry *res = &qp->ibqp.res;
	char comm[TASK_COMM_LEN];
	pid_t pid;

	if (rdma_is_kernel_res(res))
		return res->kern_name ? nla_put_string(skb, RDMA_AGG_A_QP_COMM, res->kern_name) :
					0;
	/* 0 when it has died, or is not in the asker's pid namespace */
	pid = task_pid_vnr(res->task);
	if (!pid)
		return 0;
	get_task_comm(comm, res->task);
	if (nla_put_u32(skb, RDMA_AGG_A_QP_PID, pid) ||
	    nla_put_string(skb, RDMA_AGG_A_QP_COMM, comm))
		return -EMSGSIZE;
	return 0;
}

/**
 * agg_nl_fill_qp() - put a QP
 * @msg: where to
 * @dev: its device
 * @qp: the QP, held
 *
 * Of who the peer is, which qp->mutex protects, a moment's mixture may be
 * shown while the application names it.
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int agg_nl_fill_qp(struct agg_nl_msg *msg, struct agg_dev *dev, struct agg_qp *qp)
{
	bool attached = READ_ONCE(qp->attached);
	bool named = READ_ONCE(qp->named) || attached;
	struct sk_buff *skb = msg->skb;
	struct agg_nl_path path;
	void *hdr;

	agg_nl_read_path(qp, &path);

	hdr = agg_nl_start(msg);
	if (!hdr)
		return -EMSGSIZE;
	if (agg_nl_put_dev(msg, dev) ||
	    agg_nl_put_event(msg) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_QPN, qp->ibqp.qp_num) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_TYPE, qp->ibqp.qp_type) ||
	    nla_put_u32(skb, RDMA_AGG_A_QP_STATE, path.state) ||
	    (named &&
	     (agg_nl_put_gid(skb, RDMA_AGG_A_QP_SGID, &qp->sgid) ||
	      agg_nl_put_gid(skb, RDMA_AGG_A_QP_PEER_GID, &qp->dgid) ||
	      nla_put_u32(skb, RDMA_AGG_A_QP_PEER_QPN, qp->dqpn) ||
	      nla_put_u32(skb, RDMA_AGG_A_QP_FLOW_HASH, READ_ONCE(qp->flow_hash)))) ||
	    nla_put_u8(skb, RDMA_AGG_A_QP_ATTACHED, attached) ||
	    agg_nl_put_path(skb, &path, attached) ||
	    agg_nl_put_owner(skb, qp) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_QP_CREATED, qp->created, RDMA_AGG_A_QP_PAD) ||
	    (attached && agg_nl_put_failover(skb, qp))) {
		genlmsg_cancel(skb, hdr);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, hdr);
	return 0;
}

/* ---- Counters ---- */

#define EVENT(c)	(AGG_STAT_EVENTS + AGG_CNT_##c)

static const u16 agg_nl_stat_attr[AGG_STAT_NR] = {
	[AGG_STAT_TX_REQS]	= RDMA_AGG_A_STAT_TX_REQUESTS,
	[AGG_STAT_TX_BYTES]	= RDMA_AGG_A_STAT_TX_BYTES,
	[AGG_STAT_TX_DONE_REQS]	= RDMA_AGG_A_STAT_TX_COMPLETED_REQUESTS,
	[AGG_STAT_TX_DONE_BYTES] = RDMA_AGG_A_STAT_TX_COMPLETED_BYTES,
	[AGG_STAT_TX_ERRORS]	= RDMA_AGG_A_STAT_TX_ERRORS,
	[AGG_STAT_TX_FLUSHED]	= RDMA_AGG_A_STAT_TX_FLUSHED,
	[AGG_STAT_RX_POSTED]	= RDMA_AGG_A_STAT_RX_POSTED,
	[AGG_STAT_RX_REQS]	= RDMA_AGG_A_STAT_RX_REQUESTS,
	[AGG_STAT_RX_BYTES]	= RDMA_AGG_A_STAT_RX_BYTES,
	[AGG_STAT_RX_ERRORS]	= RDMA_AGG_A_STAT_RX_ERRORS,
	[AGG_STAT_RX_FLUSHED]	= RDMA_AGG_A_STAT_RX_FLUSHED,
	[AGG_STAT_OUT_REQS]	= RDMA_AGG_A_STAT_OUTSTANDING_REQUESTS,
	[AGG_STAT_OUT_BYTES]	= RDMA_AGG_A_STAT_OUTSTANDING_BYTES,
	[EVENT(TRAP_ARMED)]	= RDMA_AGG_A_STAT_TRAPS_ARMED,
	[EVENT(TRAP_HIT)]		= RDMA_AGG_A_STAT_TRAPS_HIT,
	[EVENT(DOORBELLS)]	= RDMA_AGG_A_STAT_DOORBELLS,
	[EVENT(CQ_OVERFLOW)]	= RDMA_AGG_A_STAT_CQ_OVERFLOWS,
	[EVENT(BAD_WQE)]		= RDMA_AGG_A_STAT_BAD_WQES,
	[EVENT(KEY_MISS)]		= RDMA_AGG_A_STAT_KEY_MISSES,
	[EVENT(KEY_ABSENT)]	= RDMA_AGG_A_STAT_KEYS_ABSENT,
	[EVENT(ATTACH_OK)]	= RDMA_AGG_A_STAT_ATTACHES,
	[EVENT(ATTACH_FAIL)]	= RDMA_AGG_A_STAT_ATTACH_FAILURES,
	[EVENT(SESSION_UP)]	= RDMA_AGG_A_STAT_SESSIONS_UP,
	[EVENT(SESSION_DOWN)]	= RDMA_AGG_A_STAT_SESSIONS_DOWN,
	[EVENT(SESSION_REJECT)]	= RDMA_AGG_A_STAT_SESSIONS_REJECTED,
	[EVENT(SESSION_BAD_MSG)]	= RDMA_AGG_A_STAT_BAD_MESSAGES,
	[EVENT(QP_FATAL)]		= RDMA_AGG_A_STAT_QP_ERRORS,
	[EVENT(RNR_EXCEEDED)]	= RDMA_AGG_A_STAT_RNR_EXCEEDED,
	[EVENT(FAILOVER)]	= RDMA_AGG_A_STAT_FAILOVERS,
	[EVENT(FAILOVER_LOST)]	= RDMA_AGG_A_STAT_FAILOVERS_LOST,
	[EVENT(MOVE)]		= RDMA_AGG_A_STAT_MOVES,
	[EVENT(REPLAYED)]	= RDMA_AGG_A_STAT_REQUESTS_REPLAYED,
	[EVENT(RESOLVED)]	= RDMA_AGG_A_STAT_REQUESTS_RESOLVED,
	[EVENT(ATOMIC_LOST)]	= RDMA_AGG_A_STAT_ATOMICS_LOST,
	[EVENT(PATH_LOST)]	= RDMA_AGG_A_STAT_PATHS_LOST,
};

static int agg_nl_put_stats(struct sk_buff *skb, const u64 *v, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (agg_nl_stat_attr[i] &&
		    nla_put_u64_64bit(skb, agg_nl_stat_attr[i], v[i], RDMA_AGG_A_STAT_PAD))
			return -EMSGSIZE;
	return 0;
}

static u32 agg_nl_count_flows(struct agg_dev *dev)
{
	struct agg_lane *lane;
	u32 n = 0;
	int i;

	rcu_read_lock();
	for (i = 0; i < AGG_MAX_LANES; i++) {
		lane = rcu_dereference(dev->lanes[i]);
		if (lane)
			n += READ_ONCE(lane->home_flows);
	}
	rcu_read_unlock();
	return n;
}

/**
 * agg_nl_fill_dev_stats() - put the counters of a device
 * @msg: where to
 * @dev: the device
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int agg_nl_fill_dev_stats(struct agg_nl_msg *msg, struct agg_dev *dev)
{
	u64 v[AGG_STAT_NR];
	void *hdr;

	agg_stats_of_dev(dev, v);

	hdr = agg_nl_start(msg);
	if (!hdr)
		return -EMSGSIZE;
	if (agg_nl_put_dev(msg, dev) ||
	    agg_nl_put_stats(msg->skb, v, AGG_STAT_NR) ||
	    nla_put_u32(msg->skb, RDMA_AGG_A_STAT_FLOWS, agg_nl_count_flows(dev))) {
		genlmsg_cancel(msg->skb, hdr);
		return -EMSGSIZE;
	}
	genlmsg_end(msg->skb, hdr);
	return 0;
}

static int agg_nl_put_queue(struct sk_buff *skb, const struct agg_lcq *lcq, unsigned int index)
{
	struct nlattr *nest;
	int left;

	nest = nla_nest_start(skb, RDMA_AGG_A_STAT_QUEUE);
	if (!nest)
		return -EMSGSIZE;
	left = clamp_t(int, atomic_read(&lcq->credits), 0, lcq->size);
	if (nla_put_u32(skb, RDMA_AGG_A_QUEUE_DIRECTION,
			lcq->rx ? RDMA_AGG_DIRECTION_RX : RDMA_AGG_DIRECTION_TX) ||
	    nla_put_u32(skb, RDMA_AGG_A_QUEUE_INDEX, index) ||
	    nla_put_u32(skb, RDMA_AGG_A_QUEUE_VECTOR, lcq->vector) ||
	    nla_put_u32(skb, RDMA_AGG_A_QUEUE_SIZE, lcq->size) ||
	    nla_put_u32(skb, RDMA_AGG_A_QUEUE_RESERVED, lcq->size - left) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_QUEUE_INTERRUPTS, READ_ONCE(lcq->interrupts),
			      RDMA_AGG_A_QUEUE_PAD) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_QUEUE_COMPLETIONS, READ_ONCE(lcq->completions),
			      RDMA_AGG_A_QUEUE_PAD) ||
	    nla_put_u64_64bit(skb, RDMA_AGG_A_QUEUE_RESCHEDULES, READ_ONCE(lcq->rescheds),
			      RDMA_AGG_A_QUEUE_PAD) ||
	    nla_put_u32(skb, RDMA_AGG_A_QUEUE_BATCH_MAX, READ_ONCE(lcq->batch_max))) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(skb, nest);
	return 0;
}

/**
 * agg_nl_fill_lane_stats() - put the counters of a lane, as many queues as fit
 * @msg: where to
 * @dev: its device
 * @lane: the lane, held
 * @queue: the queue to begin with; moved on to the first that is not put. All
 *	but queues is put only when this is 0.
 *
 * The one function here that may have put a part when it returns -EMSGSIZE:
 * @queue tells.
 *
 * Context: process.
 * Return: 0 when the last queue is put, or -EMSGSIZE.
 */
int agg_nl_fill_lane_stats(struct agg_nl_msg *msg, struct agg_dev *dev, struct agg_lane *lane,
			   unsigned int *queue)
{
	unsigned int total = lane->nr_tx + lane->nr_rx, first = *queue, i;
	struct sk_buff *skb = msg->skb;
	u64 v[AGG_STAT_LANE_NR];
	void *hdr;

	agg_stats_of_lane(lane, v);

	hdr = agg_nl_start(msg);
	if (!hdr)
		return -EMSGSIZE;
	if (agg_nl_put_dev(msg, dev) ||
	    nla_put_string(skb, RDMA_AGG_A_STAT_IBDEV_NAME, lane->ibdev_name) ||
	    nla_put_u32(skb, RDMA_AGG_A_STAT_IBDEV_PORT, lane->port) ||
	    nla_put_u32(skb, RDMA_AGG_A_STAT_LANE_ID, lane->id))
		goto cancel;
	if (!first && (agg_nl_put_stats(skb, v, AGG_STAT_LANE_NR) ||
		       nla_put_u32(skb, RDMA_AGG_A_STAT_FLOWS, READ_ONCE(lane->home_flows))))
		goto cancel;
	for (i = first; i < total; i++) {
		if (i < lane->nr_tx ? agg_nl_put_queue(skb, &lane->tx[i], i) :
				      agg_nl_put_queue(skb, &lane->rx[i - lane->nr_tx],
						       i - lane->nr_tx))
			break;
	}
	/* A message that adds nothing; and a first one would come twice. */
	if (i == first && i < total)
		goto cancel;
	genlmsg_end(skb, hdr);
	*queue = i;
	return i < total ? -EMSGSIZE : 0;

cancel:
	genlmsg_cancel(skb, hdr);
	return -EMSGSIZE;
}

/* ---- Parameters ---- */

/**
 * agg_nl_fill_param() - put the parameters of a device
 * @msg: where to
 * @dev: the device
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int agg_nl_fill_param(struct agg_nl_msg *msg, struct agg_dev *dev)
{
	const struct agg_params *p = &dev->params;
	struct sk_buff *skb = msg->skb;
	void *hdr;

	hdr = agg_nl_start(msg);
	if (!hdr)
		return -EMSGSIZE;
	if (agg_nl_put_dev(msg, dev) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_POLICY, agg_nl_policy(dev)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_LOAD_BOUND, READ_ONCE(p->load_bound)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_TX_QUEUES, READ_ONCE(p->tx_queues)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_RX_QUEUES, READ_ONCE(p->rx_queues)) ||
	    nla_put_u16(skb, RDMA_AGG_A_PARAM_SESSION_PORT, READ_ONCE(p->session_port)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_CONNECT_TIMEOUT,
			READ_ONCE(p->connect_timeout_ms)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_KEEPALIVE, READ_ONCE(p->keepalive_ms)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_RNR_GRACE, READ_ONCE(p->rnr_grace_ms)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_ACK_TIMEOUT_MIN, READ_ONCE(p->ack_timeout_min)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_ACK_TIMEOUT_MAX, READ_ONCE(p->ack_timeout_max)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_FAILOVER_TIMEOUT,
			READ_ONCE(p->failover_timeout_ms)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_UPDELAY, READ_ONCE(p->updelay_ms)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_PROBE_INTERVAL, READ_ONCE(p->probe_interval_ms)) ||
	    nla_put_u32(skb, RDMA_AGG_A_PARAM_PROBE_LOST, READ_ONCE(p->probe_lost)) ||
	    nla_put_u8(skb, RDMA_AGG_A_PARAM_PSK_SET, agg_session_has_psk(dev))) {
		genlmsg_cancel(skb, hdr);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, hdr);
	return 0;
}
