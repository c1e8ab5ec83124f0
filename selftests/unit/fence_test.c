// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The arithmetic of fences, and two ends that run the protocol over a session
 * that loses, repeats and reorders messages, and over lane QP pairs that die at
 * any packet. What must come out: every SEND exactly once and in order, no WRITE
 * after a SEND that was posted behind it, nothing reported that was not done.
 */
#include <stdbool.h>
#include <string.h>

/* fence_mutants.sh has others. */
#ifndef FENCE_C
#define FENCE_C "../../kmod/fence.c"
#endif
#include FENCE_C
#include "tap.h"

TEST(packets)
{
	static const u32 mtu[] = { 256, 512, 1024, 2048, 4096 };

	for (int i = 0; i < 5; i++) {
		u32 m = mtu[i];

		CHECK(agg_packets(0, m) == 1, "0 bytes");
		for (int n = 0; n < 2000; n++) {
			u64 len = tap_rand() >> (33 + tap_rand() % 30);
			u64 want = len ? (len + m - 1) / m : 1;

			CHECK(agg_packets(len, m) == want, "%llu bytes, MTU %u",
			      (unsigned long long)len, m);
		}
		CHECK(agg_packets(m, m) == 1 && agg_packets(m + 1, m) == 2, "around %u", m);
		CHECK(agg_packets(1ULL << 31, m) == (1U << 31) / m, "the longest");
	}
}

TEST(expand)
{
	for (int i = 0; i < 100000; i++) {
		u32 known = tap_rand();
		s32 away = (s32)(tap_rand() % 0xffffff) - 0x7fffff;
		u32 count = known + away;

		CHECK(agg_psn_expand(known, count & AGG_PSN_MASK) == count, "%#x %d", known, away);
	}
	/* Over the edge of 24 and of 32 bits. */
	CHECK(agg_psn_expand(0xffffff, 0) == 0x1000000, "24 bits up");
	CHECK(agg_psn_expand(0x1000000, 0xffffff) == 0xffffff, "24 bits down");
	CHECK(agg_psn_expand(0xffffffff, 5) == 5, "32 bits up");
	CHECK(agg_psn_expand(3, 0xfffffe) == 0xfffffffe, "32 bits down");
}

TEST(fate)
{
	for (int reads = 0; reads < 2; reads++)
		for (int atomic = 0; atomic < 2; atomic++)
			CHECK(agg_fate_of(false, reads, atomic) == AGG_FATE_AGAIN, "not executed");
	CHECK(agg_fate_of(true, false, false) == AGG_FATE_DONE, "WRITE");
	CHECK(agg_fate_of(true, true, false) == AGG_FATE_AGAIN, "READ");
	CHECK(agg_fate_of(true, true, true) == AGG_FATE_LOST, "atomic");
}

TEST(frozen_once)
{
	struct agg_fence f;

	agg_fence_init(&f, true, 7);
	CHECK(agg_fence_asked(&f, 7) == AGG_FENCE_DRAIN, "live");
	CHECK(agg_fence_asked(&f, 6) == AGG_FENCE_STALE, "older");
	CHECK(agg_fence_asked(&f, 8) == AGG_FENCE_BAD, "newer");
	CHECK(!agg_fence_offer(&f), "too early");
	CHECK(agg_fence_quiet(&f, 0x1000005, 3), "quiet");
	CHECK(f.own.psn == 5 && f.own.recvs == 3 && f.own.epoch == 7, "frozen");
	/* Rule 3: never read again. */
	CHECK(!agg_fence_quiet(&f, 9, 9) && f.own.psn == 5, "once");
	CHECK(agg_fence_asked(&f, 7) == AGG_FENCE_ANSWER, "answer from what is stored");
	CHECK(!agg_fence_offer(&f), "the peer's is not known");
	CHECK(agg_fence_learn(&f, &(struct agg_frozen){ 6, 1, 1 }) == 0, "another epoch");
	CHECK(f.state == AGG_FENCE_QUIET, "does not count");
	CHECK(agg_fence_learn(&f, &(struct agg_frozen){ 7, 1, 1 }) == 1, "new");
	CHECK(agg_fence_learn(&f, &(struct agg_frozen){ 7, 1, 1 }) == 0, "the same");
	CHECK(agg_fence_learn(&f, &(struct agg_frozen){ 7, 2, 1 }) == -1, "another story");
	CHECK(agg_fence_offer(&f) && f.epoch == 8, "next");
	CHECK(agg_fence_asked(&f, 7) == AGG_FENCE_ANSWER && f.own.psn == 5, "kept until answered");
	CHECK(agg_fence_asked(&f, 8) == AGG_FENCE_DRAIN, "failed before we knew it to be attached");
	/* Rule 14: what was never attached has executed nothing. */
	CHECK(agg_fence_quiet(&f, 77, 7) && !f.own.psn && !f.own.recvs, "nothing");
}

