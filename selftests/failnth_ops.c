// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The operations of failnth: what it lets fail, and how it sees that they work. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <libmnl/libmnl.h>

#include "failnth.h"

#define MR_SIZE		8192

/* What a lane QP, an address or a session may fail with when memory is short. */
#define PATH_ERRS	{ ENFILE, ENOBUFS, ENETUNREACH, ETIMEDOUT, ENOTCONN, EBUSY, ECONNRESET, \
			  ECONNREFUSED }

/* --------------------------------------------------------------- verbs */

static struct dev dev;
static const struct qp_param param = {
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	.timeout = 19, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12, .rd_atomic = 1,
};

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr, *mr2;
static struct ibv_comp_channel *channel;
static struct ibv_qp *qp[2];
static uint8_t *mem;

static int result(const void *object)
{
	return object ? 0 : -(errno ? errno : EIO);
}

static struct qp_conn conn_of(const struct ibv_qp *q)
{
	return (struct qp_conn) { q->qp_num, 0x1234, dev.gid };
}

static void open_dev(void)
{
	dev_open(&dev, devname, gid);
}

static void close_dev(void)
{
	dev_close(&dev);
}

static int make_pd(void)
{
	errno = 0;
	pd = ibv_alloc_pd(dev.ctx);
	return result(pd);
}

static void drop_pd(void)
{
	must("dealloc_pd", ibv_dealloc_pd(pd));
}

static int make_mr(void)
{
	errno = 0;
	mr = ibv_reg_mr(pd, mem, MR_SIZE, param.access);
	return result(mr);
}

static int make_mr2(void)
{
	errno = 0;
	mr2 = ibv_reg_mr(pd, mem + MR_SIZE, MR_SIZE, param.access);
	return result(mr2);
}

static void drop_mr(void)
{
	must("dereg_mr", ibv_dereg_mr(mr));
}

static void drop_mr2(void)
{
	must("dereg_mr", ibv_dereg_mr(mr2));
}

static int make_cq(void)
{
	errno = 0;
	cq = ibv_create_cq(dev.ctx, 30, NULL, NULL, 0);
	return result(cq);
}

static void drop_cq(void)
{
	must("destroy_cq", ibv_destroy_cq(cq));
}

static int make_qp(int i)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 15, .max_recv_wr = 15, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = 64 },
	};

	errno = 0;
	qp[i] = ibv_create_qp(pd, &attr);
	return result(qp[i]);
}

static void drop_qp(int i)
{
	must("destroy_qp", ibv_destroy_qp(qp[i]));
	qp[i] = NULL;
}

static void make_base(void)
{
	open_dev();
	must("alloc_pd", make_pd());
	must("reg_mr", make_mr());
	must("create_cq", make_cq());
}

static void drop_base(void)
{
	drop_cq();
	drop_mr();
	drop_pd();
	close_dev();
}

static void make_pair(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		must("create_qp", make_qp(i));
		must("modify_qp(INIT)", qp_init(&dev, qp[i], &param));
	}
}

static void drop_pair(void)
{
	drop_qp(0);
	drop_qp(1);
}

static int to_rtr(int i)
{
	struct qp_conn peer = conn_of(qp[!i]);

	return -qp_rtr(&dev, qp[i], &param, &peer);
}

static int to_rts(int i)
{
	return -qp_rts(qp[i], &param, 0x1234);
}

static void connect_pair(void)
{
	qp_connect_pair(&dev, qp[0], qp[1], &param);
}

static int post_write(uint32_t rkey, uint8_t *to)
{
	struct ibv_sge sge = { (uintptr_t)mem, 64, mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)to, .rkey = rkey },
	}, *bad;

	return -ibv_post_send(qp[0], &wr, &bad);
}

static void await(const char *what)
{
	struct ibv_wc wc;

	if (!cq_wait(cq, &wc, 20000))
		die("%s: no completion", what);
	if (wc.status)
		die("%s: %s", what, ibv_wc_status_str(wc.status));
}

