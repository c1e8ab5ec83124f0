# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# Traffic of which everything is checked (verify.c), for tests that do things to
# the lanes of $DEV meanwhile.  Sourced after dev.sh.

# Where a lane loses packets and goes on there are no READs: soft-RoCE calls one a
# success when the middle of its answer was lost (rxe_completer warns of it), on a bare
# lane just as well.
# shellcheck disable=SC2034 # for the tests
NO_READS="-o send,send_imm,write,write_imm"

# A counter of the device, on this guest.
count() { rdma statistic show link "$DEV/1" | tr ' ' '\n' | grep -A1 "^$1\$" | tail -n 1; }
more_than() { [[ $(count "$1") -gt $2 ]]; }

# field LANE NAME: a number of the lane, on this guest.
field() {
	rdma-agg -j lane show "$DEV" "rxe$1/1" | tr ',{}' '\n' | sed -n "s/^ *\"$2\": *//p"
}
field_is() { [[ $(field "$1" "$2") -eq $3 ]]; }
lane_is() { rdma-agg lane show "$DEV" "rxe$1/1" | grep -qw "$2"; }
# even QPS: does each lane have its share of them?
even() {
	local i
	for ((i = 0; i < AGG_LANES; i++)); do
		field_is "$i" flows $(($1 / AGG_LANES)) || return 1
	done
}

connected() { [[ $(rdma-agg -j qp show "$DEV" | grep -o '"rts"' | wc -l) -ge $1 ]]; }

# while_traffic OPTIONS COMMAND...: the command, from when all QPs are connected;
# the traffic ends after it.  The options of verify have -q N among them.
# TRAFFIC_MAX: seconds (400).
while_traffic() {
	local options=$1 most=${TRAFFIC_MAX:-400} pid rc=0
	shift
	[[ $options =~ -q\ ([0-9]+) ]]
	PAIR_TIMEOUT=$most pair "verify -d $DEV -g $GID" \
		"verify -d $DEV -g $GID -T $most $options $PEER_IP" > "$AGG_TMP/traffic" 2>&1 &
	pid=$!
	if wait_for 60 connected "${BASH_REMATCH[1]}"; then
		if ! "$@" > "$AGG_TMP/meanwhile" 2>&1; then
			rc=1
			cat "$AGG_TMP/meanwhile"
			both rdma-agg lane show "$DEV"
			rdma-agg -d qp show "$DEV"
		fi
		pkill -USR1 -x verify
	else
		echo "the QPs are not connected"
		rc=1
		pkill -KILL -x verify
	fi
	wait "$pid" || { rc=1; cat "$AGG_TMP/traffic"; }
	return $rc
}

# What comes in by devices is lost from one moment on and comes again from another, the
# same for all; the carrier stays. Not what goes out, of which soft-RoCE would hear.
HOLE=22
hole() {
	local dev
	for dev; do tc qdisc add dev "$dev" ingress_block "$HOLE" clsact || return; done
	tc filter add block "$HOLE" matchall action drop
}
unhole() {
	local dev
	tc filter del block "$HOLE" || return
	for dev; do tc qdisc del dev "$dev" clsact || return; done
}
# there WORDS: with what is here, on the peer
there() {
	b_lib "AGG_DEV=$DEV; . '$AGG_REPO/selftests/dev.sh'; . '$AGG_REPO/selftests/traffic.sh'; $*"
}
