/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rdma_agg: one RDMA device over several RoCE ports.
 *
 * LOCK ORDER (outermost first; a lock may be taken while holding any above it)
 *
 *   lanes_mutex          mutex   candidate lanes; lanes come and go one at a
 *                                time (lane.c); rtnl may be taken inside
 *   dev->lanes_lock      mutex   lane table writers, parameters
 *   qp->modify_lock      mutex   one modify_qp of the application at a time
 *   qp->mutex            mutex   QP state changes, attach, lane QP lifetime
 *   mr->join_lock        mutex   a lane that joins registers the memory
 *   dev->objs_sem        rwsem   lane objects of PDs and MRs: read = make or
 *                                unmake one's own, write = a lane comes or goes
 *   peer locks           see session.c; never held while a verb of a lane runs
 *   agg_devs_lock        mutex   list of agg devices; taken under rtnl, so
 *                                nothing that takes rtnl may run inside
 *   mmap_lock (core mm)
 *   ring->trap_lock      mutex   mapping state of a ring, arming of its trap
 *   i_mmap_rwsem (core mm)
 *   lane->qps_lock       spin    lane QPs of one lane
 *   lane->probe.lock     spin    paths of one lane, posting probes; a leaf
 *   dev->pds_lock, dev->select_lock, dev->rings_lock, dev->tombs_lock,
 *   dev->stats_lock      spin, leaves
 *   qp->sq.lock          spin    send engine of one QP
 *   qp->rq.lock          spin    receive forwarding of one QP; inside sq.lock
 *                                only where a state of both changes
 *   cq->lock             spin    completion ring of one agg CQ; innermost of ours
 *
 * All spinlocks are taken with interrupts off: lane completions are drained
 * from irq_work. A lane's own locks (taken inside ib_post_*, ib_poll_cq) nest
 * inside sq.lock, rq.lock; a lane never calls back under them into anything
 * but agg_lcq_event() and agg_lqp_event(), which take no lock.
 *
 * No mutex of ours is held across ib_register_device() or
 * ib_unregister_device(): both call our own ib_client back.
 *
 * LIFETIME
 *
 *   agg_dev   memory belongs to the ib_device (put_device frees it). Torn down
 *             in dealloc_driver, which the core calls last on every way out.
 *   agg_lane  kref; the table holds one, each lane QP holds one. ib_client
 *             .remove waits until nothing of the lane's ib_device is in use.
 *   agg_lqp   on its lane's list from creation to destruction, under the
 *             mutex of its QP; qp->lqp, or on qp->fo.old once it is quiet.
 *   agg_probe_path   on its lane's list; counts the lane QPs on it; freed by the
 *             lane's tick a minute after its last use, or with the lane, which
 *             has no lane QPs then (agg_probe_free()).
 *   agg_qp    the verbs object plus a refcount for everything asynchronous;
 *             destroy_qp waits for it.
 *   agg_ring  kref: the object that owns it and each VMA that maps it.
 */
#ifndef AGG_H
#define AGG_H

#ifdef CONFIG_PREEMPT_RT
#error "rdma_agg relies on spin_lock_irqsave() to keep its CPU (sq.c, rq.c)"
#endif

#include <linux/completion.h>
#include <linux/hashtable.h>
#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <uapi/rdma/rdma_user_rxe.h>

#include "compat.h"
#include "fence.h"
#include "hash.h"
#include "lane_state.h"
#include "probe.h"

/* Of the soft-RoCE user ABI; the kernel has it only in its own rxe.h. */
#define AGG_UVERBS_ABI_VERSION	2

#define AGG_MAX_LANES		16
#define AGG_MAX_SGE		32
#define AGG_MAX_INLINE		512
#define AGG_LANE_GIDS		4	/* addresses of a lane told to a peer */
#define AGG_LANE_NONE		0xff

struct agg_dev;
struct agg_lane;
struct agg_qp;
struct agg_peer;
struct agg_wire_attach;
struct netlink_ext_ack;

/*
 * Parameters of an agg device (netlink: param set/show)
 */

/**
 * struct agg_params - per-device parameters, all settable through netlink
 * @tx_queues: send CQs per lane; takes effect for lanes added later
 * @rx_queues: receive CQs per lane; takes effect for lanes added later
 * @session_port: TCP port of the session; settable while the device has no lane
 * @connect_timeout_ms: bound for modify_qp(RTR) to agree with the peer
 * @keepalive_ms: idle time after which a session is probed; 0 = never
 * @rnr_grace_ms: time a SEND may meet no receive before rnr_retry counts
 * @ack_timeout_min: lower bound of a lane QP's ack timeout (4.096 us * 2^n)
 * @ack_timeout_max: upper bound of a lane QP's ack timeout (4.096 us * 2^n)
 * @load_bound: most flows on a lane, in percent of its fair share (>= 100)
 * @failover_timeout_ms: how long requests wait for a path when there is none
 * @updelay_ms: how long a port must be active before the lane is used
 * @probe_interval_ms: between two probes of a path that is used; 0 = no probes
 * @probe_lost: so many probes in a row without an answer are the end of a path
 *
 * Written under dev->lanes_lock, read with READ_ONCE().
 */
