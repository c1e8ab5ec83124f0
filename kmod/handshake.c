// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * HELLO: who speaks with whom, and with a pre-shared key the proof of it.
 *
 *	asker				accepting side
 *	HELLO(nonce)		 ->
 *				 <-	CHALLENGE(nonce)	with a key
 *	AUTH(mac)		 ->				with a key
 *				 <-	HELLO reply
 *				 <-	AUTH reply(mac)		with a key
 *
 * Both MACs are HMAC-SHA256 over a label and all messages before them, byte by
 * byte, so they cover both nonces, both GIDs and both instances, and the
 * label keeps one from being taken for the other.
 *
 * All of it runs in the connection's receive work, one message at a time.
 */
#include <crypto/algapi.h>
#include <crypto/hash.h>
#include <linux/random.h>

#include "conn.h"
#include "trace.h"

#define AGG_HELLO_ID	1
#define AGG_PSK_MAX	256	/* bytes */

static const char agg_label_asker[] = "rdma_agg asker";
static const char agg_label_owner[] = "rdma_agg owner";

/* ---- Pre-shared key ---- */

static void agg_psk_release(struct kref *ref)
{
	struct agg_psk *psk = container_of(ref, struct agg_psk, ref);

	crypto_free_shash(psk->tfm);
	kfree(psk);
}

/**
 * agg_psk_put - let go of a pre-shared key
 * @psk: the key or NULL
 *
 * Context: process.
 */
void agg_psk_put(struct agg_psk *psk)
{
	if (psk)
		kref_put(&psk->ref, agg_psk_release);
}

/**
 * agg_sess_psk - the pre-shared key of a device
 * @sess: its sessions
 *
 * Context: process.
 * Return: the key with a reference, or NULL if there is none.
 */
struct agg_psk *agg_sess_psk(struct agg_session_dev *sess)
{
	struct agg_psk *psk;

	spin_lock(&sess->lock);
	psk = sess->psk;
	if (psk)
		kref_get(&psk->ref);
	spin_unlock(&sess->lock);
	return psk;
}

/**
 * agg_session_set_psk - set or remove the pre-shared key
 * @dev: the device, started
 * @key: the key
 * @len: its length in bytes, 0 = none from now on
 *
 * All sessions of the device end and authenticate again.
 *
 * Context: process, may sleep.
 * Return: 0, -ENODEV if the device is not started, -EINVAL if the key is too
 * long, or what the crypto API says.
 */
int agg_session_set_psk(struct agg_dev *dev, const void *key, size_t len)
{
	struct agg_psk *psk = NULL, *old;
	struct agg_session_dev *sess;
	int err = 0;

	if (len > AGG_PSK_MAX)
		return -EINVAL;

	sess = agg_sess_get(dev);
	if (!sess)
		return -ENODEV;

	if (len) {
		psk = kzalloc(sizeof(*psk), GFP_KERNEL);
		if (!psk) {
			err = -ENOMEM;
			goto out;
		}
		kref_init(&psk->ref);
		psk->tfm = crypto_alloc_shash("hmac(sha256)", 0, 0);
		if (IS_ERR(psk->tfm)) {
			err = PTR_ERR(psk->tfm);
			kfree(psk);
			goto out;
		}
		err = crypto_shash_setkey(psk->tfm, key, len);
		if (err) {
			agg_psk_put(psk);
			goto out;
		}
	}

	spin_lock(&sess->lock);
	old = sess->psk;
	sess->psk = psk;
	spin_unlock(&sess->lock);
	agg_psk_put(old);
	agg_sess_reset(sess, -ECONNABORTED);
out:
	agg_sess_put(sess);
	return err;
}

/**
 * agg_session_has_psk - whether sessions of a device are authenticated
 * @dev: the device
 *
 * Context: process.
 * Return: true if a pre-shared key is set.
 */
bool agg_session_has_psk(struct agg_dev *dev)
{
	struct agg_session_dev *sess = agg_sess_get(dev);
	bool has;

	if (!sess)
		return false;
	has = READ_ONCE(sess->psk);
	agg_sess_put(sess);
	return has;
}

