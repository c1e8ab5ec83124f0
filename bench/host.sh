# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# What the measurements in instruction time share on the host.  Sourced.

# in_guest NAME LANES TIMEOUT WORDS LINES [--save] [options of qemu/run.sh]
#
# Runs bench/NAME.sh, after WORDS for its environment, in a guest of each of KERNELS.
# With --save the lines of its output that begin with the regex LINES are kept in
# bench/results/NAME-SERIES.txt.  Fails when one run fails.
in_guest() {
	local name=$1 lanes=$2 timeout=$3 words=$4 lines=$5 save='' rc=0 kernel out here
	here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
	shift 5
	[[ ${1:-} == --save ]] && { save=1; shift; }
	for kernel in ${KERNELS:-6.1 6.12}; do
		# Its time is not the module's.
		[[ $kernel != debug ]] || continue
		echo "== kernel $kernel"
		out=$(mktemp)
		"$here/../selftests/qemu/run.sh" -k "$kernel" -n 1 --lanes "$lanes" --rate none --icount \
			--timeout "$timeout" "$@" --cmd "$words bash bench/$name.sh" | tee "$out"
		[[ ${PIPESTATUS[0]} -eq 0 ]] || rc=1
		if [[ -n $save ]]; then
			mkdir -p "$here/results"
			{
				echo "# kernel $kernel, $(date -u +%F), QEMU $(qemu-system-x86_64 --version | sed -n '1s/.*version \([0-9.]*\).*/\1/p') -icount shift=1"
				grep -E "^($lines)" "$out"
			} > "$here/results/$name-${kernel##*/}.txt"
		fi
		rm -f "$out"
	done
	return "$rc"
}
