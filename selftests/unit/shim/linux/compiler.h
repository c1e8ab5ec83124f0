/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SHIM_LINUX_COMPILER_H
#define SHIM_LINUX_COMPILER_H

/* A test may have its own, to do something there. */
#ifndef barrier
#define barrier()	__asm__ __volatile__("" : : : "memory")
#endif

#endif
