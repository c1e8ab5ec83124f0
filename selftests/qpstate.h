/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frame of qpstate: cases print lines "case: what: outcome" that are the same
 * on every device that does it right, and can be compared by diff.
 */
#ifndef SELFTESTS_QPSTATE_H
#define SELFTESTS_QPSTATE_H

#include "common.h"

#define BUF_LEN		(20u << 20)
#define HALF		(BUF_LEN / 2)
#define DEPTH		16

extern struct dev dev;
extern struct ibv_pd *pd;
extern uint8_t *buf;		/* a's memory, and b's from HALF on */
extern struct ibv_mr *mr;	/* all of it, every access */
extern unsigned int patience;	/* ms that a completion may take */

/* One end of a pair. */
struct side {
	struct ibv_qp *qp;
	struct ibv_cq *scq, *rcq;
	uint8_t *mem;
};

struct pair {
	struct side a, b;
	struct qp_param param;
};

void say(const char *what, const char *fmt, ...) __printf(2, 3);
const char *err_name(int err);
const char *state_name(int state);
const char *status_name(int status);

struct qp_param *default_param(struct qp_param *p);
/* Two QPs in RESET; @cap NULL: DEPTH requests and receives, 2 elements, 64 bytes inline */
void pair_make(struct pair *p, const struct ibv_qp_cap *cap);
void pair_connect(struct pair *p);
void pair_new(struct pair *p);		/* both */
void pair_free(struct pair *p);
/* One step of a's end towards @state with all attributes; 0 or an errno value. */
int side_to(struct pair *p, struct side *s, enum ibv_qp_state state);
/* "RTS", or what query_qp failed with */
const char *side_state(struct side *s);
/* Waits until the QP is in a state; says what it was at the end. */
const char *await_state(struct side *s, enum ibv_qp_state state);

struct req {
	enum ibv_wr_opcode op;
	uint64_t id;
	uint32_t off, len;	/* in the sender's memory */
	uint32_t roff;		/* in the other's memory */
	int flags;		/* besides SIGNALED; -1: none at all */
	uint32_t lkey, rkey;	/* 0: those of mr */
	uint64_t cmp_add, swap;
	uint64_t raddr;		/* 0: by roff */
	uint64_t addr;		/* 0: by off */
};

/* 0 or an errno value */
int post(struct pair *p, struct side *s, const struct req *r);
int post_recv(struct side *s, uint64_t id, uint32_t off, uint32_t len, uint32_t lkey);
/* Waits for @n completions and says them: "1=ok 2=FLUSH"; "+" if one more came. */
const char *completions(struct ibv_cq *cq, unsigned int n);
/* One completion's status, "none" when none came. */
const char *completion(struct ibv_cq *cq, struct ibv_wc *wc);
/* Async events that came within @ms of silence, as text. */
const char *events(unsigned int ms);
/* A message each way on a connected pair; "ok" or what went wrong. */
const char *still_works(struct pair *p);

/* qpstate_err.c */
void case_errors(void);
void case_rnr(void);
void case_sizes(void);
void case_dereg(void);
/* qpstate_cq.c */
void case_cq(void);
void case_limits(void);

#endif
