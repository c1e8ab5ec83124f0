// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Peers: a remote agg device as one of our GIDs sees it. A peer owns the
 * connection that we open to it, tries again while somebody needs it, and
 * remembers what the other side told: instance, lanes, keys.
 *
 * An attempt goes through the addresses of the peer: its GID first, then the
 * addresses of its lanes once these are known, so that a session survives the
 * loss of the identity path. One round through all of them is one attempt.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inet.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <net/ipv6.h>
#include <rdma/ib_cache.h>

#include "conn.h"
#include "trace.h"

/* ---- Lifetime ---- */

static void agg_peer_release(struct kref *ref)
{
	struct agg_peer *peer = container_of(ref, struct agg_peer, ref);

	agg_keys_destroy(&peer->keys);
	agg_sess_put(peer->sess);
	kfree(peer);
}

/**
 * agg_peer_put_ref - let go of the memory of a peer
 * @peer: the peer
 *
 * Context: process.
 */
void agg_peer_put_ref(struct agg_peer *peer)
{
	kref_put(&peer->ref, agg_peer_release);
}

/* Does anybody need the session? */
static bool agg_peer_needed(const struct agg_peer *peer)
{
	lockdep_assert_held(&peer->lock);

	return peer->wanted && (peer->users || peer->nr_backlog);
}

/* A connection that has failed is still there until its close work has run. */
static bool agg_peer_is_up(const struct agg_peer *peer)
{
	lockdep_assert_held(&peer->lock);

	return peer->up && !READ_ONCE(peer->conn->err);
}

static void agg_peer_schedule(struct agg_peer *peer, unsigned int ms)
{
	lockdep_assert_held(&peer->lock);

	if (!peer->dead)
		mod_delayed_work(agg_sess_wq, &peer->work, msecs_to_jiffies(ms));
}

/* A little apart, so that two hosts or many peers do not keep step. */
static unsigned int agg_peer_jitter(unsigned int ms)
{
	return ms + get_random_u32() % (ms / 4 + 1);
}

static void agg_peer_drop_backlog(struct list_head *list)
{
	struct agg_msg *m, *tmp;

	list_for_each_entry_safe(m, tmp, list, node) {
		list_del(&m->node);
		kfree(m);
	}
}

/**
 * agg_peer_first - the first peer of a device that stops
 * @sess: its sessions
 *
 * Context: process.
 * Return: a peer with a reference, or NULL.
 */
struct agg_peer *agg_peer_first(struct agg_session_dev *sess)
{
	struct agg_peer *peer;

	spin_lock(&sess->lock);
	peer = list_first_entry_or_null(&sess->peers, struct agg_peer, node);
	if (peer)
		kref_get(&peer->ref);
	spin_unlock(&sess->lock);
	return peer;
}

/* Only one caller gets true: the one that must take the peer down. */
static bool agg_peer_unlink(struct agg_peer *peer, bool if_idle)
{
	struct agg_session_dev *sess = peer->sess;
	bool won;

	spin_lock(&sess->lock);
	spin_lock(&peer->lock);
	won = !peer->dead;
	if (won && if_idle)
		won = !peer->users &&
		      time_after_eq(jiffies, peer->idle_since +
				    msecs_to_jiffies(AGG_PEER_IDLE_MS));
	if (won) {
		peer->dead = true;
		list_del(&peer->node);
		/* Stop waits for us though the peer is not on its list now. */
		atomic_inc(&sess->active);
	}
	spin_unlock(&peer->lock);
	spin_unlock(&sess->lock);
	return won;
}

/* @peer is unlinked and dead: nobody queues its work any more. */
static void agg_peer_teardown(struct agg_peer *peer)
{
	struct agg_session_dev *sess = peer->sess;
	LIST_HEAD(backlog);
	struct agg_conn *c;

	cancel_delayed_work_sync(&peer->work);

	spin_lock(&peer->lock);
	c = peer->conn;
	if (c)
		kref_get(&c->ref);
	spin_unlock(&peer->lock);
	if (c) {
		agg_conn_close_sync(c, -ENOTCONN);
		agg_conn_put(c);
	}

	agg_keys_close(peer);

	spin_lock(&peer->lock);
	list_splice_init(&peer->backlog, &backlog);
	peer->nr_backlog = 0;
	spin_unlock(&peer->lock);
	agg_peer_drop_backlog(&backlog);
	wake_up_all(&peer->wait);

	/* The table's reference must not be the one that keeps sess. */
	kref_get(&sess->ref);
	agg_peer_put_ref(peer);
	agg_sess_active_put(sess);
	agg_sess_put(sess);
}

