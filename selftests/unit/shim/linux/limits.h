/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SHIM_LINUX_LIMITS_H
#define SHIM_LINUX_LIMITS_H

#include <linux/types.h>

#define U8_MAX	((u8)~0U)
#define U16_MAX	((u16)~0U)
#define U32_MAX	((u32)~0U)
#define U64_MAX	((u64)~0ULL)

#endif
