// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the messages of an established connection do: calls that we make,
 * requests that we serve, notices.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jhash.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "conn.h"

#define AGG_ATTACH_LEN	256	/* room for an encoded ATTACH */

/* An ATTACH that waits for its reply; on the stack of agg_conn_attach(). */
struct agg_call {
	struct completion done;
	struct agg_wire_attach *resp;
	int err;
};

/*
 * A request of the other side. Requests of one pair of QPs are served in the
 * order in which they came: a DETACH must not overtake the ATTACH before it.
 * The one being served is on conn->reqs and has the others in @chain.
 */
struct agg_req {
	struct work_struct work;
	struct list_head node;
	struct list_head chain;
	struct agg_conn *conn;
	u8 type;
	u32 id;
	struct agg_wire_attach m;
};

/* ---- Ending with a reason ---- */

/**
 * agg_conn_count - count an event of a connection at its device
 * @c: the connection
 * @cnt: the counter
 *
 * Context: process; receive work of @c.
 */
void agg_conn_count(struct agg_conn *c, enum agg_counter cnt)
{
	if (c->sess)
		atomic64_inc(&c->sess->dev->cnt[cnt]);
	else if (c->listener)
		agg_listener_count(c->listener, cnt);
}

/*
 * Whoever is refused tries again every second: the same line is worth saying
 * once a minute. A few lines are remembered; more than that are limited by
 * pr_*_ratelimited() alone.
 */
static bool agg_conn_is_news(const char *who, const char *what)
{
	static struct {
		u32 hash;
		unsigned long when;
	} said[16];
	static DEFINE_SPINLOCK(lock);
	unsigned int i;
	bool news;
	u32 hash;

	hash = jhash(what, strlen(what), jhash(who, strlen(who), 1));
	i = hash % ARRAY_SIZE(said);
	spin_lock(&lock);
	news = said[i].hash != hash || time_after(jiffies, said[i].when + 60 * HZ);
	if (news) {
		said[i].hash = hash;
		said[i].when = jiffies;
	}
	spin_unlock(&lock);
	return news;
}

static const char *agg_conn_who(struct agg_conn *c, char *buf)
{
	struct sockaddr_storage ss = {};
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;

	if (!c->sock || kernel_getpeername(c->sock, (struct sockaddr *)&ss) < 0)
		strscpy(buf, "unknown", AGG_GID_STR);
	else if (ss.ss_family == AF_INET6 && ipv6_addr_v4mapped(&in6->sin6_addr))
		snprintf(buf, AGG_GID_STR, "%pI4", &in6->sin6_addr.s6_addr32[3]);
	else
		snprintf(buf, AGG_GID_STR, "%pISc", &ss);
	return buf;
}

/**
 * agg_conn_bad - the other side broke the protocol
 * @c: the connection
 * @what: in which way, for the log
 *
 * Context: process; receive work of @c.
 */
void agg_conn_bad(struct agg_conn *c, const char *what)
{
	char who[AGG_GID_STR];

	agg_conn_count(c, AGG_CNT_SESSION_BAD_MSG);
	if (agg_conn_is_news(agg_conn_who(c, who), what))
		pr_notice_ratelimited("session with %s closed: %s\n", who, what);
	c->last_words = AGG_WIRE_ERR_BAD_MSG;
	agg_conn_fail(c, -EPROTO);
}

/**
 * agg_conn_refuse - tell the asker why there is no session, then close
 * @c: an accepted connection that is not established
 * @code: enum agg_wire_error_code
 * @id: id of the message that is answered
 *
 * Context: process; receive work of @c.
 */
