// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One TCP connection of a session: socket, framing, queues, calls, requests,
 * keepalive. conn.h tells its lifetime. HELLO is in handshake.c.
 *
 * Nothing here blocks on the network: the socket's callbacks queue work that
 * reads and writes what is possible now.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "conn.h"
#include "trace.h"

#define AGG_RX_BATCH	64	/* messages before others get their turn */
#define AGG_PING_ID	1
#define AGG_KEEPALIVE_MAX_MS	3600000U

static void agg_conn_rx_work(struct work_struct *work);
static void agg_conn_tx_work(struct work_struct *work);
static void agg_conn_close_work(struct work_struct *work);
static void agg_conn_timer(struct work_struct *work);

/* ---- Lifetime ---- */

/**
 * agg_msg_alloc - memory for one message to send
 * @size: bytes of it
 * @gfp: how to allocate
 *
 * Context: as @gfp allows.
 * Return: the message, whose len and data are to be filled, or NULL.
 */
struct agg_msg *agg_msg_alloc(size_t size, gfp_t gfp)
{
	struct agg_msg *m = kmalloc(struct_size(m, data, size), gfp);

	if (m) {
		m->len = 0;
		m->off = 0;
	}
	return m;
}

/**
 * agg_conn_alloc - a connection without a socket
 *
 * Context: process, may sleep.
 * Return: the connection with its base reference, or NULL.
 */
struct agg_conn *agg_conn_alloc(void)
{
	struct agg_conn *c = kzalloc(sizeof(*c), GFP_KERNEL);

	if (!c)
		return NULL;
	c->rxbuf = kmalloc(AGG_WIRE_MAX_LEN, GFP_KERNEL);
	if (!c->rxbuf) {
		kfree(c);
		return NULL;
	}
	kref_init(&c->ref);
	INIT_LIST_HEAD(&c->node);
	INIT_LIST_HEAD(&c->pending);
	mutex_init(&c->setup);
	spin_lock_init(&c->lock);
	INIT_LIST_HEAD(&c->txq);
	INIT_LIST_HEAD(&c->reqs);
	INIT_WORK(&c->rx_work, agg_conn_rx_work);
	INIT_WORK(&c->tx_work, agg_conn_tx_work);
	INIT_WORK(&c->close_work, agg_conn_close_work);
	INIT_DELAYED_WORK(&c->timer, agg_conn_timer);
	xa_init_flags(&c->calls, XA_FLAGS_ALLOC1);
	xa_init(&c->asked);
	c->last_rx = jiffies;
	return c;
}

static void agg_conn_release(struct kref *ref)
{
	struct agg_conn *c = container_of(ref, struct agg_conn, ref);

	WARN_ON(c->sock);
	agg_hello_free(c);
	xa_destroy(&c->calls);
	xa_destroy(&c->asked);
	if (c->peer)
		agg_peer_put_ref(c->peer);
	if (c->listener)
		agg_listener_put_ref(c->listener);
	if (c->sess)
		agg_sess_put(c->sess);
	kfree(c->rxbuf);
	kfree(c);
}

/**
 * agg_conn_put - let go of a connection
 * @c: the connection
 *
 * Context: process.
 */
void agg_conn_put(struct agg_conn *c)
{
	kref_put(&c->ref, agg_conn_release);
}

/**
 * agg_conn_fail - end a connection; the first reason counts
 * @c: the connection; the caller holds a reference, or a lock under which it
 *	is linked, or runs in its work
 * @err: why, a negative errno
 *
 * Context: any; does not sleep.
 */
void agg_conn_fail(struct agg_conn *c, int err)
{
	if (!cmpxchg(&c->err, 0, err))
		queue_work(agg_sess_wq, &c->close_work);
}

/**
 * agg_conn_close_sync - end a connection and wait until nothing of it is left
 * @c: the connection; the caller holds a reference
 * @err: why, a negative errno
 *
 * Context: process, sleeps; not from work of the connection.
 */
