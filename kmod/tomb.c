// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Tombstones (failover.rst, rule 19): what a QP that is gone had executed, for a
 * peer whose last acknowledgment was lost with the path. The oldest are dropped
 * when a new one comes: they are bounded in number, and but for that in time.
 */
#include "agg.h"
#include "session.h"

#define AGG_TOMBS_MAX	1024
/* Longer than any lane retries: 8 times 2^20 * 4.096 us, the greatest timeout by default. */
#define AGG_TOMB_LIFE	(60 * HZ)

struct agg_tomb {
	struct list_head node;
	u64 cookie, peer_cookie;
	struct agg_frozen own;
	unsigned long expires;
};

static void agg_tombs_trim(struct agg_dev *dev, bool all)
{
	struct agg_tomb *t, *next;

	lockdep_assert_held(&dev->tombs_lock);
	list_for_each_entry_safe(t, next, &dev->tombs, node) {
		if (!all && dev->nr_tombs <= AGG_TOMBS_MAX && time_before(jiffies, t->expires))
			break;
		list_del(&t->node);
		dev->nr_tombs--;
		kfree(t);
	}
}

/**
 * agg_tomb_add() - remember what a QP has executed
 * @qp: the QP, leaving its peer; its frozen state is known
 *
 * Context: may sleep; qp->mutex is held.
 */
void agg_tomb_add(struct agg_qp *qp)
{
	struct agg_dev *dev = qp->dev;
	struct agg_tomb *t;

	lockdep_assert_held(&qp->mutex);

	if (qp->fo.untold)
		return;
	/* Without one the peer reports its last request as failed, perhaps wrongly. */
	t = kmalloc(sizeof(*t), GFP_KERNEL | __GFP_NOWARN);
	if (!t)
		return;
	t->cookie = qp->cookie;
	t->peer_cookie = qp->peer_cookie;
	t->own = qp->fo.fence.own;
	t->expires = jiffies + AGG_TOMB_LIFE;
	spin_lock(&dev->tombs_lock);
	list_add_tail(&t->node, &dev->tombs);
	dev->nr_tombs++;
	agg_tombs_trim(dev, false);
	spin_unlock(&dev->tombs_lock);
}

/**
 * agg_tombs_free() - forget all QPs that are gone
 * @dev: the device, going
 *
 * Context: process.
 */
void agg_tombs_free(struct agg_dev *dev)
{
	spin_lock(&dev->tombs_lock);
	agg_tombs_trim(dev, true);
	spin_unlock(&dev->tombs_lock);
}

/**
 * agg_tomb_rx() - answer a FENCE to a QP that is gone
 * @dev: the device
 * @req: the FENCE
 * @resp: the reply
 *
 * Context: process. Return: status of the reply.
 */
u8 agg_tomb_rx(struct agg_dev *dev, const struct agg_wire_attach *req,
	       struct agg_wire_attach *resp)
{
	u8 status = AGG_WIRE_GONE;
	struct agg_tomb *t;

	spin_lock(&dev->tombs_lock);
	list_for_each_entry(t, &dev->tombs, node) {
		if (t->cookie != req->cookie_dst || t->peer_cookie != req->cookie_src)
			continue;
		if (t->own.epoch == req->epoch) {
			agg_wire_set_frozen(resp, &t->own);
			status = AGG_WIRE_IN_ERROR;
		}
		break;
	}
	spin_unlock(&dev->tombs_lock);
	return status;
}
