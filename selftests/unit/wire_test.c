// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The codec of the session (kmod/wire.c): what is sent is what is understood,
 * and what is malformed is not.
 *
 *	wire_test --corpus DIR	writes the seeds of the fuzz target
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corpus.h"
#include "tap.h"
#include "wire.c"

#define WIRE_TEST
#include "fuzz_wire.c"

static u8 buf[2 * AGG_WIRE_MAX_LEN];

/* ---- Samples ---- */

static void fill(void *p, size_t n)
{
	u8 *b = p;

	while (n--)
		*b++ = tap_rand();
}

static void sample_lanes(struct agg_wire_lanes *m, u8 nr)
{
	u8 i;

	memset(m, 0, sizeof(*m));
	m->instance = tap_rand();
	m->epoch = tap_rand();
	m->nr = nr;
	for (i = 0; i < nr; i++) {
		struct agg_wire_lane *l = &m->lane[i];

		l->id = AGG_WIRE_MAX_LANES - 1 - i;
		l->rail = tap_rand();
		l->state = tap_rand();
		l->mtu = 1 + tap_rand() % 5;
		l->nr_gids = tap_rand() % (AGG_WIRE_LANE_GIDS + 1);
		fill(l->gid, sizeof(l->gid));
		l->speed = tap_rand();
		l->weight = tap_rand();
		l->poison_rkey = tap_rand();
		l->probe_qpn = tap_rand() & MAX_24BIT;
		l->probe_qkey = tap_rand();
	}
}

static void sample_hello(struct agg_wire_hello *m, u8 nr)
{
	memset(m, 0, sizeof(*m));
	m->flags = AGG_WIRE_HELLO_AUTH;
	m->features = tap_rand();
	m->guid = tap_rand();
	fill(m->sgid, sizeof(m->sgid));
	fill(m->dgid, sizeof(m->dgid));
	fill(m->nonce, sizeof(m->nonce));
	memcpy(m->name, "agg0", 4);
	sample_lanes(&m->lanes, nr);
}

static void sample_attach(struct agg_wire_attach *m)
{
	memset(m, 0, sizeof(*m));
	m->kind = AGG_WIRE_OFFER;
	m->status = AGG_WIRE_NO_LANE;
	m->flags = AGG_WIRE_ATTACH_NAMED | AGG_WIRE_ATTACH_FROZEN;
	m->instance_src = tap_rand();
	m->instance_dst = tap_rand();
	m->cookie_src = tap_rand();
	m->cookie_dst = tap_rand();
	m->epoch = tap_rand();
	m->sqpn = tap_rand() & MAX_24BIT;
	m->dqpn = tap_rand() & MAX_24BIT;
	fill(m->sgid, sizeof(m->sgid));
	fill(m->dgid, sizeof(m->dgid));
	m->lanes_ok = tap_rand();
	m->slane = 3;
	m->dlane = AGG_WIRE_LANE_NONE;
	m->lane_qpn = tap_rand() & MAX_24BIT;
	m->psn = tap_rand() & MAX_24BIT;
	fill(m->lane_gid, sizeof(m->lane_gid));
	m->mtu = 5;
	m->rnr_timer = 31;
	m->max_rd_atomic = tap_rand();
	m->max_dest_rd_atomic = tap_rand();
	m->frozen_epoch = tap_rand();
	m->frozen_psn = tap_rand() & MAX_24BIT;
	m->frozen_recvs = tap_rand();
	m->attempt = tap_rand();
}

static void sample_key(struct agg_wire_key *m, u8 nr)
{
	u8 i;

	memset(m, 0, sizeof(*m));
	m->rkey = tap_rand();
	m->status = AGG_WIRE_KEY_OK;
	m->nr = nr;
	m->access = tap_rand();
	m->iova = tap_rand();
	m->length = tap_rand();
	for (i = 0; i < nr; i++) {
		m->lane[i].lane = AGG_WIRE_MAX_LANES - 1 - i;
		m->lane[i].rkey = tap_rand();
	}
}

