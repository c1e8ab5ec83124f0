// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Lane QPs: our end of a path.
 *
 * Everything here runs under qp->mutex of the agg QP. A lane QP is destroyed
 * only when it is quiet: posting has stopped, it is in the error state, and the
 * marker posted behind the last request of each queue has come back, so that
 * no completion on the shared lane CQs refers to it any more, and its responder
 * executes nothing more (failover.rst, rule 3).
 *
 * One whose path has failed is kept for a while in that state (rule 18): while
 * its number is taken no late packet of the old path meets another QP.
 */
#include <linux/etherdevice.h>
#include <linux/random.h>
#include <net/ipv6.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "agg.h"
#include "session.h"

#define AGG_LQP_DEPTH		256	/* most requests one QP has on a lane queue */
#define AGG_LQP_DEPTH_MIN	16
#define AGG_LQP_RETRIES		6	/* most, of what gets no answer */
#define AGG_LQP_SPARE		1	/* the drain marker */

/* The longest a lane makes a SEND wait that met no receive: 0.64 ms. */
#define AGG_RNR_TIMER_MAX	12

/* The lane may hold its own locks (see lcq.c): note and leave. */
static void agg_lqp_event(struct ib_event *ev, void *ctx)
{
	struct agg_lqp *lqp = ctx;
	struct agg_qp *qp = lqp->qp;

	/* A retired one may still have something to say. */
	if (READ_ONCE(qp->lqp) != lqp)
		return;
	switch (ev->event) {
	case IB_EVENT_COMM_EST:
		agg_qp_event(qp, IB_EVENT_COMM_EST);
		break;
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		set_bit(ev->event, &qp->events);
		agg_qp_fail(qp);
		break;
	default:
		break;
	}
}

/*
 * Reserve room for @want requests on one of @n lane CQs, beginning with
 * @first; less if there is not that much, but not less than a minimum.
 */
static struct agg_lcq *agg_lqp_reserve(struct agg_lcq *lcqs, u32 n, u32 first, u32 want,
				       u32 *depth)
{
	u32 least = min_t(u32, want, AGG_LQP_DEPTH_MIN);
	u32 d, i;

	for (d = want; d >= least; d /= 2) {
		for (i = 0; i < n; i++) {
			struct agg_lcq *lcq = &lcqs[(first + i) % n];

			if (agg_lcq_reserve(lcq, d + AGG_LQP_SPARE)) {
				*depth = d;
				return lcq;
			}
		}
		if (d == least)
			break;
	}
	return NULL;
}

/* A lane that leaves sets @dead and then walks the list. */
static bool agg_lqp_list(struct agg_lqp *lqp)
{
	struct agg_lane *lane = lqp->lane;
	bool dead;

	spin_lock_irq(&lane->qps_lock);
	dead = lane->dead;
	if (!dead) {
		list_add_tail(&lqp->node, &lane->qps);
		lane->nr_qps++;
	}
	spin_unlock_irq(&lane->qps_lock);
	return !dead;
}

static int agg_lqp_create_ibqp(struct agg_lqp *lqp)
{
	struct agg_qp *qp = lqp->qp;
	struct agg_lane *lane = lqp->lane;
	struct agg_dev *dev = qp->dev;
	struct ib_qp_init_attr init = {
		.event_handler = agg_lqp_event,
		.qp_context = lqp,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
		.port_num = lqp->lane->port,
		.cap = {
			.max_send_wr = lqp->sq_depth + AGG_LQP_SPARE,
			.max_recv_wr = lqp->rq_depth + AGG_LQP_SPARE,
			.max_send_sge = max(qp->sq.max_sge, 1U),
			.max_recv_sge = max(qp->rq.max_sge, 1U),
			.max_inline_data = qp->sq.max_inline,
		},
	};
	struct ib_qp *ibqp;
	int err = -ENETDOWN;

	/* A lane that leaves waits for us before its PDs and CQs go. */
	down_read(&dev->objs_sem);
	if (READ_ONCE(lane->dead) || !test_bit(lane->id, &qp->pd->lanes))
		goto out;
	init.send_cq = lqp->scq->cq;
	init.recv_cq = lqp->rcq->cq;
	ibqp = ib_create_qp(qp->pd->lane_pd[lane->id], &init);
	err = PTR_ERR_OR_ZERO(ibqp);
	if (err)
		goto out;
	lqp->ibqp = ibqp;
	if (!agg_lqp_list(lqp)) {
		ib_destroy_qp(ibqp);
		err = -ENETDOWN;
	}
out:
	up_read(&dev->objs_sem);
	return err;
}

