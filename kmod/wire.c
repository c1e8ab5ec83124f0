// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Codec of the session's messages: pure, see wire.h.
 *
 * Both directions walk the message with a cursor that knows what is left, so
 * no field is read or written without a check, and one check at the end tells
 * whether any of them failed. What a newer version appends to a message is
 * skipped; what it appends to a lane is skipped by the stride told with the
 * table.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "wire.h"

#define MAX_24BIT	0xffffffu
#define LANE_LEN	(5 + AGG_WIRE_LANE_GIDS * AGG_WIRE_GID_LEN + 20)

struct reader {
	const u8 *p;
	size_t left;
	bool bad;
};

struct writer {
	u8 *start;
	u8 *p;
	size_t left;
	bool bad;
};

/* ---- Cursors ---- */

static const u8 *rd_skip(struct reader *r, size_t n)
{
	const u8 *p = r->p;

	if (r->bad || n > r->left) {
		r->bad = true;
		return NULL;
	}
	r->p += n;
	r->left -= n;
	return p;
}

static u64 rd_uint(struct reader *r, unsigned int n)
{
	const u8 *p = rd_skip(r, n);
	u64 v = 0;

	if (!p)
		return 0;
	while (n--)
		v = v << 8 | *p++;
	return v;
}

static u8 rd8(struct reader *r)
{
	return rd_uint(r, 1);
}

static u16 rd16(struct reader *r)
{
	return rd_uint(r, 2);
}

static u32 rd32(struct reader *r)
{
	return rd_uint(r, 4);
}

static u64 rd64(struct reader *r)
{
	return rd_uint(r, 8);
}

static void rd_bytes(struct reader *r, void *to, size_t n)
{
	const u8 *p = rd_skip(r, n);

	if (p)
		memcpy(to, p, n);
	else
		memset(to, 0, n);
}

/* A value that must not be above @max. */
static u32 rd_max(struct reader *r, unsigned int n, u32 max)
{
	u32 v = rd_uint(r, n);

	if (v > max)
		r->bad = true;
	return v;
}

static void wr_uint(struct writer *w, u64 v, unsigned int n)
{
	if (w->bad || n > w->left) {
		w->bad = true;
		return;
	}
	w->left -= n;
	while (n--)
		*w->p++ = v >> (8 * n);
}

static void wr8(struct writer *w, u8 v)
{
	wr_uint(w, v, 1);
}

static void wr16(struct writer *w, u16 v)
{
	wr_uint(w, v, 2);
}

static void wr32(struct writer *w, u32 v)
{
	wr_uint(w, v, 4);
}

static void wr64(struct writer *w, u64 v)
{
	wr_uint(w, v, 8);
}

static void wr_bytes(struct writer *w, const void *from, size_t n)
{
	if (w->bad || n > w->left) {
		w->bad = true;
		return;
	}
	memcpy(w->p, from, n);
	w->p += n;
	w->left -= n;
}

/* ---- Header ---- */

static struct writer wr_begin(u8 *buf, size_t size, u8 type, u8 flags, u32 id)
{
	struct writer w = { .start = buf, .p = buf, .left = size };

	if (w.left > AGG_WIRE_MAX_LEN)
		w.left = AGG_WIRE_MAX_LEN;
	wr16(&w, 0);		/* the length, by wr_end() */
	wr8(&w, AGG_WIRE_VERSION);
	wr8(&w, type);
	wr8(&w, flags);
	wr8(&w, 0);
	wr16(&w, 0);
	wr32(&w, id);
	return w;
}

static int wr_end(struct writer *w)
{
	size_t len = w->p - w->start;

	if (w->bad)
		return -EMSGSIZE;
	w->start[0] = len >> 8;
	w->start[1] = len;
	return len;
}

/* @len is what agg_wire_frame() returned, so the header is there. */
static struct reader rd_begin(const u8 *msg, size_t len)
{
	struct reader r = { .p = msg, .left = len };

	rd_skip(&r, AGG_WIRE_HDR_LEN);
	return r;
}

static int rd_end(const struct reader *r)
{
	return r->bad ? -EBADMSG : 0;
}

/**
 * agg_wire_frame - find the first message in a stream of bytes
 * @buf: bytes received
 * @have: how many
 * @hdr: its header, filled when the message is complete
 *
 * Context: any; pure.
 * Return: length of the message in bytes, 0 if more bytes are needed, or
 * -EBADMSG if the stream cannot be understood. Neither version nor type are
 * judged.
 */
