// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <libmnl/libmnl.h>
#include <linux/genetlink.h>

#include "rdma-agg.h"

/* Larger than any message: a lane's counters with 128 queues take 16 KiB. */
#define BUFFER_SIZE	(64 * 1024)

static struct {
	struct mnl_socket *sock;
	uint16_t family;
	uint32_t mon;		/* multicast group */
	uint32_t seq;
	char out[4096];
	char in[BUFFER_SIZE];
} nl;

static void nl_open(void);

/* ---- errors ---- */

/* The attribute at @offset of the request, by the set that the request used. */
static const char *attr_name(const struct nlmsghdr *req, uint32_t offset, const struct set *set)
{
	const struct nlattr *attr;

	mnl_attr_for_each(attr, req, sizeof(struct genlmsghdr)) {
		if ((const char *)attr - (const char *)req == offset &&
		    mnl_attr_get_type(attr) <= set->max)
			return set->attr[mnl_attr_get_type(attr)].name;
	}
	return NULL;
}

static void print_refusal(const struct nlmsghdr *req, const struct set *set, int err,
			  const struct nlattr *tlvs, size_t len)
{
	const char *text = NULL, *name = NULL;
	const struct nlattr *attr;
	const char *why = "";

	mnl_attr_for_each_payload(tlvs, len) {
		switch (mnl_attr_get_type(attr)) {
		case NLMSGERR_ATTR_MSG:
			if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
				text = mnl_attr_get_str(attr);
			break;
		case NLMSGERR_ATTR_OFFS:
			if (mnl_attr_validate(attr, MNL_TYPE_U32) >= 0 && req && set)
				name = attr_name(req, mnl_attr_get_u32(attr), set);
			break;
		case NLMSGERR_ATTR_MISS_TYPE:
			if (mnl_attr_validate(attr, MNL_TYPE_U32) >= 0 && set &&
			    mnl_attr_get_u32(attr) <= (uint32_t)set->max && !name)
				name = set->attr[mnl_attr_get_u32(attr)].name;
			break;
		}
	}
	if (err == EPERM && !text)
		why = ": CAP_NET_ADMIN is needed";
	fprintf(stderr, "rdma-agg: ");
	if (text)
		fprintf(stderr, "%s: ", text);
	if (name)
		fprintf(stderr, "attribute %s: ", name);
	fprintf(stderr, "%s%s\n", strerror(err), why);
}

static int refused(const struct nlmsghdr *req, const struct set *set, const struct nlmsghdr *nlh,
		   bool quiet)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);
	size_t skip = sizeof(*e);

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*e))
		return -EBADMSG;
	if (!e->error || quiet)
		return e->error;
	/* without CAP_ACK the whole request comes back before the attributes */
	if (!(nlh->nlmsg_flags & NLM_F_CAPPED))
		skip += MNL_ALIGN(e->msg.nlmsg_len) - sizeof(e->msg);
	if ((nlh->nlmsg_flags & NLM_F_ACK_TLVS) && mnl_nlmsg_get_payload_len(nlh) > skip)
		print_refusal(req, set, -e->error, (void *)((char *)e + skip),
			      mnl_nlmsg_get_payload_len(nlh) - skip);
	else
		print_refusal(req, set, -e->error, NULL, 0);
	return e->error;
}

/* A dump that the kernel refused says so in its last message. */
static int dump_done(const struct nlmsghdr *req, const struct set *set,
		     const struct nlmsghdr *nlh)
{
	const char *payload = mnl_nlmsg_get_payload(nlh);
	size_t len = mnl_nlmsg_get_payload_len(nlh);
	int err = 0;

	if (len >= sizeof(err))
		memcpy(&err, payload, sizeof(err));
	if (err >= 0)
		return 0;
	if ((nlh->nlmsg_flags & NLM_F_ACK_TLVS) && len > sizeof(err))
		print_refusal(req, set, -err, (void *)(payload + sizeof(err)), len - sizeof(err));
	else
		print_refusal(req, set, -err, NULL, 0);
	return err;
}

static int broken(const char *what)
{
	fprintf(stderr, "rdma-agg: netlink: %s: %s\n", what, strerror(errno));
	return RC_KERNEL;
}

/* ---- requests ---- */

static struct nlmsghdr *start(void *buf, uint16_t family, uint8_t cmd, uint8_t version)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct genlmsghdr *genl;

	nlh->nlmsg_type = family;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	nlh->nlmsg_seq = ++nl.seq;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = cmd;
	genl->version = version;
	return nlh;
}

/*
 * A new request; there is one at a time. The socket is opened when it is
 * sent, so that a wrong command line is told whatever the kernel has.
 */
struct nlmsghdr *nl_msg(uint8_t cmd)
{
	return start(nl.out, nl.family, cmd, RDMA_AGG_FAMILY_VERSION);
}