/**
 * agg_lqp_create() - create our end of a path
 * @qp: agg QP without one
 * @lane: its flow is counted on it; the count and a reference go to the lane QP
 * @queue: send queue of the lane
 *
 * Context: may sleep; qp->mutex is held. Return: the lane QP in state RESET, or
 * an ERR_PTR: then the flow and the reference are still the caller's.
 */
struct agg_lqp *agg_lqp_create(struct agg_qp *qp, struct agg_lane *lane, u32 queue)
{
	struct agg_lqp *lqp;
	int err;

	lockdep_assert_held(&qp->mutex);

	lqp = kzalloc(sizeof(*lqp), GFP_KERNEL);
	if (!lqp)
		return ERR_PTR(-ENOMEM);
	lqp->qp = qp;
	lqp->lane = lane;
	lqp->psn = get_random_u32() & 0xffffff;
	lqp->peer_lane = AGG_LANE_NONE;
	lqp->state = IB_QPS_RESET;
	init_completion(&lqp->sq_idle);
	init_completion(&lqp->rq_idle);

	lqp->scq = agg_lqp_reserve(lane->tx, lane->nr_tx, queue,
				   clamp_t(u32, qp->cap.max_send_wr, 1, AGG_LQP_DEPTH),
				   &lqp->sq_depth);
	if (!lqp->scq) {
		err = -ENOBUFS;
		goto err_free;
	}
	lqp->rcq = agg_lqp_reserve(lane->rx, lane->nr_rx, qp->flow_hash % lane->nr_rx,
				   clamp_t(u32, qp->cap.max_recv_wr, 1, AGG_LQP_DEPTH),
				   &lqp->rq_depth);
	if (!lqp->rcq) {
		err = -ENOBUFS;
		goto err_scq;
	}

	err = agg_lqp_create_ibqp(lqp);
	if (err)
		goto err_rcq;
	return lqp;

err_rcq:
	agg_lcq_unreserve(lqp->rcq, lqp->rq_depth + AGG_LQP_SPARE);
err_scq:
	agg_lcq_unreserve(lqp->scq, lqp->sq_depth + AGG_LQP_SPARE);
err_free:
	kfree(lqp);
	if (err == -ENOBUFS)
		pr_warn_ratelimited("rdma_agg: %s: lane %s/%u: completion queues are full of QPs\n",
				    dev_name(&qp->dev->ibdev.dev), lane->ibdev_name, lane->port);
	return ERR_PTR(err);
}

static void agg_lqp_set_state(struct agg_lqp *lqp, enum ib_qp_state state)
{
	struct agg_qp *qp = lqp->qp;

	agg_qp_lock_queues(qp);
	lqp->state = state;
	agg_qp_unlock_queues(qp);
}

static u8 agg_lqp_rnr_timer(const struct agg_qp *qp)
{
	u8 timer = qp->attr.min_rnr_timer;

	/* 0 stands for the longest time. */
	return timer ? min_t(u8, timer, AGG_RNR_TIMER_MAX) : AGG_RNR_TIMER_MAX;
}

static int agg_lqp_to_init(struct agg_lqp *lqp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.pkey_index = 0,
		.port_num = lqp->lane->port,
		.qp_access_flags = lqp->qp->attr.qp_access_flags,
	};

	return ib_modify_qp(lqp->ibqp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			    IB_QP_ACCESS_FLAGS);
}

struct agg_resolve {
	struct completion done;
	int status;
};

static void agg_lqp_resolved(int status, struct sockaddr *src, struct rdma_dev_addr *addr,
			     void *ctx)
{
	struct agg_resolve *r = ctx;

	r->status = status;
	complete(&r->done);
}

/*
 * Find the MAC address and hop limit for the peer's lane. The core does this
 * for user QPs only. Kept warm by the kernel's neighbour table.
 */
