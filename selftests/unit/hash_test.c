// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The file itself, for the sake of its static functions. */
#include "hash.c"

#include <math.h>

#include "tap.h"

#define MAX 16

#define u128 unsigned __int128

static struct agg_flow random_flow(void)
{
	struct agg_flow f;
	u8 *p = (u8 *)&f;

	for (size_t i = 0; i < sizeof(f); i++)
		p[i] = tap_rand();
	f.sqpn &= 0xffffff;
	f.dqpn &= 0xffffff;
	return f;
}

/* 10.0.0.last */
static const u8 *v4_gid(u8 last)
{
	static u8 gid[16] = { [10] = 0xff, [11] = 0xff, [12] = 10 };

	gid[15] = last;
	return gid;
}

static struct agg_flow swapped(const struct agg_flow *f)
{
	struct agg_flow r = { .sqpn = f->dqpn, .dqpn = f->sqpn };

	memcpy(r.sgid, f->dgid, 16);
	memcpy(r.dgid, f->sgid, 16);
	return r;
}

static void equal_lanes(struct agg_hash_lane *l, unsigned int n, u32 weight, u32 queues)
{
	for (unsigned int i = 0; i < n; i++)
		l[i] = (struct agg_hash_lane){ .key = i, .weight = weight, .queues = queues };
}

/* ------------------------------------------------------------------ hash */

TEST(symmetric)
{
	for (int i = 0; i < 100000; i++) {
		struct agg_flow f = random_flow(), r;

		/* the corners of the order: equal up to any byte, and close numbers */
		if (i % 4)
			memcpy(f.dgid, f.sgid, i % 4 == 1 ? 16 : tap_rand() % 17);
		if (i / 4 % 2)
			f.dqpn = f.sqpn + i / 8 % 3;
		r = swapped(&f);
		CHECK(agg_flow_hash(&f) == agg_flow_hash(&r), "round %d", i);
	}
}

/* Symmetry must not come from mixing up whose QP number is whose. */
TEST(ends_are_pairs)
{
	int same = 0;

	for (int i = 0; i < 10000; i++) {
		struct agg_flow f = random_flow(), g = f;

		g.sqpn = f.dqpn;
		g.dqpn = f.sqpn;
		same += agg_flow_hash(&f) == agg_flow_hash(&g);
	}
	CHECK(same < 3, "%d of 10000", same);
}

/* Any bit of the flow changes every bit of the hash half of the time. */
TEST(avalanche)
{
	enum { ROUNDS = 2000, BITS = sizeof(struct agg_flow) * 8 };
	static int flips[BITS][32];

	for (int i = 0; i < ROUNDS; i++) {
		struct agg_flow f = random_flow(), g;
		u32 h = agg_flow_hash(&f), d;

		for (int b = 0; b < BITS; b++) {
			g = f;
			((u8 *)&g)[b / 8] ^= 1 << (b % 8);
			d = h ^ agg_flow_hash(&g);
			for (int o = 0; o < 32; o++)
				flips[b][o] += d >> o & 1;
		}
	}
	/* 2000 fair coins: sigma 22.4; 10240 of them stay within 5.5 sigma */
	for (int b = 0; b < BITS; b++)
		for (int o = 0; o < 32; o++)
			CHECK(abs(flips[b][o] - ROUNDS / 2) < 124, "in %d out %d: %d", b, o,
			      flips[b][o]);
}

/*
 * The hash is part of the protocol: a change of its value is a change of the
 * protocol. The value is that of an independent implementation of lookup3.
 */
TEST(frozen)
{
	struct agg_flow f = { .sqpn = 0x11, .dqpn = 0x22 };

	memcpy(f.sgid, v4_gid(1), 16);
	memcpy(f.dgid, v4_gid(2), 16);
	CHECK(agg_flow_hash(&f) == 0xa747a5d6, "0x%08x", agg_flow_hash(&f));
	memcpy(f.dgid, f.sgid, 16);
	CHECK(agg_flow_hash(&f) == 0xd6a641fd, "0x%08x", agg_flow_hash(&f));
}

/* ------------------------------------------------------------- logarithm */

