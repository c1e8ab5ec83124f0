#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 2
# timeout: 500
#
# Our own traffic with every byte, completion, order and total checked
# (verify.c), between two guests and within one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"

# between OPTIONS: the client is here
between() {
	PAIR_TIMEOUT=90 pair "verify -d $DEV -g $GID" "verify -d $DEV -g $GID $(fewer "$1") $PEER_IP"
}
# within OPTIONS: both ends in one process
within() {
	here timeout "$(few 90 200)" verify -d "$DEV" -g "$GID" "$(fewer "$1")" --loop
}

# lanes add|del NUMBER...
lanes() {
	local verb=$1 i
	shift
	for i in "$@"; do
		rdma-agg lane "$verb" "$DEV" "rxe$i/1" || return
	done
}

test_begin
dev_setup "$AGG_LANES"

ok "within: all operations, 1 QP" within "-n 40"
ok "within: 8 QPs both ways, elements, inline, unsignalled, chains" \
	within "-n 20 -q 8 -b -S 4 -z -I 128 -u 16 -C 8 -M 3"
ok "within: by events, one CQ per two QPs" within "-n 15 -q 8 -b -e -c 4 -S 2"
ok "within: by events, sends and receives in one CQ" within "-n 15 -q 8 -b -e -1"
ok "within: 64 QPs both ways" within "-n 3 -q 64 -b"
ok "within: 8 MiB" within "-s 8m,0,8388607 -n 2 -B 6"
ok "within: sizes around the MTU" within "-s 0,1,1023-1025,4095-4097,8191-8193 -n 40 -u 32"
ok "within: tiny queues" within "-n 30 -q 2 -b -D 4 -R 1 -u 64"
ok "within: fences" within "-n 25 -q 4 -b -f"
ok "within: atomics that meet" within "-n 30 -q 8 -b -o cas,fadd"
ok "within: READ only, WRITE only" within "-n 20 -b -o read,write"

ok "between: all operations, 1 QP" between "-n 30"
ok "between: 8 QPs both ways, elements, inline, unsignalled, chains" \
	between "-n 8 -q 8 -b -S 4 -z -I 128 -u 16 -C 8 -M 3"
ok "between: by events" between "-n 10 -q 4 -b -e -c 2"
ok "between: 64 QPs" between "-n 3 -q 64 -s 0-8k"
ok "between: 8 MiB" between "-s 8m -n 1 -B 1"
ok "between: few receives" between "-n 15 -q 4 -b -R 2 -s 0-16k"
ok "between: fences" between "-n 12 -q 4 -b -f -s 0-32k"
ok "between: path MTU 256" between "-n 10 -q 2 -m 256 -s 0-16k"
ok "between: for 6 s" between "-T 6 -q 16 -b -e"

if [[ $DEV == agg* && $AGG_LANES -ge 4 ]]; then
	# The peer has fewer lanes, and other rails first.
	ok "the peer gives two lanes back" on_b "rdma-agg lane del $DEV rxe0/1 && rdma-agg lane del $DEV rxe3/1"
	ok "with 4 lanes here and 2 there" between "-n 8 -q 8 -b -s 0-16k"
	ok "one lane is left here" lanes del 0 2 3
	ok "with 1 lane here and 2 there" between "-n 8 -q 8 -b -s 0-16k"
	ok "the lanes come back" lanes add 0 2 3
	ok "those of the peer, too" on_b "rdma-agg lane add $DEV rxe0/1 && rdma-agg lane add $DEV rxe3/1"
	ok "with all of them again" between "-n 8 -q 8 -b -s 0-16k"
fi
dev_teardown
