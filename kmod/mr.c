// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Protection domains and memory regions: one of each lane's behind each of
 * ours.
 *
 * A lane checks every access itself, against its own PD and MR. What is done
 * here is translation only: an agg key becomes the lane's key, an unknown one
 * becomes the lane's poison key, which no access can pass.
 *
 * dev->objs_sem: owners make and unmake their own lane objects with read held; a
 * lane that comes or goes takes it for writing and so sees them all. To register
 * memory may take as long as its owner likes (pages of a FUSE file), so that is done
 * under dev->objs_srcu instead, which only a lane that goes waits for.
 *
 * A lane that joins a live device is given the PDs and MRs there are, by
 * agg_pd_join_work(): memory is registered from the mm it belongs to. A PD is on the
 * lane (pd->lanes) when all its MRs are, and then its QPs may use it. Under pds_lock,
 * each MR on pd->mrs is on all of pd->lanes.
 */
#include <linux/kthread.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <rdma/uverbs_ioctl.h>

#include "agg.h"
#include "session.h"

/*
 * PD
 */

static void agg_pd_put(struct agg_pd *pd)
{
	if (refcount_dec_and_test(&pd->ref))
		complete(&pd->released);
}

static void agg_pd_drop_lanes(struct agg_pd *pd)
{
	unsigned int i;

	pd->lanes = 0;
	for (i = 0; i < AGG_MAX_LANES; i++) {
		if (!pd->lane_pd[i])
			continue;
		ib_dealloc_pd(pd->lane_pd[i]);
		pd->lane_pd[i] = NULL;
	}
}

/**
 * agg_alloc_pd() - ops.alloc_pd
 * @ibpd: allocated by the core
 * @udata: not used
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int agg_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct agg_dev *dev = to_adev(ibpd->device);
	struct agg_pd *pd = to_apd(ibpd);
	struct agg_lane *lane;
	struct ib_pd *lpd;
	unsigned int i;
	int err = 0;

	INIT_LIST_HEAD(&pd->mrs);
	refcount_set(&pd->ref, 1);
	init_completion(&pd->released);

	/* A lane is published under it: it finds the PD, or we find the lane. */
	down_read(&dev->objs_sem);
	for (i = 0; i < AGG_MAX_LANES; i++) {
		/* objs_sem keeps it: a leaving lane waits for us before it goes. */
		lane = rcu_dereference_protected(dev->lanes[i], lockdep_is_held(&dev->objs_sem));
		if (!lane)
			continue;
		lpd = ib_alloc_pd(lane->ibdev, 0);
		if (IS_ERR(lpd)) {
			err = PTR_ERR(lpd);
			agg_pd_drop_lanes(pd);
			goto out;
		}
		pd->lane_pd[i] = lpd;
		pd->lanes |= BIT(i);
	}
	spin_lock(&dev->pds_lock);
	list_add_tail(&pd->node, &dev->pds);
	spin_unlock(&dev->pds_lock);
out:
	up_read(&dev->objs_sem);
	return err;
}

/**
 * agg_dealloc_pd() - ops.dealloc_pd
 * @ibpd: no object of it is left
 * @udata: not used
 *
 * Context: may sleep. Return: 0.
 */
int agg_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct agg_dev *dev = to_adev(ibpd->device);
	struct agg_pd *pd = to_apd(ibpd);

	/* Still listed: a lane that leaves meanwhile takes its own. */
	agg_pd_put(pd);
	wait_for_completion(&pd->released);

	down_read(&dev->objs_sem);
	spin_lock(&dev->pds_lock);
	list_del(&pd->node);
	spin_unlock(&dev->pds_lock);
	agg_pd_drop_lanes(pd);
	up_read(&dev->objs_sem);
	return 0;
}