void agg_conn_close_sync(struct agg_conn *c, int err)
{
	agg_conn_fail(c, err);
	flush_work(&c->close_work);
}

/*
 * Both are for others than the socket: after closing is set nobody may queue
 * the work that close_work cancels.
 */
static void agg_conn_kick_rx(struct agg_conn *c)
{
	lockdep_assert_held(&c->lock);

	if (!c->closing)
		queue_work(agg_sess_wq, &c->rx_work);
}

static void agg_conn_kick_tx(struct agg_conn *c)
{
	lockdep_assert_held(&c->lock);

	if (!c->closing)
		queue_work(agg_sess_wq, &c->tx_work);
}

/**
 * agg_conn_unstall - was reading held back, and is there room again?
 * @c: the connection; its lock is held
 *
 * Context: process; does not sleep.
 */
void agg_conn_unstall(struct agg_conn *c)
{
	lockdep_assert_held(&c->lock);

	if (c->rx_stalled && c->nr_reqs < AGG_CONN_MAX_REQS &&
	    c->txq_len < AGG_CONN_TX_HIGH) {
		c->rx_stalled = false;
		agg_conn_kick_rx(c);
	}
}

static bool agg_conn_stall(struct agg_conn *c)
{
	bool stall;

	spin_lock(&c->lock);
	stall = c->nr_reqs >= AGG_CONN_MAX_REQS ||
		(!agg_conn_outbound(c) && c->txq_len >= AGG_CONN_TX_HIGH);
	c->rx_stalled = stall;
	spin_unlock(&c->lock);
	return stall;
}

/**
 * agg_conn_timer_set - when the timer looks at the connection again
 * @c: the connection
 * @ms: from now, in milliseconds
 *
 * Context: process; does not sleep.
 */
void agg_conn_timer_set(struct agg_conn *c, unsigned int ms)
{
	spin_lock(&c->lock);
	if (!c->closing)
		mod_delayed_work(agg_sess_wq, &c->timer, msecs_to_jiffies(ms));
	spin_unlock(&c->lock);
}

/**
 * agg_conn_set_state - the handshake goes on
 * @c: the connection
 * @state: the new state
 *
 * Context: process; does not sleep.
 */
void agg_conn_set_state(struct agg_conn *c, enum agg_conn_state state)
{
	spin_lock(&c->lock);
	c->state = state;
	/* What waits for this state, LANE for instance, is sent by tx_work. */
	agg_conn_kick_tx(c);
	spin_unlock(&c->lock);
}

/* ---- Socket ---- */

static void agg_conn_sk_data_ready(struct sock *sk)
{
	struct agg_conn *c;

	read_lock_bh(&sk->sk_callback_lock);
	c = sk->sk_user_data;
	if (c)
		queue_work(agg_sess_wq, &c->rx_work);
	read_unlock_bh(&sk->sk_callback_lock);
}

/* Connected, closed, broken: rx_work finds out. */
static void agg_conn_sk_state_change(struct sock *sk)
{
	agg_conn_sk_data_ready(sk);
}

static void agg_conn_sk_error_report(struct sock *sk)
{
	agg_conn_sk_data_ready(sk);
}

