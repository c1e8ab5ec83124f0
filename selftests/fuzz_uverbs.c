// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An unprivileged process that gives the device's file commands of all three
 * kinds (write, extended write, ioctl), good ones and such as are wrong in some
 * word, length or attribute, on handles that are there, are stale, or are
 * another object's. Two threads share a file, so that an object may go while
 * it is used; the process works in rounds of a process each, which may be
 * killed.
 *
 * It fails when a process hangs, and when a command of those that make and use
 * the usual objects never succeeded: then the others tried nothing.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"
#include "rawuv.h"

#define THREADS		2
#define POOL		16
#define MAX_ATTRS	20
#define EXTENDED	64	/* added to a command in the counters */
#define MEM_LEN		65536
#define DRIVER_NS	0x1000	/* UVERBS_ID_DRIVER_NS, which the headers may lack */

enum kind { PD, CQ, QP, MR, CHANNEL, AH, SRQ, MW, OTHER, KINDS };

static struct fuzz_opts opts;

static struct stats {
	uint64_t rounds, killed, died, maps;
	uint64_t write_ok[128], write_bad[128];
	uint64_t ioctl_ok[32], ioctl_bad[32];
} *stats;

static struct {
	int fd;
	uint8_t gid[16];
	uint32_t pool[KINDS][POOL];
	uint32_t next[KINDS];
	uint32_t qpn[POOL];
	struct mminfo ring[POOL];
	uint32_t next_ring;
	uint8_t *mem, *gone;
	bool stop;
} g;

static __thread uint8_t *answer;	/* where the kernel may write */

/* ----------------------------------------------------------------- values */

static uint32_t handle(uint64_t *rng, enum kind kind)
{
	uint32_t r = rnd(rng, 40);

	if (r == 0)
		return fuzz_word(rng);
	if (r < 3)
		kind = rnd(rng, KINDS);
	/* Mostly one of the last few, for those before may be gone. */
	r = g.next[kind];
	return g.pool[kind][(r - 1 - rnd(rng, rnd(rng, 4) ? 3 : POOL)) % POOL];
}

static void keep(enum kind kind, uint32_t h)
{
	g.pool[kind][__atomic_fetch_add(&g.next[kind], 1, __ATOMIC_RELAXED) % POOL] = h;
}

static uint64_t address(uint64_t *rng)
{
	switch (rnd(rng, 12)) {
	case 0:
		return rnd64(rng);
	case 1:
		return (uintptr_t)g.gone;
	case 2:
		return 0xffffffff80000000ULL + fuzz_word(rng);
	default:
		return (uintptr_t)g.mem + rnd(rng, MEM_LEN);
	}
}

/* ----------------------------------------------------------------- bodies */

struct body {
	uint32_t command;
	bool extended;
	enum kind makes;	/* OTHER: nothing */
	size_t len, resp;	/* bytes; @resp without what the driver adds */
	size_t driver;		/* what it adds */
	union {
		uint8_t b[256];
		uint32_t w[64];
		struct ib_uverbs_reg_mr reg_mr;
		struct ib_uverbs_rereg_mr rereg_mr;
		struct ib_uverbs_create_cq create_cq;
		struct ib_uverbs_ex_create_cq ex_create_cq;
		struct ib_uverbs_resize_cq resize_cq;
		struct ib_uverbs_req_notify_cq notify;
		struct ib_uverbs_poll_cq poll_cq;
		struct ib_uverbs_create_qp create_qp;
		struct ib_uverbs_ex_create_qp ex_create_qp;
		struct ib_uverbs_modify_qp modify_qp;
		struct ib_uverbs_query_qp query_qp;
		struct ib_uverbs_post_send post_send;
		struct ib_uverbs_create_ah ah;
		struct ib_uverbs_query_port port;
	};
};

/* With a response at the start, then a handle: what most commands look like. */
static void simple(struct body *b, uint32_t handle, size_t len)
{
	b->w[2] = handle;
	b->len = len;
}

static void fill_qp_caps(uint64_t *rng, uint32_t *cap)
{
	cap[0] = rnd(rng, 20) ? rnd(rng, 70) : fuzz_word(rng);
	cap[1] = rnd(rng, 20) ? rnd(rng, 70) : fuzz_word(rng);
	cap[2] = rnd(rng, 20) ? rnd(rng, 9) : fuzz_word(rng);
	cap[3] = rnd(rng, 20) ? rnd(rng, 9) : fuzz_word(rng);
	cap[4] = rnd(rng, 20) ? rnd(rng, 100) : fuzz_word(rng);
}