/* objs_sem is held for writing, so nobody else touches the lists. */
static void agg_pd_drop_lane(struct agg_pd *pd, unsigned int id)
{
	struct agg_mr *mr;

	lockdep_assert_held_write(&to_adev(pd->ibpd.device)->objs_sem);

	list_for_each_entry(mr, &pd->mrs, node) {
		if (!mr->lane_mr[id])
			continue;
		clear_bit(id, &mr->lanes);
		ib_dereg_mr(mr->lane_mr[id]);
		mr->lane_mr[id] = NULL;
	}
	if (!pd->lane_pd[id])
		return;
	ib_dealloc_pd(pd->lane_pd[id]);
	pd->lane_pd[id] = NULL;
}

/**
 * agg_pd_lane_gone() - give up all PDs and MRs of a lane
 * @dev: the device
 * @lane: dead, out of the table, without lane QPs; its join_work has ended
 *
 * Context: sleeps until memory that is being registered is.
 */
void agg_pd_lane_gone(struct agg_dev *dev, struct agg_lane *lane)
{
	unsigned int id = lane->id;
	struct agg_pd *pd;

	/* For writing: a PD that is being made with the lane is listed by then. */
	down_write(&dev->objs_sem);
	list_for_each_entry(pd, &dev->pds, node)
		clear_bit(id, &pd->lanes);
	up_write(&dev->objs_sem);
	/* Whoever saw the bit has put what it made where we find it. */
	synchronize_srcu(&dev->objs_srcu);

	down_write(&dev->objs_sem);
	list_for_each_entry(pd, &dev->pds, node) {
		clear_bit(id, &pd->refused);
		agg_pd_drop_lane(pd, id);
	}
	up_write(&dev->objs_sem);
}

/*
 * MR
 */

static void agg_mr_drop_lanes(struct agg_mr *mr)
{
	unsigned int i;

	for (i = 0; i < AGG_MAX_LANES; i++) {
		if (!mr->lane_mr[i])
			continue;
		clear_bit(i, &mr->lanes);
		ib_dereg_mr(mr->lane_mr[i]);
		mr->lane_mr[i] = NULL;
	}
}

static void agg_mr_put(struct agg_mr *mr)
{
	if (!refcount_dec_and_test(&mr->ref))
		return;
	mmdrop(mr->mm);
	kfree_rcu(mr, rcu);
}

/* In the context of mr->mm. */
static int agg_mr_reg_lane(struct agg_mr *mr, unsigned int i)
{
	struct ib_mr *lmr;

	lmr = ib_reg_user_mr(mr->pd->lane_pd[i], mr->start, mr->length, mr->iova, mr->access);
	if (IS_ERR(lmr))
		return PTR_ERR(lmr);
	mr->lane_mr[i] = lmr;
	mr->lane_lkey[i] = lmr->lkey;
	mr->lane_rkey[i] = lmr->rkey;
	smp_mb__before_atomic();	/* who sees the bit sees the keys */
	set_bit(i, &mr->lanes);
	return 0;
}

/* Put it on the PD's list, if it is on all lanes of the PD. Returns those it lacks. */
static unsigned long agg_mr_publish(struct agg_mr *mr, struct agg_pd *pd)
{
	struct agg_dev *dev = to_adev(pd->ibpd.device);
	unsigned long lacks;

	down_read(&dev->objs_sem);
	spin_lock(&dev->pds_lock);
	lacks = pd->lanes & ~mr->lanes;
	if (!lacks)
		list_add_tail(&mr->node, &pd->mrs);
	spin_unlock(&dev->pds_lock);
	up_read(&dev->objs_sem);
	return lacks;
}

/* Register @mr's range on every lane of @pd, as they come and go; all or none. */
static int agg_mr_reg_lanes(struct agg_mr *mr, struct agg_pd *pd)
{
	struct agg_dev *dev = to_adev(pd->ibpd.device);
	unsigned long lacks;
	int err = -ENODEV;
	unsigned int i;
	int idx;

	idx = srcu_read_lock(&dev->objs_srcu);
	lacks = smp_load_acquire(&pd->lanes);	/* and pd->lane_pd */
	if (!lacks)
		goto out;
	do {
		for_each_set_bit(i, &lacks, AGG_MAX_LANES) {
			err = agg_mr_reg_lane(mr, i);
			if (err) {
				agg_mr_drop_lanes(mr);
				goto out;
			}
		}
		lacks = agg_mr_publish(mr, pd);
	} while (lacks);
out:
	srcu_read_unlock(&dev->objs_srcu, idx);
	return err;
}

