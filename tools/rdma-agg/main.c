// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "rdma-agg.h"

#define VERSION	"0.1.0"

struct options opt;

static void help(FILE *f)
{
	fprintf(f,
		"Usage: rdma-agg [ OPTIONS ] OBJECT { COMMAND | help }\n"
		"where  OBJECT := { dev | lane | peer | qp | stat | param | monitor }\n"
		"       COMMAND := { show | add | del | set }, as the object has them\n"
		"       OPTIONS := { -j[son] | -p[retty] | -d[etails] | -e[xact] | -V[ersion] | -h[elp] }\n");
}

/* Tell what is wrong with the command line. */
int usage(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "rdma-agg: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return RC_USAGE;
}

/* Is @arg @word, or the beginning of it? As in iproute2, the first of a table wins. */
bool is(const char *arg, const char *word)
{
	return *arg && !strncmp(arg, word, strlen(arg));
}

/* Run the command that argv[0] names, or show. */
int run_cmd(const char *object, const struct cmd *cmds, void (*cmd_help)(FILE *), int argc,
	    char **argv)
{
	if (argc > 0 && is(argv[0], "help")) {
		cmd_help(stdout);
		return RC_OK;
	}
	if (!argc)
		return cmds[0].run(0, argv);
	for (; cmds->name; cmds++) {
		if (!is(argv[0], cmds->name))
			continue;
		if (argc > 1 && !strcmp(argv[1], "help")) {
			cmd_help(stdout);
			return RC_OK;
		}
		return cmds->run(argc - 1, argv + 1);
	}
	usage("\"%s\" is no command of %s", argv[0], object);
	cmd_help(stderr);
	return RC_USAGE;
}

bool parse_u32(const char *s, uint32_t max, uint32_t *out)
{
	unsigned long v;
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	/* hex as the log has it, but no octal: 010 is ten */
	v = strtoul(s, &end, s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10);
	if (errno || *end || v > max)
		return false;
	*out = v;
	return true;
}

/* IBDEV or IBDEV/PORT */
int parse_lane(const char *s, char *ibdev, uint32_t *port)
{
	const char *slash = strchr(s, '/');
	size_t len = slash ? (size_t)(slash - s) : strlen(s);

	*port = 1;
	if (!len || len > 63)
		return usage("\"%s\" is no lane: IBDEV/PORT", s);
	if (slash && (!parse_u32(slash + 1, UINT32_MAX, port) || !*port))
		return usage("\"%s\" is no port", slash + 1);
	memcpy(ibdev, s, len);
	ibdev[len] = 0;
	return RC_OK;
}

int put_dev(struct nlmsghdr *nlh, const char *name)
{
	/* the same number in all sets */
	if (!*name || strlen(name) > 63)
		return usage("\"%s\" is no device name", name);
	nl_put_str(nlh, RDMA_AGG_A_DEV_DEV_NAME, name);
	return RC_OK;
}

static const struct cmd objects[] = {
	{ "dev", do_dev },
	{ "device", do_dev },
	{ "lane", do_lane },
	{ "peer", do_peer },
	{ "qp", do_qp },
	{ "stat", do_stat },
	{ "statistic", do_stat },
	{ "param", do_param },
	{ "monitor", do_monitor },
	{ NULL, NULL }
};

/* The short options, and the long ones with one dash as iproute2 has them. */
static int options(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		const char *o = argv[i] + 1;

		if (!strcmp(o, "-")) {
			i++;
			break;
		}
		if (*o == '-')
			o++;
		if (is(o, "json")) {
			opt.json = true;
		} else if (is(o, "pretty")) {
			opt.pretty = true;
		} else if (is(o, "details")) {
			opt.details = true;
		} else if (is(o, "exact")) {
			opt.exact = true;
		} else if (is(o, "Version")) {
			printf("rdma-agg %s\n", VERSION);
			exit(RC_OK);
		} else if (is(o, "help")) {
			help(stdout);
			exit(RC_OK);
		} else if (!strcmp(o, "jp") || !strcmp(o, "pj")) {
			opt.json = true;
			opt.pretty = true;
		} else {
			usage("\"%s\" is no option", argv[i]);
			help(stderr);
			exit(RC_USAGE);
		}
	}
	return i;
}

int main(int argc, char **argv)
{
	int i = options(argc, argv), rc = RC_USAGE;
	const struct cmd *o;

	argc -= i;
	argv += i;
	if (!argc) {
		help(stderr);
		return RC_USAGE;
	}
	if (is(argv[0], "help")) {
		help(stdout);
		return RC_OK;
	}
	for (o = objects; o->name; o++)
		if (is(argv[0], o->name))
			break;
	if (!o->name) {
		usage("\"%s\" is no object", argv[0]);
		help(stderr);
		return RC_USAGE;
	}
	rc = o->run(argc - 1, argv + 1);
	/* a full disk or a closed pipe is no success */
	if ((fflush(stdout) || ferror(stdout)) && rc == RC_OK) {
		perror("rdma-agg: output");
		rc = RC_USAGE;
	}
	return rc;
}
