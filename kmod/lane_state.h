/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The states of a lane and which may follow which: pure, see hash.h.
 */
#ifndef AGG_LANE_STATE_H
#define AGG_LANE_STATE_H

#include <linux/types.h>

/**
 * enum agg_lane_state - what a lane is good for; the values are uapi
 *	(enum rdma_agg_lane_state)
 * @AGG_LANE_DOWN: no carrier, port or device; carries nothing
 * @AGG_LANE_PROBE: carrier is back; carries nothing but probes
 * @AGG_LANE_UP: usable with its full weight
 * @AGG_LANE_CONGESTED: usable with less weight
 * @AGG_LANE_PAUSED: the peer's port pauses it (PFC); last choice
 * @AGG_LANE_STORM: paused without end or progress; carries nothing
 * @AGG_LANE_STATES: number of states
 */
enum agg_lane_state {
	AGG_LANE_DOWN,
	AGG_LANE_PROBE,
	AGG_LANE_UP,
	AGG_LANE_CONGESTED,
	AGG_LANE_PAUSED,
	AGG_LANE_STORM,
	AGG_LANE_STATES
};

bool agg_lane_state_ok(enum agg_lane_state from, enum agg_lane_state to);
const char *agg_lane_state_name(enum agg_lane_state state);
bool agg_lane_usable(enum agg_lane_state state);

#endif /* AGG_LANE_STATE_H */