/**
 * agg_peer_kill - take a peer down because its device stops
 * @peer: the peer; the caller holds a reference
 *
 * Context: process, may sleep.
 */
void agg_peer_kill(struct agg_peer *peer)
{
	if (!agg_peer_unlink(peer, false))
		return;
	cancel_delayed_work_sync(&peer->idle_work);
	agg_peer_teardown(peer);
}

static void agg_peer_idle_work(struct work_struct *work)
{
	struct agg_peer *peer = container_of(to_delayed_work(work), struct agg_peer, idle_work);

	/*
	 * Linked, or being taken down by somebody who waits for this work: in
	 * both cases the table's reference is there.
	 */
	if (agg_peer_unlink(peer, true))
		agg_peer_teardown(peer);
}

/* ---- Attempts ---- */

static void agg_gid_addr(const u8 *gid, u16 port, struct sockaddr_storage *ss)
{
	struct in6_addr a6;

	memcpy(&a6, gid, sizeof(a6));
	memset(ss, 0, sizeof(*ss));
	if (ipv6_addr_v4mapped(&a6)) {
		struct sockaddr_in *in = (struct sockaddr_in *)ss;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		in->sin_addr.s_addr = a6.s6_addr32[3];
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		in6->sin6_addr = a6;
	}
}

/* The interface on which a link-local address means something. */
static int agg_gid_ifindex(struct agg_dev *dev, const union ib_gid *gid)
{
	const struct ib_gid_attr *attr;
	struct net_device *ndev;
	int ifindex = 0;

	if (!ib_device_try_get(&dev->ibdev))
		return 0;
	attr = rdma_find_gid(&dev->ibdev, gid, IB_GID_TYPE_ROCE_UDP_ENCAP, NULL);
	if (!IS_ERR(attr)) {
		rcu_read_lock();
		ndev = rdma_read_gid_attr_ndev_rcu(attr);
		if (!IS_ERR_OR_NULL(ndev))
			ifindex = ndev->ifindex;
		rcu_read_unlock();
		rdma_put_gid_attr(attr);
	}
	ib_device_put(&dev->ibdev);
	return ifindex;
}

static bool agg_gid_linklocal(const u8 *gid)
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* Address @n of the lanes, counted without those that need an interface. */
static const u8 *agg_lanes_addr(const struct agg_wire_lanes *lanes, unsigned int n)
{
	unsigned int i, j;

	for (i = 0; i < lanes->nr; i++)
		for (j = 0; j < lanes->lane[i].nr_gids; j++) {
			const u8 *gid = lanes->lane[i].gid[j];

			if (agg_gid_linklocal(gid) || !memchr_inv(gid, 0, AGG_WIRE_GID_LEN))
				continue;
			if (!n--)
				return gid;
		}
	return NULL;
}

/**
 * agg_peer_addr - an address to try
 * @peer: the peer
 * @cand: 0 = its GID, n = the n-th address of its lanes
 * @local: filled with the address to bind to; family AF_UNSPEC = any
 * @remote: filled with the address to connect to
 * @tmo_ms: filled with how long to try, in milliseconds
 *
 * Context: process.
 * Return: 0 or -ENOENT if there is no such address.
 */
int agg_peer_addr(struct agg_peer *peer, unsigned int cand, struct sockaddr_storage *local,
		  struct sockaddr_storage *remote, unsigned int *tmo_ms)
{
	struct agg_dev *dev = peer->sess->dev;
	u32 tmo = READ_ONCE(dev->params.connect_timeout_ms);
	u16 port = READ_ONCE(dev->params.session_port);
	const u8 *addr;
	bool others;

	memset(local, 0, sizeof(*local));

	spin_lock(&peer->lock);
	others = agg_lanes_addr(&peer->lanes, 0);
	addr = cand ? agg_lanes_addr(&peer->lanes, cand - 1) : peer->dgid.raw;
	if (addr)
		agg_gid_addr(addr, port, remote);
	spin_unlock(&peer->lock);
	if (!addr)
		return -ENOENT;

