// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rawuv.h"

/* @cmd is what follows the header; its response pointer is set already. */
int raw_cmd(int fd, uint32_t command, void *cmd, size_t cmd_len, size_t resp_len)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		uint8_t cmd[512];
	} msg;
	size_t len = sizeof(msg.hdr) + cmd_len;

	if (cmd_len > sizeof(msg.cmd))
		return E2BIG;
	msg.hdr.command = command;
	msg.hdr.in_words = len / 4;
	msg.hdr.out_words = resp_len / 4;
	memcpy(msg.cmd, cmd, cmd_len);
	return write(fd, &msg, len) == (ssize_t)len ? 0 : errno;
}

#define CMD(d, command, cmd, resp) \
	({ \
		memset(&(resp), 0, sizeof(resp)); \
		(cmd).response = (uintptr_t)&(resp); \
		raw_cmd((d)->fd, IB_USER_VERBS_CMD_##command, &(cmd), sizeof(cmd), sizeof(resp)); \
	})

static bool sysfs_line(char *buf, size_t len, const char *fmt, const char *a, const char *b)
{
	char path[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), fmt, a, b);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	n = read(fd, buf, len - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = 0;
	buf[strcspn(buf, "\n")] = 0;
	return true;
}

void raw_open(struct rdev *d, const char *name, const char *gid)
{
	struct ib_uverbs_get_context_resp ctx;
	struct ib_uverbs_alloc_pd_resp pd;
	struct ib_uverbs_get_context get = { 0 };
	struct ib_uverbs_alloc_pd alloc = { 0 };
	DIR *dir = opendir("/sys/class/infiniband_verbs");
	struct dirent *ent;
	char text[128], path[300] = "", index[16];
	unsigned int word[8], i;
	int err;

	while (dir && (ent = readdir(dir)))
		if (sysfs_line(text, sizeof(text), "/sys/class/infiniband_verbs/%s/ibdev%s",
			       ent->d_name, "") && !strcmp(text, name))
			snprintf(path, sizeof(path), "/dev/infiniband/%s", ent->d_name);
	if (dir)
		closedir(dir);
	if (!*path)
		die("no device %s", name);
	d->fd = open(path, O_RDWR | O_CLOEXEC);
	if (d->fd < 0)
		die_errno("%s", path);
	err = CMD(d, GET_CONTEXT, get, ctx);
	if (err)
		die("get_context: %s", strerror(err));
	d->async_fd = ctx.async_fd;
	err = CMD(d, ALLOC_PD, alloc, pd);
	if (err)
		die("alloc_pd: %s", strerror(err));
	d->pd = pd.pd_handle;
	d->gid_index = atoi(gid);
	snprintf(index, sizeof(index), "%d", d->gid_index);
	if (!sysfs_line(text, sizeof(text), "/sys/class/infiniband/%s/ports/1/gids/%s", name,
			index) ||
	    sscanf(text, "%x:%x:%x:%x:%x:%x:%x:%x", &word[0], &word[1], &word[2], &word[3],
		   &word[4], &word[5], &word[6], &word[7]) != 8)
		die("%s has no GID %s", name, index);
	for (i = 0; i < 8; i++) {
		d->gid[2 * i] = word[i] >> 8;
		d->gid[2 * i + 1] = word[i];
	}
}

int raw_reg_mr(struct rdev *d, void *addr, uint64_t len, uint32_t access, struct rmr *mr)
{
	struct ib_uverbs_reg_mr cmd = {
		.start = (uintptr_t)addr,
		.length = len,
		.hca_va = (uintptr_t)addr,
		.pd_handle = d->pd,
		.access_flags = access,
	};
	struct ib_uverbs_reg_mr_resp resp;
	int err;

	err = CMD(d, REG_MR, cmd, resp);
	*mr = (struct rmr){ resp.mr_handle, resp.lkey, resp.rkey };
	return err;
}

int raw_dereg_mr(struct rdev *d, struct rmr *mr)
{
	struct ib_uverbs_dereg_mr cmd = { .mr_handle = mr->handle };

	return raw_cmd(d->fd, IB_USER_VERBS_CMD_DEREG_MR, &cmd, sizeof(cmd), 0);
}

int ring_map(struct rdev *d, struct ring *r)
{
	r->q = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, r->offset);
	if (r->q == MAP_FAILED) {
		r->q = NULL;
		return errno;
	}
	r->shift = r->q->log2_elem_size;
	r->mask = r->q->index_mask;
	r->prod = r->q->producer_index & r->mask;
	r->cons = r->q->consumer_index & r->mask;
	return 0;
}