static void sample_gone(struct agg_wire_key_gone *m, u16 nr)
{
	u16 i;

	memset(m, 0, sizeof(*m));
	m->nr = nr;
	for (i = 0; i < nr; i++)
		m->rkey[i] = tap_rand();
}

/* The decoder must see only what is there: ASan watches the end. */
#define DECODER(name)							\
	static int get_##name(const u8 *msg, size_t len, void *m)	\
	{								\
		u8 *exact = malloc(len);				\
		int ret;						\
									\
		memcpy(exact, msg, len);				\
		ret = agg_wire_get_##name(exact, len, m);		\
		free(exact);						\
		return ret;						\
	}

DECODER(hello)
DECODER(lanes)
DECODER(challenge)
DECODER(auth)
DECODER(error)
DECODER(attach)
DECODER(key)
DECODER(key_gone)

/* What is in buf is @m.  Each truncation is refused, an unknown tail is skipped. */
static void ends(int (*get)(const u8 *msg, size_t len, void *m), int len, const void *m,
		 size_t size)
{
	void *out = calloc(1, size);
	int cut;

	for (cut = AGG_WIRE_HDR_LEN; cut < len; cut++)
		CHECK(get(buf, cut, out) == -EBADMSG, "cut to %d of %d", cut, len);
	fill(buf + len, 100);
	memset(out, 0, size);
	CHECK(!get(buf, len + 100, out), "tail");
	CHECK(!memcmp(out, m, size), "changed by a tail");
	free(out);
}

static void check_hdr(int len, u8 type, u8 flags, u32 id)
{
	struct agg_wire_hdr hdr;

	CHECK(len >= AGG_WIRE_HDR_LEN && len <= AGG_WIRE_MAX_LEN, "%d", len);
	CHECK(agg_wire_frame(buf, len, &hdr) == len, "frame of %d", len);
	CHECK(hdr.len == len, "%u", hdr.len);
	CHECK(hdr.version == AGG_WIRE_VERSION, "%u", hdr.version);
	CHECK(hdr.type == type, "%u", hdr.type);
	CHECK(hdr.flags == flags, "%u", hdr.flags);
	CHECK(hdr.id == id, "%u", hdr.id);
}

/* ---- Tests ---- */

TEST(empty)
{
	int len = agg_wire_put_empty(buf, sizeof(buf), AGG_WIRE_PING, AGG_WIRE_F_REPLY, 0xdeadbeef);

	check_hdr(len, AGG_WIRE_PING, AGG_WIRE_F_REPLY, 0xdeadbeef);
	CHECK(len == AGG_WIRE_HDR_LEN, "%d", len);
	CHECK(agg_wire_put_empty(buf, AGG_WIRE_HDR_LEN - 1, AGG_WIRE_BYE, 0, 0) == -EMSGSIZE,
	      "no room");
}

TEST(layout)
{
	/* What is on the wire is fixed: a change is a new version. */
	static const u8 want[] = {
		0, 15, 1, 4, 1, 0, 0, 0, 1, 2, 3, 4, 0, 3, 1,
	};
	struct agg_wire_error e = { .code = AGG_WIRE_ERR_AUTH, .version = 1 };
	struct agg_wire_attach a;
	struct agg_wire_key k;
	struct agg_wire_hello h;
	int len = agg_wire_put_error(buf, sizeof(buf), 0x01020304, &e);

	CHECK(len == sizeof(want) && !memcmp(buf, want, len), "ERROR has changed");
	sample_attach(&a);
	len = agg_wire_put_attach(buf, sizeof(buf), AGG_WIRE_ATTACH, 0, 1, &a);
	CHECK(len == 145, "ATTACH has %d bytes", len);
	CHECK(buf[15] == (u8)(a.instance_src >> 56), "first after the flags");
	sample_key(&k, 2);
	len = agg_wire_put_key(buf, sizeof(buf), 0, 1, &k);
	CHECK(len == 38 + 2 * 5, "KEY has %d bytes", len);
	sample_hello(&h, 0);
	len = agg_wire_put_hello(buf, sizeof(buf), 0, 1, &h);
	CHECK(len == 12 + 149 + 15, "HELLO has %d bytes", len);
	CHECK(!memcmp(buf + 12, "RAGG", 4), "magic");
}