int agg_wire_frame(const u8 *buf, size_t have, struct agg_wire_hdr *hdr)
{
	struct reader r = { .p = buf, .left = have };
	u16 len;

	if (have < 2)
		return 0;

	/* A length that cannot be is refused before the rest is waited for. */
	len = rd16(&r);
	if (len < AGG_WIRE_HDR_LEN || len > AGG_WIRE_MAX_LEN)
		return -EBADMSG;
	if (have < len)
		return 0;

	hdr->len = len;
	hdr->version = rd8(&r);
	hdr->type = rd8(&r);
	hdr->flags = rd8(&r);
	rd_skip(&r, 3);
	hdr->id = rd32(&r);
	return len;
}

/**
 * agg_wire_put_empty - encode a message without a body (PING, BYE)
 * @buf: where to
 * @size: room in @buf
 * @type: enum agg_wire_type
 * @flags: AGG_WIRE_F_*
 * @id: request id
 *
 * Context: any; pure.
 * Return: length in bytes or -EMSGSIZE.
 */
int agg_wire_put_empty(u8 *buf, size_t size, u8 type, u8 flags, u32 id)
{
	struct writer w = wr_begin(buf, size, type, flags, id);

	return wr_end(&w);
}

/* ---- HELLO, LANE ---- */

static void wr_lanes(struct writer *w, const struct agg_wire_lanes *m)
{
	const struct agg_wire_lane *l;
	unsigned int i;

	if (m->nr > AGG_WIRE_MAX_LANES) {
		w->bad = true;
		return;
	}
	wr64(w, m->instance);
	wr32(w, m->epoch);
	wr16(w, LANE_LEN);
	wr8(w, m->nr);
	for (i = 0; i < m->nr; i++) {
		l = &m->lane[i];
		wr8(w, l->id);
		wr8(w, l->rail);
		wr8(w, l->state);
		wr8(w, l->mtu);
		wr8(w, l->nr_gids);
		wr_bytes(w, l->gid, sizeof(l->gid));
		wr32(w, l->speed);
		wr32(w, l->weight);
		wr32(w, l->poison_rkey);
		wr32(w, l->probe_qpn);
		wr32(w, l->probe_qkey);
	}
}

static void rd_lane(struct reader *r, struct agg_wire_lane *l)
{
	l->id = rd_max(r, 1, AGG_WIRE_MAX_LANES - 1);
	l->rail = rd8(r);
	l->state = rd8(r);
	l->mtu = rd_max(r, 1, 5);
	if (!l->mtu)
		r->bad = true;
	l->nr_gids = rd_max(r, 1, AGG_WIRE_LANE_GIDS);
	rd_bytes(r, l->gid, sizeof(l->gid));
	l->speed = rd32(r);
	l->weight = rd32(r);
	l->poison_rkey = rd32(r);
	l->probe_qpn = rd_max(r, 4, MAX_24BIT);
	l->probe_qkey = rd32(r);
}

static void rd_lanes(struct reader *r, struct agg_wire_lanes *m)
{
	unsigned int seen = 0;
	u16 stride;
	u8 i;

	m->instance = rd64(r);
	m->epoch = rd32(r);
	stride = rd16(r);
	m->nr = rd_max(r, 1, AGG_WIRE_MAX_LANES);
	if (m->nr && stride < LANE_LEN)
		r->bad = true;
	for (i = 0; i < m->nr && !r->bad; i++) {
		struct agg_wire_lane *l = &m->lane[i];

		rd_lane(r, l);
		rd_skip(r, stride - LANE_LEN);
		if (r->bad)
			break;
		if (seen & 1u << l->id)
			r->bad = true;
		seen |= 1u << l->id;
	}
	if (r->bad)
		m->nr = 0;
}

/**
 * agg_wire_put_hello - encode HELLO or its reply
 * @buf: where to
 * @size: room in @buf
 * @flags: AGG_WIRE_F_*
 * @id: request id
 * @m: the message
 *
 * Context: any; pure.
 * Return: length in bytes or -EMSGSIZE.
 */
int agg_wire_put_hello(u8 *buf, size_t size, u8 flags, u32 id, const struct agg_wire_hello *m)
{
	struct writer w = wr_begin(buf, size, AGG_WIRE_HELLO, flags, id);

	wr32(&w, AGG_WIRE_MAGIC);
	wr8(&w, m->flags);
	wr64(&w, m->features);
	wr64(&w, m->guid);
	wr_bytes(&w, m->sgid, sizeof(m->sgid));
	wr_bytes(&w, m->dgid, sizeof(m->dgid));
	wr_bytes(&w, m->nonce, sizeof(m->nonce));
	wr_bytes(&w, m->name, sizeof(m->name));
	wr_lanes(&w, &m->lanes);
	return wr_end(&w);
}

