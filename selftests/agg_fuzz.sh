#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 1
# kernels: debug
# timeout: 600
#
# Random input at every surface that the module shows to programs: the netlink
# family (fuzz_nl.c), the rings that a process without privileges maps
# (fuzz_ring.c), the commands it can give (fuzz_uverbs.c).  The kernel has nothing
# to complain of, no object is left, and the device carries traffic afterwards.
#
# 60 s for each on a debug kernel, 10 s on others; AGG_FUZZ_SECONDS says
# otherwise.  The seed is random and is printed; AGG_FUZZ_SEED=N repeats it:
#
#   selftests/qemu/run.sh -n 1 --timeout 4000 --cmd \
#     'AGG_FUZZ_SECONDS=1000 AGG_FUZZ_SEED=7 bash selftests/agg_fuzz.sh'
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
here=$(cd "$(dirname "$0")" && pwd)

seconds=${AGG_FUZZ_SECONDS:-$((AGG_SLOW ? 60 : 10))}
seed=${AGG_FUZZ_SEED:-$SRANDOM}

works() {
	pair "ibv_rc_pingpong -d $DEV -g $GID -n 50" "ibv_rc_pingpong -d $DEV -g $GID -n 50 $PEER_IP"
}

# Every device that chance has made, and then agg0 as it was.
devices_anew() {
	local name i
	for name in $(rdma-agg -j dev show | python3 -c 'import json, sys
for dev in json.load(sys.stdin):
    print(dev["dev-name"])'); do
		rdma-agg dev del "$name" || return
	done
	for ((i = 0; i < AGG_USE_LANES; i++)); do
		res_check "rxe$i" || return
	done
	agg_dev_here agg0 && rdma-agg param set agg0 connect-timeout 20s
}

# What an administrator and users do, over and over, as far as it works out.
real_operations() {
	local end=$((SECONDS + $1))
	while [[ $SECONDS -lt $end ]]; do
		rdma-agg dev add agg0 netdev mgmt0
		rdma-agg param set agg0 connect-timeout 1s
		rdma-agg lane add agg0 rxe0
		rdma-agg lane add agg0 rxe1
		rdma-agg stat show
		PAIR_TIMEOUT=10 works
		rdma-agg qp show
		rdma-agg lane del agg0 rxe1
		rdma-agg peer show
	done
}

fuzz_netlink() {
	local rc=0 jobs
	"$here/nl_table.py" > "$AGG_TMP/nl_table" || return
	real_operations "$seconds" > "$AGG_TMP/real.out" 2>&1 &
	jobs=$!
	rdma-agg monitor > "$AGG_TMP/monitor.out" 2>&1 &
	jobs+=" $!"
	"$(tool fuzz_nl)" --spec "$AGG_TMP/nl_table" --seed "$seed" --seconds "$seconds" || rc=1
	# shellcheck disable=SC2086 # two words
	kill $jobs
	# shellcheck disable=SC2086
	wait $jobs
	return $rc
}

nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# told NAME COMMAND...: a point, and what the fuzzer has to say of its work.
told() {
	local name=$1
	shift
	ok "$name, seed $seed" "$@" && grep '^#' "$ktap_step"
}

test_begin
dev_setup
told "netlink for $seconds s" fuzz_netlink
ok "devices can go and come" devices_anew
ok "traffic after netlink" works
gid=$(here gid_index "$DEV" "$MY_IP")
for what in ring uverbs; do
	# A QP whose peer never comes costs this.
	rdma-agg param set agg0 connect-timeout 500ms
	told "$what for $seconds s" nobody "$(tool fuzz_$what)" --dev "$DEV" --gid "$gid" \
		--seed "$seed" --seconds "$seconds"
	ok "nothing is left of it" res_check "$DEV"
	rdma-agg param set agg0 connect-timeout 20s
	ok "traffic after $what" works
done
dev_teardown
