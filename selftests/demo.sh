#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# `sudo make demo`: two guests, four lanes of RATE each, agg0 over them, and
# unmodified programs on agg0 and, for comparison, on a bare lane.
#
#        guest A                                guest B
#      agg0 --+-- rxe0 - lane0 ---------- lane0 - rxe0 --+-- agg0
#             +-- rxe1 - lane1 ---------- lane1 - rxe1 --+
#             +-- rxe2 - lane2 ---------- lane2 - rxe2 --+
#             +-- rxe3 - lane3 ---------- lane3 - rxe3 --+
#             mgmt0 (GIDs, session) ----- mgmt0
#
# Then a lane is pulled out in the middle of a transfer, and put back.
#
# Fails when 32 QPs on agg0 carry less than 3.6 times one bare lane, when the
# busiest lane carries more than 1.25 times the mean, when the transfer fails
# that loses a lane or does not use it again, or when a kernel complains.
#
#   RATE=25mbit DEMO_SECONDS=8 KERNEL=6.12 selftests/demo.sh [options of qemu/run.sh]
#
# How bandwidth is measured: perftest moves a known number of bytes; the
# netdevs' byte counters of the lanes are read with the clock while it runs,
# and the figure is the rate between 15 % and 70 % of the transfer, when all
# QPs are at work.  perftest's own clock is not to be trusted in an emulated
# machine.  A run whose lanes carried much more than the payload (repeats after
# losses) fails.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
rate=${RATE:-25mbit}
seconds=${DEMO_SECONDS:-8}
min_ratio=3.6
max_skew=1.25

if [[ -z ${AGG_ROLE:-} ]]; then
	start=$SECONDS
	rc=0
	"$here/qemu/run.sh" -k "${KERNEL:-6.12}" -n 2 --lanes 4 --rate "$rate" --timeout 900 "$@" \
		--cmd "DEMO_SECONDS=$seconds RATE=$rate bash selftests/demo.sh" || rc=$?
	echo "demo: $((SECONDS - start)) s"
	exit "$rc"
fi

# ------------------------------------------------------------- in guest A

. "$here/lib.sh"
. "$here/dev.sh"	# DEV=agg0
. "$here/traffic.sh"

failures=()
run() {	# shows a command, then runs it
	echo
	echo "\$ $*"
	"$@"
}

both dmesg_mark

