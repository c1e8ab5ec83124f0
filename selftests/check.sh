#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Runs gates and adds up what they say; the last line is
# "N passed, M failed" (", K skipped"), and the exit code goes by it.
#
#   check.sh all                 static, unit, fuzz, model, guests
#   check.sh static | unit | fuzz | model
#   check.sh guests [TEST...]    TEST: a name (basic, agg_basic) or a path
#
# KERNELS="6.1 6.12 debug newest" selects the guests' kernels (anything that
# qemu/run.sh -k takes).  The debug kernel is built when there is none yet; sid's,
# the newest, is left out when deps.sh could not fetch it.  What a guest test wants
# is said in its header:
#
#   # guests: 2            1 or 2, or "1 2" for a run in each (default 2)
#   # kernels: 6.12 debug  only on these (default: all of KERNELS but the newest,
#                          where tests that are named run all the same)
#   # timeout: 120         seconds (default 240)
#   # icount: yes          in instruction time, one guest
#
# One guest boot runs all tests that want the same.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/.." && pwd)
cd "$repo"
series=${KERNELS:-6.1 6.12}
total=$(mktemp)
trap 'rm -f "$total"' EXIT

# The words of a header line, or a default.
header() {	# header FILE KEY DEFAULT
	local words
	words=$(sed -n "1,40s/^# $2: *//p" "$1" | head -n 1)
	echo "${words:-$3}"
}

run_static() {
	echo "== static checks"
	AGG_RESULTS=$total "$here/static.sh" || true
}

run_unit() {
	local log rc=0
	echo "== unit tests"
	log=$(mktemp)
	make --no-print-directory -s unit > "$log" 2>&1 || rc=$?
	# TAP of several programs, each after a "# name" line.
	awk -v total="$total" '
		/^# [a-z_]+$/ { prog = $2 }
		/^ok / { printf "ok unit/%s/%s\n", prog, $2 >> total }
		/^not ok / { printf "not unit/%s/%s\n", prog, $3 >> total; print }' "$log"
	if [[ $rc -ne 0 ]]; then
		tail -n 30 "$log" | sed 's/^/    | /'
		grep -q '^not ok ' "$log" || echo "not unit 0 the programs do not build or died" >> "$total"
	fi
	echo "unit: $(grep -c '^ok ' "$log" || true) points passed, exit $rc"
	rm -f "$log"
}

# The fuzzers of user space, at the same time, for FUZZ_SECONDS (60).
run_fuzz() {
	local log target
	echo "== fuzzers"
	if ! command -v clang > /dev/null; then
		echo "skip fuzz 0 no clang" >> "$total"
		return 0
	fi
	log=$(mktemp)
	make --no-print-directory -s -k -j2 -C selftests/unit fuzz > "$log" 2>&1 || true
	for target in selftests/unit/fuzz_*.c; do
		target=${target##*/fuzz_}
		target=${target%.c}
		if grep "^fuzz_$target: .* no finding" "$log"; then
			echo "ok fuzz/$target" >> "$total"
		else
			echo "not fuzz/$target 0 -" >> "$total"
			tail -n 40 "$log" | sed 's/^/    | /'
		fi
	done
	rm -f "$log"
}

run_model() {
	local rc=0
	echo "== model of lane failover"
	AGG_RESULTS=$total "$here/model/run.sh" || rc=$?
	case $rc in
	0 | 4) ;;
	*) grep -q '^not model/' "$total" || echo "not model 0 the runner died, exit $rc" >> "$total" ;;
	esac
}