/* What was made carries data: a SEND and a WRITE, both with their bytes. */
static void use_pair(void)
{
	static uint64_t key;
	struct ibv_sge to = { (uintptr_t)mem + 4096, 64, mr->lkey };
	struct ibv_sge from = { (uintptr_t)mem, 64, mr->lkey };
	struct ibv_recv_wr rwr = { .wr_id = 2, .sg_list = &to, .num_sge = 1 }, *rbad;
	struct ibv_send_wr wr = {
		.wr_id = 3,
		.sg_list = &from,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	key++;
	pattern_fill(mem, key, 0, 64);
	memset(mem + 4096, 0, 128);
	must("post_recv", ibv_post_recv(qp[1], &rwr, &rbad));
	must("post_send", ibv_post_send(qp[0], &wr, &bad));
	await("SEND");
	await("SEND");
	must("WRITE", post_write(mr->rkey, mem + 4096 + 64));
	await("WRITE");
	if (pattern_check(mem + 4096, key, 0, 64) >= 0 ||
	    pattern_check(mem + 4096 + 64, key, 0, 64) >= 0)
		die("wrong bytes");
}

/* -------------------------------------------------------------- cases */

void nothing(void)
{
}

static void undo_dev(void)
{
	must("dev del", nl_dev_del());
}

static void prepare_dev(void)
{
	must("dev add", nl_dev_new());
}

static void prepare_dev_lane(void)
{
	struct nlmsghdr *nlh;

	must("dev add", nl_dev_new());
	nlh = nl_request(RDMA_AGG_CMD_LANE_NEW, "agg9");
	mnl_attr_put_strz(nlh, RDMA_AGG_A_LANE_IBDEV_NAME, spare);
	must("lane add", nl_do(nlh));
}

static void undo_lane(void)
{
	must("lane del", nl_lane_del());
}

static void put_lane(void)
{
	must("lane add", nl_lane_new());
}

/*
 * A lane that PDs, MRs and both ends of a connection use: the only one of a device
 * of its own.
 */
static bool has_ipv4_gid(void)
{
	char path[128], text[64];
	int i;

	for (i = 0; i < 16; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gids/%d", devname, i);
		f = fopen(path, "re");
		if (!f)
			return false;
		if (!fgets(text, sizeof(text), f))
			*text = 0;
		fclose(f);
		if (!strncmp(text, "0000:0000:0000:0000:0000:ffff:", 30))
			return true;
	}
	return false;
}

static void up_lane_used(void)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	uint64_t end = now_us() + 20000000;

	undo_lane();
	prepare_dev();
	devname = "agg9";
	gid = NULL;
	while (!has_ipv4_gid()) {
		if (now_us() > end)
			die("%s has no GID", devname);
		nanosleep(&pause, NULL);
	}
	open_dev();
}

static void down_lane_used(void)
{
	close_dev();
	undo_dev();
	devname = "agg0";
	must("lane add", nl_lane_new());
}

static void prepare_lane_used(void)
{
	must("lane add", nl_lane_new());
	must("alloc_pd", make_pd());
	must("reg_mr", make_mr());
	must("create_cq", make_cq());
	make_pair();
	connect_pair();
	use_pair();
}

static void undo_lane_used(void)
{
	drop_pair();
	drop_cq();
	drop_mr();
	drop_pd();
}

static int run_psk(void)
{
	return nl_psk("a key that is set");
}

static void undo_psk(void)
{
	must("no key", nl_psk(""));
}

static int run_dumps(void)
{
	static const struct {
		uint8_t cmd;
		unsigned int want;
	} dumps[] = {
		{ RDMA_AGG_CMD_DEV_GET, 1 }, { RDMA_AGG_CMD_LANE_GET, 2 },
		{ RDMA_AGG_CMD_PEER_GET, 1 }, { RDMA_AGG_CMD_QP_GET, 2 },
		{ RDMA_AGG_CMD_STAT_GET, 1 }, { RDMA_AGG_CMD_PARAM_GET, 1 },
	};
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(dumps); i++) {
		err = nl_dump(dumps[i].cmd, dumps[i].want);
		if (err)
			return err;
	}
	return 0;
}

static int run_gets(void)
{
	struct nlmsghdr *nlh;
	int err;

	err = nl_do(nl_request(RDMA_AGG_CMD_DEV_GET, devname));
	if (!err)
		err = nl_do(nl_request(RDMA_AGG_CMD_PARAM_GET, devname));
	if (!err)
		err = nl_do(nl_request(RDMA_AGG_CMD_STAT_GET, devname));
	if (err)
		return err;
	nlh = nl_request(RDMA_AGG_CMD_LANE_GET, devname);
	mnl_attr_put_strz(nlh, RDMA_AGG_A_LANE_IBDEV_NAME, "rxe0");
	err = nl_do(nlh);
	if (err)
		return err;
	nlh = nl_request(RDMA_AGG_CMD_QP_GET, devname);
	mnl_attr_put_u32(nlh, RDMA_AGG_A_QP_QPN, qp[0]->qp_num);
	err = nl_do(nlh);
	if (err)
		return err;
	nlh = nl_request(RDMA_AGG_CMD_PEER_GET, devname);
	mnl_attr_put(nlh, RDMA_AGG_A_PEER_GID, 16, dev.gid.raw);
	return nl_do(nlh);
}

