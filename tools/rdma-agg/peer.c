// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "rdma-agg.h"

static void help(FILE *f)
{
	fprintf(f, "Usage: rdma-agg peer [ show [ DEV ] ]\n");
}

static void show_text(const struct objs *objs)
{
	static const char *const heads[] = {
		"DEVICE", "PEER", "FROM", "STATE", ">SINCE", ">LANES", ">QPS", ">KEYS",
		">MESSAGES tx/rx", ">RECONNECTS", "ERROR", NULL
	};
	struct table *t = table_new(heads);

	for (unsigned int i = 0; i < objs->nr; i++) {
		const struct obj *o = &objs->obj[i];
		const char *state = name_of(&names_peer_state, obj_u32(o, RDMA_AGG_A_PEER_STATE));
		uint32_t err = obj_u32(o, RDMA_AGG_A_PEER_ERROR);

		table_cell(t, "%s", obj_str(o, RDMA_AGG_A_PEER_DEV_NAME));
		table_cell(t, "%s", str_gid(obj_gid(o, RDMA_AGG_A_PEER_GID)));
		table_cell(t, "%s", str_gid(obj_gid(o, RDMA_AGG_A_PEER_SGID)));
		table_cell(t, "%s", state ? state : "unknown");
		table_cell(t, "%s", str_since(obj_u64(o, RDMA_AGG_A_PEER_SINCE)));
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_PEER_LANES));
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_PEER_QPS));
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_PEER_KEYS));
		table_cell(t, "%llu/%llu",
			   (unsigned long long)obj_u64(o, RDMA_AGG_A_PEER_TX_MESSAGES),
			   (unsigned long long)obj_u64(o, RDMA_AGG_A_PEER_RX_MESSAGES));
		table_cell(t, "%llu", (unsigned long long)obj_u64(o, RDMA_AGG_A_PEER_RECONNECTS));
		table_cell(t, "%s", err ? strerror(err) : "-");
	}
	table_print(t);
}

static int peer_show(int argc, char **argv)
{
	struct objs objs = { 0 };
	struct nlmsghdr *nlh;
	int rc;

	if (argc > 1)
		return usage("unexpected \"%s\"", argv[1]);
	nlh = nl_msg(RDMA_AGG_CMD_PEER_GET);
	rc = argc ? put_dev(nlh, argv[0]) : RC_OK;
	if (!rc)
		rc = nl_dump(nlh, &set_peer, &objs);
	if (!rc && opt.json)
		json_objs(&set_peer, &objs);
	else if (!rc)
		show_text(&objs);
	nl_free(&objs);
	return rc;
}

static const struct cmd cmds[] = {
	{ "show", peer_show },
	{ "list", peer_show },
	{ NULL, NULL }
};

int do_peer(int argc, char **argv)
{
	return run_cmd("peer", cmds, help, argc, argv);
}
