// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "rdma-agg.h"

static void help(FILE *f)
{
	fprintf(f,
		"Usage: rdma-agg monitor [ { dev | lane | peer | qp | param } ... ]\n"
		"One JSON object per line: first what there is, then what happens; after a\n"
		"loss {\"name\":\"overrun\"}, and what there is once more.\n");
}

static const struct source {
	const char *object;
	uint8_t get, ntf;
	const char *get_name, *ntf_name;
	const struct set *set;
} sources[] = {
	{ "dev", RDMA_AGG_CMD_DEV_GET, RDMA_AGG_CMD_DEV_NTF, "dev-get", "dev-ntf", &set_dev },
	{ "lane", RDMA_AGG_CMD_LANE_GET, RDMA_AGG_CMD_LANE_NTF, "lane-get", "lane-ntf", &set_lane },
	{ "peer", RDMA_AGG_CMD_PEER_GET, RDMA_AGG_CMD_PEER_NTF, "peer-get", "peer-ntf", &set_peer },
	{ "qp", RDMA_AGG_CMD_QP_GET, RDMA_AGG_CMD_QP_NTF, "qp-get", "qp-ntf", &set_qp },
	{ "param", RDMA_AGG_CMD_PARAM_GET, RDMA_AGG_CMD_PARAM_NTF, "param-get", "param-ntf",
	  &set_param },
};

#define NR_SOURCES	ARRAY_SIZE(sources)

static unsigned int wanted;	/* bit per source */
static bool started;

static int event(uint8_t cmd, const struct obj *obj)
{
	for (size_t i = 0; i < NR_SOURCES; i++) {
		if (sources[i].ntf == cmd && wanted >> i & 1) {
			json_event(sources[i].ntf_name, sources[i].set, obj);
			break;
		}
	}
	/* whoever read us has gone */
	return ferror(stdout) ? RC_USAGE : RC_OK;
}

static int lost(void)
{
	if (started)
		json_event("overrun", NULL, NULL);
	started = true;
	for (size_t i = 0; i < NR_SOURCES; i++) {
		struct objs objs = { 0 };
		int rc;

		if (!(wanted >> i & 1))
			continue;
		rc = nl_dump(nl_msg(sources[i].get), sources[i].set, &objs);
		for (unsigned int o = 0; !rc && o < objs.nr; o++)
			json_event(sources[i].get_name, sources[i].set, &objs.obj[o]);
		nl_free(&objs);
		if (rc)
			return rc;
	}
	return ferror(stdout) ? RC_USAGE : RC_OK;
}

int do_monitor(int argc, char **argv)
{
	if (argc && is(argv[0], "help")) {
		help(stdout);
		return RC_OK;
	}
	for (int i = 0; i < argc; i++) {
		size_t s = 0;

		while (s < NR_SOURCES && strcmp(argv[i], sources[s].object))
			s++;
		if (s == NR_SOURCES) {
			usage("\"%s\" cannot be watched", argv[i]);
			help(stderr);
			return RC_USAGE;
		}
		wanted |= 1U << s;
	}
	if (!wanted)
		wanted = (1U << NR_SOURCES) - 1;
	/* a line is a line, however people like their JSON */
	opt.pretty = false;
	return nl_monitor(event, lost);
}
