#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 500
# guests: 1
#
# The home lanes of 32 connections of agg0 with itself (64 flows), under each
# policy: evenness to the last flow, weights, lanes that go, queues.
. "$(dirname "$0")/lib.sh"
test_begin
agg_setup 4

# connect N: makes N connections, says "N connected", and keeps them until its
# standard input ends.
cat > "$AGG_TMP/connect.py" <<- 'END'
	import sys
	import pyverbs.enums as e
	from pyverbs.addr import AHAttr, GlobalRoute
	from pyverbs.cq import CQ
	from pyverbs.device import Context
	from pyverbs.pd import PD
	from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

	number, gid_index = int(sys.argv[1]), int(sys.argv[2])
	ctx = Context(name="agg0")
	gid = ctx.query_gid(1, gid_index)
	pd, cq = PD(ctx), CQ(ctx, 16)
	init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(4, 4, 1, 1))
	pairs = [(QP(pd, init), QP(pd, init)) for _ in range(number)]


	def attr(peer):
	    a = QPAttr(port_num=1)
	    a.ah_attr = AHAttr(port_num=1, is_global=1,
	                       gr=GlobalRoute(dgid=gid, sgid_index=gid_index, hop_limit=64))
	    a.dest_qp_num, a.path_mtu, a.min_rnr_timer = peer.qp_num, e.IBV_MTU_1024, 12
	    a.timeout, a.retry_cnt, a.rnr_retry = 18, 7, 7
	    a.max_rd_atomic, a.max_dest_rd_atomic = 1, 1
	    a.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE
	    return a


	for a, b in pairs:
	    a.to_rtr(attr(b))
	    b.to_rts(attr(a))
	    a.to_rts(attr(b))
	print(number, "connected", flush=True)
	sys.stdin.read()
END

# Connections begin and end with these two.
connect() {
	rm -f "$AGG_TMP/stop" "$AGG_TMP/connect.out"
	mkfifo "$AGG_TMP/stop"
	python3 "$AGG_TMP/connect.py" "$1" "$(gid_index agg0 "$MY_MGMT")" \
		< "$AGG_TMP/stop" > "$AGG_TMP/connect.out" 2>&1 &
	connect_pid=$!
	exec 7> "$AGG_TMP/stop"
	wait_for 60 grep -q "connected\|Error" "$AGG_TMP/connect.out"
	grep -q connected "$AGG_TMP/connect.out"
}
disconnect() {
	exec 7>&-
	wait "$connect_pid"
}
flows() { rdma-agg -j lane show agg0 | grep -o '"flows":[0-9]*' | cut -d: -f2 | paste -sd' '; }
# connected FLOWS DESCRIPTION: with 32 connections the lanes have so many flows each
connected() {
	if connect 32; then
		is "$2" "$(flows)" "$1"
	else
		bail "$2: $(< "$AGG_TMP/connect.out")"
	fi
}

for policy in hash least rr numa; do
	rdma-agg dev set agg0 policy $policy
	connected "16 16 16 16" "$policy spreads evenly"
	if [[ $policy == hash ]]; then
		is "a connection has one lane at both ends, and both know it" \
			"$(rdma-agg -j qp show agg0 | python3 -c 'import json, sys
qps = {q["qpn"]: q for q in json.load(sys.stdin)}
print(sum(qps[q["peer-qpn"]]["peer-lane-id"] == q["lane-id"] and
          qps[q["peer-qpn"]]["peer-lane-qpn"] == q["lane-qpn"] and
          qps[q["peer-qpn"]]["flow-hash"] == q["flow-hash"] for q in qps.values()))')" 64
		is "all send queues are used" "$(rdma-agg -j qp show agg0 | grep -o '"tx-queue":[0-9]*' |
			sort -u | wc -l)" "$(rdma-agg -j lane show agg0 rxe0 | grep -o '"tx-queues":[0-9]*' | cut -d: -f2)"
	fi
	ok "they end" disconnect
	is "$policy: no flow is left" "$(flows)" "0 0 0 0"
done

# Weights 1:2:3:2 of 64 flows.
i=0
for weight in 100 200 300 200; do
	rdma-agg lane set agg0 rxe$i weight $weight
	i=$((i + 1))
done
for policy in hash least; do
	rdma-agg dev set agg0 policy $policy
	connected "8 16 24 16" "$policy spreads by weight"
	ok "they end" disconnect
done
rdma-agg dev set agg0 policy rr
connected "16 16 16 16" "rr knows no weights"
ok "they end" disconnect
for ((i = 0; i < 4; i++)); do
	rdma-agg lane set agg0 rxe$i weight auto
done

# A lane without carrier is no home for new flows, and is one again.
rdma-agg dev set agg0 policy hash
ip link set lane2 down
state() { rdma-agg lane show agg0 "$1" | grep -q " $2 "; }
ok "lane2 is down" wait_for 10 state rxe2 down
if connect 33; then
	is "the others share" "$(flows)" "22 22 0 22"
else
	fail "the others share" "$(< "$AGG_TMP/connect.out")"
fi
ok "they end" disconnect
ip link set lane2 up
ok "lane2 is up" wait_for 10 state rxe2 up
connected "16 16 16 16" "all share again"
ok "they end" disconnect

# A looser bound leaves more to the hash: uneven, but not beyond it.
rdma-agg param set agg0 load-bound 150
if connect 32; then
	got=$(flows)
	ok "no lane is over the bound: $got" \
		awk -v got="$got" 'BEGIN { n = split(got, f); for (i = 1; i <= n; i++) { sum += f[i]; bad += f[i] > 26 } exit sum != 64 || bad }'
else
	fail "connections with a looser bound" "$(< "$AGG_TMP/connect.out")"
fi
ok "they end" disconnect
rdma-agg param set agg0 load-bound 100

agg_teardown