static int agg_resolve_mac(const struct ib_gid_attr *sgid_attr, const union ib_gid *peer_gid,
			   u8 *dmac, int *hops)
{
	struct rdma_dev_addr addr = {
		.net = &init_net,	/* overridden by the net of @sgid_attr's netdev */
		.sgid_attr = sgid_attr,
	};
	struct agg_resolve r = { .status = -EINVAL };
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} src, dst;
	int err;

	*hops = 0;
	if (agg_gid_class(peer_gid->raw) == 2) {
		/* A link-local address of the default kind contains it. */
		rdma_get_ll_mac((struct in6_addr *)peer_gid->raw, dmac);
		return 0;
	}

	rdma_gid2ip(&src.sa, &sgid_attr->gid);
	rdma_gid2ip(&dst.sa, peer_gid);
	init_completion(&r.done);
	err = rdma_resolve_ip(&src.sa, &dst.sa, &addr, 1000, agg_lqp_resolved, true, &r);
	if (err)
		return err;
	wait_for_completion(&r.done);
	if (r.status)
		return r.status;
	ether_addr_copy(dmac, addr.dst_dev_addr);
	*hops = addr.hoplimit;
	return 0;
}

/**
 * agg_lane_av() - the way from a lane to a lane of a peer
 * @lane: our lane
 * @gid: its address
 * @peer_gid: that of the peer's lane
 * @av: filled; service level, flow label and traffic class are 0, and the hop limit
 *	is at least 1
 *
 * Context: sleeps for up to a second while the peer's MAC address is looked for.
 * Return: 0 or -errno.
 */
int agg_lane_av(struct agg_lane *lane, const union ib_gid *gid, const union ib_gid *peer_gid,
		struct rdma_ah_attr *av)
{
	const struct ib_gid_attr *sgid_attr;
	int hops, err;

	sgid_attr = rdma_find_gid_by_port(lane->ibdev, gid, IB_GID_TYPE_ROCE_UDP_ENCAP, lane->port,
					  NULL);
	if (IS_ERR(sgid_attr))
		return PTR_ERR(sgid_attr);

	memset(av, 0, sizeof(*av));
	av->type = RDMA_AH_ATTR_TYPE_ROCE;
	err = agg_resolve_mac(sgid_attr, peer_gid, av->roce.dmac, &hops);
	rdma_ah_set_port_num(av, lane->port);
	rdma_ah_set_grh(av, (union ib_gid *)peer_gid, 0, sgid_attr->index, max(hops, 1), 0);
	rdma_put_gid_attr(sgid_attr);
	return err;
}

/* The address handle of the path. */
static int agg_lqp_av(struct agg_lqp *lqp, struct rdma_ah_attr *av)
{
	struct agg_qp *qp = lqp->qp;
	const struct ib_global_route *app = rdma_ah_read_grh(&qp->attr.ah_attr);
	struct ib_global_route *grh;
	int err;

	err = agg_lane_av(lqp->lane, &lqp->gid, &lqp->peer_gid, av);
	if (err)
		return err;
	rdma_ah_set_sl(av, rdma_ah_get_sl(&qp->attr.ah_attr));
	grh = rdma_ah_retrieve_grh(av);
	grh->flow_label = app->flow_label ?: qp->flow_hash & 0xfffff;
	grh->traffic_class = app->traffic_class;
	return 0;
}

/**
 * agg_lqp_rtr() - make the lane QP ready to receive
 * @lqp: state RESET; the peer's end is known
 *
 * Receives are forwarded by the caller, once it is sure of the lane; what arrives
 * before that is retried by the peer's lane.
 *
 * Context: sleeps, also for address resolution; qp->mutex is held.
 * Return: 0 or -errno of the lane.
 */