/**
 * agg_wire_get_hello - decode HELLO or its reply
 * @msg: a complete message
 * @len: its length in bytes
 * @m: the result, all of it initialised also on failure except unused lanes
 *
 * Context: any; pure.
 * Return: 0 or -EBADMSG.
 */
int agg_wire_get_hello(const u8 *msg, size_t len, struct agg_wire_hello *m)
{
	struct reader r = rd_begin(msg, len);
	unsigned int i;

	if (rd32(&r) != AGG_WIRE_MAGIC)
		r.bad = true;
	m->flags = rd8(&r);
	m->features = rd64(&r);
	m->guid = rd64(&r);
	rd_bytes(&r, m->sgid, sizeof(m->sgid));
	rd_bytes(&r, m->dgid, sizeof(m->dgid));
	rd_bytes(&r, m->nonce, sizeof(m->nonce));
	rd_bytes(&r, m->name, sizeof(m->name));
	rd_lanes(&r, &m->lanes);

	/* It goes to the log: nothing that a terminal would obey. */
	m->name[sizeof(m->name) - 1] = '\0';
	for (i = 0; m->name[i]; i++)
		if (m->name[i] < ' ' || m->name[i] > '~')
			m->name[i] = '?';
	memset(m->name + i, 0, sizeof(m->name) - i);
	return rd_end(&r);
}

/**
 * agg_wire_put_lanes - encode LANE
 * @buf: where to
 * @size: room in @buf
 * @m: the table
 *
 * Context: any; pure.
 * Return: length in bytes or -EMSGSIZE.
 */
int agg_wire_put_lanes(u8 *buf, size_t size, const struct agg_wire_lanes *m)
{
	struct writer w = wr_begin(buf, size, AGG_WIRE_LANE, 0, 0);

	wr_lanes(&w, m);
	return wr_end(&w);
}

/**
 * agg_wire_get_lanes - decode LANE
 * @msg: a complete message
 * @len: its length in bytes
 * @m: the result
 *
 * Context: any; pure.
 * Return: 0 or -EBADMSG.
 */
int agg_wire_get_lanes(const u8 *msg, size_t len, struct agg_wire_lanes *m)
{
	struct reader r = rd_begin(msg, len);

	rd_lanes(&r, m);
	return rd_end(&r);
}

/* ---- CHALLENGE, AUTH, ERROR ---- */

/**
 * agg_wire_put_challenge - encode CHALLENGE
 * @buf: where to
 * @size: room in @buf
 * @id: id of the HELLO it answers
 * @m: the message
 *
 * Context: any; pure.
 * Return: length in bytes or -EMSGSIZE.
 */
int agg_wire_put_challenge(u8 *buf, size_t size, u32 id, const struct agg_wire_challenge *m)
{
	struct writer w = wr_begin(buf, size, AGG_WIRE_CHALLENGE, AGG_WIRE_F_REPLY, id);

	wr_bytes(&w, m->nonce, sizeof(m->nonce));
	return wr_end(&w);
}

/**
 * agg_wire_get_challenge - decode CHALLENGE
 * @msg: a complete message
 * @len: its length in bytes
 * @m: the result
 *
 * Context: any; pure.
 * Return: 0 or -EBADMSG.
 */
int agg_wire_get_challenge(const u8 *msg, size_t len, struct agg_wire_challenge *m)
{
	struct reader r = rd_begin(msg, len);

	rd_bytes(&r, m->nonce, sizeof(m->nonce));
	return rd_end(&r);
}

/**
 * agg_wire_put_auth - encode AUTH
 * @buf: where to
 * @size: room in @buf
 * @flags: AGG_WIRE_F_REPLY from the accepting side
 * @id: request id
 * @m: the message
 *
 * Context: any; pure.
 * Return: length in bytes or -EMSGSIZE.
 */
int agg_wire_put_auth(u8 *buf, size_t size, u8 flags, u32 id, const struct agg_wire_auth *m)
{
	struct writer w = wr_begin(buf, size, AGG_WIRE_AUTH, flags, id);

	wr_bytes(&w, m->mac, sizeof(m->mac));
	return wr_end(&w);
}

/**
 * agg_wire_get_auth - decode AUTH
 * @msg: a complete message
 * @len: its length in bytes
 * @m: the result
 *
 * Context: any; pure.
 * Return: 0 or -EBADMSG.
 */
