// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Traffic over RC QPs in which every byte, completion, order and total is
 * checked.  See usage() for what it can do and verify.h for how it knows what
 * is right.  The first thing that is wrong ends both ends with one line.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "verify_end.h"
volatile sig_atomic_t told_to_end;

static bool quiet;
static int die_fd = -1;

/* ------------------------------------------------------- control messages */

void msg_send(struct end *e, uint32_t type, uint32_t qp, uint64_t val)
{
	struct msg m = { type, qp, val };

	fd_write(e->ctl, &m, sizeof(m));
}

static void tell_peer(const char *text)
{
	struct msg m = { M_ERROR, 0, strlen(text) };

	if (die_fd < 0)
		return;
	if (send(die_fd, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(m) &&
	    send(die_fd, text, m.val, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return;
}

/* ------------------------------------------------------------------- loop */

static void handle_wc(struct end *e, const struct ibv_wc *wc)
{
	struct vqp *q;
	uint32_t h;

	for (h = wc->qp_num % QP_HASH; e->hash[h]; h = (h + 1) % QP_HASH)
		if (e->hash[h]->qp->qp_num == wc->qp_num)
			break;
	q = e->hash[h];
	if (!q)
		die("%s: a completion of QP 0x%x, which is not ours", e->dev.name, wc->qp_num);
	/* The opcode is not valid with an error. */
	if ((wc->wr_id & ~0xffffffffULL) == q->tag)
		on_sent(q, wc);
	else
		on_received(q, wc);
}

static bool poll_cqs(struct end *e)
{
	bool progress = false;
	struct ibv_wc wc[16];
	uint32_t i;
	int n, k;

	for (i = 0; i < e->ncq; i++) {
		n = ibv_poll_cq(e->cq[i], ARRAY_SIZE(wc), wc);
		if (n < 0)
			die("%s: poll_cq failed", e->dev.name);
		for (k = 0; k < n; k++)
			handle_wc(e, &wc[k]);
		progress |= n > 0;
	}
	return progress;
}

static bool poll_ctl(struct end *e)
{
	bool progress = false;
	struct msg m;
	char text[512];
	ssize_t n;

	for (;;) {
		n = recv(e->ctl, &m, sizeof(m), MSG_PEEK | MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return progress;
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			die("%s: the other end is gone", e->dev.name);
		if (n < 0)
			die_errno("control connection");
		if (n < (ssize_t)sizeof(m))
			return progress;
		fd_read(e->ctl, &m, sizeof(m));
		progress = true;
		if (m.type == M_ERROR) {
			m.val = umin(m.val, sizeof(text) - 1);
			fd_read(e->ctl, text, m.val);
			text[m.val] = 0;
			die_hook = NULL;
			die("the other end says: %s", text);
		}
		if (m.type == M_DONE) {
			e->done_got = true;
			continue;
		}
		if (m.qp >= e->cfg.qps)
			die("control connection: QP %u", m.qp);
		if (m.type == M_CREDIT)
			e->qp[m.qp].credit = m.val;
		else if (m.type == M_TOTAL)
			e->qp[m.qp].total = m.val;
		e->peer_ends = e->peer_ends || (m.type == M_TOTAL && e->cfg.bidir);
	}
}

/* One CQ after the other; the events of the channel say which fired. */
static void take_event(struct end *e)
{
	struct ibv_cq *cq;
	void *ctx;
	uint32_t i;

	if (ibv_get_cq_event(e->chan, &cq, &ctx))
		die_errno("%s: get_cq_event", e->dev.name);
	for (i = 0; i < e->ncq && e->cq[i] != cq; i++)
		;
	if (i == e->ncq)
		die("%s: an event of a CQ that is not ours", e->dev.name);
	if (!e->armed[i])
		die("%s: an event of a CQ that was not armed", e->dev.name);
	e->armed[i] = false;
	e->acks[i]++;
}

static void wait_event(struct end *e)
{
	struct pollfd pfd[2] = {
		{ .fd = e->chan->fd, .events = POLLIN },
		{ .fd = e->ctl, .events = POLLIN },
	};
	uint32_t i;
	int err;

	for (i = 0; i < e->ncq; i++) {
		if (e->armed[i])
			continue;
		e->armed[i] = true;
		err = ibv_req_notify_cq(e->cq[i], 0);
		if (err)
			die("%s: req_notify_cq: %s", e->dev.name, strerror(err));
	}
	if (poll_cqs(e))
		return;
	if (poll(pfd, 2, 1000) < 0 && errno != EINTR)
		die_errno("poll");
	if (pfd[0].revents) {
		take_event(e);
		return;
	}
	if (pfd[1].revents)
		return;
	/* Nothing for a second: then there must be nothing. */
	if (poll_cqs(e) && poll(pfd, 1, 2000) == 0)
		die("%s: a completion came into an armed CQ without an event", e->dev.name);
}

static bool all_verified(struct end *e)
{
	const struct cfg *c = &e->cfg;
	uint64_t shared = 0, got;
	uint32_t i;

	for (i = 0; i < c->qps; i++) {
		struct vqp *q = &e->qp[i];

		if (!q->told || q->verified != q->total || q->granted != q->total ||
		    q->sent_head != q->sent_tail)
			return false;
	}
	for (i = 0; i < c->qps; i++) {
		struct vqp *q = &e->qp[i];
		struct gen g;

		/* The plan may run ahead of what the peer did: count again. */
		gen_init(&g, c, i, !e->dir);
		while (g.batch < q->total)
			gen_batch(&g, &q->plan[0]);
		memcpy(&got, e->shown + off_cas(c, i), 8);
		if (got != g.cas)
			die("%s: QP %u %s: the compare-and-swap cell is %llx at the end, wanted %llx",
			    e->dev.name, i, flow(q, true), (ull)got,
			    (ull)g.cas);
		memcpy(&got, e->shown + off_fadd(c, i), 8);
		if (got != g.fadd)
			die("%s: QP %u %s: the fetch-and-add cell is %llx at the end, wanted %llx",
			    e->dev.name, i, flow(q, true), (ull)got,
			    (ull)g.fadd);
		shared += g.shared;
	}
	memcpy(&got, e->shown + off_shared(c), 8);
	if (got != shared)
		die("%s: the counter that all QPs add to is %llx at the end, wanted %llx", e->dev.name,
		    (ull)got, (ull)shared);
	if (pattern_check(e->shown + off_source(c), source_key(c, e->dir), 0, source_len(c)) >= 0)
		die("%s: memory that is only read was written", e->dev.name);
	return true;
}

static void stalled(struct end *e)
{
	const char *woke = "";
	const struct vqp *worst = NULL;
	struct ibv_send_wr *bad;
	uint32_t i, k;

	/* Would another look of the kernel help?  A doorbell without a request. */
	for (i = 0; i < e->cfg.qps; i++)
		ibv_post_send(e->qp[i].qp, NULL, &bad);
	for (i = 0; i < 50 && !*woke; i++) {
		usleep(10000);
		if (poll_cqs(e))
			woke = " (but a mere doorbell brought a completion)";
		for (k = 0; k < e->cfg.qps && !e->cfg.event; k++)
			if (*(volatile uint64_t *)(e->shown + off_credit(k)) != e->qp[k].credit)
				woke = " (but a mere doorbell brought a credit)";
	}
	for (i = 0; i < e->cfg.qps && !worst; i++) {
		const struct vqp *q = &e->qp[i];

		if (q->sent_head != q->sent_tail || !q->told || q->verified != q->total)
			worst = q;
	}
	if (!worst)
		die("%s: no progress for %u s%s; the other end is not done", e->dev.name,
		    e->cfg.stall, woke);
	die("%s: no progress for %u s%s; QP %u (0x%x): %llu requests outstanding (next signalled: %s), batches started %llu, credited %llu; receives posted %llu, batches verified %llu",
	    e->dev.name, e->cfg.stall, woke, worst->id, worst->qp->qp_num,
	    (ull)(worst->sent_head - worst->sent_tail),
	    worst->sent_head == worst->sent_tail ? "-" :
	    kind_name[worst->sent[worst->sent_tail % e->cfg.sq_depth].op.kind],
	    (ull)worst->started, (ull)worst->credit,
	    (ull)(worst->posted_head - worst->posted_tail),
	    (ull)worst->verified);
}

static void run(struct end *e)
{
	const struct cfg *c = &e->cfg;
	uint32_t idle = 0, i;
	bool progress;

	e->start = now_us();
	e->last_progress = e->start;
	for (;;) {
		progress = false;
		for (i = 0; i < c->qps; i++) {
			progress |= post_recvs(&e->qp[i]);
			progress |= requester_step(&e->qp[i]);
			progress |= grant(&e->qp[i]);
		}
		progress |= poll_cqs(e);
		if (!progress || !(++idle & 15))
			progress |= poll_ctl(e);
		if (!e->done_sent && all_verified(e)) {
			msg_send(e, M_DONE, 0, 0);
			e->done_sent = true;
		}
		if (e->done_sent && e->done_got)
			break;
		if (progress) {
			e->last_progress = now_us();
			continue;
		}
		if (now_us() - e->last_progress > c->stall * 1000000ULL)
			stalled(e);
		if (c->event)
			wait_event(e);
		else
			sched_yield();
	}
	if (poll_cqs(e))
		die("%s: a completion after the last one", e->dev.name);
}

/* ------------------------------------------------------------------ setup */

struct hello {
	uint64_t base;
	uint32_t rkey[16];
};

static struct ibv_cq *make_cq(struct end *e, uint32_t depth)
{
	struct ibv_cq *cq;

	cq = ibv_create_cq(e->dev.ctx, umin(depth, (uint32_t)e->dev.attr.max_cqe), NULL, e->chan,
			   e->ncq % e->dev.ctx->num_comp_vectors);
	if (!cq)
		die_errno("%s: create_cq of %u", e->dev.name, depth);
	e->cq[e->ncq++] = cq;
	return cq;
}

static void setup_memory(struct end *e)
{
	const struct cfg *c = &e->cfg;
	uint64_t per = (need_of(c, c->max_len) * 3ULL + 65536 + 4095) & ~4095ULL;
	uint64_t rper = (need_of(c, c->max_len + 256) * 2ULL + 65536 + 4095) & ~4095ULL;
	uint64_t shown = (shown_len(c) + 4095) & ~4095ULL;
	uint32_t i;

	e->mem_len = shown + c->qps * (per + rper);
	e->mem = mmap(NULL, e->mem_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (e->mem == MAP_FAILED)
		die_errno("%llu bytes of memory", (ull)e->mem_len);
	e->shown = e->mem;
	memset(e->shown, POISON, shown);
	memset(e->shown, 0, off_source(c));
	pattern_fill(e->shown + off_source(c), source_key(c, e->dir), 0, source_len(c));
	for (i = 0; i < c->qps; i++) {
		e->qp[i].tx = (struct arena){ e->mem + shown + i * (per + rper), per, 0, 0 };
		e->qp[i].rx = (struct arena){ e->qp[i].tx.base + per, rper, 0, 0 };
	}
	for (i = 0; i < c->mrs; i++) {
		e->mr[i] = ibv_reg_mr(e->pd, e->mem + shown, e->mem_len - shown,
				      IBV_ACCESS_LOCAL_WRITE);
		e->shown_mr[i] = ibv_reg_mr(e->pd, e->shown, shown,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
		if (!e->mr[i] || !e->shown_mr[i])
			die_errno("%s: reg_mr of %llu bytes", e->dev.name,
				  (ull)e->mem_len);
	}
}

static enum ibv_mtu mtu_enum(uint32_t bytes)
{
	uint32_t i;

	for (i = IBV_MTU_256; i <= IBV_MTU_4096; i++)
		if (bytes == 128u << i)
			return i;
	return 0;
}

static void setup_qps(struct end *e)
{
	struct cfg *c = &e->cfg;
	struct qp_param param = QP_PARAM_DEFAULT;
	struct qp_conn mine[MAX_QPS], peer[MAX_QPS];
	uint32_t per_cq = (c->qps + c->cqs - 1) / c->cqs, i, h;
	uint64_t rng = mix64(now_us() ^ getpid());
	struct ibv_cq *scq = NULL, *rcq = NULL;
	char sync = 0;
	int err;

	for (i = 0; i < c->qps; i++) {
		struct vqp *q = &e->qp[i];
		struct ibv_qp_init_attr attr = {
			.qp_type = IBV_QPT_RC,
			.cap = {
				.max_send_wr = c->sq_depth, .max_recv_wr = c->rq_depth,
				.max_send_sge = c->max_sge, .max_recv_sge = c->max_sge,
				.max_inline_data = c->max_inline,
			},
		};

		if (i % per_cq == 0) {
			uint32_t s = per_cq * c->sq_depth, r = per_cq * c->rq_depth;

			scq = make_cq(e, c->one_cq ? s + r : s);
			rcq = c->one_cq ? scq : make_cq(e, r);
		}
		attr.send_cq = scq;
		attr.recv_cq = rcq;
		q->qp = ibv_create_qp(e->pd, &attr);
		if (!q->qp)
			die_errno("%s: create_qp number %u", e->dev.name, i);
		if (attr.cap.max_send_wr < c->sq_depth || attr.cap.max_recv_wr < c->rq_depth ||
		    attr.cap.max_send_sge < c->max_sge || attr.cap.max_recv_sge < c->max_sge ||
		    attr.cap.max_inline_data < c->max_inline)
			die("%s: create_qp gave less than was asked for", e->dev.name);
		q->max_inline = c->max_inline;
		q->e = e;
		q->id = i;
		q->scq = scq;
		q->rcq = rcq;
		q->rng = mix64(c->seed ^ (e->dir + 77) ^ ((uint64_t)i << 32));
		/* bit 31 of the upper half tells sends from receives, which are ~ of it */
		q->tag = (mix64(rng + i) & 0x7fffffff) << 32;
		q->total = UINT64_MAX;
		gen_init(&q->g, c, i, e->dir);
		gen_init(&q->tg, c, i, !e->dir);
		q->sent = calloc(c->sq_depth, sizeof(*q->sent));
		q->posted = calloc(c->rq_depth, sizeof(*q->posted));
		if (!q->sent || !q->posted)
			die("no memory");
		for (h = q->qp->qp_num % QP_HASH; e->hash[h]; h = (h + 1) % QP_HASH)
			if (e->hash[h]->qp->qp_num == q->qp->qp_num)
				die("%s: two QPs with number 0x%x", e->dev.name, q->qp->qp_num);
		e->hash[h] = q;
		mine[i].qpn = q->qp->qp_num;
		mine[i].psn = rnd64(&rng) & 0xffffff;
		mine[i].gid = e->dev.gid;
	}
	fd_write(e->ctl, mine, c->qps * sizeof(mine[0]));
	fd_read(e->ctl, peer, c->qps * sizeof(peer[0]));
	param.timeout = c->timeout;
	param.retry_cnt = c->retry;
	param.rd_atomic = c->rd_atomic;
	param.mtu = mtu_enum(c->mtu);
	for (i = 0; i < c->qps; i++) {
		struct vqp *q = &e->qp[i];

		err = qp_init(&e->dev, q->qp, &param);
		if (err)
			die("%s: QP %u to INIT: %s", e->dev.name, i, strerror(err));
		post_recvs(q);
		err = qp_rtr(&e->dev, q->qp, &param, &peer[i]);
		if (err)
			die("%s: QP %u to RTR: %s", e->dev.name, i, strerror(err));
		err = qp_rts(q->qp, &param, mine[i].psn);
		if (err)
			die("%s: QP %u to RTS: %s", e->dev.name, i, strerror(err));
	}
	/* Nobody sends before the other end is in RTR. */
	fd_write(e->ctl, &sync, 1);
	fd_read(e->ctl, &sync, 1);
}

static void teardown(struct end *e)
{
	uint32_t i;
	char sync = 0;

	/* The peer's last acknowledgment may be still needed by neither. */
	fd_write(e->ctl, &sync, 1);
	fd_read(e->ctl, &sync, 1);
	for (i = 0; i < e->cfg.qps; i++) {
		if (ibv_destroy_qp(e->qp[i].qp))
			die("%s: destroy_qp failed", e->dev.name);
		free(e->qp[i].sent);
		free(e->qp[i].posted);
	}
	for (i = 0; i < e->ncq; i++) {
		if (e->acks[i])
			ibv_ack_cq_events(e->cq[i], e->acks[i]);
		/* An event that nobody took would make destroy_cq wait. */
		if (e->chan) {
			struct pollfd pfd = { .fd = e->chan->fd, .events = POLLIN };
			struct ibv_cq *cq;
			void *ctx;

			while (poll(&pfd, 1, 0) == 1 && !ibv_get_cq_event(e->chan, &cq, &ctx))
				ibv_ack_cq_events(cq, 1);
		}
		if (ibv_destroy_cq(e->cq[i]))
			die("%s: destroy_cq failed", e->dev.name);
	}
	if (e->chan && ibv_destroy_comp_channel(e->chan))
		die("%s: destroy_comp_channel failed", e->dev.name);
	for (i = 0; i < e->cfg.mrs; i++)
		if (ibv_dereg_mr(e->mr[i]) || ibv_dereg_mr(e->shown_mr[i]))
			die("%s: dereg_mr failed", e->dev.name);
	if (ibv_dealloc_pd(e->pd))
		die("%s: dealloc_pd failed", e->dev.name);
	dev_close(&e->dev);
	munmap(e->mem, e->mem_len);
	free(e->qp);
}

/* All of one end; @ctl is connected, and the client's cfg is set. */
static void one_end(struct end *e, const char *dev, const char *gid)
{
	struct hello mine = { 0 }, peer;
	uint64_t us;
	uint32_t i;

	if (e->dir == 0)
		fd_write(e->ctl, &e->cfg, sizeof(e->cfg));
	else
		fd_read(e->ctl, &e->cfg, sizeof(e->cfg));
	if (e->cfg.magic != CFG_MAGIC)
		die("the other end is of another version");
	dev_open(&e->dev, dev, gid);
	e->pd = ibv_alloc_pd(e->dev.ctx);
	if (!e->pd)
		die_errno("%s: alloc_pd", dev);
	if (e->cfg.event) {
		e->chan = ibv_create_comp_channel(e->dev.ctx);
		if (!e->chan)
			die_errno("%s: create_comp_channel", dev);
	}
	e->qp = calloc(e->cfg.qps, sizeof(*e->qp));
	if (!e->qp)
		die("no memory");
	setup_memory(e);
	mine.base = (uintptr_t)e->shown;
	for (i = 0; i < e->cfg.mrs; i++)
		mine.rkey[i] = e->shown_mr[i]->rkey;
	fd_write(e->ctl, &mine, sizeof(mine));
	fd_read(e->ctl, &peer, sizeof(peer));
	e->peer_base = peer.base;
	memcpy(e->peer_rkey, peer.rkey, sizeof(e->peer_rkey));
	setup_qps(e);
	run(e);
	us = now_us() - e->start;
	teardown(e);
	if (!quiet)
		printf("ok: %s %s: %u QPs, sent %llu operations of %llu KiB, received %llu messages of %llu KiB, %.1f s, %.2f MB/s\n",
		       dev, e->dir ? "server" : "client", e->cfg.qps, (ull)e->ops,
		       (ull)e->bytes >> 10, (ull)e->rops,
		       (ull)e->rbytes >> 10, us / 1e6, us ? (double)e->bytes / us : 0);
	fflush(stdout);
}

/* ---------------------------------------------------------------- options */

static void usage(FILE *f)
{
	fprintf(f,
"usage: verify -d DEVICE [-g GID] [-p PORT]                       the server\n"
"       verify -d DEVICE [-g GID] [-p PORT] [OPTION...] SERVER    the client\n"
"       verify -d DEVICE [-g GID] [OPTION...] --loop[=DEVICE2]    both\n"
" -g GID        index or address (default: first RoCE v2 GID); --gid2 of DEVICE2\n"
" -q N          QPs (1)                -b           both directions\n"
" -n N          batches per flow (50)  -T SECONDS   for that long instead,\n"
"                                                or until SIGUSR1\n"
" -o OP[:W],..  send send_imm write write_imm read cas fadd all (all)\n"
" -s SIZE,..    sizes and ranges, e.g. 0,1,100-4k,8m (0-64k)\n"
" -B N          most operations in a batch (16), -w N batches under way (2)\n"
" -S N          elements, -z some of no length (1)\n"
" -I N          inline up to N bytes   -u N         one of N is signalled (1)\n"
" -D N / -R N   depth of send/receive queue (64/64)\n"
" -C N          up to N requests in one post_send (1)\n"
" -f            fences                 -e           completion events\n"
" -c N          CQ pairs (1)           -1           one CQ for sends and receives\n"
" -M N          registrations of the memory (1)\n"
" -m MTU  -t TIMEOUT  -r RETRIES  -x RD_ATOMIC     of the QPs\n"
" --seed N      another run            --stall S    give up after (30)\n"
" --quiet\n");
}

static void parse_ops(struct cfg *c, char *arg)
{
	static const char *const names[] = {
		"send", "send_imm", "write", "write_imm", "read", "cas", "fadd",
	};
	char *word, *colon, *save;
	uint32_t k;

	memset(c->weight, 0, sizeof(c->weight));
	for (word = strtok_r(arg, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		uint32_t w = 1;
		bool all = !strcmp(word, "all"), found = all;

		colon = strchr(word, ':');
		if (colon) {
			*colon = 0;
			w = parse_size(colon + 1);
		}
		for (k = 0; k < K_NR; k++) {
			if (!all && strcmp(word, names[k]))
				continue;
			c->weight[k] = w;
			found = true;
		}
		if (!found)
			die("no operation %s", word);
	}
}

static void parse_sizes(struct cfg *c, char *arg)
{
	char *word, *dash, *save;

	c->nsizes = 0;
	for (word = strtok_r(arg, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		uint64_t lo, hi;

		if (c->nsizes == MAX_SIZES)
			die("more than %d sizes", MAX_SIZES);
		dash = strchr(word, '-');
		if (dash)
			*dash = 0;
		lo = parse_size(word);
		hi = dash ? parse_size(dash + 1) : lo;
		if (hi < lo || hi > 1u << 30)
			die("no range of sizes: %s", word);
		c->size[c->nsizes].lo = lo;
		c->size[c->nsizes++].hi = hi;
	}
}

static void check_cfg(struct cfg *c)
{
	uint32_t i;

	for (i = 0; i < c->nsizes; i++)
		c->max_len = umax(c->max_len, c->size[i].hi);
	c->max_len = umax(c->max_len, 16u);
	if (c->qps < 1 || c->qps > MAX_QPS || c->max_batch < 1 || c->max_batch > MAX_BATCH ||
	    c->window < 1 || c->window > 4 || c->max_sge < 1 || c->max_sge > MAX_SGE ||
	    !c->sq_depth || !c->rq_depth || c->chain < 1 || c->chain > 64 || c->mrs < 1 ||
	    c->mrs > 16 || c->cqs < 1 || c->cqs > c->qps || !c->signal_every || !c->nsizes)
		die("an option is out of range");
	if (!c->batches && !c->seconds)
		c->batches = 50;
	/* A chain must fit into an empty queue. */
	c->chain = umin(c->chain, umax(c->sq_depth / 2, 1u));
	c->area = (c->max_len + umin(c->max_len * 3ULL, 65536ULL) + 4096 + 63) & ~63ULL;
}

enum { OPT_LOOP = 1000, OPT_SEED, OPT_STALL, OPT_GID2, OPT_QUIET };

struct thread_arg {
	struct end *e;
	const char *dev, *gid;
};

static void on_usr1(int sig)
{
	(void)sig;
	told_to_end = 1;
}

static void *server_thread(void *p)
{
	struct thread_arg *a = p;

	one_end(a->e, a->dev, a->gid);
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "loop", optional_argument, NULL, OPT_LOOP },
		{ "seed", required_argument, NULL, OPT_SEED },
		{ "stall", required_argument, NULL, OPT_STALL },
		{ "gid2", required_argument, NULL, OPT_GID2 },
		{ "quiet", no_argument, NULL, OPT_QUIET },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	struct cfg c = {
		.magic = CFG_MAGIC, .qps = 1, .seed = 1, .max_batch = 16, .window = 2, .max_sge = 1,
		.signal_every = 1, .sq_depth = 64, .rq_depth = 64, .chain = 1, .rd_atomic = 4,
		.timeout = 17, .retry = 7, .stall = 30, .mrs = 1, .cqs = 1, .nsizes = 1,
		.size = { { 0, 65536 } }, .weight = { 1, 1, 1, 1, 1, 1, 1 },
	};
	const struct {
		char opt;
		uint32_t *value;
		bool flag;
	} numbers[] = {
		{ 'q', &c.qps }, { 'n', &c.batches }, { 'T', &c.seconds }, { 'B', &c.max_batch },
		{ 'w', &c.window }, { 'S', &c.max_sge }, { 'I', &c.max_inline },
		{ 'u', &c.signal_every }, { 'D', &c.sq_depth }, { 'R', &c.rq_depth },
		{ 'C', &c.chain }, { 'c', &c.cqs }, { 'M', &c.mrs }, { 'm', &c.mtu },
		{ 't', &c.timeout }, { 'r', &c.retry }, { 'x', &c.rd_atomic },
		{ 'b', &c.bidir, true }, { 'z', &c.zero_sge, true }, { 'f', &c.fence, true },
		{ 'e', &c.event, true }, { '1', &c.one_cq, true },
	};
	const char *dev = NULL, *gid = NULL, *dev2 = NULL, *gid2 = NULL;
	static struct end client, server;
	int port = 18515, opt, sv[2];
	bool loop = false;
	pthread_t thread;
	uint32_t i;

	progname = "verify";
	signal(SIGUSR1, on_usr1);
	while ((opt = getopt_long(argc, argv, "d:g:p:q:bn:T:o:s:B:w:S:zI:u:D:R:C:fec:1M:m:t:r:x:h",
				  longs, NULL)) != -1) {
		for (i = 0; i < ARRAY_SIZE(numbers) && numbers[i].opt != opt; i++)
			;
		if (i < ARRAY_SIZE(numbers)) {
			*numbers[i].value = numbers[i].flag ? 1 : parse_size(optarg);
			continue;
		}
		switch (opt) {
		case 'd':
			dev = optarg;
			break;
		case 'g':
			gid = optarg;
			break;
		case 'p':
			port = parse_size(optarg);
			break;
		case 'o':
			parse_ops(&c, optarg);
			break;
		case 's':
			parse_sizes(&c, optarg);
			break;
		case OPT_LOOP:
			loop = true;
			dev2 = optarg;
			break;
		case OPT_SEED:
			c.seed = parse_size(optarg);
			break;
		case OPT_STALL:
			c.stall = parse_size(optarg);
			break;
		case OPT_GID2:
			gid2 = optarg;
			break;
		case OPT_QUIET:
			quiet = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (!dev || argc - optind > 1 || (loop && optind < argc)) {
		usage(stderr);
		return 2;
	}
	check_cfg(&c);
	client.cfg = c;
	server.dir = 1;
	if (loop) {
		struct thread_arg arg = { &server, dev2, gid2 };

		if (!dev2) {
			arg.dev = dev;
			arg.gid = gid2 ? gid2 : gid;
		}
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv))
			die_errno("socketpair");
		client.ctl = sv[0];
		server.ctl = sv[1];
		if (pthread_create(&thread, NULL, server_thread, &arg))
			die("no thread");
		one_end(&client, dev, gid);
		pthread_join(thread, NULL);
		return 0;
	}
	die_hook = tell_peer;
	if (optind < argc) {
		die_fd = tcp_connect(argv[optind], port, 30);
		client.ctl = die_fd;
		one_end(&client, dev, gid);
	} else {
		die_fd = tcp_accept(port, 120);
		server.ctl = die_fd;
		one_end(&server, dev, gid);
	}
	return 0;
}
