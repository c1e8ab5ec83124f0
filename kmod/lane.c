// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Lanes: the underlying devices, how they join and leave.
 *
 * lanes_mutex serialises joining, leaving and our ib_client's callbacks. A
 * lane leaves in this order, each step making the next one safe:
 *   1. dead + out of the table: no new lane QP is created on it
 *      (agg_lqp_create() checks @dead under qps_lock);
 *   2. its event handler, probes and work are gone: no more state changes;
 *   3. its lane QPs are drained and destroyed: no posts, no completions; what
 *      they have executed is kept by their QPs, which go on by other lanes;
 *   4. MRs and PDs, then the lane CQs; the device takes over what it has counted;
 *   5. the table's reference; the memory goes after an RCU grace period.
 */
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <net/ipv6.h>
#include <rdma/ib_cache.h>

#include "agg.h"
#include "session.h"
#include "trace.h"

#define AGG_LCQ_SIZE	16383
#define AGG_DRAIN_MS	2000	/* for the flows of a lane to leave it before it is removed */

struct agg_candidate_dev {
	struct list_head node;
	struct ib_device *ibdev;
};

static DEFINE_MUTEX(lanes_mutex);
static LIST_HEAD(candidates);

/*
 * Lookup and references
 */

static void agg_lane_free_rcu(struct rcu_head *rcu)
{
	struct agg_lane *lane = container_of(rcu, struct agg_lane, rcu);

	free_percpu(lane->stats);
	kvfree(lane->tx);
	kvfree(lane->rx);
	kfree(lane);
}

static void agg_lane_release(struct kref *ref)
{
	struct agg_lane *lane = container_of(ref, struct agg_lane, ref);

	call_rcu(&lane->rcu, agg_lane_free_rcu);
}

/**
 * agg_lane_put() - drop a reference
 * @lane: the lane
 *
 * Context: any.
 */
void agg_lane_put(struct agg_lane *lane)
{
	kref_put(&lane->ref, agg_lane_release);
}

/**
 * agg_lane_get() - the lane of an id
 * @dev: the device
 * @id: lane id
 *
 * Context: any. Return: the lane with a reference, or NULL.
 */
struct agg_lane *agg_lane_get(struct agg_dev *dev, u8 id)
{
	struct agg_lane *lane = NULL;

	if (id >= AGG_MAX_LANES)
		return NULL;
	rcu_read_lock();
	lane = rcu_dereference(dev->lanes[id]);
	if (lane && !kref_get_unless_zero(&lane->ref))
		lane = NULL;
	rcu_read_unlock();
	return lane;
}

/**
 * agg_lane_add_stats() - add a lane's counters, summed over the CPUs
 * @lane: the lane
 * @sum: is added to
 *
 * Context: any. Counters move meanwhile: each is exact, their differences are
 * approximate while traffic runs.
 */
void agg_lane_add_stats(const struct agg_lane *lane, struct agg_lane_stats *sum)
{
	const u64 *from;
	u64 *to = (u64 *)sum;
	int cpu;
	int i;

	BUILD_BUG_ON(sizeof(*sum) % sizeof(u64));
	for_each_possible_cpu(cpu) {
		from = (const u64 *)per_cpu_ptr(lane->stats, cpu);
		for (i = 0; i < sizeof(*sum) / sizeof(u64); i++)
			to[i] += READ_ONCE(from[i]);
	}
}

/**
 * agg_lane_read_stats() - the counters of a lane
 * @lane: the lane
 * @sum: filled
 *
 * Context: any; see agg_lane_add_stats().
 */
void agg_lane_read_stats(const struct agg_lane *lane, struct agg_lane_stats *sum)
{
	memset(sum, 0, sizeof(*sum));
	agg_lane_add_stats(lane, sum);
}

/* dev->lanes_lock is held. */
static struct agg_lane *agg_lane_find(struct agg_dev *dev, const char *ibdev_name, u32 port)
{
	struct agg_lane *lane;
	int i;

