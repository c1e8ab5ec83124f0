// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdlib.h>
#include <string.h>

#include <libmnl/libmnl.h>

#include "rdma-agg.h"

static void help(FILE *f)
{
	fprintf(f,
		"Usage: rdma-agg stat [ show [ DEV [ lane LANE ] ] ]\n"
		"LANE := IBDEV[/PORT]; -d shows the queues of all lanes, -e exact bytes\n");
}

static bool same_lane(const struct obj *a, const struct obj *b)
{
	return obj_has(a, RDMA_AGG_A_STAT_LANE_ID) && obj_has(b, RDMA_AGG_A_STAT_LANE_ID) &&
	       obj_u32(a, RDMA_AGG_A_STAT_DEV_INDEX) == obj_u32(b, RDMA_AGG_A_STAT_DEV_INDEX) &&
	       obj_u32(a, RDMA_AGG_A_STAT_LANE_ID) == obj_u32(b, RDMA_AGG_A_STAT_LANE_ID);
}

/* A lane with many queues comes in several messages: put its queues together. */
static void merge(struct objs *objs)
{
	const struct nlattr *attr;
	unsigned int to = 0;

	for (unsigned int from = 1; from < objs->nr; from++) {
		struct obj *o = &objs->obj[to], *more = &objs->obj[from];

		if (!same_lane(o, more)) {
			objs->obj[++to] = *more;
			continue;
		}
		o->attrs = realloc(o->attrs, o->len + more->len);
		if (!o->attrs)
			abort();
		mnl_attr_for_each_payload(more->attrs, more->len) {
			if (mnl_attr_get_type(attr) != RDMA_AGG_A_STAT_QUEUE)
				continue;
			memcpy((char *)o->attrs + o->len, attr, MNL_ALIGN(attr->nla_len));
			o->len += MNL_ALIGN(attr->nla_len);
		}
		free(more->attrs);
	}
	if (objs->nr)
		objs->nr = to + 1;
}

/* The counters of a device, or of all, and their lanes. */
int stat_dump(struct objs *out, const char *dev)
{
	struct nlmsghdr *nlh = nl_msg(RDMA_AGG_CMD_STAT_GET);
	int rc = dev ? put_dev(nlh, dev) : RC_OK;

	if (!rc)
		rc = nl_dump(nlh, &set_stat, out);
	if (!rc)
		merge(out);
	return rc;
}

static const char *lane_of(const struct obj *o)
{
	return obj_has(o, RDMA_AGG_A_STAT_IBDEV_NAME) ?
	       str("%s/%u", obj_str(o, RDMA_AGG_A_STAT_IBDEV_NAME),
		   obj_u32(o, RDMA_AGG_A_STAT_IBDEV_PORT)) : "all";
}

static const char *count(uint64_t v)
{
	return str("%llu", (unsigned long long)v);
}

static void show_totals(const struct objs *objs)
{
	static const char *const heads[] = {
		"DEVICE", "LANE", ">TX REQUESTS", ">TX BYTES", ">RX REQUESTS", ">RX BYTES",
		">OUTSTANDING", ">ERRORS tx/rx", ">FLUSHED tx/rx", ">FLOWS", NULL
	};
	struct table *t = table_new(heads);

	for (unsigned int i = 0; i < objs->nr; i++) {
		const struct obj *o = &objs->obj[i];

		table_cell(t, "%s", obj_str(o, RDMA_AGG_A_STAT_DEV_NAME));
		table_cell(t, "%s", lane_of(o));
		table_cell(t, "%s", count(obj_u64(o, RDMA_AGG_A_STAT_TX_REQUESTS)));
		table_cell(t, "%s", str_bytes(obj_u64(o, RDMA_AGG_A_STAT_TX_BYTES)));
		table_cell(t, "%s", count(obj_u64(o, RDMA_AGG_A_STAT_RX_REQUESTS)));
		table_cell(t, "%s", str_bytes(obj_u64(o, RDMA_AGG_A_STAT_RX_BYTES)));
		table_cell(t, "%s", str_bytes(obj_u64(o, RDMA_AGG_A_STAT_OUTSTANDING_BYTES)));
		table_cell(t, "%s/%s", count(obj_u64(o, RDMA_AGG_A_STAT_TX_ERRORS)),
			   count(obj_u64(o, RDMA_AGG_A_STAT_RX_ERRORS)));
		table_cell(t, "%s/%s", count(obj_u64(o, RDMA_AGG_A_STAT_TX_FLUSHED)),
			   count(obj_u64(o, RDMA_AGG_A_STAT_RX_FLUSHED)));
		table_cell(t, "%u", obj_u32(o, RDMA_AGG_A_STAT_FLOWS));
	}
	table_print(t);
}