TEST(log_is_exact_enough)
{
	for (int i = 0; i < 2000000; i++) {
		/* all magnitudes near both ends */
		u32 h = i < 1000000 ? tap_rand() >> (32 + tap_rand() % 32)
				    : ~(u32)(tap_rand() >> (32 + tap_rand() % 32));
		double want = (32 - log2((double)h + 1)) * 4294967296.0;
		double got = agg_neg_log2(h);

		if (h == U32_MAX) {
			CHECK(got == 0, "%g", got);
			continue;
		}
		CHECK(fabs(got - want) <= 0.005 * want + 1, "h %u: %g, not %g", h, got, want);
		/* of a linear interpolation in 64 steps: 1 / (8 * 64 * 64 * ln 2) */
		CHECK(fabs(got - want) <= 0.000045 * 4294967296.0, "h %u: %g, not %g", h, got,
		      want);
	}
}

TEST(log_falls_strictly)
{
	/* around every border of the table, in every octave */
	for (int e = 0; e < 32; e++) {
		for (int i = 0; i <= 64; i++) {
			u64 at = (1ULL << e) + ((u64)i << e) / 64;

			for (long long h = (long long)at - 6; h < (long long)at + 6; h++) {
				if (h < 0 || h >= (long long)U32_MAX)
					continue;
				CHECK(agg_neg_log2(h) > agg_neg_log2(h + 1), "h %lld", h);
			}
		}
	}
	for (int i = 0; i < 1000000; i++) {
		u32 h = tap_rand();

		if (h != U32_MAX)
			CHECK(agg_neg_log2(h) > agg_neg_log2(h + 1), "h %u", h);
	}
}

/* ------------------------------------------------------------ rendezvous */

static void random_lanes(struct agg_hash_lane *l, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		l[i].key = i * 7 + 3;
		l[i].weight = 1 + (tap_rand() & (tap_rand() & 1 ? 7 : AGG_WEIGHT_MAX - 1));
		l[i].queues = 1 + tap_rand() % AGG_QUEUES_MAX;
		l[i].flows = tap_rand() % 50;
	}
}

TEST(order_of_candidates)
{
	for (int i = 0; i < 20000; i++) {
		struct agg_hash_lane l[MAX], p[MAX], tmp;
		unsigned int n = 1 + tap_rand() % MAX, a, b, j;
		u32 bounds[] = { 0, 100, 125, 50 };
		u32 bound = bounds[tap_rand() % 4];
		u32 hash = tap_rand(), qa, qb;

		random_lanes(l, n);
		memcpy(p, l, sizeof(l));
		for (j = n - 1; j > 0; j--) {
			unsigned int k = tap_rand() % (j + 1);

			tmp = p[j];
			p[j] = p[k];
			p[k] = tmp;
		}
		a = agg_rendezvous(hash, l, n, bound, &qa);
		b = agg_rendezvous(hash, p, n, bound, &qb);
		CHECK(a < n && b < n && qa < l[a].queues, "round %d", i);
		CHECK(l[a].key == p[b].key && qa == qb, "round %d", i);
	}
}

/*
 * The two hosts of a connection see the same lanes in orders of their own, and
 * the flow from its two ends: they choose the same lane and queue.
 */
TEST(both_ends_choose_alike)
{
	for (int i = 0; i < 20000; i++) {
		struct agg_flow f = random_flow(), r = swapped(&f);
		struct agg_hash_lane l[MAX], p[MAX];
		unsigned int n = 1 + tap_rand() % MAX, a, b;
		u32 bound = tap_rand() % 2 ? 100 + tap_rand() % 100 : 0, qa, qb;

		random_lanes(l, n);
		for (unsigned int j = 0; j < n; j++) {
			unsigned int k = tap_rand() % (j + 1);

			p[j] = p[k];
			p[k] = l[j];
		}
		a = agg_rendezvous(agg_flow_hash(&f), l, n, bound, &qa);
		b = agg_rendezvous(agg_flow_hash(&r), p, n, bound, &qb);
		CHECK(l[a].key == p[b].key && qa == qb, "round %d", i);
	}
}

