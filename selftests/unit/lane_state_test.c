// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include <linux/kernel.h>

#include "lane_state.h"
#include "tap.h"

#define N AGG_LANE_STATES

TEST(self)
{
	for (int s = 0; s < N; s++)
		CHECK(!agg_lane_state_ok(s, s), "%d", s);
}

/* No number that is no state is ever accepted, or read past a table. */
TEST(range)
{
	int bad[] = { -1, N, N + 1, 31, 32, 1 << 30, -2147483647 - 1 };

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		for (int s = 0; s < N; s++) {
			CHECK(!agg_lane_state_ok(s, bad[i]), "%d %d", s, bad[i]);
			CHECK(!agg_lane_state_ok(bad[i], s), "%d %d", bad[i], s);
		}
		CHECK(!agg_lane_usable(bad[i]), "%d", bad[i]);
		CHECK(!strcmp(agg_lane_state_name(bad[i]), "?"), "%d", bad[i]);
	}
}

/* A lane can be lost at any time. */
TEST(down_from_all)
{
	for (int s = 0; s < N; s++)
		CHECK((s == AGG_LANE_DOWN) != agg_lane_state_ok(s, AGG_LANE_DOWN), "%d", s);
}

/* Work never enters an unusable lane that was not probed. */
TEST(only_probe_revives)
{
	for (int s = 0; s < N; s++)
		for (int t = 0; t < N; t++)
			if (!agg_lane_usable(s) && agg_lane_usable(t) && agg_lane_state_ok(s, t))
				CHECK(s == AGG_LANE_PROBE, "%d %d", s, t);
}

/* On no way at all, however long, does a lane that was lost become usable without a probe. */
TEST(no_way_round_probe)
{
	bool seen[N] = { [AGG_LANE_DOWN] = true };

	for (int round = 0; round < N; round++)
		for (int s = 0; s < N; s++)
			for (int t = 0; t < N; t++)
				if (seen[s] && t != AGG_LANE_PROBE && agg_lane_state_ok(s, t))
					seen[t] = true;
	for (int s = 0; s < N; s++)
		CHECK(!seen[s] || !agg_lane_usable(s), "%d", s);
}

/*
 * Random walks: what is said of single steps holds of what a lane lives through.
 * Between any loss and the next use lies a probe that began after it.
 */
TEST(walks)
{
	for (int walk = 0; walk < 2000; walk++) {
		int s = AGG_LANE_DOWN, probed = 0;

		for (int step = 0; step < 500; step++) {
			int t = tap_rand() % N;

			if (!agg_lane_state_ok(s, t))
				continue;
			if (t == AGG_LANE_PROBE)
				probed = 1;
			if (t == AGG_LANE_DOWN || t == AGG_LANE_STORM)
				probed = 0;
			CHECK(!agg_lane_usable(t) || probed, "walk %d, %d -> %d", walk, s, t);
			s = t;
		}
	}
}

/* A pause is left with a reduced weight, a storm by a probe. */
TEST(careful_return)
{
	CHECK(!agg_lane_state_ok(AGG_LANE_PAUSED, AGG_LANE_UP), "-");
	for (int t = 0; t < N; t++)
		if (agg_lane_state_ok(AGG_LANE_STORM, t))
			CHECK(t == AGG_LANE_PROBE || t == AGG_LANE_DOWN, "%d", t);
}

/* From every state every other can be reached. */
TEST(no_trap)
{
	for (int from = 0; from < N; from++) {
		bool seen[N] = { false };

		seen[from] = true;
		for (int round = 0; round < N; round++)
			for (int s = 0; s < N; s++)
				for (int t = 0; t < N; t++)
					if (seen[s] && agg_lane_state_ok(s, t))
						seen[t] = true;
		for (int t = 0; t < N; t++)
			CHECK(seen[t], "%d -> %d", from, t);
	}
}

TEST(usable)
{
	for (int s = 0; s < N; s++)
		CHECK(agg_lane_usable(s) == (s == AGG_LANE_UP || s == AGG_LANE_CONGESTED ||
					     s == AGG_LANE_PAUSED), "%d", s);
}

TEST(names)
{
	for (int s = 0; s < N; s++)
		for (int t = 0; t < s; t++)
			CHECK(strcmp(agg_lane_state_name(s), agg_lane_state_name(t)), "%d %d", s,
			      t);
}

int main(void)
{
	RUN(self);
	RUN(range);
	RUN(down_from_all);
	RUN(only_probe_revives);
	RUN(no_way_round_probe);
	RUN(walks);
	RUN(careful_return);
	RUN(no_trap);
	RUN(usable);
	RUN(names);
	return tap_end();
}