/* All counters of one object, a line each. */
static void show_all(const struct obj *o)
{
	static const char *const heads[] = { "COUNTER", ">VALUE", NULL };
	struct table *t = table_new(heads);

	for (int type = RDMA_AGG_A_STAT_TX_REQUESTS; type <= set_stat.max; type++) {
		const char *name = set_stat.attr[type].name;
		size_t len;

		if (!obj_has(o, type) || set_stat.attr[type].kind == ATTR_NEST)
			continue;
		len = strlen(name);
		table_cell(t, "%s", name);
		table_cell(t, "%s", len > 6 && !strcmp(name + len - 6, "-bytes") ?
				    str_bytes(obj_u64(o, type)) : count(obj_u64(o, type)));
	}
	table_print(t);
}

struct queue_row {
	struct table *table;
	const struct obj *lane;
};

static void show_queue(const struct obj *q, void *data)
{
	const char *dir = name_of(&names_direction, obj_u32(q, RDMA_AGG_A_QUEUE_DIRECTION));
	uint64_t interrupts = obj_u64(q, RDMA_AGG_A_QUEUE_INTERRUPTS);
	uint64_t completions = obj_u64(q, RDMA_AGG_A_QUEUE_COMPLETIONS);
	struct queue_row *row = data;
	struct table *t = row->table;

	table_cell(t, "%s", obj_str(row->lane, RDMA_AGG_A_STAT_DEV_NAME));
	table_cell(t, "%s", lane_of(row->lane));
	table_cell(t, "%s%u", dir ? dir : "?", obj_u32(q, RDMA_AGG_A_QUEUE_INDEX));
	table_cell(t, "%u", obj_u32(q, RDMA_AGG_A_QUEUE_VECTOR));
	table_cell(t, "%s", count(completions));
	table_cell(t, "%s", count(interrupts));
	table_cell(t, "%s", interrupts ? str("%.1f", (double)completions / interrupts) : "-");
	table_cell(t, "%u", obj_u32(q, RDMA_AGG_A_QUEUE_BATCH_MAX));
	table_cell(t, "%s", count(obj_u64(q, RDMA_AGG_A_QUEUE_RESCHEDULES)));
	table_cell(t, "%u/%u", obj_u32(q, RDMA_AGG_A_QUEUE_RESERVED),
		   obj_u32(q, RDMA_AGG_A_QUEUE_SIZE));
}

static void show_queues(const struct objs *objs)
{
	static const char *const heads[] = {
		"DEVICE", "LANE", "QUEUE", ">VECTOR", ">COMPLETIONS", ">INTERRUPTS",
		">PER INTERRUPT", ">BATCH MAX", ">RESCHEDULES", ">RESERVED", NULL
	};
	struct queue_row row = { .table = table_new(heads) };

	for (unsigned int i = 0; i < objs->nr; i++) {
		row.lane = &objs->obj[i];
		obj_each(row.lane, RDMA_AGG_A_STAT_QUEUE, show_queue, &row);
	}
	table_print(row.table);
}

static int stat_show(int argc, char **argv)
{
	bool lane = argc == 3 && !strcmp(argv[1], "lane");
	struct objs objs = { 0 };
	char ibdev[LANE_STR];
	struct nlmsghdr *nlh;
	uint32_t port;
	int rc;

	if (argc > 1 && !lane)
		return usage("stat show DEV lane LANE");
	if (lane) {
		rc = parse_lane(argv[2], ibdev, &port);
		if (rc)
			return rc;
	}
	if (lane) {
		nlh = nl_msg(RDMA_AGG_CMD_STAT_GET);
		rc = put_dev(nlh, argv[0]);
		if (rc)
			return rc;
		nl_put_str(nlh, RDMA_AGG_A_STAT_IBDEV_NAME, ibdev);
		nl_put_u32(nlh, RDMA_AGG_A_STAT_IBDEV_PORT, port);
		rc = nl_get(nlh, &set_stat, &objs);
	} else {
		rc = stat_dump(&objs, argc ? argv[0] : NULL);
	}
	if (!rc && opt.json) {
		json_objs(&set_stat, &objs);
	} else if (!rc && objs.nr) {
		if (!lane)
			show_totals(&objs);
		/* one device or lane: everything */
		if (argc) {
			if (!lane)
				putchar('\n');
			show_all(&objs.obj[0]);
		}
		if (lane || opt.details) {
			putchar('\n');
			show_queues(&objs);
		}
	}
	nl_free(&objs);
	return rc;
}

static const struct cmd cmds[] = {
	{ "show", stat_show },
	{ "list", stat_show },
	{ NULL, NULL }
};

int do_stat(int argc, char **argv)
{
	return run_cmd("stat", cmds, help, argc, argv);
}