/*
 * Reserve a key: 24 bits of index, 8 bits that make a reused index a new key.
 * The only place that chooses keys.
 */
static int agg_key_alloc(struct agg_dev *dev, u32 *key)
{
	u32 index;
	int err;

	err = xa_alloc_cyclic(&dev->mrs, &index, NULL, XA_LIMIT(1, 0xffffff), &dev->next_key,
			      GFP_KERNEL);
	if (err < 0)
		return err == -EBUSY ? -ENOMEM : err;
	*key = index << 8 | (get_random_u32() & 0xff);
	return 0;
}

static struct agg_mr *agg_mr_find(struct agg_dev *dev, u32 key)
{
	struct agg_mr *mr = xa_load(&dev->mrs, key >> 8);

	return mr && mr->key == key ? mr : NULL;
}

static struct agg_mr *agg_mr_create(struct agg_pd *pd, u64 start, u64 length, u64 iova,
				    int access)
{
	struct agg_dev *dev = to_adev(pd->ibpd.device);
	struct agg_mr *mr;
	int err;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	refcount_set(&mr->ref, 1);
	mutex_init(&mr->join_lock);
	mr->mm = current->mm;
	mmgrab(mr->mm);
	mr->pd = pd;
	mr->start = start;
	mr->length = length;
	mr->iova = iova;
	mr->access = access;

	err = agg_key_alloc(dev, &mr->key);
	if (err)
		goto err_free;

	err = agg_mr_reg_lanes(mr, pd);
	if (err)
		goto err_key;

	mr->ibmr.device = &dev->ibdev;
	mr->ibmr.pd = &pd->ibpd;
	mr->ibmr.lkey = mr->key;
	mr->ibmr.rkey = mr->key;
	/* Publish last; the slot is reserved, so this cannot fail. */
	xa_store(&dev->mrs, mr->key >> 8, mr, GFP_KERNEL);
	return mr;

err_key:
	xa_erase(&dev->mrs, mr->key >> 8);
err_free:
	agg_mr_put(mr);
	return ERR_PTR(err);
}

static void agg_mr_destroy(struct agg_mr *mr)
{
	struct agg_dev *dev = to_adev(mr->ibmr.device);

	/* No new translation, then no lane access, then tell who has the keys. */
	xa_erase(&dev->mrs, mr->key >> 8);

	/* No lane is added to it any more. */
	mutex_lock(&mr->join_lock);
	mr->gone = true;
	mutex_unlock(&mr->join_lock);

	down_read(&dev->objs_sem);
	spin_lock(&dev->pds_lock);
	list_del(&mr->node);
	spin_unlock(&dev->pds_lock);
	agg_mr_drop_lanes(mr);
	up_read(&dev->objs_sem);

	agg_session_key_gone(dev, mr->key);
	agg_mr_put(mr);
}

/**
 * agg_reg_user_mr() - ops.reg_user_mr, as far as all kernels have it
 * @ibpd: PD
 * @start: user address
 * @length: bytes
 * @iova: address under which the keys know it
 * @access: enum ib_access_flags; each lane judges them
 * @udata: not used
 *
 * The memory is pinned once per lane.
 *
 * Context: may sleep. Return: the MR or an ERR_PTR: -ENODEV if the PD is on
 * no lane, or the lane's error.
 */
struct ib_mr *agg_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
			      struct ib_udata *udata)
{
	struct agg_mr *mr;

	if (access & ~(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |
		       IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_OPTIONAL))
		return ERR_PTR(-EOPNOTSUPP);

