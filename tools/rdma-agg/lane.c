// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "rdma-agg.h"

static void help(FILE *f)
{
	fprintf(f,
		"Usage: rdma-agg lane [ show [ DEV [ LANE ] ] ]\n"
		"       rdma-agg lane add DEV LANE [ rail N ] [ weight N ]\n"
		"       rdma-agg lane set DEV LANE { rail N | weight { N | auto } |\n"
		"                         admin { up | drain | down } } ...\n"
		"       rdma-agg lane del DEV LANE\n"
		"LANE := IBDEV[/PORT]; rail: lanes of equal rail on both hosts are paired;\n"
		"weight: share of the flows, the speed in Mb/s if auto\n"
		"admin: drain lets the flows leave it, down takes it from them\n");
}

static void show_text(const struct objs *objs)
{
	static const char *const heads[] = {
		"DEVICE", "LANE", "NETDEV", "STATE", ">RAIL", ">SPEED", ">WEIGHT", ">FLOWS",
		">QPS", ">OUTSTANDING", ">QUEUES tx/rx", "ADDRESS", NULL
	};
	static const char *const more[] = {
		"DEVICE", "LANE", "NETDEV", "STATE", ">RAIL", ">SPEED", ">WEIGHT", ">FLOWS",
		">QPS", ">OUTSTANDING", ">QUEUES tx/rx", "ADDRESS",
		">ID", ">MTU", ">NODE", ">PATHS dead/all", ">CHANGES", ">AGE", NULL
	};
	struct table *t = table_new(opt.details ? more : heads);

	for (unsigned int i = 0; i < objs->nr; i++) {
		const struct obj *o = &objs->obj[i];
		const char *state = name_of(&names_lane_state, obj_u32(o, RDMA_AGG_A_LANE_STATE));
		uint32_t admin = obj_u32(o, RDMA_AGG_A_LANE_ADMIN);

		table_cell(t, "%s", obj_str(o, RDMA_AGG_A_LANE_DEV_NAME));
		table_cell(t, "%s/%u", obj_str(o, RDMA_AGG_A_LANE_IBDEV_NAME),
			   obj_u32(o, RDMA_AGG_A_LANE_IBDEV_PORT));
		table_cell(t, "%s", obj_str(o, RDMA_AGG_A_LANE_IFNAME));
		table_cell(t, "%s%s", state ? state : "unknown",
			   admin == RDMA_AGG_LANE_ADMIN_DRAIN ? " (drain)" :
			   admin == RDMA_AGG_LANE_ADMIN_DOWN ? " (admin)" : "");
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_LANE_RAIL));
		table_cell(t, "%s", str_speed(obj_u32(o, RDMA_AGG_A_LANE_SPEED)));
		table_cell(t, "%u%s", obj_u32(o, RDMA_AGG_A_LANE_WEIGHT),
			   obj_u32(o, RDMA_AGG_A_LANE_WEIGHT_FIXED) ? " set" : "");
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_LANE_FLOWS));
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_LANE_QPS));
		table_cell(t, "%s", str_bytes(obj_u64(o, RDMA_AGG_A_LANE_OUTSTANDING_BYTES)));
		table_cell(t, "%u/%u", obj_u32(o, RDMA_AGG_A_LANE_TX_QUEUES),
			   obj_u32(o, RDMA_AGG_A_LANE_RX_QUEUES));
		table_cell(t, "%s", str_gid(obj_gid(o, RDMA_AGG_A_LANE_GID)));
		if (!opt.details)
			continue;
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_LANE_LANE_ID));
		table_cell(t, "%u B", obj_u32(o, RDMA_AGG_A_LANE_MTU));
		table_cell(t, "%s", obj_has(o, RDMA_AGG_A_LANE_NUMA_NODE) ?
				    str("%u", obj_u32(o, RDMA_AGG_A_LANE_NUMA_NODE)) : "-");
		table_cell(t, "%u/%u", obj_u32(o, RDMA_AGG_A_LANE_PATHS_DEAD),
			   obj_u32(o, RDMA_AGG_A_LANE_PATHS));
		table_cell(t, "%llu",
			   (unsigned long long)obj_u64(o, RDMA_AGG_A_LANE_STATE_CHANGES));
		table_cell(t, "%s", str_since(obj_u64(o, RDMA_AGG_A_LANE_CREATED)));
	}
	table_print(t);
}

