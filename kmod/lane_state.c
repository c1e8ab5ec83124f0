// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "lane_state.h"

#define TO(state)	(1U << AGG_LANE_##state)

/*
 *   DOWN -> PROBE -> UP <-> CONGESTED <-> PAUSED -> STORM
 *             ^                                       |
 *             +---------------------------------------+
 *
 * Beside this cycle: every state falls to DOWN; a first XOFF takes a lane
 * from UP straight to PAUSED, and it comes back through CONGESTED, so that
 * the first thing after a pause is a reduced weight; a probe may end in UP, in
 * CONGESTED (a careful start) or, failed, in STORM.  Work enters a lane that
 * was unusable by way of PROBE alone.
 */
static const u8 agg_lane_next[AGG_LANE_STATES] = {
	[AGG_LANE_DOWN]		= TO(PROBE),
	[AGG_LANE_PROBE]	= TO(UP) | TO(CONGESTED) | TO(STORM) | TO(DOWN),
	[AGG_LANE_UP]		= TO(CONGESTED) | TO(PAUSED) | TO(DOWN),
	[AGG_LANE_CONGESTED]	= TO(UP) | TO(PAUSED) | TO(DOWN),
	[AGG_LANE_PAUSED]	= TO(CONGESTED) | TO(STORM) | TO(DOWN),
	[AGG_LANE_STORM]	= TO(PROBE) | TO(DOWN),
};

static const char * const agg_lane_names[AGG_LANE_STATES] = {
	[AGG_LANE_DOWN]		= "down",
	[AGG_LANE_PROBE]	= "probe",
	[AGG_LANE_UP]		= "up",
	[AGG_LANE_CONGESTED]	= "congested",
	[AGG_LANE_PAUSED]	= "paused",
	[AGG_LANE_STORM]	= "storm",
};

/**
 * agg_lane_state_ok - may a lane go from one state to another?
 * @from: the state it has
 * @to: the state it shall get
 *
 * Context: any.
 * Return: true if the transition is in the table. A state is no successor of
 * itself: the caller has nothing to do then, and nothing to announce.
 */
bool agg_lane_state_ok(enum agg_lane_state from, enum agg_lane_state to)
{
	if ((unsigned int)from >= AGG_LANE_STATES || (unsigned int)to >= AGG_LANE_STATES)
		return false;
	return agg_lane_next[from] & (1U << to);
}

/**
 * agg_lane_state_name - a state as people read it
 * @state: a state
 *
 * Context: any.
 * Return: a static string, "?" for no state.
 */
const char *agg_lane_state_name(enum agg_lane_state state)
{
	if ((unsigned int)state >= AGG_LANE_STATES)
		return "?";
	return agg_lane_names[state];
}

/**
 * agg_lane_usable - may a lane in this state carry work?
 * @state: a state
 *
 * Context: any.
 * Return: true for the states in which flows may be given to the lane.
 */
bool agg_lane_usable(enum agg_lane_state state)
{
	return state == AGG_LANE_UP || state == AGG_LANE_CONGESTED || state == AGG_LANE_PAUSED;
}
