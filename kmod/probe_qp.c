// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The UD QP of a lane, by which probes go: see probe.c for what they are.
 *
 * A UD QP fails with its port, or when a packet cannot be sent: soft-RoCE's does when its
 * netdev says so. The tick then moves it through ERR and RESET to RTS, once the lane has
 * given everything back.
 */
#include <linux/random.h>

#include "probe_qp.h"

#define AGG_PROBE_MAGIC		0x61676770	/* "aggp" */
#define AGG_PROBE_VERSION	1
#define AGG_PROBE_GRH		40	/* a UD receive begins with it */

struct agg_probe_buf {
	struct ib_cqe cqe;
	u64 dma;
	u8 data[AGG_PROBE_GRH + sizeof(struct agg_probe_msg)];
};

/* The lane has given a buffer back. */
static void agg_probe_back(struct agg_lane *lane, struct agg_probe_buf *buf,
			   enum ib_wc_status status)
{
	struct agg_probe *p = &lane->probe;

	spin_lock_irq(&p->lock);
	__clear_bit(buf - p->bufs, p->busy);
	p->broken = p->broken || status != IB_WC_SUCCESS;
	if (p->broken && !p->stopping)
		mod_delayed_work(agg_wq, &p->tick, 0);
	spin_unlock_irq(&p->lock);
}

/* RESET or later to RTS. */
static int agg_probe_qp_rts(struct agg_lane *lane, struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = lane->port,
		.qkey = lane->probe.qkey,
	};
	int err;

	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_QKEY);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTR;
	err = ib_modify_qp(qp, &attr, IB_QP_STATE);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
}

static void agg_probe_post_recv(struct agg_lane *lane, struct agg_probe_buf *buf)
{
	struct agg_probe *p = &lane->probe;
	struct ib_sge sge = {
		.addr = buf->dma,
		.length = sizeof(buf->data),
		.lkey = lane->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_cqe = &buf->cqe, .sg_list = &sge, .num_sge = 1 };
	const struct ib_recv_wr *bad;

	lockdep_assert_held(&p->lock);

	ib_dma_sync_single_for_device(lane->ibdev, buf->dma, sizeof(buf->data), DMA_FROM_DEVICE);
	__set_bit(buf - p->bufs, p->busy);
	if (!ib_post_recv(p->qp, &wr, &bad))
		return;
	__clear_bit(buf - p->bufs, p->busy);
	p->broken = true;
	queue_delayed_work(agg_wq, &p->tick, HZ);
	pr_warn_ratelimited("rdma_agg: %s: lane %s/%u: no receive for probes\n",
			    dev_name(&lane->dev->ibdev.dev), lane->ibdev_name, lane->port);
}

/**
 * agg_probe_post_recvs() - the QP is ready: give it its receives
 * @lane: the lane
 *
 * Context: any; probe->lock is held.
 */
void agg_probe_post_recvs(struct agg_lane *lane)
{
	unsigned int i;

	for (i = AGG_PROBE_DEPTH; i < 2 * AGG_PROBE_DEPTH; i++)
		agg_probe_post_recv(lane, &lane->probe.bufs[i]);
}

/**
 * agg_probe_mend() - take the QP out of an error
 * @lane: the lane
 *
 * Context: the tick of the lane. Return: jiffies until it is to be called again,
 * 0 = all is well.
 */
unsigned long agg_probe_mend(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	bool back;
	int err;

	if (!READ_ONCE(p->broken))
		return 0;
	/* Also when it is there already: an error of a send leaves the receives alone. */
	if (ib_modify_qp(p->qp, &attr, IB_QP_STATE))
		return HZ;
	spin_lock_irq(&p->lock);
	back = bitmap_empty(p->busy, 2 * AGG_PROBE_DEPTH);
	spin_unlock_irq(&p->lock);
	if (!back)
		return HZ;
	attr.qp_state = IB_QPS_RESET;
	err = ib_modify_qp(p->qp, &attr, IB_QP_STATE);
	if (!err)
		err = agg_probe_qp_rts(lane, p->qp);
	if (err)
		return HZ;
	spin_lock_irq(&p->lock);
	p->broken = false;
	if (!p->stopping)
		agg_probe_post_recvs(lane);
	spin_unlock_irq(&p->lock);
	return 0;
}

