// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The agg device: creation, identity netdev, port state, removal.
 *
 * A device leaves on one of four ways: CLI, "rdma link delete", unregistration
 * of its identity netdev, unload of rdma_rxe (whose driver id we share). All
 * end in the core's unregistration, which calls agg_dealloc_driver() last.
 */
#include <linux/ctype.h>
#include <linux/ethtool.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <rdma/rdma_netlink.h>

#include "agg.h"
#include "session.h"

/* Protects agg_devs; taken under rtnl. */
DEFINE_MUTEX(agg_devs_lock);
LIST_HEAD(agg_devs);

/* Devices whose dealloc_driver has not returned; module exit waits for 0. */
static atomic_t agg_nr_devs = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(agg_devs_wait);

/*
 * Lookup
 */

/**
 * agg_is_agg_device() - tell whether an ib_device is one of ours
 * @ibdev: any device
 *
 * The driver id does not tell: we share it with soft-RoCE.
 *
 * Context: any.
 */
bool agg_is_agg_device(const struct ib_device *ibdev)
{
	return ibdev->ops.owner == THIS_MODULE;
}

static struct agg_dev *agg_dev_find(struct net *net, const char *name, u32 index)
{
	struct agg_dev *dev;

	mutex_lock(&agg_devs_lock);
	list_for_each_entry(dev, &agg_devs, node) {
		if (!net_eq(read_pnet(&dev->net), net))
			continue;
		if (name ? strcmp(dev_name(&dev->ibdev.dev), name) : dev->ibdev.index != index)
			continue;
		if (!ib_device_try_get(&dev->ibdev))
			continue;
		mutex_unlock(&agg_devs_lock);
		return dev;
	}
	mutex_unlock(&agg_devs_lock);
	return NULL;
}

/**
 * agg_dev_get_by_name() - find an agg device and hold its registration
 * @net: namespace of the identity netdev
 * @name: name of the ib_device
 *
 * Context: may sleep. Return: the device, to be released with agg_dev_put()
 * soon (its unregistration waits), or NULL.
 */
struct agg_dev *agg_dev_get_by_name(struct net *net, const char *name)
{
	return agg_dev_find(net, name, 0);
}

/**
 * agg_dev_get_by_index() - as agg_dev_get_by_name(), by index of the ib_device
 * @net: namespace of the identity netdev
 * @index: ib_device index
 *
 * Context: may sleep.
 */
struct agg_dev *agg_dev_get_by_index(struct net *net, u32 index)
{
	return agg_dev_find(net, NULL, index);
}

/**
 * agg_dev_put() - release a device found by agg_dev_get_by_*()
 * @dev: the device
 *
 * Context: any.
 */
void agg_dev_put(struct agg_dev *dev)
{
	ib_device_put(&dev->ibdev);
}

/**
 * agg_dev_get_netdev() - the identity netdev
 * @dev: the device
 *
 * Context: any. Return: the netdev with a reference (dev_put()), or NULL once
 * it has begun to unregister.
 */
struct net_device *agg_dev_get_netdev(struct agg_dev *dev)
{
	struct net_device *ndev;

	rcu_read_lock();
	ndev = rcu_dereference(dev->ndev);
	/* The reference behind dev->ndev is dropped after a grace period. */
	dev_hold(ndev);
	rcu_read_unlock();
	return ndev;
}

/*
 * Port state and speed
 */

/**
 * agg_dev_speed() - sum of the usable lanes' speeds, least of their MTUs
 * @dev: the device
 * @mbps: speed in Mbit/s
 * @mtu: least active MTU of all lanes; IB_MTU_1024 without lanes
 *
 * Context: any.
 */
void agg_dev_speed(struct agg_dev *dev, u64 *mbps, enum ib_mtu *mtu)
{
	enum ib_mtu least = IB_MTU_4096;
	bool any = false;
	u64 sum = 0;
	int i;

	rcu_read_lock();
	for (i = 0; i < AGG_MAX_LANES; i++) {
		struct agg_lane *lane = rcu_dereference(dev->lanes[i]);

		if (!lane)
			continue;
		any = true;
		if (READ_ONCE(lane->mtu) < least)
			least = READ_ONCE(lane->mtu);
		if (agg_lane_usable(READ_ONCE(lane->state)))
			sum += READ_ONCE(lane->speed);
	}
	rcu_read_unlock();

	*mbps = sum;
	*mtu = any ? least : IB_MTU_1024;
}