/* ---- Both sides ---- */

/**
 * agg_sess_lanes - the lane table as it is told to peers
 * @dev: the device
 * @lanes: filled
 *
 * Context: process.
 */
void agg_sess_lanes(struct agg_dev *dev, struct agg_wire_lanes *lanes)
{
	union ib_gid gid[AGG_LANE_GIDS];
	struct agg_wire_lane *out;
	struct agg_lane *lane;
	unsigned int id, i;

	BUILD_BUG_ON(AGG_LANE_GIDS > AGG_WIRE_LANE_GIDS || AGG_MAX_LANES > AGG_WIRE_MAX_LANES);

	memset(lanes, 0, sizeof(*lanes));
	lanes->instance = dev->instance;
	/* Before the table: see agg_session_lanes_changed(). */
	lanes->epoch = smp_load_acquire(&dev->lanes_epoch);

	for (id = 0; id < AGG_MAX_LANES; id++) {
		lane = agg_lane_get(dev, id);
		if (!lane)
			continue;
		out = &lanes->lane[lanes->nr++];
		out->id = id;
		out->rail = READ_ONCE(lane->rail);
		out->state = READ_ONCE(lane->state);
		/* Until it is drained it is no better than this to those who choose. */
		if (agg_lane_usable(out->state) && !agg_lane_open(lane))
			out->state = AGG_LANE_PROBE;
		/* A port that is down may have none: not a reason to be malformed. */
		out->mtu = clamp_t(u8, READ_ONCE(lane->mtu), IB_MTU_256, IB_MTU_4096);
		out->nr_gids = agg_lane_gids(lane, gid);
		for (i = 0; i < out->nr_gids; i++)
			memcpy(out->gid[i], gid[i].raw, AGG_WIRE_GID_LEN);
		out->speed = READ_ONCE(lane->speed);
		out->weight = READ_ONCE(lane->weight);
		/* Numbers: its objects may be on their way out. */
		out->poison_rkey = lane->poison_rkey;
		out->probe_qpn = lane->probe.qpn;
		out->probe_qkey = lane->probe.qkey;
		agg_lane_put(lane);
	}
}

/**
 * agg_hello_free - forget what was kept for the handshake
 * @c: the connection
 *
 * Context: process; receive work of @c, or its end.
 */
void agg_hello_free(struct agg_conn *c)
{
	agg_psk_put(c->psk);
	c->psk = NULL;
	kfree(c->transcript);
	c->transcript = NULL;
	c->transcript_len = 0;
	kfree(c->hello);
	c->hello = NULL;
}

static int agg_hello_record(struct agg_conn *c, const u8 *msg, size_t len)
{
	u8 *p;

	if (!c->psk)
		return 0;
	p = krealloc(c->transcript, c->transcript_len + len, GFP_KERNEL);
	if (!p)
		return -ENOMEM;
	memcpy(p + c->transcript_len, msg, len);
	c->transcript = p;
	c->transcript_len += len;
	return 0;
}

static int agg_hello_mac(struct agg_conn *c, const char *label, u8 *mac)
{
	SHASH_DESC_ON_STACK(desc, c->psk->tfm);
	int err;

	desc->tfm = c->psk->tfm;
	err = crypto_shash_init(desc);
	if (!err)
		err = crypto_shash_update(desc, (const u8 *)label, strlen(label));
	if (!err)
		err = crypto_shash_update(desc, c->transcript, c->transcript_len);
	if (!err)
		err = crypto_shash_final(desc, mac);
	shash_desc_zero(desc);
	return err;
}

