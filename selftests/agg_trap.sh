#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 1
# timeout: 500
#
# Receives that are posted without a system call are found (trap.c), and the
# trap that finds them does not storm.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
count() { cat "/sys/class/infiniband/$DEV/ports/1/hw_counters/$1"; }

test_begin
dev_setup
messages=$(few 6000)
hits=$([[ $DEV == agg* ]] && count traps_hit)
ok "$messages messages to receivers that make no system call" \
	timeout "$(few 200 400)" trap --dev "$DEV" --gid "$(here echo "$MY_IP")" --count "$messages" --deaths "$(few 12)"
sed 's/^/# /' "$ktap_step"
if [[ $DEV == agg* ]]; then
	hits=$(($(count traps_hit) - hits))
	echo "# $hits traps hit"
	# Some are needed: most receives are posted to a lane that has none. Each
	# touches its ring a few times; that must not be a trap each time.
	if [[ $hits -gt $((messages / 20)) && $hits -lt $((messages * 2)) ]]; then
		pass "traps are hit, and not too many"
	else
		fail "traps are hit, and not too many" "$hits for $messages messages"
	fi
fi
dev_teardown
