#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 2
# timeout: 600
#
# Lanes die and come back under traffic of which every byte, completion, order
# and total is checked at both ends (verify.c): by carrier, by the CLI, with
# their RDMA device, silently, one after the other, all at once, on either host.
# Atomics are left out of it, since the one whose answer dies with its path ends
# its QP; that is tested by itself. AGG_SEED repeats a sequence, AGG_FLAPS says how
# many failures each round has.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"

RANDOM=${AGG_SEED:=$((RANDOM + 1))}
FLAPS=${AGG_FLAPS:-$(few 10 5)}
OPS="-o send,send_imm,write,write_imm,read"
# Where a lane loses packets for a moment and goes on there are no READs: soft-RoCE
# calls one a success when the middle of its answer was lost (rxe_completer warns
# of it), on a bare lane just as well.
NO_READS="-o send,send_imm,write,write_imm"

between() {
	PAIR_TIMEOUT=200 pair "verify -d $DEV -g $GID" "verify -d $DEV -g $GID $1 $PEER_IP"
}

moment() { sleep "0.$((RANDOM % 9))$((RANDOM % 10))"; }

down_up() { ip link set "lane$1" down; moment; ip link set "lane$1" up; }
peer_down_up() { on_b "ip link set lane$1 down; sleep 0.$((RANDOM % 9)); ip link set lane$1 up"; }
both_down_up() {
	on_b "ip link set lane$1 down"
	ip link set "lane$1" down
	moment
	on_b "ip link set lane$1 up"
	ip link set "lane$1" up
}
all_down_up() {
	local i
	for ((i = 0; i < AGG_LANES; i++)); do ip link set "lane$i" down; done
	moment
	for ((i = 0; i < AGG_LANES; i++)); do ip link set "lane$i" up; done
}
del_add() {
	rdma-agg lane del "$DEV" "rxe$1/1"
	moment
	rdma-agg lane add "$DEV" "rxe$1/1" rail "$1"
}
unplug() {
	rdma link delete "rxe$1"
	moment
	rdma link add "rxe$1" type rxe netdev "lane$1"
	wait_for 10 gid_index "rxe$1" "$(my_lane "$1")"
	rdma-agg lane add "$DEV" "rxe$1/1" rail "$1"
}

connected() { [[ $(rdma-agg -j qp show "$DEV" | grep -o '"rts"' | wc -l) -ge $1 ]]; }

# flaps COUNT QPS TRIGGER...: so many failures, of random lanes, while a test with
# so many QPs runs.
flaps() {
	local n=$1 qps=$2 i
	shift 2
	local triggers=("$@")
	# A connection that is being made finds no lane when all are down.
	wait_for 60 connected "$qps"
	for ((i = 0; i < n; i++)); do
		sleep 0.5
		"${triggers[RANDOM % ${#triggers[@]}]}" $((RANDOM % AGG_LANES))
	done
}

# A lane that was removed serves only what is created after it came back, so a
# round may not remove all of them.
surviving() {
	local count=$1 options=$2 pid rc=0
	shift 2
	[[ $options =~ -q\ ([0-9]+) ]]
	flaps "$count" "${BASH_REMATCH[1]}" "$@" > "$AGG_TMP/failures" 2>&1 &
	pid=$!
	between "$options" || rc=1
	wait "$pid"
	for ((i = 0; i < AGG_LANES; i++)); do
		wait_for 10 lane_is "rxe$i/1" up || rc=1
	done
	[[ $rc -eq 0 ]] || { echo "failures, seed $AGG_SEED:"; cat "$AGG_TMP/failures"; }
	return $rc
}

lane_is() { rdma-agg lane show "$DEV" "$1" | grep -qw "$2"; }
count() { rdma statistic show link "$DEV/1" | tr ' ' '\n' | grep -A1 "^$1\$" | tail -n 1; }
more_than() { [[ $(count "$1") -gt $2 ]]; }

hole() {
	tc qdisc add dev "lane$1" clsact
	tc filter add dev "lane$1" egress matchall action drop
}
unhole() { tc qdisc del dev "lane$1" clsact; }

test_begin
dev_setup "$AGG_LANES"
echo "# seed $AGG_SEED"

ok "carrier, 1 QP" surviving "$FLAPS" "-T 10 -q 1 $NO_READS" down_up peer_down_up both_down_up
ok "carrier, 8 QPs both ways" surviving "$FLAPS" "-T 10 -q 8 -b -e $NO_READS" \
	down_up peer_down_up both_down_up all_down_up
ok "carrier, 64 QPs" surviving "$FLAPS" "-T 10 -q 64 -e -s 0-16k $NO_READS" \
	down_up peer_down_up both_down_up all_down_up
ok "lanes removed by the CLI" surviving 3 "-T 8 -q 8 -b $OPS" del_add
ok "lanes lose their device" surviving 2 "-T 8 -q 8 -b -e $OPS" unplug
ok "paths were changed" more_than failovers "$(few 20 5)"
ok "requests were sent again" more_than requests_replayed 0
is "no QP was lost" "$(count failovers_lost)" 0
is "no atomic was lost" "$(count atomics_lost)" 0

# The lane's own retries find out: 7 times 2.1 s.
hole 1
( sleep 25; unhole 1 ) &
ok "a lane that swallows packets" between "-T 5 -q 8 -b $NO_READS"
unhole 1 2> /dev/null
wait

# No lane at all: work waits, and goes on.
sleepers() {
	all_down() { for ((i = 0; i < AGG_LANES; i++)); do ip link set "lane$i" "$1"; done; }
	( sleep 2; all_down down; sleep 5; all_down up ) &
	between "-T 6 -q 8 -b -e $NO_READS" || return
	wait
}
ok "no lane for 5 s" sleepers

# ... but not for ever.
rdma-agg param set "$DEV" failover-timeout 2s
on_b "rdma-agg param set $DEV failover-timeout 2s"
lost() {
	# They come back while the application ends: packets that a NIC has not
	# sent keep a QP of soft-RoCE from being destroyed.
	( sleep 2; all_down down; sleep 8; all_down up ) &
	! between "-T 6 -q 2 -b $NO_READS" > "$AGG_TMP/lost" 2>&1 || return
	wait
	cat "$AGG_TMP/lost"
	grep -q "transport retry counter exceeded" "$AGG_TMP/lost"
}
ok "no lane for longer than failover-timeout is an error" lost
# By the end that came first: the other one hears of it.
counted() {
	local lost
	lost=$(both rdma statistic show link "$DEV/1" | grep -o "failovers_lost [0-9]*")
	echo "$lost"
	[[ $lost == *" "[1-9]* ]]
}
ok "which is counted" counted
for ((i = 0; i < AGG_LANES; i++)); do ip link set "lane$i" up; done
for ((i = 0; i < AGG_LANES; i++)); do wait_for 10 lane_is "rxe$i/1" up; done
ok "all is well again" between "-n 20 -q 8 -b -e"
dev_teardown
