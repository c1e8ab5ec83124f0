#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 2
# timeout: 600
#
# Lanes that join a live device serve what is there already: QPs under traffic, the
# memory of which is registered on the new lane, whose keys the peer learns. Every
# lane is replaced once under the same traffic, on both hosts. Memory is registered
# and deregistered meanwhile; memory that cannot be registered any more keeps its
# PD off the lane, and nothing else.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
. "$(dirname "$0")/traffic.sh"

QPS=8
# Without atomics, as in agg_failover.sh.
OPS="-q $QPS -b -M 4 -o send,send_imm,write,write_imm,read"

# at NAME: flows of a lane by the name of its device
at() { rdma-agg -j lane show "$DEV" "$1/1" | tr ',{}' '\n' | sed -n 's/^ *"flows": *//p'; }
busy() { [[ $(at "$1") -gt 0 ]]; }

add() { rdma-agg lane add "$DEV" "rxe$1/1" rail "$1"; }
joins() {
	local i
	for i in 2 3; do
		add "$i" || return
		on_b "rdma-agg lane add $DEV rxe$i/1 rail $i" || return
	done
	wait_for 60 even $QPS
}

# swap LANE FROM TO: another device on the same netdev, on this guest
swap() {
	rdma-agg lane del "$DEV" "$2/1" || return
	rdma link delete "$2" || return
	rdma link add "$3" type rxe netdev "lane$1" || return
	wait_for 10 gid_index "$3" "$(my_lane "$1")" > /dev/null || return
	rdma-agg lane add "$DEV" "$3/1" rail "$1"
}
swap_there() { there "$(declare -f swap); swap $*"; }
swaps() {
	local i
	for ((i = 0; i < AGG_LANES; i++)); do
		swap "$i" "rxe$i" "port$i" || return
		wait_for 60 busy "port$i" || return
		swap_there "$i" "rxe$i" "port$i" || return
		wait_for 60 busy "port$i" || return
	done
	# And for their names.
	for ((i = 0; i < AGG_LANES; i++)); do
		swap "$i" "port$i" "rxe$i" || return
		swap_there "$i" "port$i" "rxe$i" || return
	done
	wait_for 90 even $QPS
}

begins() { grep -q ready "$AGG_TMP/$1"; }
memory() {
	python3 "$AGG_REPO/selftests/memory.py" "$1" "$DEV" > "$AGG_TMP/$1" 2>&1 &
	pid=$!
	wait_for 60 begins "$1"
}
ends() { kill "$pid" && wait "$pid"; }

come_and_go() {
	local i
	for ((i = 0; i < $(few 8 4); i++)); do
		rdma-agg lane del "$DEV" "rxe$((i % AGG_LANES))/1" || return
		add $((i % AGG_LANES)) || return
	done
}

test_begin
dev_setup "$AGG_LANES"
no_retries
for i in 2 3; do both rdma-agg lane del "$DEV" "rxe$i/1"; done

ok "lanes join under traffic, and get their share" while_traffic "$OPS" joins
ok "all lanes are replaced under traffic" while_traffic "$OPS" swaps
is "no QP was lost" "$(count failovers_lost)" 0
is "nor by the peer" "$(on_b "$(declare -f count); DEV=$DEV count failovers_lost")" 0

ok "memory is registered again and again" memory churn
ok "lanes leave and return meanwhile" come_and_go
ok "which nobody notices" ends

rdma-agg lane del "$DEV" rxe3/1
ok "an application unmaps memory that it has registered" memory stale
ok "a lane that joins" add 3
refused() { dmesg | grep -q "lane rxe3/1: memory of an application cannot be registered (-14)"; }
ok "is told of as not for it" wait_for 20 refused
ok "the application ends as ever" ends
ok "the lane serves others" while_traffic "$OPS" wait_for 60 even $QPS
dev_teardown
