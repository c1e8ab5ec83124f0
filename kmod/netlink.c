// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The netlink family, as Documentation/netlink/specs/rdma_agg.yaml has it.
 *
 * A request names its device by index or name and sees only devices whose
 * identity netdev is in the network namespace of its socket; writes want
 * CAP_NET_ADMIN there. Devices are held (agg_dev_get_by_*()) while a request
 * works on them, never between two parts of a dump: a dump keeps indices in
 * cb->args and goes on with what is there then.
 *
 * Handlers run in parallel (parallel_ops): a slow one, such as the removal of
 * a device, stops nobody else. What they change is protected where it lives.
 */
#include <net/genetlink.h>
#include <net/netlink.h>

#include "agg.h"
#include "nl.h"
#include "session.h"
#include "stats.h"

#define AGG_NL_PSK_MAX	64

/* All sets name the device by the same two attributes, with the same numbers. */
#define AGG_A_DEV_INDEX		RDMA_AGG_A_DEV_DEV_INDEX
#define AGG_A_DEV_NAME		RDMA_AGG_A_DEV_DEV_NAME
#define SAME_NUMBERS(set)						\
	static_assert(AGG_A_DEV_INDEX == (int)RDMA_AGG_A_##set##_DEV_INDEX &&	\
		      AGG_A_DEV_NAME == (int)RDMA_AGG_A_##set##_DEV_NAME)
SAME_NUMBERS(LANE);
SAME_NUMBERS(PEER);
SAME_NUMBERS(QP);
SAME_NUMBERS(STAT);
SAME_NUMBERS(PARAM);

/* And those that have notices about objects, the event. */
static_assert(RDMA_AGG_A_DEV_EVENT == (int)RDMA_AGG_A_LANE_EVENT);
static_assert(RDMA_AGG_A_DEV_EVENT == (int)RDMA_AGG_A_PEER_EVENT);
static_assert(RDMA_AGG_A_DEV_EVENT == (int)RDMA_AGG_A_QP_EVENT);

/* ---- Who is meant ---- */

/* The device a request names, held; or an error, explained. */
static struct agg_dev *agg_nl_dev(struct net *net, struct nlattr **attrs,
				  struct netlink_ext_ack *extack)
{
	struct nlattr *index = attrs ? attrs[AGG_A_DEV_INDEX] : NULL;
	struct nlattr *name = attrs ? attrs[AGG_A_DEV_NAME] : NULL;
	struct agg_dev *dev;

	if (!index && !name) {
		NL_SET_ERR_MSG(extack, "no device given: dev-name or dev-index is needed");
		NL_SET_ERR_ATTR_MISS(extack, NULL, AGG_A_DEV_NAME);
		return ERR_PTR(-EINVAL);
	}
	dev = index ? agg_dev_get_by_index(net, nla_get_u32(index)) :
		      agg_dev_get_by_name(net, nla_data(name));
	if (!dev) {
		NL_SET_ERR_MSG_ATTR(extack, index ?: name, "no such agg device");
		return ERR_PTR(-ENODEV);
	}
	if (index && name && nla_strcmp(name, dev_name(&dev->ibdev.dev))) {
		agg_dev_put(dev);
		NL_SET_ERR_MSG_ATTR(extack, name, "the device with this index has another name");
		return ERR_PTR(-ENODEV);
	}
	return dev;
}

static struct agg_dev *agg_nl_info_dev(struct genl_info *info)
{
	return agg_nl_dev(genl_info_net(info), info->attrs, info->extack);
}

/* For a dump: the next device with an index of at least @from, held, or NULL. */
static struct agg_dev *agg_nl_next_dev(struct net *net, unsigned long from)
{
	struct agg_dev *dev, *next = NULL;

	mutex_lock(&agg_devs_lock);
	list_for_each_entry(dev, &agg_devs, node) {
		if (!net_eq(read_pnet(&dev->net), net) || dev->ibdev.index < from ||
		    (next && dev->ibdev.index > next->ibdev.index))
			continue;
		if (!ib_device_try_get(&dev->ibdev))
			continue;
		if (next)
			agg_dev_put(next);
		next = dev;
	}
	mutex_unlock(&agg_devs_lock);
	return next;
}

/*
 * Dump the objects of one device, or of all. cb->args[0]: index of the device
 * that is next, cb->args[5]: nothing is left; @dump uses args[1..4] as it
 * likes, finds them 0 for each new device, and returns 0 when it has put all
 * and -EMSGSIZE when there is no more room.
 */
static int agg_nl_dump(struct sk_buff *skb, struct netlink_callback *cb,
		       int (*dump)(struct sk_buff *skb, struct netlink_callback *cb,
				   struct agg_dev *dev))
{
	struct net *net = sock_net(skb->sk);
	struct nlattr **attrs = agg_dump_attrs(cb);
	struct agg_dev *dev;
	bool one;
	int err;

	if (cb->args[5])
		return 0;

	one = attrs && (attrs[AGG_A_DEV_INDEX] || attrs[AGG_A_DEV_NAME]);
	for (;;) {
		if (one) {
			dev = agg_nl_dev(net, attrs, cb->args[0] ? NULL : cb->extack);
			/* one that has gone since the first part is at its end */
			if (IS_ERR(dev))
				return cb->args[0] ? skb->len : PTR_ERR(dev);
			/* and so is one that has come back under its name */
			if (cb->args[0] && cb->args[0] != dev->ibdev.index + 1UL) {
				agg_dev_put(dev);
				break;
			}
		} else {
			dev = agg_nl_next_dev(net, max(cb->args[0], 1L) - 1);
			if (!dev)
				break;
			if (cb->args[0] != dev->ibdev.index + 1UL)
				memset(&cb->args[1], 0, 4 * sizeof(cb->args[0]));
		}
		cb->args[0] = dev->ibdev.index + 1UL;

		err = dump(skb, cb, dev);
		agg_dev_put(dev);
		if (err == -EMSGSIZE && skb->len)
			return skb->len;
		if (err)
			return err;
		if (one)
			break;
		cb->args[0]++;
		memset(&cb->args[1], 0, 4 * sizeof(cb->args[0]));
	}
	cb->args[5] = 1;
	return skb->len;
}

/* A reply to a request. */
static struct sk_buff *agg_nl_reply(size_t size)
{
	return genlmsg_new(size, GFP_KERNEL);
}

static struct agg_nl_msg agg_nl_answer(struct sk_buff *skb, const struct genl_info *info)
{
	return (struct agg_nl_msg) {
		.skb = skb,
		.portid = info->snd_portid,
		.seq = info->snd_seq,
		.cmd = info->genlhdr->cmd,
		.event = -1,
		.old_state = -1,
	};
}

static struct agg_nl_msg agg_nl_part(struct sk_buff *skb, const struct netlink_callback *cb,
				     u8 cmd)
{
	return (struct agg_nl_msg) {
		.skb = skb,
		.portid = NETLINK_CB(cb->skb).portid,
		.seq = cb->nlh->nlmsg_seq,
		.flags = NLM_F_MULTI,
		.cmd = cmd,
		.event = -1,
		.old_state = -1,
	};
}

static int agg_nl_send(struct sk_buff *skb, struct genl_info *info, int err)
{
	if (err) {
		nlmsg_free(skb);
		return err;
	}
	return genlmsg_reply(skb, info);
}

/* ---- Devices ---- */

int rdma_agg_nl_dev_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct agg_nl_msg msg;
	struct agg_dev *dev;
	struct sk_buff *reply;
	int err = -ENOMEM;

	dev = agg_nl_info_dev(info);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	reply = agg_nl_reply(NLMSG_DEFAULT_SIZE);
	if (reply) {
		msg = agg_nl_answer(reply, info);
		err = agg_nl_send(reply, info, agg_nl_fill_dev(&msg, dev));
	}
	agg_dev_put(dev);
	return err;
}