TEST(hello)
{
	struct agg_wire_hello m, out;
	int len, nr;

	for (nr = 0; nr <= AGG_WIRE_MAX_LANES; nr++) {
		sample_hello(&m, nr);
		len = agg_wire_put_hello(buf, sizeof(buf), 0, 7, &m);
		check_hdr(len, AGG_WIRE_HELLO, 0, 7);
		memset(&out, 0, sizeof(out));
		CHECK(!get_hello(buf, len, &out), "%d lanes", nr);
		CHECK(!memcmp(&m, &out, sizeof(m)), "%d lanes differ", nr);
	}
	ends(get_hello, len, &m, sizeof(m));
	m.lanes.nr = AGG_WIRE_MAX_LANES + 1;
	CHECK(agg_wire_put_hello(buf, sizeof(buf), 0, 7, &m) == -EMSGSIZE, "too many lanes");
	m.lanes.nr = AGG_WIRE_MAX_LANES;
	CHECK(agg_wire_put_hello(buf, 512, 0, 7, &m) == -EMSGSIZE, "no room");
}

TEST(hello_magic_and_name)
{
	struct agg_wire_hello m, out;
	int len, i;

	sample_hello(&m, 1);
	len = agg_wire_put_hello(buf, sizeof(buf), 0, 7, &m);
	for (i = 0; i < 4; i++) {
		buf[12 + i] ^= 1;
		CHECK(get_hello(buf, len, &out) == -EBADMSG, "magic byte %d", i);
		buf[12 + i] ^= 1;
	}

	/* A name that would talk to a terminal, and has no end. */
	memset(m.name, 'x', sizeof(m.name));
	m.name[1] = '\n';
	m.name[2] = 0x1b;
	m.name[3] = (char)0x9b;
	len = agg_wire_put_hello(buf, sizeof(buf), 0, 7, &m);
	CHECK(!get_hello(buf, len, &out), "odd name");
	CHECK(strnlen(out.name, sizeof(out.name)) == sizeof(out.name) - 1, "end of the name");
	CHECK(!memcmp(out.name, "x???xx", 6), "%.6s", out.name);
}

TEST(lanes)
{
	struct agg_wire_lanes m, out;
	int len;

	sample_lanes(&m, AGG_WIRE_MAX_LANES);
	len = agg_wire_put_lanes(buf, sizeof(buf), &m);
	check_hdr(len, AGG_WIRE_LANE, 0, 0);
	memset(&out, 0, sizeof(out));
	CHECK(!get_lanes(buf, len, &out), "decode");
	CHECK(!memcmp(&m, &out, sizeof(m)), "differ");
	ends(get_lanes, len, &m, sizeof(m));
}

/* Offsets in LANE: header, instance, epoch, stride, number, lanes. */
#define STRIDE_AT	(AGG_WIRE_HDR_LEN + 12)
#define NR_AT		(STRIDE_AT + 2)
#define LANE_AT(i)	(NR_AT + 1 + (i) * LANE_LEN)

