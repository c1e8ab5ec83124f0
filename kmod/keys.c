// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Remote keys. The asker keeps what an owner told of its keys; the owner
 * remembers, per connection, what it told, and sends KEY_GONE when that is no
 * longer so.
 *
 * A QP that meets an unknown key is told -EINPROGRESS and is kicked when the
 * answer is there. A refusal is given once to each QP that waited for it, by
 * the list of the told, and is never cached: the key may exist by the time the
 * next one asks.
 */
#include <linux/rculist.h>
#include <linux/slab.h>

#include "conn.h"

#define AGG_KICK_BATCH	16
#define AGG_ASK_BATCH	32
#define AGG_REAP_MS	250
#define AGG_KEY_LEN	128	/* room for an encoded KEY */
#define AGG_SERVE_TRIES	8

enum agg_key_state {
	AGG_KEY_PENDING,
	AGG_KEY_VALID,
};

/*
 * @state turns VALID once, with a release, after @lanes and @lane_rkey were
 * written; they never change then. Readers hold RCU only.
 */
struct agg_key {
	u32 rkey;
	u8 state;
	bool asked;		/* on the present connection */
	u16 lanes;		/* bit per lane id */
	u16 missed;		/* lanes for whose sake it was asked for again */
	u32 lane_rkey[AGG_MAX_LANES];
	unsigned long deadline;
	struct list_head active;	/* keys->active while PENDING */
	struct list_head waiters;
	struct rcu_head rcu;
};

/*
 * A QP that waits. On agg_key.waiters first; then, with @result, on
 * keys->told, where @qp is NULL once it was kicked. @cookie outlives the QP.
 */
struct agg_key_waiter {
	struct list_head node;
	struct agg_qp *qp;	/* holds a reference */
	u64 cookie;
	u32 rkey;
	int result;
	unsigned long expires;
};

static void agg_keys_ask_work(struct work_struct *work);
static void agg_keys_reap_work(struct work_struct *work);

static struct agg_peer *agg_keys_peer(struct agg_keys *keys)
{
	return container_of(keys, struct agg_peer, keys);
}

/**
 * agg_keys_init - begin without keys
 * @keys: the keys of a peer
 *
 * Context: process.
 */
void agg_keys_init(struct agg_keys *keys)
{
	xa_init_flags(&keys->xa, XA_FLAGS_LOCK_IRQ);
	INIT_LIST_HEAD(&keys->active);
	INIT_LIST_HEAD(&keys->told);
	INIT_WORK(&keys->ask_work, agg_keys_ask_work);
	INIT_DELAYED_WORK(&keys->reap_work, agg_keys_reap_work);
}

/* ---- Under the lock ---- */

static void agg_keys_drop(struct agg_keys *keys, struct agg_key *k)
{
	lockdep_assert_held(&keys->xa.xa_lock);

	__xa_erase(&keys->xa, k->rkey);
	if (k->state == AGG_KEY_VALID) {
		keys->nr_valid--;
	} else {
		keys->nr_pending--;
		list_del(&k->active);
	}
	kfree_rcu(k, rcu);
}

/* All who wait for @k have a result: to be given out by agg_keys_kick(). */
static void agg_keys_tell(struct agg_keys *keys, struct agg_key *k, int result)
{
	struct agg_key_waiter *w;

	lockdep_assert_held(&keys->xa.xa_lock);

	list_for_each_entry(w, &k->waiters, node) {
		w->result = result;
		w->expires = jiffies + msecs_to_jiffies(AGG_KEYS_TOLD_MS);
	}
	list_splice_tail_init(&k->waiters, &keys->told);
	if (!keys->closed)
		queue_delayed_work(agg_sess_wq, &keys->reap_work,
				   msecs_to_jiffies(AGG_REAP_MS));
}