static bool agg_dev_has_usable_lane(struct agg_dev *dev)
{
	bool usable = false;
	int i;

	rcu_read_lock();
	for (i = 0; i < AGG_MAX_LANES && !usable; i++) {
		struct agg_lane *lane = rcu_dereference(dev->lanes[i]);

		usable = lane && agg_lane_usable(READ_ONCE(lane->state));
	}
	rcu_read_unlock();
	return usable;
}

/**
 * agg_dev_update_port() - recompute the port state, report a change
 * @dev: the device
 *
 * The port is active while any lane is usable. The core does not know that
 * this device has a netdev, so port events are dispatched here alone.
 *
 * Context: may sleep; no lock of ours but agg_devs_lock may be held.
 */
void agg_dev_update_port(struct agg_dev *dev)
{
	enum ib_port_state state;
	struct ib_event ev = {
		.device = &dev->ibdev,
		.element.port_num = 1,
	};

	mutex_lock(&dev->port_lock);
	state = agg_dev_has_usable_lane(dev) ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	if (state != dev->port_state) {
		WRITE_ONCE(dev->port_state, state);
		/* Unregistration flushes what this queues only if it waits for us. */
		if (dev->registered && ib_device_try_get(&dev->ibdev)) {
			ev.event = state == IB_PORT_ACTIVE ? IB_EVENT_PORT_ACTIVE :
							     IB_EVENT_PORT_ERR;
			ib_dispatch_event(&ev);
			ib_device_put(&dev->ibdev);
		}
	}
	mutex_unlock(&dev->port_lock);
}

/*
 * Creation and removal
 */

static int agg_enable_driver(struct ib_device *ibdev)
{
	struct agg_dev *dev = to_adev(ibdev);
	struct net_device *ndev;
	struct agg_dev *other;
	int err;

	err = agg_session_dev_start(dev);
	if (err)
		/* A socket's ENFILE is want of memory, the core's a name that is taken. */
		return err == -ENFILE ? -ENOMEM : err;

	/* From here on agg_netdev_event() finds the device. */
	mutex_lock(&agg_devs_lock);
	list_for_each_entry(other, &agg_devs, node) {
		if (rcu_access_pointer(other->ndev) == rcu_access_pointer(dev->ndev))
			err = -EALREADY;
	}
	ndev = rcu_dereference_protected(dev->ndev, true);
	if (READ_ONCE(ndev->reg_state) != NETREG_REGISTERED)
		err = -ENODEV;
	if (!err)
		list_add_tail(&dev->node, &agg_devs);
	mutex_unlock(&agg_devs_lock);
	if (err)
		return err;	/* agg_dealloc_driver() stops the session */

	mutex_lock(&dev->port_lock);
	dev->registered = true;
	mutex_unlock(&dev->port_lock);

	agg_nl_dev_event(dev, true);
	return 0;
}

static void agg_dev_release_netdev(struct agg_dev *dev)
{
	struct net_device *ndev;

	spin_lock(&dev->ndev_lock);
	ndev = rcu_replace_pointer(dev->ndev, NULL, lockdep_is_held(&dev->ndev_lock));
	spin_unlock(&dev->ndev_lock);
	if (!ndev)
		return;

	/* agg_dev_get_netdev() may be between its load and its dev_hold(). */
	synchronize_net();
	netdev_put(ndev, &dev->ndev_tracker);
}

/* The last call of the core on every way out; see the head of this file. */
static void agg_dealloc_driver(struct ib_device *ibdev)
{
	struct agg_dev *dev = to_adev(ibdev);
	bool was_listed;

	agg_session_dev_stop(dev);
	/* Still listed: a lane's ib_client.remove must find what is left. */
	agg_lanes_destroy(dev);
	/* Nobody is left who could queue it. */
	cancel_delayed_work_sync(&dev->move_work);

	mutex_lock(&agg_devs_lock);
	was_listed = !list_empty(&dev->node);
	list_del_init(&dev->node);
	mutex_unlock(&agg_devs_lock);
	if (was_listed)
		agg_nl_dev_event(dev, false);
	agg_dev_release_netdev(dev);

	WARN_ON(!xa_empty(&dev->qps));
	WARN_ON(!xa_empty(&dev->mrs));
	WARN_ON(!xa_empty(&dev->rings));
	agg_tombs_free(dev);
	cleanup_srcu_struct(&dev->objs_srcu);
	xa_destroy(&dev->qps);
	xa_destroy(&dev->mrs);
	xa_destroy(&dev->rings);

	if (atomic_dec_and_test(&agg_nr_devs))
		wake_up_all(&agg_devs_wait);
}

static void agg_unreg_work(struct work_struct *work)
{
	struct agg_dev *dev = container_of(work, struct agg_dev, unreg_work);

	ib_unregister_device_and_put(&dev->ibdev);
}