	lockdep_assert_held(&dev->lanes_lock);
	for (i = 0; i < AGG_MAX_LANES; i++) {
		lane = rcu_dereference_protected(dev->lanes[i],
						 lockdep_is_held(&dev->lanes_lock));
		if (lane && lane->port == port && !strcmp(lane->ibdev_name, ibdev_name))
			return lane;
	}
	return NULL;
}

/*
 * What a lane's port says
 */

static u32 agg_port_mbps(const struct ib_port_attr *attr)
{
	/* By bit of enum ib_port_speed; the last, XDR, is not named in 6.1. */
	static const u32 mbps[] = {
		2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000, 200000,
	};
	unsigned int bit = attr->active_speed ? __ffs(attr->active_speed) : 0;
	int width = ib_width_enum_to_int(attr->active_width);

	return mbps[min_t(unsigned int, bit, ARRAY_SIZE(mbps) - 1)] * max(width, 1);
}

/* The netdev of a lane; dev_put() by the caller. */
static struct net_device *agg_lane_netdev(struct ib_device *ibdev, u32 port)
{
	const struct ib_gid_attr *attr;
	struct net_device *ndev = NULL;
	int i;

	/* ib_device_get_netdev() is not exported in 6.1; the GIDs know it too. */
	for (i = 0; i < ibdev->port_data[port].immutable.gid_tbl_len && !ndev; i++) {
		attr = rdma_get_gid_attr(ibdev, port, i);
		if (IS_ERR(attr))
			continue;
		rcu_read_lock();
		ndev = rdma_read_gid_attr_ndev_rcu(attr);
		if (IS_ERR(ndev))
			ndev = NULL;
		else
			dev_hold(ndev);
		rcu_read_unlock();
		rdma_put_gid_attr(attr);
	}
	return ndev;
}

/**
 * agg_gid_class() - which kind of address a GID is
 * @gid: 16 bytes, network order
 *
 * An address reaches only its own kind. The order is also the one in which
 * addresses are preferred.
 *
 * Context: any. Return: 0 IPv4, 1 global IPv6, 2 link-local IPv6.
 */
int agg_gid_class(const u8 *gid)
{
	const struct in6_addr *a = (const struct in6_addr *)gid;

	if (ipv6_addr_v4mapped(a))
		return 0;
	return ipv6_addr_type(a) & IPV6_ADDR_LINKLOCAL ? 2 : 1;
}

static void agg_lane_read_gids(struct agg_lane *lane)
{
	int len = lane->ibdev->port_data[lane->port].immutable.gid_tbl_len;
	const struct ib_gid_attr *attr;
	union ib_gid gid[AGG_LANE_GIDS];
	unsigned int n = 0;
	int rank, i;

	for (rank = 0; rank < 3; rank++) {
		for (i = 0; i < len && n < AGG_LANE_GIDS; i++) {
			attr = rdma_get_gid_attr(lane->ibdev, lane->port, i);
			if (IS_ERR(attr))
				continue;
			if (attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
			    agg_gid_class(attr->gid.raw) == rank)
				gid[n++] = attr->gid;
			rdma_put_gid_attr(attr);
		}
	}

	spin_lock(&lane->gid_lock);
	memcpy(lane->gid, gid, n * sizeof(gid[0]));
	lane->nr_gids = n;
	spin_unlock(&lane->gid_lock);
}

/**
 * agg_lane_gids() - the addresses of a lane
 * @lane: the lane
 * @gid: room for AGG_LANE_GIDS; the preferred one first
 *
 * Context: process. Return: how many.
 */
unsigned int agg_lane_gids(struct agg_lane *lane, union ib_gid *gid)
{
	unsigned int n;

	spin_lock(&lane->gid_lock);
	n = lane->nr_gids;
	memcpy(gid, lane->gid, n * sizeof(*gid));
	spin_unlock(&lane->gid_lock);
	return n;
}

/**
 * agg_lane_open() - may a flow be given to the lane?
 * @lane: the lane
 *
 * One that drains carries what it has, and gets no more.
 *
 * Context: any.
 */
