// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Sessions of an agg device: start and stop, the listeners, the pre-shared
 * key. Peers are in peer.c, connections in conn.c; conn.h has the locks.
 *
 * Kernel sockets do not hold their network namespace. So a device's stop is
 * synchronous, and sockets are closed with a reset: nothing of them is left to
 * linger in a namespace that may go as soon as stop has returned.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inet.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <rdma/ib_cache.h>

#include "conn.h"

#define AGG_LISTEN_BACKLOG	256
#define AGG_ACCEPT_BATCH	64

DEFINE_SPINLOCK(agg_sess_lock);
static LIST_HEAD(agg_sess_devs);
static DEFINE_MUTEX(agg_listen_mutex);
static LIST_HEAD(agg_listeners);
struct workqueue_struct *agg_sess_wq;
struct workqueue_struct *agg_req_wq;
struct workqueue_struct *agg_ask_wq;

/* ---- Helpers ---- */

/**
 * agg_gid_str - a GID as a person writes it
 * @buf: AGG_GID_STR bytes
 * @gid: the GID
 *
 * Context: any.
 * Return: @buf.
 */
const char *agg_gid_str(char *buf, const union ib_gid *gid)
{
	if (ipv6_addr_v4mapped((const struct in6_addr *)gid->raw))
		snprintf(buf, AGG_GID_STR, "%pI4", gid->raw + 12);
	else
		snprintf(buf, AGG_GID_STR, "%pI6c", gid->raw);
	return buf;
}

/**
 * agg_sess_strerror - why there is no session, for the log
 * @err: negative errno as agg_peer_connect() returns it
 *
 * Context: any.
 * Return: a constant text.
 */
const char *agg_sess_strerror(int err)
{
	switch (err) {
	case -EACCES:
		return "wrong pre-shared key";
	case -ENOKEY:
		return "the peer requires a pre-shared key";
	case -EKEYREJECTED:
		return "the peer has no pre-shared key";
	case -ENOPROTOOPT:
		return "other protocol version";
	case -ENXIO:
		return "no agg device has this address there";
	case -EBUSY:
		return "too many sessions there";
	case -EPROTO:
		return "malformed message";
	case -ECONNREFUSED:
		return "connection refused: is rdma_agg loaded there?";
	case -EHOSTUNREACH:
		return "host unreachable";
	case -ENETUNREACH:
		return "network unreachable";
	case -ETIMEDOUT:
		return "no answer";
	case -ECONNRESET:
		return "connection reset";
	case -ESHUTDOWN:
		return "closed by the peer";
	case -EADDRNOTAVAIL:
		return "own address is not available";
	case -ENOMEM:
		return "out of memory";
	default:
		return "error";
	}
}

static void agg_sess_release(struct kref *ref)
{
	struct agg_session_dev *sess = container_of(ref, struct agg_session_dev, ref);

	WARN_ON(!list_empty(&sess->peers) || !list_empty(&sess->conns));
	agg_psk_put(sess->psk);
	kfree(sess);
}

/**
 * agg_sess_put - let go of a device's sessions
 * @sess: the sessions
 *
 * Context: process.
 */
void agg_sess_put(struct agg_session_dev *sess)
{
	kref_put(&sess->ref, agg_sess_release);
}

/**
 * agg_sess_get - the sessions of a device
 * @dev: the device
 *
 * Context: process; does not sleep.
 * Return: the sessions with a reference, or NULL if it has stopped.
 */
struct agg_session_dev *agg_sess_get(struct agg_dev *dev)
{
	struct agg_session_dev *sess;

	spin_lock(&agg_sess_lock);
	sess = dev->sess;
	if (sess)
		kref_get(&sess->ref);
	spin_unlock(&agg_sess_lock);
	return sess;
}

/**
 * agg_sess_active_put - a request was served, a peer taken down
 * @sess: the sessions; the caller holds a reference of its own
 *
 * After this the caller must not use the device any more.
 *
 * Context: any.
 */
void agg_sess_active_put(struct agg_session_dev *sess)
{
	if (atomic_dec_and_test(&sess->active))
		wake_up_all(&sess->active_wait);
}

static bool agg_sess_has_gid(struct agg_dev *dev, const u8 *raw)
{
	const struct ib_gid_attr *attr;
	union ib_gid gid;

	memcpy(gid.raw, raw, sizeof(gid.raw));

	/* The GID table is there only while the device is registered. */
	if (!ib_device_try_get(&dev->ibdev))
		return false;
	attr = rdma_find_gid(&dev->ibdev, &gid, IB_GID_TYPE_ROCE_UDP_ENCAP, NULL);
	if (!IS_ERR(attr))
		rdma_put_gid_attr(attr);
	ib_device_put(&dev->ibdev);
	return !IS_ERR(attr);
}