/* HELLO or its reply, from us. */
static int agg_hello_send(struct agg_conn *c, u8 flags, u32 id)
{
	struct agg_dev *dev = c->sess->dev;
	struct agg_wire_hello *hello;
	struct agg_msg *m;
	int len, err;

	hello = kzalloc(sizeof(*hello), GFP_KERNEL);
	m = agg_msg_alloc(AGG_WIRE_MAX_LEN, GFP_KERNEL);
	if (!hello || !m) {
		err = -ENOMEM;
		goto err_free;
	}

	if (c->psk)
		hello->flags |= AGG_WIRE_HELLO_AUTH;
	hello->guid = be64_to_cpu(dev->ibdev.node_guid);
	memcpy(hello->sgid, c->lgid.raw, sizeof(hello->sgid));
	memcpy(hello->dgid, c->rgid.raw, sizeof(hello->dgid));
	get_random_bytes(hello->nonce, sizeof(hello->nonce));
	strscpy(hello->name, dev_name(&dev->ibdev.dev), sizeof(hello->name));
	agg_sess_lanes(dev, &hello->lanes);

	len = agg_wire_put_hello(m->data, AGG_WIRE_MAX_LEN, flags, id, hello);
	if (WARN_ON_ONCE(len < 0)) {
		err = len;
		goto err_free;
	}
	m->len = len;
	err = agg_hello_record(c, m->data, len);
	if (err)
		goto err_free;
	kfree(hello);
	return agg_conn_send(c, m);

err_free:
	kfree(hello);
	kfree(m);
	return err;
}

/* The other side hashes it as well, so it becomes part of the transcript. */
static int agg_hello_send_auth(struct agg_conn *c, const char *label, u8 flags)
{
	struct agg_wire_auth auth;
	struct agg_msg *m;
	int err;

	m = agg_msg_alloc(64, GFP_KERNEL);
	if (!m)
		return -ENOMEM;
	err = agg_hello_mac(c, label, auth.mac);
	if (!err) {
		m->len = agg_wire_put_auth(m->data, 64, flags, AGG_HELLO_ID, &auth);
		err = agg_hello_record(c, m->data, m->len);
	}
	if (err) {
		kfree(m);
		return err;
	}
	return agg_conn_send(c, m);
}

static bool agg_hello_auth_ok(struct agg_conn *c, const char *label, const u8 *msg, size_t len)
{
	struct agg_wire_auth auth;
	u8 mac[AGG_WIRE_MAC_LEN];
	bool ok;

	ok = !agg_wire_get_auth(msg, len, &auth) && !agg_hello_mac(c, label, mac) &&
	     !crypto_memneq(mac, auth.mac, sizeof(mac));
	memzero_explicit(mac, sizeof(mac));
	return ok;
}

/**
 * agg_hello_start - TCP is connected: introduce ourselves
 * @c: a connection that we opened
 *
 * Context: process; receive work of @c.
 */
void agg_hello_start(struct agg_conn *c)
{
	int err;

	c->psk = agg_sess_psk(c->sess);
	agg_conn_timer_set(c, max(READ_ONCE(c->sess->dev->params.connect_timeout_ms), 1000U));
	agg_conn_set_state(c, AGG_CONN_HELLO_SENT);
	err = agg_hello_send(c, 0, AGG_HELLO_ID);
	if (err)
		agg_conn_fail(c, err);
}

/* ---- Accepting side ---- */

static void agg_hello_accepted(struct agg_conn *c)
{
	struct agg_session_dev *sess = c->sess;
	struct agg_wire_hello *hello = c->hello;
	struct agg_conn *old;
	int err;

	err = agg_hello_send(c, AGG_WIRE_F_REPLY, AGG_HELLO_ID);
	if (!err && c->psk)
		err = agg_hello_send_auth(c, agg_label_owner, AGG_WIRE_F_REPLY);
	if (err) {
		agg_conn_fail(c, err);
		return;
	}

	/*
	 * The asker keeps one connection for a pair of GIDs. If we have
	 * another one, it is what is left of the one that broke.
	 */
	spin_lock(&sess->lock);
	list_for_each_entry(old, &sess->conns, node)
		if (old != c && READ_ONCE(old->state) == AGG_CONN_UP &&
		    old->instance == c->instance &&
		    !memcmp(&old->lgid, &c->lgid, sizeof(c->lgid)) &&
		    !memcmp(&old->rgid, &c->rgid, sizeof(c->rgid)))
			agg_conn_fail(old, -ECONNRESET);
	spin_unlock(&sess->lock);

	agg_conn_set_state(c, AGG_CONN_UP);
	agg_conn_timer_set(c, 1000);
	agg_count(sess->dev, SESSION_UP);
	trace_agg_session_state(sess->dev, &c->rgid, "up-in", 0);
	agg_peer_inbound(c, &hello->lanes);
	agg_hello_free(c);
}

