// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Lets the N-th allocation of an operation fail, N = 1, 2, 3..., until the
 * operation has no N-th one. Needs a kernel with fault injection.
 *
 *	failnth --list
 *	failnth --below START-END [--not-below START-END] --case NAME [--background]
 *		[--counted N] [--gid GID] [--ident IFNAME] [--lane RXE] [--step N] [--verbose]
 *	failnth --below START-END --load FILE.ko
 *
 * An operation that was hit may fail with one of a few errnos, and then does what
 * it is for when it is asked for again; or it does it in spite of the failure.
 * What it makes is used and taken away each time.
 *
 * Only allocations (of slab objects and of pages) and copies to and from the
 * process fail that are made below a range of text and not below another: the
 * module, so also what the core or a lane do for it. By default those of the
 * calling task count, in order (fail-nth). With --background those of all tasks and
 * work items do, slab objects alone.
 *
 * --load does the same to the initialisation of the module, below its caller.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "failnth.h"

#define MAX_N		20000

const char *devname = "agg0", *gid, *spare = "rxe3", *ident = "ident0";
static const char *below, *not_below = "0-0";
static unsigned int step = 1;
static bool background, verbose;

/* ------------------------------------------------------------ injection */

#define DEBUGFS		"/sys/kernel/debug/"
static const char *const kinds[] = { "failslab", "fail_page_alloc", "fail_usercopy" };

static int nth_fd = -1;
/* What failslab has counted so far: it cannot be asked, but see disarm(). */
static unsigned long long counted;

static void put_file(const char *value, const char *fmt, ...)
{
	char path[256];
	va_list ap;
	int fd;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die_errno("%s", path);
	close(fd);
}

static void put_number(unsigned long long value, const char *kind, const char *name)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", value);
	put_file(text, DEBUGFS "%s/%s", kind, name);
}

static unsigned long long get_number(const char *kind, const char *name)
{
	unsigned long long value;
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), DEBUGFS "%s/%s", kind, name);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%llu", &value) != 1)
		die_errno("%s", path);
	fclose(f);
	return value;
}

static void put_range(const char *range, const char *kind, const char *name)
{
	const char *end = strchr(range, '-');
	char text[32];

	if (!end)
		die("%s is no range", range);
	snprintf(text, sizeof(text), "%.*s", (int)(end - range), range);
	put_file(text, DEBUGFS "%s/%s-start", kind, name);
	put_file(end + 1, DEBUGFS "%s/%s-end", kind, name);
}

static void inject_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		put_number(0, kinds[i], "probability");
		put_number(verbose ? 2 : 0, kinds[i], "verbose");
		put_number(32, kinds[i], "stacktrace-depth");
		put_range(below, kinds[i], "require");
		put_range(not_below, kinds[i], "reject");
		put_file("N", DEBUGFS "%s/task-filter", kinds[i]);
	}
	for (i = 0; i < 2; i++)
		put_file("N", DEBUGFS "%s/ignore-gfp-wait", kinds[i]);
	put_file("N", DEBUGFS "fail_page_alloc/ignore-gfp-highmem");
	put_number(0, "fail_page_alloc", "min-order");

	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (nth_fd < 0)
		die_errno("fail-nth");
}

static void inject_exit(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		put_number(0, kinds[i], "probability");
}

/* What was not reached yet may be. */
static void rearm(void)
{
	put_number(100, "failslab", "probability");
}

static void arm(unsigned int n)
{
	char text[16];
	int len;

	if (background) {
		/*
		 * failslab counts for ever and fails when its count is a multiple
		 * of the interval. With an interval of more than half the sum
		 * that is the sum itself.
		 */
		put_number(counted + n, "failslab", "interval");
		put_number(1, "failslab", "times");
		rearm();
		return;
	}
	len = snprintf(text, sizeof(text), "%u", n);
	if (pwrite(nth_fd, text, len, 0) != len)
		die_errno("fail-nth");
}

/* On the console, for the case that it is the last thing said. */
static void say(const char *name, unsigned int n)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	dprintf(fd, "<4>failnth: %s%s: %u\n", name, background ? " in the background" : "", n);
}

/* Was there a failure? */
static bool disarm(unsigned int n)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	char text[16] = "";
	int i;

	if (background) {
		/* A work item may come a little later. */
		for (i = 0; i < 10 && get_number("failslab", "times"); i++)
			nanosleep(&pause, NULL);
		put_number(0, "failslab", "probability");
		if (get_number("failslab", "times"))
			return false;
		counted += n;
		return true;
	}
	if (pread(nth_fd, text, sizeof(text) - 1, 0) <= 0)
		die_errno("fail-nth");
	if (pwrite(nth_fd, "0", 1, 0) != 1)
		die_errno("fail-nth");
	return atoi(text) == 0;
}