	/* With others to try, a silent one must not use up the caller's time. */
	*tmo_ms = others ? clamp(tmo / 3, 250U, 2000U) : max(tmo, 250U);

	if (!cand) {
		agg_gid_addr(peer->sgid.raw, 0, local);
		if (agg_gid_linklocal(peer->dgid.raw) || agg_gid_linklocal(peer->sgid.raw)) {
			int ifindex = agg_gid_ifindex(dev, &peer->sgid);

			if (local->ss_family == AF_INET6)
				((struct sockaddr_in6 *)local)->sin6_scope_id = ifindex;
			if (remote->ss_family == AF_INET6)
				((struct sockaddr_in6 *)remote)->sin6_scope_id = ifindex;
		}
	}
	return 0;
}

static void agg_peer_work(struct work_struct *work)
{
	struct agg_peer *peer = container_of(to_delayed_work(work), struct agg_peer, work);
	struct agg_conn *c, *unused = NULL;
	unsigned int cand;

	c = agg_conn_alloc();

	spin_lock(&peer->lock);
	if (peer->dead || peer->conn || !agg_peer_needed(peer)) {
		unused = c;
		c = NULL;
	} else if (!c) {
		agg_peer_schedule(peer, AGG_PEER_BACKOFF_MAX_MS);
	} else {
		if (!peer->cand)
			peer->start_seq++;
		cand = peer->cand;
		kref_get(&peer->ref);
		c->peer = peer;
		kref_get(&peer->sess->ref);
		c->sess = peer->sess;
		c->lgid = peer->sgid;
		c->rgid = peer->dgid;
		c->state = AGG_CONN_CONNECTING;
		kref_get(&c->ref);
		peer->conn = c;		/* with the reference just taken */
		kref_get(&c->ref);
	}
	spin_unlock(&peer->lock);

	if (unused)
		agg_conn_put(unused);
	if (c) {
		agg_conn_open(c, cand);
		agg_conn_put(c);
	}
}

/* Each cause is worth one line until there is a session again. */
static void agg_peer_log(struct agg_peer *peer, int err)
{
	struct agg_dev *dev = peer->sess->dev;
	char gid[AGG_GID_STR];

	lockdep_assert_held(&peer->lock);

	if (test_and_set_bit(-err % AGG_PEER_LOGGED_BITS, peer->logged))
		return;
	agg_gid_str(gid, &peer->dgid);
	switch (err) {
	case -EACCES:
	case -ENOKEY:
	case -EKEYREJECTED:
	case -ENOPROTOOPT:
	case -ENXIO:
	case -EBUSY:
		pr_warn_ratelimited("%s: peer %s refused: %s\n", dev_name(&dev->ibdev.dev), gid,
				    agg_sess_strerror(err));
		break;
	default:
		pr_warn_ratelimited("%s: no session with peer %s: %s (%d)\n",
				    dev_name(&dev->ibdev.dev), gid, agg_sess_strerror(err), err);
	}
}

/* Did the peer itself refuse us? Then its other addresses will not help. */
static bool agg_peer_refused(int err)
{
	switch (err) {
	case -EACCES:
	case -ENOKEY:
	case -EKEYREJECTED:
	case -ENOPROTOOPT:
	case -ENXIO:
	case -EBUSY:
		return true;
	default:
		return false;
	}
}

/**
 * agg_peer_conn_up - HELLO is done on the connection we opened
 * @peer: the peer
 * @c: the connection
 * @hello: what the other side said
 *
 * Context: process; receive work of @c.
 * Return: false if @c is not wanted any more.
 */