static int agg_nl_dump_dev(struct sk_buff *skb, struct netlink_callback *cb, struct agg_dev *dev)
{
	struct agg_nl_msg msg = agg_nl_part(skb, cb, RDMA_AGG_CMD_DEV_GET);

	return agg_nl_fill_dev(&msg, dev);
}

int rdma_agg_nl_dev_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	return agg_nl_dump(skb, cb, agg_nl_dump_dev);
}

/* The identity netdev of a new device, held. */
static struct net_device *agg_nl_netdev(struct genl_info *info, struct nlattr **attr)
{
	struct nlattr *index = info->attrs[RDMA_AGG_A_DEV_IFINDEX];
	struct nlattr *name = info->attrs[RDMA_AGG_A_DEV_IFNAME];
	struct net *net = genl_info_net(info);
	struct net_device *ndev;

	if (!index == !name) {
		if (index) {
			NL_SET_ERR_MSG_ATTR(info->extack, index,
					    "either ifindex or ifname, not both");
		} else {
			GENL_SET_ERR_MSG(info, "no identity netdev given: ifname is needed");
			NL_SET_ERR_ATTR_MISS(info->extack, NULL, RDMA_AGG_A_DEV_IFNAME);
		}
		return ERR_PTR(-EINVAL);
	}
	*attr = index ?: name;
	ndev = index ? dev_get_by_index(net, nla_get_u32(index)) :
		       dev_get_by_name(net, nla_data(name));
	if (!ndev) {
		NL_SET_ERR_MSG_ATTR(info->extack, *attr, "no such netdev");
		return ERR_PTR(-ENODEV);
	}
	return ndev;
}

