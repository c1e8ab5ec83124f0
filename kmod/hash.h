/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Flow hash and lane choice: pure functions, no locks, no allocation, no
 * ib_*.  The same file is compiled into the user-space unit tests.
 */
#ifndef AGG_HASH_H
#define AGG_HASH_H

#include <linux/types.h>

/*
 * Largest weight of a lane that keeps every product below inside 64 bits:
 * load bound (14 bits) * flows (24 bits: QP numbers) * weight (24 bits).
 * In Mbit/s, the unit of a default weight, it is 16.7 Tbit/s.
 */
#define AGG_WEIGHT_MAX		((1U << 24) - 1)
#define AGG_LOAD_BOUND_MAX	10000
#define AGG_QUEUES_MAX		64

/**
 * struct agg_flow - what identifies the two directions of one RC connection
 * @sgid: our GID, network byte order
 * @dgid: the peer's GID
 * @sqpn: our agg QP number
 * @dqpn: the peer's
 */
struct agg_flow {
	u8 sgid[16], dgid[16];
	u32 sqpn, dqpn;
};

/**
 * struct agg_hash_lane - a lane as rendezvous hashing sees it
 * @key: identifies the lane; what is hashed, so equal on both hosts for
 *	lanes that belong together, and different for two lanes of one host
 * @weight: share of the flows, 1..AGG_WEIGHT_MAX
 * @queues: its slots, 1..AGG_QUEUES_MAX; they divide the weight evenly
 * @flows: flows it carries now
 */
struct agg_hash_lane {
	u32 key;
	u32 weight;
	u32 queues;
	u32 flows;
};

u32 agg_flow_hash(const struct agg_flow *flow);
bool agg_load_ok(u32 flows, u32 weight, u64 total_flows, u64 total_weight, u32 bound);
unsigned int agg_rendezvous(u32 hash, const struct agg_hash_lane *lane, unsigned int n,
			    u32 bound, u32 *queue);

#endif /* AGG_HASH_H */