bool agg_peer_conn_up(struct agg_peer *peer, struct agg_conn *c,
		      const struct agg_wire_hello *hello)
{
	struct agg_dev *dev = peer->sess->dev;
	bool same, known;
	char gid[AGG_GID_STR];
	LIST_HEAD(stale);
	struct agg_msg *m;

	spin_lock(&peer->lock);
	same = peer->instance == hello->lanes.instance;
	known = peer->instance;
	spin_unlock(&peer->lock);

	/*
	 * Notices were lost while there was no connection, so no key learned
	 * on an earlier one is valid. First the keys, then up: no request for
	 * a key goes out in between, and so no answer is thrown away.
	 */
	agg_keys_session_up(peer, same || !known);

	spin_lock(&peer->lock);
	if (peer->dead || peer->conn != c) {
		spin_unlock(&peer->lock);
		return false;
	}
	peer->instance = hello->lanes.instance;
	peer->lanes = hello->lanes;
	peer->up = true;
	if (peer->was_up)
		peer->reconnects++;
	peer->was_up = true;
	peer->since = ktime_get_real_ns();
	peer->backoff_ms = 0;
	peer->cand = 0;
	peer->round_err = 0;
	peer->last_err = 0;
	if (!bitmap_empty(peer->logged, AGG_PEER_LOGGED_BITS))
		pr_info_ratelimited("%s: session with peer %s is up\n",
				    dev_name(&dev->ibdev.dev), agg_gid_str(gid, &peer->dgid));
	bitmap_zero(peer->logged, AGG_PEER_LOGGED_BITS);

	/* DETACHes for another instance mean nothing to this one. */
	if (known && !same)
		list_splice_init(&peer->backlog, &stale);
	while ((m = list_first_entry_or_null(&peer->backlog, struct agg_msg, node))) {
		list_del(&m->node);
		agg_conn_send(c, m);
	}
	peer->nr_backlog = 0;
	if (!agg_peer_needed(peer) && !peer->users)
		peer->idle_since = jiffies;
	spin_unlock(&peer->lock);

	agg_peer_drop_backlog(&stale);
	wake_up_all(&peer->wait);
	queue_work(agg_sess_wq, &peer->keys.ask_work);
	agg_probe_kick_all(dev);
	agg_fo_kick_all(dev);
	agg_count(dev, SESSION_UP);
	trace_agg_session_state(dev, &peer->dgid, "up", 0);
	agg_nl_peer_event(dev, &peer->dgid, true, 0);
	return true;
}

/**
 * agg_peer_conn_down - the connection we opened has ended
 * @peer: the peer
 * @c: the connection; nothing of it runs any more
 * @err: why, a negative errno
 *
 * Context: process; close work of @c.
 */
void agg_peer_conn_down(struct agg_peer *peer, struct agg_conn *c, int err)
{
	struct agg_dev *dev = peer->sess->dev;
	bool was_up, failed = false;

	spin_lock(&peer->lock);
	if (peer->conn != c) {
		spin_unlock(&peer->lock);
		return;
	}
	peer->conn = NULL;
	was_up = peer->up;
	peer->up = false;

	if (was_up) {
		peer->since = ktime_get_real_ns();
		peer->last_err = err;
		peer->cand = 0;
		peer->backoff_ms = AGG_PEER_BACKOFF_MIN_MS;
		if (agg_peer_needed(peer))
			agg_peer_schedule(peer, agg_peer_jitter(peer->backoff_ms));
		if (err != -ESHUTDOWN && err != -ECONNABORTED && !peer->dead && peer->users)
			agg_peer_log(peer, err);
	} else if (!peer->dead) {
		if (!peer->cand || agg_peer_refused(err))
			peer->round_err = err;
		peer->cand++;
		if (!agg_peer_refused(err) && agg_lanes_addr(&peer->lanes, peer->cand - 1) &&
		    agg_peer_needed(peer)) {
			agg_peer_schedule(peer, 0);
		} else {
			failed = true;
			err = peer->round_err;
			peer->cand = 0;
			peer->last_err = err;
			peer->fail_seq = peer->start_seq;
			peer->backoff_ms = clamp(peer->backoff_ms * 2, AGG_PEER_BACKOFF_MIN_MS,
						 AGG_PEER_BACKOFF_MAX_MS);
			if (agg_peer_needed(peer))
				agg_peer_schedule(peer, agg_peer_jitter(peer->backoff_ms));
			if (err != -ECONNABORTED)
				agg_peer_log(peer, err);
		}
	}
	spin_unlock(&peer->lock);

	wake_up_all(&peer->wait);
	if (was_up) {
		agg_count(dev, SESSION_DOWN);
		agg_nl_peer_event(dev, &peer->dgid, false, err);
	}
	if (was_up || failed)
		trace_agg_session_state(dev, &peer->dgid, was_up ? "down" : "failed", err);
	agg_conn_put(c);	/* peer->conn's */
}

/**
 * agg_peer_lanes_update - the peer told its lanes
 * @peer: the peer
 * @lanes: the table; ignored if older than what is known
 *
 * Context: process.
 */