int agg_lqp_rtr(struct agg_lqp *lqp)
{
	struct agg_qp *qp = lqp->qp;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = min3(qp->attr.path_mtu, lqp->mtu, READ_ONCE(lqp->lane->mtu)),
		.dest_qp_num = lqp->peer_qpn,
		.rq_psn = lqp->peer_psn,
		.max_dest_rd_atomic = qp->attr.max_dest_rd_atomic,
		.min_rnr_timer = agg_lqp_rnr_timer(qp),
	};
	int err;

	lockdep_assert_held(&qp->mutex);

	err = agg_lqp_av(lqp, &attr.ah_attr);
	if (err)
		return err;
	err = agg_lqp_to_init(lqp);
	if (err)
		return err;
	lqp->mtu_bytes = ib_mtu_enum_to_int(attr.path_mtu);
	agg_lqp_set_state(lqp, IB_QPS_INIT);
	err = ib_modify_qp(lqp->ibqp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
			   IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC |
			   IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	lqp->was_rtr = true;
	WRITE_ONCE(lqp->path, agg_probe_use(lqp->lane, &lqp->gid, &lqp->peer_gid, lqp->probe_qpn,
					    lqp->probe_qkey));
	agg_lqp_set_state(lqp, IB_QPS_RTR);
	/* It died before it was ours to leave: pairs with agg_probe_fail_qps(). */
	smp_mb();
	if (agg_probe_is_dead(lqp->path))
		agg_qp_path_failed(lqp, AGG_CAUSE_PROBE);
	return 0;
}

/**
 * agg_lqp_rts() - make the lane QP ready to send
 * @lqp: state RTR
 * @mask: of the application; what it may also change in this step
 *
 * The lane retries for ever what meets no receive: forwarding receives takes
 * us a moment, which is not the application's fault. A finite rnr_retry is
 * kept by agg_qp_rnr_work().
 *
 * retry_cnt 7 is seven retries (IBA 9.9.2.4.2), but for ever on soft-RoCE, where
 * a path that loses everything would keep its QPs.
 *
 * Context: may sleep; qp->mutex is held. Return: 0 or -errno of the lane.
 */
int agg_lqp_rts(struct agg_lqp *lqp, int mask)
{
	struct agg_qp *qp = lqp->qp;
	const struct agg_params *p = &qp->dev->params;
	u8 timeout = qp->attr.timeout;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.retry_cnt = min_t(u8, qp->attr.retry_cnt, AGG_LQP_RETRIES),
		.rnr_retry = 7,
		.sq_psn = lqp->psn,
		.max_rd_atomic = qp->attr.max_rd_atomic,
		.qp_access_flags = qp->attr.qp_access_flags,
		.min_rnr_timer = agg_lqp_rnr_timer(qp),
	};
	int err;

	lockdep_assert_held(&qp->mutex);

	/* 0 is "never"; the bounds of the device hold for it too. */
	if (!timeout)
		timeout = 31;
	attr.timeout = clamp_t(u8, timeout, READ_ONCE(p->ack_timeout_min),
			       READ_ONCE(p->ack_timeout_max));

	err = ib_modify_qp(lqp->ibqp, &attr, IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
			   IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC |
			   (mask & (IB_QP_ACCESS_FLAGS | IB_QP_MIN_RNR_TIMER)));
	if (err)
		return err;
	agg_lqp_set_state(lqp, IB_QPS_RTS);
	return 0;
}

/**
 * agg_lqp_update() - pass on attributes that may change while connected
 * @lqp: state RTR or RTS
 * @mask: IB_QP_ACCESS_FLAGS, IB_QP_MIN_RNR_TIMER; others are ignored
 *
 * Context: may sleep; qp->mutex is held. Return: 0 or -errno of the lane.
 */
int agg_lqp_update(struct agg_lqp *lqp, int mask)
{
	struct agg_qp *qp = lqp->qp;
	struct ib_qp_attr attr = {
		.qp_state = lqp->state,
		.qp_access_flags = qp->attr.qp_access_flags,
		.min_rnr_timer = agg_lqp_rnr_timer(qp),
	};

	lockdep_assert_held(&qp->mutex);

	mask &= IB_QP_ACCESS_FLAGS | IB_QP_MIN_RNR_TIMER;
	if (!mask || lqp->state != IB_QPS_RTS)
		return 0;
	return ib_modify_qp(lqp->ibqp, &attr, mask | IB_QP_STATE);
}

/*
 * Post the marker of one queue; what comes back behind it has passed every
 * request before it. Returns false if the lane does not take it.
 */
