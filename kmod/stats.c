// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Counters: sums over the lanes, also those that have left, and their export to
 * `rdma statistic`. What counts events never decreases.
 */
#include "stats.h"

#define EVENT(c)	(AGG_STAT_EVENTS + AGG_CNT_##c)

/* Names for `rdma statistic`; they are user ABI, netlink has its own. */
const struct rdma_stat_desc agg_stat_descs[AGG_STAT_NR] = {
	[AGG_STAT_TX_REQS]		= { .name = "tx_requests" },
	[AGG_STAT_TX_BYTES]		= { .name = "tx_bytes" },
	[AGG_STAT_TX_DONE_REQS]		= { .name = "tx_completed_requests" },
	[AGG_STAT_TX_DONE_BYTES]	= { .name = "tx_completed_bytes" },
	[AGG_STAT_TX_ERRORS]		= { .name = "tx_errors" },
	[AGG_STAT_TX_FLUSHED]		= { .name = "tx_flushed" },
	[AGG_STAT_RX_POSTED]		= { .name = "rx_posted" },
	[AGG_STAT_RX_REQS]		= { .name = "rx_requests" },
	[AGG_STAT_RX_BYTES]		= { .name = "rx_bytes" },
	[AGG_STAT_RX_ERRORS]		= { .name = "rx_errors" },
	[AGG_STAT_RX_FLUSHED]		= { .name = "rx_flushed" },
	[AGG_STAT_OUT_REQS]		= { .name = "outstanding_requests" },
	[AGG_STAT_OUT_BYTES]		= { .name = "outstanding_bytes" },
	[EVENT(TRAP_ARMED)]		= { .name = "traps_armed" },
	[EVENT(TRAP_HIT)]		= { .name = "traps_hit" },
	[EVENT(DOORBELLS)]		= { .name = "doorbells" },
	[EVENT(CQ_OVERFLOW)]		= { .name = "cq_overflows" },
	[EVENT(BAD_WQE)]		= { .name = "bad_wqes" },
	[EVENT(KEY_MISS)]		= { .name = "key_misses" },
	[EVENT(KEY_ABSENT)]		= { .name = "keys_absent" },
	[EVENT(ATTACH_OK)]		= { .name = "attaches" },
	[EVENT(ATTACH_FAIL)]		= { .name = "attach_failures" },
	[EVENT(SESSION_UP)]		= { .name = "sessions_up" },
	[EVENT(SESSION_DOWN)]		= { .name = "sessions_down" },
	[EVENT(SESSION_REJECT)]		= { .name = "sessions_rejected" },
	[EVENT(SESSION_BAD_MSG)]	= { .name = "bad_messages" },
	[EVENT(QP_FATAL)]		= { .name = "qp_errors" },
	[EVENT(RNR_EXCEEDED)]		= { .name = "rnr_exceeded" },
	[EVENT(FAILOVER)]		= { .name = "failovers" },
	[EVENT(FAILOVER_LOST)]		= { .name = "failovers_lost" },
	[EVENT(MOVE)]			= { .name = "moves" },
	[EVENT(REPLAYED)]		= { .name = "requests_replayed" },
	[EVENT(RESOLVED)]		= { .name = "requests_resolved" },
	[EVENT(ATOMIC_LOST)]		= { .name = "atomics_lost" },
	[EVENT(PATH_LOST)]		= { .name = "paths_lost" },
};

