#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 2
# timeout: 400
#
# QPs move between lanes that are well: off one that drains, and back to one that
# returns, under traffic of which everything is checked (verify.c), atomics
# included. Nothing fails meanwhile, and nothing is repeated.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
. "$(dirname "$0")/traffic.sh"

QPS=8

is_lane() { rdma-agg lane show "$DEV" | awk -v l="rxe$1/1" '$2 == l' | grep -q .; }
flows_are() { field_is "$1" flows "$2"; }

drain() {
	"$@" "rdma-agg lane set $DEV rxe1/1 admin drain" || return
	wait_for 30 flows_are 1 0 || return
	sleep 1
	flows_are 1 0 || return
	"$@" "rdma-agg lane set $DEV rxe1/1 admin up" || return
	wait_for 60 even $QPS
}

down_up() {
	rdma-agg lane set "$DEV" rxe2/1 admin down || return
	wait_for 30 flows_are 2 0 || return
	rdma-agg lane show "$DEV" rxe2/1 | grep -q "down (admin)" || return
	rdma-agg lane set "$DEV" rxe2/1 admin up || return
	wait_for 60 even $QPS
}

carrier() {
	ip link set lane0 down
	wait_for 30 flows_are 0 0 || return
	ip link set lane0 up
	wait_for 60 even $QPS
}

remove() {
	rdma-agg lane del "$DEV" rxe3/1 || return
	! is_lane 3 || return
	sleep 1
}

test_begin
dev_setup "$AGG_LANES"

ok "a lane drains under load" while_traffic "-q $QPS -b" drain here
ok "a lane drains that the peer wants to drain" while_traffic "-q $QPS -b -e" drain on_b
ok "small requests, one by one" while_traffic "-q $QPS -b -e -B 1 -w 1 -s 0-1k" drain here
is "nothing has failed" "$(count failovers)" 0
is "nothing was sent again" "$(count requests_replayed)" 0
ok "QPs have moved" [ "$(count moves)" -ge 8 ]
is "no QP is lost" "$(count qp_errors)" 0
ok "a lane is taken down, and comes back" while_traffic "-q $QPS -b $NO_READS" down_up
ok "QPs return to a lane that returns" while_traffic "-q $QPS -b $NO_READS" carrier
before=$(count failovers)
ok "a lane is removed under load" while_traffic "-q $QPS -b" remove
is "without a failure" "$(count failovers)" "$before"
is "no atomic is lost" "$(count atomics_lost)" 0
dev_teardown