static bool agg_lqp_mark_sq(struct agg_lqp *lqp)
{
	struct ib_rdma_wr wr = {
		.wr.wr_id = AGG_WR_MARK,
		.wr.opcode = IB_WR_RDMA_WRITE,
		.wr.send_flags = IB_SEND_SIGNALED,
		.rkey = lqp->lane->poison->rkey,
	};
	const struct ib_send_wr *bad;

	return !ib_post_send(lqp->ibqp, &wr.wr, &bad);
}

static bool agg_lqp_mark_rq(struct agg_lqp *lqp)
{
	struct ib_recv_wr wr = { .wr_id = AGG_WR_MARK };
	const struct ib_recv_wr *bad;

	return !ib_post_recv(lqp->ibqp, &wr, &bad);
}

/**
 * agg_lqp_error() - stop a lane QP and have everything on it flushed
 * @lqp: any state
 *
 * Returns at once; @sq_idle and @rq_idle complete when the last request has
 * come back.
 *
 * Context: may sleep; qp->mutex is held.
 */
void agg_lqp_error(struct agg_lqp *lqp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct agg_qp *qp = lqp->qp;
	int err;

	lockdep_assert_held(&qp->mutex);

	if (lqp->stopped)
		return;

	agg_qp_lock_queues(qp);
	lqp->stopped = true;
	agg_qp_unlock_queues(qp);

	/*
	 * Nothing was ever posted. A lane QP that could not go to RTR may not be
	 * able to flush, either: soft-RoCE leaves it without its responder when
	 * memory is short.
	 */
	if (lqp->state < IB_QPS_RTR) {
		complete_all(&lqp->sq_idle);
		complete_all(&lqp->rq_idle);
		return;
	}

	err = ib_modify_qp(lqp->ibqp, &attr, IB_QP_STATE);
	if (err)
		pr_err_ratelimited("rdma_agg: %s: lane %s/%u: QP %#x does not go to ERR (%d)\n",
				   dev_name(&qp->dev->ibdev.dev), lqp->lane->ibdev_name,
				   lqp->lane->port, lqp->ibqp->qp_num, err);
	agg_lqp_set_state(lqp, IB_QPS_ERR);
	/*
	 * Room for the markers is reserved. Should the lane say otherwise, the
	 * flush makes it; to pretend that they came back would free what the
	 * lane still uses.
	 */
	while (!agg_lqp_mark_sq(lqp))
		usleep_range(100, 500);
	while (!agg_lqp_mark_rq(lqp))
		usleep_range(100, 500);
}

static void agg_lqp_wait(struct agg_lqp *lqp, struct completion *c, const char *which)
{
	/* A lane that never flushes is broken; freeing under it would be worse. */
	while (!wait_for_completion_timeout(c, 30 * HZ))
		pr_err("rdma_agg: %s: lane %s/%u: %s queue of QP %#x is still not flushed\n",
		       dev_name(&lqp->qp->dev->ibdev.dev), lqp->lane->ibdev_name, lqp->lane->port,
		       which, lqp->ibqp->qp_num);
}

/**
 * agg_lqp_quiesce() - stop a lane QP and wait until it is quiet
 * @lqp: qp->lqp
 * @psn: packets it has executed as responder, modulo 2^24; or NULL
 *
 * Rule 3: posting has stopped and ERR is set; then both markers, posted after
 * that, have come back, so the responder is idle and every completion was
 * processed; only then is the expected PSN read.
 *
 * Context: sleeps until the lane has flushed; qp->mutex is held.
 * Return: 0, or -errno: the lane does not tell its PSN.
 */
int agg_lqp_quiesce(struct agg_lqp *lqp, u32 *psn)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int err;

	lockdep_assert_held(&lqp->qp->mutex);

	agg_lqp_error(lqp);
	agg_lqp_wait(lqp, &lqp->sq_idle, "send");
	agg_lqp_wait(lqp, &lqp->rq_idle, "receive");
	if (!psn)
		return 0;
	*psn = 0;
	if (!lqp->was_rtr)
		return 0;

	err = ib_query_qp(lqp->ibqp, &attr, IB_QP_RQ_PSN, &init);
	if (err)
		return err;
	*psn = (attr.rq_psn - lqp->peer_psn) & AGG_PSN_MASK;
	return 0;
}

