/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Between probe.c, which judges paths, and probe_qp.c, which moves the datagrams.
 */
#ifndef AGG_PROBE_QP_H
#define AGG_PROBE_QP_H

#include "agg.h"

enum { AGG_PROBE_ASK = 1, AGG_PROBE_ANSWER = 2 };

#define AGG_PROBE_F_DEAF	0x01	/* of ASK: the sender hears nothing on this path */

/* On the wire; Documentation/protocol.rst. An answer repeats @instance and @seq. */
struct agg_probe_msg {
	__be32 magic;
	u8 version;
	u8 type;
	u8 flags;
	u8 reserved;
	__be64 instance;		/* of the device that asks */
	__be64 seq;
	u8 from[16], to[16];		/* addresses of the sender's and the other lane */
	__be32 qpn, qkey;		/* the sender's */
};

/* probe_qp.c */
int agg_probe_open_qp(struct agg_lane *lane);
void agg_probe_close_qp(struct agg_lane *lane);
unsigned long agg_probe_mend(struct agg_lane *lane);
void agg_probe_post_recvs(struct agg_lane *lane);
void agg_probe_send(struct agg_probe_path *path, u8 type, __be64 instance, __be64 seq);

/* probe.c */
void agg_probe_asked(struct agg_lane *lane, const struct agg_probe_msg *msg);
void agg_probe_answered(struct agg_lane *lane, const struct agg_probe_msg *msg);

#endif /* AGG_PROBE_QP_H */