bool agg_lane_open(const struct agg_lane *lane)
{
	return READ_ONCE(lane->admin) == AGG_LANE_ADMIN_UP &&
	       agg_lane_usable(READ_ONCE(lane->state));
}

/* The only place that changes a lane's state. */
static void agg_lane_set_state(struct agg_lane *lane, enum agg_lane_state to, unsigned long caller)
{
	enum agg_lane_state from = lane->state;

	lockdep_assert_held(&lane->dev->lanes_lock);
	if (from == to)
		return;
	if (WARN_ON_ONCE(!agg_lane_state_ok(from, to)))
		return;
	WRITE_ONCE(lane->state, to);
	lane->state_changes++;
	trace_agg_lane_state(lane, from, to, caller);
	agg_nl_lane_event(lane, from, to);
}

/* A port that is active makes a lane usable when probes come through (probe.c). */
static void agg_lane_port_active(struct agg_lane *lane)
{
	if (lane->state == AGG_LANE_DOWN) {
		agg_probe_begin(lane);
		agg_lane_set_state(lane, AGG_LANE_PROBE, _RET_IP_);
	}
	if (lane->state != AGG_LANE_PROBE)
		return;
	if (agg_probe_passed(lane)) {
		agg_lane_set_state(lane, AGG_LANE_UP, _RET_IP_);
		agg_probe_resume(lane);
	} else {
		agg_probe_kick(lane);
	}
}

static int agg_lane_read_port(struct agg_lane *lane, struct ib_port_attr *attr)
{
	int err;

	err = ib_query_port(lane->ibdev, lane->port, attr);
	if (err)
		return err;
	WRITE_ONCE(lane->mtu, attr->active_mtu);
	WRITE_ONCE(lane->speed, agg_port_mbps(attr));
	if (!lane->weight_fixed)
		WRITE_ONCE(lane->weight, clamp_t(u32, lane->speed, 1, AGG_WEIGHT_MAX));
	lane->max_msg_sz = attr->max_msg_sz;
	return 0;
}

static void agg_lane_event_work(struct work_struct *work)
{
	struct agg_lane *lane = container_of(work, struct agg_lane, event_work);
	struct agg_dev *dev = lane->dev;
	struct ib_port_attr attr;
	bool usable = false;

	/* Not under lanes_lock: soft-RoCE's query_port takes rtnl. */
	agg_lane_read_gids(lane);
	if (agg_lane_read_port(lane, &attr))
		attr.state = IB_PORT_DOWN;

	mutex_lock(&dev->lanes_lock);
	if (!lane->dead) {
		if (attr.state == IB_PORT_ACTIVE && lane->admin != AGG_LANE_ADMIN_DOWN)
			agg_lane_port_active(lane);
		else
			agg_lane_set_state(lane, AGG_LANE_DOWN, _RET_IP_);
		usable = agg_lane_usable(lane->state);
	}
	mutex_unlock(&dev->lanes_lock);

	if (usable)
		agg_fo_kick_all(dev);
	else
		agg_lane_fail_paths(lane, AGG_CAUSE_LANE_DOWN);

	agg_dev_update_port(dev);
	agg_session_lanes_changed(dev);
}

static void agg_lane_ib_event(struct ib_event_handler *h, struct ib_event *ev)
{
	struct agg_lane *lane = container_of(h, struct agg_lane, event_handler);

	switch (ev->event) {
	case IB_EVENT_PORT_ACTIVE:
	case IB_EVENT_PORT_ERR:
	case IB_EVENT_GID_CHANGE:
		if (ev->element.port_num != lane->port)
			return;
		break;
	case IB_EVENT_DEVICE_FATAL:
		break;
	default:
		return;
	}
	queue_work(agg_wq, &lane->event_work);
}

/*
 * Joining
 */

static struct ib_device *agg_candidate_find(const char *name)
{
	struct agg_candidate_dev *c;