/**
 * agg_sess_find - the device that a HELLO is for
 * @l: listener that accepted the connection
 * @gid: the GID asked for, 16 bytes
 *
 * Context: process.
 * Return: its sessions with a reference, or NULL.
 */
struct agg_session_dev *agg_sess_find(struct agg_listener *l, const u8 *gid)
{
	struct agg_session_dev *sess, *found = NULL;

	spin_lock(&agg_sess_lock);
	list_for_each_entry(sess, &agg_sess_devs, node) {
		if (sess->listener == l && agg_sess_has_gid(sess->dev, gid)) {
			kref_get(&sess->ref);
			found = sess;
			break;
		}
	}
	spin_unlock(&agg_sess_lock);
	return found;
}

/**
 * agg_sess_add_conn - an accepted connection becomes one of a device
 * @sess: sessions of the device
 * @c: the connection
 *
 * Context: process.
 * Return: false if there are too many, or the device stops: then @c stays
 * nobody's.
 */
bool agg_sess_add_conn(struct agg_session_dev *sess, struct agg_conn *c)
{
	bool ok;

	spin_lock(&sess->lock);
	ok = !sess->stopping && sess->nr_conns < AGG_CONN_MAX_ACCEPTED;
	if (ok) {
		kref_get(&sess->ref);
		c->sess = sess;
		list_add_tail(&c->node, &sess->conns);
		sess->nr_conns++;
	}
	spin_unlock(&sess->lock);
	return ok;
}

/**
 * agg_sess_reset - end every connection of a device; ours are opened again
 * @sess: the sessions
 * @err: why, a negative errno
 *
 * Context: process; does not sleep.
 */
void agg_sess_reset(struct agg_session_dev *sess, int err)
{
	struct agg_peer *peer;
	struct agg_conn *c;

	spin_lock(&sess->lock);
	list_for_each_entry(c, &sess->conns, node)
		agg_conn_fail(c, err);
	list_for_each_entry(peer, &sess->peers, node) {
		spin_lock(&peer->lock);
		if (peer->conn)
			agg_conn_fail(peer->conn, err);
		spin_unlock(&peer->lock);
	}
	spin_unlock(&sess->lock);
}

/* ---- Listeners ---- */

static void agg_listener_release(struct kref *ref)
{
	kfree(container_of(ref, struct agg_listener, ref));
}

/**
 * agg_listener_put_ref - let go of a listener's memory
 * @l: the listener
 *
 * Context: process.
 */
void agg_listener_put_ref(struct agg_listener *l)
{
	kref_put(&l->ref, agg_listener_release);
}

/**
 * agg_listener_count - count what happened before a device was named
 * @l: the listener
 * @c: the counter; of each device that listens there, since it could be any
 *
 * Context: process.
 */
void agg_listener_count(struct agg_listener *l, enum agg_counter c)
{
	struct agg_session_dev *sess;

	spin_lock(&agg_sess_lock);
	list_for_each_entry(sess, &agg_sess_devs, node)
		if (sess->listener == l)
			atomic64_inc(&sess->dev->cnt[c]);
	spin_unlock(&agg_sess_lock);
}

static void agg_listener_data_ready(struct sock *sk)
{
	struct agg_listener *l;

	/*
	 * A connection that was not accepted yet has inherited this function,
	 * but not the pointer: it is marked as not to be copied.
	 */
	read_lock_bh(&sk->sk_callback_lock);
	rcu_read_lock();
	l = rcu_dereference_sk_user_data(sk);
	if (l)
		mod_delayed_work(agg_sess_wq, &l->accept_work, 0);
	rcu_read_unlock();
	read_unlock_bh(&sk->sk_callback_lock);
}

static void agg_listener_accept(struct work_struct *work)
{
	struct agg_listener *l = container_of(to_delayed_work(work), struct agg_listener,
					      accept_work);
	struct socket *sock;
	unsigned int i;
	int err;

	for (i = 0; i < AGG_ACCEPT_BATCH; i++) {
		err = kernel_accept(l->sock, &sock, O_NONBLOCK);
		if (err == -EAGAIN || err == -EINVAL)
			return;
		if (err == -ECONNABORTED)
			continue;
		if (err) {
			/* Out of something: it stays in the backlog. */
			queue_delayed_work(agg_sess_wq, &l->accept_work, HZ / 10);
			return;
		}
		agg_conn_accept(l, sock);
	}
	queue_delayed_work(agg_sess_wq, &l->accept_work, 0);
}