/*
 * Sending and receiving
 */

static void agg_probe_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct agg_probe_buf *buf = container_of(wc->wr_cqe, struct agg_probe_buf, cqe);
	struct agg_lane *lane = cq->cq_context;

	agg_probe_back(lane, buf, wc->status);
}

/**
 * agg_probe_send() - send a probe, or an answer
 * @path: where to; without an address handle nothing is sent
 * @type: AGG_PROBE_ASK or AGG_PROBE_ANSWER
 * @instance: of the device that asks
 * @seq: number of the probe
 *
 * What is not sent is lost: nobody waits for it.
 *
 * Context: any; probe->lock is held.
 */
void agg_probe_send(struct agg_probe_path *path, u8 type, __be64 instance, __be64 seq)
{
	struct agg_lane *lane = path->lane;
	struct agg_probe *p = &lane->probe;
	struct ib_sge sge = { .lkey = lane->pd->local_dma_lkey };
	struct agg_probe_msg *msg;
	struct agg_probe_buf *buf;
	struct ib_ud_wr wr = {
		.wr.opcode = IB_WR_SEND,
		.wr.send_flags = IB_SEND_SIGNALED,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.ah = path->ah,
		.remote_qpn = path->qpn,
		.remote_qkey = path->qkey,
	};
	const struct ib_send_wr *bad;
	unsigned int i;

	lockdep_assert_held(&p->lock);

	i = find_first_zero_bit(p->busy, AGG_PROBE_DEPTH);
	if (i == AGG_PROBE_DEPTH || !path->ah || p->broken)
		return;
	buf = &p->bufs[i];
	msg = (struct agg_probe_msg *)buf->data;
	ib_dma_sync_single_for_cpu(lane->ibdev, buf->dma, sizeof(*msg), DMA_TO_DEVICE);
	*msg = (struct agg_probe_msg) {
		.magic = cpu_to_be32(AGG_PROBE_MAGIC),
		.version = AGG_PROBE_VERSION,
		.type = type,
		.flags = type == AGG_PROBE_ASK && path->deaf ? AGG_PROBE_F_DEAF : 0,
		.instance = instance,
		.seq = seq,
		.qpn = cpu_to_be32(p->qp->qp_num),
		.qkey = cpu_to_be32(p->qkey),
	};
	memcpy(msg->from, path->gid.raw, sizeof(msg->from));
	memcpy(msg->to, path->peer_gid.raw, sizeof(msg->to));
	ib_dma_sync_single_for_device(lane->ibdev, buf->dma, sizeof(*msg), DMA_TO_DEVICE);
	sge.addr = buf->dma;
	sge.length = sizeof(*msg);
	wr.wr.wr_cqe = &buf->cqe;
	__set_bit(i, p->busy);
	if (ib_post_send(p->qp, &wr.wr, &bad))
		__clear_bit(i, p->busy);
}

static void agg_probe_received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct agg_probe_buf *buf = container_of(wc->wr_cqe, struct agg_probe_buf, cqe);
	const struct agg_probe_msg *msg = (const void *)(buf->data + AGG_PROBE_GRH);
	struct agg_lane *lane = cq->cq_context;
	struct agg_probe *p = &lane->probe;

	if (wc->status != IB_WC_SUCCESS) {
		agg_probe_back(lane, buf, wc->status);
		return;
	}
	ib_dma_sync_single_for_cpu(lane->ibdev, buf->dma, sizeof(buf->data), DMA_FROM_DEVICE);
	if (wc->byte_len >= sizeof(buf->data) && be32_to_cpu(msg->magic) == AGG_PROBE_MAGIC &&
	    msg->version == AGG_PROBE_VERSION) {
		if (msg->type == AGG_PROBE_ASK)
			agg_probe_asked(lane, msg);
		else if (msg->type == AGG_PROBE_ANSWER)
			agg_probe_answered(lane, msg);
	}
	agg_probe_back(lane, buf, wc->status);
	spin_lock_irq(&p->lock);
	if (!p->stopping && !p->broken)
		agg_probe_post_recv(lane, buf);
	spin_unlock_irq(&p->lock);
}

