// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdma-agg.h"

enum kind { POLICY, PERCENT, COUNT, PORT, MS, EXPONENT, PSK };

static const struct param {
	const char *name;
	int attr;
	enum kind kind;
	const char *help;
} params[] = {
	{ "policy", RDMA_AGG_A_PARAM_POLICY, POLICY, "hash, least, rr or numa" },
	{ "load-bound", RDMA_AGG_A_PARAM_LOAD_BOUND, PERCENT,
	  "most flows on a lane, in percent of its fair share" },
	{ "tx-queues", RDMA_AGG_A_PARAM_TX_QUEUES, COUNT,
	  "send queues per lane, 1 to 64; for lanes added later" },
	{ "rx-queues", RDMA_AGG_A_PARAM_RX_QUEUES, COUNT,
	  "receive queues per lane, 1 to 64; for lanes added later" },
	{ "session-port", RDMA_AGG_A_PARAM_SESSION_PORT, PORT,
	  "TCP port; while the device has no lane" },
	{ "connect-timeout", RDMA_AGG_A_PARAM_CONNECT_TIMEOUT, MS,
	  "most time to agree with a peer about a QP" },
	{ "keepalive", RDMA_AGG_A_PARAM_KEEPALIVE, MS,
	  "idle time after which a session is probed; 0: never" },
	{ "rnr-grace", RDMA_AGG_A_PARAM_RNR_GRACE, MS,
	  "time a SEND may wait for a receive" },
	{ "ack-timeout-min", RDMA_AGG_A_PARAM_ACK_TIMEOUT_MIN, EXPONENT,
	  "least ack timeout of a lane QP, 4.096 us * 2^N" },
	{ "ack-timeout-max", RDMA_AGG_A_PARAM_ACK_TIMEOUT_MAX, EXPONENT,
	  "greatest ack timeout of a lane QP" },
	{ "failover-timeout", RDMA_AGG_A_PARAM_FAILOVER_TIMEOUT, MS,
	  "how long requests wait when there is no path" },
	{ "updelay", RDMA_AGG_A_PARAM_UPDELAY, MS,
	  "how long a port must be active before the lane is used" },
	{ "probe-interval", RDMA_AGG_A_PARAM_PROBE_INTERVAL, MS,
	  "between two probes of a path that is used; 0: no probes" },
	{ "probe-lost", RDMA_AGG_A_PARAM_PROBE_LOST, COUNT,
	  "probes in a row without an answer that end a path, 2 to 100" },
	{ "psk", RDMA_AGG_A_PARAM_PSK, PSK,
	  "pre-shared key of the sessions: the file that has it, - for stdin, or none" },
};

#define NR_PARAMS	ARRAY_SIZE(params)

static void help(FILE *f)
{
	fprintf(f,
		"Usage: rdma-agg param [ show [ DEV ] ]\n"
		"       rdma-agg param set DEV NAME VALUE [ NAME VALUE ] ...\n"
		"times are in ms, or with a unit: 500ms, 2s; NAME is one of\n");
	for (size_t i = 0; i < NR_PARAMS; i++)
		fprintf(f, "  %-16s %s\n", params[i].name, params[i].help);
}

static const char *exponent(uint32_t n)
{
	double us = 4.096 * (double)(1ULL << (n & 63));

	if (us < 1000)
		return str("%u (%.3g us)", n, us);
	if (us < 1000000)
		return str("%u (%.3g ms)", n, us / 1000);
	return str("%u (%.3g s)", n, us / 1000000);
}

static const char *value(const struct param *p, const struct obj *o)
{
	uint32_t v = obj_u32(o, p->attr);
	const char *name;

	switch (p->kind) {
	case POLICY:
		name = name_of(&names_policy, v);
		return name ? name : "unknown";
	case PERCENT:
		return str("%u %%", v);
	case MS:
		if (!v && p->attr == RDMA_AGG_A_PARAM_KEEPALIVE)
			return "never";
		return str_ms(v);
	case EXPONENT:
		return exponent(v);
	case PSK:
		return obj_u32(o, RDMA_AGG_A_PARAM_PSK_SET) ? "set" : "none";
	default:
		return str("%u", v);
	}
}

static void show_text(const struct objs *objs)
{
	static const char *const heads[] = { "DEVICE", "PARAMETER", "VALUE", NULL };
	struct table *t = table_new(heads);

	for (unsigned int i = 0; i < objs->nr; i++) {
		for (size_t p = 0; p < NR_PARAMS; p++) {
			table_cell(t, "%s", obj_str(&objs->obj[i], RDMA_AGG_A_PARAM_DEV_NAME));
			table_cell(t, "%s", params[p].name);
			table_cell(t, "%s", value(&params[p], &objs->obj[i]));
		}
	}
	table_print(t);
}

