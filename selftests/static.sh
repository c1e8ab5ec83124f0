#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The checks that need no guest, one line each:
#
#   static.sh           all
#   static.sh NAME...   some of: build sparse checkpatch kernel-doc netlink
#                       coccicheck clang yamllint codespell shellcheck
#                       version
#
# KERNELS="6.1 6.12 newest" selects what `build`, `sparse` and `clang` are run
# against; the newest is skipped when deps.sh could not fetch it.  What compiles or
# searches the module is not repeated for content that has passed (passed.sh).  With
# AGG_RESULTS=FILE a line "ok|not|skip NAME SECONDS REASON" per check is added
# to that file (check.sh adds them up).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/passed.sh"
cd "$here/.."
# The debug kernel is a 6.12.
series=" ${KERNELS:-6.1 6.12 newest} "
series=${series// debug / }
checks=("$@")
[[ ${#checks[@]} -gt 0 ]] || checks=(build sparse checkpatch kernel-doc coccicheck clang netlink shellcheck yamllint codespell version)
passed=0 failed=0 skipped=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

note() { [[ -z ${AGG_RESULTS:-} ]] || echo "$*" >> "$AGG_RESULTS"; }

# judge NAME COMMAND...: the command prints what it finds, on both outputs, and fails.
# The subshell lets a check end itself with `exit`.
judge() {
	local name=$1 start=$SECONDS rc=0
	shift
	("$@") > "$tmp/log" 2>&1 || rc=$?
	if [[ $rc -eq 0 ]]; then
		passed=$((passed + 1))
		echo "ok $name ($((SECONDS - start)) s)"
		note "ok $name $((SECONDS - start)) -"
	elif [[ $rc -eq 4 ]]; then
		skipped=$((skipped + 1))
		echo "ok $name # SKIP $(tail -n 1 "$tmp/log")"
		note "skip $name 0 $(tail -n 1 "$tmp/log")"
	else
		failed=$((failed + 1))
		echo "not ok $name"
		tail -n 60 "$tmp/log" | sed 's/^/    | /'
		note "not $name $((SECONDS - start)) $(head -n 1 "$tmp/log")"
	fi
}

# judge_new NAME WORDS COMMAND...: as judge, unless it has passed on the same module and
# kernel, by the same tools. WORDS say which these are.
judge_new() {
	local name=$1 before=$failed,$skipped key
	key=$(content_key kmod include Makefile "$here/static.sh" -- "$2")
	shift 2
	if passed_before "$name" "$key"; then
		passed=$((passed + 1))
		echo "ok $name (as before)"
		note "ok $name 0 -"
		return
	fi
	judge "$name" "$@"
	[[ $before != "$failed,$skipped" ]] || passed_now "$name" "$key"
}

need() { command -v "$1" > /dev/null || { echo "no $1; selftests/deps.sh check installs it"; exit 4; }; }

# krel_of SERIES: sets $krel, or ends the check.
krel_of() {
	krel=$("$here/kernels.sh" krel "$1") && return
	[[ $1 != newest ]] || exit 4
	exit 1
}

kmake() {	# kmake SERIES MAKE-ARGUMENTS...
	local krel
	krel_of "$1"
	shift
	make -s modules KVER="$krel" BUILD="build/static/$krel" "$@"
}

# Everything is compiled anew, so that every warning is seen.
check_build() {
	local krel
	krel_of "$1"
	rm -rf "build/static/$krel"
	kmake "$1" W=1 -j"$(nproc)" > "$tmp/build" 2>&1 || { cat "$tmp/build"; return 1; }
	! grep -E -A 6 'warning:|WARNING:' "$tmp/build"
}

# sparse also complains about the kernel's own headers; what counts is ours.
check_sparse() {
	[[ $1 == newest ]] || need sparse
	kmake "$1" C=2 W=1 CF=-D__CHECK_ENDIAN__ > "$tmp/sparse" 2>&1 || { cat "$tmp/sparse"; return 1; }
	# kbuild goes on without a checker that it does not like.
	! grep -E '/kmod/.*(warning|error):|sparse is not available' "$tmp/sparse"
}

c_files() {	# c_files FOLDER...
	find "$@" \( -name '*.c' -o -name '*.h' \) -not -path '*/generated/*' -not -path '*/shim/*' \
		-type f 2> /dev/null | sort
}

# Generated files are the generator's business.  Rules left out: in compat.h that
# kernel versions are not looked at, in trace.h the layout that TRACE_EVENT()
# has everywhere; for programs those about kernel types, __func__ in messages,
# volatile; for test programs also layout and attribute macros of the kernel.
check_checkpatch() {
	local src rc=0 files
	src=$("$here/kernels.sh" source 6.12) || return 4
	style() {	# style RULES-LEFT-OUT FILE...
		local ignore=$1
		shift
		perl "$src/scripts/checkpatch.pl" --no-tree --strict --terse --show-types --no-summary \
			${ignore:+--ignore "$ignore"} -f "$@"
	}
	mapfile -t files < <(c_files kmod | grep -vE '/(compat|trace)\.h$')
	style '' "${files[@]}" || rc=1
	style LINUX_VERSION_CODE,CONSTANT_COMPARISON,MACRO_ARG_UNUSED kmod/compat.h || rc=1
	style PARENTHESIS_ALIGNMENT,OPEN_ENDED_LINE kmod/trace.h || rc=1
	mapfile -t files < <(c_files tools)
	style PREFER_KERNEL_TYPES,EMBEDDED_FUNCTION_NAME,VOLATILE "${files[@]}" || rc=1
	mapfile -t files < <(c_files selftests)
	style "PREFER_KERNEL_TYPES,EMBEDDED_FUNCTION_NAME,VOLATILE,LONG_LINE,LONG_LINE_STRING,LONG_LINE_COMMENT,NEW_TYPEDEFS,PREFER_DEFINED_ATTRIBUTE_MACRO,CAMELCASE,LEADING_SPACE,SPACING,PARENTHESIS_ALIGNMENT,MACRO_ARG_REUSE,MACRO_ARG_PRECEDENCE,BRACES" \
		"${files[@]}" || rc=1
	return $rc
}

check_kernel_doc() {
	local src files
	src=$("$here/kernels.sh" source 6.12) || return 4
	mapfile -t files < <(c_files kmod include)
	perl "$src/scripts/kernel-doc" -none -Werror "${files[@]}"
}

# The kernel's semantic patches that can report; what `make coccicheck` runs,
# which needs a kernel tree to stand in.
check_coccicheck() {
	local src script options
	need spatch
	src=$("$here/kernels.sh" source 6.12) || return 4
	find "$src/scripts/coccinelle" -name '*.cocci' | sort > "$tmp/scripts"
	while read -r script; do
		grep -q '^virtual report' "$script" || continue
		options=$(sed -n 's|^// *Options: *||p' "$script")
		# shellcheck disable=SC2086 # several options
		spatch -D report --no-show-diff --very-quiet $options --jobs "$(nproc)" \
			--cocci-file "$script" --dir kmod 2>> "$tmp/cocci.err" || true
	done < "$tmp/scripts" > "$tmp/cocci"
	! grep -E ':[0-9]+' "$tmp/cocci"
}

# A second compiler sees other things.  The option of gcc that the kernel was
# configured with and clang does not know is no finding.
check_clang() {
	local krel src have min
	krel_of "$1"
	# The newest kernel comes with its own.
	if [[ $1 != newest ]]; then
		need clang
		need ld.lld
		src=$("$here/kernels.sh" source 6.12) || return 4
		have=$(clang -dumpversion)
		min=$(sh "$src/scripts/min-tool-version.sh" llvm)
		if [[ $(printf '%s\n' "$min" "$have" | sort -V | head -n 1) != "$min" ]]; then
			echo "clang $have; kernels want $min"
			return 4
		fi
	fi
	rm -rf "build/static/$krel-clang"
	make -s modules KVER="$krel" BUILD="build/static/$krel-clang" LLVM=1 W=1 -j"$(nproc)" \
		> "$tmp/clang" 2>&1 || { cat "$tmp/clang"; return 1; }
	! grep -E -A 6 '/kmod/.*warning:' "$tmp/clang"
}

check_netlink() {
	[[ -x selftests/gen-netlink.sh ]] || { echo "no generator"; return 4; }
	selftests/gen-netlink.sh --check
}

shell_files() {
	local file
	find . \( -path ./build -o -path ./.git \) -prune -o -type f -print |
		while read -r file; do
			case $file in
			*.sh | ./dkms.conf) echo "$file" ;;
			*.c | *.h | *.o | *.md | *.rst | *.yaml) ;;
			*) head -n 1 "$file" | grep -aqE '^#!.*\b(ba|da|k)?sh\b' && echo "$file" ;;
			esac || true
		done | sort
}

check_shellcheck() {
	local files
	need shellcheck
	mapfile -t files < <(shell_files)
	shellcheck -x -P SCRIPTDIR "${files[@]}"
}

check_yamllint() {
	local files
	need yamllint
	mapfile -t files < <(find . \( -path ./build -o -path ./.git \) -prune -o \
		\( -name '*.yaml' -o -name '*.yml' \) -print | sort)
	[[ ${#files[@]} -gt 0 ]] || return 0
	# As the kernel's specs are written: a licence line first, long prose lines allowed up to 100.
	yamllint -s -d '{extends: default, rules: {line-length: {max: 100}, document-start: {present: true}, '\
'comments-indentation: disable, indentation: {indent-sequences: whatever}, '\
'brackets: {max-spaces-inside: 1}}}' "${files[@]}"
}

check_codespell() {
	need codespell
	codespell -q 3 -S './build,./.git,*.o,*.cmd,./selftests/unit/corpus,*/corpus' \
		-L 'agg,ue,inflight,te,nd,ot,ist,fo,ba,ans,hist,parm' .
}

# DKMS compares what modinfo says with the package's version.
check_version() {
	local module dkms tool
	module=$(sed -n 's/^MODULE_VERSION("\(.*\)");$/\1/p' kmod/main.c)
	dkms=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' dkms.conf)
	tool=$(sed -n 's/^#define VERSION[[:space:]]*"\(.*\)"$/\1/p' tools/rdma-agg/main.c)
	[[ -n $module && $module == "$dkms" && $module == "$tool" ]] &&
		! grep -hoE 'rdma_agg[-/][0-9]+(\.[0-9]+)+' README.md Documentation/*.rst |
			grep -vxE "rdma_agg[-/]${module//./\\.}" && return
	echo "MODULE_VERSION \"$module\", dkms.conf \"$dkms\", rdma-agg \"$tool\""
	return 1
}

tools=$(version_of gcc sparse clang spatch)
for check in "${checks[@]}"; do
	case $check in
	build | sparse | clang)
		for s in $series; do
			words="$("$here/kernels.sh" krel "$s" 2> /dev/null) $tools" || words="no kernel"
			judge_new "$check-$s" "$words" "check_$check" "$s"
		done
		;;
	coccicheck)
		judge_new "$check" "$("$here/kernels.sh" source 6.12 2> /dev/null || true) $tools" check_coccicheck
		;;
	checkpatch | kernel-doc | netlink | shellcheck | yamllint | codespell | version)
		judge "$check" "check_${check//-/_}"
		;;
	*)
		echo "static.sh: no check $check" >&2
		exit 2
		;;
	esac
done
if [[ $skipped -gt 0 ]]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[[ $failed -eq 0 ]]
