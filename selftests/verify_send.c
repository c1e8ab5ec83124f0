// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* verify: memory of messages, complaints, and the requester; see verify.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "verify_end.h"

uint8_t *arena_get(struct arena *a, uint64_t len)
{
	uint64_t pos, skip = 0;

	if (a->head == a->tail) {
		a->head = 0;
		a->tail = 0;
	}
	pos = a->head % a->size;
	if (pos + len > a->size)
		skip = a->size - pos;
	if (a->head + skip + len - a->tail > a->size)
		return NULL;
	pos = (a->head + skip) % a->size;
	a->head += skip + len;
	return a->base + pos;
}

/* ------------------------------------------------------------- complaints */

const char *flow(const struct vqp *q, bool as_target)
{
	uint32_t dir = q->e->dir ^ as_target;

	return dir ? "server>client" : "client>server";
}

void __noreturn op_die(const struct vqp *q, bool as_target, const struct op *op, const char *what)
{
	die("%s: QP %u (0x%x) %s: operation %llu, %s of %u bytes: %s", q->e->dev.name, q->id,
	    q->qp->qp_num, flow(q, as_target), (ull)op->seq, kind_name[op->kind],
	    op->len, what);
}

void __noreturn content_die(const struct vqp *q, bool as_target, const struct op *op,
				  const char *where, uint64_t at, unsigned int got,
				  unsigned int want)
{
	char text[160];

	snprintf(text, sizeof(text), "%s: byte %llu is %02x, wanted %02x", where,
		 (ull)at, got, want);
	op_die(q, as_target, op, text);
}

/* ----------------------------------------------------------------- pieces */

uint32_t need_of(const struct cfg *c, uint32_t len)
{
	/* 8 for the alignment of an atomic, 16 per gap */
	return len + 8 + 16 * (c->max_sge + 1);
}

void pieces_cut(struct vqp *q, struct pieces *p, uint8_t *buf, uint32_t room,
		       uint32_t len, bool atomic)
{
	const struct cfg *c = &q->e->cfg;
	uint32_t n, i, left = len;
	uint8_t *at = buf;

	p->buf = buf;
	p->room = room;
	if (atomic) {
		p->n = 1;
		p->at[0] = (uint8_t *)(((uintptr_t)buf + 7) & ~7ULL);
		p->len[0] = 8;
		return;
	}
	n = 1 + rnd(&q->rng, c->max_sge);
	if (!len)
		n = rnd(&q->rng, 2);
	p->n = 0;
	for (i = 0; i < n; i++) {
		uint32_t l = left;

		if (i < n - 1) {
			/* some tiny, some not */
			l = rnd(&q->rng, rnd(&q->rng, 2) ? umin(left, 16) + 1ULL : left + 1ULL);
			if (!l && !c->zero_sge)
				continue;
		} else if (!l && !c->zero_sge && len) {
			continue;
		}
		at += rnd(&q->rng, 16);
		p->at[p->n] = at;
		p->len[p->n++] = l;
		at += l;
		left -= l;
	}
}

static void pieces_fill(const struct pieces *p, uint64_t key, uint64_t off)
{
	uint32_t i;

	for (i = 0; i < p->n; off += p->len[i++])
		pattern_fill(p->at[i], key, off, p->len[i]);
}

void check_gap(const struct vqp *q, bool as_target, const struct op *op, const uint8_t *from,
		      const uint8_t *to)
{
	int64_t bad = fill_check(from, POISON, to - from);

	if (bad >= 0)
		op_die(q, as_target, op, "memory beside the buffer was written");
}

/* What arrived in @p, and that nothing else did. */
void pieces_check(const struct vqp *q, bool as_target, const struct op *op,
			 const struct pieces *p, uint32_t len, uint64_t key, uint64_t off)
{
	const uint8_t *pos = p->buf;
	uint64_t done = 0;
	uint32_t i;

	for (i = 0; i < p->n; i++) {
		uint32_t l = umin(p->len[i], len);
		int64_t bad = pattern_check(p->at[i], key, off + done, l);

		if (bad >= 0)
			content_die(q, as_target, op, "content", done + bad, p->at[i][bad],
				    pattern_byte(key, off + done + bad));
		check_gap(q, as_target, op, pos, p->at[i]);
		pos = p->at[i] + l;
		len -= l;
		done += l;
	}
	check_gap(q, as_target, op, pos, p->buf + p->room);
}

/* -------------------------------------------------------------- requester */

void flush_chain(struct vqp *q)
{
	struct ibv_send_wr *bad = NULL;
	uint32_t i;
	int err;

	if (!q->nwr)
		return;
	for (i = 0; i + 1 < q->nwr; i++)
		q->wr[i].next = &q->wr[i + 1];
	q->wr[i].next = NULL;
	err = ibv_post_send(q->qp, q->wr, &bad);
	if (err)
		die("%s: QP %u: post_send of %u requests with %llu outstanding: %s", q->e->dev.name,
		    q->id, q->nwr, (ull)(q->sent_head - q->sent_tail), strerror(err));
	/* What was inline is ours again. */
	for (i = 0; i < q->nwr; i++) {
		struct sent *s = &q->sent[(q->sent_head - q->nwr + i) % q->e->cfg.sq_depth];

		if (s->inlined)
			memset(s->p.buf, 0xee, s->p.room);
	}
	q->nwr = 0;
}

