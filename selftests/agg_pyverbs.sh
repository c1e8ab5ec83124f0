#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 1
# timeout: 500
#
# rdma-core's own test suite (Debian: python3-pyverbs, rdma-core).  Its tests
# connect QPs of one device to each other.
#
# pyverbs.required lists what must pass: every test of RC, CQ, MR, PD, device
# and atomics that passes on a bare lane.  pyverbs.later lists what passes
# there and comes to agg devices later.  What is in neither list was skipped
# on the bare lane too.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
here=$(dirname "$0")
suite=/usr/share/doc/rdma-core/tests
tests=$AGG_TMP/tests
results=$AGG_TMP/pyverbs.results

test_begin
[[ -e $suite/run_tests.py ]] || skip_all "no rdma-core tests in $suite"
python3 -c 'import pyverbs' 2> /dev/null || skip_all "no python3-pyverbs"
dev_setup
cp -r "$suite" "$tests"
gunzip -f "$tests"/*.gz

gid=$(here gid_index "$DEV" "$MY_IP")
timeout "$(few 240 480)" python3 "$here/run_pyverbs.py" "$tests" --dev "$DEV" --port 1 --gid "$gid" \
	> "$results" 2> "$AGG_TMP/pyverbs.log"
rc=$?
if grep -q '^# end after [1-9]' "$results"; then
	pass "the suite ran to its end"
else
	fail "the suite ran to its end" "exit $rc; the last line: $(tail -n 1 "$results")"
	tail -n 20 "$AGG_TMP/pyverbs.log" | sed 's/^/#   /'
fi

declare -A verdict=() why=()
while read -r v id reason; do
	[[ $v != '#' ]] || continue
	# The first word that is not ok stays.
	[[ ${verdict[$id]:-ok} == ok ]] || continue
	verdict[$id]=$v why[$id]=$reason
done < "$results"
while read -r id; do
	if [[ ${verdict[$id]:-} == ok ]]; then
		pass "$id"
	else
		fail "$id" "${verdict[$id]:-did not run} ${why[$id]:-}"
		grep -A 25 "^Traceback" "$AGG_TMP/pyverbs.log" | grep -B 20 -A 5 -F "${id##*.}" |
			tail -n 15 | sed 's/^/#   /'
	fi
done < <(grep -v '^#' "$here/pyverbs.required")
later=0
while read -r id; do
	[[ ${verdict[$id]:-} == ok ]] && continue
	later=$((later + 1))
	echo "# later: $id: ${verdict[$id]:-did not run} ${why[$id]:-}"
done < <(grep -v '^#' "$here/pyverbs.later")
echo "# $later of pyverbs.later do not pass yet; in all $(grep -c '^ok ' "$results") ok," \
	"$(grep -cE '^(FAIL|ERROR) ' "$results") failed, $(grep -c '^skipped ' "$results") skipped"
# What passes on a bare lane must be in a list.
if [[ $DEV != agg* ]]; then
	sort -u "$here/pyverbs.required" "$here/pyverbs.later" > "$AGG_TMP/pyverbs.known"
	is "every test that passes is in a list" \
		"$(sed -n 's/^ok //p' "$results" | sort | comm -23 - "$AGG_TMP/pyverbs.known")" ""
fi
dev_teardown