static void fill_modify(uint64_t *rng, struct ib_uverbs_modify_qp *m)
{
	static const uint32_t masks[] = {
		IBV_QP_STATE,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	};
	uint32_t state = rnd(rng, 7);

	*m = (struct ib_uverbs_modify_qp){
		.qp_handle = handle(rng, QP),
		.attr_mask = masks[state >= 1 && state <= 3 ? state : 0],
		.qp_state = state,
		.port_num = 1,
		.qp_access_flags = rnd(rng, 16),
		.dest_qp_num = g.qpn[rnd(rng, POOL)],
		.rq_psn = rnd(rng, 4),
		.sq_psn = rnd(rng, 4),
		.path_mtu = 1 + rnd(rng, 5),
		.max_rd_atomic = rnd(rng, 5),
		.max_dest_rd_atomic = rnd(rng, 5),
		.min_rnr_timer = rnd(rng, 32),
		.timeout = rnd(rng, 20),
		.retry_cnt = rnd(rng, 8),
		.rnr_retry = rnd(rng, 8),
		.dest = { .is_global = 1, .port_num = 1, .hop_limit = 64,
			  .sgid_index = atoi(opts.gid) },
	};
	memcpy(m->dest.dgid, g.gid, 16);
	if (!rnd(rng, 6))
		m->attr_mask ^= 1u << rnd(rng, 25);
}

