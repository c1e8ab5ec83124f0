/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The counters of an agg device as one array: `rdma statistic` and netlink
 * show the same ones.
 */
#ifndef AGG_STATS_H
#define AGG_STATS_H

#include <linux/types.h>

#include "agg.h"

/* Sums over the lanes first, then the events of enum agg_counter. */
enum agg_stat {
	AGG_STAT_TX_REQS,
	AGG_STAT_TX_BYTES,
	AGG_STAT_TX_DONE_REQS,
	AGG_STAT_TX_DONE_BYTES,
	AGG_STAT_TX_ERRORS,
	AGG_STAT_TX_FLUSHED,
	AGG_STAT_RX_POSTED,
	AGG_STAT_RX_REQS,
	AGG_STAT_RX_BYTES,
	AGG_STAT_RX_ERRORS,
	AGG_STAT_RX_FLUSHED,
	AGG_STAT_OUT_REQS,		/* posted and not completed */
	AGG_STAT_OUT_BYTES,
	AGG_STAT_LANE_NR,		/* a lane has the ones before */
	AGG_STAT_EVENTS = AGG_STAT_LANE_NR,
	AGG_STAT_NR = AGG_STAT_EVENTS + AGG_CNT_NR
};

extern const struct rdma_stat_desc agg_stat_descs[AGG_STAT_NR];

void agg_stats_of_lane(const struct agg_lane *lane, u64 *v);
void agg_stats_of_dev(struct agg_dev *dev, u64 *v);

#endif /* AGG_STATS_H */
