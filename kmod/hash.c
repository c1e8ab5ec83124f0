// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Which (lane, queue) slot carries a flow.
 *
 * Weighted rendezvous hashing: each slot s draws a pseudo-random u(s) in
 * (0, 1] from (flow, slot), and the slot with the highest score
 *
 *	w(s) / -ln u(s)
 *
 * wins.  -ln u is exponentially distributed, and of independent exponential
 * draws with rates w(s) the smallest, -ln u(s) / w(s), belongs to slot s with
 * probability w(s) / sum(w): so flows spread by weight.  A slot's score
 * depends on no other slot: taking lanes away moves only their own flows, and
 * the order of candidates does not matter.
 *
 * D. Thaler, C. Ravishankar: "Using name-based mappings to increase hit
 * rates", IEEE/ACM ToN 6(1), 1998 (rendezvous hashing); J. Resch: "New hashing
 * algorithms for data storage", SNIA SDC 2015 (the logarithmic score).
 *
 * Here in integers: log2 instead of ln (a constant factor decides nothing),
 * the smallest -log2(u) * queues / weight instead of the largest score (the
 * queues of a lane share its weight), and log2 by a table with linear
 * interpolation.
 *
 * Bounded load: V. Mirrokni, M. Thorup, M. Zadimoghaddam: "Consistent hashing
 * with bounded loads", SODA 2018.  A full lane takes no part in the draw.
 */
#include <linux/jhash.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/string.h>

#include "hash.h"

/* Parts of the protocol between two hosts: never change them. */
#define AGG_FLOW_SEED	0x61676730
#define AGG_SLOT_SEED	0x736c6f74

