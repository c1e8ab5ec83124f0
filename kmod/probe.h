/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Probes of paths, by data: see probe.c.
 */
#ifndef AGG_PROBE_H
#define AGG_PROBE_H

#include <linux/bitmap.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#define AGG_PROBE_DEPTH		64	/* messages on each queue of a lane */
#define AGG_PROBE_ECHOES	4	/* waiting to be answered, per path */

struct agg_lane;
struct agg_dev;
struct agg_probe_buf;

/**
 * struct agg_probe_path - from a lane to a lane of a peer
 * @node: probe->paths
 * @lane: ours
 * @work: sends, judges
 * @ah: to the peer's lane; of the work item
 * @av: of @ah
 * @gid: of our lane
 * @peer_gid: of the peer's; both together tell the path
 * @qpn: where the peer's lane hears probes
 * @qkey: likewise
 * @users: QPs on it
 * @ask: a probe is to be sent at once
 * @dead: nothing comes through, one way at least; no QP is given it
 * @deaf: since it is dead, nothing was heard here
 * @seq: of the last probe
 * @lost: probes since something was heard
 * @missed: of these, how many in whose time the peer was heard on its session
 * @asked: jiffies of the last probe
 * @lost_since: jiffies of the first of @lost
 * @due: jiffies when the next is sent
 * @pause: ms between two, while dead
 * @used: jiffies; when a QP last was on it, or a probe came in
 * @alive: jiffies; when a QP last heard the peer on it; no lock
 * @nr_echoes: of @echo
 * @echo: probes of the peer that are to be answered
 *
 * All under probe->lock, but for what says otherwise and for what does not change.
 */
struct agg_probe_path {
	struct list_head node;
	struct agg_lane *lane;
	struct delayed_work work;
	struct ib_ah *ah;
	struct rdma_ah_attr av;
	union ib_gid gid, peer_gid;
	u32 qpn, qkey;
	unsigned int users;
	bool ask;
	bool dead;
	bool deaf;
	u64 seq;
	unsigned int lost;
	unsigned int missed;
	unsigned long asked;
	unsigned long lost_since;
	unsigned long due;
	unsigned int pause;
	unsigned long used;
	unsigned long alive;
	unsigned int nr_echoes;
	struct {
		__be64 instance, seq;
	} echo[AGG_PROBE_ECHOES];
};

/**
 * struct agg_probe - what a lane has for it
 * @qp: UD; NULL if the lane has none
 * @cq: of @qp
 * @qpn: of @qp; 0 if the lane has none
 * @qkey: random; who knows it may ask
 * @bufs: what is on the send queue, then what is on the receive queue
 * @lock: all below, and posting to @qp; interrupts off
 * @paths: struct agg_probe_path
 * @nr_paths: of these
 * @nr_dead: of these, the dead ones
 * @busy: buffers that the lane has
 * @broken: @qp is in error; nothing is posted
 * @stopping: nothing is posted or queued any more
 * @tick: asks while the lane is not up; frees paths that nobody needs
 * @active_since: jiffies when the port became active
 * @answered: some peer has answered since then
 * @pause: ms between two attempts of a lane that is not up
 */
struct agg_probe {
	struct ib_qp *qp;
	struct ib_cq *cq;
	u32 qpn;
	u32 qkey;
	struct agg_probe_buf *bufs;
	spinlock_t lock;	/* see above */
	struct list_head paths;
	unsigned int nr_paths;
	unsigned int nr_dead;
	DECLARE_BITMAP(busy, 2 * AGG_PROBE_DEPTH);
	bool broken;
	bool stopping;
	struct delayed_work tick;
	unsigned long active_since;
	bool answered;
	unsigned int pause;
};

/**
 * agg_probe_came_through() - a QP heard the peer: an acknowledgment or a message
 * @path: of its lane QP; or NULL
 *
 * Context: any.
 */
static inline void agg_probe_came_through(struct agg_probe_path *path)
{
	unsigned long now = jiffies;

	/* Shared by the QPs of a path: written no more often than it changes. */
	if (path && READ_ONCE(path->alive) != now)
		WRITE_ONCE(path->alive, now);
}

/**
 * agg_probe_is_dead() - does nothing come through on the path of a QP?
 * @path: of its lane QP; or NULL
 *
 * Context: any; the QP keeps the path.
 */
static inline bool agg_probe_is_dead(const struct agg_probe_path *path)
{
	return path && READ_ONCE(path->dead);
}

void agg_probe_init(struct agg_lane *lane);
int agg_probe_start(struct agg_lane *lane);
void agg_probe_stop(struct agg_lane *lane);
void agg_probe_free(struct agg_lane *lane);
void agg_probe_begin(struct agg_lane *lane);
void agg_probe_resume(struct agg_lane *lane);
bool agg_probe_passed(struct agg_lane *lane);
void agg_probe_kick(struct agg_lane *lane);
void agg_probe_kick_all(struct agg_dev *dev);
void agg_probe_params_changed(struct agg_dev *dev);
struct agg_probe_path *agg_probe_use(struct agg_lane *lane, const union ib_gid *gid,
				     const union ib_gid *peer_gid, u32 qpn, u32 qkey);
void agg_probe_unuse(struct agg_probe_path *path);
bool agg_probe_path_dead(struct agg_lane *lane, const union ib_gid *gid,
			 const union ib_gid *peer_gid, u32 qpn);

#endif /* AGG_PROBE_H */
