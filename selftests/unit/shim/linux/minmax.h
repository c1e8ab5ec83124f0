/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SHIM_LINUX_MINMAX_H
#define SHIM_LINUX_MINMAX_H

#define min(a, b)	({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b)	({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })

#endif