struct agg_params {
	u32 tx_queues;
	u32 rx_queues;
	u16 session_port;
	u32 connect_timeout_ms;
	u32 keepalive_ms;
	u32 rnr_grace_ms;
	u8 ack_timeout_min;
	u8 ack_timeout_max;
	u32 load_bound;
	u32 failover_timeout_ms;
	u32 updelay_ms;
	u32 probe_interval_ms;
	u32 probe_lost;
};

/*
 * Counters
 */

/* Per lane, per CPU; sums are read with agg_lane_read_stats(). */
struct agg_lane_stats {
	u64 tx_reqs;		/* send work requests posted to the lane */
	u64 tx_bytes;		/* their bytes (READ: bytes asked for) */
	u64 tx_done_reqs;	/* send work requests completed, any status */
	u64 tx_done_bytes;
	u64 tx_errors;		/* of those, not successful and not flushed */
	u64 tx_flushed;
	u64 rx_posted;		/* receives forwarded to the lane */
	u64 rx_reqs;		/* receives completed successfully */
	u64 rx_bytes;
	u64 rx_errors;
	u64 rx_flushed;
};

/* Per device events that do not belong to a lane. */
enum agg_counter {
	AGG_CNT_TRAP_ARMED,	/* receive-ring traps armed */
	AGG_CNT_TRAP_HIT,	/* receive-ring traps that woke us */
	AGG_CNT_DOORBELLS,	/* post_send system calls */
	AGG_CNT_CQ_OVERFLOW,	/* completions lost because a CQ was full */
	AGG_CNT_BAD_WQE,	/* malformed elements found in a ring */
	AGG_CNT_KEY_MISS,	/* remote keys asked for by session */
	AGG_CNT_KEY_ABSENT,	/* ... that the peer does not have */
	AGG_CNT_ATTACH_OK,
	AGG_CNT_ATTACH_FAIL,
	AGG_CNT_SESSION_UP,	/* sessions established (HELLO done) */
	AGG_CNT_SESSION_DOWN,	/* established sessions lost */
	AGG_CNT_SESSION_REJECT,	/* HELLO refused: version, key, no such GID */
	AGG_CNT_SESSION_BAD_MSG, /* malformed messages */
	AGG_CNT_QP_FATAL,	/* QPs moved to the error state by a lane or by us */
	AGG_CNT_RNR_EXCEEDED,	/* SENDs failed because no receive was posted in time */
	AGG_CNT_FAILOVER,	/* path changes after a failure */
	AGG_CNT_MOVE,		/* path changes to a better one */
	AGG_CNT_FAILOVER_LOST,	/* QPs that failed because no path could be had */
	AGG_CNT_REPLAYED,	/* requests sent again on another path */
	AGG_CNT_RESOLVED,	/* requests that were executed, as the peer's fence showed */
	AGG_CNT_ATOMIC_LOST,	/* QPs that failed because of an atomic's lost result */
	AGG_CNT_PATH_LOST,	/* paths that did not answer probes */
	AGG_CNT_NR
};

/*
 * Lanes (lane.c, lcq.c)
 */

/*
 * A completion queue on a lane, shared by the lane QPs that hash to it.
 * @credits counts the completions it can still hold: a lane QP reserves the
 * depth of its queues (plus a drain marker) for its whole life, so no post
 * ever needs to count and no owner can overflow another's completions.
 */
struct agg_lcq {
	struct agg_lane *lane;
	struct ib_cq *cq;
	struct irq_work irq_work;
	struct work_struct work;
	atomic_t kicks;		/* > 0: somebody owns the drain */
	atomic_t credits;
	u32 size;
	u32 vector;
	bool rx;
	/* written by the drain owner only, read with READ_ONCE() */
	u64 interrupts;		/* completion events of the lane */
	u64 completions;
	u64 rescheds;		/* drains continued in the work item */
	u32 batch_max;		/* most completions found by one drain */
	struct ib_wc wc[16];
};

/*
 * What the administrator wants of a lane; the values are uapi (enum
 * rdma_agg_lane_admin).
 */
enum agg_lane_admin {
	AGG_LANE_ADMIN_UP,
	AGG_LANE_ADMIN_DRAIN,	/* flows leave it, and none comes */
	AGG_LANE_ADMIN_DOWN,	/* as without carrier */
};

/*
 * struct agg_lane - one underlying ib_device + port
 * @ref: the table and each lane QP hold one
 * @dead: set once, under dev->lanes_lock, before the lane leaves the table
 * @home_flows: agg QPs whose home path uses this lane (dev->select_lock)
 * @qps: lane QPs, under @qps_lock
 */
