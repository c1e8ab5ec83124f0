/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rdma_agg

#if !defined(AGG_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define AGG_TRACE_H

#include <linux/tracepoint.h>
#include "agg.h"

#define agg_show_lane_state(s)			\
	__print_symbolic(s,			\
		{ AGG_LANE_DOWN, "down" },	\
		{ AGG_LANE_PROBE, "probe" },	\
		{ AGG_LANE_UP, "up" },		\
		{ AGG_LANE_CONGESTED, "congested" }, \
		{ AGG_LANE_PAUSED, "paused" },	\
		{ AGG_LANE_STORM, "storm" })

#define agg_show_qp_state(s)			\
	__print_symbolic(s,			\
		{ IB_QPS_RESET, "RESET" },	\
		{ IB_QPS_INIT, "INIT" },	\
		{ IB_QPS_RTR, "RTR" },		\
		{ IB_QPS_RTS, "RTS" },		\
		{ IB_QPS_SQD, "SQD" },		\
		{ IB_QPS_SQE, "SQE" },		\
		{ IB_QPS_ERR, "ERR" })

TRACE_EVENT(agg_lane_state,
	TP_PROTO(const struct agg_lane *lane, int from, int to, unsigned long caller),
	TP_ARGS(lane, from, to, caller),
	TP_STRUCT__entry(
		__string(dev, dev_name(&lane->dev->ibdev.dev))
		__string(lane, lane->ibdev_name)
		__field(u32, port)
		__field(int, from)
		__field(int, to)
		__field(unsigned long, caller)
	),
	TP_fast_assign(
		agg_assign_str(dev, dev_name(&lane->dev->ibdev.dev));
		agg_assign_str(lane, lane->ibdev_name);
		__entry->port = lane->port;
		__entry->from = from;
		__entry->to = to;
		__entry->caller = caller;
	),
	TP_printk("%s lane %s/%u %s -> %s by %pS", __get_str(dev), __get_str(lane),
		  __entry->port, agg_show_lane_state(__entry->from),
		  agg_show_lane_state(__entry->to), (void *)__entry->caller)
);

TRACE_EVENT(agg_path,
	TP_PROTO(const struct agg_lane *lane, const union ib_gid *gid, const union ib_gid *peer_gid,
		 bool dead),
	TP_ARGS(lane, gid, peer_gid, dead),
	TP_STRUCT__entry(
		__string(dev, dev_name(&lane->dev->ibdev.dev))
		__string(lane, lane->ibdev_name)
		__field(u32, port)
		__array(u8, gid, 16)
		__array(u8, peer_gid, 16)
		__field(bool, dead)
	),
	TP_fast_assign(
		agg_assign_str(dev, dev_name(&lane->dev->ibdev.dev));
		agg_assign_str(lane, lane->ibdev_name);
		__entry->port = lane->port;
		memcpy(__entry->gid, gid->raw, 16);
		memcpy(__entry->peer_gid, peer_gid->raw, 16);
		__entry->dead = dead;
	),
	TP_printk("%s lane %s/%u %pI6c -> %pI6c %s", __get_str(dev), __get_str(lane),
		  __entry->port, __entry->gid, __entry->peer_gid,
		  __entry->dead ? "dead" : "alive")
);

TRACE_EVENT(agg_qp_state,
	TP_PROTO(const struct agg_qp *qp, int from, int to, unsigned long caller),
	TP_ARGS(qp, from, to, caller),
	TP_STRUCT__entry(
		__string(dev, dev_name(&qp->dev->ibdev.dev))
		__field(u32, qpn)
		__field(u32, dqpn)
		__array(u8, dgid, 16)
		__field(int, from)
		__field(int, to)
		__field(unsigned long, caller)
	),
	TP_fast_assign(
		agg_assign_str(dev, dev_name(&qp->dev->ibdev.dev));
		__entry->qpn = qp->ibqp.qp_num;
		__entry->dqpn = qp->dqpn;
		memcpy(__entry->dgid, qp->dgid.raw, 16);
		__entry->from = from;
		__entry->to = to;
		__entry->caller = caller;
	),
	TP_printk("%s qpn %#x peer %pI6c/%#x %s -> %s by %pS", __get_str(dev), __entry->qpn,
		  __entry->dgid, __entry->dqpn, agg_show_qp_state(__entry->from),
		  agg_show_qp_state(__entry->to), (void *)__entry->caller)
);

TRACE_EVENT(agg_qp_attach,
	TP_PROTO(const struct agg_qp *qp, u32 epoch, u8 lane, u8 peer_lane, int err),
	TP_ARGS(qp, epoch, lane, peer_lane, err),
	TP_STRUCT__entry(
		__string(dev, dev_name(&qp->dev->ibdev.dev))
		__field(u32, qpn)
		__field(u32, dqpn)
		__field(u32, epoch)
		__field(u8, lane)
		__field(u8, peer_lane)
		__field(int, err)
	),
	TP_fast_assign(
		agg_assign_str(dev, dev_name(&qp->dev->ibdev.dev));
		__entry->qpn = qp->ibqp.qp_num;
		__entry->dqpn = qp->dqpn;
		__entry->epoch = epoch;
		__entry->lane = lane;
		__entry->peer_lane = peer_lane;
		__entry->err = err;
	),
	TP_printk("%s qpn %#x peer qpn %#x epoch %u lane %u peer lane %u err %d", __get_str(dev),
		  __entry->qpn, __entry->dqpn, __entry->epoch, __entry->lane, __entry->peer_lane,
		  __entry->err)
);

TRACE_EVENT(agg_qp_failover,
	TP_PROTO(const struct agg_qp *qp, const char *step, int cause, int err),
	TP_ARGS(qp, step, cause, err),
	TP_STRUCT__entry(
		__string(dev, dev_name(&qp->dev->ibdev.dev))
		__string(step, step)
		__string(why, agg_cause_name(cause))
		__field(u32, qpn)
		__field(u32, epoch)
		__field(u64, ns)
		__field(int, err)
	),
	TP_fast_assign(
		agg_assign_str(dev, dev_name(&qp->dev->ibdev.dev));
		agg_assign_str(step, step);
		agg_assign_str(why, agg_cause_name(cause));
		__entry->qpn = qp->ibqp.qp_num;
		__entry->epoch = qp->fo.fence.epoch;
		__entry->ns = ktime_get_ns() - qp->fo.since;
		__entry->err = err;
	),
	TP_printk("%s qpn %#x epoch %u %s after %llu us (%s) err %d", __get_str(dev),
		  __entry->qpn, __entry->epoch, __get_str(step), __entry->ns / NSEC_PER_USEC,
		  __get_str(why), __entry->err)
);

TRACE_EVENT(agg_session_state,
	TP_PROTO(const struct agg_dev *dev, const union ib_gid *gid, const char *event, int err),
	TP_ARGS(dev, gid, event, err),
	TP_STRUCT__entry(
		__string(dev, dev_name(&dev->ibdev.dev))
		__string(event, event)
		__array(u8, gid, 16)
		__field(int, err)
	),
	TP_fast_assign(
		agg_assign_str(dev, dev_name(&dev->ibdev.dev));
		agg_assign_str(event, event);
		memcpy(__entry->gid, gid->raw, 16);
		__entry->err = err;
	),
	TP_printk("%s peer %pI6c %s err %d", __get_str(dev), __entry->gid, __get_str(event),
		  __entry->err)
);

#endif /* AGG_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