int raw_create_cq(struct rdev *d, uint32_t cqe, struct rcq *cq, bool map)
{
	struct ib_uverbs_create_cq cmd = { .cqe = cqe, .comp_channel = -1 };
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct rxe_create_cq_resp rxe;
	} resp;
	int err;

	memset(cq, 0, sizeof(*cq));
	err = CMD(d, CREATE_CQ, cmd, resp);
	if (err)
		return err;
	cq->handle = resp.core.cq_handle;
	cq->cqe = resp.core.cqe;
	cq->ring.offset = resp.rxe.mi.offset;
	cq->ring.size = resp.rxe.mi.size;
	return map ? ring_map(d, &cq->ring) : 0;
}

int raw_resize_cq(struct rdev *d, struct rcq *cq, uint32_t cqe)
{
	struct ib_uverbs_resize_cq cmd = { .cq_handle = cq->handle, .cqe = cqe };
	struct {
		struct ib_uverbs_resize_cq_resp core;
		struct rxe_resize_cq_resp rxe;
	} resp;
	int err;

	err = CMD(d, RESIZE_CQ, cmd, resp);
	if (err)
		return err;
	munmap(cq->ring.q, cq->ring.size);
	cq->cqe = resp.core.cqe;
	cq->ring.offset = resp.rxe.mi.offset;
	cq->ring.size = resp.rxe.mi.size;
	return ring_map(d, &cq->ring);
}

int raw_destroy_cq(struct rdev *d, struct rcq *cq)
{
	struct ib_uverbs_destroy_cq cmd = { .cq_handle = cq->handle };
	struct ib_uverbs_destroy_cq_resp resp;

	return CMD(d, DESTROY_CQ, cmd, resp);
}

int raw_create_qp(struct rdev *d, struct rqp *qp, bool map)
{
	struct ib_uverbs_create_qp cmd = {
		.pd_handle = d->pd,
		.max_send_wr = 15,
		.max_recv_wr = 15,
		.max_send_sge = 4,
		.max_recv_sge = 4,
		.max_inline_data = 64,
		.qp_type = IBV_QPT_RC,
	};
	struct {
		struct ib_uverbs_create_qp_resp core;
		struct rxe_create_qp_resp rxe;
	} resp;
	int err;

	memset(qp, 0, sizeof(*qp));
	err = raw_create_cq(d, 63, &qp->scq, true);
	if (err)
		return err;
	err = raw_create_cq(d, 63, &qp->rcq, true);
	if (err)
		return err;
	cmd.send_cq_handle = qp->scq.handle;
	cmd.recv_cq_handle = qp->rcq.handle;
	err = CMD(d, CREATE_QP, cmd, resp);
	if (err)
		return err;
	qp->handle = resp.core.qp_handle;
	qp->qpn = resp.core.qpn;
	qp->max_send_sge = resp.core.max_send_sge;
	qp->max_recv_sge = resp.core.max_recv_sge;
	qp->max_inline = resp.core.max_inline_data;
	qp->sq.offset = resp.rxe.sq_mi.offset;
	qp->sq.size = resp.rxe.sq_mi.size;
	qp->rq.offset = resp.rxe.rq_mi.offset;
	qp->rq.size = resp.rxe.rq_mi.size;
	if (!map)
		return 0;
	err = ring_map(d, &qp->sq);
	return err ? err : ring_map(d, &qp->rq);
}

int raw_destroy_qp(struct rdev *d, struct rqp *qp)
{
	struct ib_uverbs_destroy_qp cmd = { .qp_handle = qp->handle };
	struct ib_uverbs_destroy_qp_resp resp;

	return CMD(d, DESTROY_QP, cmd, resp);
}

void raw_free(struct rdev *d, struct rqp *qp)
{
	struct ring *rings[] = { &qp->sq, &qp->rq, &qp->scq.ring, &qp->rcq.ring };
	unsigned int i;

	if (raw_destroy_qp(d, qp) || raw_destroy_cq(d, &qp->scq) || raw_destroy_cq(d, &qp->rcq))
		die("QP 0x%x or its CQs cannot be destroyed", qp->qpn);
	for (i = 0; i < ARRAY_SIZE(rings); i++)
		if (rings[i]->q)
			munmap(rings[i]->q, rings[i]->size);
}