struct agg_lane {
	struct kref ref;
	struct agg_dev *dev;
	u8 id;			/* index in dev->lanes, told to peers */
	u8 rail;
	u8 admin;		/* enum agg_lane_admin; written under dev->lanes_lock */
	u8 nr_tx, nr_rx;
	u32 port;
	u32 weight;		/* Mbit/s unless set by the administrator */
	bool weight_fixed;
	bool dead;
	enum agg_lane_state state;
	int numa_node;
	struct ib_device *ibdev;
	char ibdev_name[IB_DEVICE_NAME_MAX];
	char netdev_name[IFNAMSIZ];
	struct ib_pd *pd;	/* our own: @poison and @probe */
	struct ib_mr *poison;	/* never valid; its keys stand for unknown keys */
	u32 poison_rkey;	/* for peers */
	struct agg_lcq *tx, *rx;
	struct ib_event_handler event_handler;
	struct work_struct event_work;
	struct work_struct join_work;	/* takes PDs and MRs that were there before (mr.c) */
	struct agg_probe probe;
	u32 speed;		/* Mbit/s */
	u32 max_msg_sz;
	enum ib_mtu mtu;
	union ib_gid gid[AGG_LANE_GIDS];
	u8 nr_gids;
	spinlock_t gid_lock;	/* @gid, @nr_gids; process context only */
	u32 home_flows;
	wait_queue_head_t drained;	/* @home_flows has become 0 */
	spinlock_t qps_lock;	/* @qps, @nr_qps */
	struct list_head qps;
	u32 nr_qps;
	struct agg_lane_stats __percpu *stats;
	u64 created;		/* ktime_get_real_ns() */
	u64 state_changes;
	struct rcu_head rcu;
};

int agg_lane_add(struct agg_dev *dev, const char *ibdev_name, u32 port, int rail,
		 u32 weight, struct netlink_ext_ack *extack);
int agg_lane_del(struct agg_dev *dev, const char *ibdev_name, u32 port,
		 struct netlink_ext_ack *extack);
int agg_lane_set(struct agg_dev *dev, const char *ibdev_name, u32 port, const int *rail,
		 const u32 *weight, const u32 *admin, struct netlink_ext_ack *extack);
bool agg_lane_open(const struct agg_lane *lane);
void agg_lanes_destroy(struct agg_dev *dev);
void agg_lane_put(struct agg_lane *lane);
struct agg_lane *agg_lane_get(struct agg_dev *dev, u8 id);
unsigned int agg_lane_gids(struct agg_lane *lane, union ib_gid *gid);
int agg_gid_class(const u8 *gid);
void agg_lane_add_stats(const struct agg_lane *lane, struct agg_lane_stats *sum);
void agg_lane_read_stats(const struct agg_lane *lane, struct agg_lane_stats *sum);
int agg_lanes_init(void);
void agg_lanes_exit(void);

int agg_lcq_init(struct agg_lcq *lcq, struct agg_lane *lane, bool rx, u32 vector, u32 size);
void agg_lcq_destroy(struct agg_lcq *lcq);
bool agg_lcq_reserve(struct agg_lcq *lcq, u32 n);
void agg_lcq_unreserve(struct agg_lcq *lcq, u32 n);

/*
 * The agg device (device.c)
 */

struct agg_dev {
	struct ib_device ibdev;
	struct list_head node;		/* agg_devs, under agg_devs_lock */
	u64 instance;			/* random, new for every device created */
	struct net_device __rcu *ndev;	/* identity; NULL once it unregisters */
	netdevice_tracker ndev_tracker;
	possible_net_t net;
	spinlock_t ndev_lock;		/* writers of @ndev */
	struct work_struct unreg_work;

	struct mutex lanes_lock;	/* writers of @lanes, @params, @attr */
	struct agg_lane __rcu *lanes[AGG_MAX_LANES];
	spinlock_t stats_lock;		/* @leaving, @gone; lanes leave @lanes under it */
	struct agg_lane *leaving;	/* out of @lanes, and still counting */
	struct agg_lane_stats gone;	/* what the lanes that left have counted */
	u32 nr_lanes;
	bool closing;			/* no lane joins any more */
	struct ib_device_attr attr;	/* what is announced; set by the first lane */
	u32 max_msg_sz;
	u32 lanes_epoch;		/* grows with each change a peer must learn */
	atomic_t reach_seq;		/* grows when a lane, here or there, becomes usable */
	struct delayed_work move_work;	/* looks for QPs that should move */
	atomic_t nr_moving;

	spinlock_t select_lock;		/* lane->home_flows, @rr_next */
	const struct agg_policy __rcu *policy;
	u32 rr_next;

	struct agg_params params;

	struct xarray qps;		/* qpn -> agg_qp */
	u32 next_qpn;
	struct xarray mrs;		/* key index -> agg_mr */
	u32 next_key;
	struct xarray rings;		/* page offset -> agg_ring, for mmap */
	u64 next_pgoff;
	spinlock_t rings_lock;		/* @next_pgoff */

	spinlock_t tombs_lock;		/* @tombs, @nr_tombs */
	struct list_head tombs;		/* QPs that are gone (tomb.c) */
	u32 nr_tombs;