TEST(refusals)
{
	struct agg_frozen peer = { 0, 0, 0 };
	struct agg_fence f;

	agg_fence_init(&f, false, 0);
	CHECK(agg_fence_offered(&f, 0, &peer) == AGG_FENCE_REPEAT, "the current one");
	CHECK(agg_fence_offered(&f, 1, &peer) == AGG_FENCE_BAD, "the leader cannot know our state");
	agg_fence_quiet(&f, 0, 0);
	CHECK(agg_fence_offered(&f, 1, &peer) == AGG_FENCE_TAKE, "quiet");
	agg_fence_learn(&f, &peer);
	CHECK(agg_fence_offered(&f, 1, &peer) == AGG_FENCE_TAKE, "known");
	agg_fence_refuse(&f, 1);
	CHECK(agg_fence_offered(&f, 1, &peer) == AGG_FENCE_REFUSE, "refused for ever");
	CHECK(agg_fence_offered(&f, 0, &peer) == AGG_FENCE_STALE, "the past");
	CHECK(agg_fence_offered(&f, 2, &peer) == AGG_FENCE_TAKE, "the next one");
	agg_fence_attach(&f, 2);
	CHECK(agg_fence_offered(&f, 2, &peer) == AGG_FENCE_REPEAT, "repeated");
	CHECK(agg_fence_offered(&f, 1, &peer) == AGG_FENCE_STALE, "late");
	f.leader = true;
	CHECK(agg_fence_offered(&f, 3, &peer) == AGG_FENCE_BAD, "we lead");
}

TEST(moves)
{
	struct agg_frozen peer = { 4, 0, 0 };
	struct agg_fence f;

	agg_fence_init(&f, false, 4);
	CHECK(agg_fence_move(&f, 4, 1, false) == AGG_FENCE_REFUSE, "something is under way");
	CHECK(agg_fence_move(&f, 4, 1, true) == AGG_FENCE_REFUSE, "refused once is for ever");
	CHECK(agg_fence_move(&f, 3, 2, true) == AGG_FENCE_STALE, "a pair of the past");
	CHECK(agg_fence_move(&f, 5, 2, true) == AGG_FENCE_BAD, "a pair to come");
	CHECK(agg_fence_move(&f, 4, 2, true) == AGG_FENCE_DRAIN, "the next attempt");
	CHECK(f.state == AGG_FENCE_LIVE, "the caller makes it quiet");
	agg_fence_quiet(&f, 9, 2);
	CHECK(agg_fence_move(&f, 4, 2, true) == AGG_FENCE_ANSWER, "repeated");
	CHECK(agg_fence_move(&f, 4, 1, true) == AGG_FENCE_REFUSE, "the refused one, late");
	agg_fence_learn(&f, &peer);
	CHECK(agg_fence_move(&f, 4, 2, true) == AGG_FENCE_ANSWER, "known");
	CHECK(agg_fence_offered(&f, 5, &peer) == AGG_FENCE_TAKE, "and then as ever");
	agg_fence_attach(&f, 5);
	CHECK(agg_fence_move(&f, 4, 2, true) == AGG_FENCE_STALE, "late");
	CHECK(agg_fence_move(&f, 5, 1, true) == AGG_FENCE_DRAIN, "attempts begin anew");
	f.leader = true;
	CHECK(agg_fence_move(&f, 5, 2, true) == AGG_FENCE_BAD, "we lead");
}

/*
 * Two ends
 */

#define REQS	40
#define PAIRS	400
#define BAG	64

enum kind { SEND, WRITE, READ };

struct req {
	enum kind kind;
	u32 packets, end;
	bool done;
	bool reported;
};