	lockdep_assert_held(&lanes_mutex);
	list_for_each_entry(c, &candidates, node)
		if (!strcmp(dev_name(&c->ibdev->dev), name))
			return c->ibdev;
	return NULL;
}

static bool agg_lane_in_use(struct ib_device *ibdev, u32 port)
{
	struct agg_dev *dev;
	bool used = false;

	mutex_lock(&agg_devs_lock);
	list_for_each_entry(dev, &agg_devs, node) {
		int i;

		rcu_read_lock();
		for (i = 0; i < AGG_MAX_LANES; i++) {
			struct agg_lane *lane = rcu_dereference(dev->lanes[i]);

			used |= lane && lane->ibdev == ibdev && lane->port == port;
		}
		rcu_read_unlock();
	}
	mutex_unlock(&agg_devs_lock);
	return used;
}

static int agg_lane_check(struct agg_dev *dev, struct ib_device *ibdev, u32 port,
			  struct netlink_ext_ack *extack)
{
	struct net_device *ndev;
	int err = 0;

	if (agg_is_agg_device(ibdev)) {
		NL_SET_ERR_MSG(extack, "an agg device cannot be a lane");
		return -EINVAL;
	}
	if (!rdma_dev_access_netns(ibdev, read_pnet(&dev->net))) {
		NL_SET_ERR_MSG(extack, "the device belongs to another network namespace");
		return -EPERM;
	}
	if (!rdma_is_port_valid(ibdev, port)) {
		NL_SET_ERR_MSG(extack, "the device has no such port");
		return -EINVAL;
	}
	if (!ibdev->kverbs_provider) {
		NL_SET_ERR_MSG(extack, "the device does not support kernel verbs");
		return -EOPNOTSUPP;
	}
	if (!rdma_protocol_roce_udp_encap(ibdev, port)) {
		NL_SET_ERR_MSG(extack, "the port does not speak RoCE v2");
		return -EOPNOTSUPP;
	}
	if (agg_lane_in_use(ibdev, port)) {
		NL_SET_ERR_MSG(extack, "the port is a lane already");
		return -EBUSY;
	}

	/* Both swallow PFC frames of the port (see congestion control). */
	ndev = agg_lane_netdev(ibdev, port);
	if (!ndev) {
		NL_SET_ERR_MSG(extack, "the port has no netdev");
		return -ENODEV;
	}
	if (netif_is_bridge_port(ndev)) {
		NL_SET_ERR_MSG(extack, "the port's netdev is a bridge port");
		err = -EOPNOTSUPP;
	} else if (netif_is_macvlan(ndev)) {
		NL_SET_ERR_MSG(extack, "the port's netdev is a macvlan");
		err = -EOPNOTSUPP;
	}
	dev_put(ndev);
	return err;
}

static void agg_lane_destroy_objs(struct agg_lane *lane)
{
	int i;

	for (i = 0; i < lane->nr_rx; i++)
		agg_lcq_destroy(&lane->rx[i]);
	for (i = 0; i < lane->nr_tx; i++)
		agg_lcq_destroy(&lane->tx[i]);
	if (lane->poison)
		ib_dereg_mr(lane->poison);
	agg_probe_free(lane);
	if (lane->pd)
		ib_dealloc_pd(lane->pd);
	lane->poison = NULL;
	lane->pd = NULL;
}