static const struct ib_device_ops agg_life_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_RXE,
	.uverbs_abi_ver = AGG_UVERBS_ABI_VERSION,
	.enable_driver = agg_enable_driver,
	.dealloc_driver = agg_dealloc_driver,
};

static void agg_params_init(struct agg_params *p)
{
	*p = (struct agg_params) {
		.tx_queues = min(num_online_cpus(), 64U),
		.rx_queues = min(2 * num_online_cpus(), 64U),
		.session_port = 47910,
		.connect_timeout_ms = 2000,
		.keepalive_ms = 1000,
		.rnr_grace_ms = 100,
		.ack_timeout_min = 19,	/* 2.1 s */
		.ack_timeout_max = 20,	/* 4.3 s */
		.load_bound = 100,
		.failover_timeout_ms = 30000,
		.probe_interval_ms = 250,
		.probe_lost = 4,
	};
}

/* It names a folder of sysfs, and stands in logs and on terminals. */
static bool agg_dev_name_ok(const char *name)
{
	const char *p;

	for (p = name; *p; p++)
		if (!isascii(*p) || !isgraph(*p) || *p == '/' || *p == '%')
			return false;
	return p > name && p - name < IB_DEVICE_NAME_MAX;
}

/**
 * agg_dev_create() - make and register an agg device
 * @name: name of the ib_device
 * @ndev: identity netdev; a reference of our own is taken
 * @extack: where a refusal is explained; may be NULL
 *
 * The device has no lane yet: its port is down.
 *
 * Context: may sleep; no lock of ours is held. Return: 0 or -errno.
 */
int agg_dev_create(const char *name, struct net_device *ndev, struct netlink_ext_ack *extack)
{
	struct agg_dev *dev;
	int err;
	int i;

	if (!agg_dev_name_ok(name)) {
		NL_SET_ERR_MSG(extack, "not a valid device name");
		return -EINVAL;
	}
	if (ndev->reg_state != NETREG_REGISTERED) {
		NL_SET_ERR_MSG(extack, "netdev is going away");
		return -ENODEV;
	}

	dev = ib_alloc_device(agg_dev, ibdev);
	if (!dev)
		return -ENOMEM;
	if (init_srcu_struct(&dev->objs_srcu)) {
		ib_dealloc_device(&dev->ibdev);
		return -ENOMEM;
	}
	atomic_inc(&agg_nr_devs);

	INIT_LIST_HEAD(&dev->node);
	dev->instance = get_random_u64();
	write_pnet(&dev->net, dev_net(ndev));
	spin_lock_init(&dev->ndev_lock);
	INIT_WORK(&dev->unreg_work, agg_unreg_work);
	mutex_init(&dev->lanes_lock);
	init_rwsem(&dev->objs_sem);
	spin_lock_init(&dev->tombs_lock);
	INIT_LIST_HEAD(&dev->tombs);
	spin_lock_init(&dev->pds_lock);
	INIT_LIST_HEAD(&dev->pds);
	spin_lock_init(&dev->select_lock);
	spin_lock_init(&dev->stats_lock);
	rcu_assign_pointer(dev->policy, agg_policy_default());
	agg_params_init(&dev->params);
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC1);
	xa_init_flags(&dev->mrs, XA_FLAGS_ALLOC1);
	xa_init(&dev->rings);
	dev->next_qpn = 1 + get_random_u32() % 0xffff;
	dev->next_key = 1 + get_random_u32() % 0xffff;
	dev->next_pgoff = SHMLBA >> PAGE_SHIFT;
	spin_lock_init(&dev->rings_lock);
	mutex_init(&dev->port_lock);
	dev->port_state = IB_PORT_DOWN;
	for (i = 0; i < AGG_CNT_NR; i++)
		atomic64_set(&dev->cnt[i], 0);
	agg_caps_init(dev);
	agg_move_init(dev);
	atomic_set(&dev->reach_seq, 0);

	netdev_hold(ndev, &dev->ndev_tracker, GFP_KERNEL);
	rcu_assign_pointer(dev->ndev, ndev);

	strscpy(dev->ibdev.node_desc, "rdma_agg", sizeof(dev->ibdev.node_desc));
	dev->ibdev.node_type = RDMA_NODE_IB_CA;
	dev->ibdev.phys_port_cnt = 1;
	dev->ibdev.num_comp_vectors = num_possible_cpus();
	dev->ibdev.local_dma_lkey = 0;
	addrconf_addr_eui48((u8 *)&dev->ibdev.node_guid, ndev->dev_addr);
	/* A soft-RoCE device on the same netdev would have the same one. */
	((u8 *)&dev->ibdev.node_guid)[3] = 0xa6;
	dev->ibdev.uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				      BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);

	ib_set_device_ops(&dev->ibdev, &agg_dev_ops);
	ib_set_device_ops(&dev->ibdev, &agg_life_ops);

	err = ib_register_device(&dev->ibdev, name, NULL);
	if (err) {
		if (err == -ENFILE || err == -EEXIST) {
			NL_SET_ERR_MSG(extack, "an RDMA device of that name exists");
			err = -EEXIST;
		} else if (err == -EALREADY) {
			NL_SET_ERR_MSG(extack, "netdev is the identity of another agg device");
			err = -EEXIST;
		} else if (err == -EADDRINUSE) {
			NL_SET_ERR_MSG(extack, "somebody else listens on the session port");
		} else {
			NL_SET_ERR_MSG(extack, "the device could not be registered");
		}
		/* Calls agg_dealloc_driver(). */
		ib_dealloc_device(&dev->ibdev);
	}
	/* On success somebody may already have deleted it again. */
	return err;
}