/* A refusal that was kept for this QP; taking it uses it up. */
static int agg_keys_refusal(struct agg_keys *keys, u32 rkey, u64 cookie)
{
	struct agg_key_waiter *w;
	int result;

	lockdep_assert_held(&keys->xa.xa_lock);

	list_for_each_entry(w, &keys->told, node) {
		if (w->rkey != rkey || w->cookie != cookie || !w->result)
			continue;
		result = w->result;
		if (w->qp) {
			/* Not kicked yet: agg_keys_kick() frees it. */
			w->result = 0;
		} else {
			list_del(&w->node);
			kfree(w);
		}
		return result;
	}
	return 0;
}

static int agg_keys_wait(struct agg_keys *keys, struct agg_key *k, struct agg_qp *qp)
{
	struct agg_key_waiter *w;

	lockdep_assert_held(&keys->xa.xa_lock);

	list_for_each_entry(w, &k->waiters, node)
		if (w->qp == qp)
			return 0;

	w = kmalloc(sizeof(*w), GFP_ATOMIC);
	if (!w)
		return -ENOMEM;
	refcount_inc(&qp->ref);		/* put by agg_keys_kick() or _cancel() */
	w->qp = qp;
	w->cookie = qp->cookie;
	w->rkey = k->rkey;
	w->result = 0;
	list_add_tail(&w->node, &k->waiters);
	return 0;
}

static struct agg_key *agg_keys_new(struct agg_keys *keys, u32 rkey)
{
	struct agg_key *k;

	lockdep_assert_held(&keys->xa.xa_lock);

	if (keys->nr_pending >= AGG_KEYS_MAX_PENDING)
		return NULL;
	k = kzalloc(sizeof(*k), GFP_ATOMIC);
	if (!k)
		return NULL;
	k->rkey = rkey;
	k->deadline = jiffies + msecs_to_jiffies(AGG_KEYS_WAIT_MS);
	INIT_LIST_HEAD(&k->waiters);
	if (__xa_insert(&keys->xa, rkey, k, GFP_ATOMIC)) {
		kfree(k);
		return NULL;
	}
	list_add_tail(&k->active, &keys->active);
	keys->nr_pending++;
	return k;
}

/* Room for one more: any valid key goes, the next in turn. */
static void agg_keys_evict(struct agg_keys *keys)
{
	struct agg_key *k;
	int tries;

	lockdep_assert_held(&keys->xa.xa_lock);

	for (tries = 0; tries < 16; tries++) {
		k = xa_find_after(&keys->xa, &keys->evict, U32_MAX, XA_PRESENT);
		if (!k) {
			keys->evict = 0;
			k = xa_find(&keys->xa, &keys->evict, U32_MAX, XA_PRESENT);
		}
		if (k && k->state == AGG_KEY_VALID) {
			agg_keys_drop(keys, k);
			return;
		}
	}
}

/* ---- Asking ---- */

/* -EAGAIN: the owner may have put it on that lane since. */
static int agg_key_lane(const struct agg_key *k, u8 lane, u32 *lane_rkey)
{
	if (lane >= AGG_MAX_LANES)
		return -ENOENT;
	if (!(k->lanes & BIT(lane)))
		return k->missed & BIT(lane) ? -ENOENT : -EAGAIN;
	*lane_rkey = k->lane_rkey[lane];
	return 0;
}

/**
 * agg_peer_key - what a peer's key is called on one of its lanes
 * @peer: the peer
 * @rkey: the agg key
 * @lane: lane id of the peer
 * @lane_rkey: filled with the lane's key
 * @waiter: the QP that needs it, kicked when an answer comes; the caller holds
 *	a reference to it
 *
 * After -EINPROGRESS the QP is kicked once and then asks again; it is referred
 * to until then, or until agg_peer_key_cancel().
 *
 * Context: any, also with spinlocks held and interrupts off.
 * Return: 0; -ENOENT if the owner has no such key, or not on that lane;
 * -EINPROGRESS if the owner is being asked; -ENOTCONN if it could not be asked
 * for AGG_KEYS_WAIT_MS or the device has stopped; -ENOMEM if out of memory or
 * too many keys are being asked for: then nobody kicks.
 */