static u32 agg_be32(const u8 *p)
{
	return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

/**
 * agg_flow_hash - the hash of a connection, the same at both ends
 * @flow: the connection
 *
 * Jenkins' lookup3 (jhash2) over both GIDs and both QP numbers. The end with
 * the smaller (GID, QP number) goes first, whoever computes it, and words are
 * read from the GIDs as big-endian numbers, so that byte order does not
 * matter either.
 *
 * Context: any.
 * Return: the hash.
 */
u32 agg_flow_hash(const struct agg_flow *flow)
{
	const u8 *lo = flow->sgid, *hi = flow->dgid;
	u32 lo_qpn = flow->sqpn, hi_qpn = flow->dqpn;
	unsigned int i;
	u32 word[10];
	int order;

	order = memcmp(lo, hi, sizeof(flow->sgid));
	if (order > 0 || (order == 0 && lo_qpn > hi_qpn)) {
		lo = flow->dgid;
		hi = flow->sgid;
		lo_qpn = flow->dqpn;
		hi_qpn = flow->sqpn;
	}
	for (i = 0; i < 4; i++) {
		word[i] = agg_be32(lo + 4 * i);
		word[4 + i] = agg_be32(hi + 4 * i);
	}
	word[8] = lo_qpn;
	word[9] = hi_qpn;
	return jhash2(word, ARRAY_SIZE(word), AGG_FLOW_SEED);
}

/* log2(1 + i/64) * 2^32, rounded */
static const u32 agg_log2_tab[64] = {
	0x00000000, 0x05b9e5a1, 0x0b5d69bb, 0x10eb38a0, 0x1663f6fb, 0x1bc84241,
	0x2118b11a, 0x2655d3c5, 0x2b803474, 0x309857a0, 0x359ebc5b, 0x3a93dc98,
	0x3f782d72, 0x444c1f6b, 0x49101eac, 0x4dc4933b, 0x5269e12f, 0x570068e8,
	0x5b888736, 0x6002958c, 0x646eea24, 0x68cdd82a, 0x6d1fafdd, 0x7164beb5,
	0x759d4f81, 0x79c9aa88, 0x7dea15a3, 0x81fed45d, 0x86082807, 0x8a064fd5,
	0x8df988f5, 0x91e20ea1, 0x95c01a3a, 0x9993e356, 0x9d5d9fd5, 0xa11d83f5,
	0xa4d3c25e, 0xa8808c38, 0xac241135, 0xafbe7fa1, 0xb3500472, 0xb6d8cb54,
	0xba58feb2, 0xbdd0c7ca, 0xc1404eae, 0xc4a7ba58, 0xc80730b0, 0xcb5ed695,
	0xceaecfeb, 0xd1f73f9c, 0xd53847ac, 0xd8720936, 0xdba4a47b, 0xded038e6,
	0xe1f4e517, 0xe512c6e5, 0xe829fb69, 0xeb3a9f02, 0xee44cd5a, 0xf148a170,
	0xf446359b, 0xf73da38e, 0xfa2f045e, 0xfd1a708c,
};

/*
 * -log2((h + 1) / 2^32) in units of 2^-32: 0..32 << 32, strictly falling in h.
 * The interpolation error is under 0.5 % of the result, for small results
 * too, which are the ones that win.
 */
static u64 agg_neg_log2(u32 h)
{
	u64 x = (u64)h + 1, next;
	u32 frac, i, rest;
	int exp = 0;

	while (x >> (exp + 1))
		exp++;
	if (exp == 32)
		return 0;
	/* the mantissa's digits behind the point, 32 of them */
	frac = (u32)(x << (32 - exp));
	i = frac >> 26;
	rest = frac & ((1U << 26) - 1);
	next = i == 63 ? 1ULL << 32 : agg_log2_tab[i + 1];
	return ((u64)(32 - exp) << 32) - agg_log2_tab[i] -
	       (((next - agg_log2_tab[i]) * rest) >> 26);
}

/* The best draw among the queues of one lane: the largest u. */
static u32 agg_best_queue(u32 hash, const struct agg_hash_lane *lane, u32 *queue)
{
	u32 best = 0, h, q;

	*queue = 0;
	for (q = 0; q < lane->queues; q++) {
		h = jhash_3words(hash, lane->key, q, AGG_SLOT_SEED);
		if (h > best) {
			best = h;
			*queue = q;
		}
	}
	return best;
}

/**
 * agg_load_ok - may a lane take one more flow?
 * @flows: flows of this lane
 * @weight: its weight
 * @total_flows: flows of all candidates
 * @total_weight: weight of all candidates
 * @bound: in percent of the fair share; 100 is as even as whole flows can be
 *
 * That is flows + 1 <= ceil(bound / 100 * (total_flows + 1) * weight /
 * total_weight). With a bound of 100 or more the right-hand sides add up to
 * more than the flows there are, so some lane always may.
 *
 * Context: any.
 * Return: true if it may.
 */
bool agg_load_ok(u32 flows, u32 weight, u64 total_flows, u64 total_weight, u32 bound)
{
	u64 limit = (total_flows + 1) * weight * bound;

	return flows < div64_u64(limit + 100 * total_weight - 1, 100 * total_weight);
}

/**
 * agg_rendezvous - the slot of a flow
 * @hash: agg_flow_hash() of the flow
 * @lane: candidates; no two have the same key
 * @n: how many, at least 1
 * @bound: see agg_load_ok(); 0 = no bound
 * @queue: where the queue within the lane is put
 *
 * Slots are the (lane, queue) pairs of all candidates: slot number =
 * queue + queues of the lanes before, so that with equal lanes lane = slot /
 * queues and queue = slot % queues. Only the lanes that agg_load_ok() take
 * part, or, with a bound under 100 that leaves none, the least loaded one.
 *
 * Context: any.
 * Return: index of the lane in @lane. It depends on the set of candidates, not
 * on their order.
 */
unsigned int agg_rendezvous(u32 hash, const struct agg_hash_lane *lane, unsigned int n,
			    u32 bound, u32 *queue)
{
	u64 total_flows = 0, total_weight = 0, score, best_score = U64_MAX;
	unsigned int i, best = n, least = 0;
	u32 q;

	for (i = 0; i < n; i++) {
		total_flows += lane[i].flows;
		total_weight += lane[i].weight;
	}
	for (i = 0; i < n; i++) {
		u64 mine = (u64)lane[i].flows * lane[least].weight;
		u64 its = (u64)lane[least].flows * lane[i].weight;

		if (mine < its || (mine == its && lane[i].key < lane[least].key))
			least = i;
		if (bound && !agg_load_ok(lane[i].flows, lane[i].weight, total_flows,
					  total_weight, bound))
			continue;
		/*
		 * Of the slots of one lane, which have equal weights, the one
		 * with the largest u wins: one logarithm per lane will do.
		 * 38 bits for the logarithm + 7 + 16 fit, and 16 digits more
		 * keep the quotient exact enough for any weight.
		 */
		score = agg_neg_log2(agg_best_queue(hash, &lane[i], &q)) * lane[i].queues;
		score = div64_u64(score << 16, lane[i].weight);
		if (best == n || score < best_score ||
		    (score == best_score && lane[i].key < lane[best].key)) {
			best = i;
			best_score = score;
			*queue = q;
		}
	}
	if (best == n) {
		best = least;
		agg_best_queue(hash, &lane[best], queue);
	}
	return best;
}
