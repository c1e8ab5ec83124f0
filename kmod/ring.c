// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Rings shared with the application, and the receive-ring trap.
 *
 * ibv_post_recv() makes no system call. When a lane has no receive left and
 * the ring is empty, the next post must wake us: the trap takes the ring's
 * first page (its indices) out of every page table, so that the post faults.
 *
 * Why no wake-up is lost. The fault handler inserts the page under trap_lock,
 * the same lock arming holds from setting @armed to the end of the unmap: a
 * fault is either before the arming, and then its PTE is unmapped by it, or
 * after, and then it sees @armed. A post that slipped in before the unmap is
 * seen by the look that follows arming (agg_qp_trap_work()).
 */
#include <linux/mm.h>
#include <linux/vmalloc.h>
#include <rdma/uverbs_ioctl.h>

#include "agg.h"

static void agg_ring_release(struct kref *ref)
{
	struct agg_ring *ring = container_of(ref, struct agg_ring, ref);

	vfree(ring->buf);
	kfree(ring);
}

/**
 * agg_ring_put() - drop a reference
 * @ring: the ring, or NULL
 *
 * Context: may sleep.
 */
void agg_ring_put(struct agg_ring *ring)
{
	if (ring)
		kref_put(&ring->ref, agg_ring_release);
}

/**
 * agg_ring_create() - allocate a ring and make it known to mmap()
 * @dev: the device
 * @uctx: the only context that may map it
 * @entries: least number of elements it holds
 * @elem_size: bytes of an element; rounded up to a power of two
 *
 * Offsets are unique in the device: a trap unmaps a range of the device
 * file's address space, which all its openers share.
 *
 * Context: may sleep. Return: the ring or an ERR_PTR.
 */
struct agg_ring *agg_ring_create(struct agg_dev *dev, struct ib_ucontext *uctx, u32 entries,
				 u32 elem_size)
{
	struct agg_ring *ring;
	size_t pages;
	u32 slots;
	int err;

	elem_size = roundup_pow_of_two(max_t(u32, elem_size, L1_CACHE_BYTES));
	/* One slot stays empty: full and empty must differ. */
	slots = roundup_pow_of_two(entries + 1);

	ring = kzalloc(sizeof(*ring), GFP_KERNEL);
	if (!ring)
		return ERR_PTR(-ENOMEM);

	kref_init(&ring->ref);
	mutex_init(&ring->trap_lock);
	ring->dev = dev;
	ring->uctx = uctx;
	ring->mask = slots - 1;
	ring->shift = ilog2(elem_size);
	ring->size = PAGE_ALIGN(sizeof(struct rxe_queue_buf) + ((size_t)slots << ring->shift));
	pages = ring->size >> PAGE_SHIFT;

	ring->buf = vmalloc_user(ring->size);
	if (!ring->buf) {
		err = -ENOMEM;
		goto err_free;
	}
	ring->buf->log2_elem_size = ring->shift;
	ring->buf->index_mask = ring->mask;

	spin_lock(&dev->rings_lock);
	ring->pgoff = dev->next_pgoff;
	dev->next_pgoff += ALIGN(pages, SHMLBA >> PAGE_SHIFT);
	spin_unlock(&dev->rings_lock);

	err = xa_insert(&dev->rings, ring->pgoff, ring, GFP_KERNEL);
	if (err)
		goto err_buf;
	return ring;

err_buf:
	vfree(ring->buf);
err_free:
	kfree(ring);
	return ERR_PTR(err);
}

/**
 * agg_ring_info() - what the provider needs in order to map the ring
 * @ring: the ring
 * @mi: filled
 *
 * Context: any.
 */
void agg_ring_info(const struct agg_ring *ring, struct mminfo *mi)
{
	memset(mi, 0, sizeof(*mi));
	mi->offset = ring->pgoff << PAGE_SHIFT;
	mi->size = ring->size;
}

/**
 * agg_ring_unpublish() - no mmap() finds the ring any more; drop it
 * @ring: the ring, or NULL; the owner's reference is consumed
 *
 * Context: may sleep.
 */
void agg_ring_unpublish(struct agg_ring *ring)
{
	if (!ring)
		return;
	xa_erase(&ring->dev->rings, ring->pgoff);
	agg_ring_put(ring);
}

/*
 * Trap
 */

/**
 * agg_ring_settrap() - say whom the trap wakes
 * @ring: a receive ring
 * @qp: the QP, or NULL: nobody from now on
 *
 * Context: may sleep.
 */