static bool agg_nl_is_identity(const struct net_device *ndev)
{
	struct agg_dev *dev;
	bool found = false;

	mutex_lock(&agg_devs_lock);
	list_for_each_entry(dev, &agg_devs, node)
		found |= rcu_access_pointer(dev->ndev) == ndev;
	mutex_unlock(&agg_devs_lock);
	return found;
}

int rdma_agg_nl_dev_new_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *name = info->attrs[AGG_A_DEV_NAME];
	struct nlattr *ndev_attr;
	struct net_device *ndev;
	int err;

	if (!name) {
		GENL_SET_ERR_MSG(info, "no name for the device given: dev-name is needed");
		NL_SET_ERR_ATTR_MISS(info->extack, NULL, AGG_A_DEV_NAME);
		return -EINVAL;
	}
	ndev = agg_nl_netdev(info, &ndev_attr);
	if (IS_ERR(ndev))
		return PTR_ERR(ndev);

	/* Only to name the attribute: agg_dev_create() looks again. */
	if (agg_nl_is_identity(ndev)) {
		NL_SET_ERR_MSG_ATTR(info->extack, ndev_attr,
				    "the netdev is the identity of another agg device");
		err = -EEXIST;
		goto out;
	}
	err = agg_dev_create(nla_data(name), ndev, info->extack);
	if (err)
		NL_SET_BAD_ATTR(info->extack, err == -ENODEV ? ndev_attr : name);
out:
	dev_put(ndev);
	return err;
}

int rdma_agg_nl_dev_del_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct agg_dev *dev = agg_nl_info_dev(info);

	if (IS_ERR(dev))
		return PTR_ERR(dev);
	return agg_dev_delete(dev);
}

/* ---- Lanes ---- */

static u32 agg_nl_u32(const struct nlattr *attr, u32 otherwise)
{
	return attr ? nla_get_u32(attr) : otherwise;
}

/* The first port when none is named. */
static u32 agg_nl_port(struct nlattr **attrs, int type)
{
	return agg_nl_u32(attrs[type], 1);
}

/* The lane that @name and @port attributes name, held; or an error, explained. */
static struct agg_lane *agg_nl_lane(struct agg_dev *dev, struct genl_info *info, int name,
				    int port)
{
	u32 port_num = agg_nl_port(info->attrs, port);
	struct agg_lane *lane;
	u8 id;

	for (id = 0; id < AGG_MAX_LANES; id++) {
		lane = agg_lane_get(dev, id);
		if (!lane)
			continue;
		if (!nla_strcmp(info->attrs[name], lane->ibdev_name) && lane->port == port_num)
			return lane;
		agg_lane_put(lane);
	}
	NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[name], "the device has no such lane");
	return ERR_PTR(-ENOENT);
}

/* Device and lane of a request that must name both; the device is returned held. */
static struct agg_dev *agg_nl_lane_dev(struct genl_info *info)
{
	struct agg_dev *dev = agg_nl_info_dev(info);

	if (IS_ERR(dev))
		return dev;
	if (!info->attrs[RDMA_AGG_A_LANE_IBDEV_NAME]) {
		agg_dev_put(dev);
		GENL_SET_ERR_MSG(info, "no lane given: ibdev-name is needed");
		NL_SET_ERR_ATTR_MISS(info->extack, NULL, RDMA_AGG_A_LANE_IBDEV_NAME);
		return ERR_PTR(-EINVAL);
	}
	return dev;
}