static int param_show(int argc, char **argv)
{
	struct objs objs = { 0 };
	struct nlmsghdr *nlh;
	int rc;

	if (argc > 1)
		return usage("unexpected \"%s\"", argv[1]);
	nlh = nl_msg(RDMA_AGG_CMD_PARAM_GET);
	if (argc) {
		rc = put_dev(nlh, argv[0]);
		if (!rc)
			rc = nl_get(nlh, &set_param, &objs);
	} else {
		rc = nl_dump(nlh, &set_param, &objs);
	}
	if (!rc && opt.json)
		json_objs(&set_param, &objs);
	else if (!rc)
		show_text(&objs);
	nl_free(&objs);
	return rc;
}

/* A number, and what may follow it; false if it is none. */
static bool number(const char *s, enum kind kind, uint32_t *v)
{
	char digits[16];
	size_t len = strspn(s, "0123456789");

	if (!len || len >= sizeof(digits))
		return false;
	memcpy(digits, s, len);
	digits[len] = 0;
	if (!parse_u32(digits, kind == PORT ? 65535 : UINT32_MAX, v))
		return false;
	s += len;
	if (kind == MS && !strcmp(s, "s")) {
		if (*v > UINT32_MAX / 1000)
			return false;
		*v *= 1000;
		return true;
	}
	return !*s || (kind == MS && !strcmp(s, "ms")) || (kind == PERCENT && !strcmp(s, "%"));
}

/* The key never stands on a command line, where everybody can read it. */
static int put_psk(struct nlmsghdr *nlh, const char *file)
{
	char key[1024];
	size_t len;
	FILE *f;

	if (!strcmp(file, "none")) {
		nl_put(nlh, RDMA_AGG_A_PARAM_PSK, "", 0);
		return RC_OK;
	}
	f = !strcmp(file, "-") ? stdin : fopen(file, "r");
	if (!f)
		return usage("%s: %s", file, strerror(errno));
	len = fread(key, 1, sizeof(key), f);
	if (ferror(f)) {
		usage("%s: %s", file, strerror(errno));
		len = 0;
	}
	if (f != stdin)
		fclose(f);
	/* what an editor or echo put at the end is not part of the key */
	if (len && key[len - 1] == '\n')
		len--;
	if (len)
		nl_put(nlh, RDMA_AGG_A_PARAM_PSK, key, len);
	explicit_bzero(key, sizeof(key));
	return len ? RC_OK : usage("%s: no key in it", file);
}

static int put_param(struct nlmsghdr *nlh, const char *name, const char *text)
{
	const struct param *p = NULL;
	uint32_t v;
	int policy;

	for (size_t i = 0; i < NR_PARAMS; i++)
		if (!strcmp(name, params[i].name))
			p = &params[i];
	if (!p)
		return usage("\"%s\" is no parameter", name);
	switch (p->kind) {
	case POLICY:
		policy = value_of(&names_policy, text);
		if (policy < 0)
			return usage("\"%s\" is no policy: hash, least, rr or numa", text);
		nl_put_u32(nlh, p->attr, policy);
		return RC_OK;
	case PSK:
		return put_psk(nlh, text);
	default:
		if (!number(text, p->kind, &v))
			return usage("%s: \"%s\" is not a number it takes", name, text);
		if (p->kind == PORT)
			nl_put_u16(nlh, p->attr, v);
		else
			nl_put_u32(nlh, p->attr, v);
		return RC_OK;
	}
}

/* NAME VALUE ...: all in one request, so all or none */
int param_set(const char *dev, int argc, char **argv)
{
	struct nlmsghdr *nlh;
	int rc;

	nlh = nl_msg(RDMA_AGG_CMD_PARAM_SET);
	rc = put_dev(nlh, dev);
	for (int i = 0; !rc && i < argc; i += 2) {
		if (i + 1 == argc)
			return usage("\"%s\" needs a value", argv[i]);
		rc = put_param(nlh, argv[i], argv[i + 1]);
	}
	return rc ? rc : nl_send(nlh, &set_param);
}

static int cmd_set(int argc, char **argv)
{
	if (argc < 3)
		return usage("param set DEV NAME VALUE");
	return param_set(argv[0], argc - 1, argv + 1);
}

static const struct cmd cmds[] = {
	{ "show", param_show },
	{ "list", param_show },
	{ "set", cmd_set },
	{ NULL, NULL }
};

int do_param(int argc, char **argv)
{
	return run_cmd("param", cmds, help, argc, argv);
}
