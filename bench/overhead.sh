#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What agg0 costs against the bare lane it runs on (`sudo make bench`).
#
# One guest, one vCPU, and a clock that counts instructions (QEMU -icount):
# the same work takes the same time whatever the host does, so ratios of a few
# per cent mean something.  Traffic loops from a device to itself.  agg0 has
# one lane, rxe0; the bare lane is rxe0, in the same boot, the two by turns.
#
#   64 KiB WRITE bandwidth   agg0 / lane >= 0.95
#   64 B SEND rate           agg0 / lane >= 0.75
#   64 B READ latency        agg0 / lane <= 1.25
#
# With one vCPU a program that polls takes the processor from the kernel
# threads it waits for; so SEND and READ sleep on completion events (-e), and
# WRITE, for which perftest has no -e, keeps its queue full instead.
#
#   overhead.sh [--save] [options of qemu/run.sh]
#   KERNELS="6.1 6.12"   ROUNDS=3
#
# --save keeps the figures in bench/results/overhead-SERIES.txt.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
rounds=${ROUNDS:-3}

if [[ -z ${AGG_ROLE:-} ]]; then
	. "$here/host.sh"
	in_guest overhead 1 1800 "ROUNDS=$rounds" 'WRITE|SEND|READ|test' "$@"
	exit
fi

# --------------------------------------------------------------- in the guest

. "$here/../selftests/lib.sh"

agg_present || { echo "no rdma_agg in this run: agg0 is replaced by the lane itself"; }
dmesg_mark
lanes_up 1 > /dev/null || exit 1
agg=rxe0
if agg_present; then
	# shellcheck disable=SC2119
	agg_load_here && agg_dev_here agg0 1 || exit 1
	agg=agg0
fi

# figure DEVICE TOOL COLUMN OPTION...: prints perftest's figure.
figure() {
	local dev=$1 tool=$2 column=$3 words ip
	shift 3
	[[ $dev == agg0 ]] && ip=$MY_MGMT || ip=$(my_lane 0)
	words="$tool -d $dev -x $(gid_index "$dev" "$ip") -F $*"
	PAIR_TIMEOUT=900 pair "$words" "$words $PEER_MGMT" > "$AGG_TMP/pair.out" 2>&1 ||
		{ cat "$AGG_TMP/pair.out" >&2; return 1; }
	awk -v c="$column" '/^ *#bytes/ { head = 1; next } head && NF >= c { print $c; exit }' "$AGG_TMP/client.out"
}

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

bad=0
# compare NAME UNIT SENSE BAR TOOL COLUMN OPTION...
compare() {
	local name=$1 unit=$2 sense=$3 bar=$4 tool=$5 column=$6 i lane='' over='' ratio verdict=ok
	shift 6
	for ((i = 0; i < rounds; i++)); do
		lane+=$(figure rxe0 "$tool" "$column" "$@")$'\n' || return 1
		over+=$(figure "$agg" "$tool" "$column" "$@")$'\n' || return 1
	done
	[[ -z ${BENCH_VERBOSE:-} ]] || echo "# lane: ${lane//$'\n'/ } agg0: ${over//$'\n'/ }"
	lane=$(printf '%s' "$lane" | median)
	over=$(printf '%s' "$over" | median)
	ratio=$(awk "BEGIN { printf \"%.3f\", $over / $lane }")
	awk "BEGIN { exit !($ratio $sense $bar) }" || { verdict=MISSED; bad=1; }
	printf '%-26s %12s %12s %-9s %7s  %s %s %s\n' "$name" "$lane" "$over" "$unit" "$ratio" "$sense" "$bar" "$verdict"
}

printf '%-26s %12s %12s %-9s %7s  %s\n' test 'bare lane' agg0 unit ratio wanted
compare 'WRITE bandwidth, 64 KiB' MB/s '>=' 0.95 ib_write_bw 4 -s 65536 -n 400 || bad=1
compare 'SEND rate, 64 B' Mpps '>=' 0.75 ib_send_bw 5 -s 64 -n 4000 -e || bad=1
compare 'READ latency, 64 B' us '<=' 1.25 ib_read_lat 6 -s 64 -n 1000 -e || bad=1

if agg_present; then
	rdma-agg dev del agg0 && agg_unload_here || bad=1
fi
lanes_down
check_dmesg || bad=1
exit $bad