static int agg_hello_challenge(struct agg_conn *c, const u8 *msg, size_t len)
{
	struct agg_wire_challenge ch;
	struct agg_msg *m;
	int err;

	m = agg_msg_alloc(64, GFP_KERNEL);
	if (!m)
		return -ENOMEM;
	get_random_bytes(ch.nonce, sizeof(ch.nonce));
	m->len = agg_wire_put_challenge(m->data, 64, AGG_HELLO_ID, &ch);

	err = agg_hello_record(c, msg, len);
	if (!err)
		err = agg_hello_record(c, m->data, m->len);
	if (err) {
		kfree(m);
		return err;
	}
	agg_conn_set_state(c, AGG_CONN_WAIT_AUTH);
	return agg_conn_send(c, m);
}

static int agg_hello_request(struct agg_conn *c, const struct agg_wire_hdr *hdr, const u8 *msg,
			     size_t len)
{
	struct agg_session_dev *sess;
	struct agg_wire_hello *hello;
	u16 refuse = 0;
	int err;

	hello = kmalloc(sizeof(*hello), GFP_KERNEL);
	if (!hello) {
		agg_conn_fail(c, -ENOMEM);
		return -ENOMEM;
	}
	if (agg_wire_get_hello(msg, len, hello)) {
		kfree(hello);
		agg_conn_bad(c, "malformed HELLO");
		return -EPROTO;
	}
	c->hello = hello;

	sess = agg_sess_find(c->listener, hello->dgid);
	if (!sess) {
		agg_conn_refuse(c, AGG_WIRE_ERR_NO_DEVICE, hdr->id);
		return 0;
	}
	memcpy(c->lgid.raw, hello->dgid, sizeof(c->lgid.raw));
	memcpy(c->rgid.raw, hello->sgid, sizeof(c->rgid.raw));
	c->instance = hello->lanes.instance;

	if (!agg_sess_add_conn(sess, c))
		refuse = READ_ONCE(sess->stopping) ? AGG_WIRE_ERR_NO_DEVICE : AGG_WIRE_ERR_BUSY;
	if (!refuse) {
		c->psk = agg_sess_psk(sess);
		if (c->psk && !(hello->flags & AGG_WIRE_HELLO_AUTH))
			refuse = AGG_WIRE_ERR_NEED_AUTH;
		else if (!c->psk && (hello->flags & AGG_WIRE_HELLO_AUTH))
			refuse = AGG_WIRE_ERR_NO_AUTH;
	}
	agg_sess_put(sess);
	if (refuse) {
		agg_conn_refuse(c, refuse, hdr->id);
		return 0;
	}

	if (!c->psk) {
		agg_hello_accepted(c);
		return 0;
	}
	err = agg_hello_challenge(c, msg, len);
	if (err)
		agg_conn_fail(c, err);
	return err;
}

static int agg_hello_auth(struct agg_conn *c, const struct agg_wire_hdr *hdr, const u8 *msg,
			  size_t len)
{
	int err;

	if (!agg_hello_auth_ok(c, agg_label_asker, msg, len)) {
		agg_conn_refuse(c, AGG_WIRE_ERR_AUTH, hdr->id);
		return 0;
	}
	err = agg_hello_record(c, msg, len);
	if (err) {
		agg_conn_fail(c, err);
		return err;
	}
	agg_hello_accepted(c);
	return 0;
}

/* ---- Asking side ---- */

static int agg_hello_established(struct agg_conn *c)
{
	struct agg_wire_hello *hello = c->hello;

	c->instance = hello->lanes.instance;
	agg_conn_set_state(c, AGG_CONN_UP);
	if (!agg_peer_conn_up(c->peer, c, hello)) {
		agg_conn_fail(c, -ENOTCONN);
		return -ENOTCONN;
	}
	agg_conn_timer_set(c, 1000);
	agg_hello_free(c);
	return 0;
}