/*
 * What the comment in hash.c says one logarithm per lane stands for: the
 * smallest -log2(u) * queues / weight over all slots, here in floating point.
 */
TEST(same_as_all_slots)
{
	int differ = 0;

	for (int i = 0; i < 20000; i++) {
		struct agg_hash_lane l[MAX];
		unsigned int n = 1 + tap_rand() % 6, a, best = 0;
		u32 hash = tap_rand(), q, bestq = 0;
		double score, best_score = INFINITY;

		random_lanes(l, n);
		for (unsigned int k = 0; k < n; k++) {
			for (u32 s = 0; s < l[k].queues; s++) {
				u32 h = jhash_3words(hash, l[k].key, s, AGG_SLOT_SEED);

				score = (32 - log2((double)h + 1)) * l[k].queues / l[k].weight;
				if (score < best_score) {
					best_score = score;
					best = k;
					bestq = s;
				}
			}
		}
		a = agg_rendezvous(hash, l, n, 0, &q);
		differ += a != best || q != bestq;
	}
	/* near ties go either way within the error of the table */
	CHECK(differ <= 20000 * 0.005, "%d of 20000", differ);
}

/* A lane that leaves moves its own flows, and no other. */
TEST(minimal_movement)
{
	for (int i = 0; i < 20000; i++) {
		struct agg_hash_lane l[MAX], r[MAX];
		unsigned int n = 2 + tap_rand() % (MAX - 1), gone = tap_rand() % n, a, b;
		u32 hash = tap_rand(), qa, qb;

		random_lanes(l, n);
		a = agg_rendezvous(hash, l, n, 0, &qa);
		memcpy(r, l, gone * sizeof(l[0]));
		memcpy(r + gone, l + gone + 1, (n - gone - 1) * sizeof(l[0]));
		b = agg_rendezvous(hash, r, n - 1, 0, &qb);
		if (a == gone)
			CHECK(r[b].key != l[gone].key, "round %d", i);
		else
			CHECK(r[b].key == l[a].key && qa == qb, "round %d", i);
	}
}

/* A lane that comes takes its share, by weight, from the others, and moves nothing else. */
TEST(movement_to_a_new_lane)
{
	enum { FLOWS = 20000 };

	for (int set = 0; set < 20; set++) {
		struct agg_hash_lane l[MAX];
		unsigned int n = 2 + tap_rand() % (MAX - 2), moved = 0, a, b;
		double p, total = 0;
		u32 qa, qb;

		for (unsigned int k = 0; k < n; k++) {
			l[k] = (struct agg_hash_lane){
				.key = k * 5 + 1,
				.weight = 1000 + tap_rand() % 9000,
				.queues = 1 + tap_rand() % 8,
			};
			total += l[k].weight;
		}
		for (int i = 0; i < FLOWS; i++) {
			u32 hash = tap_rand();

			a = agg_rendezvous(hash, l, n - 1, 0, &qa);
			b = agg_rendezvous(hash, l, n, 0, &qb);
			moved += b == n - 1;
			CHECK(b == n - 1 || (a == b && qa == qb), "set %d flow %d", set, i);
		}
		p = l[n - 1].weight / total;
		CHECK(fabs(moved - FLOWS * p) < 5 * sqrt(FLOWS * p * (1 - p)) + 0.005 * FLOWS * p,
		      "set %d: %u moved, not %.0f", set, moved, FLOWS * p);
	}
}

/*
 * A lane is lost and comes back, others come and go: a flow is where it would
 * be had all that never been.
 */
TEST(no_memory)
{
	for (int i = 0; i < 5000; i++) {
		struct agg_hash_lane l[MAX], now[MAX];
		unsigned int n = 3 + tap_rand() % (MAX - 2), a, b, m;
		u32 hash = tap_rand(), qa, qb;

		random_lanes(l, n);
		a = agg_rendezvous(hash, l, n, 0, &qa);
		for (int step = 0; step < 5; step++) {
			m = 0;
			for (unsigned int k = 0; k < n; k++)
				if (k == a || tap_rand() % 2)
					now[m++] = l[k];
			/* As long as its own lane is there nothing moves it. */
			b = agg_rendezvous(hash, now, m, 0, &qb);
			CHECK(now[b].key == l[a].key && qa == qb, "round %d", i);
		}
	}
}