void agg_peer_lanes_update(struct agg_peer *peer, const struct agg_wire_lanes *lanes)
{
	spin_lock(&peer->lock);
	if (peer->instance == lanes->instance && (s32)(lanes->epoch - peer->lanes.epoch) >= 0)
		peer->lanes = *lanes;
	spin_unlock(&peer->lock);
}

static struct agg_peer *agg_peer_find(struct agg_session_dev *sess, const union ib_gid *sgid,
				      const union ib_gid *dgid)
{
	struct agg_peer *peer;

	lockdep_assert_held(&sess->lock);

	list_for_each_entry(peer, &sess->peers, node)
		if (!memcmp(&peer->dgid, dgid, sizeof(*dgid)) &&
		    !memcmp(&peer->sgid, sgid, sizeof(*sgid)))
			return peer;
	return NULL;
}

/**
 * agg_peer_inbound - what a connection that we accepted tells of its peer
 * @c: the connection, established
 * @lanes: instance and lanes of the other side
 *
 * Context: process; receive work of @c.
 */
void agg_peer_inbound(struct agg_conn *c, const struct agg_wire_lanes *lanes)
{
	struct agg_session_dev *sess = c->sess;
	struct agg_conn *old = NULL;
	struct agg_peer *peer;

	spin_lock(&sess->lock);
	peer = agg_peer_find(sess, &c->lgid, &c->rgid);
	if (peer) {
		spin_lock(&peer->lock);
		if (peer->up && peer->instance != lanes->instance) {
			/*
			 * Restarted, and our connection does not know yet: any
			 * packet on it will bring the reset.
			 */
			old = peer->conn;
			kref_get(&old->ref);
		} else if (!peer->conn && agg_peer_needed(peer)) {
			/* It lives: do not wait for the back-off. */
			agg_peer_schedule(peer, 0);
		}
		spin_unlock(&peer->lock);
		agg_peer_lanes_update(peer, lanes);
	}
	spin_unlock(&sess->lock);

	if (old) {
		agg_conn_ping(old);
		agg_conn_put(old);
	}
}

/**
 * agg_peer_conn_get - the established connection to a peer
 * @peer: the peer
 *
 * Context: process.
 * Return: the connection with a reference, or NULL.
 */
struct agg_conn *agg_peer_conn_get(struct agg_peer *peer)
{
	struct agg_conn *c = NULL;

	spin_lock(&peer->lock);
	if (agg_peer_is_up(peer)) {
		c = peer->conn;
		kref_get(&c->ref);
	}
	spin_unlock(&peer->lock);
	return c;
}

/**
 * agg_peer_want - begin to connect if there is no session
 * @peer: the peer
 *
 * Context: process.
 */
void agg_peer_want(struct agg_peer *peer)
{
	spin_lock(&peer->lock);
	if (!peer->wanted) {
		peer->wanted = true;
		if (!peer->conn)
			agg_peer_schedule(peer, 0);
	}
	spin_unlock(&peer->lock);
}

/* ---- Interface ---- */

static struct agg_peer *agg_peer_alloc(struct agg_session_dev *sess, const union ib_gid *sgid,
				       const union ib_gid *dgid)
{
	struct agg_peer *peer;

	peer = kzalloc(sizeof(*peer), GFP_KERNEL);
	if (!peer)
		return NULL;
	kref_init(&peer->ref);
	kref_get(&sess->ref);
	peer->sess = sess;
	peer->sgid = *sgid;
	peer->dgid = *dgid;
	spin_lock_init(&peer->lock);
	INIT_LIST_HEAD(&peer->node);
	INIT_LIST_HEAD(&peer->backlog);
	init_waitqueue_head(&peer->wait);
	INIT_DELAYED_WORK(&peer->work, agg_peer_work);
	INIT_DELAYED_WORK(&peer->idle_work, agg_peer_idle_work);
	peer->since = ktime_get_real_ns();
	agg_keys_init(&peer->keys);
	return peer;
}

/**
 * agg_peer_get - find or make the peer of a pair of GIDs
 * @dev: the device
 * @sgid: one of its GIDs
 * @dgid: the peer's GID
 *
 * Does not connect. Each call is undone by one agg_peer_put().
 *
 * Context: process, may sleep.
 * Return: the peer, -ENOTCONN if the device has stopped, or -ENOMEM.
 */
