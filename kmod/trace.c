// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Instantiates the tracepoints of trace.h. */
#ifndef __CHECKER__
#define CREATE_TRACE_POINTS
#include "trace.h"
#endif
