/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * TAP for the unit tests.  A check that holds says nothing; a test is one
 * function with many checks and gives one line:
 *
 *	TEST(name)
 *	{
 *		CHECK(1 + 1 == 2, "1 + 1 = %d", 1 + 1);
 *	}
 *	int main(void) { RUN(name); return tap_end(); }
 */
#ifndef TAP_H
#define TAP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int tap_nr, tap_failed, tap_bad;

#define TEST(name)	static void test_##name(void)

#define CHECK(cond, ...)						\
	do {								\
		if (!(cond) && tap_bad++ < 5) {				\
			printf("# %s:%d: %s: ", __FILE__, __LINE__, #cond); \
			printf(__VA_ARGS__);				\
			printf("\n");					\
		}							\
	} while (0)

#define RUN(name)							\
	do {								\
		tap_bad = 0;						\
		test_##name();						\
		tap_nr++;						\
		if (tap_bad)						\
			tap_failed++;					\
		printf("%sok %d " #name "\n", tap_bad ? "not " : "", tap_nr); \
		fflush(stdout);						\
	} while (0)

static inline int tap_end(void)
{
	printf("1..%d\n", tap_nr);
	return tap_failed ? 1 : 0;
}

/*
 * A generator that gives the same numbers on every machine (splitmix64);
 * UNIT_SEED=N makes others of it.
 */
static uint64_t tap_seed = 1;

static void __attribute__((constructor)) tap_init(void)
{
	const char *seed = getenv("UNIT_SEED");

	if (seed)
		tap_seed = strtoull(seed, NULL, 0);
}

static inline uint64_t tap_rand(void)
{
	uint64_t z = (tap_seed += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

#endif