/* A listener hears of a change, or that it has missed something. */
static struct mnl_socket *listener;

static void up_notice(void)
{
	struct timeval soon = { .tv_sec = 5 };

	listener = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (!listener || mnl_socket_bind(listener, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_setsockopt(listener, NETLINK_ADD_MEMBERSHIP, &nl_group,
				  sizeof(nl_group)) < 0 ||
	    setsockopt(mnl_socket_get_fd(listener), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)))
		die_errno("netlink");
}

static int run_notice(void)
{
	struct nlmsghdr *nlh = nl_request(RDMA_AGG_CMD_PARAM_SET, devname);
	char in[32768];
	int err;

	mnl_attr_put_u32(nlh, RDMA_AGG_A_PARAM_RNR_GRACE, 100);
	err = nl_do(nlh);
	if (!err && mnl_socket_recvfrom(listener, in, sizeof(in)) < 0 && errno != ENOBUFS)
		die("a listener is told nothing: %s", strerror(errno));
	return err;
}

static void down_notice(void)
{
	mnl_socket_close(listener);
}

static void up_connected(void)
{
	make_base();
	make_pair();
	connect_pair();
}

static void down_connected(void)
{
	drop_pair();
	drop_base();
}

static struct ibv_context *second;

static int run_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	second = NULL;
	errno = 0;
	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), devname))
			second = ibv_open_device(list[i]);
	i = result(second);
	ibv_free_device_list(list);
	return i;
}

static void undo_open(void)
{
	must("close", ibv_close_device(second));
}

static void up_pd(void)
{
	open_dev();
	must("alloc_pd", make_pd());
}

static void down_pd(void)
{
	drop_pd();
	close_dev();
}

/* An MR that a WRITE has used, so that the peer knows its key. */
static void prepare_mr_used(void)
{
	must("reg_mr", make_mr2());
	must("WRITE", post_write(mr2->rkey, mem + MR_SIZE));
	await("WRITE to a new MR");
}

static int run_dereg(void)
{
	return -ibv_dereg_mr(mr2);
}

static void prepare_mr2(void)
{
	must("reg_mr", make_mr2());
}

static void up_channel(void)
{
	up_pd();
	channel = ibv_create_comp_channel(dev.ctx);
	must("create_comp_channel", result(channel));
}

static int run_cq(void)
{
	errno = 0;
	cq = ibv_create_cq(dev.ctx, 30, NULL, channel, 0);
	return result(cq);
}

static void down_channel(void)
{
	must("destroy_comp_channel", ibv_destroy_comp_channel(channel));
	channel = NULL;
	down_pd();
}

static void prepare_cq(void)
{
	must("create_cq", make_cq());
}

static int run_resize(void)
{
	return -abs(ibv_resize_cq(cq, 500));
}

static int run_make_qp(void)
{
	return make_qp(0);
}

static void undo_make_qp(void)
{
	must("create_qp", make_qp(1));
	must("modify_qp(INIT)", qp_init(&dev, qp[0], &param));
	must("modify_qp(INIT)", qp_init(&dev, qp[1], &param));
	must("modify_qp(RTR)", to_rtr(0));
	must("modify_qp(RTR)", to_rtr(1));
	must("modify_qp(RTS)", to_rts(0));
	must("modify_qp(RTS)", to_rts(1));
	use_pair();
	drop_pair();
}

static void prepare_reset(void)
{
	must("create_qp", make_qp(0));
	must("create_qp", make_qp(1));
}

static int run_init(void)
{
	return -qp_init(&dev, qp[0], &param);
}

static void undo_init(void)
{
	drop_pair();
}

static int run_rtr(void)
{
	return to_rtr(0);
}

static void undo_rtr(void)
{
	must("modify_qp(RTR)", to_rtr(1));
	must("modify_qp(RTS)", to_rts(0));
	must("modify_qp(RTS)", to_rts(1));
	use_pair();
	drop_pair();
}

/* The one that follows asks the other to lead. */
static int run_rtr_follow(void)
{
	return to_rtr(1);
}

static void undo_rtr_follow(void)
{
	must("modify_qp(RTR)", to_rtr(0));
	must("modify_qp(RTS)", to_rts(0));
	must("modify_qp(RTS)", to_rts(1));
	use_pair();
	drop_pair();
}

/* All sessions end; the next one that is needed begins anew. */
static void prepare_connect(void)
{
	must("no key", nl_psk(""));
	make_pair();
}

