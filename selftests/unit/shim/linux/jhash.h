/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel's own header, from the headers package (the Makefile finds it),
 * with the two helpers that it takes from headers which user space cannot
 * include.
 */
#ifndef SHIM_LINUX_JHASH_H
#define SHIM_LINUX_JHASH_H

#include <string.h>
#include <linux/types.h>

#ifndef fallthrough
#define fallthrough __attribute__((__fallthrough__))
#endif

static inline u32 rol32(u32 word, unsigned int shift)
{
	return (word << (shift & 31)) | (word >> ((-shift) & 31));
}

static inline u32 __get_unaligned_cpu32(const void *p)
{
	u32 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

#include KERNEL_JHASH_H

#endif