bits=$(python3 -c 'import re, sys
n, unit = re.fullmatch(r"([0-9.]+)([kmg]?)bit", sys.argv[1]).groups()
print(int(float(n) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[unit]))' "$rate") || exit 1
size=65536

# shellcheck disable=SC2119
lanes_up || { echo "the lanes do not come up"; exit 1; }
for ((i = 0; i < AGG_LANES; i++)); do
	both res_save "rxe$i"
done
devices=(rxe0)
if agg_present; then
	# shellcheck disable=SC2119
	both agg_load_here || { echo "the module does not load"; exit 1; }
	echo "# on both guests:"
	echo "\$ rdma-agg dev add agg0 netdev mgmt0"
	for ((i = 0; i < AGG_LANES; i++)); do
		echo "\$ rdma-agg lane add agg0 rxe$i/1"
	done
	both agg_dev_here agg0 || { echo "agg0 cannot be set up"; exit 1; }
	both res_save agg0
	devices+=(agg0)
else
	failures+=("no rdma_agg in this run: only the bare lane is measured")
fi
run rdma link
run ibv_devices
[[ ${#devices[@]} -eq 1 ]] || run rdma-agg lane show agg0

# address DEVICE: the words that name its GID to perftest or pingpong (in b_lib's terms).
gid_words() {
	case $1 in
	rxe0) echo "\$(gid_index rxe0 \$(my_lane 0))" ;;
	*) echo "\$(gid_index $1 \$MY_MGMT)" ;;
	esac
}

pingpong() {	# pingpong DEVICE OPTION...
	local dev=$1 words
	shift
	words="-d $dev -g $(gid_words "$dev") -n 500 $*"
	echo
	echo "\$ ibv_rc_pingpong -d $dev -g ... -n 500 $* 10.0.0.2"
	if pair "ibv_rc_pingpong $words" "ibv_rc_pingpong $words \$PEER_MGMT" > "$AGG_TMP/pair.out"; then
		tail -n 2 "$AGG_TMP/client.out"
	else
		cat "$AGG_TMP/pair.out"
		failures+=("ibv_rc_pingpong $* on $dev")
	fi
}

for dev in "${devices[@]:1}"; do
	pingpong "$dev"
	pingpong "$dev" -e
done

# sample COUNTER: "clock bytes-of-lane0 ..." lines while $AGG_TMP/sampling exists.
sample() {
	local i n line nap
	# Ahead of programs that poll, and without a new process for each nap.
	chrt -f -p 10 "$BASHPID"
	exec {nap}<> <(:)
	while [[ -e $AGG_TMP/sampling ]]; do
		line=${EPOCHREALTIME/./}
		for ((i = 0; i < AGG_LANES; i++)); do
			read -r n < "/sys/class/net/lane$i/statistics/$1"
			line+=" $n"
		done
		echo "$line"
		read -r -t 0.25 -u "$nap" _
	done
}

# The table goes to its own file: rows are shown as they come, and again at the end.
table=$AGG_TMP/table
head_row() {
	printf '%-14s %-6s %4s %9s %7s  %s\n' test device QPs Mbit/s 'x lane' 'MB on lane 0..3, busiest/mean'
}
declare -A base=()

# transfer TOOL DEVICE QPS [COMMAND]: one run, with COMMAND BYTES beside it; prints Mbit/s, busiest lane to mean, bytes
# on the lanes to payload, and MB per lane.
transfer() {
	local tool=$1 dev=$2 qps=$3 beside=${4:-:}
	local lanes=1 depth=8 iters words counter=tx_bytes pid also rc=0
	[[ $dev == rxe0 ]] || lanes=$AGG_LANES
	iters=$((bits * lanes * seconds / 8 / size / qps))
	# perftest wants no fewer requests than its queue holds.
	[[ $iters -ge 16 ]] || iters=16
	[[ $tool != ib_read_bw ]] || counter=rx_bytes
	# The QP timeout must exceed the queueing delay of a slow lane (4.096 us << 19 = 2.1 s).
	# Responders put no bound on READ responses: all that is asked for queues up at once.
	[[ $tool == ib_read_bw ]] && depth=4
	words="-d $dev -x $(gid_words "$dev") -F -s $size -n $iters -q $qps -t $depth -u 19"
	[[ $tool != ib_send_bw ]] || words+=" -r 16"
	touch "$AGG_TMP/sampling"
	sample "$counter" > "$AGG_TMP/samples" &
	pid=$!
	$beside $((iters * qps * size)) > "$AGG_TMP/beside" 2>&1 &
	also=$!
	PAIR_TIMEOUT=$((seconds * 6 + 60)) pair "$tool $words" "$tool $words \$PEER_MGMT" > "$AGG_TMP/pair.out" || rc=$?
	rm -f "$AGG_TMP/sampling"
	wait "$pid"
	wait "$also" || { cat "$AGG_TMP/beside" >&2; return 1; }
	if [[ $rc -ne 0 ]] && ! grep -q 'Correlation coefficient' "$AGG_TMP/client.out" "$AGG_TMP/server.out"; then
		cat "$AGG_TMP/pair.out" >&2
		return 1
	fi
	python3 - "$AGG_TMP/samples" $((iters * qps * size)) <<- 'END'
		import sys
		rows = [list(map(int, line.split())) for line in open(sys.argv[1])]
		payload = int(sys.argv[2])
		first, last = rows[0], rows[-1]
		per_lane = [b - a for a, b in zip(first[1:], last[1:])]
		total = sum(per_lane)
		done = lambda row: sum(row[1:]) - sum(first[1:])
		lo = next(r for r in rows if done(r) >= 0.15 * total)
		hi = next(r for r in rows if done(r) >= 0.70 * total)
		mbit = (done(hi) - done(lo)) * 8 / (hi[0] - lo[0]) if hi[0] > lo[0] else 0
		skew = max(per_lane) * len(per_lane) / total
		print("%.2f %.3f %.3f %s" % (mbit, skew, total / payload,
		      " ".join("%.1f" % (b / 1e6) for b in per_lane)))
	END
}

# measure TOOL DEVICE QPS: a row of the table.
#
# Nothing passes the lanes' limit, but a host that is busy with other things
# holds the guests up.  So a run that stays more than 7 % below the lanes'
# rate, on the bare lane as on agg0, is repeated, and the best of three counts.
measure() {
	local tool=$1 dev=$2 qps=$3 lanes=1 try out best=0 what="$1 on $2 with $3 QPs"
	local mbit skew extra mb ratio
	[[ $dev == rxe0 ]] || lanes=$AGG_LANES
	for try in 1 2 3; do
		out=$(transfer "$tool" "$dev" "$qps") || { failures+=("$what"); return; }
		read -r mbit skew extra mb <<< "$out"
		if awk "BEGIN { exit !($mbit > ${best%% *}) }"; then
			best=$out
		fi
		awk "BEGIN { exit !(${best%% *} >= 0.93 * $bits * $lanes / 1e6) }" && break
		[[ $try -eq 3 ]] || echo "# $what: $mbit Mbit/s, below the lanes' rate; once more"
	done
	read -r mbit skew extra mb <<< "$best"
	# The baseline is the better of the bare lane's figures.
	if [[ $dev == rxe0 ]]; then
		base[$tool]=$(awk "BEGIN { b = ${base[$tool]:-0}; print ($mbit > b) ? $mbit : b }")
	fi
	ratio=$(awk "BEGIN { b = ${base[$tool]:-0}; printf \"%.2f\", b ? $mbit / b : 0 }")
	[[ $dev == rxe0 ]] && skew=-
	printf '%-14s %-6s %4d %9s %7s  %s, %s\n' "$tool" "$dev" "$qps" "$mbit" "$ratio" "$mb" "$skew" |
		tee -a "$table"
	awk "BEGIN { exit !($extra > 1.15) }" &&
		failures+=("$what: the lanes carried $extra times the payload")
	[[ $dev != rxe0 && $qps -eq 32 ]] || return
	awk "BEGIN { exit !($ratio < $min_ratio) }" &&
		failures+=("$tool: 32 QPs on $dev carry $ratio x one lane, wanted $min_ratio")
	awk "BEGIN { exit !($skew > $max_skew) }" &&
		failures+=("$tool: the busiest lane of $dev has $skew x the mean, wanted at most $max_skew")
}

# outage BYTES: while a transfer of so many is on its way lane 2 has no carrier, at
# either end, from a quarter of it to a half; then it is used again.
out=2
on_lane() { cat "/sys/class/net/lane$1/statistics/tx_bytes"; }
carried() {
	local i sum=0
	for ((i = 0; i < AGG_LANES; i++)); do sum=$((sum + $(on_lane "$i"))); done
	[[ $((sum - $1)) -ge $2 ]]
}
used() { [[ $(on_lane "$out") -ge $1 ]]; }
outage() {
	local i before=0 at
	for ((i = 0; i < AGG_LANES; i++)); do before=$((before + $(on_lane "$i"))); done
	wait_for 60 carried "$before" $(($1 / 4)) || return
	both ip link set "lane$out" down
	wait_for 60 carried "$before" $(($1 / 2)) || return
	both ip link set "lane$out" up
	at=$(on_lane "$out")
	wait_for 60 used $((at + $1 / 50)) || { echo "lane $out is not used again"; return 1; }
}

# survive TOOL DEVICE QPS: a row of the table, with an outage.
survive() {
	local tool=$1 dev=$2 qps=$3 result mbit skew extra mb ratio failovers lost
	# Long enough for the lane to be missed, and to be had back.
	result=$(seconds=$((seconds * 2)) && transfer "$tool" "$dev" "$qps" outage) ||
		{ failures+=("$tool on $dev does not survive the loss of a lane"); return; }
	read -r mbit skew extra mb <<< "$result"
	ratio=$(awk "BEGIN { b = ${base[$tool]:-0}; printf \"%.2f\", b ? $mbit / b : 0 }")
	printf '%-14s %-6s %4d %9s %7s  %s, lane %s out from 1/4 to 1/2\n' "$tool" "$dev" "$qps" "$mbit" \
		"$ratio" "$mb" "$out" | tee -a "$table"
	failovers=$(count failovers)
	lost=$(count failovers_lost)
	echo "# lane $out was pulled out and put back: $failovers failovers, $lost QPs lost"
	[[ $failovers -gt 0 && $lost -eq 0 ]] || failures+=("$failovers failovers, $lost QPs lost")
}

echo
echo "# $AGG_LANES lanes of $rate; $size-byte messages; \"x lane\": to the bare lane of the same tool"
head_row
for tool in ib_write_bw ib_read_bw ib_send_bw; do
	measure $tool rxe0 1
	measure $tool rxe0 8
	for dev in "${devices[@]:1}"; do
		measure $tool "$dev" 8
		measure $tool "$dev" 32
	done
done

if [[ ${#devices[@]} -gt 1 ]]; then
	survive ib_write_bw agg0 32
	run rdma-agg lane show agg0
	echo
	both agg_teardown_here || failures+=("something of agg0 is left behind")
fi
for side in a b; do
	if [[ $side == a ]]; then
		out=$(check_dmesg)
	else
		out=$(b_lib check_dmesg)
	fi || { echo "$out"; failures+=("the kernel of guest $side complained"); }
done

echo
head_row
cat "$table"
echo
if [[ ${#failures[@]} -gt 0 ]]; then
	printf 'FAILED: %s\n' "${failures[@]}"
	exit 1
fi
echo "demo passed: 32 QPs on agg0 carry at least $min_ratio x one lane, the busiest lane at most $max_skew x the mean, and a lane that is pulled out is not missed"
