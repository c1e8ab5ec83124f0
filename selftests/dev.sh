# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2016,SC2120 # words for the tests, expanded by them
#
# The device under test, for tests that say something about any RC device:
# agg0 or, to see what is right and what a bare lane does, AGG_DEV=rxe0:
#
#   selftests/qemu/run.sh -n 2 --cmd 'AGG_DEV=rxe0 bash selftests/agg_verify.sh'
#
# Sourced after lib.sh.  $DEV is its name on both guests.  MY_IP and so on are
# words for a shell that has sourced lib.sh, on either guest: the address that
# the device's GID has.
DEV=${AGG_DEV:-agg0}
if [[ $DEV == agg* ]]; then
	MY_IP='$MY_MGMT' MY_IP6='$MY_MGMT6'
	PEER_IP='$PEER_MGMT' PEER_IP6='$PEER_MGMT6'
else
	MY_IP='$(my_lane 0)' MY_IP6='$(my_lane6 0)'
	PEER_IP='$(peer_lane 0)' PEER_IP6='$(peer_lane6 0)'
fi
# To use in words of pair and on_b: -g "$GID", -g "$GID6".
GID="\$(gid_index $DEV $MY_IP)"
GID6="\$(gid_index $DEV $MY_IP6)"

# here WORDS...: a command with such words in it, on this guest.
here() { eval "$*"; }

dev_setup() {
	if [[ $DEV == agg* ]]; then
		agg_setup "$@"
		# Two guests on a busy host answer each other late, and that is not
		# what these tests are about.
		both rdma-agg param set "$DEV" connect-timeout 20s
		[[ $AGG_SLOW -eq 0 ]] || no_retries
	else
		ok "bare lanes" lanes_up "${1:-$AGG_USE_LANES}" || exit 1
		both res_save "$DEV"
	fi
}

# An answer that is only late is not asked for again: soft-RoCE of 6.12 warns of a READ
# that is repeated (rxe_mr_copy), and never answers a repeated one of no bytes.
no_retries() { both rdma-agg param set "$DEV" ack-timeout-max 21 ack-timeout-min 21; }

dev_teardown() {
	if [[ $DEV == agg* ]]; then
		agg_teardown
	else
		ok "nothing is left on $DEV" both res_check "$DEV"
		both lanes_down_here
	fi
}

# perf WORDS: a program of perftest on $DEV, on both sides.  In a guest without
# KVM perftest itself often finds its clock unusable and then ends with an error
# after all traffic is done; that much is let pass.
perf() {
	local words
	# perftest takes no less than 5.
	words=$(fewer "$1" 5)
	PAIR_TIMEOUT=60 pair "$words -d $DEV -x $GID -F" "$words -d $DEV -x $GID -F $PEER_IP" && return
	# Both ends are through, and the client complains of nothing but the clock.
	grep -qE 'Correlation coefficient|Unable to calibrate|measured CPU speed' \
		"$AGG_TMP/client.out" "$AGG_TMP/server.out" &&
		! grep -qiE 'completion with error|Failed status|Couldn|Unable to (create|modify|post)|timed out' \
			"$AGG_TMP/client.out" "$AGG_TMP/server.out"
}

# tool NAME: a program of selftests/*.c.
tool() { echo "$AGG_REPO/build/selftests/$1"; }
