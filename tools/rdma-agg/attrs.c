// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The attribute sets of Documentation/netlink/specs/rdma_agg.yaml.
 * selftests/json_check.py holds what is printed by them against the spec.
 */
#include <string.h>

#include "rdma-agg.h"

#define STRINGS(var, from, ...)						\
	static const char *const var##_list[] = { __VA_ARGS__ };	\
	const struct names names_##var = {				\
		.first = from,						\
		.nr = ARRAY_SIZE(var##_list),				\
		.name = var##_list,					\
	}

STRINGS(policy, 0, "hash", "least", "rr", "numa");
STRINGS(lane_state, 0, "down", "probe", "up", "congested", "paused", "storm");
STRINGS(port_state, 1, "down", "init", "armed", "active", "active-defer");
STRINGS(qp_type, 1, "gsi", "rc", "uc", "ud");
STRINGS(qp_state, 0, "reset", "init", "rtr", "rts", "sqd", "sqe", "err");
STRINGS(cause, 0, "none", "retry", "lane-fault", "lane-down", "lane-gone", "peer", "connect",
	"move", "probe");
STRINGS(lane_admin, 0, "up", "drain", "down");
STRINGS(peer_state, 0, "down", "up");
STRINGS(event, 0, "new", "del", "change");
STRINGS(direction, 0, "tx", "rx");

/* NULL for a value that this version does not know. */
const char *name_of(const struct names *names, uint32_t value)
{
	int i = (int)value - names->first;

	return i >= 0 && i < names->nr ? names->name[i] : NULL;
}

int value_of(const struct names *names, const char *name)
{
	for (int i = 0; i < names->nr; i++)
		if (!strcmp(names->name[i], name))
			return names->first + i;
	return -1;
}

#define A(key, k)	{ .name = key, .kind = ATTR_##k }
#define ENUM(key, n)	{ .name = key, .kind = ATTR_ENUM, .names = &names_##n }

static const struct attr dev_attrs[RDMA_AGG_A_DEV_MAX + 1] = {
	[RDMA_AGG_A_DEV_DEV_INDEX]	= A("dev-index", U32),
	[RDMA_AGG_A_DEV_DEV_NAME]	= A("dev-name", STRING),
	[RDMA_AGG_A_DEV_EVENT]		= ENUM("event", event),
	[RDMA_AGG_A_DEV_IFINDEX]	= A("ifindex", U32),
	[RDMA_AGG_A_DEV_IFNAME]		= A("ifname", STRING),
	[RDMA_AGG_A_DEV_NODE_GUID]	= A("node-guid", HEX64),
	[RDMA_AGG_A_DEV_INSTANCE]	= A("instance", HEX64),
	[RDMA_AGG_A_DEV_PORT_STATE]	= ENUM("port-state", port_state),
	[RDMA_AGG_A_DEV_SPEED]		= A("speed", U64),
	[RDMA_AGG_A_DEV_MTU]		= A("mtu", U32),
	[RDMA_AGG_A_DEV_POLICY]		= ENUM("policy", policy),
	[RDMA_AGG_A_DEV_LANES]		= A("lanes", U32),
	[RDMA_AGG_A_DEV_USABLE_LANES]	= A("usable-lanes", U32),
	[RDMA_AGG_A_DEV_QPS]		= A("qps", U32),
	[RDMA_AGG_A_DEV_LANES_EPOCH]	= A("lanes-epoch", U32),
};

const struct set set_dev = { dev_attrs, RDMA_AGG_A_DEV_MAX };

