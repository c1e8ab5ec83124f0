// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The netlink requests of failnth. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <libmnl/libmnl.h>
#include <linux/genetlink.h>

#include "failnth.h"

static struct mnl_socket *nls;
static uint16_t family;
static uint32_t seq;
uint32_t nl_group;
static char nlbuf[65536];

static struct nlmsghdr *nl_start(uint16_t type, uint8_t cmd, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(nlbuf);
	struct genlmsghdr *genl;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = ++seq;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = cmd;
	genl->version = 1;
	return nlh;
}

/* The family has one group. */
static int nl_family_cb(const struct nlmsghdr *nlh, void *data)
{
	const struct nlattr *attr, *one, *part;

	(void)data;
	mnl_attr_for_each(attr, nlh, sizeof(struct genlmsghdr)) {
		if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID)
			family = mnl_attr_get_u16(attr);
		if (mnl_attr_get_type(attr) != CTRL_ATTR_MCAST_GROUPS)
			continue;
		mnl_attr_for_each_nested(one, attr)
			mnl_attr_for_each_nested(part, one)
				if (mnl_attr_get_type(part) == CTRL_ATTR_MCAST_GRP_ID)
					nl_group = mnl_attr_get_u32(part);
	}
	return MNL_CB_OK;
}

static int nl_count_cb(const struct nlmsghdr *nlh, void *data)
{
	(void)nlh;
	++*(unsigned int *)data;
	return MNL_CB_OK;
}

/* Send it and hear the answer: 0 or -errno. */
static int nl_ask(struct nlmsghdr *nlh, mnl_cb_t cb, void *data)
{
	char in[32768];
	ssize_t len;
	int rc;

	if (mnl_socket_sendto(nls, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	do {
		len = mnl_socket_recvfrom(nls, in, sizeof(in));
		if (len < 0)
			return -errno;
		errno = 0;
		rc = mnl_cb_run(in, len, seq, mnl_socket_get_portid(nls), cb, data);
		if (rc < 0 && errno == ESRCH)
			rc = MNL_CB_OK;	/* of an earlier request that was given up */
	} while (rc > 0);
	return rc < 0 ? -errno : 0;
}

void nl_open(void)
{
	struct nlmsghdr *nlh;

	nls = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (!nls || mnl_socket_bind(nls, 0, MNL_SOCKET_AUTOPID) < 0)
		die_errno("netlink");
	nlh = nl_start(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_ACK);
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, RDMA_AGG_FAMILY_NAME);
	if (nl_ask(nlh, nl_family_cb, NULL) || !family || !nl_group)
		die("no netlink family %s", RDMA_AGG_FAMILY_NAME);
}

struct nlmsghdr *nl_request(uint8_t cmd, const char *dev)
{
	struct nlmsghdr *nlh = nl_start(family, cmd, NLM_F_ACK);

	mnl_attr_put_strz(nlh, RDMA_AGG_A_DEV_DEV_NAME, dev);
	return nlh;
}

int nl_do(struct nlmsghdr *nlh)
{
	unsigned int n = 0;

	return nl_ask(nlh, nl_count_cb, &n);
}

int nl_dev_new(void)
{
	struct nlmsghdr *nlh = nl_request(RDMA_AGG_CMD_DEV_NEW, "agg9");

	mnl_attr_put_strz(nlh, RDMA_AGG_A_DEV_IFNAME, ident);
	return nl_do(nlh);
}

int nl_dev_del(void)
{
	return nl_do(nl_request(RDMA_AGG_CMD_DEV_DEL, "agg9"));
}

static int nl_lane(uint8_t cmd)
{
	struct nlmsghdr *nlh = nl_request(cmd, devname);

	mnl_attr_put_strz(nlh, RDMA_AGG_A_LANE_IBDEV_NAME, spare);
	return nl_do(nlh);
}

int nl_lane_new(void)
{
	return nl_lane(RDMA_AGG_CMD_LANE_NEW);
}

int nl_lane_del(void)
{
	return nl_lane(RDMA_AGG_CMD_LANE_DEL);
}

int nl_psk(const char *key)
{
	struct nlmsghdr *nlh = nl_request(RDMA_AGG_CMD_PARAM_SET, devname);

	mnl_attr_put(nlh, RDMA_AGG_A_PARAM_PSK, strlen(key), key);
	return nl_do(nlh);
}

/* All objects of all kinds; @want of them must be there. */
int nl_dump(uint8_t cmd, unsigned int want)
{
	unsigned int n = 0;
	int err;

	err = nl_ask(nl_start(family, cmd, NLM_F_DUMP), nl_count_cb, &n);
	if (!err && n < want)
		die("dump %u has %u objects", cmd, n);
	return err;
}
