/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the guest fuzzers share: options, processes that are not allowed to
 * hang, counters that survive them, and numbers that mean something.
 */
#ifndef SELFTESTS_FUZZ_H
#define SELFTESTS_FUZZ_H

#include <sys/types.h>

#include "common.h"

struct fuzz_opts {
	uint64_t seed;
	unsigned int seconds;
	bool user;		/* we have no privileges */
	const char *dev, *gid, *spec;
};

/* --seed N --seconds N --user --dev DEVICE --gid INDEX --spec FILE; prints the seed */
void fuzz_options(int argc, char **argv, struct fuzz_opts *o);

/*
 * As fuzz_options(), for a program that opens a device and needs no privileges:
 * a device must be named, it must not be root, and may lock @lock bytes.
 */
void fuzz_begin(const char *name, int argc, char **argv, struct fuzz_opts *o, size_t lock);

/* Memory shared with all children, zeroed. */
void *fuzz_shared(size_t size);

/*
 * A child that is out of favour after @ms is killed; after 100 s more it hangs
 * in the kernel, and we die. Returns its status as of waitpid().
 */
int fuzz_reap(pid_t pid, unsigned int ms);

/* The children of this process go with it. */
pid_t fuzz_fork(void);

/* Corner cases of 32 bits, small numbers, or any. */
uint32_t fuzz_word(uint64_t *rng);

static inline void fuzz_count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

#endif
