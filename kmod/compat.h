/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Differences between the kernels we build for. The only file that looks at
 * LINUX_VERSION_CODE.
 */
#ifndef AGG_COMPAT_H
#define AGG_COMPAT_H

#include <linux/mm.h>
#include <linux/socket.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}
#endif

/* create_cq takes its user data in different wrappings. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define agg_create_cq_arg		ib_udata

static inline struct ib_udata *agg_create_cq_udata(struct ib_udata *udata)
{
	return udata;
}
#else
#define agg_create_cq_arg		uverbs_attr_bundle

static inline struct ib_udata *agg_create_cq_udata(struct uverbs_attr_bundle *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}
#endif

/* Resizing a CQ became the users' alone, and cqe unsigned, in 7.1. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define agg_resize_cqe			int
#define resize_user_cq			resize_cq
#else
#define agg_resize_cqe			unsigned int
#endif

/*
 * ops.reg_user_mr. The DMA handle that it is given since 6.17 can only be made
 * on devices with alloc_dmah, so not on this one. The rest is in mr.c.
 */
struct ib_mr *agg_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
			      struct ib_udata *udata);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define agg_op_reg_user_mr		agg_reg_user_mr
#else
static inline struct ib_mr *agg_op_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
					       int access, struct ib_dmah *dmah,
					       struct ib_udata *udata)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return agg_reg_user_mr(ibpd, start, length, iova, access, udata);
}
#endif

/* What kernel_bind() and kernel_connect() call an address: another type since 6.19. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
#define agg_sockaddr			sockaddr
#else
#define agg_sockaddr			sockaddr_unsized
#endif

/* Since 7.0 a workqueue must say that it is bound to CPUs; it can since 6.17. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define AGG_WQ_PERCPU			0
#else
#define AGG_WQ_PERCPU			WQ_PERCPU
#endif

/* __assign_str() lost its second argument in 6.10. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
#define agg_assign_str(dst, src)	__assign_str(dst, src)
#else
#define agg_assign_str(dst, src)	__assign_str(dst)
#endif

/* The attributes of a dump request; NULL if it has none. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
#define agg_dump_attrs(cb)		(genl_dumpit_info(cb)->attrs)
#else
#define agg_dump_attrs(cb)		(genl_dumpit_info(cb)->info.attrs)
#endif

#endif /* AGG_COMPAT_H */