/* It is no longer the home path, and no longer counts as a flow of the lane. */
static void agg_lqp_unhome(struct agg_lqp *lqp)
{
	struct agg_qp *qp = lqp->qp;

	agg_qp_lock_queues(qp);
	if (qp->lqp == lqp)
		qp->lqp = NULL;
	agg_qp_unlock_queues(qp);

	agg_probe_unuse(lqp->path);
	WRITE_ONCE(lqp->path, NULL);
	if (!lqp->retired)
		agg_select_release(qp->dev, lqp->lane);
}

/**
 * agg_lqp_retire() - keep a quiet lane QP until old packets are gone
 * @lqp: qp->lqp; quiet
 *
 * Context: may sleep; qp->mutex is held.
 */
void agg_lqp_retire(struct agg_lqp *lqp)
{
	lockdep_assert_held(&lqp->qp->mutex);

	agg_lqp_unhome(lqp);
	/* 0 stands for "never". */
	lqp->retired = jiffies | 1;
	list_add_tail(&lqp->old_node, &lqp->qp->fo.old);
}

/**
 * agg_lqp_release() - destroy a lane QP that is quiet
 * @lqp: qp->lqp, a retired one, or one that never became the home path
 *
 * Context: may sleep; qp->mutex is held.
 */
void agg_lqp_release(struct agg_lqp *lqp)
{
	struct agg_lane *lane = lqp->lane;

	lockdep_assert_held(&lqp->qp->mutex);

	agg_lqp_unhome(lqp);
	if (lqp->retired)
		list_del(&lqp->old_node);

	ib_destroy_qp(lqp->ibqp);

	spin_lock_irq(&lane->qps_lock);
	list_del(&lqp->node);
	lane->nr_qps--;
	spin_unlock_irq(&lane->qps_lock);

	agg_lcq_unreserve(lqp->rcq, lqp->rq_depth + AGG_LQP_SPARE);
	agg_lcq_unreserve(lqp->scq, lqp->sq_depth + AGG_LQP_SPARE);
	agg_lane_put(lane);
	kfree(lqp);
}

/**
 * agg_lqp_destroy() - stop, drain and destroy a lane QP
 * @lqp: qp->lqp, or one that never became it
 *
 * Context: sleeps until the lane has flushed; qp->mutex is held.
 */
void agg_lqp_destroy(struct agg_lqp *lqp)
{
	agg_lqp_quiesce(lqp, NULL);
	agg_lqp_release(lqp);
}

/**
 * agg_lane_fail_paths() - the lane carries nothing any more
 * @lane: the lane
 * @cause: why
 *
 * Context: process. The paths are given up soon.
 */
void agg_lane_fail_paths(struct agg_lane *lane, enum agg_cause cause)
{
	struct agg_lqp *lqp;

	spin_lock_irq(&lane->qps_lock);
	list_for_each_entry(lqp, &lane->qps, node)
		agg_qp_path_failed(lqp, cause);
	spin_unlock_irq(&lane->qps_lock);
}

/**
 * agg_lane_drop_qps() - take everything off a lane that leaves
 * @lane: dead, so no lane QP is added
 *
 * The QPs go on by another lane, or wait for one.
 *
 * Context: sleeps until the lane has flushed; no QP's mutex is held. On return
 * no lane QP exists.
 */
void agg_lane_drop_qps(struct agg_lane *lane)
{
	struct agg_lqp *lqp;
	struct agg_qp *qp;

	for (;;) {
		spin_lock_irq(&lane->qps_lock);
		lqp = list_first_entry_or_null(&lane->qps, struct agg_lqp, node);
		qp = lqp ? lqp->qp : NULL;
		/*
		 * A QP drops its own reference only after its lane QPs have left
		 * this list, so the count is not zero.
		 */
		if (qp)
			refcount_inc(&qp->ref);
		spin_unlock_irq(&lane->qps_lock);
		if (!qp)
			return;

		mutex_lock(&qp->mutex);
		agg_fo_lose_lane(qp, lane);
		mutex_unlock(&qp->mutex);
		agg_qp_put(qp);
	}
}
