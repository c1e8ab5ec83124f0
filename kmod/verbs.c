// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The ops table of the agg device, what it announces, and the verbs that keep
 * no state of their own.
 */
#include <rdma/ib_mad.h>
#include <rdma/ib_user_verbs.h>

#include "agg.h"

/*
 * Capabilities
 */

/* What this module implements; lanes can only take away from it. */
#define AGG_DEVICE_CAPS		(IB_DEVICE_PORT_ACTIVE_EVENT | \
				 IB_DEVICE_SYS_IMAGE_GUID | \
				 IB_DEVICE_RC_RNR_NAK_GEN)
#define AGG_MAX_MSG_SZ		0x800000
#define AGG_MAX_CQE		((1 << 15) - 1)

/**
 * agg_caps_init() - announce all that is implemented, for want of a lane
 * @dev: the device
 *
 * Context: any.
 */
void agg_caps_init(struct agg_dev *dev)
{
	struct ib_device_attr *attr = &dev->attr;

	memset(attr, 0, sizeof(*attr));
	attr->sys_image_guid = dev->ibdev.node_guid;
	attr->vendor_id = 0xffffff;	/* an OUI of nobody, as soft-RoCE's */
	attr->max_mr_size = ~0ULL;
	attr->page_size_cap = 0xfffff000;
	attr->max_qp = 1 << 20;
	attr->max_qp_wr = 1 << 14;
	attr->device_cap_flags = AGG_DEVICE_CAPS;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG;
	attr->max_send_sge = AGG_MAX_SGE;
	attr->max_recv_sge = AGG_MAX_SGE;
	attr->max_sge_rd = AGG_MAX_SGE;
	attr->max_cq = 1 << 20;
	attr->max_cqe = AGG_MAX_CQE;
	attr->max_mr = (1 << 20) - 1;
	attr->max_pd = 1 << 20;
	attr->max_qp_rd_atom = 128;
	attr->max_qp_init_rd_atom = 128;
	attr->max_res_rd_atom = 0x3f000;
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = 15;
	dev->max_msg_sz = AGG_MAX_MSG_SZ;
}

/*
 * Atomics of different QPs may run on different lanes of the responder. That
 * is atomic only if lanes agree with each other: soft-RoCE devices share one
 * lock, others must say so.
 */
static enum ib_atomic_cap agg_lane_atomic_cap(const struct ib_device *ibdev)
{
	if (ibdev->attrs.atomic_cap == IB_ATOMIC_GLOB)
		return IB_ATOMIC_HCA;
	if (ibdev->ops.driver_id == RDMA_DRIVER_RXE)
		return ibdev->attrs.atomic_cap;
	return IB_ATOMIC_NONE;
}

#define AGG_LESS(field)		"the lane offers less than was announced: " field

static void agg_narrow(int *want, int have, const char *less, const char **what)
{
	if (have < *want) {
		*want = have;
		*what = less;
	}
}

/**
 * agg_caps_join() - hold a lane's capabilities against what is announced
 * @dev: the device
 * @lane: the new lane, not in the table yet
 * @first: no lane before it: announce no more than it has
 * @extack: where the capability that falls short is named
 *
 * Applications have read what is announced, so it changes only while the
 * device has no lane.
 *
 * Context: may sleep; dev->lanes_lock is held. Return: 0 or -EOPNOTSUPP.
 */
int agg_caps_join(struct agg_dev *dev, const struct agg_lane *lane, bool first,
		  struct netlink_ext_ack *extack)
{
	const struct ib_device_attr *have = &lane->ibdev->attrs;
	struct ib_device_attr want = dev->attr;
	u32 max_msg_sz = dev->max_msg_sz;
	const char *what = NULL;

	lockdep_assert_held(&dev->lanes_lock);