static const struct attr lane_attrs[RDMA_AGG_A_LANE_MAX + 1] = {
	[RDMA_AGG_A_LANE_DEV_INDEX]	= A("dev-index", U32),
	[RDMA_AGG_A_LANE_DEV_NAME]	= A("dev-name", STRING),
	[RDMA_AGG_A_LANE_EVENT]		= ENUM("event", event),
	[RDMA_AGG_A_LANE_IBDEV_NAME]	= A("ibdev-name", STRING),
	[RDMA_AGG_A_LANE_IBDEV_PORT]	= A("ibdev-port", U32),
	[RDMA_AGG_A_LANE_LANE_ID]	= A("lane-id", U32),
	[RDMA_AGG_A_LANE_IFNAME]	= A("ifname", STRING),
	[RDMA_AGG_A_LANE_RAIL]		= A("rail", U32),
	[RDMA_AGG_A_LANE_WEIGHT]	= A("weight", U32),
	[RDMA_AGG_A_LANE_WEIGHT_FIXED]	= A("weight-fixed", U8),
	[RDMA_AGG_A_LANE_STATE]		= ENUM("state", lane_state),
	[RDMA_AGG_A_LANE_OLD_STATE]	= ENUM("old-state", lane_state),
	[RDMA_AGG_A_LANE_SPEED]		= A("speed", U32),
	[RDMA_AGG_A_LANE_MTU]		= A("mtu", U32),
	[RDMA_AGG_A_LANE_NUMA_NODE]	= A("numa-node", S32),
	[RDMA_AGG_A_LANE_GID]		= { .name = "gid", .kind = ATTR_GID, .multi = true },
	[RDMA_AGG_A_LANE_TX_QUEUES]	= A("tx-queues", U32),
	[RDMA_AGG_A_LANE_RX_QUEUES]	= A("rx-queues", U32),
	[RDMA_AGG_A_LANE_FLOWS]		= A("flows", U32),
	[RDMA_AGG_A_LANE_QPS]		= A("qps", U32),
	[RDMA_AGG_A_LANE_OUTSTANDING_BYTES] = A("outstanding-bytes", U64),
	[RDMA_AGG_A_LANE_STATE_CHANGES]	= A("state-changes", U64),
	[RDMA_AGG_A_LANE_CREATED]	= A("created", U64),
	[RDMA_AGG_A_LANE_ADMIN]		= ENUM("admin", lane_admin),
	[RDMA_AGG_A_LANE_PATHS]		= A("paths", U32),
	[RDMA_AGG_A_LANE_PATHS_DEAD]	= A("paths-dead", U32),
};

const struct set set_lane = { lane_attrs, RDMA_AGG_A_LANE_MAX };

static const struct attr peer_attrs[RDMA_AGG_A_PEER_MAX + 1] = {
	[RDMA_AGG_A_PEER_DEV_INDEX]	= A("dev-index", U32),
	[RDMA_AGG_A_PEER_DEV_NAME]	= A("dev-name", STRING),
	[RDMA_AGG_A_PEER_EVENT]		= ENUM("event", event),
	[RDMA_AGG_A_PEER_GID]		= A("gid", GID),
	[RDMA_AGG_A_PEER_SGID]		= A("sgid", GID),
	[RDMA_AGG_A_PEER_STATE]		= ENUM("state", peer_state),
	[RDMA_AGG_A_PEER_ERROR]		= A("error", U32),
	[RDMA_AGG_A_PEER_INSTANCE]	= A("instance", HEX64),
	[RDMA_AGG_A_PEER_LANES]		= A("lanes", U32),
	[RDMA_AGG_A_PEER_KEYS]		= A("keys", U32),
	[RDMA_AGG_A_PEER_QPS]		= A("qps", U32),
	[RDMA_AGG_A_PEER_SINCE]		= A("since", U64),
	[RDMA_AGG_A_PEER_TX_MESSAGES]	= A("tx-messages", U64),
	[RDMA_AGG_A_PEER_RX_MESSAGES]	= A("rx-messages", U64),
	[RDMA_AGG_A_PEER_RECONNECTS]	= A("reconnects", U64),
};

const struct set set_peer = { peer_attrs, RDMA_AGG_A_PEER_MAX };

static const struct attr qp_attrs[RDMA_AGG_A_QP_MAX + 1] = {
	[RDMA_AGG_A_QP_DEV_INDEX]	= A("dev-index", U32),
	[RDMA_AGG_A_QP_DEV_NAME]	= A("dev-name", STRING),
	[RDMA_AGG_A_QP_EVENT]		= ENUM("event", event),
	[RDMA_AGG_A_QP_QPN]		= A("qpn", U32),
	[RDMA_AGG_A_QP_TYPE]		= ENUM("type", qp_type),
	[RDMA_AGG_A_QP_STATE]		= ENUM("state", qp_state),
	[RDMA_AGG_A_QP_SGID]		= A("sgid", GID),
	[RDMA_AGG_A_QP_PEER_GID]	= A("peer-gid", GID),
	[RDMA_AGG_A_QP_PEER_QPN]	= A("peer-qpn", U32),
	[RDMA_AGG_A_QP_ATTACHED]	= A("attached", U8),
	[RDMA_AGG_A_QP_FLOW_HASH]	= A("flow-hash", HEX32),
	[RDMA_AGG_A_QP_LANE_ID]		= A("lane-id", U32),
	[RDMA_AGG_A_QP_IBDEV_NAME]	= A("ibdev-name", STRING),
	[RDMA_AGG_A_QP_IBDEV_PORT]	= A("ibdev-port", U32),
	[RDMA_AGG_A_QP_TX_QUEUE]	= A("tx-queue", U32),
	[RDMA_AGG_A_QP_RX_QUEUE]	= A("rx-queue", U32),
	[RDMA_AGG_A_QP_LANE_QPN]	= A("lane-qpn", U32),
	[RDMA_AGG_A_QP_PEER_LANE_ID]	= A("peer-lane-id", U32),
	[RDMA_AGG_A_QP_PEER_LANE_GID]	= A("peer-lane-gid", GID),
	[RDMA_AGG_A_QP_PEER_LANE_QPN]	= A("peer-lane-qpn", U32),
	[RDMA_AGG_A_QP_PID]		= A("pid", U32),
	[RDMA_AGG_A_QP_COMM]		= A("comm", STRING),
	[RDMA_AGG_A_QP_CREATED]		= A("created", U64),
	[RDMA_AGG_A_QP_EPOCH]		= A("epoch", U32),
	[RDMA_AGG_A_QP_FAILING]		= A("failing", U8),
	[RDMA_AGG_A_QP_FAILOVERS]	= A("failovers", U32),
	[RDMA_AGG_A_QP_FAILOVER_CAUSE]	= ENUM("failover-cause", cause),
	[RDMA_AGG_A_QP_FAILOVER_LAST]	= A("failover-last", U32),
	[RDMA_AGG_A_QP_FAILOVER_MAX]	= A("failover-max", U32),
	[RDMA_AGG_A_QP_MOVES]		= A("moves", U32),
	[RDMA_AGG_A_QP_REQUESTS_REPLAYED] = A("requests-replayed", U64),
	[RDMA_AGG_A_QP_REQUESTS_RESOLVED] = A("requests-resolved", U64),
};