static int agg_lane_create_objs(struct agg_lane *lane, struct netlink_ext_ack *extack)
{
	u32 vectors = max(lane->ibdev->num_comp_vectors, 1);
	u32 size = min(lane->ibdev->attrs.max_cqe, AGG_LCQ_SIZE);
	int err;
	int i;

	lane->pd = ib_alloc_pd(lane->ibdev, 0);
	if (IS_ERR(lane->pd)) {
		err = PTR_ERR(lane->pd);
		lane->pd = NULL;
		goto err_objs;
	}
	lane->poison = ib_alloc_mr(lane->pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(lane->poison)) {
		err = PTR_ERR(lane->poison);
		lane->poison = NULL;
		goto err_objs;
	}
	lane->poison_rkey = lane->poison->rkey;
	for (i = 0; i < lane->nr_tx; i++) {
		err = agg_lcq_init(&lane->tx[i], lane, false, i % vectors, size);
		if (err)
			goto err_objs;
	}
	for (i = 0; i < lane->nr_rx; i++) {
		err = agg_lcq_init(&lane->rx[i], lane, true, i % vectors, size);
		if (err)
			goto err_objs;
	}
	err = agg_probe_start(lane);
	if (err)
		goto err_objs;
	return 0;

err_objs:
	NL_SET_ERR_MSG(extack, "the lane's objects could not be created");
	agg_lane_destroy_objs(lane);
	return err;
}

static struct agg_lane *agg_lane_alloc(struct agg_dev *dev, struct ib_device *ibdev, u32 port)
{
	struct net_device *ndev;
	struct agg_lane *lane;

	lane = kzalloc(sizeof(*lane), GFP_KERNEL);
	if (!lane)
		return NULL;
	kref_init(&lane->ref);
	lane->dev = dev;
	lane->ibdev = ibdev;
	lane->port = port;
	strscpy(lane->ibdev_name, dev_name(&ibdev->dev), sizeof(lane->ibdev_name));
	spin_lock_init(&lane->qps_lock);
	spin_lock_init(&lane->gid_lock);
	init_waitqueue_head(&lane->drained);
	INIT_LIST_HEAD(&lane->qps);
	INIT_WORK(&lane->event_work, agg_lane_event_work);
	INIT_WORK(&lane->join_work, agg_pd_join_work);
	agg_probe_init(lane);
	lane->state = AGG_LANE_DOWN;
	lane->numa_node = ibdev->dev.parent ? dev_to_node(ibdev->dev.parent) : NUMA_NO_NODE;
	lane->created = ktime_get_real_ns();
	lane->nr_tx = dev->params.tx_queues;
	lane->nr_rx = dev->params.rx_queues;

	ndev = agg_lane_netdev(ibdev, port);
	if (ndev) {
		strscpy(lane->netdev_name, ndev->name, sizeof(lane->netdev_name));
		dev_put(ndev);
	}

	lane->stats = alloc_percpu(struct agg_lane_stats);
	lane->tx = kvcalloc(lane->nr_tx, sizeof(*lane->tx), GFP_KERNEL);
	lane->rx = kvcalloc(lane->nr_rx, sizeof(*lane->rx), GFP_KERNEL);
	if (!lane->stats || !lane->tx || !lane->rx) {
		free_percpu(lane->stats);
		kvfree(lane->tx);
		kvfree(lane->rx);
		kfree(lane);
		return NULL;
	}
	return lane;
}

/* Put the lane into the table; from then on PDs and QPs use it. */
static int agg_lane_publish(struct agg_lane *lane, int rail, struct netlink_ext_ack *extack)
{
	struct agg_dev *dev = lane->dev;
	int err = 0;
	int i;

	mutex_lock(&dev->lanes_lock);
	if (dev->closing) {
		err = -ENODEV;
		goto out;
	}
	for (i = 0; i < AGG_MAX_LANES; i++)
		if (!rcu_access_pointer(dev->lanes[i]))
			break;
	if (i == AGG_MAX_LANES) {
		NL_SET_ERR_MSG(extack, "the device has all the lanes it can have");
		err = -ENOSPC;
		goto out;
	}
	if (!dev->nr_lanes)
		agg_caps_init(dev);
	err = agg_caps_join(dev, lane, !dev->nr_lanes, extack);
	if (err)
		goto out;

	lane->id = i;
	lane->rail = rail >= 0 ? rail : i;
	dev->nr_lanes++;
	kref_get(&lane->ref);
	/* PDs that are made from now on have it; those there are, by join_work. */
	down_write(&dev->objs_sem);
	rcu_assign_pointer(dev->lanes[i], lane);
	up_write(&dev->objs_sem);
	agg_nl_lane_event(lane, lane->state, lane->state);
out:
	mutex_unlock(&dev->lanes_lock);
	return err;
}

