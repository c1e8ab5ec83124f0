#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 1 2
# timeout: 500
#
# perftest as the distribution ships it: WRITE, READ, SEND and atomics, sizes
# from 1 byte to 8 MB, 1 to 64 QPs, by polling and by events, inline, both ways.
#
# What is tested is that they run to their end.  How fast is bench/'s business.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"

run() { ok "$*" perf "$*"; }

test_begin
# Their rate would only cost time.
AGG_RATE=none
dev_setup
if [[ $AGG_GUESTS -eq 1 ]]; then
	# No slow wire in between: all sizes.
	all=$([[ $AGG_SLOW -eq 1 ]] && echo "-s 1048576" || echo -a)
	run ib_write_bw "$all" -n 5
	run ib_read_bw "$all" -n 5
	run ib_send_bw "$all" -n 5
	run ib_write_bw -s 4096 -n 20 -q 64 -b
	run ib_send_bw -s 4096 -n 200 -r 1
	run ib_send_bw -s 65536 -n 100 -e
	run ib_write_lat -s 64 -I 64 -n 100
	run ib_read_lat -s 4096 -n 100
	run ib_send_lat -s 1 -n 100
	run ib_atomic_bw -A FETCH_AND_ADD -n 100 -q 4
	run ib_atomic_lat -A CMP_AND_SWAP -n 100
else
	run ib_write_bw -s 1 -n 300
	run ib_write_bw -s 65536 -n 40 -q 8 -b
	run ib_write_bw -s 4096 -n 10 -q 64
	run ib_write_bw -s 64 -I 64 -n 300
	run ib_write_bw -s 8388608 -n 5
	run ib_write_lat -s 1 -n 100
	run ib_write_lat -s 64 -I 64 -n 100

	run ib_read_bw -s 1 -n 200
	run ib_read_bw -s 65536 -n 40 -q 8 -b
	run ib_read_bw -s 65536 -n 40 -e
	run ib_read_lat -s 4096 -n 100
	run ib_read_lat -s 64 -n 100 -e

	run ib_send_bw -s 4096 -n 150 -r 1
	run ib_send_bw -s 4096 -n 150 -r 2
	run ib_send_bw -s 65536 -n 40 -e
	run ib_send_bw -s 1024 -n 10 -q 64
	run ib_send_bw -s 65536 -n 20 -q 4 -b -r 16
	run ib_send_lat -s 1 -n 100
	# Not ib_send_lat -e: perftest 4.5-0.17 waits for the events of two CQs in one
	# channel, takes one for the other's, and hangs on bare soft-RoCE just as well.
	run ib_send_lat -s 64 -I 64 -n 100

	run ib_atomic_bw -A FETCH_AND_ADD -n 200
	run ib_atomic_bw -A CMP_AND_SWAP -n 50 -q 8 -b
	run ib_atomic_lat -A FETCH_AND_ADD -n 100
fi
dev_teardown