	mr = agg_mr_create(to_apd(ibpd), start, length, iova, access);
	return IS_ERR(mr) ? ERR_CAST(mr) : &mr->ibmr;
}

/**
 * agg_rereg_user_mr() - ops.rereg_user_mr
 * @ibmr: MR to replace
 * @flags: IB_MR_REREG_*: which of the others are new
 * @start: user address
 * @length: bytes
 * @iova: address under which the keys know it
 * @access: enum ib_access_flags
 * @ibpd: PD
 * @udata: not used
 *
 * A new MR with new keys takes the place of the old one: a peer that still
 * has the old rkey is refused, never served by a stale lane key.
 *
 * Context: may sleep. Return: the new MR (the core destroys the old one), or
 * an ERR_PTR and the old one is as it was.
 */
struct ib_mr *agg_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				int access, struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct agg_mr *old = to_amr(ibmr);

	if (!(flags & IB_MR_REREG_TRANS)) {
		start = old->start;
		length = old->length;
		iova = old->iova;
	}
	if (!(flags & IB_MR_REREG_ACCESS))
		access = old->access;
	if (!(flags & IB_MR_REREG_PD))
		ibpd = ibmr->pd;

	return agg_reg_user_mr(ibpd, start, length, iova, access, udata);
}

/**
 * agg_dereg_mr() - ops.dereg_mr
 * @ibmr: MR
 * @udata: not used
 *
 * Requests that still use it fail on their lanes.
 *
 * Context: may sleep. Return: 0.
 */
int agg_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	agg_mr_destroy(to_amr(ibmr));
	return 0;
}

/**
 * agg_mr_lkey() - translate a local key
 * @pd: PD of the QP that uses it
 * @lane: lane it is needed on
 * @lkey: key from the application
 * @lane_lkey: the lane's key
 *
 * The address range and the access rights are checked by the lane.
 *
 * Context: any. Return: 0, or -ENOENT: not a key of this PD on this lane.
 */
int agg_mr_lkey(struct agg_pd *pd, u8 lane, u32 lkey, u32 *lane_lkey)
{
	struct agg_dev *dev = to_adev(pd->ibpd.device);
	struct agg_mr *mr;
	int err = -ENOENT;

	rcu_read_lock();
	mr = agg_mr_find(dev, lkey);
	if (mr && mr->pd == pd && test_bit_acquire(lane, &mr->lanes)) {
		*lane_lkey = READ_ONCE(mr->lane_lkey[lane]);
		err = 0;
	}
	rcu_read_unlock();
	return err;
}

/**
 * agg_mr_describe() - answer a peer that asks for a key
 * @dev: the device
 * @rkey: the agg key asked for
 * @out: filled; status AGG_WIRE_KEY_ABSENT if there is no such key
 *
 * Context: any.
 */
void agg_mr_describe(struct agg_dev *dev, u32 rkey, struct agg_wire_key *out)
{
	struct agg_mr *mr;
	unsigned int i;

	memset(out, 0, sizeof(*out));
	out->rkey = rkey;
	out->status = AGG_WIRE_KEY_ABSENT;

	rcu_read_lock();
	mr = agg_mr_find(dev, rkey);
	if (mr) {
		out->status = AGG_WIRE_KEY_OK;
		out->iova = mr->iova;
		out->length = mr->length;
		out->access = mr->access;
		for (i = 0; i < AGG_MAX_LANES; i++) {
			if (!test_bit_acquire(i, &mr->lanes))
				continue;
			out->lane[out->nr].lane = i;
			out->lane[out->nr].rkey = READ_ONCE(mr->lane_rkey[i]);
			out->nr++;
		}
	}
	rcu_read_unlock();
}

/*
 * A lane joins a live device
 */