	struct rw_semaphore objs_sem;
	struct srcu_struct objs_srcu;	/* memory is being registered (mr.c) */
	spinlock_t pds_lock;		/* @pds, agg_pd.mrs */
	struct list_head pds;

	struct mutex port_lock;		/* serialises port events */
	enum ib_port_state port_state;
	bool registered;
	atomic64_t cnt[AGG_CNT_NR];

	struct agg_session_dev *sess;	/* owned by session.c */
};

#define agg_count(dev, c)	atomic64_inc(&(dev)->cnt[AGG_CNT_##c])

static inline struct agg_dev *to_adev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct agg_dev, ibdev);
}

extern struct mutex agg_devs_lock;
extern struct list_head agg_devs;
extern struct workqueue_struct *agg_wq;		/* control work, unbound, may sleep */
extern struct workqueue_struct *agg_hi_wq;	/* data path continuation, high priority */
extern struct workqueue_struct *agg_fo_wq;	/* failover: may wait for peers */
extern const struct ib_device_ops agg_dev_ops;

int agg_dev_create(const char *name, struct net_device *ndev, struct netlink_ext_ack *extack);
int agg_dev_delete(struct agg_dev *dev);
struct agg_dev *agg_dev_get_by_name(struct net *net, const char *name);
struct agg_dev *agg_dev_get_by_index(struct net *net, u32 index);
void agg_dev_put(struct agg_dev *dev);
bool agg_is_agg_device(const struct ib_device *ibdev);
struct net_device *agg_dev_get_netdev(struct agg_dev *dev);
void agg_dev_update_port(struct agg_dev *dev);
void agg_dev_speed(struct agg_dev *dev, u64 *mbps, enum ib_mtu *mtu);
void agg_caps_init(struct agg_dev *dev);
int agg_caps_join(struct agg_dev *dev, const struct agg_lane *lane, bool first,
		  struct netlink_ext_ack *extack);
int agg_device_init(void);
void agg_device_exit(void);

/*
 * Shared rings and the receive-ring trap (ring.c)
 */

/*
 * struct agg_ring - a queue in memory shared with the application
 * @ref: the owning object, and each mapping
 * @buf: struct rxe_queue_buf, vmalloc_user() memory; everything in it is hostile
 * @mask: number of slots - 1; one slot stays empty
 * @shift: log2 of the element size
 * @trap_lock: @mapping, @nr_vmas, @armed, @trap_qp
 */
struct agg_ring {
	struct kref ref;
	struct agg_dev *dev;
	struct ib_ucontext *uctx;
	struct rxe_queue_buf *buf;
	size_t size;
	u32 mask;
	u32 shift;
	u64 pgoff;
	bool mapped;		/* the one mmap() was done (lock of dev->rings) */

	struct mutex trap_lock;	/* all below */
	struct address_space *mapping;
	u32 nr_vmas;
	bool armed;
	struct agg_qp *trap_qp;	/* whom to wake; NULL before the QP goes */
};

struct agg_ring *agg_ring_create(struct agg_dev *dev, struct ib_ucontext *uctx, u32 entries,
				 u32 elem_size);
void agg_ring_info(const struct agg_ring *ring, struct mminfo *mi);
void agg_ring_unpublish(struct agg_ring *ring);
void agg_ring_put(struct agg_ring *ring);
void agg_ring_settrap(struct agg_ring *ring, struct agg_qp *qp);
bool agg_ring_arm(struct agg_ring *ring);
int agg_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma);

static inline void *agg_ring_elem(const struct agg_ring *ring, u32 index)
{
	return ring->buf->data + ((size_t)(index & ring->mask) << ring->shift);
}

static inline u32 agg_ring_producer(const struct agg_ring *ring)
{
	/* Pairs with the application's store-release: elements before index. */
	return smp_load_acquire(&ring->buf->producer_index) & ring->mask;
}

/*
 * Verbs objects
 */

struct agg_ucontext {
	struct ib_ucontext ibuc;
};

/*
 * @mrs: agg_mr.node, under dev->pds_lock; each is on all of @lanes
 * @lane_pd: one of each lane; see mr.c
 * @lanes: bit per lane id: its QPs may use it
 * @refused: some MR could not be registered on it
 * @ref: its own, and one of each lane that joins and works on it
 */
struct agg_pd {
	struct ib_pd ibpd;
	struct list_head node;		/* dev->pds, under dev->pds_lock */
	struct list_head mrs;
	struct ib_pd *lane_pd[AGG_MAX_LANES];
	unsigned long lanes;
	unsigned long refused;
	refcount_t ref;
	struct completion released;	/* @ref is 0 */
};

struct agg_mr {
	struct ib_mr ibmr;
	struct agg_pd *pd;
	struct list_head node;
	u32 key;			/* lkey and rkey */
	int access;
	u64 start, iova, length;
	struct mm_struct *mm;		/* where @start is; held by mmgrab() */
	refcount_t ref;
	struct mutex join_lock;		/* @gone; one lane at a time is added */
	bool gone;
	struct ib_mr *lane_mr[AGG_MAX_LANES];	/* see mr.c */
	unsigned long lanes;		/* lanes whose keys are valid */
	/* read under RCU by translation */
	u32 lane_lkey[AGG_MAX_LANES];
	u32 lane_rkey[AGG_MAX_LANES];
	struct rcu_head rcu;
};