int rdma_agg_nl_lane_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct agg_nl_msg msg;
	struct agg_lane *lane;
	struct agg_dev *dev;
	struct sk_buff *reply;
	int err = -ENOMEM;

	dev = agg_nl_lane_dev(info);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	lane = agg_nl_lane(dev, info, RDMA_AGG_A_LANE_IBDEV_NAME, RDMA_AGG_A_LANE_IBDEV_PORT);
	if (IS_ERR(lane)) {
		err = PTR_ERR(lane);
		goto out;
	}
	reply = agg_nl_reply(NLMSG_DEFAULT_SIZE);
	if (reply) {
		msg = agg_nl_answer(reply, info);
		err = agg_nl_send(reply, info, agg_nl_fill_lane(&msg, dev, lane));
	}
	agg_lane_put(lane);
out:
	agg_dev_put(dev);
	return err;
}

/* A dump takes no attributes but those of the device. */
static int agg_nl_no_lane(struct netlink_callback *cb, int name, int port)
{
	struct nlattr **attrs = agg_dump_attrs(cb);

	if (!attrs || (!attrs[name] && !attrs[port]))
		return 0;
	NL_SET_ERR_MSG_ATTR(cb->extack, attrs[name] ?: attrs[port],
			    "a dump cannot be limited to a lane");
	return -EINVAL;
}

/* cb->args[1]: lane id that is next */
static int agg_nl_dump_lane(struct sk_buff *skb, struct netlink_callback *cb, struct agg_dev *dev)
{
	struct agg_nl_msg msg = agg_nl_part(skb, cb, RDMA_AGG_CMD_LANE_GET);
	struct agg_lane *lane;
	int err = 0;

	for (; cb->args[1] < AGG_MAX_LANES; cb->args[1]++) {
		lane = agg_lane_get(dev, cb->args[1]);
		if (!lane)
			continue;
		err = agg_nl_fill_lane(&msg, dev, lane);
		agg_lane_put(lane);
		if (err)
			break;
	}
	return err;
}

int rdma_agg_nl_lane_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	int err = agg_nl_no_lane(cb, RDMA_AGG_A_LANE_IBDEV_NAME, RDMA_AGG_A_LANE_IBDEV_PORT);

	return err ?: agg_nl_dump(skb, cb, agg_nl_dump_lane);
}

/* A limit that a policy of 6.1 cannot express; absent: 0, the link speed. */
static int agg_nl_weight(struct genl_info *info, u32 *weight)
{
	struct nlattr *attr = info->attrs[RDMA_AGG_A_LANE_WEIGHT];

	*weight = attr ? nla_get_u32(attr) : 0;
	if (*weight <= AGG_WEIGHT_MAX)
		return 0;
	NL_SET_ERR_MSG_ATTR(info->extack, attr, "the weight is greater than 16777215");
	return -ERANGE;
}

/* Who refuses a lane says why; that it was the lane's name is known here. */
static void agg_nl_blame_lane(struct genl_info *info)
{
	if (info->extack && !info->extack->bad_attr)
		NL_SET_BAD_ATTR(info->extack, info->attrs[RDMA_AGG_A_LANE_IBDEV_NAME]);
}

int rdma_agg_nl_lane_new_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *rail = info->attrs[RDMA_AGG_A_LANE_RAIL];
	struct agg_dev *dev;
	u32 weight;
	int err;

	err = agg_nl_weight(info, &weight);
	if (err)
		return err;
	dev = agg_nl_lane_dev(info);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	err = agg_lane_add(dev, nla_data(info->attrs[RDMA_AGG_A_LANE_IBDEV_NAME]),
			   agg_nl_port(info->attrs, RDMA_AGG_A_LANE_IBDEV_PORT),
			   rail ? nla_get_u32(rail) : -1, weight, info->extack);
	if (err)
		agg_nl_blame_lane(info);
	agg_dev_put(dev);
	return err;
}

int rdma_agg_nl_lane_del_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct agg_dev *dev;
	int err;

	dev = agg_nl_lane_dev(info);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	err = agg_lane_del(dev, nla_data(info->attrs[RDMA_AGG_A_LANE_IBDEV_NAME]),
			   agg_nl_port(info->attrs, RDMA_AGG_A_LANE_IBDEV_PORT), info->extack);
	if (err)
		agg_nl_blame_lane(info);
	agg_dev_put(dev);
	return err;
}

