// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Module init and exit. */
#include <linux/module.h>
#include <rdma/rdma_netlink.h>

#include "agg.h"
#include "session.h"

struct workqueue_struct *agg_wq;
struct workqueue_struct *agg_hi_wq;
struct workqueue_struct *agg_fo_wq;

static int __init agg_init(void)
{
	int err;

	agg_wq = alloc_workqueue("rdma_agg", WQ_UNBOUND, 0);
	if (!agg_wq)
		return -ENOMEM;

	agg_hi_wq = alloc_workqueue("rdma_agg_hi", WQ_HIGHPRI | WQ_MEM_RECLAIM | AGG_WQ_PERCPU, 0);
	if (!agg_hi_wq) {
		err = -ENOMEM;
		goto err_wq;
	}

	/* Apart: many QPs may wait for a dead host, and port events must not. */
	agg_fo_wq = alloc_workqueue("rdma_agg_fo", WQ_UNBOUND, 0);
	if (!agg_fo_wq) {
		err = -ENOMEM;
		goto err_hi_wq;
	}

	err = agg_sq_init();
	if (err)
		goto err_fo_wq;

	err = agg_rq_init();
	if (err)
		goto err_sq;

	err = agg_select_init();
	if (err)
		goto err_rq;

	err = agg_session_init();
	if (err)
		goto err_select;

	err = agg_lanes_init();
	if (err)
		goto err_session;

	err = agg_netlink_init();
	if (err)
		goto err_lanes;

	/* Last: from here on devices can be made. */
	err = agg_device_init();
	if (err)
		goto err_netlink;

	return 0;

err_netlink:
	agg_netlink_exit();
err_lanes:
	agg_lanes_exit();
err_session:
	agg_session_exit();
err_select:
	agg_select_exit();
err_rq:
	agg_rq_exit();
err_sq:
	agg_sq_exit();
err_fo_wq:
	destroy_workqueue(agg_fo_wq);
err_hi_wq:
	destroy_workqueue(agg_hi_wq);
err_wq:
	destroy_workqueue(agg_wq);
	return err;
}

static void __exit agg_exit(void)
{
	/* No new devices by netlink, then by rdma link; then the old ones go. */
	agg_netlink_exit();
	agg_device_exit();
	agg_lanes_exit();
	agg_session_exit();
	agg_select_exit();
	agg_rq_exit();
	agg_sq_exit();
	destroy_workqueue(agg_fo_wq);
	destroy_workqueue(agg_hi_wq);
	destroy_workqueue(agg_wq);
	/* agg_mr, agg_lane and others are freed by kfree_rcu() and call_rcu(). */
	rcu_barrier();
}

module_init(agg_init);
module_exit(agg_exit);

MODULE_AUTHOR("The rdma_agg authors");
MODULE_DESCRIPTION("One RDMA device over several RoCE ports");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("0.1.0");
MODULE_ALIAS_RDMA_LINK("agg");
/* Clients of a device are told of its removal in the reverse order: us first. */
MODULE_SOFTDEP("pre: ib_uverbs");