/* A request about the lane that argv[0] (device) and argv[1] name. */
static int lane_msg(uint8_t cmd, char **argv, struct nlmsghdr **nlh)
{
	char ibdev[LANE_STR];
	uint32_t port;
	int rc;

	rc = parse_lane(argv[1], ibdev, &port);
	if (rc)
		return rc;
	*nlh = nl_msg(cmd);
	rc = put_dev(*nlh, argv[0]);
	if (rc)
		return rc;
	nl_put_str(*nlh, RDMA_AGG_A_LANE_IBDEV_NAME, ibdev);
	nl_put_u32(*nlh, RDMA_AGG_A_LANE_IBDEV_PORT, port);
	return RC_OK;
}

static int lane_show(int argc, char **argv)
{
	struct objs objs = { 0 };
	struct nlmsghdr *nlh;
	int rc;

	if (argc > 2)
		return usage("unexpected \"%s\"", argv[2]);
	if (argc == 2) {
		rc = lane_msg(RDMA_AGG_CMD_LANE_GET, argv, &nlh);
		if (!rc)
			rc = nl_get(nlh, &set_lane, &objs);
	} else {
		nlh = nl_msg(RDMA_AGG_CMD_LANE_GET);
		rc = argc ? put_dev(nlh, argv[0]) : RC_OK;
		if (!rc)
			rc = nl_dump(nlh, &set_lane, &objs);
	}
	if (!rc && opt.json)
		json_objs(&set_lane, &objs);
	else if (!rc)
		show_text(&objs);
	nl_free(&objs);
	return rc;
}

static int lane_write(uint8_t cmd, int argc, char **argv)
{
	bool has_rail = false, has_weight = false;
	uint32_t rail = 0, weight = 0;
	int admin = -1;
	struct nlmsghdr *nlh;
	int rc;

	if (argc < 2)
		return usage("a device and a lane are needed");
	for (int i = 2; i < argc; i += 2) {
		if (i + 1 == argc)
			return usage("\"%s\" needs a value", argv[i]);
		if (!strcmp(argv[i], "rail")) {
			if (!parse_u32(argv[i + 1], 254, &rail))
				return usage("\"%s\" is no rail: 0 to 254", argv[i + 1]);
			has_rail = true;
		} else if (!strcmp(argv[i], "weight")) {
			if (!strcmp(argv[i + 1], "auto"))
				weight = 0;
			else if (!parse_u32(argv[i + 1], 16777215, &weight) || !weight)
				return usage("\"%s\" is no weight: 1 to 16777215, or auto",
					     argv[i + 1]);
			has_weight = true;
		} else if (!strcmp(argv[i], "admin") && cmd == RDMA_AGG_CMD_LANE_SET) {
			admin = value_of(&names_lane_admin, argv[i + 1]);
			if (admin < 0)
				return usage("\"%s\" is not up, drain or down", argv[i + 1]);
		} else {
			return usage("unexpected \"%s\"", argv[i]);
		}
	}
	rc = lane_msg(cmd, argv, &nlh);
	if (rc)
		return rc;
	if (has_rail)
		nl_put_u32(nlh, RDMA_AGG_A_LANE_RAIL, rail);
	if (has_weight)
		nl_put_u32(nlh, RDMA_AGG_A_LANE_WEIGHT, weight);
	if (admin >= 0)
		nl_put_u32(nlh, RDMA_AGG_A_LANE_ADMIN, admin);
	return nl_send(nlh, &set_lane);
}

static int lane_add(int argc, char **argv)
{
	return lane_write(RDMA_AGG_CMD_LANE_NEW, argc, argv);
}

static int lane_set(int argc, char **argv)
{
	if (argc == 2)
		return usage("nothing to set: rail, weight or admin");
	return lane_write(RDMA_AGG_CMD_LANE_SET, argc, argv);
}

static int lane_del(int argc, char **argv)
{
	struct nlmsghdr *nlh;
	int rc;

	if (argc != 2)
		return usage("lane del DEV LANE");
	rc = lane_msg(RDMA_AGG_CMD_LANE_DEL, argv, &nlh);
	return rc ? rc : nl_send(nlh, &set_lane);
}

static const struct cmd cmds[] = {
	{ "show", lane_show },
	{ "list", lane_show },
	{ "add", lane_add },
	{ "delete", lane_del },
	{ "set", lane_set },
	{ NULL, NULL }
};

int do_lane(int argc, char **argv)
{
	return run_cmd("lane", cmds, help, argc, argv);
}