int rdma_agg_nl_lane_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *weight_attr = info->attrs[RDMA_AGG_A_LANE_WEIGHT];
	struct nlattr *admin_attr = info->attrs[RDMA_AGG_A_LANE_ADMIN];
	struct nlattr *rail_attr = info->attrs[RDMA_AGG_A_LANE_RAIL];
	int rail = rail_attr ? nla_get_u32(rail_attr) : 0;
	u32 admin = admin_attr ? nla_get_u32(admin_attr) : 0;
	struct agg_lane *lane;
	struct agg_dev *dev;
	u32 weight;
	int err;

	err = agg_nl_weight(info, &weight);
	if (err)
		return err;
	dev = agg_nl_lane_dev(info);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	if (!rail_attr && !weight_attr && !admin_attr) {
		GENL_SET_ERR_MSG(info, "nothing to set: rail, weight or admin is needed");
		NL_SET_ERR_ATTR_MISS(info->extack, NULL, RDMA_AGG_A_LANE_WEIGHT);
		err = -EINVAL;
		goto out;
	}
	err = agg_lane_set(dev, nla_data(info->attrs[RDMA_AGG_A_LANE_IBDEV_NAME]),
			   agg_nl_port(info->attrs, RDMA_AGG_A_LANE_IBDEV_PORT),
			   rail_attr ? &rail : NULL, weight_attr ? &weight : NULL,
			   admin_attr ? &admin : NULL, info->extack);
	if (err) {
		agg_nl_blame_lane(info);
		goto out;
	}
	lane = agg_nl_lane(dev, info, RDMA_AGG_A_LANE_IBDEV_NAME, RDMA_AGG_A_LANE_IBDEV_PORT);
	if (!IS_ERR(lane)) {
		agg_nl_lane_set_event(lane);
		agg_lane_put(lane);
	}
out:
	agg_dev_put(dev);
	return err;
}

/* ---- Peers ---- */

int rdma_agg_nl_peer_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *sgid = info->attrs[RDMA_AGG_A_PEER_SGID];
	struct nlattr *gid = info->attrs[RDMA_AGG_A_PEER_GID];
	struct agg_peer_info peer;
	unsigned long cursor = 0;
	struct agg_nl_msg msg;
	struct agg_dev *dev;
	struct sk_buff *reply;
	int err;

	dev = agg_nl_info_dev(info);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	if (!gid) {
		GENL_SET_ERR_MSG(info, "no peer given: gid is needed");
		NL_SET_ERR_ATTR_MISS(info->extack, NULL, RDMA_AGG_A_PEER_GID);
		err = -EINVAL;
		goto out;
	}
	for (;;) {
		err = agg_session_peers(dev, &cursor, &peer);
		if (err) {
			NL_SET_ERR_MSG_ATTR(info->extack, gid, "the device has no such peer");
			err = -ENOENT;
			goto out;
		}
		if (!nla_memcmp(gid, &peer.gid, sizeof(peer.gid)) &&
		    (!sgid || !nla_memcmp(sgid, &peer.sgid, sizeof(peer.sgid))))
			break;
	}
	err = -ENOMEM;
	reply = agg_nl_reply(NLMSG_DEFAULT_SIZE);
	if (reply) {
		msg = agg_nl_answer(reply, info);
		err = agg_nl_send(reply, info, agg_nl_fill_peer(&msg, dev, &peer, true));
	}
out:
	agg_dev_put(dev);
	return err;
}

/* cb->args[1]: cursor of agg_session_peers() */
static int agg_nl_dump_peer(struct sk_buff *skb, struct netlink_callback *cb, struct agg_dev *dev)
{
	struct agg_nl_msg msg = agg_nl_part(skb, cb, RDMA_AGG_CMD_PEER_GET);
	unsigned long cursor = cb->args[1];
	struct agg_peer_info peer;
	int err;

	while (!agg_session_peers(dev, &cursor, &peer)) {
		err = agg_nl_fill_peer(&msg, dev, &peer, true);
		if (err)
			return err;
		cb->args[1] = cursor;
	}
	return 0;
}

int rdma_agg_nl_peer_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	return agg_nl_dump(skb, cb, agg_nl_dump_peer);
}

/* ---- QPs ---- */

