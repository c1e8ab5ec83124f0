/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Differences between the kernels we build for. The only file that looks at
 * LINUX_VERSION_CODE.
 */
#ifndef AGG_COMPAT_H
#define AGG_COMPAT_H

#include <linux/mm.h>
#include <linux/version.h>
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