/* One direction of a pair: what was sent on it, and how far it was executed. */
struct stream {
	int req[REQS], n;
	u32 executed;		/* packets, by the responder */
	int acked;		/* requests, as far as the sender has seen */
};

struct pair {
	bool there[2];		/* the end exists and executes */
	struct stream s[2];	/* by sender */
};

struct end {
	struct agg_fence f;
	struct req req[REQS];
	int cons, issue;
	u32 psn, psn_cons, takes;
	bool failing;
	u32 attempt;		/* leader: of the MOVE that is outstanding, posting stopped */
	u32 attempts;
	/* as receiver */
	int recvs;		/* of this epoch */
	int got;		/* requests of the peer that took a receive, ever */
	int last_send;		/* the newest SEND executed */
};

struct mail {
	enum { FENCE, ANSWER, OFFER, YES, NO, MOVE, AGREED, BUSY } what;
	int to;
	u32 epoch;
	bool frozen;
	struct agg_frozen f;
	u32 attempt;
};

static struct end ends[2];
static struct pair pairs[PAIRS];
static struct mail bag[BAG];
static int mails, moves;
static bool broken;

#define MUST(cond, ...)							\
	do {								\
		bool holds = cond;					\
									\
		broken |= !holds;					\
		CHECK(holds, #cond ": " __VA_ARGS__);			\
	} while (0)

static void post(int to, int what, u32 epoch, const struct agg_frozen *f)
{
	struct mail m = { .what = what, .to = to, .epoch = epoch };

	if (f) {
		m.frozen = true;
		m.f = *f;
	}
	if (mails < BAG)
		bag[mails++] = m;
}

static void post_move(int to, int what, u32 epoch, u32 attempt)
{
	struct mail m = { .what = what, .to = to, .epoch = epoch, .attempt = attempt };

	if (mails < BAG)
		bag[mails++] = m;
}

static struct pair *pair_of(const struct end *e)
{
	return &pairs[e->f.epoch];
}

static void retire(struct end *e)
{
	struct req *r = &e->req[e->cons++];

	MUST(!r->reported, "reported twice");
	r->reported = true;
	if (!r->done) {
		e->psn_cons = r->end;
		e->takes += r->kind == SEND;
	}
}

static void issue(int me)
{
	struct end *e = &ends[me];
	struct stream *s = &pair_of(e)->s[me];
	struct req *r;

	if (e->f.state != AGG_FENCE_LIVE || e->failing || e->attempt || e->issue == REQS)
		return;
	r = &e->req[e->issue];
	if (r->done) {
		if (e->cons == e->issue++)
			retire(e);
		return;
	}
	e->psn += r->packets;
	r->end = e->psn;
	s->req[s->n++] = e->issue++;
}

/* The responder executes a packet; at the end of a request it has executed it. */
static void execute(int me, u32 epoch)
{
	struct end *e = &ends[me], *from = &ends[!me];
	struct stream *s = &pairs[epoch].s[!me];
	u32 sum = 0;

	if (!pairs[epoch].there[me])
		return;
	for (int i = 0; i < s->n; i++) {
		struct req *r = &from->req[s->req[i]];
		int id = s->req[i];

		sum += r->packets;
		if (s->executed >= sum)
			continue;
		if (++s->executed < sum)
			return;
		if (r->kind == SEND) {
			MUST(id > e->last_send, "SEND %d after SEND %d", id, e->last_send);
			e->last_send = id;
			e->got++;
			e->recvs++;
		} else if (r->kind == WRITE) {
			MUST(id > e->last_send, "WRITE %d after SEND %d", id, e->last_send);
		}
		return;
	}
}

/* The sender sees that a request is done. */
static void ack(int me)
{
	struct end *e = &ends[me];
	struct stream *s = &pair_of(e)->s[me];
	u32 sum = 0;

	if (e->f.state != AGG_FENCE_LIVE)
		return;
	for (int i = 0; i <= s->acked && i < s->n; i++)
		sum += e->req[s->req[i]].packets;
	if (s->acked == s->n || s->executed < sum)
		return;
	while (e->cons <= s->req[s->acked])
		retire(e);
	s->acked++;
	while (e->cons < e->issue && e->req[e->cons].done)
		retire(e);
}

static void quiesce(int me)
{
	struct end *e = &ends[me];
	struct stream *s = &pair_of(e)->s[!me];

	pair_of(e)->there[me] = false;
	e->failing = true;
	e->attempt = 0;
	MUST(agg_fence_quiet(&e->f, s->executed, e->recvs), "quiet");
}

static void classify(struct end *e)
{
	u32 executed = agg_psn_expand(e->psn_cons, e->f.peer.psn);
	u32 takes = e->takes;

	MUST(executed - e->psn_cons <= e->psn - e->psn_cons, "impossible");
	for (int i = e->cons; i < e->issue; i++) {
		struct req *r = &e->req[i];
		bool was = (s32)(r->end - executed) <= 0;

		if (r->done)
			continue;
		takes += was && r->kind == SEND;
		r->done = agg_fate_of(was, r->kind == READ, false) == AGG_FATE_DONE;
	}
	MUST(takes == e->f.peer.recvs, "rule 4: %u, not %u", takes, e->f.peer.recvs);
	while (e->cons < e->issue && e->req[e->cons].done)
		retire(e);
	e->issue = e->cons;
	e->psn = 0;
	e->psn_cons = 0;
	e->takes = 0;
}

static void learn(struct end *e, const struct mail *m)
{
	int ret;

	if (!m->frozen)
		return;
	ret = agg_fence_learn(&e->f, &m->f);
	MUST(ret >= 0, "contradiction");
	if (ret == 1)
		classify(e);
}

static void attach(struct end *e, u32 epoch)
{
	agg_fence_attach(&e->f, epoch);
	e->recvs = 0;
	e->failing = false;
	e->attempts = 0;
}

static void take_offer(int me, const struct mail *m)
{
	struct end *e = &ends[me];

	switch (agg_fence_offered(&e->f, m->epoch, &m->f)) {
	case AGG_FENCE_REPEAT:
		post(!me, YES, m->epoch, NULL);
		break;
	case AGG_FENCE_TAKE:
		learn(e, m);
		if (tap_rand() % 4 == 0) {
			agg_fence_refuse(&e->f, m->epoch);
			post(!me, NO, m->epoch, NULL);
			break;
		}
		attach(e, m->epoch);
		pairs[m->epoch].there[me] = true;
		post(!me, YES, m->epoch, NULL);
		break;
	case AGG_FENCE_REFUSE:
		post(!me, NO, m->epoch, NULL);
		break;
	case AGG_FENCE_STALE:
		break;
	default:
		MUST(false, "an offer of epoch %u in state %d", m->epoch, e->f.state);
	}
}

static void take_move(int me, const struct mail *m)
{
	struct end *e = &ends[me];
	int answer = AGREED;

	switch (agg_fence_move(&e->f, m->epoch, m->attempt, e->cons == e->issue)) {
	case AGG_FENCE_DRAIN:
		MUST(e->cons == e->issue, "busy");
		quiesce(me);
		fallthrough;
	case AGG_FENCE_ANSWER:
		break;
	case AGG_FENCE_REFUSE:
		answer = BUSY;
		break;
	case AGG_FENCE_STALE:
		return;
	default:
		MUST(false, "a MOVE of epoch %u in state %d", m->epoch, e->f.state);
		return;
	}
	post_move(!me, answer, m->epoch, m->attempt);
}

/* What comes of it at the leader, in time or late. */
static void moved(int me, const struct mail *m)
{
	struct end *e = &ends[me];

	if (e->f.state != AGG_FENCE_LIVE || e->f.epoch != m->epoch || e->attempt != m->attempt)
		return;
	if (m->what == BUSY) {
		e->attempt = 0;
		return;
	}
	moves++;
	quiesce(me);
}

static void deliver(const struct mail *m)
{
	struct end *e = &ends[m->to];
	int me = m->to;

	switch (m->what) {
	case FENCE:
		switch (agg_fence_asked(&e->f, m->epoch)) {
		case AGG_FENCE_DRAIN:
			quiesce(me);
			fallthrough;
		case AGG_FENCE_ANSWER:
			learn(e, m);
			post(!me, ANSWER, m->epoch, &e->f.own);
			break;
		case AGG_FENCE_STALE:
			break;
		default:
			MUST(false, "a FENCE of epoch %u in state %d", m->epoch, e->f.state);
		}
		break;
	case ANSWER:
		learn(e, m);
		break;
	case OFFER:
		take_offer(me, m);
		break;
	case YES:
		if (e->f.state == AGG_FENCE_OFFERED && e->f.epoch == m->epoch) {
			attach(e, m->epoch);
			pairs[m->epoch].there[me] = true;
		}
		break;
	case NO:
		if (e->f.epoch == m->epoch)
			agg_fence_turned_down(&e->f);
		break;
	case MOVE:
		take_move(me, m);
		break;
	case AGREED:
	case BUSY:
		moved(me, m);
		break;
	}
}

static void speak(int me)
{
	struct end *e = &ends[me];

	switch (e->f.state) {
	case AGG_FENCE_LIVE:
		/* It asks, repeats what it asked, or gives up. */
		if (!e->f.leader || e->cons != e->issue || e->f.epoch + 20 >= PAIRS)
			break;
		if (e->attempt && tap_rand() % 2) {
			e->attempt = 0;
			break;
		}
		if (!e->attempt)
			e->attempt = ++e->attempts;
		post_move(!me, MOVE, e->f.epoch, e->attempt);
		break;
	case AGG_FENCE_QUIET:
		post(!me, FENCE, e->f.own.epoch, &e->f.own);
		break;
	case AGG_FENCE_KNOWN:
		if (e->f.epoch + 1 < PAIRS && agg_fence_offer(&e->f))
			post(!me, OFFER, e->f.epoch, &e->f.own);
		else if (!e->f.leader)
			post(!me, FENCE, e->f.own.epoch, &e->f.own);
		break;
	case AGG_FENCE_OFFERED:
		post(!me, OFFER, e->f.epoch, &e->f.own);
		break;
	default:
		break;
	}
}

static void mail(bool reliable)
{
	int i = tap_rand() % mails;
	struct mail m = bag[i];

	/* Some are lost, some come again, and again. */
	if (reliable || tap_rand() % 4)
		bag[i] = bag[--mails];
	if (reliable || tap_rand() % 8)
		deliver(&m);
}

static bool round_trip(int *failures)
{
	int steps;

	memset(ends, 0, sizeof(ends));
	memset(pairs, 0, sizeof(pairs));
	mails = 0;
	broken = false;
	for (int me = 0; me < 2; me++) {
		agg_fence_init(&ends[me].f, !me, 0);
		pairs[0].there[me] = true;
		ends[me].last_send = -1;
		for (int i = 0; i < REQS; i++) {
			ends[me].req[i].kind = tap_rand() % 3;
			ends[me].req[i].packets = 1 + tap_rand() % 4;
		}
	}

	for (steps = 0; steps < 200000 && !broken; steps++) {
		int me = tap_rand() % 2;
		struct end *e = &ends[me];
		bool late = steps > 20000;

		if (ends[0].cons == REQS && ends[1].cons == REQS)
			break;
		switch (tap_rand() % 16) {
		case 0:
			if (!late && e->f.state == AGG_FENCE_LIVE && e->f.epoch + 20 < PAIRS) {
				quiesce(me);
				++*failures;
			}
			break;
		case 1 ... 4:
			issue(me);
			break;
		case 5 ... 8:
			/* Also on a pair that the sender has left already. */
			execute(me, e->f.epoch - (e->f.epoch && tap_rand() % 4 == 0));
			break;
		case 9 ... 11:
			ack(me);
			break;
		case 12:
			speak(me);
			break;
		default:
			if (mails)
				mail(late);
			break;
		}
	}
	for (int me = 0; me < 2; me++) {
		int sends = 0;

		for (int i = 0; i < REQS; i++)
			sends += ends[me].req[i].kind == SEND;
		MUST(ends[me].cons == REQS, "end %d stops at %d, state %d", me, ends[me].cons,
		     ends[me].f.state);
		MUST(ends[!me].got == sends, "%d of %d SENDs arrived", ends[!me].got, sends);
	}
	return !broken;
}

TEST(two_ends)
{
	int failures = 0, n;

	for (n = 0; n < 1500; n++)
		if (!round_trip(&failures))
			break;
	CHECK(failures > 3000, "only %d failures in %d rounds", failures, n);
	CHECK(moves > 1000, "only %d moves", moves);
}

int main(void)
{
	RUN(packets);
	RUN(expand);
	RUN(fate);
	RUN(frozen_once);
	RUN(refusals);
	RUN(moves);
	RUN(two_ends);
	return tap_end();
}