static void make_body(uint64_t *rng, struct body *b)
{
	static const uint8_t often[] = {
		IB_USER_VERBS_CMD_ALLOC_PD, IB_USER_VERBS_CMD_REG_MR, IB_USER_VERBS_CMD_CREATE_CQ,
		IB_USER_VERBS_CMD_CREATE_QP, IB_USER_VERBS_CMD_CREATE_QP,
		IB_USER_VERBS_CMD_MODIFY_QP, IB_USER_VERBS_CMD_MODIFY_QP,
		IB_USER_VERBS_CMD_MODIFY_QP, IB_USER_VERBS_CMD_RESIZE_CQ,
		IB_USER_VERBS_CMD_REREG_MR, IB_USER_VERBS_CMD_POST_SEND,
		IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, IB_USER_VERBS_CMD_QUERY_QP,
	};

	memset(b, 0, sizeof(*b));
	b->makes = OTHER;
	b->command = rnd(rng, 2) ? often[rnd(rng, ARRAY_SIZE(often))] : rnd(rng, 62);
	b->extended = !rnd(rng, 5);
	b->len = 8 + 4 * rnd(rng, 20);
	b->resp = rnd(rng, 64) * 4;
	for (size_t i = 2; i < b->len / 4; i++)
		b->w[i] = rnd(rng, 2) ? handle(rng, rnd(rng, KINDS)) : fuzz_word(rng);
	if (b->extended) {
		b->len &= ~7ULL;
		b->resp &= ~7ULL;
	}
	switch (b->command + (b->extended ? EXTENDED : 0)) {
	case IB_USER_VERBS_CMD_ALLOC_PD:
		b->len = 8;
		b->resp = sizeof(struct ib_uverbs_alloc_pd_resp);
		b->makes = PD;
		break;
	case IB_USER_VERBS_CMD_DEALLOC_PD:
		b->w[0] = handle(rng, PD);
		b->len = 4;
		break;
	case IB_USER_VERBS_CMD_QUERY_PORT:
		b->port = (struct ib_uverbs_query_port){ .port_num = rnd(rng, 3) };
		b->len = sizeof(b->port);
		b->resp = sizeof(struct ib_uverbs_query_port_resp);
		break;
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
		b->len = 8;
		b->resp = sizeof(struct ib_uverbs_query_device_resp);
		break;
	case IB_USER_VERBS_CMD_REG_MR:
		b->reg_mr = (struct ib_uverbs_reg_mr){
			.start = address(rng), .length = 1 + rnd(rng, 20000),
			.pd_handle = handle(rng, PD),
			.access_flags = rnd(rng, 20) ? rnd(rng, 16) : fuzz_word(rng),
		};
		b->reg_mr.hca_va = rnd(rng, 10) ? b->reg_mr.start : rnd64(rng);
		b->len = sizeof(b->reg_mr);
		b->resp = sizeof(struct ib_uverbs_reg_mr_resp);
		b->makes = MR;
		break;
	case IB_USER_VERBS_CMD_REREG_MR:
		b->rereg_mr = (struct ib_uverbs_rereg_mr){
			.mr_handle = handle(rng, MR), .flags = rnd(rng, 8),
			.start = address(rng), .length = 1 + rnd(rng, 20000),
			.pd_handle = handle(rng, PD), .access_flags = rnd(rng, 16),
		};
		b->rereg_mr.hca_va = b->rereg_mr.start;
		b->len = sizeof(b->rereg_mr);
		b->resp = sizeof(struct ib_uverbs_rereg_mr_resp);
		break;
	case IB_USER_VERBS_CMD_DEREG_MR:
		b->w[0] = handle(rng, MR);
		b->len = 4;
		break;
	case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
		b->len = 8;
		b->resp = sizeof(struct ib_uverbs_create_comp_channel_resp);
		b->makes = CHANNEL;
		break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		b->create_cq = (struct ib_uverbs_create_cq){
			.cqe = rnd(rng, 20) ? rnd(rng, 200) : fuzz_word(rng),
			.comp_vector = rnd(rng, 20) ? 0 : fuzz_word(rng),
			.comp_channel = rnd(rng, 2) ? -1 : (int)handle(rng, CHANNEL),
		};
		b->len = sizeof(b->create_cq);
		b->resp = sizeof(struct ib_uverbs_create_cq_resp);
		b->driver = sizeof(struct rxe_create_cq_resp);
		b->makes = CQ;
		break;
	case IB_USER_VERBS_CMD_CREATE_CQ + EXTENDED:
		b->ex_create_cq = (struct ib_uverbs_ex_create_cq){
			.cqe = rnd(rng, 200), .comp_channel = -1, .flags = rnd(rng, 8) ? 0 : fuzz_word(rng),
		};
		b->len = sizeof(b->ex_create_cq);
		b->resp = sizeof(struct ib_uverbs_ex_create_cq_resp);
		b->driver = sizeof(struct rxe_create_cq_resp);
		b->makes = CQ;
		break;
	case IB_USER_VERBS_CMD_RESIZE_CQ:
		b->resize_cq = (struct ib_uverbs_resize_cq){
			.cq_handle = handle(rng, CQ),
			.cqe = rnd(rng, 6) ? rnd(rng, 300) : fuzz_word(rng),
		};
		b->len = sizeof(b->resize_cq);
		b->resp = sizeof(struct ib_uverbs_resize_cq_resp);
		b->driver = sizeof(struct rxe_resize_cq_resp);
		break;
	case IB_USER_VERBS_CMD_POLL_CQ:
		b->poll_cq = (struct ib_uverbs_poll_cq){ .cq_handle = handle(rng, CQ), .ne = 1 };
		b->len = sizeof(b->poll_cq);
		b->resp = 8 + sizeof(struct ib_uverbs_wc);
		break;
	case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
		b->notify = (struct ib_uverbs_req_notify_cq){ handle(rng, CQ), rnd(rng, 3) };
		b->len = sizeof(b->notify);
		b->resp = 0;
		break;
	case IB_USER_VERBS_CMD_DESTROY_CQ:
		simple(b, handle(rng, CQ), sizeof(struct ib_uverbs_destroy_cq));
		b->resp = sizeof(struct ib_uverbs_destroy_cq_resp);
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		b->create_qp = (struct ib_uverbs_create_qp){
			.pd_handle = handle(rng, PD), .send_cq_handle = handle(rng, CQ),
			.recv_cq_handle = handle(rng, CQ),
			.qp_type = rnd(rng, 10) ? IBV_QPT_RC : rnd(rng, 12),
			.is_srq = !rnd(rng, 20), .srq_handle = handle(rng, SRQ),
			.sq_sig_all = rnd(rng, 2),
		};
		fill_qp_caps(rng, &b->create_qp.max_send_wr);
		b->len = sizeof(b->create_qp);
		b->resp = sizeof(struct ib_uverbs_create_qp_resp);
		b->driver = sizeof(struct rxe_create_qp_resp);
		b->makes = QP;
		break;
	case IB_USER_VERBS_CMD_CREATE_QP + EXTENDED:
		b->ex_create_qp = (struct ib_uverbs_ex_create_qp){
			.pd_handle = handle(rng, PD), .send_cq_handle = handle(rng, CQ),
			.recv_cq_handle = handle(rng, CQ), .qp_type = IBV_QPT_RC,
			.create_flags = rnd(rng, 8) ? 0 : 1u << rnd(rng, 32),
			.comp_mask = rnd(rng, 20) ? 0 : fuzz_word(rng),
			.source_qpn = rnd(rng, 20) ? 0 : fuzz_word(rng),
		};
		fill_qp_caps(rng, &b->ex_create_qp.max_send_wr);
		b->len = sizeof(b->ex_create_qp);
		b->resp = sizeof(struct ib_uverbs_ex_create_qp_resp);
		b->driver = sizeof(struct rxe_create_qp_resp);
		b->makes = QP;
		break;
	case IB_USER_VERBS_CMD_MODIFY_QP:
		fill_modify(rng, &b->modify_qp);
		b->len = sizeof(b->modify_qp);
		b->resp = 0;
		break;
	case IB_USER_VERBS_CMD_MODIFY_QP + EXTENDED:
		fill_modify(rng, &b->modify_qp);
		b->len = sizeof(struct ib_uverbs_ex_modify_qp);
		b->resp = sizeof(struct ib_uverbs_ex_modify_qp_resp);
		break;
	case IB_USER_VERBS_CMD_QUERY_QP:
		b->query_qp = (struct ib_uverbs_query_qp){
			.qp_handle = handle(rng, QP), .attr_mask = fuzz_word(rng),
		};
		b->len = sizeof(b->query_qp);
		b->resp = sizeof(struct ib_uverbs_query_qp_resp);
		break;
	case IB_USER_VERBS_CMD_DESTROY_QP:
		simple(b, handle(rng, QP), sizeof(struct ib_uverbs_destroy_qp));
		b->resp = sizeof(struct ib_uverbs_destroy_qp_resp);
		break;
	case IB_USER_VERBS_CMD_POST_SEND:
	case IB_USER_VERBS_CMD_POST_RECV:
		b->post_send = (struct ib_uverbs_post_send){
			.qp_handle = handle(rng, QP),
			.wr_count = rnd(rng, 3) ? 0 : rnd(rng, 3),
			.sge_count = rnd(rng, 3),
			.wqe_size = sizeof(struct ib_uverbs_send_wr),
		};
		b->len = sizeof(b->post_send);
		if (b->post_send.wr_count)
			b->len = umin(sizeof(b->b), b->len + b->post_send.wr_count *
				      sizeof(struct ib_uverbs_send_wr) + b->post_send.sge_count * 16);
		b->resp = sizeof(struct ib_uverbs_post_send_resp);
		break;
	case IB_USER_VERBS_CMD_CREATE_AH:
		b->ah = (struct ib_uverbs_create_ah){
			.pd_handle = handle(rng, PD),
			.attr = { .is_global = 1, .port_num = 1,
				  .grh = { .sgid_index = atoi(opts.gid), .hop_limit = 1 } },
		};
		memcpy(b->ah.attr.grh.dgid, g.gid, 16);
		b->len = sizeof(b->ah);
		b->resp = sizeof(struct ib_uverbs_create_ah_resp);
		b->makes = AH;
		break;
	default:
		return;
	}
	if (!rnd(rng, 3))	/* wrong in a word or in its length */
		switch (rnd(rng, 4)) {
		case 0:
			b->len = umin(sizeof(b->b), rnd(rng, 2) ? b->len + 8 : rnd(rng, 200)) & ~3;
			break;
		case 1:
			b->resp = rnd(rng, 300) & ~3;
			break;
		case 2:
			b->driver = rnd(rng, 40) & ~3;
			break;
		default:
			b->w[rnd(rng, b->len / 4)] = fuzz_word(rng);
			break;
		}
}