static struct socket *agg_listener_socket(struct net *net, bool *v6)
{
	struct socket *sock;
	int err = -EAFNOSUPPORT;

	*v6 = IS_ENABLED(CONFIG_IPV6);
	if (*v6)
		err = sock_create_kern(net, AF_INET6, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err == -EAFNOSUPPORT) {
		*v6 = false;
		err = sock_create_kern(net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	}
	return err ? ERR_PTR(err) : sock;
}

static int agg_listener_listen(struct agg_listener *l, bool v6)
{
	struct sockaddr_storage addr = {};
	struct sock *sk = l->sock->sk;
	int err;

	if (v6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(l->port);
#if IS_ENABLED(CONFIG_IPV6)
		/* IPv4 too, whatever net.ipv6.bindv6only says. */
		sk->sk_ipv6only = false;
#endif
	} else {
		struct sockaddr_in *in = (struct sockaddr_in *)&addr;

		in->sin_family = AF_INET;
		in->sin_port = htons(l->port);
	}

	sock_set_reuseaddr(sk);
	err = kernel_bind(l->sock, (struct agg_sockaddr *)&addr,
			  v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	if (err)
		return err;

	write_lock_bh(&sk->sk_callback_lock);
	l->old_data_ready = sk->sk_data_ready;
	__rcu_assign_sk_user_data_with_flags(sk, l, SK_USER_DATA_NOCOPY);
	sk->sk_data_ready = agg_listener_data_ready;
	write_unlock_bh(&sk->sk_callback_lock);

	return kernel_listen(l->sock, AGG_LISTEN_BACKLOG);
}

static void agg_listener_close(struct agg_listener *l)
{
	struct sock *sk = l->sock->sk;
	struct agg_conn *c;

	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	if (l->old_data_ready)
		sk->sk_data_ready = l->old_data_ready;
	write_unlock_bh(&sk->sk_callback_lock);

	/* Nobody queues it any more but itself. */
	cancel_delayed_work_sync(&l->accept_work);
	sock_release(l->sock);

	/* Those that were accepted and have not been heard of since. */
	for (;;) {
		spin_lock(&agg_sess_lock);
		c = list_first_entry_or_null(&l->pending, struct agg_conn, pending);
		if (c)
			kref_get(&c->ref);
		spin_unlock(&agg_sess_lock);
		if (!c)
			break;
		agg_conn_close_sync(c, -ENOTCONN);
		agg_conn_put(c);
	}
	agg_listener_put_ref(l);
}

static struct agg_listener *agg_listener_find(struct net *net, u16 port)
{
	struct agg_listener *l;

	lockdep_assert_held(&agg_listen_mutex);

	list_for_each_entry(l, &agg_listeners, node)
		if (net_eq(l->net, net) && l->port == port)
			return l;
	return NULL;
}

/* One more user of the listener on @port, which is made if need be. */
static struct agg_listener *agg_listener_use(struct net *net, u16 port)
{
	struct agg_listener *l, *new;
	struct socket *sock;
	int err = 0;
	bool v6;

	/*
	 * The socket is made outside the mutex: it may load a module, whose
	 * init takes rtnl, and the mutex is taken below rtnl.
	 */
	sock = agg_listener_socket(net, &v6);
	if (IS_ERR(sock))
		return ERR_CAST(sock);

	new = kzalloc(sizeof(*new), GFP_KERNEL);
	if (!new) {
		sock_release(sock);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&new->ref);
	new->net = net;
	new->port = port;
	new->sock = sock;
	INIT_DELAYED_WORK(&new->accept_work, agg_listener_accept);
	INIT_LIST_HEAD(&new->pending);

	mutex_lock(&agg_listen_mutex);
	l = agg_listener_find(net, port);
	if (!l) {
		err = agg_listener_listen(new, v6);
		if (!err) {
			list_add_tail(&new->node, &agg_listeners);
			l = new;
			new = NULL;
		}
	}
	if (l)
		l->users++;
	mutex_unlock(&agg_listen_mutex);

	if (new)
		agg_listener_close(new);
	return err ? ERR_PTR(err) : l;
}

static void agg_listener_unuse(struct agg_listener *l)
{
	bool last;

	mutex_lock(&agg_listen_mutex);
	last = !--l->users;
	if (last) {
		list_del(&l->node);
		/* Under the mutex, so that the port is free for the next. */
		agg_listener_close(l);
	}
	mutex_unlock(&agg_listen_mutex);
}

/* ---- Devices ---- */

/**
 * agg_session_dev_start - begin to listen for peers of a device
 * @dev: the device, registered, its network namespace and parameters set
 *
 * Context: process, may sleep.
 * Return: 0, -EALREADY, -EADDRINUSE if the port is taken, or another errno.
 */
int agg_session_dev_start(struct agg_dev *dev)
{
	struct agg_session_dev *sess;
	struct agg_listener *l;

	sess = kzalloc(sizeof(*sess), GFP_KERNEL);
	if (!sess)
		return -ENOMEM;

	kref_init(&sess->ref);
	sess->dev = dev;
	spin_lock_init(&sess->lock);
	INIT_LIST_HEAD(&sess->peers);
	INIT_LIST_HEAD(&sess->conns);
	atomic_set(&sess->active, 0);
	init_waitqueue_head(&sess->active_wait);
	init_completion(&sess->stopped);

	l = agg_listener_use(read_pnet(&dev->net), READ_ONCE(dev->params.session_port));
	if (IS_ERR(l)) {
		kfree(sess);
		return PTR_ERR(l);
	}
	sess->listener = l;

	spin_lock(&agg_sess_lock);
	if (dev->sess) {
		spin_unlock(&agg_sess_lock);
		agg_listener_unuse(l);
		kfree(sess);
		return -EALREADY;
	}
	dev->sess = sess;
	list_add_tail(&sess->node, &agg_sess_devs);
	spin_unlock(&agg_sess_lock);
	return 0;
}

/**
 * agg_session_dev_rebind - listen on the port that the parameters say now
 * @dev: the device
 *
 * Sessions that are up stay; peers reconnect to the new port. On failure the
 * old port is kept.
 *
 * Context: process, may sleep.
 * Return: 0, -ENODEV if the device is not started, -EADDRINUSE, or another
 * errno.
 */
int agg_session_dev_rebind(struct agg_dev *dev)
{
	struct agg_listener *l, *old;
	struct agg_session_dev *sess;
	bool stopping;

	sess = agg_sess_get(dev);
	if (!sess)
		return -ENODEV;

	l = agg_listener_use(read_pnet(&dev->net), READ_ONCE(dev->params.session_port));
	if (IS_ERR(l)) {
		agg_sess_put(sess);
		return PTR_ERR(l);
	}

	/* Stop takes the listener over by setting it to NULL. */
	spin_lock(&agg_sess_lock);
	stopping = !sess->listener;
	old = stopping ? l : sess->listener;
	if (!stopping)
		sess->listener = l;
	spin_unlock(&agg_sess_lock);

	agg_listener_unuse(old);
	agg_sess_put(sess);
	return stopping ? -ENODEV : 0;
}

/**
 * agg_session_dev_stop - end all sessions of a device
 * @dev: the device
 *
 * When it returns, no socket of the device is left, no callback into the rest
 * of the module runs or will run, and all calls have failed with -ENOTCONN.
 * Peers that QPs still hold are empty shells. May be called again, also while
 * another call is under way, which it waits for.
 *
 * Context: process, may sleep; may be called with rtnl held, and so waits for
 * nothing that takes it.
 */
void agg_session_dev_stop(struct agg_dev *dev)
{
	struct agg_session_dev *sess;
	struct agg_listener *l;
	struct agg_peer *peer;
	struct agg_conn *c;
	bool first;

	sess = agg_sess_get(dev);
	if (!sess)
		return;

	/* From here on no HELLO finds it, and no peer or connection is added. */
	spin_lock(&agg_sess_lock);
	l = sess->listener;
	sess->listener = NULL;
	if (l)
		list_del(&sess->node);
	spin_lock(&sess->lock);
	first = !sess->stopping;
	WRITE_ONCE(sess->stopping, true);
	spin_unlock(&sess->lock);
	spin_unlock(&agg_sess_lock);

	if (!first) {
		wait_for_completion(&sess->stopped);
		agg_sess_put(sess);
		return;
	}

	agg_listener_unuse(l);

	while ((peer = agg_peer_first(sess))) {
		agg_peer_kill(peer);
		agg_peer_put_ref(peer);
	}

	for (;;) {
		spin_lock(&sess->lock);
		c = list_first_entry_or_null(&sess->conns, struct agg_conn, node);
		if (c)
			kref_get(&c->ref);
		spin_unlock(&sess->lock);
		if (!c)
			break;
		agg_conn_close_sync(c, -ENOTCONN);
		agg_conn_put(c);
	}

	/*
	 * No receive work is left that could begin a request, so the number
	 * only goes down: to 0, when all have returned.
	 */
	wait_event(sess->active_wait, !atomic_read(&sess->active));

	spin_lock(&agg_sess_lock);
	dev->sess = NULL;
	spin_unlock(&agg_sess_lock);
	complete_all(&sess->stopped);
	agg_sess_put(sess);	/* ours */
	agg_sess_put(sess);	/* dev->sess's */
}

/**
 * agg_session_lanes_changed - tell the peers that a lane came, went or changed
 * @dev: the device
 *
 * Context: process; does not sleep.
 */
void agg_session_lanes_changed(struct agg_dev *dev)
{
	struct agg_session_dev *sess;
	struct agg_peer *peer;
	struct agg_conn *c;

	/*
	 * The number is raised after the change and read before the table is:
	 * a table is never older than its number says.
	 */
	spin_lock(&agg_sess_lock);
	/* Pairs with the acquire in agg_sess_lanes(). */
	smp_store_release(&dev->lanes_epoch, dev->lanes_epoch + 1);
	sess = dev->sess;
	if (sess)
		kref_get(&sess->ref);
	spin_unlock(&agg_sess_lock);
	if (!sess)
		return;

	spin_lock(&sess->lock);
	list_for_each_entry(c, &sess->conns, node)
		agg_conn_lanes_dirty(c);
	list_for_each_entry(peer, &sess->peers, node) {
		spin_lock(&peer->lock);
		if (peer->conn)
			agg_conn_lanes_dirty(peer->conn);
		spin_unlock(&peer->lock);
	}
	spin_unlock(&sess->lock);
	agg_sess_put(sess);
}

/**
 * agg_session_key_gone - a key is not valid any more: tell those who asked
 * @dev: the device
 * @rkey: the key; agg_mr_describe() must not find it any more
 *
 * Must be called for every key that was ever valid for remote access, also if
 * nobody seems to have asked: a request may be on its way to ask.
 *
 * Context: process; does not sleep.
 */
void agg_session_key_gone(struct agg_dev *dev, u32 rkey)
{
	struct agg_session_dev *sess;
	struct agg_conn *c;

	sess = agg_sess_get(dev);
	if (!sess)
		return;

	spin_lock(&sess->lock);
	list_for_each_entry(c, &sess->conns, node)
		agg_keys_conn_gone(c, rkey);
	spin_unlock(&sess->lock);
	agg_sess_put(sess);
}

/* The next one by age, so that peers that come or go do not disturb a walk. */
static struct agg_peer *agg_sess_peer_after(struct agg_session_dev *sess, unsigned long *cursor)
{
	struct agg_peer *peer;

	lockdep_assert_held(&sess->lock);

	list_for_each_entry(peer, &sess->peers, node) {
		if (peer->seq <= *cursor)
			continue;
		*cursor = peer->seq;
		return peer;
	}
	return NULL;
}

/**
 * agg_session_peers - walk the peers of a device
 * @dev: the device
 * @cursor: 0 to begin with; where to go on, afterwards
 * @out: filled with the next peer
 *
 * Peers that come or go meanwhile do not disturb the walk.
 *
 * Context: process.
 * Return: 0 if @out was filled, -ENOENT when there are no more.
 */
int agg_session_peers(struct agg_dev *dev, unsigned long *cursor, struct agg_peer_info *out)
{
	struct agg_session_dev *sess;
	struct agg_peer *peer;
	int err = -ENOENT;

	sess = agg_sess_get(dev);
	if (!sess)
		return err;

	spin_lock(&sess->lock);
	peer = agg_sess_peer_after(sess, cursor);
	if (peer) {
		spin_lock(&peer->lock);
		*out = (struct agg_peer_info) {
			.sgid = peer->sgid,
			.gid = peer->dgid,
			.instance = peer->instance,
			.nr_lanes = peer->lanes.nr,
			.nr_keys = READ_ONCE(peer->keys.nr_valid),
			.users = peer->users,
			.up = peer->up,
			.last_err = peer->last_err,
			.since = peer->since,
			.tx_msgs = atomic64_read(&peer->tx_msgs),
			.rx_msgs = atomic64_read(&peer->rx_msgs),
			.reconnects = peer->reconnects,
		};
		spin_unlock(&peer->lock);
		err = 0;
	}
	spin_unlock(&sess->lock);
	agg_sess_put(sess);
	return err;
}

/**
 * agg_session_peer_lanes - walk what the peers have told of their lanes
 * @dev: the device
 * @cursor: 0 to begin with; where to go on, afterwards
 * @out: filled with the table of the next peer whose session is up
 *
 * Context: process; does not sleep.
 * Return: 0 if @out was filled, -ENOENT when there are no more.
 */
int agg_session_peer_lanes(struct agg_dev *dev, unsigned long *cursor, struct agg_wire_lanes *out)
{
	struct agg_session_dev *sess;
	struct agg_peer *peer;
	int err = -ENOENT;

	sess = agg_sess_get(dev);
	if (!sess)
		return err;

	spin_lock(&sess->lock);
	while (err && (peer = agg_sess_peer_after(sess, cursor))) {
		spin_lock(&peer->lock);
		if (peer->up) {
			*out = peer->lanes;
			err = 0;
		}
		spin_unlock(&peer->lock);
	}
	spin_unlock(&sess->lock);
	agg_sess_put(sess);
	return err;
}

static const struct agg_wire_lane *agg_lanes_find(const struct agg_wire_lanes *lanes, const u8 *gid)
{
	unsigned int i, j;

	for (i = 0; i < lanes->nr; i++)
		for (j = 0; j < lanes->lane[i].nr_gids; j++)
			if (!memcmp(lanes->lane[i].gid[j], gid, AGG_WIRE_GID_LEN))
				return &lanes->lane[i];
	return NULL;
}

/**
 * agg_session_find_lane - whose lane has this address, and does the peer live?
 * @dev: the device
 * @gid: address of a lane, 16 bytes
 * @out: filled with what its owner last told of it
 * @heard: filled with the jiffies of the last message of its owner
 *
 * The owner is also sent a PING, so that it is heard the next time.
 *
 * Context: process, may sleep.
 * Return: whether a peer whose session is up has such a lane.
 */
bool agg_session_find_lane(struct agg_dev *dev, const u8 *gid, struct agg_wire_lane *out,
			   unsigned long *heard)
{
	const struct agg_wire_lane *lane;
	struct agg_session_dev *sess;
	struct agg_conn *c = NULL;
	struct agg_peer *peer;

	sess = agg_sess_get(dev);
	if (!sess)
		return false;

	spin_lock(&sess->lock);
	list_for_each_entry(peer, &sess->peers, node) {
		spin_lock(&peer->lock);
		lane = peer->up ? agg_lanes_find(&peer->lanes, gid) : NULL;
		if (lane) {
			*out = *lane;
			c = peer->conn;
			kref_get(&c->ref);
		}
		spin_unlock(&peer->lock);
		if (c)
			break;
	}
	spin_unlock(&sess->lock);
	agg_sess_put(sess);
	if (!c)
		return false;
	*heard = READ_ONCE(c->last_rx);
	agg_conn_ping(c);
	agg_conn_put(c);
	return true;
}

/**
 * agg_session_init - make ready for devices
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int agg_session_init(void)
{
	agg_sess_wq = alloc_workqueue("rdma_agg_sess", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!agg_sess_wq)
		return -ENOMEM;
	agg_req_wq = alloc_workqueue("rdma_agg_req", WQ_UNBOUND, WQ_MAX_ACTIVE);
	if (!agg_req_wq)
		goto err_sess;
	agg_ask_wq = alloc_workqueue("rdma_agg_ask", WQ_UNBOUND, WQ_MAX_ACTIVE);
	if (!agg_ask_wq)
		goto err_req;
	return 0;

err_req:
	destroy_workqueue(agg_req_wq);
err_sess:
	destroy_workqueue(agg_sess_wq);
	return -ENOMEM;
}

/**
 * agg_session_exit - undo agg_session_init(); all devices have stopped
 *
 * Context: process, may sleep.
 */
void agg_session_exit(void)
{
	WARN_ON(!list_empty(&agg_listeners));
	WARN_ON(!list_empty(&agg_sess_devs));
	destroy_workqueue(agg_ask_wq);
	destroy_workqueue(agg_req_wq);
	destroy_workqueue(agg_sess_wq);
	/*
	 * TCP calls a listener's sk_data_ready() without its lock: somebody may
	 * have loaded the pointer before the listener was closed.
	 */
	synchronize_rcu();
}
