// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#define _GNU_SOURCE
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"

void fuzz_options(int argc, char **argv, struct fuzz_opts *o)
{
	static const struct option longs[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 'T' },
		{ "user", no_argument, NULL, 'u' },
		{ "dev", required_argument, NULL, 'd' },
		{ "gid", required_argument, NULL, 'g' },
		{ "spec", required_argument, NULL, 'S' },
		{ }
	};
	int opt;

	*o = (struct fuzz_opts){ .seed = 1, .seconds = 10 };
	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 's':
			o->seed = parse_size(optarg);
			break;
		case 'T':
			o->seconds = parse_size(optarg);
			break;
		case 'u':
			o->user = true;
			break;
		case 'd':
			o->dev = optarg;
			break;
		case 'g':
			o->gid = optarg;
			break;
		case 'S':
			o->spec = optarg;
			break;
		default:
			exit(2);
		}
	}
	if (optind < argc)
		die("what is %s?", argv[optind]);
	printf("# seed %llu\n", (unsigned long long)o->seed);
	fflush(stdout);
}

void fuzz_begin(const char *name, int argc, char **argv, struct fuzz_opts *o, size_t lock)
{
	struct rlimit limit = { lock, lock };

	progname = name;
	fuzz_options(argc, argv, o);
	if (!o->dev || !o->gid)
		die("usage: %s --dev DEVICE --gid INDEX [--seed N] [--seconds N]", name);
	if (!geteuid())
		die("not as root: it must not need any privilege");
	setrlimit(RLIMIT_MEMLOCK, &limit);
}

void *fuzz_shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die_errno("memory");
	return p;
}

int fuzz_reap(pid_t pid, unsigned int ms)
{
	uint64_t kill_at = now_us() + ms * 1000ULL;
	bool killed = false;
	int status;
	pid_t got;

	for (;;) {
		got = waitpid(pid, &status, WNOHANG);
		if (got == pid)
			return status;
		if (got < 0)
			die_errno("waitpid");
		if (!killed && now_us() > kill_at) {
			kill(pid, SIGKILL);
			killed = true;
			kill_at += 100 * 1000000ULL;
		} else if (killed && now_us() > kill_at) {
			die("process %d does not die: it hangs in the kernel", pid);
		}
		usleep(2000);
	}
}

pid_t fuzz_fork(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die_errno("fork");
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

uint32_t fuzz_word(uint64_t *rng)
{
	static const uint32_t corner[] = {
		0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257,
		511, 512, 4095, 4096, 4097, 0xffff, 0x10000, 0x7fffff, 0x800000, 0x800001, 0xffffff,
		0x1000000, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffff0, 0xfffffffe, 0xffffffff,
	};

	switch (rnd(rng, 4)) {
	case 0:
		return rnd(rng, 20);
	case 1:
		return rnd64(rng);
	default:
		return corner[rnd(rng, ARRAY_SIZE(corner))];
	}
}