/**
 * agg_lane_add() - make a port of an ib_device a lane
 * @dev: the device
 * @ibdev_name: ib_device
 * @port: its port
 * @rail: lanes of equal rail on two hosts are paired; < 0: the lane's index
 * @weight: share of the flows; 0: the link speed in Mbit/s
 * @extack: where a refusal is explained
 *
 * PDs, MRs and QPs that exist already use it as soon as the memory is registered on it
 * as well (agg_pd_join_work()).
 *
 * Context: may sleep; takes lanes_mutex. Return: 0 or -errno.
 */
int agg_lane_add(struct agg_dev *dev, const char *ibdev_name, u32 port, int rail, u32 weight,
		 struct netlink_ext_ack *extack)
{
	struct ib_device *ibdev;
	struct ib_port_attr attr;
	struct agg_lane *lane;
	int err;

	mutex_lock(&lanes_mutex);
	ibdev = agg_candidate_find(ibdev_name);
	if (!ibdev) {
		NL_SET_ERR_MSG(extack, "no such RDMA device");
		err = -ENODEV;
		goto err_unlock;
	}
	err = agg_lane_check(dev, ibdev, port, extack);
	if (err)
		goto err_unlock;

	lane = agg_lane_alloc(dev, ibdev, port);
	if (!lane) {
		err = -ENOMEM;
		goto err_unlock;
	}
	if (weight) {
		lane->weight = weight;
		lane->weight_fixed = true;
	}
	err = agg_lane_read_port(lane, &attr);
	if (err) {
		NL_SET_ERR_MSG(extack, "the port cannot be queried");
		goto err_put;
	}
	agg_lane_read_gids(lane);
	if (!lane->nr_gids) {
		NL_SET_ERR_MSG(extack, "the port has no RoCE v2 address");
		err = -EADDRNOTAVAIL;
		goto err_put;
	}
	err = agg_lane_create_objs(lane, extack);
	if (err)
		goto err_put;
	err = agg_lane_publish(lane, rail, extack);
	if (err)
		goto err_objs;

	INIT_IB_EVENT_HANDLER(&lane->event_handler, ibdev, agg_lane_ib_event);
	ib_register_event_handler(&lane->event_handler);
	/* Reads the port once more: it may have changed before the handler was there. */
	agg_lane_event_work(&lane->event_work);
	queue_work(agg_wq, &lane->join_work);
	mutex_unlock(&lanes_mutex);

	agg_lane_put(lane);
	return 0;

err_objs:
	agg_probe_stop(lane);
	agg_lane_destroy_objs(lane);
err_put:
	agg_lane_put(lane);
err_unlock:
	mutex_unlock(&lanes_mutex);
	return err;
}

/*
 * Leaving
 */

/* The five steps at the head of this file. */
static void agg_lane_remove(struct agg_lane *lane)
{
	struct agg_dev *dev = lane->dev;

	lockdep_assert_held(&lanes_mutex);

	mutex_lock(&dev->lanes_lock);
	agg_lane_set_state(lane, AGG_LANE_DOWN, _RET_IP_);
	spin_lock_irq(&lane->qps_lock);
	lane->dead = true;
	spin_unlock_irq(&lane->qps_lock);
	spin_lock(&dev->stats_lock);
	dev->leaving = lane;
	rcu_assign_pointer(dev->lanes[lane->id], NULL);
	spin_unlock(&dev->stats_lock);
	dev->nr_lanes--;
	agg_nl_lane_event(lane, lane->state, lane->state);
	mutex_unlock(&dev->lanes_lock);

	ib_unregister_event_handler(&lane->event_handler);
	agg_probe_stop(lane);
	cancel_work_sync(&lane->event_work);
	cancel_work_sync(&lane->join_work);

	agg_lane_drop_qps(lane);
	agg_pd_lane_gone(dev, lane);
	agg_lane_destroy_objs(lane);
	spin_lock(&dev->stats_lock);
	agg_lane_add_stats(lane, &dev->gone);
	dev->leaving = NULL;
	spin_unlock(&dev->stats_lock);
	agg_lane_put(lane);

	agg_dev_update_port(dev);
	agg_session_lanes_changed(dev);
}