int rdma_agg_nl_qp_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *qpn = info->attrs[RDMA_AGG_A_QP_QPN];
	struct agg_nl_msg msg;
	struct agg_dev *dev;
	struct sk_buff *reply;
	struct agg_qp *qp;
	int err = -ENOMEM;

	dev = agg_nl_info_dev(info);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	if (!qpn) {
		GENL_SET_ERR_MSG(info, "no QP given: qpn is needed");
		NL_SET_ERR_ATTR_MISS(info->extack, NULL, RDMA_AGG_A_QP_QPN);
		err = -EINVAL;
		goto out;
	}
	qp = agg_qp_get(dev, nla_get_u32(qpn));
	if (!qp) {
		NL_SET_ERR_MSG_ATTR(info->extack, qpn, "the device has no such QP");
		err = -ENOENT;
		goto out;
	}
	reply = agg_nl_reply(NLMSG_DEFAULT_SIZE);
	if (reply) {
		msg = agg_nl_answer(reply, info);
		err = agg_nl_send(reply, info, agg_nl_fill_qp(&msg, dev, qp));
	}
	agg_qp_put(qp);
out:
	agg_dev_put(dev);
	return err;
}

/* cb->args[1]: QP number that is next */
static int agg_nl_dump_qp(struct sk_buff *skb, struct netlink_callback *cb, struct agg_dev *dev)
{
	struct agg_nl_msg msg = agg_nl_part(skb, cb, RDMA_AGG_CMD_QP_GET);
	unsigned long qpn = cb->args[1];
	struct agg_qp *qp;
	int err;

	/* The pointer is not ours: it tells that there is a QP, no more. */
	while (xa_find(&dev->qps, &qpn, ULONG_MAX, XA_PRESENT)) {
		qp = agg_qp_get(dev, qpn);
		if (qp) {
			err = agg_nl_fill_qp(&msg, dev, qp);
			agg_qp_put(qp);
			if (err)
				return err;
		}
		cb->args[1] = ++qpn;
		cond_resched();
	}
	return 0;
}

int rdma_agg_nl_qp_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nlattr **attrs = agg_dump_attrs(cb);

	if (attrs && attrs[RDMA_AGG_A_QP_QPN]) {
		NL_SET_ERR_MSG_ATTR(cb->extack, attrs[RDMA_AGG_A_QP_QPN],
				    "a dump cannot be limited to a QP");
		return -EINVAL;
	}
	return agg_nl_dump(skb, cb, agg_nl_dump_qp);
}

/* ---- Counters ---- */

int rdma_agg_nl_stat_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct agg_lane *lane = NULL;
	unsigned int queue = 0;
	struct agg_nl_msg msg;
	struct agg_dev *dev;
	struct sk_buff *reply;
	int err = -ENOMEM;

	dev = agg_nl_info_dev(info);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	if (info->attrs[RDMA_AGG_A_STAT_IBDEV_NAME]) {
		lane = agg_nl_lane(dev, info, RDMA_AGG_A_STAT_IBDEV_NAME,
				   RDMA_AGG_A_STAT_IBDEV_PORT);
		if (IS_ERR(lane)) {
			err = PTR_ERR(lane);
			goto out;
		}
	} else if (info->attrs[RDMA_AGG_A_STAT_IBDEV_PORT]) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[RDMA_AGG_A_STAT_IBDEV_PORT],
				    "a port without the ibdev-name it belongs to");
		NL_SET_ERR_ATTR_MISS(info->extack, NULL, RDMA_AGG_A_STAT_IBDEV_NAME);
		err = -EINVAL;
		goto out;
	}
	reply = agg_nl_reply(NLMSG_DEFAULT_SIZE +
			     (lane ? (lane->nr_tx + lane->nr_rx) * AGG_NL_QUEUE_SIZE : 0));
	if (reply) {
		msg = agg_nl_answer(reply, info);
		if (lane)
			err = agg_nl_fill_lane_stats(&msg, dev, lane, &queue);
		else
			err = agg_nl_fill_dev_stats(&msg, dev);
		err = agg_nl_send(reply, info, err);
	}
	if (lane)
		agg_lane_put(lane);
out:
	agg_dev_put(dev);
	return err;
}

/*
 * cb->args[1]: 0 = the device, or lane id + 1 that is next;
 * cb->args[2]: queue of it that is next
 */
