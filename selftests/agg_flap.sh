#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 2
# timeout: 1100
#
# Lanes fail at random, one or two at a time, on either host or on both, and come back,
# under traffic of which every byte, completion, order and total is checked at both
# ends (verify.c): they lose their carrier, are drained, taken down or removed by the
# CLI, lose their RDMA device, or swallow packets in one direction or in both. 1, 8 and
# 64 QPs; 2 and 4 lanes.
#
# Atomics are left out, since the one whose answer dies with its path ends its QP; that
# is tested by itself. AGG_SEED repeats a sequence, AGG_FLAPS says how many failures
# each round has: there are six rounds, three on a debug kernel.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
. "$(dirname "$0")/traffic.sh"

RANDOM=${AGG_SEED:=$((RANDOM + 1))}
FLAPS=${AGG_FLAPS:-$(few 18 8)}

# Triggers, of lane $1, back after $2 seconds.
carrier() { ip link set "lane$1" down; sleep "$2"; ip link set "lane$1" up; }
peer_carrier() { there "$(declare -f carrier); carrier $*"; }
both_carrier() { peer_carrier "$@" & carrier "$@"; wait $!; }
drain() {
	rdma-agg lane set "$DEV" "rxe$1/1" admin drain || return
	sleep "$2"
	rdma-agg lane set "$DEV" "rxe$1/1" admin up
}
peer_drain() { there "$(declare -f drain); drain $*"; }
taken_down() {
	rdma-agg lane set "$DEV" "rxe$1/1" admin down || return
	sleep "$2"
	rdma-agg lane set "$DEV" "rxe$1/1" admin up
}
removed() {
	rdma-agg lane del "$DEV" "rxe$1/1" || return
	sleep "$2"
	rdma-agg lane add "$DEV" "rxe$1/1" rail "$1"
}
peer_removed() { there "$(declare -f removed); removed $*"; }
unplugged() {
	rdma link delete "rxe$1" || return
	sleep "$2"
	rdma link add "rxe$1" type rxe netdev "lane$1" || return
	wait_for 10 gid_index "rxe$1" "$(my_lane "$1")" || return
	rdma-agg lane add "$DEV" "rxe$1/1" rail "$1"
}
peer_unplugged() { there "$(declare -f unplugged); unplugged $*"; }
# Time for the probes to find out.
deaf() { HOLE=$((100 + $1)); hole "lane$1" || return; sleep 2; unhole "lane$1"; }
peer_deaf() { there "$(declare -f deaf); deaf $*"; }
both_deaf() { peer_deaf "$@" & deaf "$@"; wait $!; }

TRIGGERS=(carrier peer_carrier both_carrier drain peer_drain taken_down removed
	  peer_removed unplugged peer_unplugged deaf peer_deaf both_deaf)

# fails TRIGGER LANE SECONDS
fails() {
	local rc=0
	"$@" || rc=$?
	[[ $rc -eq 0 ]] || echo "$*: exit $rc"
	return $rc
}

# flaps COUNT LANES: so many failures, of random lanes, two at a time now and then
flaps() {
	local n=0 lane pid rc=0
	while [[ $n -lt $1 ]]; do
		lane=$((RANDOM % $2))
		pid=
		if [[ $((RANDOM % 3)) -eq 0 ]]; then
			next
			fails "$trigger" "$(((lane + 1) % $2))" "$span" &
			pid=$!
			n=$((n + 1))
		fi
		next
		fails "$trigger" "$lane" "$span" || rc=1
		[[ -z $pid ]] || wait "$pid" || rc=1
		n=$((n + 1))
		sleep "0.$((RANDOM % 6))"
	done
	return $rc
}
next() {
	trigger=${TRIGGERS[RANDOM % ${#TRIGGERS[@]}]}
	span=0.$((RANDOM % 10))
	echo "$trigger" >> "$AGG_TMP/triggers"
}

# surviving LANES OPTIONS
surviving() {
	local lanes=$1 options=$2 rc=0 i
	TRAFFIC_MAX=900 while_traffic "$options $NO_READS" flaps "$FLAPS" "$lanes" || rc=1
	for ((i = 0; i < lanes; i++)); do
		wait_for 10 lane_is "$i" up || { echo "lane $i is not up"; rc=1; }
		wait_for 10 there lane_is "$i" up || { echo "the peer's lane $i is not up"; rc=1; }
	done
	[[ $rc -eq 0 ]] || { echo "failures, seed $AGG_SEED:"; cat "$AGG_TMP/meanwhile"; }
	return $rc
}

rounds() {
	ok "1 QP, $1 lanes" surviving "$1" "-q 1"
	ok "8 QPs both ways, $1 lanes" surviving "$1" "-q 8 -b -e"
	ok "64 QPs, $1 lanes" surviving "$1" "-q 64 -e -s 0-16k"
}

test_begin
dev_setup "$AGG_LANES"
both modprobe -a sch_ingress cls_matchall act_gact
diag "seed $AGG_SEED"

rounds "$AGG_LANES"
if [[ $AGG_LANES -gt 2 && $AGG_SLOW -eq 0 ]]; then
	for ((i = 2; i < AGG_LANES; i++)); do both rdma-agg lane del "$DEV" "rxe$i/1"; done
	rounds 2
	for ((i = 2; i < AGG_LANES; i++)); do both rdma-agg lane add "$DEV" "rxe$i/1" rail "$i"; done
fi
diag "failures: $(sort "$AGG_TMP/triggers" | uniq -c | awk '{ n += $1; s = s " " $2 " " $1 } END { print n ":" s }')"
ok "paths were changed" more_than failovers "$(few 20 5)"
ok "requests were sent again" more_than requests_replayed 0
is "no QP was lost" "$(count failovers_lost)" 0
is "nor by the peer" "$(there count failovers_lost)" 0
is "no atomic was lost" "$(count atomics_lost)" 0
dev_teardown