void nl_put(struct nlmsghdr *nlh, int type, const void *data, size_t len)
{
	/* names are checked by the parsers; a key of any length is refused by the kernel */
	if (!mnl_attr_put_check(nlh, sizeof(nl.out), type, len, data)) {
		fprintf(stderr, "rdma-agg: a value is too long\n");
		exit(RC_USAGE);
	}
}

void nl_put_str(struct nlmsghdr *nlh, int type, const char *s)
{
	nl_put(nlh, type, s, strlen(s) + 1);
}

void nl_put_u32(struct nlmsghdr *nlh, int type, uint32_t v)
{
	nl_put(nlh, type, &v, sizeof(v));
}

void nl_put_u16(struct nlmsghdr *nlh, int type, uint16_t v)
{
	nl_put(nlh, type, &v, sizeof(v));
}

static int keep(struct objs *out, const struct nlmsghdr *nlh)
{
	size_t len = mnl_nlmsg_get_payload_len(nlh);
	struct obj *obj;

	if (len < sizeof(struct genlmsghdr))
		return -EBADMSG;
	len -= sizeof(struct genlmsghdr);
	obj = realloc(out->obj, (out->nr + 1) * sizeof(*obj));
	if (!obj)
		return -ENOMEM;
	out->obj = obj;
	obj = &out->obj[out->nr];
	obj->len = len;
	obj->attrs = malloc(len ? len : 1);
	if (!obj->attrs)
		return -ENOMEM;
	memcpy(obj->attrs, (char *)mnl_nlmsg_get_payload(nlh) + sizeof(struct genlmsghdr), len);
	out->nr++;
	return 0;
}

void nl_free(struct objs *objs)
{
	for (unsigned int i = 0; i < objs->nr; i++)
		free(objs->obj[i].attrs);
	free(objs->obj);
	objs->obj = NULL;
	objs->nr = 0;
}

/* Send a request; collect answers until ACK, error, or the end of the dump. */
static int talk(struct nlmsghdr *req, const struct set *set, struct objs *out, bool quiet)
{
	uint32_t port = mnl_socket_get_portid(nl.sock);
	const struct nlmsghdr *nlh;
	int len, err;

	if (mnl_socket_sendto(nl.sock, req, req->nlmsg_len) < 0)
		return broken("send");
	for (;;) {
		len = mnl_socket_recvfrom(nl.sock, nl.in, sizeof(nl.in));
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return broken("receive");
		for (nlh = (void *)nl.in; mnl_nlmsg_ok(nlh, len);
		     nlh = mnl_nlmsg_next(nlh, &len)) {
			if (nlh->nlmsg_seq != req->nlmsg_seq || nlh->nlmsg_pid != port)
				continue;
			switch (nlh->nlmsg_type) {
			case NLMSG_NOOP:
				break;
			case NLMSG_ERROR:
				return refused(req, set, nlh, quiet) ? RC_KERNEL : RC_OK;
			case NLMSG_DONE:
				return dump_done(req, set, nlh) ? RC_KERNEL : RC_OK;
			default:
				err = out ? keep(out, nlh) : 0;
				if (err) {
					errno = -err;
					return broken("answer");
				}
			}
		}
	}
}

static int request(struct nlmsghdr *nlh, uint16_t flags, const struct set *set, struct objs *out)
{
	nl_open();
	nlh->nlmsg_type = nl.family;
	nlh->nlmsg_seq = ++nl.seq;
	nlh->nlmsg_flags |= flags;
	return talk(nlh, set, out, false);
}

/* A request that is answered by an ACK only. */
int nl_send(struct nlmsghdr *nlh, const struct set *set)
{
	return request(nlh, NLM_F_ACK, set, NULL);
}

/* A request for one object. */
int nl_get(struct nlmsghdr *nlh, const struct set *set, struct objs *out)
{
	return request(nlh, NLM_F_ACK, set, out);
}

int nl_dump(struct nlmsghdr *nlh, const struct set *set, struct objs *out)
{
	return request(nlh, NLM_F_DUMP, set, out);
}

/* ---- the socket ---- */

static void find_group(const struct obj *group, void *data)
{
	const char *name = obj_str(group, CTRL_ATTR_MCAST_GRP_NAME);

	(void)data;
	if (!strcmp(name, RDMA_AGG_MCGRP_MON))
		nl.mon = obj_u32(group, CTRL_ATTR_MCAST_GRP_ID);
}

static void find_groups(const struct nlattr *groups)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, groups) {
		struct obj group = {
			.attrs = mnl_attr_get_payload(attr),
			.len = mnl_attr_get_payload_len(attr),
		};

		find_group(&group, NULL);
	}
}

