/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Between the files of the netlink family: netlink.c (requests), nl_event.c
 * (family, notices), nl_fill.c (objects as messages).
 */
#ifndef AGG_NL_H
#define AGG_NL_H

#include <net/genetlink.h>

#include "agg.h"
#include "generated/netlink_policy.h"

struct agg_peer_info;

/**
 * struct agg_nl_msg - where an object is to be put
 * @skb: the message, or the part of a dump, it goes to
 * @portid: of the asker
 * @seq: of the request
 * @flags: of the header
 * @cmd: enum of the uapi
 * @event: enum rdma_agg_event of a notice, else -1
 * @old_state: the state that a lane had, or -1
 */
struct agg_nl_msg {
	struct sk_buff *skb;
	u32 portid;
	u32 seq;
	int flags;
	u8 cmd;
	int event;
	int old_state;
};

/* Room that one queue takes in a message, with some to spare. */
#define AGG_NL_QUEUE_SIZE	128

extern struct genl_family agg_nl_family;

int agg_nl_fill_dev(struct agg_nl_msg *msg, struct agg_dev *dev);
int agg_nl_fill_lane(struct agg_nl_msg *msg, struct agg_dev *dev, struct agg_lane *lane);
int agg_nl_fill_peer(struct agg_nl_msg *msg, struct agg_dev *dev,
		     const struct agg_peer_info *peer, bool all);
int agg_nl_fill_qp(struct agg_nl_msg *msg, struct agg_dev *dev, struct agg_qp *qp);
int agg_nl_fill_dev_stats(struct agg_nl_msg *msg, struct agg_dev *dev);
int agg_nl_fill_lane_stats(struct agg_nl_msg *msg, struct agg_dev *dev, struct agg_lane *lane,
			   unsigned int *queue);
int agg_nl_fill_param(struct agg_nl_msg *msg, struct agg_dev *dev);

void agg_nl_lane_set_event(struct agg_lane *lane);
void agg_nl_param_event(struct agg_dev *dev);

#endif /* AGG_NL_H */
