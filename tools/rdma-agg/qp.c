// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "rdma-agg.h"

static void help(FILE *f)
{
	fprintf(f, "Usage: rdma-agg qp [ show [ DEV [ qpn N ] ] ]\n");
}

/* Microseconds. */
static const char *str_us(uint32_t us)
{
	return str("%.1f ms", us / 1000.0);
}

static void show_text(const struct objs *objs)
{
	static const char *const heads[] = {
		"DEVICE", ">QPN", "TYPE", "STATE", "PEER", ">PEER QPN", "LANE", ">QUEUE tx/rx",
		"PEER LANE", ">PID", "COMMAND", NULL
	};
	static const char *const more[] = {
		"DEVICE", ">QPN", "TYPE", "STATE", "PEER", ">PEER QPN", "LANE", ">QUEUE tx/rx",
		"PEER LANE", ">PID", "COMMAND", "FROM", "HASH", ">LANE QPN", ">PEER LANE QPN",
		">AGE", ">EPOCH", ">MOVES", ">FAILOVERS", "LAST CAUSE", ">LAST", ">LONGEST",
		">REPLAYED", ">RESOLVED", NULL
	};
	struct table *t = table_new(opt.details ? more : heads);

	for (unsigned int i = 0; i < objs->nr; i++) {
		const struct obj *o = &objs->obj[i];
		const char *state = name_of(&names_qp_state, obj_u32(o, RDMA_AGG_A_QP_STATE));
		const char *type = name_of(&names_qp_type, obj_u32(o, RDMA_AGG_A_QP_TYPE));
		bool named = obj_has(o, RDMA_AGG_A_QP_PEER_QPN);
		bool path = obj_has(o, RDMA_AGG_A_QP_LANE_ID);
		bool far = obj_has(o, RDMA_AGG_A_QP_PEER_LANE_ID);
		uint32_t failovers = obj_u32(o, RDMA_AGG_A_QP_FAILOVERS);
		uint32_t last = obj_u32(o, RDMA_AGG_A_QP_FAILOVER_LAST);
		uint32_t longest = obj_u32(o, RDMA_AGG_A_QP_FAILOVER_MAX);
		const char *cause = name_of(&names_cause, obj_u32(o, RDMA_AGG_A_QP_FAILOVER_CAUSE));

		table_cell(t, "%s", obj_str(o, RDMA_AGG_A_QP_DEV_NAME));
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_QP_QPN));
		table_cell(t, "%s", type ? type : "unknown");
		table_cell(t, "%s", state ? state : "unknown");
		table_cell(t, "%s", str_gid(obj_gid(o, RDMA_AGG_A_QP_PEER_GID)));
		table_cell(t, "%s", named ? str("%u", obj_u32(o, RDMA_AGG_A_QP_PEER_QPN)) : "-");
		table_cell(t, "%s", path ? str("%s/%u", obj_str(o, RDMA_AGG_A_QP_IBDEV_NAME),
					       obj_u32(o, RDMA_AGG_A_QP_IBDEV_PORT)) :
				    obj_u32(o, RDMA_AGG_A_QP_FAILING) ? "none" : "-");
		table_cell(t, "%s", path ? str("%u/%u", obj_u32(o, RDMA_AGG_A_QP_TX_QUEUE),
					       obj_u32(o, RDMA_AGG_A_QP_RX_QUEUE)) : "-");
		table_cell(t, "%s", far ? str("%u (%s)", obj_u32(o, RDMA_AGG_A_QP_PEER_LANE_ID),
					      str_gid(obj_gid(o, RDMA_AGG_A_QP_PEER_LANE_GID))) :
					  "-");
		table_cell(t, "%s", obj_has(o, RDMA_AGG_A_QP_PID) ?
				    str("%u", obj_u32(o, RDMA_AGG_A_QP_PID)) : "-");
		table_cell(t, "%s", obj_has(o, RDMA_AGG_A_QP_COMM) ?
				    obj_str(o, RDMA_AGG_A_QP_COMM) : "-");
		if (!opt.details)
			continue;
		table_cell(t, "%s", str_gid(obj_gid(o, RDMA_AGG_A_QP_SGID)));
		table_cell(t, "%s", named ? str("%08x", obj_u32(o, RDMA_AGG_A_QP_FLOW_HASH)) : "-");
		table_cell(t, "%s", path ? str("%u", obj_u32(o, RDMA_AGG_A_QP_LANE_QPN)) : "-");
		table_cell(t, "%s", far ? str("%u", obj_u32(o, RDMA_AGG_A_QP_PEER_LANE_QPN)) : "-");
		table_cell(t, "%s", str_since(obj_u64(o, RDMA_AGG_A_QP_CREATED)));
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_QP_EPOCH));
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_QP_MOVES));
		table_cell(t, "%u", failovers);
		table_cell(t, "%s", !failovers ? "-" : cause ? cause : "unknown");
		table_cell(t, "%s", failovers ? str_us(last) : "-");
		table_cell(t, "%s", failovers ? str_us(longest) : "-");
		table_cell(t, "%llu",
			   (unsigned long long)obj_u64(o, RDMA_AGG_A_QP_REQUESTS_REPLAYED));
		table_cell(t, "%llu",
			   (unsigned long long)obj_u64(o, RDMA_AGG_A_QP_REQUESTS_RESOLVED));
	}
	table_print(t);
}

static int qp_show(int argc, char **argv)
{
	struct objs objs = { 0 };
	struct nlmsghdr *nlh;
	uint32_t qpn = 0;
	int rc;

	if (argc > 1 && (argc != 3 || strcmp(argv[1], "qpn")))
		return usage("qp show DEV qpn N");
	if (argc == 3 && !parse_u32(argv[2], 0xffffff, &qpn))
		return usage("\"%s\" is no QP number", argv[2]);
	nlh = nl_msg(RDMA_AGG_CMD_QP_GET);
	rc = argc ? put_dev(nlh, argv[0]) : RC_OK;
	if (!rc && argc == 3) {
		nl_put_u32(nlh, RDMA_AGG_A_QP_QPN, qpn);
		rc = nl_get(nlh, &set_qp, &objs);
	} else if (!rc) {
		rc = nl_dump(nlh, &set_qp, &objs);
	}
	if (!rc && opt.json)
		json_objs(&set_qp, &objs);
	else if (!rc)
		show_text(&objs);
	nl_free(&objs);
	return rc;
}

static const struct cmd cmds[] = {
	{ "show", qp_show },
	{ "list", qp_show },
	{ NULL, NULL }
};

int do_qp(int argc, char **argv)
{
	return run_cmd("qp", cmds, help, argc, argv);
}