void agg_ring_settrap(struct agg_ring *ring, struct agg_qp *qp)
{
	mutex_lock(&ring->trap_lock);
	ring->trap_qp = qp;
	if (!qp)
		/* @dev may go before the mappings do: no fault must look at it. */
		ring->armed = false;
	mutex_unlock(&ring->trap_lock);
}

/**
 * agg_ring_arm() - arm the trap
 * @ring: a receive ring
 *
 * The caller looks at the ring once more after this.
 *
 * Context: may sleep. Return: false if nobody maps the ring (and so nobody
 * can post), or if it was armed already.
 */
bool agg_ring_arm(struct agg_ring *ring)
{
	bool armed = false;

	mutex_lock(&ring->trap_lock);
	if (ring->nr_vmas && !ring->armed && ring->trap_qp) {
		ring->armed = true;
		unmap_mapping_range(ring->mapping, (loff_t)ring->pgoff << PAGE_SHIFT, PAGE_SIZE, 1);
		agg_count(ring->dev, TRAP_ARMED);
		armed = true;
	}
	mutex_unlock(&ring->trap_lock);
	return armed;
}

static vm_fault_t agg_ring_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct agg_ring *ring = vma->vm_private_data;
	unsigned long off = (vmf->pgoff - ring->pgoff) << PAGE_SHIFT;
	unsigned long pfn;
	vm_fault_t ret;

	if (vmf->pgoff < ring->pgoff || off >= ring->size)
		return VM_FAULT_SIGBUS;

	pfn = vmalloc_to_pfn((u8 *)ring->buf + off);

	mutex_lock(&ring->trap_lock);
	ret = vmf_insert_pfn(vma, vmf->address, pfn);
	if (!off && ring->armed) {
		ring->armed = false;
		agg_count(ring->dev, TRAP_HIT);
		if (ring->trap_qp)
			agg_qp_ring_trapped(ring->trap_qp);
	}
	mutex_unlock(&ring->trap_lock);
	return ret;
}

/*
 * Mapping
 */

static void agg_ring_vma_add(struct agg_ring *ring, struct vm_area_struct *vma)
{
	kref_get(&ring->ref);

	mutex_lock(&ring->trap_lock);
	ring->mapping = vma->vm_file->f_mapping;
	ring->nr_vmas++;
	mutex_unlock(&ring->trap_lock);
}

static void agg_ring_vma_open(struct vm_area_struct *vma)
{
	/* The mapping that is split or copied holds one already. */
	__module_get(THIS_MODULE);
	agg_ring_vma_add(vma->vm_private_data, vma);
}

static void agg_ring_vma_close(struct vm_area_struct *vma)
{
	struct agg_ring *ring = vma->vm_private_data;

	mutex_lock(&ring->trap_lock);
	if (!--ring->nr_vmas) {
		ring->mapping = NULL;
		ring->armed = false;
	}
	mutex_unlock(&ring->trap_lock);
	agg_ring_put(ring);
	module_put(THIS_MODULE);
}

static const struct vm_operations_struct agg_ring_vm_ops = {
	.open = agg_ring_vma_open,
	.close = agg_ring_vma_close,
	.fault = agg_ring_fault,
};

/**
 * agg_mmap() - map a ring; ops.mmap
 * @uctx: context of the caller
 * @vma: must be shared and cover exactly one ring of this context, once
 *
 * Context: mmap_lock is held for writing.
 */
int agg_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct agg_dev *dev = to_adev(uctx->device);
	struct agg_ring *ring;

	/* A private mapping of a PFN area is a BUG() in the fault path. */
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;

	/*
	 * With disassociate_ucontext an open file does not hold the module, so
	 * this may come while it is being unloaded; and the vm_ops must outlive
	 * the mapping.
	 */
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;

	xa_lock(&dev->rings);
	ring = xa_load(&dev->rings, vma->vm_pgoff);
	if (ring && (ring->uctx != uctx || ring->mapped ||
		     ring->size != vma->vm_end - vma->vm_start))
		ring = NULL;
	if (ring) {
		/* Published, so the owner's reference is there. */
		kref_get(&ring->ref);
		ring->mapped = true;
	}
	xa_unlock(&dev->rings);
	if (!ring) {
		module_put(THIS_MODULE);
		return -EINVAL;
	}

	/* All pages come by agg_ring_fault(); VM_PFNMAP also forbids MADV_DONTNEED. */
	vm_flags_set(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = ring;
	vma->vm_ops = &agg_ring_vm_ops;
	agg_ring_vma_add(ring, vma);
	agg_ring_put(ring);
	return 0;
}