static int agg_nl_dump_stat(struct sk_buff *skb, struct netlink_callback *cb, struct agg_dev *dev)
{
	struct agg_nl_msg msg = agg_nl_part(skb, cb, RDMA_AGG_CMD_STAT_GET);
	struct agg_lane *lane;
	unsigned int queue;
	int err;

	if (!cb->args[1]) {
		err = agg_nl_fill_dev_stats(&msg, dev);
		if (err)
			return err;
		cb->args[1] = 1;
	}
	while (cb->args[1] <= AGG_MAX_LANES) {
		lane = agg_lane_get(dev, cb->args[1] - 1);
		if (lane) {
			queue = cb->args[2];
			err = agg_nl_fill_lane_stats(&msg, dev, lane, &queue);
			agg_lane_put(lane);
			cb->args[2] = queue;
			if (err)
				return err;
		}
		cb->args[1]++;
		cb->args[2] = 0;
	}
	return 0;
}

int rdma_agg_nl_stat_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	int err = agg_nl_no_lane(cb, RDMA_AGG_A_STAT_IBDEV_NAME, RDMA_AGG_A_STAT_IBDEV_PORT);

	return err ?: agg_nl_dump(skb, cb, agg_nl_dump_stat);
}

/* ---- Parameters ---- */

int rdma_agg_nl_param_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct agg_nl_msg msg;
	struct agg_dev *dev;
	struct sk_buff *reply;
	int err = -ENOMEM;

	dev = agg_nl_info_dev(info);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	reply = agg_nl_reply(NLMSG_DEFAULT_SIZE);
	if (reply) {
		msg = agg_nl_answer(reply, info);
		err = agg_nl_send(reply, info, agg_nl_fill_param(&msg, dev));
	}
	agg_dev_put(dev);
	return err;
}

static int agg_nl_dump_param(struct sk_buff *skb, struct netlink_callback *cb,
			     struct agg_dev *dev)
{
	struct agg_nl_msg msg = agg_nl_part(skb, cb, RDMA_AGG_CMD_PARAM_GET);

	return agg_nl_fill_param(&msg, dev);
}

int rdma_agg_nl_param_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	return agg_nl_dump(skb, cb, agg_nl_dump_param);
}

/* What is asked for, over what is set; ranges were checked by the policy. */
static void agg_nl_read_params(struct nlattr **attrs, struct agg_params *p)
{
	p->load_bound = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_LOAD_BOUND], p->load_bound);
	p->tx_queues = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_TX_QUEUES], p->tx_queues);
	p->rx_queues = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_RX_QUEUES], p->rx_queues);
	if (attrs[RDMA_AGG_A_PARAM_SESSION_PORT])
		p->session_port = nla_get_u16(attrs[RDMA_AGG_A_PARAM_SESSION_PORT]);
	p->connect_timeout_ms = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_CONNECT_TIMEOUT],
					   p->connect_timeout_ms);
	p->keepalive_ms = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_KEEPALIVE], p->keepalive_ms);
	p->rnr_grace_ms = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_RNR_GRACE], p->rnr_grace_ms);
	p->ack_timeout_min = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_ACK_TIMEOUT_MIN],
					p->ack_timeout_min);
	p->ack_timeout_max = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_ACK_TIMEOUT_MAX],
					p->ack_timeout_max);
	p->failover_timeout_ms = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_FAILOVER_TIMEOUT],
					    p->failover_timeout_ms);
	p->updelay_ms = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_UPDELAY], p->updelay_ms);
	p->probe_interval_ms = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_PROBE_INTERVAL],
					  p->probe_interval_ms);
	p->probe_lost = agg_nl_u32(attrs[RDMA_AGG_A_PARAM_PROBE_LOST], p->probe_lost);
}

/* All but the port, see agg_nl_set_port(). */
static void agg_nl_write_params(struct agg_params *to, const struct agg_params *from)
{
	WRITE_ONCE(to->load_bound, from->load_bound);
	WRITE_ONCE(to->tx_queues, from->tx_queues);
	WRITE_ONCE(to->rx_queues, from->rx_queues);
	WRITE_ONCE(to->connect_timeout_ms, from->connect_timeout_ms);
	WRITE_ONCE(to->keepalive_ms, from->keepalive_ms);
	WRITE_ONCE(to->rnr_grace_ms, from->rnr_grace_ms);
	WRITE_ONCE(to->ack_timeout_min, from->ack_timeout_min);
	WRITE_ONCE(to->ack_timeout_max, from->ack_timeout_max);
	WRITE_ONCE(to->failover_timeout_ms, from->failover_timeout_ms);
	WRITE_ONCE(to->updelay_ms, from->updelay_ms);
	WRITE_ONCE(to->probe_interval_ms, from->probe_interval_ms);
	WRITE_ONCE(to->probe_lost, from->probe_lost);
}