void agg_conn_refuse(struct agg_conn *c, u16 code, u32 id)
{
	static const char * const why[] = {
		[AGG_WIRE_ERR_VERSION]	 = "other protocol version",
		[AGG_WIRE_ERR_NO_DEVICE] = "no agg device has the address it asked for",
		[AGG_WIRE_ERR_AUTH]	 = "wrong pre-shared key",
		[AGG_WIRE_ERR_NEED_AUTH] = "it has no pre-shared key",
		[AGG_WIRE_ERR_NO_AUTH]	 = "it requires a pre-shared key, none is set here",
		[AGG_WIRE_ERR_BUSY]	 = "too many sessions",
	};
	struct agg_wire_error e = { .code = code, .version = AGG_WIRE_VERSION };
	char who[AGG_GID_STR];
	struct agg_msg *m;
	const char *what;

	agg_conn_count(c, AGG_CNT_SESSION_REJECT);
	what = code < ARRAY_SIZE(why) && why[code] ? why[code] : "error";
	if (agg_conn_is_news(agg_conn_who(c, who), what))
		pr_notice_ratelimited("session asked for by %s refused: %s\n", who, what);

	m = agg_msg_alloc(32, GFP_KERNEL);
	if (!m) {
		agg_conn_fail(c, -ENOMEM);
		return;
	}
	m->len = agg_wire_put_error(m->data, 32, id, &e);
	agg_conn_send(c, m);
	agg_conn_set_state(c, AGG_CONN_DRAIN);
	agg_conn_timer_set(c, AGG_CONN_DRAIN_MS);
}

/* ---- Calls: we ask ---- */

/**
 * agg_conn_attach - send ATTACH and wait for the reply
 * @c: an established connection that we opened
 * @req: the request, complete
 * @resp: the reply
 * @timeout_ms: how long to wait, in milliseconds
 *
 * Context: process, sleeps; killable.
 * Return: see agg_peer_attach().
 */
int agg_conn_attach(struct agg_conn *c, const struct agg_wire_attach *req,
		    struct agg_wire_attach *resp, unsigned int timeout_ms)
{
	struct agg_call call = { .resp = resp };
	struct agg_msg *m;
	long left;
	int err;
	u32 id;

	m = agg_msg_alloc(AGG_ATTACH_LEN, GFP_KERNEL);
	if (!m)
		return -ENOMEM;

	init_completion(&call.done);
	err = xa_alloc_cyclic(&c->calls, &id, &call, xa_limit_32b, &c->next_call, GFP_KERNEL);
	if (err < 0) {
		kfree(m);
		return err;
	}

	m->len = agg_wire_put_attach(m->data, AGG_ATTACH_LEN, AGG_WIRE_ATTACH, 0, id, req);
	err = agg_conn_send(c, m);
	left = err ? 0 : wait_for_completion_killable_timeout(&call.done,
							      msecs_to_jiffies(timeout_ms));

	/*
	 * Whoever completes a call takes it from the array and writes the
	 * result under its lock: after this nobody knows @call any more.
	 */
	xa_lock(&c->calls);
	if (__xa_erase(&c->calls, id) != &call)
		err = call.err;
	else if (!err)
		err = left < 0 ? -EINTR : -ETIMEDOUT;
	xa_unlock(&c->calls);
	return err;
}

static int agg_conn_attach_reply(struct agg_conn *c, u32 id, const u8 *msg, size_t len)
{
	struct agg_wire_attach m;
	struct agg_call *call;

	if (agg_wire_get_attach(msg, len, &m) || m.instance_src != c->instance ||
	    memcmp(m.sgid, c->rgid.raw, sizeof(m.sgid)) ||
	    memcmp(m.dgid, c->lgid.raw, sizeof(m.dgid))) {
		agg_conn_bad(c, "malformed reply to ATTACH");
		return -EPROTO;
	}

	/* None: it came too late, nobody waits any more. */
	xa_lock(&c->calls);
	call = __xa_erase(&c->calls, id);
	if (call) {
		*call->resp = m;
		call->err = 0;
		complete(&call->done);
	}
	xa_unlock(&c->calls);
	return 0;
}

/**
 * agg_conn_fail_calls - the connection has ended: nobody will answer
 * @c: the connection, closing
 *
 * Context: process; close work of @c.
 */
void agg_conn_fail_calls(struct agg_conn *c)
{
	struct agg_call *call;
	unsigned long id;

	xa_lock(&c->calls);
	xa_for_each(&c->calls, id, call) {
		__xa_erase(&c->calls, id);
		call->err = -ENOTCONN;
		complete(&call->done);
	}
	xa_unlock(&c->calls);
}