static void agg_conn_sk_write_space(struct sock *sk)
{
	struct agg_conn *c;

	read_lock_bh(&sk->sk_callback_lock);
	c = sk->sk_user_data;
	if (c && sk_stream_is_writeable(sk)) {
		if (sk->sk_socket)
			clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
		queue_work(agg_sess_wq, &c->tx_work);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

static void agg_conn_attach_sock(struct agg_conn *c, struct socket *sock,
				 void (*data_ready)(struct sock *sk))
{
	struct sock *sk = sock->sk;

	c->sock = sock;
	tcp_sock_set_nodelay(sk);
	/* See the head of session.c. */
	sock_no_linger(sk);

	write_lock_bh(&sk->sk_callback_lock);
	c->old_data_ready = data_ready ?: sk->sk_data_ready;
	c->old_state_change = sk->sk_state_change;
	c->old_write_space = sk->sk_write_space;
	c->old_error_report = sk->sk_error_report;
	sk->sk_user_data = c;
	sk->sk_data_ready = agg_conn_sk_data_ready;
	sk->sk_state_change = agg_conn_sk_state_change;
	sk->sk_write_space = agg_conn_sk_write_space;
	sk->sk_error_report = agg_conn_sk_error_report;
	write_unlock_bh(&sk->sk_callback_lock);
}

static void agg_conn_detach_sock(struct agg_conn *c)
{
	struct sock *sk = c->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = NULL;
	sk->sk_data_ready = c->old_data_ready;
	sk->sk_state_change = c->old_state_change;
	sk->sk_write_space = c->old_write_space;
	sk->sk_error_report = c->old_error_report;
	write_unlock_bh(&sk->sk_callback_lock);
}

static int agg_conn_addrlen(const struct sockaddr_storage *ss)
{
	return ss->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
					  sizeof(struct sockaddr_in6);
}

static int agg_conn_connect(struct agg_conn *c, unsigned int cand)
{
	struct agg_dev *dev = c->sess->dev;
	struct sockaddr_storage local, remote;
	struct socket *sock;
	unsigned int tmo;
	int err;

	err = agg_peer_addr(c->peer, cand, &local, &remote, &tmo);
	if (err)
		return err;
	/* A pair of an IPv4 and an IPv6 address cannot be one connection. */
	if (local.ss_family && local.ss_family != remote.ss_family)
		return -EAFNOSUPPORT;

	err = sock_create_kern(read_pnet(&dev->net), remote.ss_family, SOCK_STREAM, IPPROTO_TCP,
			       &sock);
	if (err)
		return err;
	agg_conn_attach_sock(c, sock, NULL);

	if (local.ss_family) {
		err = kernel_bind(sock, (struct agg_sockaddr *)&local, agg_conn_addrlen(&local));
		if (err)
			return err;
	}

	agg_conn_timer_set(c, tmo);
	err = kernel_connect(sock, (struct agg_sockaddr *)&remote, agg_conn_addrlen(&remote),
			     O_NONBLOCK);
	if (err && err != -EINPROGRESS)
		return err;

	/* Connected already, perhaps, before the callbacks could tell. */
	spin_lock(&c->lock);
	agg_conn_kick_rx(c);
	spin_unlock(&c->lock);
	return 0;
}

/**
 * agg_conn_open - begin to connect; failures come by agg_peer_conn_down()
 * @c: the connection, which knows its peer
 * @cand: which of the peer's addresses
 *
 * Context: process, may sleep.
 */
void agg_conn_open(struct agg_conn *c, unsigned int cand)
{
	int err = 0;

	mutex_lock(&c->setup);
	/* close_work comes after us, or has been: then there is no socket. */
	if (!READ_ONCE(c->err))
		err = agg_conn_connect(c, cand);
	if (err)
		agg_conn_fail(c, err);
	mutex_unlock(&c->setup);
}

/**
 * agg_conn_accept - take over an accepted socket
 * @l: the listener
 * @sock: the socket; released by us in any case
 *
 * Context: process, may sleep; accept work of @l.
 */
void agg_conn_accept(struct agg_listener *l, struct socket *sock)
{
	struct agg_conn *c = agg_conn_alloc(), *oldest;

	if (!c) {
		sock_release(sock);
		return;
	}

	c->state = AGG_CONN_WAIT_HELLO;
	kref_get(&l->ref);
	c->listener = l;
	kref_get(&c->ref);

	/*
	 * Once the callbacks are there it may come to anything, also to its end:
	 * it must be on the list before, and close_work waits for the mutex.
	 *
	 * Strangers cannot keep others out for long: the oldest one that has
	 * not introduced itself makes room.
	 */
	mutex_lock(&c->setup);
	spin_lock(&agg_sess_lock);
	if (l->nr_pending >= AGG_CONN_MAX_PENDING) {
		oldest = list_first_entry(&l->pending, struct agg_conn, pending);
		oldest->last_words = AGG_WIRE_ERR_BUSY;
		agg_conn_fail(oldest, -EBUSY);
		list_del_init(&oldest->pending);
		l->nr_pending--;
	}
	list_add_tail(&c->pending, &l->pending);
	l->nr_pending++;
	spin_unlock(&agg_sess_lock);
	agg_conn_attach_sock(c, sock, l->old_data_ready);
	mutex_unlock(&c->setup);

	agg_conn_timer_set(c, AGG_CONN_HELLO_MS);

	/* It may have spoken before the callbacks were there. */
	spin_lock(&c->lock);
	agg_conn_kick_rx(c);
	spin_unlock(&c->lock);
	agg_conn_put(c);
}

/**
 * agg_conn_unpend - established, or gone: not a stranger any more
 * @c: the connection
 *
 * Context: process; does not sleep.
 */
void agg_conn_unpend(struct agg_conn *c)
{
	if (!c->listener)
		return;
	spin_lock(&agg_sess_lock);
	if (!list_empty(&c->pending)) {
		list_del_init(&c->pending);
		c->listener->nr_pending--;
	}
	spin_unlock(&agg_sess_lock);
}

/* The last thing said; TCP sends it now or never. */
static void agg_conn_say(struct agg_conn *c, u8 *buf, int len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec iov = { .iov_base = buf, .iov_len = len };

	if (len > 0)
		kernel_sendmsg(c->sock, &msg, &iov, 1, len);
}

static void agg_conn_farewell(struct agg_conn *c)
{
	struct agg_wire_error e = { .code = c->last_words, .version = AGG_WIRE_VERSION };
	struct agg_msg *m;
	u8 buf[32];

	if (c->state == AGG_CONN_CONNECTING || c->state == AGG_CONN_DRAIN)
		return;

	/* Not into the middle of another message. */
	m = list_first_entry_or_null(&c->txq, struct agg_msg, node);
	if (m && m->off)
		return;

	if (c->last_words)
		agg_conn_say(c, buf, agg_wire_put_error(buf, sizeof(buf), 0, &e));
	else if (c->err == -ENOTCONN && c->state == AGG_CONN_UP)
		agg_conn_say(c, buf, agg_wire_put_empty(buf, sizeof(buf), AGG_WIRE_BYE, 0, 0));
}

static void agg_conn_close_work(struct work_struct *work)
{
	struct agg_conn *c = container_of(work, struct agg_conn, close_work);
	struct agg_session_dev *sess;
	struct agg_msg *m, *tmp;
	bool was_up;

	/* agg_conn_open() is through, or will see c->err. */
	mutex_lock(&c->setup);
	mutex_unlock(&c->setup);

	spin_lock(&c->lock);
	c->closing = true;
	spin_unlock(&c->lock);

	if (c->sock)
		agg_conn_detach_sock(c);
	cancel_work_sync(&c->rx_work);
	cancel_work_sync(&c->tx_work);
	cancel_delayed_work_sync(&c->timer);

	/* rx_work may have changed these until just now. */
	sess = c->sess;
	was_up = c->state == AGG_CONN_UP;

	if (c->sock) {
		agg_conn_farewell(c);
		sock_release(c->sock);
		c->sock = NULL;
	}

	agg_conn_unpend(c);
	agg_conn_fail_calls(c);

	/* Nobody adds to it: closing was set. */
	list_for_each_entry_safe(m, tmp, &c->txq, node) {
		list_del(&m->node);
		kfree(m);
	}

	if (agg_conn_outbound(c)) {
		agg_peer_conn_down(c->peer, c, c->err);
	} else if (sess) {
		if (was_up) {
			agg_count(sess->dev, SESSION_DOWN);
			trace_agg_session_state(sess->dev, &c->rgid, "down-in", c->err);
		}
		/* Last, since stop waits for the list to become empty. */
		spin_lock(&sess->lock);
		list_del_init(&c->node);
		sess->nr_conns--;
		spin_unlock(&sess->lock);
	}
	agg_conn_put(c);
}

/* ---- Sending ---- */

/**
 * agg_conn_send - queue a message
 * @c: the connection
 * @m: the message; not the caller's any more, whatever is returned
 *
 * Context: process; does not sleep.
 * Return: 0; -ENOTCONN if the connection ends; -ENOBUFS if too much waits.
 */
int agg_conn_send(struct agg_conn *c, struct agg_msg *m)
{
	int err = 0;

	spin_lock(&c->lock);
	if (c->closing || c->err || c->state == AGG_CONN_DRAIN) {
		err = -ENOTCONN;
	} else if (c->txq_len >= AGG_CONN_TX_MAX) {
		err = -ENOBUFS;
	} else {
		list_add_tail(&m->node, &c->txq);
		c->txq_len++;
		agg_conn_kick_tx(c);
	}
	spin_unlock(&c->lock);
	if (err)
		kfree(m);
	return err;
}

/**
 * agg_conn_send_empty - queue a message without a body
 * @c: the connection
 * @type: enum agg_wire_type
 * @flags: AGG_WIRE_F_*
 * @id: request id
 *
 * Context: process, may sleep.
 * Return: see agg_conn_send(), or -ENOMEM.
 */
int agg_conn_send_empty(struct agg_conn *c, u8 type, u8 flags, u32 id)
{
	struct agg_msg *m = agg_msg_alloc(AGG_WIRE_HDR_LEN, GFP_KERNEL);

	if (!m)
		return -ENOMEM;
	m->len = agg_wire_put_empty(m->data, AGG_WIRE_HDR_LEN, type, flags, id);
	return agg_conn_send(c, m);
}

/**
 * agg_conn_ping - find out whether the other side lives
 * @c: the connection
 *
 * Context: process, may sleep.
 */
void agg_conn_ping(struct agg_conn *c)
{
	agg_conn_send_empty(c, AGG_WIRE_PING, 0, AGG_PING_ID);
}

/**
 * agg_conn_lanes_dirty - the lane table is to be told again
 * @c: the connection
 *
 * Context: process; does not sleep.
 */
void agg_conn_lanes_dirty(struct agg_conn *c)
{
	spin_lock(&c->lock);
	c->lanes_dirty = true;
	if (c->state == AGG_CONN_UP)
		agg_conn_kick_tx(c);
	spin_unlock(&c->lock);
}

/**
 * agg_conn_gone_all - all keys told on a connection are to be forgotten
 * @c: an accepted connection
 *
 * Context: process; does not sleep.
 */
void agg_conn_gone_all(struct agg_conn *c)
{
	spin_lock(&c->lock);
	c->gone_all = true;
	agg_conn_kick_tx(c);
	spin_unlock(&c->lock);
}

/* Notices that are made when there is room to send them, so that many are one. */
static struct agg_msg *agg_conn_notice(struct agg_conn *c)
{
	struct agg_wire_key_gone gone = { .nr = 0 };
	struct agg_wire_lanes *lanes;
	bool tell_lanes, tell_gone;
	struct agg_msg *m;
	int len;

	spin_lock(&c->lock);
	tell_lanes = c->lanes_dirty && c->state == AGG_CONN_UP;
	tell_gone = c->gone_all && !tell_lanes;
	if (tell_lanes)
		c->lanes_dirty = false;
	if (tell_gone)
		c->gone_all = false;
	spin_unlock(&c->lock);
	if (!tell_lanes && !tell_gone)
		return NULL;

	m = agg_msg_alloc(AGG_WIRE_MAX_LEN, GFP_KERNEL);
	lanes = kzalloc(sizeof(*lanes), GFP_KERNEL);
	if (!m || !lanes) {
		/* A peer with wrong ideas is worse than one that asks again. */
		agg_conn_fail(c, -ENOMEM);
		kfree(m);
		m = NULL;
		goto out;
	}

	if (tell_lanes) {
		agg_sess_lanes(c->sess->dev, lanes);
		len = agg_wire_put_lanes(m->data, AGG_WIRE_MAX_LEN, lanes);
	} else {
		len = agg_wire_put_key_gone(m->data, AGG_WIRE_MAX_LEN, &gone);
	}
	if (WARN_ON_ONCE(len < 0)) {
		kfree(m);
		m = NULL;
		goto out;
	}
	m->len = len;
out:
	kfree(lanes);
	return m;
}

/* Return: 0 when all of it was taken, -EAGAIN, or why the connection ends. */
static int agg_conn_tx_one(struct agg_conn *c, struct agg_msg *m)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec iov;
	int n;

	while (m->off < m->len) {
		iov.iov_base = m->data + m->off;
		iov.iov_len = m->len - m->off;
		n = kernel_sendmsg(c->sock, &msg, &iov, 1, iov.iov_len);
		if (n < 0)
			return n;
		if (!n)
			return -EAGAIN;
		m->off += n;
	}
	return 0;
}

static void agg_conn_tx_error(struct agg_conn *c, int err)
{
	/*
	 * The other side has closed. Perhaps it said why (ERROR, BYE): that is
	 * read before the end of the stream, which fails the connection. We
	 * always read what comes on a connection that we opened.
	 */
	if ((err == -EPIPE || err == -ECONNRESET) && agg_conn_outbound(c)) {
		spin_lock(&c->lock);
		agg_conn_kick_rx(c);
		spin_unlock(&c->lock);
		return;
	}
	agg_conn_fail(c, err);
}

static void agg_conn_tx_work(struct work_struct *work)
{
	struct agg_conn *c = container_of(work, struct agg_conn, tx_work);
	unsigned int budget = AGG_RX_BATCH;
	struct agg_msg *m;
	bool fin;
	int err;

	if (!c->sock)
		return;

	while (budget--) {
		spin_lock(&c->lock);
		m = list_first_entry_or_null(&c->txq, struct agg_msg, node);
		fin = !m && c->state == AGG_CONN_DRAIN && !c->fin_sent;
		if (fin)
			c->fin_sent = true;
		if (c->state == AGG_CONN_CONNECTING)
			m = NULL;
		spin_unlock(&c->lock);

		if (fin)
			kernel_sock_shutdown(c->sock, SHUT_WR);
		if (!m) {
			m = agg_conn_notice(c);
			if (!m)
				return;
			spin_lock(&c->lock);
			list_add_tail(&m->node, &c->txq);
			c->txq_len++;
			spin_unlock(&c->lock);
			continue;
		}

		err = agg_conn_tx_one(c, m);
		if (err == -EAGAIN)
			return;		/* sk_write_space() queues us again */
		if (err) {
			agg_conn_tx_error(c, err);
			return;
		}
		if (agg_conn_outbound(c))
			atomic64_inc(&c->peer->tx_msgs);

		spin_lock(&c->lock);
		list_del(&m->node);
		c->txq_len--;
		agg_conn_unstall(c);
		spin_unlock(&c->lock);
		kfree(m);
	}

	spin_lock(&c->lock);
	agg_conn_kick_tx(c);
	spin_unlock(&c->lock);
}

/* ---- Receiving ---- */

/* The socket has come to a state that is not CONNECTING any more, or has it? */
static bool agg_conn_connected(struct agg_conn *c)
{
	struct sock *sk = c->sock->sk;
	int err;

	switch (inet_sk_state_load(sk)) {
	case TCP_ESTABLISHED:
	case TCP_CLOSE_WAIT:
		agg_hello_start(c);
		return true;
	case TCP_SYN_SENT:
	case TCP_SYN_RECV:
		return false;
	default:
		err = sock_error(sk);
		agg_conn_fail(c, err ?: -ECONNREFUSED);
		return false;
	}
}

static int agg_conn_recv(struct agg_conn *c)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT };
	struct kvec iov;
	int n;

	if (c->rxpos) {
		c->rxlen -= c->rxpos;
		memmove(c->rxbuf, c->rxbuf + c->rxpos, c->rxlen);
		c->rxpos = 0;
	}
	/* No message is longer than the buffer, so there is room. */
	iov.iov_base = c->rxbuf + c->rxlen;
	iov.iov_len = AGG_WIRE_MAX_LEN - c->rxlen;
	n = kernel_recvmsg(c->sock, &msg, &iov, 1, iov.iov_len, MSG_DONTWAIT);
	if (n > 0) {
		c->rxlen += n;
		WRITE_ONCE(c->last_rx, jiffies);
		WRITE_ONCE(c->pinging, false);
		return 0;
	}
	return n ?: -ECONNRESET;
}