int agg_peer_key(struct agg_peer *peer, u32 rkey, u8 lane, u32 *lane_rkey,
		 struct agg_qp *waiter)
{
	struct agg_keys *keys = &peer->keys;
	struct agg_key *k;
	unsigned long flags;
	u16 missed = 0;
	int err;

	rcu_read_lock();
	k = xa_load(&keys->xa, rkey);
	/* Pairs with the release in agg_keys_reply(). */
	if (k && smp_load_acquire(&k->state) == AGG_KEY_VALID) {
		err = agg_key_lane(k, lane, lane_rkey);
		if (err != -EAGAIN) {
			rcu_read_unlock();
			return err;
		}
	}
	rcu_read_unlock();

	xa_lock_irqsave(&keys->xa, flags);
	if (keys->closed) {
		err = -ENOTCONN;
		goto out;
	}
	k = xa_load(&keys->xa, rkey);
	if (k && k->state == AGG_KEY_VALID) {
		err = agg_key_lane(k, lane, lane_rkey);
		if (err != -EAGAIN)
			goto out;
		/* A QP is there only after all of its peer's PD is: ask once more. */
		missed = k->missed | BIT(lane);
		agg_keys_drop(keys, k);
		k = NULL;
	}
	err = agg_keys_refusal(keys, rkey, waiter->cookie);
	if (err)
		goto out;
	if (!k) {
		k = agg_keys_new(keys, rkey);
		if (!k) {
			err = -ENOMEM;
			goto out;
		}
		k->missed = missed;
		agg_count(peer->sess->dev, KEY_MISS);
		queue_work(agg_sess_wq, &keys->ask_work);
	}
	/* Without its waiter the key is asked for all the same. */
	err = agg_keys_wait(keys, k, waiter) ?: -EINPROGRESS;
out:
	xa_unlock_irqrestore(&keys->xa, flags);
	return err;
}

/**
 * agg_peer_key_cancel - a QP does not wait for keys any more
 * @peer: the peer
 * @qp: the QP, which is going away
 *
 * When it returns no reference to @qp is held for a key, but for a kick that
 * is under way.
 *
 * Context: process or softirq; without locks of the QP.
 */
void agg_peer_key_cancel(struct agg_peer *peer, struct agg_qp *qp)
{
	struct agg_keys *keys = &peer->keys;
	struct agg_key_waiter *w, *tmp;
	struct agg_key *k;
	unsigned long flags;
	LIST_HEAD(gone);

	xa_lock_irqsave(&keys->xa, flags);
	list_for_each_entry(k, &keys->active, active)
		list_for_each_entry_safe(w, tmp, &k->waiters, node)
			if (w->qp == qp)
				list_move(&w->node, &gone);
	list_for_each_entry_safe(w, tmp, &keys->told, node)
		if (w->qp == qp)
			list_move(&w->node, &gone);
	xa_unlock_irqrestore(&keys->xa, flags);

	list_for_each_entry_safe(w, tmp, &gone, node) {
		agg_qp_put(w->qp);
		kfree(w);
	}
}

/* Give out the results: kick those who have one and were not kicked yet. */
static void agg_keys_kick(struct agg_keys *keys)
{
	struct agg_qp *qp[AGG_KICK_BATCH];
	struct agg_key_waiter *w, *tmp;
	unsigned long flags;
	unsigned int n, i;

	do {
		n = 0;
		xa_lock_irqsave(&keys->xa, flags);
		list_for_each_entry_safe(w, tmp, &keys->told, node) {
			if (!w->qp)
				continue;
			qp[n++] = w->qp;
			w->qp = NULL;
			if (!w->result) {
				list_del(&w->node);
				kfree(w);
			}
			if (n == AGG_KICK_BATCH)
				break;
		}
		xa_unlock_irqrestore(&keys->xa, flags);

		for (i = 0; i < n; i++) {
			agg_qp_kick(qp[i]);
			agg_qp_put(qp[i]);
		}
	} while (n == AGG_KICK_BATCH);
}