/* More weight for a lane draws flows to it, and moves none among the others. */
TEST(weight_is_monotone)
{
	for (int i = 0; i < 20000; i++) {
		struct agg_hash_lane l[MAX];
		unsigned int n = 2 + tap_rand() % (MAX - 1), up = tap_rand() % n, a, b;
		u32 hash = tap_rand(), qa, qb;

		random_lanes(l, n);
		a = agg_rendezvous(hash, l, n, 0, &qa);
		l[up].weight += tap_rand() % (AGG_WEIGHT_MAX - l[up].weight + 1);
		b = agg_rendezvous(hash, l, n, 0, &qb);
		CHECK((b == a && qa == qb) || b == up, "round %d", i);
	}
}

/* Shares follow the weights, whatever the numbers of queues. */
TEST(proportional)
{
	enum { FLOWS = 200000 };

	for (int set = 0; set < 12; set++) {
		struct agg_hash_lane l[MAX];
		unsigned int n = 2 + set % 7, count[MAX] = { 0 };
		double total = 0;
		u32 q;

		for (unsigned int i = 0; i < n; i++) {
			u32 speeds[] = { 10000, 25000, 100000, 200000, 400000 };

			l[i] = (struct agg_hash_lane){
				.key = i,
				.weight = set < 3 ? 25 : set < 6 ? i + 1 : speeds[tap_rand() % 5],
				.queues = 1 + tap_rand() % AGG_QUEUES_MAX,
			};
			total += l[i].weight;
		}
		for (int i = 0; i < FLOWS; i++)
			count[agg_rendezvous(tap_rand(), l, n, 0, &q)]++;
		for (unsigned int i = 0; i < n; i++) {
			double p = l[i].weight / total, want = FLOWS * p;
			double sigma = sqrt(FLOWS * p * (1 - p));

			CHECK(fabs(count[i] - want) < 4.5 * sigma + 0.005 * want,
			      "set %d lane %u: %u, not %.0f", set, i, count[i], want);
		}
	}
}

/* And within a lane, queues are equal. */
TEST(queues_are_even)
{
	enum { FLOWS = 200000, Q = 8 };
	struct agg_hash_lane l[4];
	unsigned int count[4][Q] = { 0 };
	u32 q;

	equal_lanes(l, 4, 1000, Q);
	for (int i = 0; i < FLOWS; i++) {
		unsigned int a = agg_rendezvous(tap_rand(), l, 4, 0, &q);

		count[a][q]++;
	}
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < Q; j++)
			CHECK(abs((int)count[i][j] - FLOWS / 4 / Q) < 4.5 * 79, "%u",
			      count[i][j]);
}

/*
 * QP numbers of a real program are consecutive, and both ends of a QP pair
 * count alike: such flows must spread no worse than random ones.
 */
TEST(consecutive_qpns)
{
	unsigned int count[4] = { 0 };
	struct agg_flow f = { 0 };
	struct agg_hash_lane l[4];
	u32 q;

	memcpy(f.sgid, v4_gid(1), 16);
	memcpy(f.dgid, v4_gid(2), 16);
	equal_lanes(l, 4, 1000, 4);
	for (u32 i = 0; i < 40000; i++) {
		f.sqpn = 17 + i;
		f.dqpn = 17 + i;
		count[agg_rendezvous(agg_flow_hash(&f), l, 4, 0, &q)]++;
	}
	for (int i = 0; i < 4; i++)
		CHECK(abs((int)count[i] - 10000) < 4.5 * 87, "lane %d: %u", i, count[i]);
}

/* ---------------------------------------------------------- bounded load */

