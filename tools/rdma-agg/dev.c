// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "rdma-agg.h"

static void help(FILE *f)
{
	fprintf(f,
		"Usage: rdma-agg dev [ show [ DEV ] ]\n"
		"       rdma-agg dev add DEV netdev IFNAME\n"
		"       rdma-agg dev del DEV\n"
		"       rdma-agg dev set DEV policy { hash | least | rr | numa }\n"
		"IFNAME: the netdev whose addresses are the GIDs of DEV\n");
}

static void show_text(const struct objs *objs)
{
	static const char *const heads[] = {
		"DEVICE", "NETDEV", "STATE", ">SPEED", ">LANES", "POLICY", ">QPS", ">MTU", NULL
	};
	static const char *const more[] = {
		"DEVICE", "NETDEV", "STATE", ">SPEED", ">LANES", "POLICY", ">QPS", ">MTU",
		"GUID", "INSTANCE", NULL
	};
	struct table *t = table_new(opt.details ? more : heads);

	for (unsigned int i = 0; i < objs->nr; i++) {
		const struct obj *o = &objs->obj[i];
		const char *state = name_of(&names_port_state,
					    obj_u32(o, RDMA_AGG_A_DEV_PORT_STATE));
		const char *policy = name_of(&names_policy, obj_u32(o, RDMA_AGG_A_DEV_POLICY));

		table_cell(t, "%s", obj_str(o, RDMA_AGG_A_DEV_DEV_NAME));
		table_cell(t, "%s", obj_has(o, RDMA_AGG_A_DEV_IFNAME) ?
				    obj_str(o, RDMA_AGG_A_DEV_IFNAME) : "-");
		table_cell(t, "%s", state ? state : "unknown");
		table_cell(t, "%s", str_speed(obj_u64(o, RDMA_AGG_A_DEV_SPEED)));
		table_cell(t, "%u/%u", obj_u32(o, RDMA_AGG_A_DEV_USABLE_LANES),
			   obj_u32(o, RDMA_AGG_A_DEV_LANES));
		table_cell(t, "%s", policy ? policy : "unknown");
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_DEV_QPS));
		table_cell(t, "%u B", obj_u32(o, RDMA_AGG_A_DEV_MTU));
		if (opt.details) {
			table_cell(t, "%s", str_guid(obj_u64(o, RDMA_AGG_A_DEV_NODE_GUID)));
			table_cell(t, "%s", str("%016llx", (unsigned long long)
						obj_u64(o, RDMA_AGG_A_DEV_INSTANCE)));
		}
	}
	table_print(t);
}

static int dev_show(int argc, char **argv)
{
	struct objs objs = { 0 };
	struct nlmsghdr *nlh;
	int rc;

	if (argc > 1)
		return usage("unexpected \"%s\"", argv[1]);
	nlh = nl_msg(RDMA_AGG_CMD_DEV_GET);
	if (argc) {
		rc = put_dev(nlh, argv[0]);
		if (!rc)
			rc = nl_get(nlh, &set_dev, &objs);
	} else {
		rc = nl_dump(nlh, &set_dev, &objs);
	}
	if (!rc && opt.json)
		json_objs(&set_dev, &objs);
	else if (!rc)
		show_text(&objs);
	nl_free(&objs);
	return rc;
}

static int dev_add(int argc, char **argv)
{
	struct nlmsghdr *nlh;
	int rc;

	if (argc < 3 || strcmp(argv[1], "netdev"))
		return usage("dev add DEV netdev IFNAME");
	if (argc > 3)
		return usage("unexpected \"%s\"", argv[3]);
	if (!*argv[2] || strlen(argv[2]) > 15)
		return usage("\"%s\" is no netdev name", argv[2]);
	nlh = nl_msg(RDMA_AGG_CMD_DEV_NEW);
	rc = put_dev(nlh, argv[0]);
	if (rc)
		return rc;
	nl_put_str(nlh, RDMA_AGG_A_DEV_IFNAME, argv[2]);
	return nl_send(nlh, &set_dev);
}

static int dev_del(int argc, char **argv)
{
	struct nlmsghdr *nlh;
	int rc;

	if (argc != 1)
		return usage("dev del DEV");
	nlh = nl_msg(RDMA_AGG_CMD_DEV_DEL);
	rc = put_dev(nlh, argv[0]);
	return rc ? rc : nl_send(nlh, &set_dev);
}

static int dev_set(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[1], "policy"))
		return usage("dev set DEV policy POLICY (other parameters: param set)");
	return param_set(argv[0], argc - 1, argv + 1);
}

static const struct cmd cmds[] = {
	{ "show", dev_show },
	{ "list", dev_show },
	{ "add", dev_add },
	{ "delete", dev_del },
	{ "set", dev_set },
	{ NULL, NULL }
};

int do_dev(int argc, char **argv)
{
	return run_cmd("dev", cmds, help, argc, argv);
}