	agg_narrow(&want.max_qp, have->max_qp, AGG_LESS("max_qp"), &what);
	agg_narrow(&want.max_qp_wr, have->max_qp_wr, AGG_LESS("max_qp_wr"), &what);
	agg_narrow(&want.max_send_sge, have->max_send_sge, AGG_LESS("max_send_sge"), &what);
	agg_narrow(&want.max_recv_sge, have->max_recv_sge, AGG_LESS("max_recv_sge"), &what);
	agg_narrow(&want.max_sge_rd, have->max_sge_rd, AGG_LESS("max_sge_rd"), &what);
	agg_narrow(&want.max_cqe, have->max_cqe, AGG_LESS("max_cqe"), &what);
	agg_narrow(&want.max_mr, have->max_mr, AGG_LESS("max_mr"), &what);
	agg_narrow(&want.max_pd, have->max_pd, AGG_LESS("max_pd"), &what);
	agg_narrow(&want.max_qp_rd_atom, have->max_qp_rd_atom, AGG_LESS("max_qp_rd_atom"), &what);
	agg_narrow(&want.max_qp_init_rd_atom, have->max_qp_init_rd_atom,
		   AGG_LESS("max_qp_init_rd_atom"), &what);
	agg_narrow(&want.max_res_rd_atom, have->max_res_rd_atom, AGG_LESS("max_res_rd_atom"),
		   &what);
	if (have->max_mr_size < want.max_mr_size) {
		want.max_mr_size = have->max_mr_size;
		what = AGG_LESS("max_mr_size");
	}
	if (agg_lane_atomic_cap(lane->ibdev) < want.atomic_cap) {
		want.atomic_cap = agg_lane_atomic_cap(lane->ibdev);
		what = AGG_LESS("atomic_cap");
	}
	if (lane->max_msg_sz < max_msg_sz) {
		max_msg_sz = lane->max_msg_sz;
		what = AGG_LESS("max_msg_sz");
	}
	if (want.max_send_sge < 1 || want.max_recv_sge < 1 || want.max_qp_wr < 16) {
		NL_SET_ERR_MSG(extack, "lane cannot carry a QP");
		return -EOPNOTSUPP;
	}

	if (!first) {
		if (!what)
			return 0;
		/* Not a literal, which is all that the macros of 6.1 take. */
		if (extack)
			extack->_msg = what;
		return -EOPNOTSUPP;
	}

	dev->attr = want;
	dev->max_msg_sz = max_msg_sz;
	/* The core keeps a copy and checks some verbs against it. */
	dev->ibdev.attrs = want;
	return 0;
}

/*
 * Device and port
 */

static int agg_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			    struct ib_udata *udata)
{
	struct agg_dev *dev = to_adev(ibdev);

	/* The core of 7.x asks without user data. */
	if (udata && (udata->inlen || udata->outlen))
		return -EINVAL;

	mutex_lock(&dev->lanes_lock);
	*attr = dev->attr;
	mutex_unlock(&dev->lanes_lock);
	attr->sys_image_guid = ibdev->node_guid;
	return 0;
}

static const struct {
	u16 speed;
	u32 mbps;	/* of one lane of the link (1X) */
} agg_speeds[] = {
	{ IB_SPEED_SDR, 2500 }, { IB_SPEED_DDR, 5000 }, { IB_SPEED_QDR, 10000 },
	{ IB_SPEED_FDR, 14062 }, { IB_SPEED_EDR, 25781 }, { IB_SPEED_HDR, 53125 },
	{ IB_SPEED_NDR, 106250 },
};

static const struct {
	u8 width;
	u8 n;
} agg_widths[] = {
	{ IB_WIDTH_1X, 1 }, { IB_WIDTH_2X, 2 }, { IB_WIDTH_4X, 4 },
	{ IB_WIDTH_8X, 8 }, { IB_WIDTH_12X, 12 },
};

/* The fastest (width, speed) that verbs can express and that is not above @mbps. */
static void agg_encode_speed(u64 mbps, u16 *speed, u8 *width)
{
	u64 best = 0;
	int s, w;

	*speed = IB_SPEED_SDR;
	*width = IB_WIDTH_1X;
	for (w = 0; w < ARRAY_SIZE(agg_widths); w++) {
		for (s = 0; s < ARRAY_SIZE(agg_speeds); s++) {
			/* 25781 Mbit/s on the wire is what is sold as 25 Gbit/s. */
			u64 rate = (u64)agg_speeds[s].mbps * agg_widths[w].n;

			if (rate * 94 / 100 <= mbps && rate > best) {
				best = rate;
				*speed = agg_speeds[s].speed;
				*width = agg_widths[w].width;
			}
		}
	}
}