/* dev->lanes_lock is held. */
static bool agg_lane_has_other(struct agg_dev *dev, const struct agg_lane *lane)
{
	const struct agg_lane *other;
	int i;

	for (i = 0; i < AGG_MAX_LANES; i++) {
		other = rcu_dereference_protected(dev->lanes[i],
						  lockdep_is_held(&dev->lanes_lock));
		if (other && other != lane && agg_lane_open(other))
			return true;
	}
	return false;
}

/*
 * Let the flows of a lane that is to be removed move away while it still works: an
 * atomic whose answer dies with its path cannot be repeated. What has not moved in
 * time goes by path failover.
 */
static void agg_lane_drain(struct agg_lane *lane)
{
	struct agg_dev *dev = lane->dev;
	bool other;

	mutex_lock(&dev->lanes_lock);
	other = agg_lane_has_other(dev, lane);
	if (other)
		WRITE_ONCE(lane->admin, AGG_LANE_ADMIN_DRAIN);
	mutex_unlock(&dev->lanes_lock);
	if (!other || !READ_ONCE(lane->home_flows))
		return;

	agg_session_lanes_changed(dev);
	agg_move_kick(dev);
	wait_event_killable_timeout(lane->drained,
				    !READ_ONCE(lane->home_flows) || READ_ONCE(lane->dead),
				    msecs_to_jiffies(AGG_DRAIN_MS));
}

/**
 * agg_lane_del() - remove a lane
 * @dev: the device
 * @ibdev_name: ib_device
 * @port: its port
 * @extack: where a refusal is explained
 *
 * QPs whose home path uses it go on by another lane.
 *
 * Context: may sleep; takes lanes_mutex. Return: 0 or -ENOENT.
 */
int agg_lane_del(struct agg_dev *dev, const char *ibdev_name, u32 port,
		 struct netlink_ext_ack *extack)
{
	struct agg_lane *lane;

	mutex_lock(&dev->lanes_lock);
	lane = agg_lane_find(dev, ibdev_name, port);
	if (lane)
		kref_get(&lane->ref);
	mutex_unlock(&dev->lanes_lock);
	if (!lane) {
		NL_SET_ERR_MSG(extack, "the device has no such lane");
		return -ENOENT;
	}

	/* Without lanes_mutex: its device may go meanwhile. */
	agg_lane_drain(lane);
	mutex_lock(&lanes_mutex);
	if (!lane->dead)
		agg_lane_remove(lane);
	mutex_unlock(&lanes_mutex);
	agg_lane_put(lane);
	return 0;
}

/**
 * agg_lane_set() - change what the administrator can say of a lane
 * @dev: the device
 * @ibdev_name: ib_device
 * @port: its port
 * @rail: new rail, or NULL
 * @weight: new weight, 0 = link speed; or NULL
 * @admin: enum agg_lane_admin; or NULL
 * @extack: where a refusal is explained
 *
 * Flows leave a lane that drains at a moment when they have nothing under way, and
 * one that is taken down at once.
 *
 * Context: may sleep; takes lanes_mutex. Return: 0 or -ENOENT.
 */