/*
 * Lifetime
 */

static int agg_probe_create_qp(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_UD,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = {
			.max_send_wr = AGG_PROBE_DEPTH,
			.max_recv_wr = AGG_PROBE_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ib_cq *cq;
	struct ib_qp *qp;
	int err;

	cq = ib_alloc_cq(lane->ibdev, lane, 2 * AGG_PROBE_DEPTH, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = ib_create_qp(lane->pd, &init);
	err = PTR_ERR_OR_ZERO(qp);
	if (err)
		goto err_cq;

	/* With the highest bit a sender's own Q_Key is used in its place. */
	p->qkey = get_random_u32() & S32_MAX;
	err = agg_probe_qp_rts(lane, qp);
	if (err)
		goto err_qp;
	p->cq = cq;
	p->qp = qp;
	p->qpn = qp->qp_num;
	return 0;

err_qp:
	ib_destroy_qp(qp);
err_cq:
	ib_free_cq(cq);
	return err;
}

static void agg_probe_unmap(struct agg_lane *lane, unsigned int nr)
{
	struct agg_probe *p = &lane->probe;

	while (nr--)
		ib_dma_unmap_single(lane->ibdev, p->bufs[nr].dma, sizeof(p->bufs[nr].data),
				    nr < AGG_PROBE_DEPTH ? DMA_TO_DEVICE : DMA_FROM_DEVICE);
	kfree(p->bufs);
	p->bufs = NULL;
}

static int agg_probe_map(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;
	struct agg_probe_buf *buf;
	unsigned int i;

	p->bufs = kcalloc(2 * AGG_PROBE_DEPTH, sizeof(*p->bufs), GFP_KERNEL);
	if (!p->bufs)
		return -ENOMEM;
	for (i = 0; i < 2 * AGG_PROBE_DEPTH; i++) {
		buf = &p->bufs[i];
		buf->cqe.done = i < AGG_PROBE_DEPTH ? agg_probe_sent : agg_probe_received;
		buf->dma = ib_dma_map_single(lane->ibdev, buf->data, sizeof(buf->data),
					     i < AGG_PROBE_DEPTH ? DMA_TO_DEVICE : DMA_FROM_DEVICE);
		if (ib_dma_mapping_error(lane->ibdev, buf->dma)) {
			agg_probe_unmap(lane, i);
			return -ENOMEM;
		}
	}
	return 0;
}

/**
 * agg_probe_open_qp() - a lane joins
 * @lane: the lane, with its PD
 *
 * Context: may sleep. Return: 0 with probe->qp, or -errno; -EOPNOTSUPP: the lane has
 * no UD QPs.
 */
int agg_probe_open_qp(struct agg_lane *lane)
{
	int err;

	err = agg_probe_map(lane);
	if (err)
		return err;
	err = agg_probe_create_qp(lane);
	if (err)
		agg_probe_unmap(lane, 2 * AGG_PROBE_DEPTH);
	return err;
}

/**
 * agg_probe_close_qp() - a lane leaves
 * @lane: the lane, with probe->qp; nothing is posted any more
 *
 * Context: sleeps until the CQ's work item has ended.
 */
void agg_probe_close_qp(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;

	/*
	 * No ib_drain_qp(), whose markers are not for UD. The lane lets go of the
	 * buffers with the QP, and the CQ's work item has ended with the CQ.
	 */
	ib_destroy_qp(p->qp);
	ib_free_cq(p->cq);
	agg_probe_unmap(lane, 2 * AGG_PROBE_DEPTH);
}
