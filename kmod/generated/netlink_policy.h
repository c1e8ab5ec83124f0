/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/* Do not edit directly, auto-generated from: */
/*	Documentation/netlink/specs/rdma_agg.yaml */
/* YNL-GEN kernel header */

#ifndef _LINUX_RDMA_AGG_GEN_H
#define _LINUX_RDMA_AGG_GEN_H

#include <net/netlink.h>
#include <net/genetlink.h>

#include <uapi/rdma/rdma_agg.h>

extern const struct nla_policy rdma_agg_dev_get_nl_policy[RDMA_AGG_A_DEV_DEV_NAME + 1];

extern const struct nla_policy rdma_agg_dev_new_nl_policy[RDMA_AGG_A_DEV_IFNAME + 1];

extern const struct nla_policy rdma_agg_dev_del_nl_policy[RDMA_AGG_A_DEV_DEV_NAME + 1];

extern const struct nla_policy rdma_agg_lane_get_nl_policy[RDMA_AGG_A_LANE_IBDEV_PORT + 1];

extern const struct nla_policy rdma_agg_lane_new_nl_policy[RDMA_AGG_A_LANE_WEIGHT + 1];

extern const struct nla_policy rdma_agg_lane_del_nl_policy[RDMA_AGG_A_LANE_IBDEV_PORT + 1];

extern const struct nla_policy rdma_agg_lane_set_nl_policy[RDMA_AGG_A_LANE_ADMIN + 1];

extern const struct nla_policy rdma_agg_peer_get_nl_policy[RDMA_AGG_A_PEER_SGID + 1];

extern const struct nla_policy rdma_agg_qp_get_nl_policy[RDMA_AGG_A_QP_QPN + 1];

extern const struct nla_policy rdma_agg_stat_get_nl_policy[RDMA_AGG_A_STAT_IBDEV_PORT + 1];

extern const struct nla_policy rdma_agg_param_get_nl_policy[RDMA_AGG_A_PARAM_DEV_NAME + 1];

extern const struct nla_policy rdma_agg_param_set_nl_policy[RDMA_AGG_A_PARAM_PROBE_LOST + 1];

/* Ops table for rdma_agg */
extern const struct genl_ops rdma_agg_nl_ops[12];

int rdma_agg_nl_dev_get_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_dev_get_dumpit(struct sk_buff *skb,
			       struct netlink_callback *cb);
int rdma_agg_nl_dev_new_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_dev_del_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_lane_get_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_lane_get_dumpit(struct sk_buff *skb,
				struct netlink_callback *cb);
int rdma_agg_nl_lane_new_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_lane_del_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_lane_set_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_peer_get_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_peer_get_dumpit(struct sk_buff *skb,
				struct netlink_callback *cb);
int rdma_agg_nl_qp_get_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_qp_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb);
int rdma_agg_nl_stat_get_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_stat_get_dumpit(struct sk_buff *skb,
				struct netlink_callback *cb);
int rdma_agg_nl_param_get_doit(struct sk_buff *skb, struct genl_info *info);
int rdma_agg_nl_param_get_dumpit(struct sk_buff *skb,
				 struct netlink_callback *cb);
int rdma_agg_nl_param_set_doit(struct sk_buff *skb, struct genl_info *info);

enum {
	RDMA_AGG_NLGRP_MON,
};

#endif /* _LINUX_RDMA_AGG_GEN_H */