struct agg_peer *agg_peer_get(struct agg_dev *dev, const union ib_gid *sgid,
			      const union ib_gid *dgid)
{
	struct agg_peer *peer, *new = NULL;
	struct agg_session_dev *sess;

	sess = agg_sess_get(dev);
	if (!sess)
		return ERR_PTR(-ENOTCONN);

	for (;;) {
		spin_lock(&sess->lock);
		peer = sess->stopping ? NULL : agg_peer_find(sess, sgid, dgid);
		if (!peer && new && !sess->stopping) {
			peer = new;
			new = NULL;
			peer->seq = ++sess->peer_seq;
			list_add_tail(&peer->node, &sess->peers);
		}
		if (peer) {
			/* On the list, so not dead. */
			spin_lock(&peer->lock);
			peer->users++;
			spin_unlock(&peer->lock);
			kref_get(&peer->ref);
		}
		spin_unlock(&sess->lock);
		if (peer)
			break;
		if (new || READ_ONCE(sess->stopping)) {
			peer = ERR_PTR(-ENOTCONN);
			break;
		}
		new = agg_peer_alloc(sess, sgid, dgid);
		if (!new) {
			peer = ERR_PTR(-ENOMEM);
			break;
		}
	}

	if (new)
		agg_peer_put_ref(new);
	agg_sess_put(sess);
	return peer;
}

/**
 * agg_peer_put - undo agg_peer_get()
 * @peer: the peer; its device may have stopped
 *
 * Context: process.
 */
void agg_peer_put(struct agg_peer *peer)
{
	spin_lock(&peer->lock);
	if (!--peer->users && !peer->dead) {
		peer->idle_since = jiffies;
		mod_delayed_work(agg_req_wq, &peer->idle_work,
				 msecs_to_jiffies(AGG_PEER_IDLE_MS));
	}
	spin_unlock(&peer->lock);
	agg_peer_put_ref(peer);
}

static bool agg_peer_settled(struct agg_peer *peer, u32 seq, int *err)
{
	bool settled = true;

	spin_lock(&peer->lock);
	if (peer->dead)
		*err = -ENOTCONN;
	else if (agg_peer_is_up(peer))
		*err = 0;
	else if ((s32)(peer->fail_seq - seq) >= 0)
		*err = peer->last_err;
	else
		settled = false;
	spin_unlock(&peer->lock);
	return settled;
}

/**
 * agg_peer_connect - wait for a session with a peer
 * @peer: the peer
 * @timeout_ms: how long, in milliseconds
 *
 * Returns at once if there is one. Otherwise an attempt that begins after the
 * call decides, so an old failure is never reported again.
 *
 * What is returned may go to an application: never -EPROTONOSUPPORT, which
 * uverbs keeps for itself and warns of.
 *
 * Context: process, sleeps; killable.
 * Return: 0; -EACCES wrong pre-shared key, -ENOKEY we have none and the peer
 * requires it, -EKEYREJECTED the reverse; -ENOPROTOOPT other version;
 * -ENXIO no agg device with that GID there; -EBUSY; -ECONNREFUSED,
 * -EHOSTUNREACH, -ENETUNREACH and others as the socket gives them; -ETIMEDOUT;
 * -ENOTCONN if the device stops; -EINTR if killed.
 */
int agg_peer_connect(struct agg_peer *peer, unsigned int timeout_ms)
{
	int err = 0;
	long left;
	u32 seq;

	spin_lock(&peer->lock);
	if (peer->dead || agg_peer_is_up(peer)) {
		err = peer->dead ? -ENOTCONN : 0;
		spin_unlock(&peer->lock);
		return err;
	}
	peer->wanted = true;
	seq = peer->start_seq + 1;
	if (!peer->conn) {
		/* Between two addresses of a round is the middle of an attempt. */
		if (peer->cand)
			peer->cand = 0;
		agg_peer_schedule(peer, 0);
	}
	peer->backoff_ms = 0;
	spin_unlock(&peer->lock);

	left = wait_event_killable_timeout(peer->wait, agg_peer_settled(peer, seq, &err),
					   msecs_to_jiffies(timeout_ms));
	if (left > 0)
		return err;
	if (left < 0)
		return -EINTR;

	spin_lock(&peer->lock);
	if (!agg_peer_is_up(peer) && !peer->dead) {
		peer->last_err = -ETIMEDOUT;
		agg_peer_log(peer, -ETIMEDOUT);
	}
	spin_unlock(&peer->lock);
	return -ETIMEDOUT;
}

