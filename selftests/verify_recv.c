// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* verify: the target of a flow, which knows what must come; see verify.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "verify_end.h"

/* ----------------------------------------------------------------- target */

static struct batch *plan_of(struct vqp *q, uint64_t no)
{
	while (q->planned <= no)
		gen_batch(&q->tg, &q->plan[q->planned++ % PLANNED]);
	return &q->plan[no % PLANNED];
}

bool post_recvs(struct vqp *q)
{
	struct end *e = q->e;
	const struct cfg *c = &e->cfg;
	bool progress = false;

	if (!c->bidir && e->dir == 0)
		return false;
	while (q->posted_head - q->posted_tail < c->rq_depth &&
	       q->post_batch < q->verified + PLANNED - 1) {
		struct batch *b = plan_of(q, q->post_batch);
		struct posted *r = &q->posted[q->posted_head % c->rq_depth];
		const struct op *op = &b->op[q->post_op];
		struct ibv_sge sge[MAX_SGE];
		struct ibv_recv_wr wr = { .sg_list = sge }, *bad;
		struct ibv_mr *mr = e->mr[rnd(&q->rng, c->mrs)];
		uint32_t len, need, i;
		uint8_t *buf;
		int err;

		if ((c->batches && q->post_batch >= c->batches) || q->post_batch >= q->total)
			break;
		if (consumes_recv(op->kind)) {
			/* Exactly enough, or more. */
			len = op->kind == K_WRITE_IMM ? rnd(&q->rng, 65) : op->len;
			if (op->len < c->max_len && rnd(&q->rng, 2))
				len += rnd(&q->rng, umin(c->max_len - op->len, 256) + 1);
			need = need_of(c, len);
			buf = arena_get(&q->rx, need);
			if (!buf)
				break;
			memset(buf, POISON, need);
			r->op = *op;
			r->batch = b->no;
			r->arena_end = q->rx.head;
			pieces_cut(q, &r->p, buf, need, len, false);
			for (i = 0; i < r->p.n; i++) {
				sge[i].addr = (uintptr_t)r->p.at[i];
				sge[i].length = r->p.len[i];
				sge[i].lkey = mr->lkey;
			}
			wr.num_sge = r->p.n;
			wr.wr_id = ~(q->tag | (uint32_t)q->posted_head);
			err = ibv_post_recv(q->qp, &wr, &bad);
			if (err)
				die("%s: QP %u: post_recv with %llu posted: %s", e->dev.name, q->id,
				    (ull)(q->posted_head - q->posted_tail),
				    strerror(err));
			q->posted_head++;
			progress = true;
		}
		if (++q->post_op == b->n) {
			q->post_op = 0;
			q->post_batch++;
		}
	}
	return progress;
}

static void check_written(struct vqp *q, const struct op *op)
{
	const uint8_t *at = q->e->shown + op->roff;
	int64_t bad = pattern_check(at, op->key, op->koff, op->len);

	if (bad >= 0)
		content_die(q, true, op, "written memory", bad, at[bad],
			    pattern_byte(op->key, op->koff + bad));
}

/* All of the area of a batch; then it is poison again. */
static void check_area(struct vqp *q, const struct batch *b)
{
	const struct cfg *c = &q->e->cfg;
	uint8_t *area = q->e->shown + off_area(c, q->id, b->no);
	uint64_t *high = &q->high[b->no % areas(c)];
	uint64_t end = umin(umax(b->used, *high) + 256, c->area);
	const uint8_t *pos = area;
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		const struct op *op = &b->op[i];

		if (op->kind != K_WRITE && op->kind != K_WRITE_IMM)
			continue;
		check_written(q, op);
		check_gap(q, true, op, pos, q->e->shown + op->roff);
		pos = q->e->shown + op->roff + op->len;
	}
	check_gap(q, true, &b->op[b->n - 1], pos, area + end);
	memset(area, POISON, b->used);
	*high = b->used;
	/* The area that the next grant frees was poisoned one batch ago. */
	if (b->no) {
		area = q->e->shown + off_area(c, q->id, b->no - 1);
		check_gap(q, true, &b->op[b->n - 1], area,
			  area + q->high[(b->no - 1) % areas(c)]);
	}
}

bool grant(struct vqp *q)
{
	struct op op = { .kind = K_CREDIT, .len = 8, .roff = off_credit(q->id) };

	if (q->granted == q->verified)
		return false;
	/* Nothing may come between a READ and the SEND out of its buffer. */
	if (q->open && q->next && q->cur.op[q->next - 1].feeds)
		return false;
	if (q->e->cfg.event) {
		msg_send(q->e, M_CREDIT, q->id, q->verified);
	} else {
		op.expect = q->verified;
		if (!queue_op(q, &op))
			return false;
		flush_chain(q);
	}
	q->granted = q->verified;
	return true;
}

void on_received(struct vqp *q, const struct ibv_wc *wc)
{
	struct posted *r = &q->posted[q->posted_tail % q->e->cfg.rq_depth];
	const struct op *op = &r->op;
	uint64_t id = ~(q->tag | (uint32_t)q->posted_tail);
	bool imm = op->kind != K_SEND;
	struct batch *b;
	char text[160];

	if (q->posted_tail == q->posted_head)
		die("%s: QP %u: a receive completion, wr_id %llx, but none is posted",
		    q->e->dev.name, q->id, (ull)wc->wr_id);
	if (wc->status != IBV_WC_SUCCESS) {
		snprintf(text, sizeof(text), "its receive ended with %s (%d), vendor_err 0x%x",
			 ibv_wc_status_str(wc->status), wc->status, wc->vendor_err);
		op_die(q, true, op, text);
	}
	if (wc->wr_id != id) {
		snprintf(text, sizeof(text), "its receive has wr_id %llx, wanted %llx",
			 (ull)wc->wr_id, (ull)id);
		op_die(q, true, op, text);
	}
	if (wc->opcode != (op->kind == K_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV)) {
		snprintf(text, sizeof(text), "its receive says %s", wc_opcode_str(wc->opcode));
		op_die(q, true, op, text);
	}
	if (wc->byte_len != op->len) {
		snprintf(text, sizeof(text), "its receive says %u bytes", wc->byte_len);
		op_die(q, true, op, text);
	}
	if (!!(wc->wc_flags & IBV_WC_WITH_IMM) != imm || (imm && ntohl(wc->imm_data) != op->imm)) {
		snprintf(text, sizeof(text), "its receive has flags 0x%x and immediate data %x, wanted %x",
			 wc->wc_flags, ntohl(wc->imm_data), op->imm);
		op_die(q, true, op, text);
	}
	if (op->kind == K_WRITE_IMM) {
		check_written(q, op);
		check_gap(q, true, op, r->p.buf, r->p.buf + r->p.room);
	} else {
		pieces_check(q, true, op, &r->p, op->len, op->key, op->koff);
	}
	q->rx.tail = r->arena_end;
	q->posted_tail++;
	q->e->rops++;
	q->e->rbytes += op->len;
	if (!op->marker)
		return;
	if (r->batch != q->verified)
		op_die(q, true, op, "it ends another batch than the next");
	b = plan_of(q, q->verified);
	check_area(q, b);
	q->verified++;
}
