#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 2
# timeout: 500
#
# Lanes whose carrier is there and whose packets are not: in one direction, in the
# other, in both. Probes find out, QPs leave, and come back with the packets, under
# traffic of which everything is checked (verify.c). A lane that returns carries
# nothing before a peer has answered over it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
. "$(dirname "$0")/traffic.sh"

QPS=8
OPS="-q $QPS $NO_READS"

dead() { field_is "$1" paths-dead "${2:-1}"; }

# each WORDS: with these, on both at the same time
each() {
	there "$@" &
	"$@" && wait $!
}

ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

# lost LANE HERE THERE: what comes in is lost on these sides
lost() {
	local lane=$1 since
	[[ -z $2 ]] || hole "lane$lane" || return
	[[ -z $3 ]] || there hole "lane$lane" || return
	since=$(ms)
	# Half the time that the lane's own retries take.
	wait_for 8 dead "$lane" || return
	echo "lane $lane is found out after $(($(ms) - since)) ms" >> "$AGG_TMP/times"
	wait_for 8 field_is "$lane" flows 0 || return
	lane_is "$lane" up || return
	[[ -z $2 ]] || unhole "lane$lane" || return
	[[ -z $3 ]] || there unhole "lane$lane" || return
	since=$(ms)
	# A dead path is asked again after 5 s at the latest.
	wait_for 10 dead "$lane" 0 || return
	echo "and found well after $(($(ms) - since)) ms" >> "$AGG_TMP/times"
	wait_for 60 even $QPS
}

# Nothing at all comes from the peer: that is no reason to leave a path.
silent() {
	local before lanes=() i
	for ((i = 0; i < AGG_LANES; i++)); do lanes+=("lane$i"); done
	before="$(count paths_lost) $(there count paths_lost)"
	# With the session, which tells of the peer's life.
	each hole mgmt0 "${lanes[@]}" || return
	sleep 3
	each unhole mgmt0 "${lanes[@]}" || return
	echo "paths lost: $before, then $(count paths_lost) $(there count paths_lost)"
	[[ "$(count paths_lost) $(there count paths_lost)" == "$before" ]]
}

# It returns while the peer's packets are lost on it.
returns() {
	ip link set lane2 down
	wait_for 10 lane_is 2 down || return
	there hole lane2 || return
	ip link set lane2 up
	wait_for 10 lane_is 2 probe || return
	# It is asked for again and again, and stays what it is.
	sleep 3
	lane_is 2 probe || return
	field_is 2 flows 0 || return
	there unhole lane2 || return
	wait_for 10 lane_is 2 up || return
	wait_for 60 even $QPS
}

updelay() {
	local since
	rdma-agg param set "$DEV" updelay 2s || return
	ip link set lane3 down
	wait_for 10 lane_is 3 down || return
	since=$(ms)
	ip link set lane3 up
	wait_for 10 lane_is 3 probe || return
	wait_for 10 lane_is 3 up || return
	since=$(($(ms) - since))
	echo "up after $since ms"
	rdma-agg param set "$DEV" updelay 0
	[[ $since -ge 2000 ]]
}

# The lane's own retries find out: 6 times 2.1 s, also if 7 are asked for.
retries() {
	there hole lane1 || return
	wait_for 40 field_is 1 flows 0 || return
	dead 1 0 || return
	there unhole lane1
}

test_begin
dev_setup "$AGG_LANES"
both modprobe -a sch_ingress cls_matchall act_gact

ok "what is sent is lost" while_traffic "-b $OPS" lost 1 "" there
ok "which is counted" more_than paths_lost 0
ok "paths were changed" more_than failovers 0
ok "what the peer sends is lost" while_traffic "-b $OPS" lost 2 here ""
ok "both, with traffic one way" while_traffic "-e $OPS" lost 3 here there
while read -r line; do diag "$line"; done < "$AGG_TMP/times"
is "no QP is lost" "$(count failovers_lost)" 0
ok "a lane that returns must be answered on" while_traffic "-b $OPS" returns
ok "updelay" while_traffic "$OPS" updelay
ok "a peer that is silent on all" while_traffic "-b $OPS" silent
ok "without probes" both rdma-agg param set "$DEV" probe-interval 0
ok "retries end a path" while_traffic "-b $OPS" retries
is "no QP is lost" "$(count failovers_lost)" 0
dev_teardown