struct agg_cq {
	struct ib_cq ibcq;
	spinlock_t lock;		/* all below */
	struct agg_ring *ring;
	u32 prod;
	u8 notify;			/* enum ib_cq_notify_flags armed */
	bool overflow;			/* reported; until the next resize */
	struct list_head qps;		/* agg_qp.rcq_node, under lock */
	u64 completions, events;
	u32 depth_max;
};

/*
 * What the send engine knows of a request it took from the ring. Nothing of
 * it is read from the ring again.
 */
struct agg_send_slot {
	u64 wr_id;
	u32 length;
	u32 psn_end;			/* packets of this lane QP up to its end */
	u8 opcode;			/* enum ib_wr_opcode */
	bool signaled;
	bool suspect;			/* has a key that its PD does not know */
	bool done;			/* executed on an earlier path */
};

enum agg_sq_block {
	AGG_SQ_RUN,
	AGG_SQ_FAIL,			/* a local error waits for its turn */
};

struct agg_sq {
	spinlock_t lock;		/* all below, and posting to the lane */
	struct agg_ring *ring;
	struct agg_send_slot *slots;
	u32 max_sge, max_inline;
	u32 issue;			/* next slot to take from the ring */
	u32 cons;			/* oldest slot not retired */
	u32 reads;			/* READs and atomics in [cons, issue) */
	u32 psn;			/* packets issued on this lane QP, modulo 2^32 */
	u32 psn_cons;			/* of those, of retired requests */
	u32 takes;			/* retired requests of this lane QP that take a receive */
	u32 replay_left;		/* requests that an earlier path did not finish */
	bool draining;			/* SQD: it was not told yet that all is done */
	u8 fault_status;		/* what the lane said when the path failed */
	enum agg_sq_block block;
	u8 fail_status;			/* of the request at @issue if AGG_SQ_FAIL */
	bool sig_all;
	u32 watch_cons;			/* @cons when the RNR watch last looked */
	u32 rnr_index;			/* the SEND that met no receive in time */
	bool rnr_exceeded;
};

struct agg_recv_slot {
	u64 wr_id;
};

struct agg_rq {
	spinlock_t lock;		/* all below, and posting to the lane */
	struct agg_ring *ring;
	struct agg_recv_slot *slots;
	u32 max_sge;
	u32 fwd;			/* next slot to forward */
	u32 cons;			/* oldest slot not completed */
	u64 dry_since;			/* ns; no receive here or on the lane; 0 = there is */
};

/*
 * A QP on a lane: one end of a path. Created and destroyed under qp->mutex.
 * Posts happen under sq.lock or rq.lock with qp->lqp set and !stopped.
 */
struct agg_lqp {
	struct agg_qp *qp;
	struct agg_lane *lane;		/* holds a reference */
	struct list_head node;		/* lane->qps, under lane->qps_lock */
	struct list_head old_node;	/* qp->fo.old, once retired */
	struct ib_qp *ibqp;
	struct agg_lcq *scq, *rcq;
	u32 sq_depth, rq_depth;		/* reserved on the lane CQs */
	u32 psn;			/* our random start PSN */
	u32 peer_qpn, peer_psn;
	u32 peer_poison;		/* a key the peer's lane never accepts */
	u32 probe_qpn, probe_qkey;	/* where the peer's lane hears probes */
	struct agg_probe_path *path;	/* or NULL: it is not probed */
	u8 peer_lane;
	union ib_gid gid, peer_gid;	/* addresses of the two lanes */
	enum ib_mtu mtu;		/* what both lanes can do */
	u32 mtu_bytes;			/* path MTU, set on the way to RTR */
	enum ib_qp_state state;		/* written under mutex + sq.lock + rq.lock */
	bool stopped;			/* no more posts; written like @state */
	bool hold;			/* no sends yet; written like @state */
	bool was_rtr;			/* it may have executed something */
	bool sq_unresolved;		/* sq.lock: it flushed what must not be reported */
	bool rq_unresolved;		/* rq.lock: likewise */
	u32 recvs;			/* rq.lock: receives completed */
	unsigned long retired;		/* jiffies when it left qp->lqp */
	struct completion sq_idle, rq_idle;	/* drain markers came back */
};

/* Why a path is given up; the values are uapi (enum rdma_agg_cause). */
enum agg_cause {
	AGG_CAUSE_NONE,
	AGG_CAUSE_RETRY,	/* the lane's retries ran out */
	AGG_CAUSE_LANE_FAULT,	/* the lane QP failed by itself */
	AGG_CAUSE_LANE_DOWN,	/* carrier, port, or the administrator */
	AGG_CAUSE_LANE_GONE,	/* the lane was removed */
	AGG_CAUSE_PEER,		/* the peer noticed */
	AGG_CAUSE_CONNECT,	/* the new lane QP could not be connected */
	AGG_CAUSE_MOVE,		/* it was well, but there is a better one */
	AGG_CAUSE_PROBE,	/* probes were not answered */
};