const struct set set_qp = { qp_attrs, RDMA_AGG_A_QP_MAX };

static const struct attr queue_attrs[RDMA_AGG_A_QUEUE_MAX + 1] = {
	[RDMA_AGG_A_QUEUE_DIRECTION]	= ENUM("direction", direction),
	[RDMA_AGG_A_QUEUE_INDEX]	= A("index", U32),
	[RDMA_AGG_A_QUEUE_VECTOR]	= A("vector", U32),
	[RDMA_AGG_A_QUEUE_SIZE]		= A("size", U32),
	[RDMA_AGG_A_QUEUE_RESERVED]	= A("reserved", U32),
	[RDMA_AGG_A_QUEUE_INTERRUPTS]	= A("interrupts", U64),
	[RDMA_AGG_A_QUEUE_COMPLETIONS]	= A("completions", U64),
	[RDMA_AGG_A_QUEUE_RESCHEDULES]	= A("reschedules", U64),
	[RDMA_AGG_A_QUEUE_BATCH_MAX]	= A("batch-max", U32),
};

const struct set set_queue = { queue_attrs, RDMA_AGG_A_QUEUE_MAX };

static const struct attr stat_attrs[RDMA_AGG_A_STAT_MAX + 1] = {
	[RDMA_AGG_A_STAT_DEV_INDEX]		= A("dev-index", U32),
	[RDMA_AGG_A_STAT_DEV_NAME]		= A("dev-name", STRING),
	[RDMA_AGG_A_STAT_IBDEV_NAME]		= A("ibdev-name", STRING),
	[RDMA_AGG_A_STAT_IBDEV_PORT]		= A("ibdev-port", U32),
	[RDMA_AGG_A_STAT_LANE_ID]		= A("lane-id", U32),
	[RDMA_AGG_A_STAT_TX_REQUESTS]		= A("tx-requests", U64),
	[RDMA_AGG_A_STAT_TX_BYTES]		= A("tx-bytes", U64),
	[RDMA_AGG_A_STAT_TX_COMPLETED_REQUESTS]	= A("tx-completed-requests", U64),
	[RDMA_AGG_A_STAT_TX_COMPLETED_BYTES]	= A("tx-completed-bytes", U64),
	[RDMA_AGG_A_STAT_TX_ERRORS]		= A("tx-errors", U64),
	[RDMA_AGG_A_STAT_TX_FLUSHED]		= A("tx-flushed", U64),
	[RDMA_AGG_A_STAT_RX_POSTED]		= A("rx-posted", U64),
	[RDMA_AGG_A_STAT_RX_REQUESTS]		= A("rx-requests", U64),
	[RDMA_AGG_A_STAT_RX_BYTES]		= A("rx-bytes", U64),
	[RDMA_AGG_A_STAT_RX_ERRORS]		= A("rx-errors", U64),
	[RDMA_AGG_A_STAT_RX_FLUSHED]		= A("rx-flushed", U64),
	[RDMA_AGG_A_STAT_OUTSTANDING_REQUESTS]	= A("outstanding-requests", U64),
	[RDMA_AGG_A_STAT_OUTSTANDING_BYTES]	= A("outstanding-bytes", U64),
	[RDMA_AGG_A_STAT_FLOWS]			= A("flows", U32),
	[RDMA_AGG_A_STAT_TRAPS_ARMED]		= A("traps-armed", U64),
	[RDMA_AGG_A_STAT_TRAPS_HIT]		= A("traps-hit", U64),
	[RDMA_AGG_A_STAT_DOORBELLS]		= A("doorbells", U64),
	[RDMA_AGG_A_STAT_CQ_OVERFLOWS]		= A("cq-overflows", U64),
	[RDMA_AGG_A_STAT_BAD_WQES]		= A("bad-wqes", U64),
	[RDMA_AGG_A_STAT_KEY_MISSES]		= A("key-misses", U64),
	[RDMA_AGG_A_STAT_KEYS_ABSENT]		= A("keys-absent", U64),
	[RDMA_AGG_A_STAT_ATTACHES]		= A("attaches", U64),
	[RDMA_AGG_A_STAT_ATTACH_FAILURES]	= A("attach-failures", U64),
	[RDMA_AGG_A_STAT_SESSIONS_UP]		= A("sessions-up", U64),
	[RDMA_AGG_A_STAT_SESSIONS_DOWN]		= A("sessions-down", U64),
	[RDMA_AGG_A_STAT_SESSIONS_REJECTED]	= A("sessions-rejected", U64),
	[RDMA_AGG_A_STAT_BAD_MESSAGES]		= A("bad-messages", U64),
	[RDMA_AGG_A_STAT_QP_ERRORS]		= A("qp-errors", U64),
	[RDMA_AGG_A_STAT_RNR_EXCEEDED]		= A("rnr-exceeded", U64),
	[RDMA_AGG_A_STAT_FAILOVERS]		= A("failovers", U64),
	[RDMA_AGG_A_STAT_FAILOVERS_LOST]	= A("failovers-lost", U64),
	[RDMA_AGG_A_STAT_MOVES]			= A("moves", U64),
	[RDMA_AGG_A_STAT_PATHS_LOST]		= A("paths-lost", U64),
	[RDMA_AGG_A_STAT_REQUESTS_REPLAYED]	= A("requests-replayed", U64),
	[RDMA_AGG_A_STAT_REQUESTS_RESOLVED]	= A("requests-resolved", U64),
	[RDMA_AGG_A_STAT_ATOMICS_LOST]		= A("atomics-lost", U64),
	[RDMA_AGG_A_STAT_QUEUE]			= { .name = "queue", .kind = ATTR_NEST,
						    .multi = true, .nest = &set_queue },
};