TEST(lanes_malformed)
{
	struct agg_wire_lanes m, out;
	int len, i;

	sample_lanes(&m, 3);
	len = agg_wire_put_lanes(buf, sizeof(buf), &m);
	CHECK(len == LANE_AT(3), "%d", len);
	for (i = 0; i < 256; i++) {
		buf[NR_AT] = i;
		CHECK(get_lanes(buf, len, &out) == (i > 3 ? -EBADMSG : 0), "number %d", i);
		CHECK(out.nr <= 3, "number %d gives %u", i, out.nr);
	}
	buf[NR_AT] = 3;

	for (i = 0; i < 0x10000; i += 0xff) {
		buf[STRIDE_AT] = i >> 8;
		buf[STRIDE_AT + 1] = i;
		CHECK(get_lanes(buf, len, &out) == -EBADMSG || i == LANE_LEN, "stride %d", i);
	}
	buf[STRIDE_AT] = 0;
	buf[STRIDE_AT + 1] = LANE_LEN;
	CHECK(!get_lanes(buf, len, &out), "restored");

	buf[LANE_AT(1)] = buf[LANE_AT(0)];
	CHECK(get_lanes(buf, len, &out) == -EBADMSG, "two lanes of one id");
	buf[LANE_AT(1)] = AGG_WIRE_MAX_LANES;
	CHECK(get_lanes(buf, len, &out) == -EBADMSG, "id");
	buf[LANE_AT(1)] = 0;
	CHECK(!get_lanes(buf, len, &out), "restored");
	buf[LANE_AT(2) + 3] = 0;
	CHECK(get_lanes(buf, len, &out) == -EBADMSG, "mtu 0");
	buf[LANE_AT(2) + 3] = 6;
	CHECK(get_lanes(buf, len, &out) == -EBADMSG, "mtu 6");
	buf[LANE_AT(2) + 3] = 1;
	buf[LANE_AT(2) + 4] = AGG_WIRE_LANE_GIDS + 1;
	CHECK(get_lanes(buf, len, &out) == -EBADMSG, "number of GIDs");
}

TEST(lanes_of_a_newer_version)
{
	struct agg_wire_lanes m, out;
	const int more = 9;
	u8 old[AGG_WIRE_MAX_LEN];
	int len, i;

	/* Each lane is longer than we know: the rest of it is skipped. */
	sample_lanes(&m, 3);
	len = agg_wire_put_lanes(old, sizeof(old), &m);
	memcpy(buf, old, LANE_AT(0));
	buf[STRIDE_AT + 1] = LANE_LEN + more;
	for (i = 0; i < 3; i++) {
		memcpy(buf + LANE_AT(i) + i * more, old + LANE_AT(i), LANE_LEN);
		fill(buf + LANE_AT(i + 1) + i * more, more);
	}
	len += 3 * more;
	memset(&out, 0, sizeof(out));
	CHECK(!get_lanes(buf, len, &out), "decode");
	CHECK(!memcmp(&m, &out, sizeof(m)), "differ");
	CHECK(get_lanes(buf, len - 1, &out) == -EBADMSG, "cut");
}

TEST(auth)
{
	struct agg_wire_challenge c, c2;
	struct agg_wire_auth a, a2;
	int len;

	fill(&c, sizeof(c));
	len = agg_wire_put_challenge(buf, sizeof(buf), 1, &c);
	check_hdr(len, AGG_WIRE_CHALLENGE, AGG_WIRE_F_REPLY, 1);
	CHECK(!get_challenge(buf, len, &c2) && !memcmp(&c, &c2, sizeof(c)), "challenge");
	ends(get_challenge, len, &c, sizeof(c));

	fill(&a, sizeof(a));
	len = agg_wire_put_auth(buf, sizeof(buf), 0, 2, &a);
	check_hdr(len, AGG_WIRE_AUTH, 0, 2);
	CHECK(!get_auth(buf, len, &a2) && !memcmp(&a, &a2, sizeof(a)), "auth");
	ends(get_auth, len, &a, sizeof(a));
}

TEST(error)
{
	struct agg_wire_error e, out;
	int len;

	memset(&e, 0, sizeof(e));
	e.code = 0xabcd;
	e.version = 77;
	len = agg_wire_put_error(buf, sizeof(buf), 3, &e);
	check_hdr(len, AGG_WIRE_ERROR, AGG_WIRE_F_REPLY, 3);
	memset(&out, 0, sizeof(out));
	CHECK(!get_error(buf, len, &out) && !memcmp(&e, &out, sizeof(e)), "error");
	ends(get_error, len, &e, sizeof(e));
}

TEST(attach)
{
	struct agg_wire_attach m, out;
	int len, i;

	for (i = 0; i < 100; i++) {
		sample_attach(&m);
		len = agg_wire_put_attach(buf, sizeof(buf), AGG_WIRE_DETACH, AGG_WIRE_F_REPLY, i,
					  &m);
		check_hdr(len, AGG_WIRE_DETACH, AGG_WIRE_F_REPLY, i);
		memset(&out, 0, sizeof(out));
		CHECK(!get_attach(buf, len, &out), "decode");
		CHECK(!memcmp(&m, &out, sizeof(m)), "differ");
	}
	CHECK(len <= 256, "longer than the callers' buffers: %d", len);
	ends(get_attach, len, &m, sizeof(m));
}

