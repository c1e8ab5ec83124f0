// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Protection domains and memory regions: one of each lane's behind each of
 * ours.
 *
 * A lane checks every access itself, against its own PD and MR. What is done
 * here is translation only: an agg key becomes the lane's key, an unknown one
 * becomes the lane's poison key, which no access can pass.
 *
 * dev->objs_sem: each owner makes and unmakes its own lane objects with read
 * held; a lane that leaves takes it for writing and so sees them all.
 */
#include <linux/random.h>
#include <rdma/uverbs_ioctl.h>

#include "agg.h"
#include "session.h"

/*
 * PD
 */

static void agg_pd_drop_lanes(struct agg_pd *pd)
{
	unsigned int i;

	for_each_set_bit(i, &pd->lanes, AGG_MAX_LANES) {
		ib_dealloc_pd(pd->lane_pd[i]);
		pd->lane_pd[i] = NULL;
	}
	pd->lanes = 0;
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

	down_read(&dev->objs_sem);
	spin_lock(&dev->pds_lock);
	list_del(&pd->node);
	spin_unlock(&dev->pds_lock);
	agg_pd_drop_lanes(pd);
	up_read(&dev->objs_sem);
	return 0;
}

/**
 * agg_pd_lane_gone() - give up all PDs and MRs of a lane
 * @dev: the device
 * @lane: dead, out of the table, without lane QPs
 *
 * Context: may sleep.
 */
void agg_pd_lane_gone(struct agg_dev *dev, struct agg_lane *lane)
{
	unsigned int id = lane->id;
	struct agg_pd *pd;
	struct agg_mr *mr;

	/* Holding it for writing, nobody else touches the lists. */
	down_write(&dev->objs_sem);
	list_for_each_entry(pd, &dev->pds, node) {
		list_for_each_entry(mr, &pd->mrs, node) {
			if (!mr->lane_mr[id])
				continue;
			clear_bit(id, &mr->lanes);
			ib_dereg_mr(mr->lane_mr[id]);
			mr->lane_mr[id] = NULL;
		}
		if (!pd->lane_pd[id])
			continue;
		clear_bit(id, &pd->lanes);
		ib_dealloc_pd(pd->lane_pd[id]);
		pd->lane_pd[id] = NULL;
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

/* Register @mr's range on every lane of @pd; all or none. */
static int agg_mr_reg_lanes(struct agg_mr *mr, struct agg_pd *pd)
{
	struct ib_mr *lmr;
	unsigned int i;

	for_each_set_bit(i, &pd->lanes, AGG_MAX_LANES) {
		lmr = ib_reg_user_mr(pd->lane_pd[i], mr->start, mr->length, mr->iova, mr->access);
		if (IS_ERR(lmr)) {
			agg_mr_drop_lanes(mr);
			return PTR_ERR(lmr);
		}
		mr->lane_mr[i] = lmr;
		mr->lane_lkey[i] = lmr->lkey;
		mr->lane_rkey[i] = lmr->rkey;
		set_bit(i, &mr->lanes);
	}
	return 0;
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
	mr->pd = pd;
	mr->start = start;
	mr->length = length;
	mr->iova = iova;
	mr->access = access;

	err = agg_key_alloc(dev, &mr->key);
	if (err)
		goto err_free;

	down_read(&dev->objs_sem);
	err = pd->lanes ? agg_mr_reg_lanes(mr, pd) : -ENODEV;
	if (err) {
		up_read(&dev->objs_sem);
		goto err_key;
	}
	spin_lock(&dev->pds_lock);
	list_add_tail(&mr->node, &pd->mrs);
	spin_unlock(&dev->pds_lock);
	up_read(&dev->objs_sem);

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
	kfree(mr);
	return ERR_PTR(err);
}

static void agg_mr_destroy(struct agg_mr *mr)
{
	struct agg_dev *dev = to_adev(mr->ibmr.device);

	/* No new translation, then no lane access, then tell who has the keys. */
	xa_erase(&dev->mrs, mr->key >> 8);

	down_read(&dev->objs_sem);
	spin_lock(&dev->pds_lock);
	list_del(&mr->node);
	spin_unlock(&dev->pds_lock);
	agg_mr_drop_lanes(mr);
	up_read(&dev->objs_sem);

	agg_session_key_gone(dev, mr->key);
	kfree_rcu(mr, rcu);
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
	if (mr && mr->pd == pd && test_bit(lane, &mr->lanes)) {
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
		for_each_set_bit(i, &mr->lanes, AGG_MAX_LANES) {
			out->lane[out->nr].lane = i;
			out->lane[out->nr].rkey = READ_ONCE(mr->lane_rkey[i]);
			out->nr++;
		}
	}
	rcu_read_unlock();
}