/* Opens the socket, once, and finds the family, or ends the program. */
static void nl_open(void)
{
	struct objs reply = { 0 };
	struct nlmsghdr *nlh;
	char buf[256];
	int one = 1;

	if (nl.sock)
		return;
	nl.sock = mnl_socket_open(NETLINK_GENERIC);
	if (!nl.sock || mnl_socket_bind(nl.sock, 0, MNL_SOCKET_AUTOPID) < 0)
		exit(broken("socket"));
	mnl_socket_setsockopt(nl.sock, NETLINK_EXT_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(nl.sock, NETLINK_CAP_ACK, &one, sizeof(one));
	mnl_socket_setsockopt(nl.sock, NETLINK_GET_STRICT_CHK, &one, sizeof(one));
	nl.seq = time(NULL);

	nlh = start(buf, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1);
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, RDMA_AGG_FAMILY_NAME);
	nlh->nlmsg_flags |= NLM_F_ACK;
	if (talk(nlh, NULL, &reply, true) || !reply.nr) {
		fprintf(stderr, "rdma-agg: no netlink family %s: is the module rdma_agg loaded?\n",
			RDMA_AGG_FAMILY_NAME);
		exit(RC_KERNEL);
	}
	nl.family = obj_u32(&reply.obj[0], CTRL_ATTR_FAMILY_ID);
	if (obj_has(&reply.obj[0], CTRL_ATTR_MCAST_GROUPS))
		find_groups(obj_attr(&reply.obj[0], CTRL_ATTR_MCAST_GROUPS));
	nl_free(&reply);
}

/*
 * Call @event for each notice until it or @lost, called when notices were
 * dropped, returns other than 0. Requests made by @lost have their own socket.
 */
int nl_monitor(int (*event)(uint8_t cmd, const struct obj *obj), int (*lost)(void))
{
	static char buf[BUFFER_SIZE];
	const struct nlmsghdr *nlh;
	struct mnl_socket *sock;
	int len, rc, size = 1024 * 1024;

	nl_open();
	sock = mnl_socket_open(NETLINK_GENERIC);
	if (!sock || mnl_socket_bind(sock, 0, MNL_SOCKET_AUTOPID) < 0)
		return broken("socket");
	/* room for bursts; a failure only makes losses likelier */
	setsockopt(mnl_socket_get_fd(sock), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (mnl_socket_setsockopt(sock, NETLINK_ADD_MEMBERSHIP, &nl.mon, sizeof(nl.mon)) < 0)
		return broken("multicast group");
	rc = lost();
	while (!rc) {
		len = mnl_socket_recvfrom(sock, buf, sizeof(buf));
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0 && errno == ENOBUFS) {
			rc = lost();
			continue;
		}
		if (len < 0)
			return broken("receive");
		for (nlh = (void *)buf; !rc && mnl_nlmsg_ok(nlh, len);
		     nlh = mnl_nlmsg_next(nlh, &len)) {
			const struct genlmsghdr *genl = mnl_nlmsg_get_payload(nlh);
			struct obj obj;

			if (nlh->nlmsg_type != nl.family ||
			    mnl_nlmsg_get_payload_len(nlh) < sizeof(*genl))
				continue;
			obj.attrs = (char *)genl + sizeof(*genl);
			obj.len = mnl_nlmsg_get_payload_len(nlh) - sizeof(*genl);
			rc = event(genl->cmd, &obj);
		}
	}
	mnl_socket_close(sock);
	return rc;
}

/* ---- objects ---- */

const struct nlattr *obj_attr(const struct obj *obj, int type)
{
	const struct nlattr *attr;

	mnl_attr_for_each_payload(obj->attrs, obj->len)
		if (mnl_attr_get_type(attr) == type)
			return attr;
	return NULL;
}

bool obj_has(const struct obj *obj, int type)
{
	return obj_attr(obj, type);
}

uint64_t obj_u64(const struct obj *obj, int type)
{
	const struct nlattr *attr = obj_attr(obj, type);

	if (!attr)
		return 0;
	switch (mnl_attr_get_payload_len(attr)) {
	case 1:
		return mnl_attr_get_u8(attr);
	case 2:
		return mnl_attr_get_u16(attr);
	case 4:
		return mnl_attr_get_u32(attr);
	case 8:
		return mnl_attr_get_u64(attr);
	default:
		return 0;
	}
}

uint32_t obj_u32(const struct obj *obj, int type)
{
	return obj_u64(obj, type);
}

const char *obj_str(const struct obj *obj, int type)
{
	const struct nlattr *attr = obj_attr(obj, type);

	if (!attr || mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) < 0)
		return "";
	return mnl_attr_get_str(attr);
}

const void *obj_gid(const struct obj *obj, int type)
{
	const struct nlattr *attr = obj_attr(obj, type);

	return attr && mnl_attr_get_payload_len(attr) == 16 ? mnl_attr_get_payload(attr) : NULL;
}

void obj_each(const struct obj *obj, int type, void (*fn)(const struct obj *nest, void *data),
	      void *data)
{
	const struct nlattr *attr;

	mnl_attr_for_each_payload(obj->attrs, obj->len) {
		if (mnl_attr_get_type(attr) == type) {
			struct obj nest = {
				.attrs = mnl_attr_get_payload(attr),
				.len = mnl_attr_get_payload_len(attr),
			};

			fn(&nest, data);
		}
	}
}