int raw_modify(struct rdev *d, struct rqp *qp, int state, uint32_t dest_qpn, uint32_t rq_psn,
	       uint32_t sq_psn)
{
	struct ib_uverbs_modify_qp cmd = {
		.qp_handle = qp->handle,
		.attr_mask = IBV_QP_STATE,
		.qp_state = state,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.dest_qp_num = dest_qpn,
		.rq_psn = rq_psn,
		.sq_psn = sq_psn,
		.path_mtu = IBV_MTU_1024,
		.max_rd_atomic = 2,
		.max_dest_rd_atomic = 2,
		.min_rnr_timer = 1,
		.timeout = 12,
		.retry_cnt = 3,
		.rnr_retry = 7,
		.dest = {
			.is_global = 1,
			.port_num = 1,
			.hop_limit = 64,
			.sgid_index = d->gid_index,
		},
	};

	memcpy(cmd.dest.dgid, d->gid, 16);
	switch (state) {
	case IBV_QPS_INIT:
		cmd.attr_mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
		break;
	case IBV_QPS_RTR:
		cmd.attr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		break;
	case IBV_QPS_RTS:
		cmd.attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
		break;
	}
	return raw_cmd(d->fd, IB_USER_VERBS_CMD_MODIFY_QP, &cmd, sizeof(cmd), 0);
}

int raw_notify(struct rdev *d, struct rcq *cq, bool solicited)
{
	struct ib_uverbs_req_notify_cq cmd = {
		.cq_handle = cq->handle,
		.solicited_only = solicited,
	};

	return raw_cmd(d->fd, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &cmd, sizeof(cmd), 0);
}

int raw_doorbell(struct rdev *d, struct rqp *qp)
{
	struct ib_uverbs_post_send cmd = {
		.qp_handle = qp->handle,
		.wqe_size = sizeof(struct ib_uverbs_send_wr),
	};
	struct ib_uverbs_post_send_resp resp;

	return CMD(d, POST_SEND, cmd, resp);
}

int raw_connect(struct rdev *d, struct rqp *a, struct rqp *b)
{
	int err;

	err = raw_modify(d, a, IBV_QPS_INIT, 0, 0, 0);
	if (!err)
		err = raw_modify(d, b, IBV_QPS_INIT, 0, 0, 0);
	if (!err)
		err = raw_modify(d, a, IBV_QPS_RTR, b->qpn, 1, 0);
	if (!err)
		err = raw_modify(d, b, IBV_QPS_RTR, a->qpn, 2, 0);
	if (!err)
		err = raw_modify(d, a, IBV_QPS_RTS, 0, 0, 2);
	if (!err)
		err = raw_modify(d, b, IBV_QPS_RTS, 0, 0, 1);
	return err;
}

int raw_pair(struct rdev *d, struct rqp *a, struct rqp *b)
{
	int err;

	err = raw_create_qp(d, a, true);
	if (!err)
		err = raw_create_qp(d, b, true);
	return err ? err : raw_connect(d, a, b);
}

struct rxe_send_wqe *raw_send(struct rqp *qp, uint32_t opcode, void *addr, uint32_t len,
			      uint32_t lkey, void *remote, uint32_t rkey)
{
	struct rxe_send_wqe *wqe = ring_elem(&qp->sq, qp->sq.prod);

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr.wr_id = qp->sq.prod;
	wqe->wr.opcode = opcode;
	wqe->wr.send_flags = IBV_SEND_SIGNALED;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wqe->wr.wr.atomic.remote_addr = (uintptr_t)remote;
		wqe->wr.wr.atomic.rkey = rkey;
	} else {
		wqe->wr.wr.rdma.remote_addr = (uintptr_t)remote;
		wqe->wr.wr.rdma.rkey = rkey;
	}
	wqe->iova = (uintptr_t)remote;
	wqe->dma.length = len;
	wqe->dma.resid = len;
	wqe->dma.num_sge = 1;
	wqe->dma.sge[0].addr = (uintptr_t)addr;
	wqe->dma.sge[0].length = len;
	wqe->dma.sge[0].lkey = lkey;
	return wqe;
}

struct rxe_recv_wqe *raw_recv(struct rqp *qp, void *addr, uint32_t len, uint32_t lkey)
{
	struct rxe_recv_wqe *wqe = ring_elem(&qp->rq, qp->rq.prod);

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = qp->rq.prod;
	wqe->dma.length = len;
	wqe->dma.resid = len;
	wqe->dma.num_sge = 1;
	wqe->dma.sge[0].addr = (uintptr_t)addr;
	wqe->dma.sge[0].length = len;
	wqe->dma.sge[0].lkey = lkey;
	return wqe;
}

bool raw_poll(struct rcq *cq, struct ib_uverbs_wc *wc, unsigned int ms)
{
	uint64_t end = now_us() + ms * 1000ULL;
	struct ring *r = &cq->ring;

	for (;;) {
		uint32_t prod = __atomic_load_n(&r->q->producer_index, __ATOMIC_ACQUIRE);

		if ((prod & r->mask) != r->cons) {
			memcpy(wc, ring_elem(r, r->cons), sizeof(*wc));
			r->cons = (r->cons + 1) & r->mask;
			__atomic_store_n(&r->q->consumer_index, r->cons, __ATOMIC_RELEASE);
			return true;
		}
		if (now_us() > end)
			return false;
		usleep(50);
	}
}