static int agg_keys_send(struct agg_conn *c, u32 rkey)
{
	struct agg_wire_key m = { .rkey = rkey };
	struct agg_msg *msg;

	msg = agg_msg_alloc(AGG_KEY_LEN, GFP_KERNEL);
	if (!msg)
		return -ENOMEM;
	msg->len = agg_wire_put_key(msg->data, AGG_KEY_LEN, 0, rkey, &m);
	return agg_conn_send(c, msg);
}

/* Ask for what was not asked for yet on this connection. */
static void agg_keys_ask_work(struct work_struct *work)
{
	struct agg_keys *keys = container_of(work, struct agg_keys, ask_work);
	struct agg_peer *peer = agg_keys_peer(keys);
	u32 rkeys[AGG_ASK_BATCH];
	struct agg_conn *c;
	struct agg_key *k;
	unsigned int n, i;
	bool more;

	c = agg_peer_conn_get(peer);
	if (!c)
		agg_peer_want(peer);

	do {
		n = 0;
		xa_lock_irq(&keys->xa);
		more = !list_empty(&keys->active);
		if (c) {
			list_for_each_entry(k, &keys->active, active) {
				if (k->asked)
					continue;
				k->asked = true;
				rkeys[n++] = k->rkey;
				if (n == AGG_ASK_BATCH)
					break;
			}
		}
		if (more && !keys->closed)
			queue_delayed_work(agg_sess_wq, &keys->reap_work,
					   msecs_to_jiffies(AGG_REAP_MS));
		xa_unlock_irq(&keys->xa);

		for (i = 0; i < n && !agg_keys_send(c, rkeys[i]); i++)
			;
		if (i == n)
			continue;

		/*
		 * The queue is full, or the connection has just ended: reap_work
		 * or the next session asks again. This cannot undo what
		 * agg_keys_session_up() has done for a later connection: no send
		 * to this one succeeds after that.
		 */
		xa_lock_irq(&keys->xa);
		for (; i < n; i++) {
			k = xa_load(&keys->xa, rkeys[i]);
			if (k)
				k->asked = false;
		}
		xa_unlock_irq(&keys->xa);
		n = 0;
	} while (n == AGG_ASK_BATCH);

	if (c)
		agg_conn_put(c);
}

/* While somebody waits or has a refusal to take: deadlines. */
static void agg_keys_reap_work(struct work_struct *work)
{
	struct agg_keys *keys = container_of(to_delayed_work(work), struct agg_keys, reap_work);
	struct agg_key_waiter *w, *wtmp;
	bool again = false, ask = false;
	struct agg_key *k, *tmp;

	xa_lock_irq(&keys->xa);
	list_for_each_entry_safe(k, tmp, &keys->active, active) {
		if (time_after(jiffies, k->deadline)) {
			agg_keys_tell(keys, k, -ENOTCONN);
			agg_keys_drop(keys, k);
			continue;
		}
		again = true;
		if (!k->asked)
			ask = true;
	}
	list_for_each_entry_safe(w, wtmp, &keys->told, node) {
		if (!w->qp && time_after(jiffies, w->expires)) {
			list_del(&w->node);
			kfree(w);
		} else {
			again = true;
		}
	}
	if (!keys->closed) {
		if (ask)
			queue_work(agg_sess_wq, &keys->ask_work);
		if (again)
			queue_delayed_work(agg_sess_wq, &keys->reap_work,
					   msecs_to_jiffies(AGG_REAP_MS));
	}
	xa_unlock_irq(&keys->xa);

	agg_keys_kick(keys);
}

/**
 * agg_keys_session_up - a new connection begins: nothing learned before counts
 * @peer: the peer
 * @same_instance: false if the other side has lost all it knew
 *
 * Context: process.
 */
void agg_keys_session_up(struct agg_peer *peer, bool same_instance)
{
	struct agg_keys *keys = &peer->keys;
	unsigned long index;
	struct agg_key *k;

	xa_lock_irq(&keys->xa);
	xa_for_each(&keys->xa, index, k) {
		if (k->state == AGG_KEY_VALID) {
			agg_keys_drop(keys, k);
		} else if (!same_instance) {
			agg_keys_tell(keys, k, -ENOTCONN);
			agg_keys_drop(keys, k);
		} else {
			k->asked = false;
		}
	}
	xa_unlock_irq(&keys->xa);

	agg_keys_kick(keys);
}

