/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sessions: the control connections to other agg devices.
 *
 * Everything here is called without spinlocks held unless a function says
 * otherwise. session.c calls back into agg_attach_rx(), agg_detach_rx() and
 * agg_mr_describe() from work items that may sleep, one per request, so that
 * a slow ATTACH does not hold up another.
 */
#ifndef AGG_SESSION_H
#define AGG_SESSION_H

#include "agg.h"
#include "wire.h"

int agg_session_init(void);
void agg_session_exit(void);
int agg_session_dev_start(struct agg_dev *dev);
void agg_session_dev_stop(struct agg_dev *dev);
int agg_session_dev_rebind(struct agg_dev *dev);
int agg_session_set_psk(struct agg_dev *dev, const void *key, size_t len);
bool agg_session_has_psk(struct agg_dev *dev);

/* What @f says goes with @m. */
static inline void agg_wire_set_frozen(struct agg_wire_attach *m, const struct agg_frozen *f)
{
	m->flags |= AGG_WIRE_ATTACH_FROZEN;
	m->frozen_epoch = f->epoch;
	m->frozen_psn = f->psn;
	m->frozen_recvs = f->recvs;
}

struct agg_peer *agg_peer_get(struct agg_dev *dev, const union ib_gid *sgid,
			      const union ib_gid *dgid);
void agg_peer_put(struct agg_peer *peer);
int agg_peer_connect(struct agg_peer *peer, unsigned int timeout_ms);
const char *agg_sess_strerror(int err);
bool agg_peer_lane(struct agg_peer *peer, u8 id, struct agg_wire_lane *out);
unsigned int agg_peer_lanes(struct agg_peer *peer, struct agg_wire_lane *out, unsigned int max);
int agg_peer_attach(struct agg_peer *peer, const struct agg_wire_attach *req,
		    struct agg_wire_attach *resp, unsigned int timeout_ms);
void agg_peer_detach(struct agg_peer *peer, const struct agg_wire_attach *msg);
int agg_peer_key(struct agg_peer *peer, u32 rkey, u8 lane, u32 *lane_rkey, struct agg_qp *waiter);
void agg_peer_key_cancel(struct agg_peer *peer, struct agg_qp *qp);
void agg_session_key_gone(struct agg_dev *dev, u32 rkey);
void agg_session_lanes_changed(struct agg_dev *dev);

struct agg_peer_info {
	union ib_gid sgid, gid;
	u64 instance;
	u32 nr_lanes;
	u32 nr_keys;
	u32 users;		/* QPs */
	bool up;
	int last_err;
	u64 since;		/* ktime_get_real_ns() of the last change */
	u64 tx_msgs, rx_msgs, reconnects;
};

int agg_session_peers(struct agg_dev *dev, unsigned long *cursor, struct agg_peer_info *out);
int agg_session_peer_lanes(struct agg_dev *dev, unsigned long *cursor, struct agg_wire_lanes *out);
bool agg_session_find_lane(struct agg_dev *dev, const u8 *gid, struct agg_wire_lane *out,
			   unsigned long *heard);
bool agg_path_gids(struct agg_lane *lane, const struct agg_wire_lane *peer, union ib_gid *gid,
		   union ib_gid *peer_gid);

#endif /* AGG_SESSION_H */