static void learn(const struct body *b)
{
	const struct mminfo *mi = (void *)(answer + b->resp);
	size_t n;

	if (b->makes != OTHER)
		keep(b->makes, *(uint32_t *)answer);
	if (b->makes == QP)
		g.qpn[g.next[QP] % POOL] = ((uint32_t *)answer)[1];
	if (b->makes == CHANNEL)
		fcntl(*(int *)answer, F_SETFL, O_NONBLOCK);
	for (n = b->driver / sizeof(*mi); n; n--, mi++) {
		struct mminfo copy;

		memcpy(&copy, mi, sizeof(copy));
		g.ring[g.next_ring++ % POOL] = copy;
	}
}

/* --------------------------------------------------------------- commands */

static bool by_write(uint64_t *rng, struct body *b)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		uint8_t rest[16 + 256];
	} msg = { .hdr = { .command = b->command } };
	struct ib_uverbs_ex_cmd_hdr ex = { 0 };
	uint64_t response = (uintptr_t)answer;
	size_t len, out = b->resp + b->driver;

	if (!rnd(rng, 20))
		response = rnd(rng, 2) ? rnd64(rng) : (uintptr_t)g.gone;
	if (b->extended) {
		msg.hdr.command |= 0x80000000;
		ex.response = response;
		ex.provider_out_words = b->driver / 8;
		if (!rnd(rng, 30))
			ex.provider_in_words = rnd(rng, 5);
		if (!rnd(rng, 60))
			ex.cmd_hdr_reserved = 1;
		memcpy(msg.rest, &ex, sizeof(ex));
		memcpy(msg.rest + sizeof(ex), b->b, b->len);
		msg.hdr.in_words = b->len / 8;
		msg.hdr.out_words = b->resp / 8;
		len = sizeof(msg.hdr) + sizeof(ex) + b->len;
	} else {
		memcpy(msg.rest, b->b, b->len);
		/* Those without a response have a handle there. */
		if (b->len >= 8 && b->command != IB_USER_VERBS_CMD_REQ_NOTIFY_CQ &&
		    b->command != IB_USER_VERBS_CMD_MODIFY_QP)
			memcpy(msg.rest, &response, sizeof(response));
		len = sizeof(msg.hdr) + b->len;
		msg.hdr.in_words = len / 4;
		msg.hdr.out_words = out / 4;
	}
	if (!rnd(rng, 60))
		msg.hdr.in_words = fuzz_word(rng);
	if (!rnd(rng, 60))
		msg.hdr.out_words = fuzz_word(rng);
	if (!rnd(rng, 60))
		len = rnd(rng, len + 1);
	return write(g.fd, &msg, len) == (ssize_t)len;
}