static int agg_hello_reply(struct agg_conn *c, const u8 *msg, size_t len)
{
	struct agg_wire_hello *hello;
	int err;

	/* With a key, only after its challenge; and once. */
	if (c->psk && c->state == AGG_CONN_HELLO_SENT) {
		agg_conn_count(c, AGG_CNT_SESSION_REJECT);
		agg_conn_fail(c, -EKEYREJECTED);
		return -EKEYREJECTED;
	}
	if (c->hello) {
		agg_conn_bad(c, "message not expected");
		return -EPROTO;
	}

	hello = kmalloc(sizeof(*hello), GFP_KERNEL);
	if (!hello) {
		agg_conn_fail(c, -ENOMEM);
		return -ENOMEM;
	}
	c->hello = hello;
	if (agg_wire_get_hello(msg, len, hello) ||
	    memcmp(hello->sgid, c->rgid.raw, sizeof(hello->sgid)) ||
	    memcmp(hello->dgid, c->lgid.raw, sizeof(hello->dgid))) {
		agg_conn_bad(c, "malformed HELLO");
		return -EPROTO;
	}
	if (!c->psk)
		return agg_hello_established(c);

	err = agg_hello_record(c, msg, len);
	if (err)
		agg_conn_fail(c, err);
	return err;
}

static int agg_hello_challenged(struct agg_conn *c, const u8 *msg, size_t len)
{
	struct agg_wire_challenge ch;
	int err;

	if (agg_wire_get_challenge(msg, len, &ch)) {
		agg_conn_bad(c, "malformed CHALLENGE");
		return -EPROTO;
	}
	if (!c->psk) {
		agg_conn_fail(c, -ENOKEY);
		return -ENOKEY;
	}

	err = agg_hello_record(c, msg, len);
	if (!err) {
		agg_conn_set_state(c, AGG_CONN_AUTH_SENT);
		err = agg_hello_send_auth(c, agg_label_asker, 0);
	}
	if (err)
		agg_conn_fail(c, err);
	return err;
}

/**
 * agg_hello_rx - a message before the session is established
 * @c: the connection
 * @hdr: header of the message
 * @msg: the message
 * @len: its length in bytes
 *
 * Context: process; receive work of @c.
 * Return: 0, or an errno if the connection ends.
 */
int agg_hello_rx(struct agg_conn *c, const struct agg_wire_hdr *hdr, const u8 *msg, size_t len)
{
	bool reply = hdr->flags & AGG_WIRE_F_REPLY;

	switch (c->state) {
	case AGG_CONN_WAIT_HELLO:
		if (hdr->type == AGG_WIRE_HELLO && !reply)
			return agg_hello_request(c, hdr, msg, len);
		break;
	case AGG_CONN_WAIT_AUTH:
		if (hdr->type == AGG_WIRE_AUTH && !reply)
			return agg_hello_auth(c, hdr, msg, len);
		break;
	case AGG_CONN_HELLO_SENT:
		if (hdr->type == AGG_WIRE_HELLO && reply)
			return agg_hello_reply(c, msg, len);
		if (hdr->type == AGG_WIRE_CHALLENGE && reply)
			return agg_hello_challenged(c, msg, len);
		break;
	case AGG_CONN_AUTH_SENT:
		if (hdr->type == AGG_WIRE_HELLO && reply)
			return agg_hello_reply(c, msg, len);
		if (hdr->type == AGG_WIRE_AUTH && reply && c->hello) {
			if (agg_hello_auth_ok(c, agg_label_owner, msg, len))
				return agg_hello_established(c);
			agg_conn_count(c, AGG_CNT_SESSION_REJECT);
			agg_conn_fail(c, -EACCES);
			return -EACCES;
		}
		break;
	default:
		break;
	}
	agg_conn_bad(c, "message not expected");
	return -EPROTO;
}