int agg_wire_get_auth(const u8 *msg, size_t len, struct agg_wire_auth *m)
{
	struct reader r = rd_begin(msg, len);

	rd_bytes(&r, m->mac, sizeof(m->mac));
	return rd_end(&r);
}

/**
 * agg_wire_put_error - encode ERROR
 * @buf: where to
 * @size: room in @buf
 * @id: id of the message it answers, 0 if none
 * @m: the message
 *
 * Context: any; pure.
 * Return: length in bytes or -EMSGSIZE.
 */
int agg_wire_put_error(u8 *buf, size_t size, u32 id, const struct agg_wire_error *m)
{
	struct writer w = wr_begin(buf, size, AGG_WIRE_ERROR, AGG_WIRE_F_REPLY, id);

	wr16(&w, m->code);
	wr8(&w, m->version);
	return wr_end(&w);
}

/**
 * agg_wire_get_error - decode ERROR, of whatever version
 * @msg: a complete message
 * @len: its length in bytes
 * @m: the result
 *
 * Context: any; pure.
 * Return: 0 or -EBADMSG.
 */
int agg_wire_get_error(const u8 *msg, size_t len, struct agg_wire_error *m)
{
	struct reader r = rd_begin(msg, len);

	m->code = rd16(&r);
	m->version = rd8(&r);
	return rd_end(&r);
}

/* ---- ATTACH, DETACH ---- */

/**
 * agg_wire_put_attach - encode ATTACH, its reply, or DETACH
 * @buf: where to
 * @size: room in @buf
 * @type: AGG_WIRE_ATTACH or AGG_WIRE_DETACH
 * @flags: AGG_WIRE_F_*
 * @id: request id
 * @m: the message
 *
 * Context: any; pure.
 * Return: length in bytes or -EMSGSIZE.
 */
int agg_wire_put_attach(u8 *buf, size_t size, u8 type, u8 flags, u32 id,
			const struct agg_wire_attach *m)
{
	struct writer w = wr_begin(buf, size, type, flags, id);

	wr8(&w, m->kind);
	wr8(&w, m->status);
	wr8(&w, m->flags);
	wr64(&w, m->instance_src);
	wr64(&w, m->instance_dst);
	wr64(&w, m->cookie_src);
	wr64(&w, m->cookie_dst);
	wr32(&w, m->epoch);
	wr32(&w, m->sqpn);
	wr32(&w, m->dqpn);
	wr_bytes(&w, m->sgid, sizeof(m->sgid));
	wr_bytes(&w, m->dgid, sizeof(m->dgid));
	wr64(&w, m->lanes_ok);
	wr8(&w, m->slane);
	wr8(&w, m->dlane);
	wr32(&w, m->lane_qpn);
	wr32(&w, m->psn);
	wr_bytes(&w, m->lane_gid, sizeof(m->lane_gid));
	wr8(&w, m->mtu);
	wr8(&w, m->rnr_timer);
	wr8(&w, m->max_rd_atomic);
	wr8(&w, m->max_dest_rd_atomic);
	wr32(&w, m->frozen_epoch);
	wr32(&w, m->frozen_psn);
	wr32(&w, m->frozen_recvs);
	wr32(&w, m->attempt);
	return wr_end(&w);
}

/* A lane id or "not chosen": both index bitmaps at the receiver. */
static u8 rd_lane_id(struct reader *r)
{
	u8 v = rd8(r);

	if (v >= AGG_WIRE_MAX_LANES && v != AGG_WIRE_LANE_NONE)
		r->bad = true;
	return v;
}

/**
 * agg_wire_get_attach - decode ATTACH, its reply, or DETACH
 * @msg: a complete message
 * @len: its length in bytes
 * @m: the result; QP numbers and PSN have 24 bits, lanes are lane ids
 *
 * Context: any; pure.
 * Return: 0 or -EBADMSG.
 */