struct call {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attr[MAX_ATTRS];
};

static void add(struct call *c, uint16_t id, uint16_t len, uint64_t data)
{
	if (c->hdr.num_attrs < MAX_ATTRS)
		c->attr[c->hdr.num_attrs++] = (struct ib_uverbs_attr){
			.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY, .data = data,
		};
}

/* The answers of one call lie behind each other. */
static void call_of_body(struct call *c, const struct body *b)
{
	add(c, UVERBS_ATTR_WRITE_CMD, 8, b->command);
	add(c, UVERBS_ATTR_CORE_IN, b->len, (uintptr_t)b->b);
	if (b->resp)
		add(c, UVERBS_ATTR_CORE_OUT, b->resp, (uintptr_t)answer);
	if (b->driver)
		add(c, UVERBS_ATTR_UHW_OUT, b->driver, (uintptr_t)answer + b->resp);
	c->hdr.object_id = UVERBS_OBJECT_DEVICE;
	c->hdr.method_id = UVERBS_METHOD_INVOKE_WRITE;
}

static void make_call(uint64_t *rng, struct call *c, struct body *b)
{
	uint8_t *out = answer + 256;
	unsigned int i;

#define METHOD(object, method) (c->hdr.object_id = UVERBS_OBJECT_##object, \
				c->hdr.method_id = UVERBS_METHOD_##method)
	switch (rnd(rng, 16)) {
	case 0:
		METHOD(CQ, CQ_CREATE);
		add(c, UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 0);
		add(c, UVERBS_ATTR_CREATE_CQ_CQE, 4, rnd(rng, 200));
		add(c, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8, rnd64(rng));
		add(c, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4, rnd(rng, 10) ? 0 : fuzz_word(rng));
		if (rnd(rng, 2))
			add(c, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, 0, handle(rng, CHANNEL));
		if (!rnd(rng, 4))
			add(c, UVERBS_ATTR_CREATE_CQ_FLAGS, 4, fuzz_word(rng));
		add(c, UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4, (uintptr_t)out);
		add(c, UVERBS_ATTR_UHW_OUT, sizeof(struct rxe_create_cq_resp), (uintptr_t)out + 8);
		break;
	case 1:
	case 2:
		fill_qp_caps(rng, (uint32_t *)(out + 64));
		METHOD(QP, QP_CREATE);
		add(c, UVERBS_ATTR_CREATE_QP_HANDLE, 0, 0);
		add(c, UVERBS_ATTR_CREATE_QP_PD_HANDLE, 0, handle(rng, PD));
		add(c, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, 0, handle(rng, CQ));
		add(c, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, 0, handle(rng, CQ));
		if (!rnd(rng, 8))
			add(c, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, 0, handle(rng, SRQ));
		add(c, UVERBS_ATTR_CREATE_QP_USER_HANDLE, 8, rnd64(rng));
		add(c, UVERBS_ATTR_CREATE_QP_CAP, 20, (uintptr_t)out + 64);
		add(c, UVERBS_ATTR_CREATE_QP_TYPE, 8, rnd(rng, 8) ? IBV_QPT_RC : rnd(rng, 12));
		if (!rnd(rng, 4))
			add(c, UVERBS_ATTR_CREATE_QP_FLAGS, 4, fuzz_word(rng));
		add(c, UVERBS_ATTR_CREATE_QP_RESP_CAP, 20, (uintptr_t)out);
		add(c, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4, (uintptr_t)out + 20);
		add(c, UVERBS_ATTR_UHW_OUT, sizeof(struct rxe_create_qp_resp), (uintptr_t)out + 24);
		break;
	case 3:
		METHOD(QP, QP_DESTROY);
		add(c, UVERBS_ATTR_DESTROY_QP_HANDLE, 0, handle(rng, QP));
		add(c, UVERBS_ATTR_DESTROY_QP_RESP, 4, (uintptr_t)out);
		break;
	case 4:
		METHOD(CQ, CQ_DESTROY);
		add(c, UVERBS_ATTR_DESTROY_CQ_HANDLE, 0, handle(rng, CQ));
		add(c, UVERBS_ATTR_DESTROY_CQ_RESP, 8, (uintptr_t)out);
		break;
	case 5:
		METHOD(MR, MR_DESTROY);
		add(c, UVERBS_ATTR_DESTROY_MR_HANDLE, 0, handle(rng, MR));
		break;
	case 6:
		METHOD(MR, QUERY_MR);
		add(c, UVERBS_ATTR_QUERY_MR_HANDLE, 0, handle(rng, MR));
		for (i = UVERBS_ATTR_QUERY_MR_RESP_LKEY; i <= UVERBS_ATTR_QUERY_MR_RESP_IOVA; i++)
			add(c, i, i >= UVERBS_ATTR_QUERY_MR_RESP_LENGTH ? 8 : 4, (uintptr_t)out + 8 * i);
		break;
	case 7:
		METHOD(MR, ADVISE_MR);
		add(c, UVERBS_ATTR_ADVISE_MR_PD_HANDLE, 0, handle(rng, PD));
		add(c, UVERBS_ATTR_ADVISE_MR_ADVICE, 8, rnd(rng, 4));
		add(c, UVERBS_ATTR_ADVISE_MR_FLAGS, 4, rnd(rng, 2));
		add(c, UVERBS_ATTR_ADVISE_MR_SGE_LIST, 16, (uintptr_t)out);
		break;
	case 8:
		METHOD(MR, REG_DMABUF_MR);
		add(c, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
		add(c, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, handle(rng, PD));
		add(c, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, 0);
		add(c, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, 4096);
		add(c, UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, 0);
		add(c, UVERBS_ATTR_REG_DMABUF_MR_FD, 0, handle(rng, CHANNEL));
		add(c, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, rnd(rng, 16));
		add(c, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)out);
		add(c, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)out + 4);
		break;
	case 9:
		METHOD(DEVICE, QUERY_GID_TABLE);
		add(c, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 8, rnd(rng, 4) ? 32 : fuzz_word(rng));
		add(c, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 4, 0);
		add(c, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 32 * rnd(rng, 8), (uintptr_t)out);
		add(c, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8, (uintptr_t)out + 1024);
		break;
	case 10:
		METHOD(DEVICE, INFO_HANDLES);
		add(c, UVERBS_ATTR_INFO_OBJECT_ID, 8, rnd(rng, 18));
		add(c, UVERBS_ATTR_INFO_TOTAL_HANDLES, 4, (uintptr_t)out);
		add(c, UVERBS_ATTR_INFO_HANDLES_LIST, 4 * (1 + rnd(rng, 40)), (uintptr_t)out + 8);
		break;
	case 11:	/* any method of any object with any attributes */
		c->hdr.object_id = rnd(rng, 20);
		c->hdr.method_id = rnd(rng, 8) | (rnd(rng, 20) ? 0 : DRIVER_NS);
		for (i = rnd(rng, 10); i; i--)
			add(c, rnd(rng, 8) ? rnd(rng, 14) : DRIVER_NS + rnd(rng, 3),
			    rnd(rng, 2) ? rnd(rng, 40) : 4,
			    rnd(rng, 2) ? address(rng) : handle(rng, rnd(rng, KINDS)));
		break;
	default:
		make_body(rng, b);
		call_of_body(c, b);
	}