/**
 * agg_dev_delete() - unregister a device
 * @dev: device held by agg_dev_get_by_*(); the hold is consumed
 *
 * Applications that have it open get the fatal event and errors; this does
 * not wait for them.
 *
 * Context: may sleep; no lock of ours is held. Return: 0.
 */
int agg_dev_delete(struct agg_dev *dev)
{
	ib_unregister_device_and_put(&dev->ibdev);
	return 0;
}

static int agg_newlink(const char *name, struct net_device *ndev)
{
	struct netlink_ext_ack extack = {};
	int err;

	err = agg_dev_create(name, ndev, &extack);
	if (err)
		/* These link ops carry no extack: the log has the reason. */
		pr_info_ratelimited("rdma_agg: %s on %s refused: %s (%d)\n",
				    name, netdev_name(ndev), extack._msg ?: "error", err);
	return err;
}

static struct rdma_link_ops agg_link_ops = {
	.type = "agg",
	.newlink = agg_newlink,
};

/*
 * Identity netdev
 */

static int agg_netdev_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	struct agg_dev *dev, *found = NULL;
	bool registered = false;

	if (event != NETDEV_UNREGISTER)
		return NOTIFY_DONE;

	/* At most one device has this netdev as its identity. */
	mutex_lock(&agg_devs_lock);
	list_for_each_entry(dev, &agg_devs, node) {
		if (rcu_access_pointer(dev->ndev) == ndev) {
			found = dev;
			/* Keeps the memory, if it is being unregistered already. */
			get_device(&dev->ibdev.dev);
			registered = ib_device_try_get(&dev->ibdev);
			break;
		}
	}
	mutex_unlock(&agg_devs_lock);
	if (!found)
		return NOTIFY_DONE;

	/*
	 * Its namespace may be next to go, and kernel sockets do not hold it:
	 * nothing of the session may live when this returns. Unregistration
	 * would take locks that others hold while they wait for rtnl.
	 */
	agg_session_dev_stop(found);
	/* Now: without its netdev it has no namespace whose listeners could be told. */
	agg_nl_dev_event(found, false);
	agg_dev_release_netdev(found);
	if (registered)
		queue_work(agg_wq, &found->unreg_work);
	put_device(&found->ibdev.dev);
	return NOTIFY_DONE;
}

static struct notifier_block agg_netdev_nb = {
	.notifier_call = agg_netdev_event,
};

/**
 * agg_device_init() - let devices be made
 *
 * Context: module init.
 */
int agg_device_init(void)
{
	int err;

	err = register_netdevice_notifier(&agg_netdev_nb);
	if (err)
		return err;
	rdma_link_register(&agg_link_ops);
	return 0;
}

/**
 * agg_device_exit() - unregister all devices, wait until they are gone
 *
 * Context: module exit; netlink is gone. Applications that have a device open
 * are disassociated; one that maps a ring would have held the module.
 */
void agg_device_exit(void)
{
	rdma_link_unregister(&agg_link_ops);

	for (;;) {
		struct agg_dev *dev, *found = NULL;

		mutex_lock(&agg_devs_lock);
		list_for_each_entry(dev, &agg_devs, node) {
			if (ib_device_try_get(&dev->ibdev)) {
				found = dev;
				break;
			}
		}
		mutex_unlock(&agg_devs_lock);
		if (!found)
			break;
		ib_unregister_device_and_put(&found->ibdev);
	}

	/* Those that others are unregistering. */
	wait_event(agg_devs_wait, !atomic_read(&agg_nr_devs));
	unregister_netdevice_notifier(&agg_netdev_nb);
}