/**
 * agg_keys_reply - the owner answered
 * @peer: the owner
 * @m: its answer
 *
 * Context: process; receive work of the connection.
 */
void agg_keys_reply(struct agg_peer *peer, const struct agg_wire_key *m)
{
	struct agg_keys *keys = &peer->keys;
	struct agg_key *k;
	unsigned int i;

	xa_lock_irq(&keys->xa);
	k = xa_load(&keys->xa, m->rkey);
	/* Not asked for, or given up. */
	if (!k || k->state != AGG_KEY_PENDING || !k->asked) {
		xa_unlock_irq(&keys->xa);
		return;
	}

	if (m->status == AGG_WIRE_KEY_OK) {
		for (i = 0; i < m->nr; i++) {
			k->lanes |= BIT(m->lane[i].lane);
			k->lane_rkey[m->lane[i].lane] = m->lane[i].rkey;
		}
		if (keys->nr_valid >= AGG_KEYS_MAX)
			agg_keys_evict(keys);
		list_del(&k->active);
		keys->nr_pending--;
		keys->nr_valid++;
		agg_keys_tell(keys, k, 0);
		/* Pairs with the acquire in agg_peer_key(). */
		smp_store_release(&k->state, AGG_KEY_VALID);
	} else {
		agg_keys_tell(keys, k, -ENOENT);
		agg_keys_drop(keys, k);
		agg_count(peer->sess->dev, KEY_ABSENT);
	}
	xa_unlock_irq(&keys->xa);

	agg_keys_kick(keys);
}

/**
 * agg_keys_gone - the owner takes back what it told
 * @peer: the owner
 * @m: its notice
 *
 * A key that is being asked for is left alone: the answer is still to come,
 * and comes after the notice because it was made after it.
 *
 * Context: process; receive work of the connection.
 */
void agg_keys_gone(struct agg_peer *peer, const struct agg_wire_key_gone *m)
{
	struct agg_keys *keys = &peer->keys;
	unsigned long index;
	struct agg_key *k;
	unsigned int i;

	xa_lock_irq(&keys->xa);
	if (!m->nr) {
		xa_for_each(&keys->xa, index, k)
			if (k->state == AGG_KEY_VALID)
				agg_keys_drop(keys, k);
	}
	for (i = 0; i < m->nr; i++) {
		k = xa_load(&keys->xa, m->rkey[i]);
		if (k && k->state == AGG_KEY_VALID)
			agg_keys_drop(keys, k);
	}
	xa_unlock_irq(&keys->xa);
}

/**
 * agg_keys_close - the peer is taken down: who waits is told so
 * @peer: the peer
 *
 * Context: process, sleeps.
 */
void agg_keys_close(struct agg_peer *peer)
{
	struct agg_keys *keys = &peer->keys;
	unsigned long index;
	struct agg_key *k;

	xa_lock_irq(&keys->xa);
	keys->closed = true;
	xa_for_each(&keys->xa, index, k) {
		agg_keys_tell(keys, k, -ENOTCONN);
		agg_keys_drop(keys, k);
	}
	xa_unlock_irq(&keys->xa);

	/* Nobody queues them once closed is set. */
	cancel_work_sync(&keys->ask_work);
	cancel_delayed_work_sync(&keys->reap_work);
	agg_keys_kick(keys);
}

/**
 * agg_keys_destroy - free what is left
 * @keys: keys of a peer that nobody knows any more
 *
 * Context: process.
 */
void agg_keys_destroy(struct agg_keys *keys)
{
	struct agg_key_waiter *w, *tmp;

	WARN_ON(!xa_empty(&keys->xa));
	xa_destroy(&keys->xa);
	list_for_each_entry_safe(w, tmp, &keys->told, node) {
		WARN_ON(w->qp);
		kfree(w);
	}
}