#undef METHOD
	if (!rnd(rng, 4) && c->hdr.num_attrs) {
		struct ib_uverbs_attr *a = &c->attr[rnd(rng, c->hdr.num_attrs)];

		switch (rnd(rng, 7)) {
		case 0:
			*a = c->attr[--c->hdr.num_attrs];
			break;
		case 1:
			add(c, a->attr_id, a->len, a->data);
			break;
		case 2:
			a->len = rnd(rng, 2) ? rnd(rng, 40) : fuzz_word(rng);
			break;
		case 3:
			a->data = rnd(rng, 2) ? address(rng) : fuzz_word(rng);
			break;
		case 4:
			a->flags = rnd(rng, 2) ? 0 : rnd64(rng);
			break;
		case 5:
			a->attr_id = rnd(rng, 2) ? rnd(rng, 30) : rnd64(rng);
			break;
		default:
			a->attr_data.reserved = rnd64(rng);
			break;
		}
	}
}

static void step_ioctl(uint64_t *rng)
{
	static __thread struct body b;
	struct call c = { 0 };
	unsigned int object;
	bool ok;

	b.makes = OTHER;
	b.driver = 0;
	make_call(rng, &c, &b);
	object = c.hdr.object_id;
	c.hdr.driver_id = RDMA_DRIVER_RXE;
	c.hdr.length = sizeof(c.hdr) + c.hdr.num_attrs * sizeof(c.attr[0]);
	if (!rnd(rng, 40))
		c.hdr.length = rnd(rng, 600);
	if (!rnd(rng, 60))
		c.hdr.driver_id = rnd(rng, 22);
	if (!rnd(rng, 60))
		c.hdr.num_attrs = rnd64(rng);
	if (!rnd(rng, 100))
		c.hdr.reserved1 = 1;
	ok = !ioctl(g.fd, RDMA_VERBS_IOCTL, &c);
	fuzz_count(ok ? &stats->ioctl_ok[object % 32] : &stats->ioctl_bad[object % 32]);
	if (!ok)
		return;
	if (object == UVERBS_OBJECT_DEVICE && c.hdr.method_id == UVERBS_METHOD_INVOKE_WRITE) {
		if (b.makes != OTHER)
			learn(&b);
	} else if (object == UVERBS_OBJECT_CQ && c.hdr.method_id == UVERBS_METHOD_CQ_CREATE) {
		keep(CQ, c.attr[0].data);
	} else if (object == UVERBS_OBJECT_QP && c.hdr.method_id == UVERBS_METHOD_QP_CREATE) {
		keep(QP, c.attr[0].data);
	}
}

