// SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause)
/* Do not edit directly, auto-generated from: */
/*	Documentation/netlink/specs/rdma_agg.yaml */
/* YNL-GEN kernel source */

#include <net/netlink.h>
#include <net/genetlink.h>

#include "netlink_policy.h"

#include <uapi/rdma/rdma_agg.h>

/* RDMA_AGG_CMD_DEV_GET - do */
const struct nla_policy rdma_agg_dev_get_nl_policy[RDMA_AGG_A_DEV_DEV_NAME + 1] = {
	[RDMA_AGG_A_DEV_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_DEV_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
};

/* RDMA_AGG_CMD_DEV_NEW - do */
const struct nla_policy rdma_agg_dev_new_nl_policy[RDMA_AGG_A_DEV_IFNAME + 1] = {
	[RDMA_AGG_A_DEV_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_DEV_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
	[RDMA_AGG_A_DEV_IFNAME] = { .type = NLA_NUL_STRING, .len = 15, },
};

/* RDMA_AGG_CMD_DEV_DEL - do */
const struct nla_policy rdma_agg_dev_del_nl_policy[RDMA_AGG_A_DEV_DEV_NAME + 1] = {
	[RDMA_AGG_A_DEV_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_DEV_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
};

/* RDMA_AGG_CMD_LANE_GET - do */
const struct nla_policy rdma_agg_lane_get_nl_policy[RDMA_AGG_A_LANE_IBDEV_PORT + 1] = {
	[RDMA_AGG_A_LANE_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_LANE_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_LANE_IBDEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_LANE_IBDEV_PORT] = NLA_POLICY_MIN(NLA_U32, 1),
};

/* RDMA_AGG_CMD_LANE_NEW - do */
const struct nla_policy rdma_agg_lane_new_nl_policy[RDMA_AGG_A_LANE_WEIGHT + 1] = {
	[RDMA_AGG_A_LANE_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_LANE_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_LANE_IBDEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_LANE_IBDEV_PORT] = NLA_POLICY_MIN(NLA_U32, 1),
	[RDMA_AGG_A_LANE_RAIL] = NLA_POLICY_MAX(NLA_U32, 254),
	[RDMA_AGG_A_LANE_WEIGHT] = { .type = NLA_U32, },
};

/* RDMA_AGG_CMD_LANE_DEL - do */
const struct nla_policy rdma_agg_lane_del_nl_policy[RDMA_AGG_A_LANE_IBDEV_PORT + 1] = {
	[RDMA_AGG_A_LANE_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_LANE_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_LANE_IBDEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_LANE_IBDEV_PORT] = NLA_POLICY_MIN(NLA_U32, 1),
};

/* RDMA_AGG_CMD_LANE_SET - do */
const struct nla_policy rdma_agg_lane_set_nl_policy[RDMA_AGG_A_LANE_ADMIN + 1] = {
	[RDMA_AGG_A_LANE_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_LANE_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_LANE_IBDEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_LANE_IBDEV_PORT] = NLA_POLICY_MIN(NLA_U32, 1),
	[RDMA_AGG_A_LANE_RAIL] = NLA_POLICY_MAX(NLA_U32, 254),
	[RDMA_AGG_A_LANE_WEIGHT] = { .type = NLA_U32, },
	[RDMA_AGG_A_LANE_ADMIN] = NLA_POLICY_MAX(NLA_U32, 2),
};

/* RDMA_AGG_CMD_PEER_GET - do */
const struct nla_policy rdma_agg_peer_get_nl_policy[RDMA_AGG_A_PEER_SGID + 1] = {
	[RDMA_AGG_A_PEER_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_PEER_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_PEER_GID] = NLA_POLICY_EXACT_LEN(16),
	[RDMA_AGG_A_PEER_SGID] = NLA_POLICY_EXACT_LEN(16),
};

/* RDMA_AGG_CMD_QP_GET - do */
const struct nla_policy rdma_agg_qp_get_nl_policy[RDMA_AGG_A_QP_QPN + 1] = {
	[RDMA_AGG_A_QP_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_QP_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_QP_QPN] = { .type = NLA_U32, },
};

/* RDMA_AGG_CMD_STAT_GET - do */
const struct nla_policy rdma_agg_stat_get_nl_policy[RDMA_AGG_A_STAT_IBDEV_PORT + 1] = {
	[RDMA_AGG_A_STAT_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_STAT_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_STAT_IBDEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_STAT_IBDEV_PORT] = NLA_POLICY_MIN(NLA_U32, 1),
};

/* RDMA_AGG_CMD_PARAM_GET - do */
const struct nla_policy rdma_agg_param_get_nl_policy[RDMA_AGG_A_PARAM_DEV_NAME + 1] = {
	[RDMA_AGG_A_PARAM_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_PARAM_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
};

/* RDMA_AGG_CMD_PARAM_SET - do */
const struct nla_policy rdma_agg_param_set_nl_policy[RDMA_AGG_A_PARAM_PROBE_LOST + 1] = {
	[RDMA_AGG_A_PARAM_DEV_INDEX] = { .type = NLA_U32, },
	[RDMA_AGG_A_PARAM_DEV_NAME] = { .type = NLA_NUL_STRING, .len = 63, },
	[RDMA_AGG_A_PARAM_POLICY] = NLA_POLICY_MAX(NLA_U32, 3),
	[RDMA_AGG_A_PARAM_LOAD_BOUND] = NLA_POLICY_RANGE(NLA_U32, 100, 10000),
	[RDMA_AGG_A_PARAM_TX_QUEUES] = NLA_POLICY_RANGE(NLA_U32, 1, 64),
	[RDMA_AGG_A_PARAM_RX_QUEUES] = NLA_POLICY_RANGE(NLA_U32, 1, 64),
	[RDMA_AGG_A_PARAM_SESSION_PORT] = NLA_POLICY_MIN(NLA_U16, 1),
	[RDMA_AGG_A_PARAM_CONNECT_TIMEOUT] = NLA_POLICY_RANGE(NLA_U32, 10, 30000),
	[RDMA_AGG_A_PARAM_KEEPALIVE] = NLA_POLICY_MAX(NLA_U32, 30000),
	[RDMA_AGG_A_PARAM_RNR_GRACE] = NLA_POLICY_MAX(NLA_U32, 10000),
	[RDMA_AGG_A_PARAM_ACK_TIMEOUT_MIN] = NLA_POLICY_RANGE(NLA_U32, 1, 31),
	[RDMA_AGG_A_PARAM_ACK_TIMEOUT_MAX] = NLA_POLICY_RANGE(NLA_U32, 1, 31),
	[RDMA_AGG_A_PARAM_FAILOVER_TIMEOUT] = { .type = NLA_U32, },
	[RDMA_AGG_A_PARAM_UPDELAY] = NLA_POLICY_MAX(NLA_U32, 30000),
	[RDMA_AGG_A_PARAM_PROBE_INTERVAL] = NLA_POLICY_MAX(NLA_U32, 10000),
	[RDMA_AGG_A_PARAM_PROBE_LOST] = NLA_POLICY_RANGE(NLA_U32, 2, 100),
	[RDMA_AGG_A_PARAM_PSK] = { .type = NLA_BINARY, },
};

/* Ops table for rdma_agg */
const struct genl_ops rdma_agg_nl_ops[12] = {
	{
		.cmd		= RDMA_AGG_CMD_DEV_GET,
		.doit		= rdma_agg_nl_dev_get_doit,
		.dumpit		= rdma_agg_nl_dev_get_dumpit,
		.policy		= rdma_agg_dev_get_nl_policy,
		.maxattr	= RDMA_AGG_A_DEV_DEV_NAME,
	},
	{
		.cmd		= RDMA_AGG_CMD_DEV_NEW,
		.doit		= rdma_agg_nl_dev_new_doit,
		.policy		= rdma_agg_dev_new_nl_policy,
		.maxattr	= RDMA_AGG_A_DEV_IFNAME,
		.flags		= GENL_UNS_ADMIN_PERM,
	},
	{
		.cmd		= RDMA_AGG_CMD_DEV_DEL,
		.doit		= rdma_agg_nl_dev_del_doit,
		.policy		= rdma_agg_dev_del_nl_policy,
		.maxattr	= RDMA_AGG_A_DEV_DEV_NAME,
		.flags		= GENL_UNS_ADMIN_PERM,
	},
	{
		.cmd		= RDMA_AGG_CMD_LANE_GET,
		.doit		= rdma_agg_nl_lane_get_doit,
		.dumpit		= rdma_agg_nl_lane_get_dumpit,
		.policy		= rdma_agg_lane_get_nl_policy,
		.maxattr	= RDMA_AGG_A_LANE_IBDEV_PORT,
	},
	{
		.cmd		= RDMA_AGG_CMD_LANE_NEW,
		.doit		= rdma_agg_nl_lane_new_doit,
		.policy		= rdma_agg_lane_new_nl_policy,
		.maxattr	= RDMA_AGG_A_LANE_WEIGHT,
		.flags		= GENL_UNS_ADMIN_PERM,
	},
	{
		.cmd		= RDMA_AGG_CMD_LANE_DEL,
		.doit		= rdma_agg_nl_lane_del_doit,
		.policy		= rdma_agg_lane_del_nl_policy,
		.maxattr	= RDMA_AGG_A_LANE_IBDEV_PORT,
		.flags		= GENL_UNS_ADMIN_PERM,
	},
	{
		.cmd		= RDMA_AGG_CMD_LANE_SET,
		.doit		= rdma_agg_nl_lane_set_doit,
		.policy		= rdma_agg_lane_set_nl_policy,
		.maxattr	= RDMA_AGG_A_LANE_ADMIN,
		.flags		= GENL_UNS_ADMIN_PERM,
	},
	{
		.cmd		= RDMA_AGG_CMD_PEER_GET,
		.doit		= rdma_agg_nl_peer_get_doit,
		.dumpit		= rdma_agg_nl_peer_get_dumpit,
		.policy		= rdma_agg_peer_get_nl_policy,
		.maxattr	= RDMA_AGG_A_PEER_SGID,
	},
	{
		.cmd		= RDMA_AGG_CMD_QP_GET,
		.doit		= rdma_agg_nl_qp_get_doit,
		.dumpit		= rdma_agg_nl_qp_get_dumpit,
		.policy		= rdma_agg_qp_get_nl_policy,
		.maxattr	= RDMA_AGG_A_QP_QPN,
	},
	{
		.cmd		= RDMA_AGG_CMD_STAT_GET,
		.doit		= rdma_agg_nl_stat_get_doit,
		.dumpit		= rdma_agg_nl_stat_get_dumpit,
		.policy		= rdma_agg_stat_get_nl_policy,
		.maxattr	= RDMA_AGG_A_STAT_IBDEV_PORT,
	},
	{
		.cmd		= RDMA_AGG_CMD_PARAM_GET,
		.doit		= rdma_agg_nl_param_get_doit,
		.dumpit		= rdma_agg_nl_param_get_dumpit,
		.policy		= rdma_agg_param_get_nl_policy,
		.maxattr	= RDMA_AGG_A_PARAM_DEV_NAME,
	},
	{
		.cmd		= RDMA_AGG_CMD_PARAM_SET,
		.doit		= rdma_agg_nl_param_set_doit,
		.policy		= rdma_agg_param_set_nl_policy,
		.maxattr	= RDMA_AGG_A_PARAM_PROBE_LOST,
		.flags		= GENL_UNS_ADMIN_PERM,
	},
};

static const struct genl_multicast_group rdma_agg_nl_mcgrps[] = {
	[RDMA_AGG_NLGRP_MON] = { "mon", },
};
