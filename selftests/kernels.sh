#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Which kernels are there to build against and to boot.
#
#   kernels.sh krel SPEC    the release, e.g. 6.12.117+deb12-amd64
#   kernels.sh show SPEC    shell assignments: krel, vmlinuz, moddir, kdir, kroot
#   kernels.sh kroot SPEC   kroot alone: the folder that modules for this kernel
#                           are built in (roots.sh); empty for most kernels
#   kernels.sh source SPEC  the unpacked kernel source tree (see deps.sh)
#   kernels.sh qemu any     QEMU and its first arguments; $AGG_QEMU overrides
#
# SPEC is a series ("6.1", "6.12"), "debug" (what qemu/debug-kernel.sh has built),
# "newest" (that of Debian sid), a full release, or a folder that holds `vmlinuz`,
# `lib/modules/RELEASE` and, to build modules, `build` (a link to the prepared kernel
# tree).
#
# A kernel is taken from the running system when it is installed there, and
# else from the cache folder that deps.sh fills.  An image package need not be
# installed to be booted in a guest, and installing one is slow.
#
# The newest kernel's headers want a compiler and a C library of its own suite:
# it is in a folder together with these, and `kdir` is a path inside.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${RDMA_AGG_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rdma_agg}

die() { echo "kernels.sh: $*" >&2; exit 1; }

# Releases of a series that modules can be built for, newest first.
releases() {
	local dir
	for dir in /lib/modules/*/build; do
		[[ -e $dir/Makefile ]] && basename "${dir%/build}"
	done | grep -E "^${1//./\\.}([.-]|\$)" | sort -rV
}

# The folder with boot/ and lib/ of an image package in the cache, or "/".
image_root() {
	local dir
	if [[ -e /boot/vmlinuz-$1 && -e /lib/modules/$1/modules.dep ]]; then
		echo /
		return
	fi
	for dir in $(printf '%s\n' "$cache/kernels/linux-image-$1"_* | sort -rV); do
		[[ -e $dir/boot/vmlinuz-$1 && -e $dir/lib/modules/$1/modules.dep ]] || continue
		echo "$dir/"
		return
	done
	return 1
}

# The folder that has this release and what builds for it, or nothing.
find_kroot() {
	local root
	[[ ! -e /lib/modules/$1/build ]] || return 0
	root=$("$here/roots.sh" have newest) || return 0
	[[ ! -d $root/usr/lib/modules/$1 ]] || echo "$root"
}

find_krel() {
	local krel
	if [[ $1 == newest ]]; then
		krel=$("$here/roots.sh" have newest) || die "no kernel of sid; selftests/deps.sh check fetches it"
		ls "$krel/usr/lib/modules"
		return
	fi
	if [[ -d $1 ]]; then
		krel=$(cd "$1/lib/modules" && ls -d -- */) || die "$1: no lib/modules"
		echo "${krel%/}"
		return
	fi
	# Prefer one that can also be booted.
	for krel in $(releases "$1"); do
		image_root "$krel" > /dev/null && { echo "$krel"; return; }
	done
	krel=$(releases "$1" | head -n 1)
	[[ -n $krel ]] || die "no headers of a $1 kernel; selftests/deps.sh installs them"
	echo "$krel"
}

show() {
	local krel root
	krel=$(find_krel "$1")
	if [[ -d $1 ]]; then
		root=$(cd "$1" && pwd)
		printf 'krel=%q\nvmlinuz=%q\nmoddir=%q\nkdir=%q\nkroot=\n' "$krel" \
			"$root/vmlinuz" "$root/lib/modules/$krel" "$root/build"
		return
	fi
	root=$(find_kroot "$krel")
	if [[ -n $root ]]; then
		printf 'krel=%q\nvmlinuz=%q\nmoddir=%q\nkdir=%q\nkroot=%q\n' "$krel" \
			"$root/usr/lib/modules/$krel/vmlinuz" "$root/usr/lib/modules/$krel" \
			"/lib/modules/$krel/build" "$root"
		return
	fi
	root=$(image_root "$krel") || die "no image of $krel; selftests/deps.sh demo fetches it"
	printf 'krel=%q\nvmlinuz=%q\nmoddir=%q\nkdir=%q\nkroot=\n' "$krel" \
		"${root}boot/vmlinuz-$krel" "${root}lib/modules/$krel" "/lib/modules/$krel/build"
}

find_source() {
	local dir
	for dir in $(printf '%s\n' "$cache/source/linux-source-$1"_* | sort -rV); do
		[[ -e $dir/MAINTAINERS ]] || continue
		echo "$dir"
		return
	done
	die "no source of $1; selftests/deps.sh check fetches it"
}

# A QEMU of deps.sh's, newer than the distribution's, or the one in the PATH.
find_qemu() {
	local dir
	if [[ -n ${AGG_QEMU:-} ]]; then
		echo "$AGG_QEMU"
		return
	fi
	for dir in $(printf '%s\n' "$cache/qemu/qemu-system-x86"_* | sort -rV); do
		[[ -x $dir/usr/bin/qemu-system-x86_64 ]] || continue
		echo "$dir/usr/bin/qemu-system-x86_64 -L $dir/usr/share/qemu -L $dir/usr/share/seabios"
		return
	done
	echo qemu-system-x86_64
}

[[ $# -eq 2 ]] || die "usage: kernels.sh krel|show|kroot|source|qemu SPEC"
spec=$2
if [[ $spec == debug && $1 == @(krel|show) ]]; then
	spec=$("$here/qemu/debug-kernel.sh" --have) ||
		die "no debug kernel; selftests/qemu/debug-kernel.sh builds it"
fi
case $1 in
krel) find_krel "$spec" ;;
show) show "$spec" ;;
kroot)
	krel=$(find_krel "$spec" 2> /dev/null) || krel=$spec
	find_kroot "$krel"
	;;
source) find_source "$2" ;;
qemu) find_qemu ;;
*) die "usage: kernels.sh krel|show|kroot|source|qemu SPEC" ;;
esac
