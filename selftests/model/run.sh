#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The model of lane failover (failover.pml), searched by Spin:
#
#   run.sh               the short searches: what `make check` runs
#   run.sh long          the larger ones (see Documentation/failover.rst for what they take)
#   run.sh NAME...       some, by their names in the file `searches`
#   run.sh trace NAME    the shortest way to what NAME finds, step by step
#
# Works on one core, at low priority; a search that went well is not repeated for the
# same model (../passed.sh).  Exit code 4: no Spin here.  With
# AGG_RESULTS=FILE a line "ok|not|skip model/NAME SECONDS REASON" per search is
# added to that file (check.sh adds them up).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/../passed.sh"
searches=$here/searches
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

note() { [[ -z ${AGG_RESULTS:-} ]] || echo "$*" >> "$AGG_RESULTS"; }

if ! command -v spin > /dev/null || ! command -v gcc > /dev/null; then
	echo "model # SKIP no spin or no gcc; selftests/deps.sh check installs them"
	note "skip model 0 no spin or no gcc"
	exit 4
fi

model_tools="$(spin -V | head -n 1) $(gcc --version | head -n 1)"

# lines LIST...: of the file, without comments.
lines() {
	local list
	for list in "$@"; do
		awk -v list="$list" '!/^#/ && NF && (list == $1 || list == $4)' "$searches"
	done
}

# build FLAGS-OF-GCC FLAGS-OF-THE-MODEL...: $tmp/pan.  The model is one
# process, which leaves nothing to partial order reduction.
build() {
	local cc=$1
	shift
	rm -f "$tmp"/*
	# shellcheck disable=SC2086 # several options
	(cd "$tmp" && spin -a "$@" "$here/failover.pml" > spin.out 2>&1 &&
		gcc -w -DNOREDUCE -DVECTORSZ=1024 -DMEMLIM="${MEMLIM:-6000}" $cc -o pan pan.c) ||
		{ cat "$tmp/spin.out"; return 1; }
}

# How states are kept.  exact: whole, so the search is exhaustive.  hash: 64
# bits of each; a state is missed when two of them agree, which with 10^8
# states has a probability below 1 in 1000.  bits: three bits in a table of
# 4 GB; what fits in is a sample.
search() {	# search STORE WANT FLAGS...
	local store=$1 want=$2 opt=-Og run=(-m1000000)
	shift 2
	# Most searches are so short that compiling is what takes time.
	case $want in
	fails | reached) opt=-O0 ;;
	ends) opt+=' -DNP -DNOFAIR' run+=(-l) ;;
	esac
	[[ $want == ends ]] || opt+=' -DSAFETY'
	case $store in
	exact) opt+=' -DCOLLAPSE' run+=(-w22) ;;
	hash) opt=${opt/-Og/-O2}' -DHC4' run+=(-w26) ;;
	bits) opt=${opt/-Og/-O2}' -DBITSTATE' run+=(-w35) ;;
	esac
	build "$opt" "$@" || return 1
	(cd "$tmp" && nice -n 10 ./pan "${run[@]}" > pan.out 2>&1) || true
}

found() {
	grep -qE '^pan:1: (assertion violated|invalid end state|non-progress cycle)' "$tmp/pan.out"
}

# judge LIST WANT STORE NAME RULES FLAGS...
judge() {
	local want=$2 store=$3 name=$4 rules=$5 start=$SECONDS bad='' states key
	key=$(content_key "$here/failover.pml" "$here/run.sh" -- "$model_tools" "$@")
	shift 5
	if passed_before "model-$name" "$key"; then
		passed=$((passed + 1))
		echo "ok $name: $want, as before"
		note "ok model/$name 0 -"
		return
	fi
	if ! search "$store" "$want" "$@"; then
		bad='does not build'
	else
		states=$(awk '/states, stored/ { print $1; exit }' "$tmp/pan.out")
		case $want in
		holds | ends)
			# Its word for an unfinished search differs with the cause.
			if found; then
				bad=$(sed -n 's/^pan:1: //p' "$tmp/pan.out" | head -n 1)
			elif ! grep -q 'errors: 0' "$tmp/pan.out" ||
				grep -qE 'not completed|too small|out of memory' "$tmp/pan.out"; then
				bad='the search was not completed'
			fi
			;;
		*)
			found || bad='nothing found: the model does not see it'
			;;
		esac
	fi
	if [[ -z $bad ]]; then
		passed_now "model-$name" "$key"
		passed=$((passed + 1))
		echo "ok $name: $want, $states states, $((SECONDS - start)) s"
		note "ok model/$name $((SECONDS - start)) -"
	else
		failed=$((failed + 1))
		echo "not ok $name (rules $rules: $*): $bad"
		tail -n 20 "$tmp/pan.out" 2> /dev/null | sed 's/^/    | /'
		note "not model/$name $((SECONDS - start)) $bad"
	fi
}

trace() {
	local flags
	read -r _ _ _ _ _ flags <<< "$(lines "$1")"
	[[ -n $flags ]] || { echo "run.sh: no search $1" >&2; exit 2; }
	# shellcheck disable=SC2086 # several options
	build '-O2 -DSAFETY -DCOLLAPSE -DBFS' $flags
	(cd "$tmp" && nice -n 10 ./pan -w22 > pan.out 2>&1) || true
	found || { echo "nothing found"; return 1; }
	# shellcheck disable=SC2086
	(cd "$tmp" && spin -t -k failover.pml.trail $flags "$here/failover.pml") |
		grep -E '^ *[0-3]: |\*\*\*|^spin: .*(assert|Error)' | sed 's/^ *//' || true
	sed -n 's/^pan:1: //p' "$tmp/pan.out" | head -n 1
}

lists=("$@")
[[ $# -gt 0 ]] || lists=(short)
if [[ ${lists[0]} == trace ]]; then
	trace "${2:?trace of which search?}"
	exit
fi
while read -r line; do
	# shellcheck disable=SC2086 # words
	judge $line
done < <(lines "${lists[@]}")
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