static const enum ibv_wr_opcode wr_of[] = {
	[K_SEND] = IBV_WR_SEND, [K_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
	[K_WRITE] = IBV_WR_RDMA_WRITE, [K_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[K_READ] = IBV_WR_RDMA_READ, [K_CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
	[K_FADD] = IBV_WR_ATOMIC_FETCH_AND_ADD, [K_CREDIT] = IBV_WR_RDMA_WRITE,
	[K_FLUSH] = IBV_WR_RDMA_WRITE,
};

/* One more request of the send queue; false: no room now. */
bool queue_op(struct vqp *q, const struct op *op)
{
	struct end *e = q->e;
	const struct cfg *c = &e->cfg;
	uint32_t need = need_of(c, op->len), limit, i;
	struct ibv_send_wr *wr = &q->wr[q->nwr];
	struct sent *s = &q->sent[q->sent_head % c->sq_depth];
	struct ibv_mr *mr = e->mr[rnd(&q->rng, c->mrs)];
	uint32_t rkey = e->peer_rkey[rnd(&q->rng, c->mrs)];

	if (q->sent_head - q->sent_tail >= c->sq_depth)
		return false;
	s->inlined = false;
	s->op = *op;
	if (op->fed) {
		const struct sent *r = &q->sent[(q->sent_head - 1) % c->sq_depth];

		s->p = r->p;
	} else {
		uint8_t *buf = arena_get(&q->tx, need);

		if (!buf)
			return false;
		pieces_cut(q, &s->p, buf, need, op->len,
			   op->kind == K_CAS || op->kind == K_FADD);
	}
	/* The buffer of a READ that feeds a SEND stays until the SEND is done. */
	s->arena_end = op->feeds ? 0 : q->tx.head;
	s->wr_id = q->tag | (uint32_t)q->sent_head;

	memset(wr, 0, sizeof(*wr));
	wr->wr_id = s->wr_id;
	wr->sg_list = q->sge[q->nwr];
	wr->num_sge = s->p.n;
	wr->imm_data = htonl(op->imm);
	wr->wr.rdma.remote_addr = e->peer_base + op->roff;
	wr->wr.rdma.rkey = rkey;
	wr->opcode = wr_of[op->kind];
	if (op->kind == K_CAS || op->kind == K_FADD) {
		wr->wr.atomic.remote_addr = e->peer_base + op->roff;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = op->kind == K_CAS ? op->cmp : op->swap_add;
		wr->wr.atomic.swap = op->swap_add;
	}
	switch (op->kind) {
	case K_READ:
	case K_CAS:
	case K_FADD:
		memset(s->p.buf, POISON, s->p.room);
		break;
	case K_CREDIT:
		/* not random in its shape: the target reads it as a whole */
		s->p.n = 1;
		s->p.at[0] = s->p.buf;
		s->p.len[0] = 8;
		memcpy(s->p.buf, &op->expect, 8);
		wr->num_sge = 1;
		s->inlined = q->max_inline >= 8;
		break;
	default:
		if (!op->fed) {
			pieces_fill(&s->p, op->key, op->koff);
			s->inlined = q->max_inline && op->len <= q->max_inline &&
				     rnd(&q->rng, 2);
		}
	}
	for (i = 0; i < s->p.n; i++) {
		wr->sg_list[i].addr = (uintptr_t)s->p.at[i];
		wr->sg_list[i].length = s->p.len[i];
		/* the key of inline data is not looked at */
		wr->sg_list[i].lkey = s->inlined ? 0xdeadbeef : mr->lkey;
	}
	limit = umin(c->signal_every, umax(c->sq_depth / 2, 1));
	s->signaled = q->unsignaled + 1 >= limit || op->kind == K_FLUSH ||
		      q->unsignaled_bytes + need > q->tx.size / 4;
	if (s->signaled) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		q->unsignaled = 0;
		q->unsignaled_bytes = 0;
	} else {
		q->unsignaled++;
		q->unsignaled_bytes += need;
	}
	if (s->inlined)
		wr->send_flags |= IBV_SEND_INLINE;
	if (op->fenced || (c->fence && !rnd(&q->rng, 8)))
		wr->send_flags |= IBV_SEND_FENCE;
	q->sent_head++;
	q->nwr++;
	if (op->kind < K_NR) {
		e->ops++;
		e->bytes += op->len;
	}
	if (q->nwr >= 1 + rnd(&q->rng, c->chain))
		flush_chain(q);
	return true;
}

static bool time_over(const struct end *e)
{
	return e->cfg.seconds && (told_to_end || e->peer_ends ||
				  now_us() - e->start > e->cfg.seconds * 1000000ULL);
}

bool requester_step(struct vqp *q)
{
	struct end *e = q->e;
	const struct cfg *c = &e->cfg;
	bool progress = false;
	uint64_t credit;
	uint32_t n;

	if (!c->event) {
		credit = *(volatile uint64_t *)(e->shown + off_credit(q->id));
		if (credit < q->credit || credit > q->started)
			die("%s: QP %u %s: a credit went from %llu to %llu with %llu batches started",
			    e->dev.name, q->id, flow(q, false), (ull)q->credit,
			    (ull)credit, (ull)q->started);
		if (credit != q->credit)
			progress = true;
		q->credit = credit;
	}
	for (n = 0; n < 16; n++) {
		if (!q->open) {
			if (q->stopped)
				break;
			if ((c->batches && q->started >= c->batches) || time_over(e) ||
			    (!c->bidir && e->dir == 1)) {
				q->stopped = true;
				break;
			}
			if (q->started >= q->credit + c->window)
				break;
			gen_batch(&q->g, &q->cur);
			q->open = true;
			q->next = 0;
			q->started++;
		}
		if (!queue_op(q, &q->cur.op[q->next]))
			break;
		progress = true;
		if (++q->next == q->cur.n)
			q->open = false;
	}
	flush_chain(q);
	if (q->stopped && q->unsignaled && q->verified >= q->total && q->granted >= q->total) {
		struct op op = { .kind = K_FLUSH };

		if (queue_op(q, &op)) {
			flush_chain(q);
			progress = true;
		}
	}
	/* Unsignalled credits may come yet; what counts are the operations. */
	if (q->stopped && !q->told && q->credit >= q->started) {
		msg_send(e, M_TOTAL, q->id, q->started);
		q->told = true;
		progress = true;
	}
	return progress;
}

static const enum ibv_wc_opcode wc_of[] = {
	[K_SEND] = IBV_WC_SEND, [K_SEND_IMM] = IBV_WC_SEND, [K_WRITE] = IBV_WC_RDMA_WRITE,
	[K_WRITE_IMM] = IBV_WC_RDMA_WRITE, [K_READ] = IBV_WC_RDMA_READ, [K_CAS] = IBV_WC_COMP_SWAP,
	[K_FADD] = IBV_WC_FETCH_ADD, [K_CREDIT] = IBV_WC_RDMA_WRITE, [K_FLUSH] = IBV_WC_RDMA_WRITE,
};

static void retire(struct vqp *q, struct sent *s)
{
	const struct op *op = &s->op;
	char text[96];
	uint64_t got;

	switch (op->kind) {
	case K_READ:
		pieces_check(q, false, op, &s->p, op->len, op->key, op->koff);
		break;
	case K_CAS:
	case K_FADD:
		memcpy(&got, s->p.at[0], 8);
		check_gap(q, false, op, s->p.buf, s->p.at[0]);
		check_gap(q, false, op, s->p.at[0] + 8, s->p.buf + s->p.room);
		if (!op->shared && got != op->expect) {
			snprintf(text, sizeof(text), "found %llx, wanted %llx",
				 (ull)got, (ull)op->expect);
			op_die(q, false, op, text);
		}
		break;
	}
	q->tx.tail = umax(q->tx.tail, s->arena_end);
}

void on_sent(struct vqp *q, const struct ibv_wc *wc)
{
	struct sent *s = NULL;
	char text[160];
	uint64_t i;

	for (i = q->sent_tail; i < q->sent_head - q->nwr; i++) {
		s = &q->sent[i % q->e->cfg.sq_depth];
		if (s->signaled)
			break;
	}
	if (i >= q->sent_head - q->nwr)
		die("%s: QP %u: a send completion, wr_id %llx, but no signalled request is outstanding",
		    q->e->dev.name, q->id, (ull)wc->wr_id);
	/* A failure may belong to an unsignalled one. */
	if (wc->status != IBV_WC_SUCCESS) {
		for (i = q->sent_tail; i < q->sent_head; i++)
			if (q->sent[i % q->e->cfg.sq_depth].wr_id == wc->wr_id)
				s = &q->sent[i % q->e->cfg.sq_depth];
		snprintf(text, sizeof(text), "%s (%d), vendor_err 0x%x", ibv_wc_status_str(wc->status),
			 wc->status, wc->vendor_err);
		op_die(q, false, &s->op, text);
	}
	if (s->wr_id != wc->wr_id) {
		snprintf(text, sizeof(text), "the completion of wr_id %llx came instead of %llx",
			 (ull)wc->wr_id, (ull)s->wr_id);
		op_die(q, false, &s->op, text);
	}
	if (wc->opcode != wc_of[s->op.kind]) {
		snprintf(text, sizeof(text), "its completion says %s (%d)", wc_opcode_str(wc->opcode),
			 wc->opcode);
		op_die(q, false, &s->op, text);
	}
	if ((s->op.kind == K_READ || s->op.kind == K_CAS || s->op.kind == K_FADD) &&
	    wc->byte_len != s->op.len) {
		snprintf(text, sizeof(text), "its completion says %u bytes", wc->byte_len);
		op_die(q, false, &s->op, text);
	}
	for (; q->sent_tail <= i; q->sent_tail++)
		retire(q, &q->sent[q->sent_tail % q->e->cfg.sq_depth]);
}