static int agg_nl_check_params(struct agg_dev *dev, struct genl_info *info,
			       const struct agg_params *p)
{
	struct nlattr *policy = info->attrs[RDMA_AGG_A_PARAM_POLICY];
	struct nlattr *psk = info->attrs[RDMA_AGG_A_PARAM_PSK];
	struct nlattr *bad;

	lockdep_assert_held(&dev->lanes_lock);

	if (policy && !agg_policy_find(nla_get_u32(policy))) {
		NL_SET_ERR_MSG_ATTR(info->extack, policy, "no such policy");
		return -EINVAL;
	}
	if (psk && nla_len(psk) > AGG_NL_PSK_MAX) {
		NL_SET_ERR_MSG_ATTR(info->extack, psk, "the key is longer than 64 bytes");
		return -EINVAL;
	}
	if (p->ack_timeout_min > p->ack_timeout_max) {
		bad = info->attrs[RDMA_AGG_A_PARAM_ACK_TIMEOUT_MIN] ?:
		      info->attrs[RDMA_AGG_A_PARAM_ACK_TIMEOUT_MAX];
		NL_SET_ERR_MSG_ATTR(info->extack, bad,
				    "ack-timeout-min would be greater than ack-timeout-max");
		return -EINVAL;
	}
	/* A policy of 6.1 cannot have so great a limit. */
	if (p->failover_timeout_ms > 3600000) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[RDMA_AGG_A_PARAM_FAILOVER_TIMEOUT],
				    "failover-timeout is at most an hour");
		return -ERANGE;
	}
	if (p->session_port != dev->params.session_port && dev->nr_lanes) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[RDMA_AGG_A_PARAM_SESSION_PORT],
				    "the port cannot change while the device has lanes");
		return -EBUSY;
	}
	return 0;
}

/* Listen on another port; when that fails, nothing has changed. */
static int agg_nl_set_port(struct agg_dev *dev, u16 port, struct genl_info *info)
{
	u16 old = dev->params.session_port;
	int err;

	lockdep_assert_held(&dev->lanes_lock);

	if (port == old)
		return 0;
	WRITE_ONCE(dev->params.session_port, port);
	err = agg_session_dev_rebind(dev);
	if (!err)
		return 0;
	WRITE_ONCE(dev->params.session_port, old);
	if (info)
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[RDMA_AGG_A_PARAM_SESSION_PORT],
				    "cannot listen on this port");
	return err;
}

int rdma_agg_nl_param_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *policy = info->attrs[RDMA_AGG_A_PARAM_POLICY];
	struct nlattr *psk = info->attrs[RDMA_AGG_A_PARAM_PSK];
	struct agg_params params;
	struct agg_dev *dev;
	bool any = false;
	u16 old_port;
	int type;
	int err;

	dev = agg_nl_info_dev(info);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	/* The policy lets nothing in but these and the device's names. */
	for (type = RDMA_AGG_A_PARAM_POLICY; type <= RDMA_AGG_A_PARAM_MAX; type++)
		any |= !!info->attrs[type];
	if (!any) {
		GENL_SET_ERR_MSG(info, "nothing to set: no parameter given");
		NL_SET_ERR_ATTR_MISS(info->extack, NULL, RDMA_AGG_A_PARAM_POLICY);
		agg_dev_put(dev);
		return -EINVAL;
	}

	mutex_lock(&dev->lanes_lock);
	params = dev->params;
	agg_nl_read_params(info->attrs, &params);
	err = agg_nl_check_params(dev, info, &params);
	/* First what can fail; the port can be taken back, the key is the last. */
	old_port = dev->params.session_port;
	if (!err)
		err = agg_nl_set_port(dev, params.session_port, info);
	if (!err && psk) {
		err = agg_session_set_psk(dev, nla_data(psk), nla_len(psk));
		if (err) {
			NL_SET_ERR_MSG_ATTR(info->extack, psk, "the key could not be set");
			agg_nl_set_port(dev, old_port, NULL);
		}
	}
	if (!err) {
		agg_nl_write_params(&dev->params, &params);
		if (policy)
			rcu_assign_pointer(dev->policy, agg_policy_find(nla_get_u32(policy)));
	}
	mutex_unlock(&dev->lanes_lock);

	if (!err) {
		agg_probe_params_changed(dev);
		agg_nl_param_event(dev);
	}
	agg_dev_put(dev);
	return err;
}