/**
 * agg_peer_lane - what a peer told of one of its lanes
 * @peer: the peer
 * @id: lane id
 * @out: filled if it has that lane
 *
 * Context: process.
 * Return: whether the peer has told of such a lane.
 */
bool agg_peer_lane(struct agg_peer *peer, u8 id, struct agg_wire_lane *out)
{
	bool found = false;
	unsigned int i;

	spin_lock(&peer->lock);
	for (i = 0; i < peer->lanes.nr && !found; i++) {
		if (peer->lanes.lane[i].id == id) {
			*out = peer->lanes.lane[i];
			found = true;
		}
	}
	spin_unlock(&peer->lock);
	return found;
}

/**
 * agg_peer_lanes - what a peer told of its lanes
 * @peer: the peer
 * @out: filled
 * @max: entries of @out
 *
 * Context: process.
 * Return: entries filled.
 */
unsigned int agg_peer_lanes(struct agg_peer *peer, struct agg_wire_lane *out, unsigned int max)
{
	unsigned int n;

	spin_lock(&peer->lock);
	n = min_t(unsigned int, peer->lanes.nr, max);
	memcpy(out, peer->lanes.lane, n * sizeof(*out));
	spin_unlock(&peer->lock);
	return n;
}

/**
 * agg_peer_attach - ask a peer to attach a QP, and wait for the answer
 * @peer: the peer, with a session
 * @req: the request; GIDs and instance_src are filled in
 * @resp: the answer
 * @timeout_ms: how long to wait, in milliseconds
 *
 * The request may have been executed whatever is returned; repeat it as
 * failover.rst rule 14 says.
 *
 * Context: process, sleeps; killable.
 * Return: 0 and @resp, whose status tells what the peer says; -ENOTCONN if
 * there is no session or it ended meanwhile; -ETIMEDOUT; -EINTR if killed;
 * -ENOBUFS, -ENOMEM.
 */
int agg_peer_attach(struct agg_peer *peer, const struct agg_wire_attach *req,
		    struct agg_wire_attach *resp, unsigned int timeout_ms)
{
	struct agg_wire_attach m = *req;
	struct agg_conn *c;
	int err;

	c = agg_peer_conn_get(peer);
	if (!c)
		return -ENOTCONN;

	m.instance_src = peer->sess->dev->instance;
	memcpy(m.sgid, peer->sgid.raw, sizeof(m.sgid));
	memcpy(m.dgid, peer->dgid.raw, sizeof(m.dgid));
	err = agg_conn_attach(c, &m, resp, timeout_ms);
	agg_conn_put(c);
	return err;
}

/**
 * agg_peer_detach - tell a peer that a QP is gone; nobody waits
 * @peer: the peer
 * @msg: the message; GIDs and instance_src are filled in
 *
 * Without a session it is kept until there is one, for as long as the peer is
 * remembered. It may be lost.
 *
 * Context: process, may sleep.
 */
void agg_peer_detach(struct agg_peer *peer, const struct agg_wire_attach *msg)
{
	struct agg_wire_attach m = *msg;
	struct agg_msg *msgbuf;
	int len;

	msgbuf = agg_msg_alloc(256, GFP_KERNEL);
	if (!msgbuf)
		return;

	spin_lock(&peer->lock);
	/* Once dead, the device may be gone. */
	if (peer->dead) {
		kfree(msgbuf);
		goto out;
	}
	m.instance_src = peer->sess->dev->instance;
	memcpy(m.sgid, peer->sgid.raw, sizeof(m.sgid));
	memcpy(m.dgid, peer->dgid.raw, sizeof(m.dgid));
	len = agg_wire_put_attach(msgbuf->data, 256, AGG_WIRE_DETACH, 0, 0, &m);
	if (WARN_ON_ONCE(len < 0)) {
		kfree(msgbuf);
		goto out;
	}
	msgbuf->len = len;

	if (agg_peer_is_up(peer)) {
		agg_conn_send(peer->conn, msgbuf);
	} else if (peer->was_up && peer->nr_backlog < AGG_PEER_MAX_BACKLOG) {
		list_add_tail(&msgbuf->node, &peer->backlog);
		peer->nr_backlog++;
	} else {
		kfree(msgbuf);
	}
out:
	spin_unlock(&peer->lock);
}
