#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 1
# timeout: 400
#
# States, statuses, flushes, events and limits: agg0 says what a bare lane says
# (qpstate.c prints a table; the two are compared). Differences must be in the
# list below, each with its reason.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
q=$(tool qpstate)

# The lines of a case that may differ, as a regular expression.
allowed() {
	case $1 in
	# A drained send queue may be left again; soft-RoCE thinks that it drains for
	# ever, and reports it drained while it is not.
	transition) echo 'SQD to (RESET|RTS|SQD)' ;;
	sqd) echo 'it goes now|events before it is done|events after it is done|draining' ;;
	# There is one P_Key; more READs than announced are refused; a GID index
	# that does not exist is the core's business before it is ours.
	attribute) echo 'pkey_index 5000|GID index 250|255 incoming READs' ;;
	# soft-RoCE of 6.1 does not keep it.
	query) echo 'query: current state:' ;;
	# In ERR soft-RoCE of 6.1 does not look at a receive that is posted.
	flush) echo 'post_recv in ERR' ;;
	# Whether a SEND of the other direction was still answered is a matter of time.
	# soft-RoCE of 6.1 leaves both QPs in RTS after a WRITE that it refused.
	error) echo ': sends: 1=(ok|FLUSH)|MR without remote write: (sender|responder)' ;;
	# soft-RoCE adds lengths up in 32 bits, and looks at flags and lengths of
	# READs and atomics not at all. Here they get the errors of the specification.
	size) echo '(WRITE|SEND) of [24] GiB|READ, inline|FETCH_ADD of 16 bytes' ;;
	# An application whose CQ overflowed has lost a completion for good: its QP
	# goes to the error state too. A bare lane says only CQ error.
	cq) echo 'one too many, events:|armed for solicited' ;;
	# Whether a message was solicited is not in a lane's completion.
	*) echo 'armed for solicited' ;;
	esac
}

compare() {
	local case=$1 bare=$AGG_TMP/$1.bare agg=$AGG_TMP/$1.agg
	timeout 100 "$q" --dev rxe0 --gid "$(gid_index rxe0 "$(my_lane 0)")" --only "$case" > "$bare" 2>&1 ||
		{ echo "on the bare lane:"; cat "$bare"; return 1; }
	timeout 100 "$q" --dev "$DEV" --gid "$(here gid_index "$DEV" "$MY_IP")" --only "$case" > "$agg" 2>&1 ||
		{ echo "on $DEV:"; cat "$agg"; return 1; }
	! diff "$bare" "$agg" | grep '^[<>]' | grep -vE "$(allowed "$case")"
}

test_begin
dev_setup
for case in $("$q" --list); do
	ok "$case" compare "$case"
done
dev_teardown
