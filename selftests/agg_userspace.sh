#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 2
# kernels: 6.12 newest
# timeout: 400
#
# The rdma-core that a distribution ships opens agg0 as it is: the machine's
# own, Debian trixie's and Debian sid's, the latter two by chroot (roots.sh), as
# a container would.  Pingpong and perftest between equals and between unequals,
# and the traffic of eight QPs is on all lanes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"

# within NAME: the words that run a program in that user space.
within() { [[ $1 == host ]] || echo "chroot /run/agg/roots/$1"; }

lists_it() { $1 ibv_devices | grep -w "$DEV"; }

# devinfo WORDS: opens the device and finds its port up.
devinfo() {
	$1 ibv_devinfo -v -d "$DEV" > "$AGG_TMP/devinfo" 2>&1 &&
		grep -q 'state:.*PORT_ACTIVE' "$AGG_TMP/devinfo" &&
		grep -q 'link_layer:.*Ethernet' "$AGG_TMP/devinfo" && return
	cat "$AGG_TMP/devinfo"
	return 1
}

# pingpong SERVER-WORDS CLIENT-WORDS OPTIONS
pingpong() {
	pair "$1 ibv_rc_pingpong -d $DEV -g $GID $3" "$2 ibv_rc_pingpong -d $DEV -g $GID $3 $PEER_IP"
}

lane_bytes() {
	local i
	for ((i = 0; i < AGG_LANES; i++)); do
		bytes_sent "lane$i"
	done | paste -sd ' '
}

# spread BEFORE AFTER: no lane carried less than half of its share.
spread() {
	awk -v before="$1" -v after="$2" 'BEGIN {
		n = split(before, b); split(after, a)
		for (i = 1; i <= n; i++)
			total += a[i] - b[i]
		print "bytes before: " before "; after: " after
		for (i = 1; i <= n; i++)
			if ((a[i] - b[i]) * n * 2 < total)
				exit 1
	}'
}

test_begin
dev_setup
spaces=(host)
for name in trixie sid; do
	if [[ " ${AGG_ROOTS:-} " != *" $name "* ]]; then
		skip "user space of $name" "it could not be fetched (selftests/roots.sh)"
		continue
	fi
	ok "user space of $name" both root_up "$name" || continue
	spaces+=("$name")
done

for name in "${spaces[@]}"; do
	in=$(within "$name")
	ok "$name: ibv_devices" lists_it "$in"
	ok "$name: ibv_devinfo" devinfo "$in"
	ok "$name: ibv_rc_pingpong" pingpong "$in" "$in" "-n 200"
	ok "$name: ibv_rc_pingpong by events" pingpong "$in" "$in" "-n 200 -e -s 65536"
	before=$(lane_bytes)
	ok "$name: ib_write_bw" perf "$in ib_write_bw -s 65536 -n 20 -q 8"
	ok "$name: all lanes carried it" spread "$before" "$(lane_bytes)"
	ok "$name: ib_read_bw" perf "$in ib_read_bw -s 65536 -n 20 -q 8"
	ok "$name: ib_send_bw" perf "$in ib_send_bw -s 65536 -n 20 -q 8 -r 16"
done
for ((i = 1; i < ${#spaces[@]}; i++)); do
	a=${spaces[i]} b=${spaces[i - 1]}
	ok "ibv_rc_pingpong of $a to that of $b" pingpong "$(within "$b")" "$(within "$a")" "-n 200 -e"
done

for name in "${spaces[@]:1}"; do
	ok "user space of $name goes" both root_down "$name"
done
dev_teardown