/* What the requests of a failed path came to. */
struct agg_resolved {
	u32 resolved, replayed;
};

/*
 * Path failure of one QP (failover.c). All under qp->mutex, but for what says
 * otherwise.
 */
struct agg_failover {
	struct agg_fence fence;		/* the send engine reads @state */
	struct delayed_work work;
	u8 cause;			/* written by who set AGG_QPF_PATH */
	u64 since;			/* ns, likewise */
	unsigned long retry;		/* ms to the next try */
	unsigned long poll_at;		/* jiffies; follower: when to look for the leader */
	unsigned long avoid;		/* our lanes that have just failed, though they look well */
	unsigned long hold_until;	/* jiffies; follower: when a READY is taken as lost */
	bool untold;			/* the lane did not say what it has executed */
	unsigned long lost_since;	/* jiffies; 0: no request waits for a path */
	struct agg_wire_attach *offer;	/* leader: what is repeated until it is answered */
	u8 failed_lane;			/* where the last path was */
	struct list_head old;		/* quiet lane QPs, until old packets are gone */
	u32 blame_at;			/* the request that heads the queue at each failure */
	u32 blame;			/* how often */
	u32 failovers;
	u32 last_us, max_us;
	u64 replayed, resolved;
	u8 last_cause;
	/* move.c */
	bool moving;			/* leader: requests are held back for it */
	bool move_asked;		/* the attempt has been told, and not refused */
	u32 move_attempt;
	u32 moves;
	unsigned int move_pause;	/* ms, after the last attempt that failed */
	unsigned long move_since;	/* jiffies */
	unsigned long move_after;	/* jiffies; not before */
	bool move_futile;		/* it led back to where it was, again and again; ... */
	int move_seq;			/* ... dev->reach_seq then */
};

/* Work request ids on a lane: 32 bits of slot, or this. */
#define AGG_WR_MARK	BIT_ULL(32)	/* behind the last request, in ERR */

/* agg_qp.flags */
enum {
	AGG_QPF_ERROR,		/* must go to ERR; the engines stop at once */
	AGG_QPF_DISCARD,	/* going to RESET or away: completions are dropped */
	AGG_QPF_RNR_WATCH,	/* rnr_retry is finite */
	AGG_QPF_PATH,		/* the path has failed; the engines stop at once */
	AGG_QPF_MOVE_WAIT,	/* a move waits until nothing is under way */
};

struct agg_qp {
	struct ib_qp ibqp;
	struct agg_dev *dev;
	struct agg_pd *pd;
	struct agg_cq *scq, *rcq;
	struct list_head rcq_node;
	refcount_t ref;
	struct completion released;
	u64 cookie;			/* random, identifies this incarnation to peers */
	struct mutex modify_lock;	/* one modify_qp at a time */
	struct mutex mutex;		/* state, peer, lane QP */
	enum ib_qp_state state;		/* written under mutex + sq.lock + rq.lock */
	struct ib_qp_attr attr;		/* what the application set */
	struct ib_qp_cap cap;
	bool dead;			/* destroy_qp has begun (mutex) */

	/* the peer, once the application or an ATTACH named it (mutex) */
	struct agg_peer *peer;
	union ib_gid sgid, dgid;
	u32 dqpn;
	bool named;			/* by our own application (RTR done or under way) */
	bool attached;			/* both lane QPs are known to both ends */
	u8 peer_rnr_timer;
	u64 peer_cookie;
	u64 peer_lanes_ok;		/* its lanes that the peer's QP can use */
	u64 peer_instance;
	wait_queue_head_t attach_wait;

	struct agg_lqp *lqp;		/* home path; written under mutex + both locks */
	struct agg_failover fo;
	u32 flow_hash;
	int node;			/* NUMA node of who created it */

	struct agg_sq sq;
	struct agg_rq rq;
	struct work_struct kick_work;	/* continue both engines in process context */
	struct work_struct trap_work;	/* look at the receive ring, then arm */
	struct work_struct err_work;	/* carry out AGG_QPF_ERROR */
	struct delayed_work rnr_work;
	struct delayed_work retry_work;
	unsigned long flags;		/* AGG_QPF_* */
	unsigned long events;		/* bit per enum ib_event_type to report */
	u64 created;
};

/* In ERR, or on the way to it, to RESET or away: no path is wanted any more. */
static inline bool agg_qp_ending(const struct agg_qp *qp)
{
	return READ_ONCE(qp->flags) & (BIT(AGG_QPF_ERROR) | BIT(AGG_QPF_DISCARD));
}

/* Where the state of both queues changes; process context. */
static inline void agg_qp_lock_queues(struct agg_qp *qp)
{
	spin_lock_irq(&qp->sq.lock);
	spin_lock(&qp->rq.lock);
}