TEST(attach_malformed)
{
	struct agg_wire_attach m, out;
	int len;

#define BAD(field, value)						\
	do {								\
		sample_attach(&m);					\
		m.field = (value);					\
		len = agg_wire_put_attach(buf, sizeof(buf), AGG_WIRE_ATTACH, 0, 1, &m); \
		CHECK(get_attach(buf, len, &out) == -EBADMSG, #field);	\
	} while (0)

	BAD(kind, 0);
	BAD(kind, 200);
	BAD(sqpn, 0x1000000);
	BAD(dqpn, 0xffffffffu);
	BAD(lane_qpn, 0x1000000);
	BAD(psn, 0x1000000);
	BAD(slane, AGG_WIRE_MAX_LANES);
	BAD(dlane, 0xfe);
	BAD(mtu, 6);
	BAD(rnr_timer, 32);
#undef BAD
}

TEST(key)
{
	struct agg_wire_key m, out;
	int len, nr;

	for (nr = 0; nr <= AGG_WIRE_MAX_LANES; nr++) {
		sample_key(&m, nr);
		len = agg_wire_put_key(buf, sizeof(buf), AGG_WIRE_F_REPLY, 9, &m);
		check_hdr(len, AGG_WIRE_KEY, AGG_WIRE_F_REPLY, 9);
		memset(&out, 0, sizeof(out));
		CHECK(!get_key(buf, len, &out), "%d lanes", nr);
		CHECK(!memcmp(&m, &out, sizeof(m)), "%d lanes differ", nr);
	}
	CHECK(len <= 128, "longer than the callers' buffers: %d", len);
	ends(get_key, len, &m, sizeof(m));
	m.nr = AGG_WIRE_MAX_LANES + 1;
	CHECK(agg_wire_put_key(buf, sizeof(buf), 0, 9, &m) == -EMSGSIZE, "too many lanes");
}

TEST(key_malformed)
{
	const int nr_at = AGG_WIRE_HDR_LEN + 4 + 1 + 4 + 8 + 8;
	struct agg_wire_key m, out;
	int len, i;

	sample_key(&m, 4);
	len = agg_wire_put_key(buf, sizeof(buf), 0, 9, &m);
	for (i = 0; i < 256; i++) {
		buf[nr_at] = i;
		CHECK(get_key(buf, len, &out) == (i > 4 ? -EBADMSG : 0), "number %d", i);
		CHECK(out.nr <= 4, "number %d gives %u", i, out.nr);
	}
	buf[nr_at] = 4;
	buf[nr_at + 1] = AGG_WIRE_MAX_LANES;
	CHECK(get_key(buf, len, &out) == -EBADMSG, "lane id");
	buf[nr_at + 1] = buf[nr_at + 1 + 5];
	CHECK(get_key(buf, len, &out) == -EBADMSG, "a lane twice");
}

TEST(key_gone)
{
	struct agg_wire_key_gone m, out;
	int len, nr;

	for (nr = 0; nr <= AGG_WIRE_MAX_GONE; nr++) {
		sample_gone(&m, nr);
		len = agg_wire_put_key_gone(buf, sizeof(buf), &m);
		check_hdr(len, AGG_WIRE_KEY_GONE, 0, 0);
		memset(&out, 0, sizeof(out));
		CHECK(!get_key_gone(buf, len, &out), "%d keys", nr);
		CHECK(!memcmp(&m, &out, sizeof(m)), "%d keys differ", nr);
	}
	ends(get_key_gone, len, &m, sizeof(m));
	for (nr = AGG_WIRE_MAX_GONE + 1; nr < 0x10000; nr += 13) {
		buf[AGG_WIRE_HDR_LEN] = nr >> 8;
		buf[AGG_WIRE_HDR_LEN + 1] = nr;
		CHECK(get_key_gone(buf, len, &out) == -EBADMSG && !out.nr, "number %d", nr);
	}
	m.nr = AGG_WIRE_MAX_GONE + 1;
	CHECK(agg_wire_put_key_gone(buf, sizeof(buf), &m) == -EMSGSIZE, "too many keys");
}

/*
 * Any message of any kind: what is put is got; no shorter message is understood
 * and no smaller buffer is enough; a sender never writes more than it says.
 */
#define RANDOM_ONE(name, m, ...)						\
	do {									\
		u8 *room, out[sizeof(m)];					\
		struct agg_wire_hdr hdr;					\
		int len, cut;							\
										\
		len = agg_wire_put_##name(buf, sizeof(buf), ##__VA_ARGS__, &(m)); \
		CHECK(len > 0 && agg_wire_frame(buf, len, &hdr) == len, #name ": %d", len); \
		if (len <= 0)							\
			break;							\
		memset(out, 0, sizeof(out));					\
		CHECK(!get_##name(buf, len, out), #name);			\
		CHECK(!memcmp(&(m), out, sizeof(m)), #name " differs");		\
		for (int k = 0; k < 24; k++) {					\
			cut = k < 4 ? len - 1 - k : (int)(tap_rand() % len);	\
			if (cut >= AGG_WIRE_HDR_LEN)				\
				CHECK(get_##name(buf, cut, out) == -EBADMSG,	\
				      #name " cut to %d of %d", cut, len);	\
			room = malloc(cut);					\
			CHECK(agg_wire_put_##name(room, cut, ##__VA_ARGS__, &(m)) == -EMSGSIZE, \
			      #name " of %d into %d", len, cut);		\
			free(room);						\
		}								\
		room = malloc(len);						\
		CHECK(agg_wire_put_##name(room, len, ##__VA_ARGS__, &(m)) == len, #name); \
		CHECK(!memcmp(room, buf, len), #name " depends on the room");	\
		free(room);							\
	} while (0)

TEST(random_messages)
{
	static struct agg_wire_key_gone gone;
	static struct agg_wire_lanes lanes;
	static struct agg_wire_hello hello;
	struct agg_wire_challenge challenge;
	struct agg_wire_attach attach;
	struct agg_wire_error error;
	struct agg_wire_auth auth;
	struct agg_wire_key key;

	for (int i = 0; i < 400; i++) {
		u32 id = tap_rand();
		u8 flags = tap_rand() % 2 ? AGG_WIRE_F_REPLY : 0;
		u8 type = tap_rand() % 2 ? AGG_WIRE_ATTACH : AGG_WIRE_DETACH;

		sample_hello(&hello, tap_rand() % (AGG_WIRE_MAX_LANES + 1));
		for (int k = tap_rand() % (sizeof(hello.name) - 1); k >= 0; k--)
			hello.name[k] = ' ' + 1 + tap_rand() % 94;
		RANDOM_ONE(hello, hello, flags, id);
		sample_lanes(&lanes, tap_rand() % (AGG_WIRE_MAX_LANES + 1));
		RANDOM_ONE(lanes, lanes);
		fill(&challenge, sizeof(challenge));
		RANDOM_ONE(challenge, challenge, id);
		fill(&auth, sizeof(auth));
		RANDOM_ONE(auth, auth, flags, id);
		memset(&error, 0, sizeof(error));
		error.code = tap_rand();
		error.version = tap_rand();
		RANDOM_ONE(error, error, id);
		sample_attach(&attach);
		attach.status = tap_rand();
		attach.slane = tap_rand() % AGG_WIRE_MAX_LANES;
		attach.dlane = tap_rand() % AGG_WIRE_MAX_LANES;
		attach.mtu = 1 + tap_rand() % 5;
		attach.rnr_timer = tap_rand() % 32;
		RANDOM_ONE(attach, attach, type, flags, id);
		sample_key(&key, tap_rand() % (AGG_WIRE_MAX_LANES + 1));
		key.status = tap_rand();
		RANDOM_ONE(key, key, flags, id);
		sample_gone(&gone, tap_rand() % (AGG_WIRE_MAX_GONE + 1));
		RANDOM_ONE(key_gone, gone);
	}
}

TEST(frame_length)
{
	struct agg_wire_hdr hdr;
	int i, want;

	memset(buf, 0, sizeof(buf));
	for (i = 0; i < 0x10000; i++) {
		buf[0] = i >> 8;
		buf[1] = i;
		want = i < AGG_WIRE_HDR_LEN || i > AGG_WIRE_MAX_LEN ? -EBADMSG : i;
		CHECK(agg_wire_frame(buf, sizeof(buf), &hdr) == want, "length %d", i);
		/* What cannot be is known from two bytes; the rest is waited for. */
		CHECK(agg_wire_frame(buf, 2, &hdr) == (want < 0 ? want : 0), "length %d early", i);
	}
	CHECK(agg_wire_frame(buf, 0, &hdr) == 0, "nothing");
	CHECK(agg_wire_frame(buf, 1, &hdr) == 0, "one byte");
}

TEST(reassembly)
{
	static u8 stream[64 * AGG_WIRE_MAX_LEN], win[AGG_WIRE_MAX_LEN];
	size_t total = 0, fed = 0, have = 0, n;
	struct agg_wire_lanes lanes;
	struct agg_wire_attach a;
	struct agg_wire_hdr hdr;
	u32 sent = 0, seen = 0;
	int len;

	/* Messages of many sizes, in pieces of any size, in a window of one. */
	while (total + AGG_WIRE_MAX_LEN < sizeof(stream)) {
		switch (tap_rand() % 3) {
		case 0:
			sample_lanes(&lanes, tap_rand() % 17);
			len = agg_wire_put_lanes(stream + total, AGG_WIRE_MAX_LEN, &lanes);
			break;
		case 1:
			sample_attach(&a);
			len = agg_wire_put_attach(stream + total, AGG_WIRE_MAX_LEN,
						  AGG_WIRE_ATTACH, 0, 0, &a);
			break;
		default:
			len = agg_wire_put_empty(stream + total, AGG_WIRE_MAX_LEN, AGG_WIRE_PING,
						 0, 0);
			break;
		}
		/* Number them: the id is the last word of the header. */
		stream[total + 8] = sent >> 24;
		stream[total + 9] = sent >> 16;
		stream[total + 10] = sent >> 8;
		stream[total + 11] = sent;
		sent++;
		total += len;
	}
	while (fed < total || have) {
		len = agg_wire_frame(win, have, &hdr);
		CHECK(len >= 0, "lost in the stream");
		if (len < 0)
			break;
		if (len) {
			CHECK(hdr.id == seen, "message %u is %u", seen, hdr.id);
			seen++;
			have -= len;
			memmove(win, win + len, have);
			continue;
		}
		n = 1 + tap_rand() % 1500;
		if (n > sizeof(win) - have)
			n = sizeof(win) - have;
		if (n > total - fed)
			n = total - fed;
		CHECK(n, "a message that is never complete");
		if (!n)
			break;
		memcpy(win + have, stream + fed, n);
		have += n;
		fed += n;
	}
	CHECK(seen == sent, "%u of %u", seen, sent);
}

/* ---- The fuzz target, a little ---- */

static size_t seed(int i, u8 *p)
{
	struct agg_wire_key_gone gone;
	struct agg_wire_challenge c;
	struct agg_wire_lanes lanes;
	struct agg_wire_attach a;
	struct agg_wire_hello h;
	struct agg_wire_error e;
	struct agg_wire_auth au;
	struct agg_wire_key k;
	int n;

	switch (i) {
	case 0:
		sample_hello(&h, 2);
		return agg_wire_put_hello(p, AGG_WIRE_MAX_LEN, 0, 1, &h);
	case 1:
		sample_hello(&h, 0);
		return agg_wire_put_hello(p, AGG_WIRE_MAX_LEN, AGG_WIRE_F_REPLY, 1, &h);
	case 2:
		fill(&c, sizeof(c));
		return agg_wire_put_challenge(p, AGG_WIRE_MAX_LEN, 1, &c);
	case 3:
		fill(&au, sizeof(au));
		return agg_wire_put_auth(p, AGG_WIRE_MAX_LEN, 0, 1, &au);
	case 4:
		e = (struct agg_wire_error){ AGG_WIRE_ERR_VERSION, 2 };
		return agg_wire_put_error(p, AGG_WIRE_MAX_LEN, 1, &e);
	case 5:
		sample_attach(&a);
		return agg_wire_put_attach(p, AGG_WIRE_MAX_LEN, AGG_WIRE_ATTACH, 0, 9, &a);
	case 6:
		sample_key(&k, 4);
		return agg_wire_put_key(p, AGG_WIRE_MAX_LEN, AGG_WIRE_F_REPLY, 9, &k);
	case 7:
		sample_gone(&gone, 3);
		return agg_wire_put_key_gone(p, AGG_WIRE_MAX_LEN, &gone);
	case 8:
		sample_lanes(&lanes, 4);
		return agg_wire_put_lanes(p, AGG_WIRE_MAX_LEN, &lanes);
	case 9:		/* a stream */
		n = agg_wire_put_empty(p, AGG_WIRE_MAX_LEN, AGG_WIRE_PING, 0, 1);
		sample_key(&k, 0);
		n += agg_wire_put_key(p + n, AGG_WIRE_MAX_LEN, 0, 5, &k);
		n += agg_wire_put_empty(p + n, AGG_WIRE_MAX_LEN, AGG_WIRE_BYE, 0, 0);
		return n;
	case 10:	/* impossible length */
		memset(p, 0xff, 16);
		return 16;
	case 11:	/* half of a message */
		sample_attach(&a);
		return agg_wire_put_attach(p, AGG_WIRE_MAX_LEN, AGG_WIRE_ATTACH, 0, 9, &a) / 2;
	default:
		return 0;
	}
}

static int write_corpus(const char *dir)
{
	char path[4200];
	size_t len;
	FILE *f;
	int i;

	tap_seed = 1;
	for (i = 0; (len = seed(i, buf)); i++) {
		snprintf(path, sizeof(path), "%s/seed%02d", dir, i);
		f = fopen(path, "wb");
		if (!f || fwrite(buf, 1, len, f) != len || fclose(f)) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

static void mutate(u8 *p, size_t *len)
{
	int n = 1 + tap_rand() % 8;
	size_t at;

	while (n-- && *len) {
		at = tap_rand() % *len;
		switch (tap_rand() % 5) {
		case 0:
			p[at] ^= 1 << tap_rand() % 8;
			break;
		case 1:
			p[at] = tap_rand();
			break;
		case 2:
			p[at] = tap_rand() % 2 ? 0xff : 0;
			break;
		case 3:		/* shorter, and the header knows */
			*len = at;
			if (at >= 2) {
				p[0] = at >> 8;
				p[1] = at;
			}
			break;
		default:	/* longer */
			fill(p + *len, 16);
			*len += 16;
			break;
		}
	}
}

TEST(fuzz_seeds)
{
	static u8 one[AGG_WIRE_MAX_LEN + 256];
	size_t len;
	int i, j;

	for (i = 0; (len = seed(i, buf)); i++) {
		fuzz_one_input(buf, len);
		for (j = 0; j < 3000; j++) {
			size_t n = len;

			memcpy(one, buf, len);
			mutate(one, &n);
			fuzz_one_input(one, n);
		}
	}
}

TEST(fuzz_corpus)
{
	corpus_run("wire", fuzz_one_input, 12);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--corpus"))
		return write_corpus(argv[2]);

	RUN(empty);
	RUN(layout);
	RUN(hello);
	RUN(hello_magic_and_name);
	RUN(lanes);
	RUN(lanes_malformed);
	RUN(lanes_of_a_newer_version);
	RUN(auth);
	RUN(error);
	RUN(attach);
	RUN(attach_malformed);
	RUN(key);
	RUN(key_malformed);
	RUN(key_gone);
	RUN(random_messages);
	RUN(frame_length);
	RUN(reassembly);
	RUN(fuzz_seeds);
	RUN(fuzz_corpus);
	return tap_end();
}
