#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 1
# timeout: 500
#
# A process writes what it likes into its rings, maps them in every wrong way
# and goes away in the middle (rawring.c): it gets errors, others nothing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
r=$(tool rawring)

test_begin
dev_setup
gid=$(here gid_index "$DEV" "$MY_IP")
for case in $("$r" --list); do
	ok "$case" timeout "$(few 100 200)" "$r" --dev "$DEV" --gid "$gid" --only "$case" --seconds "$(few 10 2)"
done
ok "and the device still works" pair "ibv_rc_pingpong -d $DEV -g $GID -n 50" \
	"ibv_rc_pingpong -d $DEV -g $GID -n 50 $PEER_IP"
dev_teardown
