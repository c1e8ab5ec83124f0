#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 2
# timeout: 600
#
# No lane at all: what is sent waits for failover-timeout, goes on when one is back, and
# fails when none is. agg_flap.sh has lanes that fail while others work.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
. "$(dirname "$0")/traffic.sh"

between() {
	PAIR_TIMEOUT=200 pair "verify -d $DEV -g $GID" "verify -d $DEV -g $GID $1 $PEER_IP"
}

test_begin
dev_setup "$AGG_LANES"

all_set() { for ((i = 0; i < AGG_LANES; i++)); do ip link set "lane$i" "$1"; done; }
away() { all_set down; sleep 5; all_set up; sleep 2; }
ok "no lane for 5 s" while_traffic "-q 8 -b -e $NO_READS" away

# ... but not for ever.
rdma-agg param set "$DEV" failover-timeout 2s
on_b "rdma-agg param set $DEV failover-timeout 2s"
lost() {
	# They come back while the application ends: packets that a NIC has not
	# sent keep a QP of soft-RoCE from being destroyed.
	( wait_for 60 connected 2; all_set down; sleep 8; all_set up ) &
	! between "-T 100 -q 2 -b $NO_READS" > "$AGG_TMP/lost" 2>&1 || return
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
for ((i = 0; i < AGG_LANES; i++)); do wait_for 10 lane_is "$i" up; done
ok "all is well again" between "-n 20 -q 8 -b -e"
dev_teardown