static void agg_conn_rx_work(struct work_struct *work)
{
	struct agg_conn *c = container_of(work, struct agg_conn, rx_work);
	unsigned int budget = AGG_RX_BATCH;
	struct agg_wire_hdr hdr;
	int len, err;

	if (c->state == AGG_CONN_CONNECTING && !agg_conn_connected(c))
		return;

	while (budget) {
		if (READ_ONCE(c->err))
			return;
		/* Whoever makes room queues us again. */
		if (agg_conn_stall(c))
			return;

		len = agg_wire_frame(c->rxbuf + c->rxpos, c->rxlen - c->rxpos, &hdr);
		if (len < 0) {
			agg_conn_bad(c, "impossible length");
			return;
		}
		if (!len) {
			err = agg_conn_recv(c);
			if (err == -EAGAIN)
				return;		/* sk_data_ready() queues us again */
			if (err) {
				agg_conn_fail(c, err);
				return;
			}
			continue;
		}
		if (agg_conn_rx_msg(c, &hdr, c->rxbuf + c->rxpos, len))
			return;
		c->rxpos += len;
		budget--;
	}

	spin_lock(&c->lock);
	agg_conn_kick_rx(c);
	spin_unlock(&c->lock);
}

/* ---- Timer ---- */

static void agg_conn_keepalive(struct agg_conn *c)
{
	unsigned int ms = READ_ONCE(c->sess->dev->params.keepalive_ms);
	unsigned long now = jiffies, period, due;

	if (!ms) {
		/* Never; but the parameter may change. */
		agg_conn_timer_set(c, 1000);
		return;
	}
	/* Bounded, so that no sum below overflows. */
	period = msecs_to_jiffies(min(ms, AGG_KEEPALIVE_MAX_MS));

	if (READ_ONCE(c->pinging)) {
		due = c->ping_at + 2 * period;
		if (time_after_eq(now, due)) {
			/* If its answer is here and only we are late, it lives. */
			if (skb_queue_empty_lockless(&c->sock->sk->sk_receive_queue)) {
				agg_conn_fail(c, -ETIMEDOUT);
				return;
			}
			/* Others may wait for a sign of us, too. */
			c->ping_at = now;
			agg_conn_ping(c);
			due = now + 2 * period;
		}
	} else {
		due = READ_ONCE(c->last_rx) + period;
		if (time_after_eq(now, due)) {
			c->ping_at = now;
			WRITE_ONCE(c->pinging, true);
			agg_conn_ping(c);
			due = now + 2 * period;
		}
	}
	agg_conn_timer_set(c, jiffies_to_msecs(due - now) + 1);
}

static void agg_conn_timer(struct work_struct *work)
{
	struct agg_conn *c = container_of(to_delayed_work(work), struct agg_conn, timer);

	switch (READ_ONCE(c->state)) {
	case AGG_CONN_UP:
		agg_conn_keepalive(c);
		break;
	default:
		agg_conn_fail(c, -ETIMEDOUT);
		break;
	}
}
