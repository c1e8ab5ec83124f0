/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rdma-agg: control of agg devices, in the style of iproute2's rdma.
 *
 * main.c has the options, one file per object its commands, attrs.c the
 * attributes of the netlink spec, nl.c the socket, print.c the output.
 */
#ifndef RDMA_AGG_TOOL_H
#define RDMA_AGG_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <linux/netlink.h>
#include <rdma/rdma_agg.h>

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#endif

/* Exit codes. */
enum {
	RC_OK,
	RC_USAGE,		/* not understood; nothing was asked of the kernel */
	RC_KERNEL,		/* refused by the kernel, or not there */
};

struct options {
	bool json;
	bool pretty;
	bool details;
	bool exact;		/* bytes as they are */
};

extern struct options opt;

/* ---- attrs.c ---- */

enum attr_kind {
	ATTR_NONE,
	ATTR_U8,
	ATTR_U16,
	ATTR_U32,
	ATTR_S32,
	ATTR_U64,
	ATTR_HEX32,
	ATTR_HEX64,
	ATTR_STRING,
	ATTR_GID,
	ATTR_BINARY,
	ATTR_ENUM,
	ATTR_NEST,
};

struct names {
	int first;		/* value of name[0] */
	int nr;
	const char *const *name;
};

struct attr {
	const char *name;	/* as in the spec; a key of the JSON output */
	enum attr_kind kind;
	bool multi;
	const struct names *names;
	const struct set *nest;
};

/* An attribute set of the spec; indexed by attribute type. */
struct set {
	const struct attr *attr;
	int max;
};

extern const struct set set_dev, set_lane, set_peer, set_qp, set_stat, set_queue, set_param;
extern const struct names names_policy, names_lane_state, names_port_state, names_qp_type,
	names_qp_state, names_cause, names_lane_admin, names_peer_state, names_event,
	names_direction;

const char *name_of(const struct names *names, uint32_t value);
int value_of(const struct names *names, const char *name);

/* ---- nl.c ---- */

/* The attributes of one object, as they came. */
struct obj {
	void *attrs;
	size_t len;
};

struct objs {
	struct obj *obj;
	unsigned int nr;
};

struct nlmsghdr *nl_msg(uint8_t cmd);
void nl_put_str(struct nlmsghdr *nlh, int type, const char *s);
void nl_put_u32(struct nlmsghdr *nlh, int type, uint32_t v);
void nl_put_u16(struct nlmsghdr *nlh, int type, uint16_t v);
void nl_put(struct nlmsghdr *nlh, int type, const void *data, size_t len);
int nl_send(struct nlmsghdr *nlh, const struct set *set);
int nl_get(struct nlmsghdr *nlh, const struct set *set, struct objs *out);
int nl_dump(struct nlmsghdr *nlh, const struct set *set, struct objs *out);
void nl_free(struct objs *objs);
int nl_monitor(int (*event)(uint8_t cmd, const struct obj *obj), int (*lost)(void));

const struct nlattr *obj_attr(const struct obj *obj, int type);
bool obj_has(const struct obj *obj, int type);
uint32_t obj_u32(const struct obj *obj, int type);	/* up to 32 bits; 0 = absent */
uint64_t obj_u64(const struct obj *obj, int type);
const char *obj_str(const struct obj *obj, int type);
const void *obj_gid(const struct obj *obj, int type);
void obj_each(const struct obj *obj, int type, void (*fn)(const struct obj *nest, void *data),
	      void *data);

/* ---- print.c ---- */

void json_objs(const struct set *set, const struct objs *objs);
void json_event(const char *name, const struct set *set, const struct obj *obj);

struct table;
struct table *table_new(const char *const *heads);	/* ends with NULL; ">X" = align right */
__printf(2, 3) void table_cell(struct table *t, const char *fmt, ...);
void table_print(struct table *t);			/* and frees it */

/* All of these return a string that lives until 16 more were asked for. */
__printf(1, 2) const char *str(const char *fmt, ...);
const char *str_gid(const void *gid);
const char *str_bytes(uint64_t bytes);
const char *str_speed(uint64_t mbps);
const char *str_guid(uint64_t guid);
const char *str_since(uint64_t ns);
const char *str_ms(uint32_t ms);

/* ---- main.c ---- */

struct cmd {
	const char *name;
	int (*run)(int argc, char **argv);
};

int run_cmd(const char *object, const struct cmd *cmds, void (*help)(FILE *), int argc,
	    char **argv);
__printf(1, 2) int usage(const char *fmt, ...);
bool is(const char *arg, const char *word);
bool parse_u32(const char *s, uint32_t max, uint32_t *out);
int parse_lane(const char *s, char *ibdev, uint32_t *port);
int put_dev(struct nlmsghdr *nlh, const char *name);

/* ---- one per object ---- */

int do_dev(int argc, char **argv);
int do_lane(int argc, char **argv);
int do_peer(int argc, char **argv);
int do_qp(int argc, char **argv);
int do_stat(int argc, char **argv);
int do_param(int argc, char **argv);
int do_monitor(int argc, char **argv);

int param_set(const char *dev, int argc, char **argv);
int stat_dump(struct objs *out, const char *dev);

#define LANE_STR	(64 + 12)

#endif /* RDMA_AGG_TOOL_H */