static void prepare_connect_psk(void)
{
	must("key", nl_psk("secret"));
	make_pair();
}

static void down_psk(void)
{
	must("no key", nl_psk(""));
	drop_base();
}

static void prepare_rts(void)
{
	make_pair();
	must("modify_qp(RTR)", to_rtr(0));
	must("modify_qp(RTR)", to_rtr(1));
	must("modify_qp(RTS)", to_rts(1));
}

static int run_rts(void)
{
	return to_rts(0);
}

static void undo_rts(void)
{
	use_pair();
	drop_pair();
}

/*
 * To a key that is not known yet: whatever fails on the way to it, the request
 * is carried out in the end.
 */
static int run_key_miss(void)
{
	int err = post_write(mr2->rkey, mem + MR_SIZE);

	if (!err)
		await("WRITE to a new MR");
	return err;
}

static int run_to_err(void)
{
	return -qp_to(qp[0], IBV_QPS_ERR);
}

static int run_to_reset(void)
{
	return -qp_to(qp[0], IBV_QPS_RESET);
}

static void prepare_connected(void)
{
	make_pair();
	connect_pair();
}

static int run_destroy(void)
{
	int err = ibv_destroy_qp(qp[0]);

	if (!err)
		qp[0] = NULL;
	return -err;
}

static void undo_destroy(void)
{
	drop_qp(1);
}

const struct op ops[] = {
	{ "dev-add", nothing, nothing, nl_dev_new, undo_dev, nothing, .costly = true,
	  .errs = { ENOBUFS } },
	{ "dev-del", nothing, prepare_dev, nl_dev_del, nothing, nothing, .none = true },
	{ "dev-del-lane", undo_lane, prepare_dev_lane, nl_dev_del, nothing,
	  put_lane, .none = true },
	/* The socket of a QP of soft-RoCE. */
	{ "lane-add", undo_lane, nothing, nl_lane_new, undo_lane, put_lane, .errs = { ENFILE } },
	{ "lane-del", up_lane_used, prepare_lane_used, nl_lane_del, undo_lane_used, down_lane_used,
	  .none = true },
	{ "notice", up_notice, nothing, run_notice, nothing, down_notice },
	{ "psk", nothing, nothing, run_psk, undo_psk, nothing },
	{ "dumps", up_connected, nothing, run_dumps, nothing, down_connected, .none = true },
	{ "gets", up_connected, nothing, run_gets, nothing, down_connected },
	{ "open", nothing, nothing, run_open, undo_open, nothing, .none = true },
	{ "pd", open_dev, nothing, make_pd, drop_pd, close_dev },
	{ "mr", up_pd, nothing, make_mr, drop_mr, down_pd },
	{ "mr-dereg", up_connected, prepare_mr_used, run_dereg, nothing, down_connected },
	{ "cq", up_channel, nothing, run_cq, drop_cq, down_channel },
	{ "cq-resize", up_pd, prepare_cq, run_resize, drop_cq, down_pd },
	{ "qp", make_base, nothing, run_make_qp, undo_make_qp, drop_base },
	{ "qp-init", make_base, prepare_reset, run_init, undo_init, drop_base, .none = true },
	{ "qp-rtr", make_base, make_pair, run_rtr, undo_rtr, drop_base,
	  .errs = PATH_ERRS },
	{ "qp-rtr-follow", make_base, make_pair, run_rtr_follow, undo_rtr_follow, drop_base,
	  .errs = PATH_ERRS },
	{ "connect", make_base, prepare_connect, run_rtr, undo_rtr, drop_base,
	  .errs = PATH_ERRS },
	{ "connect-psk", make_base, prepare_connect_psk, run_rtr, undo_rtr, down_psk,
	  .errs = PATH_ERRS },
	{ "qp-rts", make_base, prepare_rts, run_rts, undo_rts, drop_base, .none = true },
	{ "key-miss", up_connected, prepare_mr2, run_key_miss, drop_mr2, down_connected },
	{ "qp-err", make_base, prepare_connected, run_to_err, drop_pair, drop_base, .none = true },
	{ "qp-reset", make_base, prepare_connected, run_to_reset, drop_pair, drop_base },
	{ "qp-destroy", make_base, prepare_connected, run_destroy, undo_destroy, drop_base },
};

const unsigned int nr_ops = ARRAY_SIZE(ops);

void ops_init(void)
{
	mem = aligned_alloc(4096, 2 * MR_SIZE);
	if (!mem)
		die("out of memory");
	memset(mem, 0, 2 * MR_SIZE);
	nl_open();
}