/* ---- The owner's side ---- */

/* Under the array's lock, which puts replies and notices in order. */
static void agg_keys_notice(struct agg_conn *c, u32 rkey)
{
	struct agg_wire_key_gone m = { .nr = 1, .rkey = { rkey } };
	struct agg_msg *msg;

	lockdep_assert_held(&c->asked.xa_lock);

	msg = agg_msg_alloc(64, GFP_ATOMIC);
	if (msg) {
		msg->len = agg_wire_put_key_gone(msg->data, 64, &m);
		if (agg_conn_send(c, msg) != -ENOBUFS)
			return;
	}
	/* No room for each: one notice for all, as soon as there is. */
	agg_conn_gone_all(c);
}

/**
 * agg_keys_serve - answer KEY
 * @c: an established connection that we accepted
 * @id: request id
 * @rkey: the key asked for
 *
 * The record is made before the key is described, and the answer is queued
 * only while the record is still there: if the key went in between,
 * agg_keys_conn_gone() has removed the record, and what was described is not
 * sent after its KEY_GONE but looked up again.
 *
 * Context: process, may sleep; receive work of @c.
 * Return: 0, or an errno if the connection ends.
 */
int agg_keys_serve(struct agg_conn *c, u32 id, u32 rkey)
{
	struct agg_dev *dev = c->sess->dev;
	struct agg_wire_key m;
	struct agg_msg *msg;
	unsigned long victim;
	unsigned int tries;
	bool told = false;
	int len, err;

	for (tries = 0; tries < AGG_SERVE_TRIES && !told; tries++) {
		msg = agg_msg_alloc(AGG_KEY_LEN, GFP_KERNEL);
		if (!msg)
			goto err_mem;

		xa_lock(&c->asked);
		if (!xa_load(&c->asked, rkey)) {
			if (c->nr_asked >= AGG_CONN_MAX_ASKED) {
				victim = 0;
				if (xa_find(&c->asked, &victim, U32_MAX, XA_PRESENT)) {
					__xa_erase(&c->asked, victim);
					c->nr_asked--;
					agg_keys_notice(c, victim);
				}
			}
			if (xa_err(__xa_store(&c->asked, rkey, xa_mk_value(1), GFP_KERNEL))) {
				xa_unlock(&c->asked);
				kfree(msg);
				goto err_mem;
			}
			c->nr_asked++;
		}
		xa_unlock(&c->asked);

		memset(&m, 0, sizeof(m));
		m.status = AGG_WIRE_KEY_ABSENT;
		agg_mr_describe(dev, rkey, &m);
		m.rkey = rkey;
		len = agg_wire_put_key(msg->data, AGG_KEY_LEN, AGG_WIRE_F_REPLY, id, &m);
		if (WARN_ON_ONCE(len < 0)) {
			kfree(msg);
			return 0;
		}
		msg->len = len;

		err = 0;
		xa_lock(&c->asked);
		told = xa_load(&c->asked, rkey);
		if (m.status != AGG_WIRE_KEY_OK) {
			if (told) {
				__xa_erase(&c->asked, rkey);
				c->nr_asked--;
			}
			told = true;
		}
		if (told)
			err = agg_conn_send(c, msg);
		else
			kfree(msg);
		xa_unlock(&c->asked);
		if (err == -ENOBUFS)
			agg_conn_fail(c, err);
		if (err)
			return err;
	}
	return 0;

err_mem:
	/* Whoever waits for the answer asks again on the next connection. */
	agg_conn_fail(c, -ENOMEM);
	return -ENOMEM;
}

/**
 * agg_keys_conn_gone - tell one connection that a key is not valid any more
 * @c: an accepted connection
 * @rkey: the key
 *
 * Context: process; does not sleep.
 */
void agg_keys_conn_gone(struct agg_conn *c, u32 rkey)
{
	xa_lock(&c->asked);
	if (__xa_erase(&c->asked, rkey)) {
		c->nr_asked--;
		agg_keys_notice(c, rkey);
	}
	xa_unlock(&c->asked);
}