int agg_wire_get_attach(const u8 *msg, size_t len, struct agg_wire_attach *m)
{
	struct reader r = rd_begin(msg, len);

	m->kind = rd_max(&r, 1, AGG_WIRE_MOVE);
	if (m->kind < AGG_WIRE_ASK)
		r.bad = true;
	m->status = rd8(&r);
	m->flags = rd8(&r);
	m->instance_src = rd64(&r);
	m->instance_dst = rd64(&r);
	m->cookie_src = rd64(&r);
	m->cookie_dst = rd64(&r);
	m->epoch = rd32(&r);
	m->sqpn = rd_max(&r, 4, MAX_24BIT);
	m->dqpn = rd_max(&r, 4, MAX_24BIT);
	rd_bytes(&r, m->sgid, sizeof(m->sgid));
	rd_bytes(&r, m->dgid, sizeof(m->dgid));
	m->lanes_ok = rd64(&r);
	m->slane = rd_lane_id(&r);
	m->dlane = rd_lane_id(&r);
	m->lane_qpn = rd_max(&r, 4, MAX_24BIT);
	m->psn = rd_max(&r, 4, MAX_24BIT);
	rd_bytes(&r, m->lane_gid, sizeof(m->lane_gid));
	m->mtu = rd_max(&r, 1, 5);
	m->rnr_timer = rd_max(&r, 1, 31);
	m->max_rd_atomic = rd8(&r);
	m->max_dest_rd_atomic = rd8(&r);
	m->frozen_epoch = rd32(&r);
	m->frozen_psn = rd_max(&r, 4, MAX_24BIT);
	m->frozen_recvs = rd32(&r);
	m->attempt = rd32(&r);
	return rd_end(&r);
}

/* ---- KEY, KEY_GONE ---- */

/**
 * agg_wire_put_key - encode KEY or its reply
 * @buf: where to
 * @size: room in @buf
 * @flags: AGG_WIRE_F_*
 * @id: request id
 * @m: the message
 *
 * Context: any; pure.
 * Return: length in bytes or -EMSGSIZE.
 */
int agg_wire_put_key(u8 *buf, size_t size, u8 flags, u32 id, const struct agg_wire_key *m)
{
	struct writer w = wr_begin(buf, size, AGG_WIRE_KEY, flags, id);
	unsigned int i;

	wr32(&w, m->rkey);
	wr8(&w, m->status);
	wr32(&w, m->access);
	wr64(&w, m->iova);
	wr64(&w, m->length);
	wr8(&w, m->nr);
	if (m->nr > AGG_WIRE_MAX_LANES)
		return -EMSGSIZE;
	for (i = 0; i < m->nr; i++) {
		wr8(&w, m->lane[i].lane);
		wr32(&w, m->lane[i].rkey);
	}
	return wr_end(&w);
}

/**
 * agg_wire_get_key - decode KEY or its reply
 * @msg: a complete message
 * @len: its length in bytes
 * @m: the result
 *
 * Context: any; pure.
 * Return: 0 or -EBADMSG.
 */
int agg_wire_get_key(const u8 *msg, size_t len, struct agg_wire_key *m)
{
	struct reader r = rd_begin(msg, len);
	unsigned int seen = 0;
	u8 i, id;

	m->rkey = rd32(&r);
	m->status = rd8(&r);
	m->access = rd32(&r);
	m->iova = rd64(&r);
	m->length = rd64(&r);
	m->nr = rd_max(&r, 1, AGG_WIRE_MAX_LANES);
	for (i = 0; i < m->nr && !r.bad; i++) {
		id = rd_max(&r, 1, AGG_WIRE_MAX_LANES - 1);
		m->lane[i].lane = id;
		m->lane[i].rkey = rd32(&r);
		if (r.bad)
			break;
		if (seen & 1u << id)
			r.bad = true;
		seen |= 1u << id;
	}
	if (r.bad)
		m->nr = 0;
	return rd_end(&r);
}

/**
 * agg_wire_put_key_gone - encode KEY_GONE
 * @buf: where to
 * @size: room in @buf
 * @m: the message
 *
 * Context: any; pure.
 * Return: length in bytes or -EMSGSIZE.
 */
int agg_wire_put_key_gone(u8 *buf, size_t size, const struct agg_wire_key_gone *m)
{
	struct writer w = wr_begin(buf, size, AGG_WIRE_KEY_GONE, 0, 0);
	unsigned int i;

	if (m->nr > AGG_WIRE_MAX_GONE)
		return -EMSGSIZE;
	wr16(&w, m->nr);
	for (i = 0; i < m->nr; i++)
		wr32(&w, m->rkey[i]);
	return wr_end(&w);
}

/**
 * agg_wire_get_key_gone - decode KEY_GONE
 * @msg: a complete message
 * @len: its length in bytes
 * @m: the result
 *
 * Context: any; pure.
 * Return: 0 or -EBADMSG.
 */
int agg_wire_get_key_gone(const u8 *msg, size_t len, struct agg_wire_key_gone *m)
{
	struct reader r = rd_begin(msg, len);
	unsigned int i;

	m->nr = rd_max(&r, 2, AGG_WIRE_MAX_GONE);
	for (i = 0; i < m->nr && !r.bad; i++)
		m->rkey[i] = rd32(&r);
	if (r.bad)
		m->nr = 0;
	return rd_end(&r);
}
