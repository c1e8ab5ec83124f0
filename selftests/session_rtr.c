// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Asks for RTR towards a peer that may not be one, and says what came of it:
 * the name of the errno, or "ok", and with -t the milliseconds it took.
 *
 *	session_rtr -d agg0 [-g GID] [-q QPN] [-n THREADS] [-t] PEER-ADDRESS
 *
 * With -n so many QPs ask at once; each different outcome is printed once, with
 * its number.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <getopt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static struct dev dev;
static struct ibv_pd *pd;
static struct qp_conn peer;
static pthread_barrier_t start;

static void *ask(void *result)
{
	struct qp_param param = QP_PARAM_DEFAULT;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	if (!cq)
		die_errno("create_cq");
	attr.send_cq = cq;
	attr.recv_cq = cq;
	qp = ibv_create_qp(pd, &attr);
	if (!qp)
		die_errno("create_qp");
	if (qp_init(&dev, qp, &param))
		die("modify_qp(INIT)");
	pthread_barrier_wait(&start);
	*(int *)result = qp_rtr(&dev, qp, &param, &peer);
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq))
		die("destroy");
	return NULL;
}

static void set_gid(const char *text)
{
	struct in_addr v4;

	if (inet_pton(AF_INET6, text, &peer.gid) == 1)
		return;
	if (inet_pton(AF_INET, text, &v4) != 1)
		die("%s: no IP address", text);
	memset(&peer.gid, 0, sizeof(peer.gid));
	peer.gid.raw[10] = 0xff;
	peer.gid.raw[11] = 0xff;
	memcpy(peer.gid.raw + 12, &v4, 4);
}

static const char *name_of(int err)
{
	if (!err)
		return "ok";
	return strerrorname_np(err) ? strerrorname_np(err) : "an unknown error";
}

int main(int argc, char **argv)
{
	const char *name = "agg0", *gid = NULL;
	int opt, n = 1, i, j, same;
	pthread_t *thread;
	bool timed = false;
	uint64_t begin;
	int *result;

	peer.qpn = 0xfffff0;
	while ((opt = getopt(argc, argv, "d:g:q:n:t")) != -1) {
		switch (opt) {
		case 'd':
			name = optarg;
			break;
		case 'g':
			gid = optarg;
			break;
		case 'q':
			peer.qpn = strtoul(optarg, NULL, 0);
			break;
		case 'n':
			n = atoi(optarg);
			break;
		case 't':
			timed = true;
			break;
		default:
			return 2;
		}
	}
	if (optind + 1 != argc || n < 1)
		die("usage: session_rtr [-d DEVICE] [-g GID] [-q QPN] [-n THREADS] [-t] PEER");
	set_gid(argv[optind]);

	dev_open(&dev, name, gid);
	pd = ibv_alloc_pd(dev.ctx);
	if (!pd)
		die_errno("alloc_pd");
	thread = calloc(n, sizeof(*thread));
	result = calloc(n, sizeof(*result));
	if (!thread || !result)
		die("out of memory");
	pthread_barrier_init(&start, NULL, n);
	begin = now_us();
	for (i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, ask, &result[i]))
			die("pthread_create");
	for (i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	begin = now_us() - begin;

	for (i = 0; i < n; i++) {
		for (j = 0; j < i && result[j] != result[i]; j++)
			;
		if (j < i)
			continue;
		for (same = 0; j < n; j++)
			same += result[j] == result[i];
		if (n > 1)
			printf("%d ", same);
		printf("%s\n", name_of(result[i]));
	}
	if (timed)
		printf("%llu ms\n", (unsigned long long)begin / 1000);
	ibv_dealloc_pd(pd);
	dev_close(&dev);
	return 0;
}