/* ------------------------------------------------------------- sweeping */

void must(const char *what, int err)
{
	if (err)
		die("%s: %s", what, strerror(abs(err)));
}

static bool may_fail_with(const struct op *op, int err)
{
	unsigned int i;

	if (err == -ENOMEM || err == -EFAULT)
		return true;
	for (i = 0; i < ARRAY_SIZE(op->errs); i++)
		if (op->errs[i] && err == -op->errs[i])
			return true;
	return false;
}

static void sweep(const struct op *op)
{
	unsigned int n, hits = 0, failed = 0, seen[256] = { 0 }, i;
	uint64_t begin = now_us();
	bool hit;
	int err;

	op->up();
	for (n = 1; n < MAX_N; n += step) {
		say(op->name, n);
		op->prepare();
		arm(n);
		err = op->run();
		hit = disarm(n);
		if (err && !hit)
			die("%s: %s without an injected failure", op->name, strerror(-err));
		if (err && !may_fail_with(op, err))
			die("%s: the %u. failure: %s", op->name, n, strerror(-err));
		hits += hit;
		if (err) {
			failed++;
			seen[-err & 255]++;
			if (op->costly && failed % 8)
				continue;
			err = op->run();
			if (err)
				die("%s: after the %u. failure: %s", op->name, n, strerror(-err));
		}
		op->undo();
		if (!hit)
			break;
	}
	/* Until failslab's count is known again. */
	for (i = 0; background && !hit; i++) {
		if (i > 10000)
			die("%s: no allocation in the background", op->name);
		op->prepare();
		rearm();
		err = op->run();
		hit = disarm(n);
		if (err && !may_fail_with(op, err))
			die("%s: the last failure: %s", op->name, strerror(-err));
		if (err)
			must(op->name, op->run());
		op->undo();
	}
	op->down();
	printf("%s: %u injected, %u failed", op->name, hits, failed);
	for (i = 0; i < ARRAY_SIZE(seen); i++)
		if (seen[i])
			printf(", %u %s", seen[i], strerrorname_np(i));
	printf(", %llu ms\n", (unsigned long long)(now_us() - begin) / 1000);
	if (!hits && !op->none)
		die("%s: nothing was injected", op->name);
}

/* ------------------------------------------------------------- loading */

static const char *ko;

static int run_load(void)
{
	int fd = open(ko, O_RDONLY | O_CLOEXEC);
	int err;

	if (fd < 0)
		die_errno("%s", ko);
	err = syscall(SYS_finit_module, fd, "", 0) ? -errno : 0;
	close(fd);
	return err;
}

static void undo_load(void)
{
	if (syscall(SYS_delete_module, "rdma_agg", O_NONBLOCK))
		die_errno("rmmod");
}

static const struct op load = {
	"load", nothing, nothing, run_load, undo_load, nothing, .costly = true,
};

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "list", no_argument, NULL, 'l' }, { "case", required_argument, NULL, 'c' },
		{ "background", no_argument, NULL, 'b' }, { "below", required_argument, NULL, 'B' },
		{ "not-below", required_argument, NULL, 'N' },
		{ "gid", required_argument, NULL, 'g' }, { "ident", required_argument, NULL, 'i' },
		{ "lane", required_argument, NULL, 'L' }, { "step", required_argument, NULL, 's' },
		{ "load", required_argument, NULL, 'm' }, { "verbose", no_argument, NULL, 'v' },
		{ "counted", required_argument, NULL, 'n' }, { },
	};
	const char *name = NULL;
	unsigned int i;
	int opt;

	progname = "failnth";
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'l':
			for (i = 0; i < nr_ops; i++)
				puts(ops[i].name);
			return 0;
		case 'c':
			name = optarg;
			break;
		case 'b':
			background = true;
			break;
		case 'B':
			below = optarg;
			break;
		case 'N':
			not_below = optarg;
			break;
		case 'g':
			gid = optarg;
			break;
		case 'i':
			ident = optarg;
			break;
		case 'L':
			spare = optarg;
			break;
		case 's':
			step = strtoul(optarg, NULL, 0);
			break;
		case 'm':
			ko = optarg;
			break;
		case 'n':
			counted = strtoull(optarg, NULL, 0);
			break;
		case 'v':
			verbose = true;
			break;
		default:
			return 2;
		}
	}
	if (!below)
		die("no --below");
	if (ko) {
		inject_init();
		sweep(&load);
		inject_exit();
		return 0;
	}
	for (i = 0; i < nr_ops; i++)
		if (name && !strcmp(name, ops[i].name))
			break;
	if (i == nr_ops || !step)
		die("no such case; --list shows them");
	ops_init();
	inject_init();
	sweep(&ops[i]);
	inject_exit();
	if (background)
		printf("counted %llu\n", counted);
	return 0;
}
