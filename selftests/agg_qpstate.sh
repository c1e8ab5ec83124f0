#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 1
# timeout: 240
#
# What an RC device does at the edges (qpstate.c: transitions, flushes, RNR,
# errors, CQs, limits) is the same on an agg device as on a bare lane, but for
# what qpstate.differs lists with reasons.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"
here=$(dirname "$0")
bare=rxe1
out=$AGG_TMP/qpstate

# compare CASE: prints what is not as it should be; fails then.
compare() {
	awk -F '\t' '
		# "case: what: outcome" of the n-th time it comes
		function split_line(line,    i) {
			i = match(line, /: [^:]*$/)
			if (!i) { key = line; value = ""; return }
			key = substr(line, 1, i - 1)
			value = substr(line, i + 2)
		}
		FILENAME == ARGV[1] {
			if ($0 !~ /^#/ && NF == 3) { n++; what[n] = $1; must[n] = $2 }
			next
		}
		FILENAME == ARGV[2] {
			split_line($0)
			bare[key, ++seen[key]] = value
			next
		}
		{
			split_line($0)
			count[key]++
			listed = 0
			for (i = 1; i <= n; i++)
				if (key ~ "^" what[i] "$") {
					listed = 1
					if (value !~ "^" must[i] "$") { print key ": " value " (wanted /" must[i] "/)"; bad = 1 }
				}
			if (!listed && !((key, count[key]) in bare)) { print key ": " value " (not on the bare lane)"; bad = 1 }
			else if (!listed && bare[key, count[key]] != value) {
				print key ": " value " (bare lane: " bare[key, count[key]] ")"; bad = 1
			}
		}
		END {
			for (k in seen) {
				listed = 0
				for (i = 1; i <= n; i++)
					if (k ~ "^" what[i] "$") listed = 1
				if (!listed && count[k] + 0 < seen[k]) { print k ": missing"; bad = 1 }
			}
			exit bad
		}' "$here/qpstate.differs" "$out/$bare.$1" "$out/$DEV.$1"
}

run_cases() {
	local case
	for case in $("$(tool qpstate)" --list); do
		timeout "$(few 120 300)" "$(tool qpstate)" --dev "$1" --gid "$2" --only "$case" > "$out/$1.$case" 2> "$out/$1.$case.err"
		echo $? > "$out/$1.$case.rc"
	done
}

test_begin
dev_setup
mkdir -p "$out"
# Side by side: most of the time goes into waiting for what must not come.
run_cases $bare "$(my_lane 1)" &
run_cases "$DEV" "$(here echo "$MY_IP")"
wait
for case in $("$(tool qpstate)" --list); do
	if [[ $(< "$out/$bare.$case.rc") -ne 0 ]]; then
		fail "$case" "$bare: exit $(< "$out/$bare.$case.rc"): $(cat "$out/$bare.$case.err")"
	elif [[ $(< "$out/$DEV.$case.rc") -ne 0 ]]; then
		fail "$case" "$DEV: exit $(< "$out/$DEV.$case.rc"): $(cat "$out/$DEV.$case.err")"
	else
		ok "$case: $(wc -l < "$out/$DEV.$case") lines" compare "$case"
	fi
done
[[ -z ${AGG_OUT:-} ]] || cp -r "$out" "$AGG_OUT/" 2> /dev/null
dev_teardown