# boot KERNEL GUESTS ICOUNT OUT TEST...: the tests in guests; OUT/results says how they went.
boot() {
	local kernel=$1 guests=$2 icount=$3 out=$4 smp=()
	shift 4
	# Beside it two others run, see run_guests.
	[[ $kernel != debug ]] || smp=(--smp 1)
	# shellcheck disable=SC2086 # icount is empty or an option
	"$here/qemu/run.sh" -k "$kernel" -n "$guests" "${smp[@]}" ${icount:+--icount} --out "$out" \
		--timeout $((300 + 300 * $#)) -- "$@" || true
}

# run_group KERNEL GUESTS ICOUNT TEST...
#
# A test that fails is run once more, alone, and both are told: an emulated
# machine that is starved of its host's time fails by deadlines of its own. What
# fails twice has failed, and what the kernel complained of once, too.
run_group() {
	local kernel=$1 guests=$2 icount=$3 out again=() name reason names=''
	shift 3
	[[ $# -gt 0 ]] || return 0
	echo "== kernel $kernel, $guests guest(s)${icount:+, instruction time}: $# tests"
	out=$(mktemp -d "${TMPDIR:-/tmp}/rdma_agg-$kernel.XXXXXX" 2> /dev/null || mktemp -d)
	boot "$kernel" "$guests" "$icount" "$out" "$@"
	if [[ ! -s $out/results ]]; then
		echo "not $kernel/$guests 0 the guests could not be started" >> "$total"
		return 0
	fi
	while read -r _ name _ reason; do
		# What is no test (kmemleak, shutdown) cannot be run again.
		[[ -e selftests/$name.sh && $reason != *@(BUG|WARNING|Oops):* ]] || continue
		! grep -q '^not ok .*no complaint of the kernel' "$out"/boot*/a/"$name.log" || continue
		again+=("selftests/$name.sh")
		names+=" $name "
	done < <(grep '^not ' "$out/results")
	if [[ ${#again[@]} -gt 0 ]]; then
		echo "== failed, once more: ${again[*]}"
		mkdir -p "$out/again"
		boot "$kernel" "$guests" "$icount" "$out/again" "${again[@]}"
		{
			awk -v again="$names" '$1 != "not" || !index(again, " " $2 " ")' "$out/results"
			cat "$out/again/results"
		} > "$out/merged" && mv "$out/merged" "$out/results"
	fi
	sed "s|^\([a-z]*\) |\1 $kernel/$guests/|" "$out/results" >> "$total"
	grep -q '^not ' "$out/results" || rm -rf "$out"
}

# have_kernel KERNEL: builds the debug kernel; says in the summary why there is none
# of it, or none of sid's.
have_kernel() {
	local rc=0
	if [[ $1 == newest ]]; then
		"$here/kernels.sh" show newest > /dev/null 2>&1 && return 0
		echo "skip newest/kernel 0 sid's could not be fetched" >> "$total"
		return 1
	fi
	[[ $1 == debug ]] || return 0
	"$here/qemu/debug-kernel.sh" > /dev/null || rc=$?
	case $rc in
	0) return 0 ;;
	3) echo "skip debug/kernel 0 its source cannot be had" >> "$total" ;;
	*) echo "not debug/kernel 0 the debug kernel does not build" >> "$total" ;;
	esac
	return 1
}

run_guests() {
	local tests=() test kernel guests one two count beside pid wanted
	for test in "$@"; do
		if [[ -e $test ]]; then
			:
		elif [[ -e selftests/$test.sh ]]; then
			test=selftests/$test.sh
		elif [[ -e selftests/agg_$test.sh ]]; then
			test=selftests/agg_$test.sh
		else
			echo "check.sh: no test $test" >&2
			exit 2
		fi
		tests+=("$test")
	done
	[[ $# -gt 0 ]] || tests=(selftests/agg_*.sh)
	for kernel in $series; do
		# The default for tests that do not say.
		wanted=$kernel
		[[ $kernel != newest || $# -gt 0 ]] || wanted=
		one=() two=() count=()
		for test in "${tests[@]}"; do
			[[ " $(header "$test" kernels "$wanted") " == *" $kernel "* ]] || continue
			if [[ $(header "$test" icount no) == yes ]]; then
				count+=("$test")
				continue
			fi
			for guests in $(header "$test" guests 2); do
				[[ $guests -eq 1 ]] && one+=("$test") || two+=("$test")
			done
		done
		[[ $((${#one[@]} + ${#two[@]} + ${#count[@]})) -eq 0 ]] || have_kernel "$kernel" || continue
		if [[ $kernel == debug ]]; then
			# Both at once: each waits for its own single processor most of the
			# time, and deadlines are longer there.
			beside=$(mktemp)
			run_group "$kernel" 2 '' "${two[@]}" > "$beside" 2>&1 &
			pid=$!
			run_group "$kernel" 1 '' "${one[@]}"
			wait "$pid" || true
			cat "$beside"
			rm -f "$beside"
		else
			run_group "$kernel" 2 '' "${two[@]}"
			run_group "$kernel" 1 '' "${one[@]}"
		fi
		run_group "$kernel" 1 1 "${count[@]}"
	done
}

what=${1:-all}
[[ $# -eq 0 ]] || shift
start=$SECONDS
case $what in
all)
	run_static
	run_unit
	run_fuzz
	run_model
	run_guests
	;;
static) run_static ;;
unit) run_unit ;;
fuzz) run_fuzz ;;
model) run_model ;;
guests) run_guests "$@" ;;
*)
	echo "usage: check.sh all|static|unit|fuzz|model|guests [TEST...]" >&2
	exit 2
	;;
esac

passed=$(grep -c '^ok ' "$total" || true)
failed=$(grep -c '^not ' "$total" || true)
skipped=$(grep -c '^skip ' "$total" || true)
echo "== summary, $(((SECONDS - start) / 60)) min $(((SECONDS - start) % 60)) s"
sed -n 's/^not \([^ ]*\) *[0-9.]*/not ok \1:/p; s/^skip \([^ ]*\) *[0-9.]*/skipped \1:/p' "$total"
if [[ $skipped -gt 0 ]]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
# Nothing run is no success.
[[ $failed -eq 0 && $passed -gt 0 ]]