/* ---- Requests: we are asked ---- */

static void agg_conn_reply(struct agg_conn *c, const struct agg_wire_attach *m, u32 id,
			   struct agg_wire_attach *resp)
{
	struct agg_msg *msg;
	int len;

	/* Who answers whom is not the handler's to say. */
	resp->kind = m->kind;
	resp->instance_src = c->sess->dev->instance;
	resp->instance_dst = m->instance_src;
	resp->sqpn = m->dqpn;
	resp->dqpn = m->sqpn;
	memcpy(resp->sgid, m->dgid, sizeof(resp->sgid));
	memcpy(resp->dgid, m->sgid, sizeof(resp->dgid));

	msg = agg_msg_alloc(AGG_ATTACH_LEN, GFP_KERNEL);
	if (!msg)
		return;		/* the asker times out and asks again */
	len = agg_wire_put_attach(msg->data, AGG_ATTACH_LEN, AGG_WIRE_ATTACH, AGG_WIRE_F_REPLY,
				  id, resp);
	if (WARN_ON_ONCE(len < 0)) {
		kfree(msg);
		return;
	}
	msg->len = len;
	if (agg_conn_send(c, msg) == -ENOBUFS)
		agg_conn_fail(c, -ENOBUFS);
}

static void agg_req_attach(struct agg_req *req, struct agg_dev *dev)
{
	const struct agg_wire_attach *m = &req->m;
	struct agg_wire_attach resp = {
		.status = AGG_WIRE_GONE,
		.cookie_dst = m->cookie_src,
		.cookie_src = m->cookie_dst,
		.epoch = m->epoch,
		.slane = AGG_WIRE_LANE_NONE,
		.dlane = AGG_WIRE_LANE_NONE,
	};

	/* failover.rst rule 2: what was meant for another instance is not for us. */
	if (!m->instance_dst || m->instance_dst == dev->instance)
		agg_attach_rx(dev, m, &resp);
	agg_conn_reply(req->conn, m, req->id, &resp);
}

static bool agg_req_is_ask(const struct agg_req *req)
{
	return req->type == AGG_WIRE_ATTACH && req->m.kind == AGG_WIRE_ASK;
}

static void agg_req_queue(struct agg_req *req)
{
	queue_work(agg_req_is_ask(req) ? agg_ask_wq : agg_req_wq, &req->work);
}

static void agg_req_work(struct work_struct *work)
{
	struct agg_req *req = container_of(work, struct agg_req, work), *next;
	struct agg_conn *c = req->conn;
	struct agg_session_dev *sess = c->sess;
	struct agg_dev *dev = sess->dev;

	if (!READ_ONCE(sess->stopping)) {
		if (req->type == AGG_WIRE_ATTACH)
			agg_req_attach(req, dev);
		else if (!req->m.instance_dst || req->m.instance_dst == dev->instance)
			agg_detach_rx(dev, &req->m);
	}

	spin_lock(&c->lock);
	list_del(&req->node);
	next = list_first_entry_or_null(&req->chain, struct agg_req, node);
	if (next) {
		list_del(&next->node);
		list_splice(&req->chain, &next->chain);
		list_add(&next->node, &c->reqs);
		agg_req_queue(next);
	}
	if (agg_req_is_ask(req))
		c->nr_asks--;
	else
		c->nr_reqs--;
	agg_conn_unstall(c);
	spin_unlock(&c->lock);
	kfree(req);

	kref_get(&sess->ref);
	agg_conn_put(c);
	agg_sess_active_put(sess);
	agg_sess_put(sess);
}

static bool agg_req_same(const struct agg_req *a, const struct agg_req *b)
{
	return a->m.sqpn == b->m.sqpn && a->m.dqpn == b->m.dqpn;
}

