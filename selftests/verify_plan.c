// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The list of operations of one flow of verify; see verify.h. */
#include <string.h>

#include "common.h"
#include "verify.h"

const char *const kind_name[] = {
	[K_SEND] = "SEND", [K_SEND_IMM] = "SEND_WITH_IMM",
	[K_WRITE] = "WRITE", [K_WRITE_IMM] = "WRITE_WITH_IMM",
	[K_READ] = "READ", [K_CAS] = "CMP_AND_SWP", [K_FADD] = "FETCH_AND_ADD",
	[K_CREDIT] = "WRITE of a credit", [K_FLUSH] = "WRITE of nothing",
};

void gen_init(struct gen *g, const struct cfg *cfg, uint32_t qp, uint32_t dir)
{
	memset(g, 0, sizeof(*g));
	g->cfg = cfg;
	g->qp = qp;
	g->dir = dir;
	g->rng = mix64(cfg->seed ^ ((uint64_t)dir << 32 | (qp + 1)));
}

static uint32_t pick_len(struct gen *g)
{
	uint32_t i = rnd(&g->rng, g->cfg->nsizes);
	uint32_t lo = g->cfg->size[i].lo, span = g->cfg->size[i].hi - lo;
	uint32_t bits = 0;

	if (!span)
		return lo;
	/* All magnitudes alike, and the upper end itself now and then. */
	if (!rnd(&g->rng, 8))
		return lo + span;
	while (span >> bits)
		bits++;
	return lo + (rnd(&g->rng, (uint64_t)span + 1) >> rnd(&g->rng, bits + 1));
}

static uint8_t pick_kind(struct gen *g, bool marker)
{
	uint32_t sum = 0, r, k;

	for (k = 0; k < K_NR; k++)
		if (!marker || consumes_recv(k))
			sum += g->cfg->weight[k];
	if (!sum)
		return K_SEND;
	r = rnd(&g->rng, sum);
	for (k = 0; k < K_NR; k++) {
		if (marker && !consumes_recv(k))
			continue;
		if (r < g->cfg->weight[k])
			break;
		r -= g->cfg->weight[k];
	}
	return k;
}

static bool marker_is_extra(const struct cfg *c)
{
	return !c->weight[K_SEND] && !c->weight[K_SEND_IMM] && !c->weight[K_WRITE_IMM];
}

/* A READ of the target's fixed source, or of what this batch wrote before. */
static void plan_read(struct gen *g, struct batch *b, struct op *op)
{
	const struct op *w;

	if (b->n && rnd(&g->rng, 2)) {
		w = &b->op[rnd(&g->rng, b->n)];
		if ((w->kind == K_WRITE || w->kind == K_WRITE_IMM) && w->len) {
			uint32_t skip = rnd(&g->rng, w->len);

			b->read_back = true;
			op->len = umin(op->len, w->len - skip);
			op->key = w->key;
			op->koff = w->koff + skip;
			op->roff = w->roff + skip;
			return;
		}
	}
	op->key = source_key(g->cfg, !g->dir);
	op->koff = rnd(&g->rng, source_len(g->cfg) - op->len + 1);
	op->roff = off_source(g->cfg) + op->koff;
}

void gen_batch(struct gen *g, struct batch *b)
{
	const struct cfg *c = g->cfg;
	uint32_t n = 1 + rnd(&g->rng, c->max_batch), i;
	uint64_t used = 0;

	memset(b, 0, offsetof(struct batch, op));
	b->no = g->batch++;
	for (i = 0; i < n; i++) {
		struct op *op = &b->op[i], *prev = i ? op - 1 : NULL;
		bool marker = i == n - 1;

		memset(op, 0, sizeof(*op));
		op->marker = marker;
		op->seq = g->seq++;
		op->kind = pick_kind(g, marker);
		op->len = marker && marker_is_extra(c) ? rnd(&g->rng, 9) : pick_len(g);
		op->key = mix64(c->seed + g->dir * 0x1234567ULL + g->qp * 0x100000001ULL);
		op->key ^= op->seq << 8;
		op->imm = mix64(op->key) >> 32;
		if (prev && prev->feeds) {
			op->kind = rnd(&g->rng, 2) ? K_SEND : K_SEND_IMM;
			op->fed = true;
			op->len = prev->len;
			op->key = prev->key;
			op->koff = prev->koff;
		}
		switch (op->kind) {
		case K_WRITE:
		case K_WRITE_IMM:
			used += rnd(&g->rng, 64);
			if (used + op->len > c->area)
				op->len = used < c->area ? c->area - used : 0;
			op->roff = off_area(c, g->qp, b->no) + umin(used, c->area);
			used += op->len;
			break;
		case K_READ:
			plan_read(g, b, op);
			/* Two more follow: the SEND, and the marker if it is not that. */
			op->feeds = c->fence && !rnd(&g->rng, 3);
			break;
		case K_CAS:
			op->len = 8;
			op->roff = off_cas(c, g->qp);
			op->expect = g->cas;
			op->swap_add = rnd64(&g->rng);
			op->cmp = g->cas;
			if (!rnd(&g->rng, 4))
				op->cmp++;
			else
				g->cas = op->swap_add;
			break;
		case K_FADD:
			op->len = 8;
			op->shared = !rnd(&g->rng, 4);
			op->swap_add = rnd64(&g->rng);
			if (op->shared) {
				op->swap_add &= 0xffffff;
				op->roff = off_shared(c);
				g->shared += op->swap_add;
			} else {
				op->roff = off_fadd(c, g->qp);
				op->expect = g->fadd;
				g->fadd += op->swap_add;
			}
			break;
		}
		/*
		 * The marker makes the target overwrite what was written, and
		 * a READ that must be repeated would find that: as an
		 * application has to, wait for it.
		 */
		op->fenced = op->fed || (marker && b->read_back);
		b->n = i + 1;
	}
	b->used = umin(used, c->area);
}