static void agg_stats_add(u64 *v, const struct agg_lane_stats *s)
{
	v[AGG_STAT_TX_REQS] += s->tx_reqs;
	v[AGG_STAT_TX_BYTES] += s->tx_bytes;
	v[AGG_STAT_TX_DONE_REQS] += s->tx_done_reqs;
	v[AGG_STAT_TX_DONE_BYTES] += s->tx_done_bytes;
	v[AGG_STAT_TX_ERRORS] += s->tx_errors;
	v[AGG_STAT_TX_FLUSHED] += s->tx_flushed;
	v[AGG_STAT_RX_POSTED] += s->rx_posted;
	v[AGG_STAT_RX_REQS] += s->rx_reqs;
	v[AGG_STAT_RX_BYTES] += s->rx_bytes;
	v[AGG_STAT_RX_ERRORS] += s->rx_errors;
	v[AGG_STAT_RX_FLUSHED] += s->rx_flushed;
	/*
	 * Posts and completions are counted on different CPUs, and go on while
	 * we add up: the difference may be off by what happens meanwhile, but
	 * is never shown below 0.
	 */
	v[AGG_STAT_OUT_REQS] += s->tx_reqs - min(s->tx_reqs, s->tx_done_reqs);
	v[AGG_STAT_OUT_BYTES] += s->tx_bytes - min(s->tx_bytes, s->tx_done_bytes);
}

/**
 * agg_stats_of_lane() - the counters of a lane
 * @lane: the lane
 * @v: room for AGG_STAT_LANE_NR
 *
 * Context: any.
 */
void agg_stats_of_lane(const struct agg_lane *lane, u64 *v)
{
	struct agg_lane_stats s;

	memset(v, 0, AGG_STAT_LANE_NR * sizeof(*v));
	agg_lane_read_stats(lane, &s);
	agg_stats_add(v, &s);
}

/**
 * agg_stats_of_dev() - the counters of a device
 * @dev: the device
 * @v: room for AGG_STAT_NR
 *
 * Context: process.
 */
void agg_stats_of_dev(struct agg_dev *dev, u64 *v)
{
	struct agg_lane_stats s;
	struct agg_lane *lane;
	int i;

	memset(v, 0, AGG_STAT_LANE_NR * sizeof(*v));
	/* No lane is counted twice or left out when it leaves meanwhile. */
	spin_lock(&dev->stats_lock);
	agg_stats_add(v, &dev->gone);
	/* Whatever it did not complete is nobody's any more. */
	v[AGG_STAT_OUT_REQS] = 0;
	v[AGG_STAT_OUT_BYTES] = 0;
	if (dev->leaving) {
		agg_lane_read_stats(dev->leaving, &s);
		agg_stats_add(v, &s);
	}
	rcu_read_lock();
	for (i = 0; i < AGG_MAX_LANES; i++) {
		lane = rcu_dereference(dev->lanes[i]);
		if (!lane)
			continue;
		agg_lane_read_stats(lane, &s);
		agg_stats_add(v, &s);
	}
	rcu_read_unlock();
	spin_unlock(&dev->stats_lock);
	for (i = 0; i < AGG_CNT_NR; i++)
		v[AGG_STAT_EVENTS + i] = atomic64_read(&dev->cnt[i]);
}

/**
 * agg_alloc_hw_port_stats() - the core wants to know what we count
 * @ibdev: agg device
 * @port: its port
 *
 * Context: may sleep.
 * Return: the structure that agg_get_hw_stats() will fill, or NULL.
 */
struct rdma_hw_stats *agg_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	int i;

	BUILD_BUG_ON(ARRAY_SIZE(agg_stat_descs) != AGG_STAT_NR);
	/* enum agg_counter has grown and the table has not */
	for (i = 0; i < AGG_STAT_NR; i++)
		if (WARN_ON_ONCE(!agg_stat_descs[i].name))
			return NULL;
	return rdma_alloc_hw_stats_struct(agg_stat_descs, AGG_STAT_NR,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/**
 * agg_get_hw_stats() - read all counters for `rdma statistic` and sysfs
 * @ibdev: agg device
 * @stats: to be filled
 * @port: its port
 * @index: the counter that is asked for; all are read
 *
 * Context: may sleep.
 * Return: how many were read, or -EINVAL without a port.
 */
int agg_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	if (!port || !stats)
		return -EINVAL;

	agg_stats_of_dev(to_adev(ibdev), stats->value);
	return AGG_STAT_NR;
}