static int agg_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct agg_dev *dev = to_adev(ibdev);
	enum ib_mtu mtu;
	u64 mbps;

	if (port != 1)
		return -EINVAL;

	agg_dev_speed(dev, &mbps, &mtu);
	attr->state = READ_ONCE(dev->port_state);
	attr->phys_state = attr->state == IB_PORT_ACTIVE ? IB_PORT_PHYS_STATE_LINK_UP :
							   IB_PORT_PHYS_STATE_POLLING;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = mtu;
	attr->gid_tbl_len = 128;
	attr->max_msg_sz = dev->max_msg_sz;
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	attr->port_cap_flags = 0;
	agg_encode_speed(mbps, &attr->active_speed, &attr->active_width);
	return 0;
}

static int agg_get_port_immutable(struct ib_device *ibdev, u32 port,
				  struct ib_port_immutable *immutable)
{
	struct ib_port_attr attr = {};
	int err;

	err = ib_query_port(ibdev, port, &attr);
	if (err)
		return err;

	/*
	 * No RDMA_CORE_CAP_IB_MAD, no IB_CM: there is no QP1 yet. Without them
	 * rdma_cm and ib_mad leave the device alone.
	 */
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP | RDMA_CORE_CAP_ETH_AH;
	immutable->pkey_tbl_len = attr.pkey_tbl_len;
	immutable->gid_tbl_len = attr.gid_tbl_len;
	immutable->max_mad_size = 0;
	return 0;
}

static enum rdma_link_layer agg_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static struct net_device *agg_get_netdev(struct ib_device *ibdev, u32 port)
{
	return agg_dev_get_netdev(to_adev(ibdev));
}

static int agg_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

static int agg_modify_device(struct ib_device *ibdev, int mask, struct ib_device_modify *attr)
{
	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(ibdev->node_desc, attr->node_desc, sizeof(ibdev->node_desc));
	return 0;
}

static void agg_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%s", THIS_MODULE->version);
}

/*
 * Contexts
 */

static int agg_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata)
{
	return 0;
}

static void agg_dealloc_ucontext(struct ib_ucontext *ibuc)
{
}

/*
 * Mappings of rings stay as they are: each holds its ring, and the objects
 * behind them are gone before this is called.
 */
static void agg_disassociate_ucontext(struct ib_ucontext *ibuc)
{
}

const struct ib_device_ops agg_dev_ops = {
	.alloc_hw_port_stats = agg_alloc_hw_port_stats,
	.alloc_pd = agg_alloc_pd,
	.alloc_ucontext = agg_alloc_ucontext,
	.create_cq = agg_create_cq,
	.create_qp = agg_create_qp,
	.dealloc_pd = agg_dealloc_pd,
	.dealloc_ucontext = agg_dealloc_ucontext,
	.dereg_mr = agg_dereg_mr,
	.destroy_cq = agg_destroy_cq,
	.destroy_qp = agg_destroy_qp,
	.disassociate_ucontext = agg_disassociate_ucontext,
	.get_dev_fw_str = agg_get_dev_fw_str,
	.get_hw_stats = agg_get_hw_stats,
	.get_link_layer = agg_get_link_layer,
	.get_netdev = agg_get_netdev,
	.get_port_immutable = agg_get_port_immutable,
	.mmap = agg_mmap,
	.modify_device = agg_modify_device,
	.modify_qp = agg_modify_qp,
	.poll_cq = agg_poll_cq,
	.post_recv = agg_post_recv,
	.post_send = agg_post_send,
	.query_device = agg_query_device,
	.query_pkey = agg_query_pkey,
	.query_port = agg_query_port,
	.query_qp = agg_query_qp,
	.reg_user_mr = agg_op_reg_user_mr,
	.req_notify_cq = agg_req_notify_cq,
	.rereg_user_mr = agg_rereg_user_mr,
	.resize_user_cq = agg_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, agg_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_pd, agg_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, agg_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, agg_ucontext, ibuc),
};
