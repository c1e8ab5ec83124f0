/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The plan of a verify run: which operations one end sends to the other.
 *
 * Each QP carries one or two flows (client to server, and back).  A flow is an
 * endless list of batches that both ends work out alike from the seed; so the
 * target knows what each receive must bring and what each byte of its memory
 * must be.  A batch ends with a marker, an operation that consumes a receive:
 * by RC's ordering everything of the batch is in memory then.
 */
#ifndef SELFTESTS_VERIFY_H
#define SELFTESTS_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

enum kind {
	K_SEND,
	K_SEND_IMM,
	K_WRITE,
	K_WRITE_IMM,
	K_READ,
	K_CAS,
	K_FADD,
	K_NR,		/* those above are chosen by weight */
	K_CREDIT = K_NR,
	K_FLUSH,
};

extern const char *const kind_name[];

#define MAX_QPS		64
#define MAX_BATCH	32
#define MAX_SIZES	16
#define MAX_SGE		16
#define POISON		0xa5

/* Sent by the client: both ends must agree on all of it. */
struct cfg {
	uint32_t magic;
	uint32_t qps;
	uint64_t seed;
	uint32_t batches;	/* per flow; 0: until the time is over */
	uint32_t seconds;
	uint32_t bidir;
	uint32_t event;
	uint32_t weight[K_NR];
	uint32_t nsizes;
	struct {
		uint32_t lo, hi;
	} size[MAX_SIZES];
	uint32_t max_len;	/* of one operation */
	uint32_t max_batch;
	uint32_t window;	/* batches under way */
	uint32_t max_sge;
	uint32_t zero_sge;	/* also elements of no length */
	uint32_t max_inline;
	uint32_t signal_every;
	uint32_t sq_depth, rq_depth;
	uint32_t chain;		/* most requests in one post_send */
	uint32_t fence;
	uint32_t rd_atomic;
	uint32_t timeout, retry;
	uint32_t mtu;		/* bytes; 0: of the port */
	uint32_t stall;		/* seconds without progress that are a failure */
	uint32_t mrs;
	uint32_t cqs;
	uint32_t one_cq;	/* for sends and receives */
	uint64_t area;		/* bytes of a QP's memory for one batch */
};

struct op {
	uint8_t kind;
	bool marker;
	bool shared;		/* FADD: on the counter of all QPs */
	bool feeds;		/* READ: the next SEND sends what this brought */
	bool fed;		/* SEND: out of the buffer of the READ before */
	bool fenced;		/* it waits for the READs before it */
	uint32_t len;
	uint32_t imm;
	uint64_t key, koff;	/* content: this pattern from this byte on */
	uint64_t roff;		/* in the target's memory */
	uint64_t cmp, swap_add;
	uint64_t expect;	/* CAS, own FADD: the value found */
	uint64_t seq;
};

struct batch {
	uint64_t no;
	uint32_t n;
	uint64_t used;		/* bytes of the area */
	bool read_back;		/* a READ of what it wrote is in it */
	struct op op[MAX_BATCH + 1];
};

struct gen {
	const struct cfg *cfg;
	uint32_t qp, dir;
	uint64_t rng;
	uint64_t seq, batch;
	uint64_t cas, fadd;	/* values of the target's cells after all so far */
	uint64_t shared;	/* what this flow added to the shared counter */
};

void gen_init(struct gen *g, const struct cfg *cfg, uint32_t qp, uint32_t dir);
void gen_batch(struct gen *g, struct batch *b);

static inline bool consumes_recv(uint8_t kind)
{
	return kind == K_SEND || kind == K_SEND_IMM || kind == K_WRITE_IMM;
}

/*
 * The memory one end shows to the other.  A batch writes to area number
 * (batch mod window + 1): so an area lies unused for one batch after it was
 * verified and poisoned, and a late write shows.
 */
static inline uint32_t areas(const struct cfg *c)
{
	return c->window + 1;
}

static inline uint64_t off_credit(uint32_t qp)
{
	return qp * 8;
}

static inline uint64_t off_shared(const struct cfg *c)
{
	return c->qps * 8;
}

static inline uint64_t off_cas(const struct cfg *c, uint32_t qp)
{
	return off_shared(c) + 8 + qp * 16;
}

static inline uint64_t off_fadd(const struct cfg *c, uint32_t qp)
{
	return off_cas(c, qp) + 8;
}

static inline uint64_t off_source(const struct cfg *c)
{
	return (off_cas(c, c->qps) + 63) & ~63ULL;
}

static inline uint64_t source_len(const struct cfg *c)
{
	return (c->max_len + 4096 + 63) & ~63ULL;
}

static inline uint64_t source_key(const struct cfg *c, uint32_t dir)
{
	return c->seed * 2 + dir;
}

static inline uint64_t off_area(const struct cfg *c, uint32_t qp, uint64_t batch)
{
	return off_source(c) + source_len(c) + (qp * areas(c) + batch % areas(c)) * c->area;
}

static inline uint64_t shown_len(const struct cfg *c)
{
	return off_area(c, c->qps, 0);
}

#endif
