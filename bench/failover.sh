#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# How long the QPs of a lane that loses its carrier are without a path (`sudo make bench`).
#
# One guest, one vCPU, and a clock that counts instructions, as in overhead.sh. 64
# connections from agg0 to itself, of both ends of which the lane goes down while they
# carry checked traffic (verify.c): so the one processor does the work of both hosts,
# 128 failovers at once. The figure is the module's own, per QP: from when it notices
# that the path has failed to when it posts on the next one (`qp show -d`, LAST). All of
# them are on one lane, since the other one has next to no weight.
#
#   longest of 128 <= 10 ms
#
#   failover.sh [--save] [options of qemu/run.sh]
#   KERNELS="6.1 6.12"   ROUNDS=3   QPS=64
#
# --save keeps the figures in bench/results/failover-SERIES.txt.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
rounds=${ROUNDS:-3}
qps=${QPS:-64}

if [[ -z ${AGG_ROLE:-} ]]; then
	. "$here/host.sh"
	in_guest failover 2 900 "ROUNDS=$rounds QPS=$qps" 'failure|carrier' "$@"
	exit
fi

# --------------------------------------------------------------- in the guest

. "$here/../selftests/lib.sh"
. "$here/../selftests/dev.sh"
. "$here/../selftests/traffic.sh"

AGG_LANES=2
dmesg_mark
lanes_up 2 > /dev/null || exit 1
# shellcheck disable=SC2119
agg_load_here && agg_dev_here agg0 2 || exit 1
rdma-agg lane set agg0 rxe0/1 weight 1000000 && rdma-agg lane set agg0 rxe1/1 weight 1 || exit 1

# shellcheck disable=SC2317 # called by while_traffic
{
# times: LAST of each QP, in us
times() { rdma-agg -j qp show agg0 | tr ',{}' '\n' | sed -n 's/^ *"failover-last": *//p'; }
failed_over() { [[ $(times | wc -l) -eq $((2 * qps)) ]]; }
outage() {
	[[ $(field 0 flows) -eq $((2 * qps)) ]] || { echo "not all flows are on one lane"; return 1; }
	ip link set lane0 down
	wait_for 60 failed_over || return
	times | sort -n > "$AGG_TMP/times"
	ip link set lane0 up
	wait_for 60 lane_is 0 up
}
}

bad=0
printf '%-26s %8s %8s %8s  %s\n' "failure, QPs at both ends" median longest unit wanted
for ((i = 0; i < rounds; i++)); do
	rm -f "$AGG_TMP/times"
	while_traffic "-q $qps -e -s 0-4k -o send,write" outage || { bad=1; break; }
	awk -v n=$((2 * qps)) '{ v[NR] = $1 } END {
		ok = NR == n && v[NR] <= 10000
		printf "%-26s %8.2f %8.2f %8s  <= 10 %s\n", "carrier, " n, v[int((NR + 1) / 2)] / 1000,
		       v[NR] / 1000, "ms", ok ? "ok" : "MISSED"
		exit !ok }' "$AGG_TMP/times" || bad=1
done

rdma-agg dev del agg0 && agg_unload_here || bad=1
lanes_down
check_dmesg || bad=1
exit $bad