static int agg_conn_request(struct agg_conn *c, const struct agg_wire_hdr *hdr, const u8 *msg,
			    size_t len)
{
	struct agg_wire_attach busy = {
		.status = AGG_WIRE_BUSY,
		.slane = AGG_WIRE_LANE_NONE,
		.dlane = AGG_WIRE_LANE_NONE,
	};
	struct agg_req *req, *first;

	req = kzalloc(sizeof(*req), GFP_KERNEL);
	if (!req)
		return 0;	/* as if it had been lost */

	if (agg_wire_get_attach(msg, len, &req->m) || req->m.instance_src != c->instance ||
	    memcmp(req->m.sgid, c->rgid.raw, sizeof(req->m.sgid)) ||
	    memcmp(req->m.dgid, c->lgid.raw, sizeof(req->m.dgid))) {
		kfree(req);
		agg_conn_bad(c, "malformed ATTACH or DETACH");
		return -EPROTO;
	}

	req->type = hdr->type;
	req->id = hdr->id;
	/* nr_asks grows here only. */
	if (agg_req_is_ask(req) && READ_ONCE(c->nr_asks) >= AGG_CONN_MAX_ASKS) {
		agg_conn_reply(c, &req->m, req->id, &busy);
		kfree(req);
		return 0;
	}

	INIT_WORK(&req->work, agg_req_work);
	INIT_LIST_HEAD(&req->chain);
	kref_get(&c->ref);
	req->conn = c;

	/* Stop cancels this work before it waits for active to become 0. */
	atomic_inc(&c->sess->active);

	spin_lock(&c->lock);
	if (agg_req_is_ask(req))
		c->nr_asks++;
	else
		c->nr_reqs++;
	list_for_each_entry(first, &c->reqs, node) {
		if (agg_req_same(first, req)) {
			list_add_tail(&req->node, &first->chain);
			spin_unlock(&c->lock);
			return 0;
		}
	}
	list_add(&req->node, &c->reqs);
	agg_req_queue(req);
	spin_unlock(&c->lock);
	return 0;
}

/* ---- Receiving ---- */

static int agg_conn_error(struct agg_conn *c, const u8 *msg, size_t len)
{
	static const int errs[] = {
		[AGG_WIRE_ERR_VERSION]	 = -ENOPROTOOPT,
		[AGG_WIRE_ERR_NO_DEVICE] = -ENXIO,
		[AGG_WIRE_ERR_AUTH]	 = -EACCES,
		[AGG_WIRE_ERR_NEED_AUTH] = -ENOKEY,
		[AGG_WIRE_ERR_NO_AUTH]	 = -EKEYREJECTED,
		[AGG_WIRE_ERR_BUSY]	 = -EBUSY,
		[AGG_WIRE_ERR_BAD_MSG]	 = -EPROTO,
	};
	struct agg_wire_error e;
	int err = -EPROTO;

	if (!agg_wire_get_error(msg, len, &e) && e.code < ARRAY_SIZE(errs) && errs[e.code])
		err = errs[e.code];
	if (agg_conn_outbound(c) && c->state != AGG_CONN_UP)
		agg_conn_count(c, AGG_CNT_SESSION_REJECT);
	agg_conn_fail(c, err);
	return err;
}

static int agg_conn_rx_lanes(struct agg_conn *c, const u8 *msg, size_t len)
{
	struct agg_wire_lanes *lanes;
	int err = 0;

	lanes = kmalloc(sizeof(*lanes), GFP_KERNEL);
	if (!lanes) {
		agg_conn_fail(c, -ENOMEM);
		return -ENOMEM;
	}
	if (agg_wire_get_lanes(msg, len, lanes) || lanes->instance != c->instance) {
		agg_conn_bad(c, "malformed LANE");
		err = -EPROTO;
	} else if (agg_conn_outbound(c)) {
		agg_peer_lanes_update(c->peer, lanes);
	} else {
		agg_peer_inbound(c, lanes);
	}
	/* A lane of the peer may be what a QP without a path waits for. */
	if (!err) {
		agg_probe_kick_all(c->sess->dev);
		agg_fo_kick_all(c->sess->dev);
	}
	kfree(lanes);
	return err;
}