static inline void agg_qp_unlock_queues(struct agg_qp *qp)
{
	spin_unlock(&qp->rq.lock);
	spin_unlock_irq(&qp->sq.lock);
}

static inline struct agg_pd *to_apd(struct ib_pd *p)
{
	return container_of(p, struct agg_pd, ibpd);
}

static inline struct agg_mr *to_amr(struct ib_mr *p)
{
	return container_of(p, struct agg_mr, ibmr);
}

static inline struct agg_cq *to_acq(struct ib_cq *p)
{
	return container_of(p, struct agg_cq, ibcq);
}

static inline struct agg_qp *to_aqp(struct ib_qp *p)
{
	return container_of(p, struct agg_qp, ibqp);
}

/* Verbs (ops table in verbs.c) */
int agg_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int agg_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
struct ib_mr *agg_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				int access, struct ib_pd *ibpd, struct ib_udata *udata);
int agg_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
int agg_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct agg_create_cq_arg *arg);
int agg_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int agg_resize_cq(struct ib_cq *ibcq, agg_resize_cqe cqe, struct ib_udata *udata);
int agg_poll_cq(struct ib_cq *ibcq, int n, struct ib_wc *wc);
int agg_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
int agg_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int agg_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int agg_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init);
int agg_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int agg_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr);
int agg_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr);

/* ring/mr/cq/qp entry points used across files */
int agg_mr_lkey(struct agg_pd *pd, u8 lane, u32 lkey, u32 *lane_lkey);
struct agg_wire_key;
void agg_mr_describe(struct agg_dev *dev, u32 rkey, struct agg_wire_key *out);
void agg_pd_lane_gone(struct agg_dev *dev, struct agg_lane *lane);
void agg_pd_join_work(struct work_struct *work);

bool agg_cq_post(struct agg_cq *cq, const struct ib_uverbs_wc *wc, bool solicited);

struct agg_qp *agg_qp_get(struct agg_dev *dev, u32 qpn);
void agg_qp_put(struct agg_qp *qp);
void agg_qp_kick(struct agg_qp *qp);
void agg_qp_retry(struct agg_qp *qp);
void agg_qp_fail(struct agg_qp *qp);
void agg_qp_fatal(struct agg_qp *qp);
void agg_qp_watch_rnr(struct agg_qp *qp);
void agg_dev_fail_qps(struct agg_dev *dev);
void agg_qp_event(struct agg_qp *qp, enum ib_event_type type);
void agg_qp_ring_trapped(struct agg_qp *qp);
void agg_qp_want_trap(struct agg_qp *qp);
void agg_qp_sqd_done(struct agg_qp *qp);
void agg_dev_each_qp(struct agg_dev *dev, void (*call)(struct agg_qp *qp, void *arg), void *arg);
void agg_lane_drop_qps(struct agg_lane *lane);

/* lqp.c */
int agg_lane_av(struct agg_lane *lane, const union ib_gid *gid, const union ib_gid *peer_gid,
		struct rdma_ah_attr *av);
struct agg_lqp *agg_lqp_create(struct agg_qp *qp, struct agg_lane *lane, u32 queue);
int agg_lqp_rtr(struct agg_lqp *lqp);
int agg_lqp_update(struct agg_lqp *lqp, int mask);
void agg_lqp_error(struct agg_lqp *lqp);
int agg_lqp_rts(struct agg_lqp *lqp, int mask);
int agg_lqp_quiesce(struct agg_lqp *lqp, u32 *psn);
void agg_lqp_retire(struct agg_lqp *lqp);
void agg_lqp_release(struct agg_lqp *lqp);
void agg_lqp_destroy(struct agg_lqp *lqp);
void agg_lane_fail_paths(struct agg_lane *lane, enum agg_cause cause);

/* failover.c, tomb.c */
void agg_fo_init(struct agg_qp *qp);
void agg_fo_cancel(struct agg_qp *qp);
void agg_fo_begin(struct agg_qp *qp, u32 epoch);
void agg_fo_end(struct agg_qp *qp);
void agg_tomb_add(struct agg_qp *qp);
void agg_tombs_free(struct agg_dev *dev);
u8 agg_tomb_rx(struct agg_dev *dev, const struct agg_wire_attach *req,
	       struct agg_wire_attach *resp);
bool agg_fo_failing(const struct agg_qp *qp);
void agg_fo_not_connected(struct agg_qp *qp);
void agg_fo_lose_lane(struct agg_qp *qp, struct agg_lane *lane);
void agg_fo_kick_all(struct agg_dev *dev);
void agg_move_kick(struct agg_dev *dev);
void agg_move_init(struct agg_dev *dev);
u8 agg_move_rx(struct agg_qp *qp, const struct agg_wire_attach *req,
	       struct agg_wire_attach *resp);
int agg_fo_offered(struct agg_qp *qp, const struct agg_wire_attach *req);
u8 agg_fence_rx(struct agg_qp *qp, const struct agg_wire_attach *req,
		struct agg_wire_attach *resp);