static void step_write(uint64_t *rng)
{
	static __thread struct body b;
	unsigned int at;
	bool ok;

	make_body(rng, &b);
	at = (b.command + (b.extended ? EXTENDED : 0)) % 128;
	ok = by_write(rng, &b);
	fuzz_count(ok ? &stats->write_ok[at] : &stats->write_bad[at]);
	if (ok)
		learn(&b);
}

/* A ring, or something beside one, mapped and written to. */
static void step_map(uint64_t *rng)
{
	struct mminfo *mi = &g.ring[rnd(rng, POOL)];
	uint64_t offset = mi->offset + (rnd(rng, 3) ? 0 : rnd(rng, 3) * 4096);
	size_t size = rnd(rng, 4) ? mi->size : rnd(rng, 1 << 20);
	uint32_t *p;

	p = mmap(NULL, size, PROT_READ | PROT_WRITE, rnd(rng, 8) ? MAP_SHARED : MAP_PRIVATE, g.fd,
		 rnd(rng, 10) ? offset : rnd64(rng) & ~4095ULL);
	if (p == MAP_FAILED)
		return;
	fuzz_count(&stats->maps);
	/* All but the last page at most: the ring's own size is what was mapped. */
	for (unsigned int i = 0; i < 20 && size == mi->size; i++)
		p[rnd(rng, size / 4)] = fuzz_word(rng);
	if (rnd(rng, 4))
		munmap(p, size);
}

static void *run(void *arg)
{
	uint64_t rng = *(uint64_t *)arg;
	char event[64];

	answer = fuzz_shared(8192);
	while (!__atomic_load_n(&g.stop, __ATOMIC_RELAXED)) {
		switch (rnd(&rng, 16)) {
		case 0:
			step_map(&rng);
			break;
		case 1:
			if (read(handle(&rng, CHANNEL), event, sizeof(event)) < 0)
				errno = 0;
			break;
		case 2:
		case 3:
		case 4:
		case 5:
		case 6:
			step_ioctl(&rng);
			break;
		default:
			step_write(&rng);
		}
	}
	return NULL;
}

