/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One end of a verify run: its objects and what they know (verify.c). */
#ifndef SELFTESTS_VERIFY_END_H
#define SELFTESTS_VERIFY_END_H

#include <signal.h>

#include "common.h"
#include "verify.h"

typedef unsigned long long ull;

#define CFG_MAGIC	0x76650003
#define PLANNED		8	/* batches the target has planned ahead */
#define QP_HASH		1024

/* Memory given out and taken back in order. */
struct arena {
	uint8_t *base;
	uint64_t size, head, tail;
};

/* A message cut into pieces, with gaps that must stay as they are. */
struct pieces {
	uint8_t *buf;
	uint32_t room;		/* bytes from @buf on */
	uint32_t n;
	uint8_t *at[MAX_SGE];
	uint32_t len[MAX_SGE];
};

struct sent {
	struct op op;
	struct pieces p;
	uint64_t wr_id;
	uint64_t arena_end;
	uint32_t key;		/* local key */
	bool signaled, inlined;
};

struct posted {
	struct op op;
	struct pieces p;
	uint64_t batch;
	uint64_t arena_end;
};

struct end;

struct vqp {
	struct end *e;
	uint32_t id;
	struct ibv_qp *qp;
	struct ibv_cq *scq, *rcq;
	uint64_t rng;			/* choices the peer need not know */
	uint64_t tag;			/* upper half of wr_ids */

	/* requester */
	struct gen g;
	struct batch cur;
	uint32_t next;
	bool open, stopped, told;
	uint64_t started, credit;
	struct sent *sent;		/* ring of sq_depth */
	uint64_t sent_head, sent_tail;
	struct arena tx;
	uint32_t unsignaled;
	uint64_t unsignaled_bytes;
	uint32_t max_inline;
	/* of the post_send under construction */
	struct ibv_send_wr wr[64];
	struct ibv_sge sge[64][MAX_SGE];
	uint32_t nwr;

	/* target */
	struct gen tg;
	struct batch plan[PLANNED];
	uint64_t planned;		/* batches */
	uint64_t post_batch;
	uint32_t post_op;
	uint64_t verified;		/* batches */
	uint64_t granted;
	uint64_t total;			/* batches there will be */
	uint64_t high[4 + 1];		/* bytes used of each area by its last batch */
	struct posted *posted;		/* ring of rq_depth */
	uint64_t posted_head, posted_tail;
	struct arena rx;
};

struct end {
	struct cfg cfg;
	struct dev dev;
	uint32_t dir;			/* of what this end sends: 0 = from the client */
	int ctl;
	struct ibv_pd *pd;
	struct ibv_comp_channel *chan;
	struct ibv_cq *cq[2 * MAX_QPS];
	bool armed[2 * MAX_QPS];
	uint64_t acks[2 * MAX_QPS];
	uint32_t ncq;
	uint8_t *mem;
	uint64_t mem_len;
	uint8_t *shown;
	struct ibv_mr *mr[16], *shown_mr[16];
	uint64_t peer_base;
	uint32_t peer_rkey[16];
	struct vqp *qp;
	struct vqp *hash[QP_HASH];
	bool peer_ends;			/* -T: it starts no more */
	bool done_sent, done_got;
	uint64_t start, last_progress;
	uint64_t ops, bytes, rops, rbytes;
};

/* Control messages between the ends. */
enum { M_CREDIT = 1, M_TOTAL, M_DONE, M_ERROR };

struct msg {
	uint32_t type, qp;
	uint64_t val;
};

extern volatile sig_atomic_t told_to_end;

void msg_send(struct end *e, uint32_t type, uint32_t qp, uint64_t val);

/* verify_send.c: pieces of memory, and what this end sends */
uint8_t *arena_get(struct arena *a, uint64_t len);
uint32_t need_of(const struct cfg *c, uint32_t len);
void pieces_cut(struct vqp *q, struct pieces *p, uint8_t *buf, uint32_t room, uint32_t len,
		bool atomic);
void pieces_check(const struct vqp *q, bool as_target, const struct op *op, const struct pieces *p,
		  uint32_t len, uint64_t key, uint64_t off);
void check_gap(const struct vqp *q, bool as_target, const struct op *op, const uint8_t *from,
	       const uint8_t *to);
const char *flow(const struct vqp *q, bool as_target);
void __noreturn op_die(const struct vqp *q, bool as_target, const struct op *op, const char *what);
void __noreturn content_die(const struct vqp *q, bool as_target, const struct op *op,
			    const char *where, uint64_t at, unsigned int got, unsigned int want);
bool queue_op(struct vqp *q, const struct op *op);
void flush_chain(struct vqp *q);
bool requester_step(struct vqp *q);
void on_sent(struct vqp *q, const struct ibv_wc *wc);

/* verify_recv.c: what the other end sends */
bool post_recvs(struct vqp *q);
bool grant(struct vqp *q);
void on_received(struct vqp *q, const struct ibv_wc *wc);

#endif
