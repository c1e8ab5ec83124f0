/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the verbs helper programs of the selftests share: a device and its GID,
 * QPs on their way to RTS, a TCP line between the two ends, random numbers
 * that both ends can repeat, and clear failures.
 */
#ifndef SELFTESTS_COMMON_H
#define SELFTESTS_COMMON_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <infiniband/verbs.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static inline uint64_t umin(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t umax(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ------------------------------------------------------------ failing */

extern const char *progname;

/* Called once with the message before the program ends by die(). */
extern void (*die_hook)(const char *text);

/* As in the kernel. */
#define __noreturn	__attribute__((noreturn))
#define __printf(a, b)	__attribute__((format(printf, a, b)))

void __noreturn __printf(1, 2) die(const char *fmt, ...);
void __noreturn __printf(1, 2) die_errno(const char *fmt, ...);

/* ------------------------------------------------------------- random */

static inline uint64_t mix64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static inline uint64_t rnd64(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ULL;
	return mix64(*state);
}

/* 0 <= result < n; n > 0 */
static inline uint64_t rnd(uint64_t *state, uint64_t n)
{
	return rnd64(state) % n;
}

/* ------------------------------------------------------------- pattern */

/*
 * Byte @off of the pattern @key.  Fill and check work for any piece of it, so
 * a message may be cut into any elements.
 */
void pattern_fill(void *buf, uint64_t key, uint64_t off, size_t len);
/* The first wrong byte's index, or -1. */
int64_t pattern_check(const void *buf, uint64_t key, uint64_t off, size_t len);
uint8_t pattern_byte(uint64_t key, uint64_t off);
/* The first byte that is not @value, or -1. */
int64_t fill_check(const void *buf, uint8_t value, size_t len);

/* --------------------------------------------------------------- time */

uint64_t now_us(void);

/* ------------------------------------------------------------- device */

struct dev {
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	const char *name;
	int gid_index;
	union ibv_gid gid;
};

/*
 * @gid: an index, an IP address, or NULL for the first RoCE v2 GID of an IPv4
 * address (of any address when there is none).
 */
void dev_open(struct dev *dev, const char *name, const char *gid);
void dev_close(struct dev *dev);

/* ---------------------------------------------------------------- QPs */

struct qp_conn {
	uint32_t qpn;
	uint32_t psn;
	union ibv_gid gid;
};

struct qp_param {
	int access;
	enum ibv_mtu mtu;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t rd_atomic;
	uint8_t traffic_class;
};

#define QP_PARAM_DEFAULT { \
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, \
	.mtu = 0, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7, \
	.min_rnr_timer = 12, .rd_atomic = 4, \
}

/* 0 or an errno value */
int qp_init(struct dev *dev, struct ibv_qp *qp, const struct qp_param *p);
int qp_rtr(struct dev *dev, struct ibv_qp *qp, const struct qp_param *p, const struct qp_conn *peer);
int qp_rts(struct ibv_qp *qp, const struct qp_param *p, uint32_t psn);
int qp_to(struct ibv_qp *qp, enum ibv_qp_state state);
/* Both ends here: INIT to RTS; dies on failure. */
void qp_connect_pair(struct dev *dev, struct ibv_qp *a, struct ibv_qp *b, const struct qp_param *p);
/* ... in each of two devices */
void qp_connect_pair2(struct dev *da, struct ibv_qp *a, struct dev *db, struct ibv_qp *b,
		      const struct qp_param *p);

/*
 * One completion of the CQ within @ms milliseconds, by polling without any
 * system call on the device; false: none came.
 */
bool cq_wait(struct ibv_cq *cq, struct ibv_wc *wc, unsigned int ms);

const char *wc_opcode_str(enum ibv_wc_opcode op);

/* ---------------------------------------------------------------- TCP */

/* Waits for one client; the listening socket goes. */
int tcp_accept(int port, unsigned int timeout_s);
int tcp_connect(const char *host, int port, unsigned int timeout_s);
/* Die when the other end goes. */
void fd_write(int fd, const void *buf, size_t len);
void fd_read(int fd, void *buf, size_t len);

/* -------------------------------------------------------------- words */

/* "8m", "64k", "123" */
uint64_t parse_size(const char *s);

#endif