static void round_of(uint64_t seed, unsigned int ms)
{
	struct ib_uverbs_get_context get = { 0 };
	struct ib_uverbs_get_context_resp ctx;
	pthread_t id[THREADS];
	uint64_t rng[THREADS];
	struct rdev d;
	unsigned int i;

	/* For its GID, and for a file of ours that has no context yet. */
	raw_open(&d, opts.dev, opts.gid);
	memcpy(g.gid, d.gid, 16);
	{
		char path[64];
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", d.fd);
		g.fd = open(path, O_RDWR | O_CLOEXEC);
		n = g.fd;
		if (n < 0)
			die_errno("the device's file again");
	}
	fcntl(d.async_fd, F_SETFL, O_NONBLOCK);
	for (i = 0; i < KINDS; i++)
		keep(i, 0);
	keep(CHANNEL, d.async_fd);
	rng[0] = seed;
	answer = fuzz_shared(8192);
	for (i = 0; i < 5; i++)
		step_write(&rng[0]);	/* before there is a context */
	get.response = (uintptr_t)memset(&ctx, 0, sizeof(ctx));
	if (raw_cmd(g.fd, IB_USER_VERBS_CMD_GET_CONTEXT, &get, sizeof(get), sizeof(ctx)) == 0)
		fcntl(ctx.async_fd, F_SETFL, O_NONBLOCK);
	for (i = 0; i < THREADS; i++) {
		rng[i] = seed + 1 + i;
		if (pthread_create(&id[i], NULL, run, &rng[i]))
			die("no thread");
	}
	usleep(ms * 1000);
	if (seed & 1)
		_exit(0);	/* under the threads' hands */
	__atomic_store_n(&g.stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	_exit(0);
}

static bool must_have(const char *what, uint64_t n)
{
	printf("# %s: %llu\n", what, (unsigned long long)n);
	if (!n)
		printf("no success: %s\n", what);
	return n;
}

int main(int argc, char **argv)
{
	uint64_t end, write_ok = 0, write_bad = 0;
	bool good = true;
	unsigned int i;

	fuzz_begin("fuzz_uverbs", argc, argv, &opts, 16 << 20);
	stats = fuzz_shared(sizeof(*stats));
	g.mem = fuzz_shared(MEM_LEN);
	g.gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (end = now_us() + opts.seconds * 1000000ULL; now_us() < end; stats->rounds++) {
		uint64_t rng = opts.seed + stats->rounds * 1000;
		unsigned int ms = 300 + rnd(&rng, 2000);
		bool murder = !rnd(&rng, 3);
		pid_t pid = fuzz_fork();
		int status;

		if (pid == 0)
			round_of(rng, ms);
		if (murder) {
			usleep(ms * 500);
			kill(pid, SIGKILL);
			stats->killed++;
		}
		status = fuzz_reap(pid, ms + 60000);
		if (WIFEXITED(status) && WEXITSTATUS(status))
			die("a round could not begin");
		/* What it registered or mapped may have been its own memory. */
		if (WIFSIGNALED(status) && !murder)
			stats->died++;
	}
	printf("# %llu rounds, %llu killed, %llu died; %llu mappings\n",
	       (unsigned long long)stats->rounds, (unsigned long long)stats->killed,
	       (unsigned long long)stats->died, (unsigned long long)stats->maps);
	for (i = 0; i < ARRAY_SIZE(stats->write_ok); i++) {
		write_ok += stats->write_ok[i];
		write_bad += stats->write_bad[i];
	}
	printf("# write: %llu done, %llu refused\n", (unsigned long long)write_ok,
	       (unsigned long long)write_bad);
#define HAVE(command) (good &= must_have(#command, stats->write_ok[IB_USER_VERBS_CMD_##command]))
#define HAVE_EX(command) (good &= must_have("extended " #command, \
			  stats->write_ok[IB_USER_VERBS_CMD_##command + EXTENDED]))
	HAVE(ALLOC_PD);
	HAVE(DEALLOC_PD);
	HAVE(REG_MR);
	HAVE(REREG_MR);
	HAVE(DEREG_MR);
	HAVE(CREATE_COMP_CHANNEL);
	HAVE(CREATE_CQ);
	HAVE(RESIZE_CQ);
	HAVE(REQ_NOTIFY_CQ);
	HAVE(DESTROY_CQ);
	HAVE(CREATE_QP);
	HAVE(MODIFY_QP);
	HAVE(QUERY_QP);
	HAVE(DESTROY_QP);
	HAVE_EX(CREATE_CQ);
	HAVE_EX(CREATE_QP);
	good &= must_have("ioctl on a CQ", stats->ioctl_ok[UVERBS_OBJECT_CQ]);
	good &= must_have("ioctl on a QP", stats->ioctl_ok[UVERBS_OBJECT_QP]);
	good &= must_have("ioctl on an MR", stats->ioctl_ok[UVERBS_OBJECT_MR]);
	good &= must_have("ioctl on the device", stats->ioctl_ok[UVERBS_OBJECT_DEVICE]);
	good &= must_have("mappings", stats->maps);
	return good && stats->died < stats->rounds ? 0 : 1;
}