/* Flows come and stay: no lane ever exceeds its bound, in whatever order they come. */
TEST(bound_kept)
{
	for (int i = 0; i < 3000; i++) {
		u32 bounds[] = { 100, 101, 110, 125, 150, 200, 1000 };
		u32 bound = bounds[i % 7], q;
		struct agg_hash_lane l[MAX];
		unsigned int n = 1 + tap_rand() % MAX;
		u64 weight = 0;

		random_lanes(l, n);
		for (unsigned int k = 0; k < n; k++) {
			l[k].flows = 0;
			weight += l[k].weight;
		}
		for (u32 flows = 1; flows <= 200; flows++) {
			unsigned int a = agg_rendezvous(tap_rand(), l, n, bound, &q);
			double mean;

			l[a].flows++;
			mean = (double)flows * l[a].weight / weight;
			CHECK(l[a].flows < mean * bound / 100 + 1.000001,
			      "%u lanes, %u of %u flows, mean %g, bound %u", n, l[a].flows,
			      flows, mean, bound);
		}
	}
}

/*
 * With a bound the shares follow the weights from both sides: above by the bound
 * itself, below because what the others may take has an end.
 */
TEST(bound_and_weights)
{
	for (int i = 0; i < 300; i++) {
		struct agg_hash_lane l[MAX];
		unsigned int n = 2 + tap_rand() % (MAX - 1);
		u32 bound = 100 + tap_rand() % 50, q;
		const u32 flows = 3000;
		double weight = 0;

		for (unsigned int k = 0; k < n; k++) {
			l[k] = (struct agg_hash_lane){
				.key = k,
				.weight = 1 + tap_rand() % 400,
				.queues = 1 + tap_rand() % 8,
			};
			weight += l[k].weight;
		}
		for (u32 f = 0; f < flows; f++)
			l[agg_rendezvous(tap_rand(), l, n, bound, &q)].flows++;
		for (unsigned int k = 0; k < n; k++) {
			double fair = flows * l[k].weight / weight;
			double low = flows - (flows - fair) * bound / 100 - n;

			CHECK(l[k].flows <= fair * bound / 100 + 1.000001 && l[k].flows >= low,
			      "%u lanes, bound %u: %u flows, fair %.1f", n, bound, l[k].flows, fair);
		}
	}
}

/* 8 flows, 4 lanes, every order of arrival of 8 hashes that all love one lane. */
TEST(bound_every_order)
{
	u32 hash[8], q;
	int perm[8], stack[8] = { 0 }, i, found = 0;
	struct agg_hash_lane l[4];

	equal_lanes(l, 4, 1000, 2);
	for (int tries = 0; found < 8; tries++) {
		u32 h = tap_rand();

		if (agg_rendezvous(h, l, 4, 0, &q) == 2)
			hash[found++] = h;
		CHECK(tries < 10000, "no hash loves lane 2");
		if (tries == 10000)
			return;
	}
	for (i = 0; i < 8; i++)
		perm[i] = i;
	/* Heap's algorithm: 40320 orders */
	for (i = 0;;) {
		int t, swap;

		equal_lanes(l, 4, 1000, 2);
		for (int k = 0; k < 8; k++)
			l[agg_rendezvous(hash[perm[k]], l, 4, 100, &q)].flows++;
		for (int k = 0; k < 4; k++)
			CHECK(l[k].flows == 2, "lane %d: %u", k, l[k].flows);
		while (i < 8 && stack[i] >= i)
			stack[i++] = 0;
		if (i == 8)
			break;
		t = i % 2 ? stack[i] : 0;
		swap = perm[t];
		perm[t] = perm[i];
		perm[i] = swap;
		stack[i]++;
		i = 0;
	}
}

/* As even as whole flows can be, at every moment, with the tightest bound. */
TEST(even)
{
	for (int i = 0; i < 500; i++) {
		for (unsigned int n = 1; n <= MAX; n++) {
			struct agg_hash_lane l[MAX];
			u32 q, a, lo, hi;

			equal_lanes(l, n, 1 + tap_rand() % 400000, 1 + tap_rand() % 8);
			for (u32 flows = 1; flows <= 64; flows++) {
				a = agg_rendezvous(tap_rand(), l, n, 100, &q);
				/* the bound found it, not the fallback */
				CHECK(agg_load_ok(l[a].flows, 1, flows - 1, n, 100), "lane %u", a);
				l[a].flows++;
				lo = l[0].flows;
				hi = lo;
				for (unsigned int k = 0; k < n; k++) {
					lo = l[k].flows < lo ? l[k].flows : lo;
					hi = l[k].flows > hi ? l[k].flows : hi;
				}
				CHECK(hi == (flows + n - 1) / n, "%u lanes, %u flows: %u", n, flows,
				      hi);
				if (flows % n == 0)
					CHECK(lo == hi, "%u lanes, %u flows: %u..%u", n, flows, lo,
					      hi);
			}
		}
	}
}