int agg_lane_set(struct agg_dev *dev, const char *ibdev_name, u32 port, const int *rail,
		 const u32 *weight, const u32 *admin, struct netlink_ext_ack *extack)
{
	struct agg_lane *lane;

	mutex_lock(&lanes_mutex);
	mutex_lock(&dev->lanes_lock);
	lane = agg_lane_find(dev, ibdev_name, port);
	if (!lane) {
		mutex_unlock(&dev->lanes_lock);
		mutex_unlock(&lanes_mutex);
		NL_SET_ERR_MSG(extack, "the device has no such lane");
		return -ENOENT;
	}
	if (rail)
		WRITE_ONCE(lane->rail, *rail);
	if (weight) {
		lane->weight_fixed = *weight;
		WRITE_ONCE(lane->weight, *weight ?: clamp_t(u32, lane->speed, 1, AGG_WEIGHT_MAX));
	}
	if (admin)
		WRITE_ONCE(lane->admin, *admin);
	mutex_unlock(&dev->lanes_lock);

	/* The state may follow from it, and both sides look for better paths. */
	if (admin)
		agg_lane_event_work(&lane->event_work);
	else
		agg_session_lanes_changed(dev);
	mutex_unlock(&lanes_mutex);
	return 0;
}

/**
 * agg_lanes_destroy() - remove all lanes of a device that goes away
 * @dev: no verbs object of it is left
 *
 * Context: may sleep; takes lanes_mutex.
 */
void agg_lanes_destroy(struct agg_dev *dev)
{
	struct agg_lane *lane;
	int i;

	mutex_lock(&lanes_mutex);
	mutex_lock(&dev->lanes_lock);
	dev->closing = true;
	mutex_unlock(&dev->lanes_lock);
	for (i = 0; i < AGG_MAX_LANES; i++) {
		lane = rcu_dereference_protected(dev->lanes[i], lockdep_is_held(&lanes_mutex));
		if (lane)
			agg_lane_remove(lane);
	}
	mutex_unlock(&lanes_mutex);
}

/*
 * The ib_client
 */

static int agg_client_add(struct ib_device *ibdev)
{
	struct agg_candidate_dev *c;

	c = kzalloc(sizeof(*c), GFP_KERNEL);
	if (!c)
		return -ENOMEM;
	c->ibdev = ibdev;
	mutex_lock(&lanes_mutex);
	list_add_tail(&c->node, &candidates);
	mutex_unlock(&lanes_mutex);
	return 0;
}

/* Nothing of @ibdev is in use by us when this returns. */
static void agg_client_remove(struct ib_device *ibdev, void *data)
{
	struct agg_candidate_dev *c, *tmp;
	struct agg_lane *found;
	struct agg_dev *dev;
	int i;

	/*
	 * Lanes may go at the same time, so there will be no path; applications
	 * that only wait for completions shall get them.
	 */
	if (agg_is_agg_device(ibdev))
		agg_dev_fail_qps(to_adev(ibdev));

	mutex_lock(&lanes_mutex);
	list_for_each_entry_safe(c, tmp, &candidates, node) {
		if (c->ibdev == ibdev) {
			list_del(&c->node);
			kfree(c);
		}
	}

	do {
		found = NULL;
		mutex_lock(&agg_devs_lock);
		list_for_each_entry(dev, &agg_devs, node) {
			for (i = 0; i < AGG_MAX_LANES && !found; i++) {
				found = rcu_dereference_protected(dev->lanes[i],
								  lockdep_is_held(&lanes_mutex));
				if (found && found->ibdev != ibdev)
					found = NULL;
			}
			if (found)
				break;
		}
		mutex_unlock(&agg_devs_lock);
		/*
		 * Its device may be going too and then stops at lanes_mutex in
		 * agg_lanes_destroy(), so it is still there.
		 */
		if (found)
			agg_lane_remove(found);
	} while (found);
	mutex_unlock(&lanes_mutex);
}

static struct ib_client agg_client = {
	.name = "rdma_agg",
	.add = agg_client_add,
	.remove = agg_client_remove,
	/* To be able to say why a device without kernel verbs is refused. */
	.no_kverbs_req = true,
};

/**
 * agg_lanes_init() - learn of the ib_devices there are
 *
 * Context: module init.
 */
int agg_lanes_init(void)
{
	return ib_register_client(&agg_client);
}

/**
 * agg_lanes_exit() - forget them
 *
 * Context: module exit; no agg device is left.
 */
void agg_lanes_exit(void)
{
	ib_unregister_client(&agg_client);
}