u8 agg_ready_rx(struct agg_qp *qp, const struct agg_wire_attach *req);
void agg_qp_path_failed(struct agg_lqp *lqp, enum agg_cause cause);
const char *agg_cause_name(enum agg_cause cause);

/* path.c, attach.c */
void agg_qp_fill(struct agg_qp *qp, u8 kind, struct agg_wire_attach *m);
int agg_qp_lead_create(struct agg_qp *qp, struct agg_peer *peer, unsigned long *tried);
int agg_qp_follow_create(struct agg_qp *qp, const struct agg_wire_attach *req);
void agg_qp_paired(struct agg_qp *qp, const struct agg_wire_attach *m);
unsigned long agg_pd_usable_lanes(struct agg_pd *pd);
unsigned long agg_qp_eligible(struct agg_qp *qp, unsigned long lanes);
struct agg_flow agg_qp_flow(const struct agg_qp *qp);
bool agg_qp_is_self(const struct agg_qp *qp);
bool agg_qp_leads(const struct agg_qp *qp);
int agg_qp_attach(struct agg_qp *qp, const union ib_gid *sgid, const union ib_gid *dgid, u32 dqpn);
void agg_qp_drop_attach(struct agg_qp *qp);
void agg_qp_detach(struct agg_qp *qp);
bool agg_qp_peer_is_dry(struct agg_qp *qp);
int agg_qp_learn_poison(struct agg_qp *qp);
void agg_attach_rx(struct agg_dev *dev, const struct agg_wire_attach *req,
		   struct agg_wire_attach *resp);
void agg_detach_rx(struct agg_dev *dev, const struct agg_wire_attach *req);

/* sq.c, rq.c */
void agg_sq_run(struct agg_qp *qp);
bool agg_sq_idle(const struct agg_qp *qp);
bool agg_sq_has_work(struct agg_qp *qp);
void agg_sq_quiet(struct agg_lqp *lqp);
int agg_sq_resolve(struct agg_qp *qp, const struct agg_frozen *peer, struct agg_resolved *r);
void agg_sq_abandon(struct agg_qp *qp, enum ib_wc_status status);
void agg_rq_rewind(struct agg_qp *qp);
void agg_sq_complete(struct agg_lqp *lqp, const struct ib_wc *wc);
int agg_sq_init(void);
void agg_sq_exit(void);
void agg_rq_run(struct agg_qp *qp);
bool agg_rq_wants_look(const struct agg_qp *qp);
void agg_rq_complete(struct agg_lqp *lqp, const struct ib_wc *wc);
u32 agg_rq_dry_ms(struct agg_qp *qp);
int agg_rq_init(void);
void agg_rq_exit(void);

/*
 * Lane choice (select.c)
 */

struct agg_candidate {
	struct agg_lane *lane;
	u32 weight;		/* effective, > 0 */
	u32 flows;		/* lane->home_flows */
	u32 queues;		/* slots of this lane: lane->nr_tx */
	u64 outstanding;	/* bytes posted and not completed (least) */
	bool local_node;	/* on the caller's NUMA node */
};

/**
 * struct agg_policy - how the home lane of a flow is chosen
 * @node: list of the registered ones
 * @name: as in netlink and CLI
 * @id: enum rdma_agg_policy of the uapi
 * @select: pick one of @n candidates (n > 0); called with dev->select_lock
 *	held, must not sleep; returns the index of the candidate
 */
struct agg_policy {
	struct list_head node;
	const char *name;
	u32 id;			/* enum rdma_agg_policy of the uapi */
	unsigned int (*select)(struct agg_dev *dev, const struct agg_flow *flow,
			       const struct agg_candidate *c, unsigned int n,
			       u32 *queue);
};

int agg_select_init(void);
void agg_select_exit(void);
const struct agg_policy *agg_policy_find(u32 id);	/* static objects, never freed */
const struct agg_policy *agg_policy_default(void);
int agg_select_lane(struct agg_dev *dev, const struct agg_flow *flow, unsigned long eligible,
		    int node, struct agg_lane **lane, u32 *queue);
bool agg_select_better(const struct agg_qp *qp, unsigned long eligible);
void agg_select_account(struct agg_dev *dev, struct agg_lane *lane);
void agg_select_release(struct agg_dev *dev, struct agg_lane *lane);

/*
 * Control plane (netlink.c, stats.c)
 */
int agg_netlink_init(void);
void agg_netlink_exit(void);
/* Multicast notices; may be called from any sleepable context, never fail the caller. */
void agg_nl_lane_event(struct agg_lane *lane, enum agg_lane_state from, enum agg_lane_state to);
void agg_nl_dev_event(struct agg_dev *dev, bool added);
void agg_nl_peer_event(struct agg_dev *dev, const union ib_gid *gid, bool up, int err);
void agg_nl_qp_event(struct agg_qp *qp);
struct rdma_hw_stats *agg_alloc_hw_port_stats(struct ib_device *ibdev, u32 port);
int agg_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);

#endif /* AGG_H */