/* Register the memory on one more lane. */
static int agg_mr_join(struct agg_mr *mr, struct agg_lane *lane)
{
	int err = 0;

	mutex_lock(&mr->join_lock);
	if (mr->gone)
		goto out;
	/* Its process has ended: the memory is nobody's but the MR's. */
	err = -ESRCH;
	if (!mmget_not_zero(mr->mm))
		goto out;
	kthread_use_mm(mr->mm);
	err = agg_mr_reg_lane(mr, lane->id);
	kthread_unuse_mm(mr->mm);
	mmput_async(mr->mm);
	/* Peers ask again when they miss the lane; this tells those who gave up. */
	if (!err)
		agg_session_key_gone(lane->dev, mr->key);
out:
	mutex_unlock(&mr->join_lock);
	return err;
}

/* An MR that is not on the lane, with a reference. If there is none the PD is on it. */
static struct agg_mr *agg_pd_next_mr(struct agg_pd *pd, struct agg_lane *lane)
{
	struct agg_dev *dev = lane->dev;
	struct agg_mr *mr;

	spin_lock(&dev->pds_lock);
	list_for_each_entry(mr, &pd->mrs, node) {
		if (!test_bit(lane->id, &mr->lanes) && !READ_ONCE(mr->gone)) {
			refcount_inc(&mr->ref);
			spin_unlock(&dev->pds_lock);
			return mr;
		}
	}
	smp_mb__before_atomic();	/* who sees the bit sees the PD */
	set_bit(lane->id, &pd->lanes);
	spin_unlock(&dev->pds_lock);
	return NULL;
}

static int agg_pd_join(struct agg_pd *pd, struct agg_lane *lane)
{
	struct agg_mr *mr;
	struct ib_pd *lpd;
	int err = 0;

	lpd = ib_alloc_pd(lane->ibdev, 0);
	if (IS_ERR(lpd))
		return PTR_ERR(lpd);
	pd->lane_pd[lane->id] = lpd;
	while (!err && !READ_ONCE(lane->dead)) {
		mr = agg_pd_next_mr(pd, lane);
		if (!mr)
			return 0;
		err = agg_mr_join(mr, lane);
		agg_mr_put(mr);
	}
	return err ?: -ENETDOWN;
}

/* A PD that is not on the lane and was not tried, with a reference. */
static struct agg_pd *agg_pd_next(struct agg_lane *lane)
{
	struct agg_dev *dev = lane->dev;
	struct agg_pd *pd;

	spin_lock(&dev->pds_lock);
	list_for_each_entry(pd, &dev->pds, node) {
		/* One whose last reference is gone is being freed. */
		if (!test_bit(lane->id, &pd->lanes) && !test_bit(lane->id, &pd->refused) &&
		    refcount_inc_not_zero(&pd->ref)) {
			spin_unlock(&dev->pds_lock);
			return pd;
		}
	}
	spin_unlock(&dev->pds_lock);
	return NULL;
}

/**
 * agg_pd_join_work() - give a lane the PDs and MRs that were there before it
 * @work: lane->join_work
 *
 * Context: process; sleeps as long as the memory of applications takes.
 */
void agg_pd_join_work(struct work_struct *work)
{
	struct agg_lane *lane = container_of(work, struct agg_lane, join_work);
	struct agg_dev *dev = lane->dev;
	struct agg_pd *pd;
	bool joined = false;
	int err;

	while (!READ_ONCE(lane->dead)) {
		pd = agg_pd_next(lane);
		if (!pd)
			break;
		err = agg_pd_join(pd, lane);
		joined |= !err;
		if (err) {
			down_write(&dev->objs_sem);
			set_bit(lane->id, &pd->refused);
			agg_pd_drop_lane(pd, lane->id);
			up_write(&dev->objs_sem);
			if (err != -ESRCH && err != -ENETDOWN)
				pr_warn_ratelimited("rdma_agg: %s: lane %s/%u: memory of an application cannot be registered (%d): its QPs do not use the lane\n",
						    dev_name(&dev->ibdev.dev), lane->ibdev_name,
						    lane->port, err);
		}
		agg_pd_put(pd);
	}
	if (!joined)
		return;
	agg_fo_kick_all(dev);
	agg_session_lanes_changed(dev);
}