const struct set set_stat = { stat_attrs, RDMA_AGG_A_STAT_MAX };

static const struct attr param_attrs[RDMA_AGG_A_PARAM_MAX + 1] = {
	[RDMA_AGG_A_PARAM_DEV_INDEX]		= A("dev-index", U32),
	[RDMA_AGG_A_PARAM_DEV_NAME]		= A("dev-name", STRING),
	[RDMA_AGG_A_PARAM_POLICY]		= ENUM("policy", policy),
	[RDMA_AGG_A_PARAM_LOAD_BOUND]		= A("load-bound", U32),
	[RDMA_AGG_A_PARAM_TX_QUEUES]		= A("tx-queues", U32),
	[RDMA_AGG_A_PARAM_RX_QUEUES]		= A("rx-queues", U32),
	[RDMA_AGG_A_PARAM_SESSION_PORT]		= A("session-port", U16),
	[RDMA_AGG_A_PARAM_CONNECT_TIMEOUT]	= A("connect-timeout", U32),
	[RDMA_AGG_A_PARAM_KEEPALIVE]		= A("keepalive", U32),
	[RDMA_AGG_A_PARAM_RNR_GRACE]		= A("rnr-grace", U32),
	[RDMA_AGG_A_PARAM_ACK_TIMEOUT_MIN]	= A("ack-timeout-min", U32),
	[RDMA_AGG_A_PARAM_ACK_TIMEOUT_MAX]	= A("ack-timeout-max", U32),
	[RDMA_AGG_A_PARAM_PSK]			= A("psk", BINARY),
	[RDMA_AGG_A_PARAM_PSK_SET]		= A("psk-set", U8),
	[RDMA_AGG_A_PARAM_FAILOVER_TIMEOUT]	= A("failover-timeout", U32),
	[RDMA_AGG_A_PARAM_UPDELAY]		= A("updelay", U32),
	[RDMA_AGG_A_PARAM_PROBE_INTERVAL]	= A("probe-interval", U32),
	[RDMA_AGG_A_PARAM_PROBE_LOST]		= A("probe-lost", U32),
};

const struct set set_param = { param_attrs, RDMA_AGG_A_PARAM_MAX };