/*
 * Flows also go. Whatever was before, once as many have come as are there the
 * bound is kept again, and there is always a lane for the next.
 */
TEST(departures)
{
	for (int i = 0; i < 2000; i++) {
		struct agg_hash_lane l[MAX];
		unsigned int n = 1 + tap_rand() % MAX;
		u32 q;

		random_lanes(l, n);
		for (int step = 0; step < 300; step++) {
			unsigned int k = tap_rand() % n;
			u64 weight = 0, flows = 0;
			bool any = false;

			if (tap_rand() % 2 && l[k].flows) {
				l[k].flows--;
				continue;
			}
			for (k = 0; k < n; k++) {
				weight += l[k].weight;
				flows += l[k].flows;
			}
			for (k = 0; k < n; k++)
				any |= agg_load_ok(l[k].flows, l[k].weight, flows, weight, 100);
			CHECK(any, "no lane may take a flow");
			k = agg_rendezvous(tap_rand(), l, n, 100, &q);
			CHECK(agg_load_ok(l[k].flows, l[k].weight, flows, weight, 100), "lane %u",
			      k);
			l[k].flows++;
		}
	}
}

/* The limits of the types: no overflow, exact to the last flow. */
TEST(load_limits)
{
	for (int i = 0; i < 200000; i++) {
		/* few flows and small weights, or as many and large as there can be */
		u64 w = i % 2 ? 8 : (u64)AGG_WEIGHT_MAX * 16;
		u32 total = tap_rand() & (i % 2 ? 0x3f : 0xffffff);
		u32 weight = 1 + tap_rand() % (i % 2 ? 8 : AGG_WEIGHT_MAX);
		u32 bound = 100 + tap_rand() % (AGG_LOAD_BOUND_MAX - 99);
		u128 num = bound, den = 100, cap;
		u32 flows;

		num *= total + 1ULL;
		num *= weight;
		den *= w;
		cap = (num + den - 1) / den;
		flows = cap > U32_MAX ? U32_MAX : (u32)cap;

		if (flows)
			CHECK(agg_load_ok(flows - 1, weight, total, w, bound), "round %d", i);
		if (flows < U32_MAX)
			CHECK(!agg_load_ok(flows, weight, total, w, bound), "round %d", i);
	}
}

/* A bound that leaves nobody: the least loaded one, by weight. */
TEST(fallback)
{
	struct agg_hash_lane l[3] = {
		{ .key = 0, .weight = 100, .queues = 4, .flows = 10 },
		{ .key = 1, .weight = 400, .queues = 4, .flows = 20 },
		{ .key = 2, .weight = 100, .queues = 4, .flows = 6 },
	};
	u32 q;

	for (int i = 0; i < 1000; i++) {
		CHECK(agg_rendezvous(tap_rand(), l, 3, 1, &q) == 1, "round %d", i);
		CHECK(q < 4, "queue %u", q);
	}
}

int main(void)
{
	RUN(symmetric);
	RUN(ends_are_pairs);
	RUN(avalanche);
	RUN(frozen);
	RUN(log_is_exact_enough);
	RUN(log_falls_strictly);
	RUN(order_of_candidates);
	RUN(both_ends_choose_alike);
	RUN(same_as_all_slots);
	RUN(minimal_movement);
	RUN(movement_to_a_new_lane);
	RUN(no_memory);
	RUN(weight_is_monotone);
	RUN(proportional);
	RUN(queues_are_even);
	RUN(consecutive_qpns);
	RUN(bound_kept);
	RUN(bound_and_weights);
	RUN(bound_every_order);
	RUN(even);
	RUN(departures);
	RUN(load_limits);
	RUN(fallback);
	return tap_end();
}