static int agg_conn_rx_key(struct agg_conn *c, const struct agg_wire_hdr *hdr, const u8 *msg,
			   size_t len)
{
	struct agg_wire_key m;

	if (agg_wire_get_key(msg, len, &m)) {
		agg_conn_bad(c, "malformed KEY");
		return -EPROTO;
	}
	if (!agg_conn_outbound(c))
		return agg_keys_serve(c, hdr->id, m.rkey);
	agg_keys_reply(c->peer, &m);
	return 0;
}

static int agg_conn_rx_gone(struct agg_conn *c, const u8 *msg, size_t len)
{
	struct agg_wire_key_gone m;

	if (agg_wire_get_key_gone(msg, len, &m)) {
		agg_conn_bad(c, "malformed KEY_GONE");
		return -EPROTO;
	}
	agg_keys_gone(c->peer, &m);
	return 0;
}

/* Return: 0, or an errno if the connection ends. */
static int agg_conn_rx_up(struct agg_conn *c, const struct agg_wire_hdr *hdr, const u8 *msg,
			  size_t len)
{
	bool reply = hdr->flags & AGG_WIRE_F_REPLY;
	bool asker = agg_conn_outbound(c);

	switch (hdr->type) {
	case AGG_WIRE_PING:
		/* Any message shows life: an answer has no other use. */
		if (reply)
			return 0;
		if (agg_conn_send_empty(c, AGG_WIRE_PING, AGG_WIRE_F_REPLY, hdr->id) == -ENOBUFS)
			agg_conn_fail(c, -ENOBUFS);
		return 0;
	case AGG_WIRE_BYE:
		agg_conn_fail(c, -ESHUTDOWN);
		return -ESHUTDOWN;
	case AGG_WIRE_LANE:
		return agg_conn_rx_lanes(c, msg, len);
	case AGG_WIRE_ATTACH:
		if (reply != asker)
			break;
		return reply ? agg_conn_attach_reply(c, hdr->id, msg, len) :
			       agg_conn_request(c, hdr, msg, len);
	case AGG_WIRE_DETACH:
		if (reply || asker)
			break;
		return agg_conn_request(c, hdr, msg, len);
	case AGG_WIRE_KEY:
		if (reply != asker)
			break;
		return agg_conn_rx_key(c, hdr, msg, len);
	case AGG_WIRE_KEY_GONE:
		if (!asker)
			break;
		return agg_conn_rx_gone(c, msg, len);
	case AGG_WIRE_HELLO:
	case AGG_WIRE_CHALLENGE:
	case AGG_WIRE_AUTH:
		break;
	default:
		return 0;	/* of a newer version: skipped */
	}
	agg_conn_bad(c, "message not expected");
	return -EPROTO;
}

/**
 * agg_conn_rx_msg - a complete message has come
 * @c: the connection
 * @hdr: header of the message
 * @msg: the message
 * @len: its length in bytes
 *
 * Context: process; receive work of @c.
 * Return: 0, or an errno if the connection ends.
 */
int agg_conn_rx_msg(struct agg_conn *c, const struct agg_wire_hdr *hdr, const u8 *msg, size_t len)
{
	bool was_up;
	int err;

	if (agg_conn_outbound(c))
		atomic64_inc(&c->peer->rx_msgs);

	if (c->state == AGG_CONN_DRAIN)
		return 0;

	if (hdr->type == AGG_WIRE_ERROR)
		return agg_conn_error(c, msg, len);

	if (hdr->version != AGG_WIRE_VERSION) {
		if (c->state == AGG_CONN_WAIT_HELLO && hdr->type == AGG_WIRE_HELLO) {
			agg_conn_refuse(c, AGG_WIRE_ERR_VERSION, hdr->id);
			return 0;
		}
		if (agg_conn_outbound(c) && c->state == AGG_CONN_HELLO_SENT) {
			agg_conn_fail(c, -ENOPROTOOPT);
			return -ENOPROTOOPT;
		}
		agg_conn_bad(c, "other protocol version");
		return -EPROTO;
	}

	was_up = c->state == AGG_CONN_UP;
	if (was_up)
		return agg_conn_rx_up(c, hdr, msg, len);

	err = agg_hello_rx(c, hdr, msg, len);
	if (!err && c->state == AGG_CONN_UP)
		agg_conn_unpend(c);
	return err;
}

