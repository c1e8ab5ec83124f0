/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the files of failnth share; see failnth.c. */
#ifndef SELFTESTS_FAILNTH_H
#define SELFTESTS_FAILNTH_H

#include "../include/uapi/rdma/rdma_agg.h"
#include "common.h"

/* The agg device, a GID of it, a lane of it to take away, and a netdev for another. */
extern const char *devname, *gid, *spare, *ident;

void must(const char *what, int err);
void nothing(void);

/* ------------------------------------------------------------- netlink */

struct mnl_socket;
extern uint32_t nl_group;

/* All return 0 or -errno. */
struct nlmsghdr *nl_request(uint8_t cmd, const char *dev);
int nl_do(struct nlmsghdr *nlh);
int nl_dump(uint8_t cmd, unsigned int want);
void nl_open(void);
int nl_dev_new(void);
int nl_dev_del(void);
int nl_lane_new(void);
int nl_lane_del(void);
int nl_psk(const char *key);

/* ---------------------------------------------------------- operations */

/*
 * @up, @down: around all of it. @prepare, @undo: around each time. @run: the
 * operation; 0 or -errno. @none: it may well allocate nothing. @costly: it is
 * repeated after every eighth failure only. @errs: errnos other than ENOMEM and EFAULT
 * that it may fail with.
 */
struct op {
	const char *name;
	void (*up)(void);
	void (*prepare)(void);
	int (*run)(void);
	void (*undo)(void);
	void (*down)(void);
	bool none, costly;
	int errs[8];
};

extern const struct op ops[];
extern const unsigned int nr_ops;

/* Memory for MRs, and things that are used by all operations. */
void ops_init(void);

#endif
