#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Installs what is missing, and nothing else:
#
#   deps.sh build    to build the module for 6.1 and 6.12, and the tool
#   deps.sh demo     ... and to run guests
#   deps.sh check    ... and to run every check
#
# Packages come from apt by name.  Kernel images and the kernel source are only
# downloaded and unpacked into a cache folder, by package version:
# ${XDG_CACHE_HOME:-~/.cache}/rdma_agg, or $RDMA_AGG_CACHE.  When nothing is
# missing this makes no use of the network and takes well under a second.
#
# KERNELS="6.1 6.12 newest" selects the kernels; the newest, and the user space
# of other suites (roots.sh), are for `check` only, which does without them when
# they cannot be had.  The debug kernel is built by its own script, which see
# (qemu/debug-kernel.sh).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
kernels=${KERNELS:-6.1 6.12}
series=
for s in $kernels; do
	[[ $s == debug || $s == newest ]] || series+="$s "
done
source_series=6.12

# shellcheck source=selftests/foreign.sh
. "$here/foreign.sh"	# cache, VERSION_CODENAME

die() { echo "deps.sh: $*" >&2; exit 1; }
say() { echo "deps.sh: $*"; }

apt_updated=
apt_update() {
	[[ -z $apt_updated ]] || return 0
	[[ $(id -u) -eq 0 ]] || die "packages are missing and only root can install them"
	say "apt-get update"
	apt-get -qq update
	apt_updated=1
}

# install PACKAGE...: those of them that are not installed.
install() {
	local pkg missing=()
	for pkg in "$@"; do
		[[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$pkg" 2> /dev/null) == ii* ]] || missing+=("$pkg")
	done
	[[ ${#missing[@]} -gt 0 ]] || return 0
	apt_update
	say "installing ${missing[*]}"
	# The 6.12 headers bring their image, whose hook would spend minutes on
	# an initramfs that nothing here boots: INITRD=No is the hook's own switch.
	INITRD=No DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
		-o Dpkg::Use-Pty=0 install "${missing[@]}" > /dev/null
}

# fetch_deb PACKAGE: downloads the current version into the cache; sets $deb and $deb_dir.
fetch_deb() {
	apt_update
	mkdir -p "$cache/download"
	rm -f "$cache/download/$1"_*.deb
	say "downloading $1"
	# apt drops to its own user for downloads and warns where that user cannot write.
	(cd "$cache/download" && apt-get -qq -o APT::Sandbox::User=root download "$1")
	deb=$(echo "$cache/download/$1"_*.deb)
	deb_dir=$1_$(dpkg-deb -f "$deb" Version)
}

# QEMU before 9.1 can corrupt the flags of an emulated processor when a memory
# operand faults, and then the guest's kernel crashes; it is slower, too.  The
# backports suite has a later one that runs on this release's libraries.
need_qemu() {
	local have major minor deb tmp name apt_opt=()
	read -r have _ <<< "$("$here/kernels.sh" qemu any)"
	have=$("$have" --version | sed -n '1s/.*version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
	read -r major minor <<< "$have"
	((major * 100 + minor < 901)) || return 0
	say "QEMU $major.$minor is too old: taking the one of $VERSION_CODENAME-backports"
	if ! foreign_apt "$VERSION_CODENAME-backports"; then
		say "cannot be had; going on with QEMU $major.$minor"
		return 0
	fi
	rm -rf "$cache/download/qemu"
	mkdir -p "$cache/download/qemu" "$cache/qemu"
	if ! (cd "$cache/download/qemu" && apt-get -qq "${apt_opt[@]}" download \
		qemu-system-x86 qemu-system-common qemu-system-data seabios); then
		say "cannot be had; going on with QEMU $major.$minor"
		return 0
	fi
	tmp=$(mktemp -d "$cache/qemu/tmp.XXXXXX")
	for deb in "$cache/download/qemu"/*.deb; do
		dpkg-deb -x "$deb" "$tmp"
	done
	rm -rf "$tmp/usr/share/doc" "$tmp/usr/share/man"
	if ! "$tmp/usr/bin/qemu-system-x86_64" --version > /dev/null; then
		say "it does not run here; going on with QEMU $major.$minor"
		rm -rf "$tmp"
		return 0
	fi
	name=qemu-system-x86_$(dpkg-deb -f "$cache/download/qemu"/qemu-system-x86_*.deb Version)
	rm -rf "${cache:?}/qemu/$name"
	mv "$tmp" "$cache/qemu/$name"
	rm -rf "$cache/download/qemu"
}

# Not every release has it: without it the model is skipped, and that is said.
need_spin() {
	command -v spin > /dev/null && return
	apt_update
	if apt-cache show spin > /dev/null 2>&1; then
		install spin
	else
		say "no package spin in this release: the model of lane failover will be skipped"
	fi
}

header_package() {
	case $1 in
	6.1) echo linux-headers-amd64 ;;
	*) echo "linux-headers-$1-amd64" ;;
	esac
}

# need_root NAME: a folder of roots.sh; what needs it is skipped when there is none.
need_root() {
	"$here/roots.sh" get "$1" || say "going on without $1"
}

need_headers() {
	local s
	for s in $series; do
		"$here/kernels.sh" krel "$s" > /dev/null 2>&1 || install "$(header_package "$s")"
	done
}

need_image() {
	local krel tmp
	"$here/kernels.sh" show "$1" > /dev/null 2>&1 && return
	krel=$("$here/kernels.sh" krel "$1")
	apt_update
	if ! apt-cache show "linux-image-$krel" > /dev/null 2>&1; then
		# The archive has moved on since these headers were installed.
		say "the archive no longer has an image of $krel: taking the current headers"
		INITRD=No DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
			-o Dpkg::Use-Pty=0 install "$(header_package "$1")" > /dev/null
		krel=$("$here/kernels.sh" krel "$1")
		"$here/kernels.sh" show "$1" > /dev/null 2>&1 && return
	fi
	fetch_deb "linux-image-$krel"
	mkdir -p "$cache/kernels"
	tmp=$(mktemp -d "$cache/kernels/tmp.XXXXXX")
	dpkg-deb -x "$deb" "$tmp"
	# Later suites keep everything below usr/lib/modules.
	if [[ ! -d $tmp/lib/modules && -d $tmp/usr/lib/modules ]]; then
		mkdir -p "$tmp/lib"
		mv "$tmp/usr/lib/modules" "$tmp/lib/modules"
	fi
	rm -rf "${tmp:?}/usr"
	depmod -b "$tmp" "$krel"
	# Renamed only when complete: an interrupted run leaves no half kernel.
	rm -rf "$cache/kernels/$deb_dir"
	mv "$tmp" "$cache/kernels/$deb_dir"
	rm -f "$deb"
}

need_source() {
	local tmp tar
	"$here/kernels.sh" source "$source_series" > /dev/null 2>&1 && return
	fetch_deb "linux-source-$source_series"
	mkdir -p "$cache/source"
	tmp=$(mktemp -d "$cache/source/tmp.XXXXXX")
	# Only what the checkers need, streamed: the whole tree is 1.4 GB.
	tar=$(dpkg-deb --fsys-tarfile "$deb" | tar -t | grep -E '/linux-source-[0-9.]+\.tar\.xz$')
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "$tar" | xz -dc -T0 |
		tar -x -C "$tmp" --strip-components=1 --wildcards --no-wildcards-match-slash --anchored \
			'*/scripts' '*/Documentation/netlink' '*/Documentation/sphinx' \
			'*/tools/net/ynl' '*/MAINTAINERS' '*/COPYING' '*/LICENSES' '*/Makefile' \
			'*/tools/testing/selftests/kselftest' '*/.get_maintainer.ignore'
	rm -rf "$cache/source/$deb_dir"
	mv "$tmp" "$cache/source/$deb_dir"
	rm -f "$deb"
}

scope=${1:-}
case $scope in
build | demo | check) ;;
*) die "usage: deps.sh build|demo|check" ;;
esac

install gcc make libc6-dev libmnl-dev pkg-config kmod xz-utils util-linux
need_headers
[[ $scope != build ]] || exit 0

install qemu-system-x86 busybox-static iproute2 rdma-core ibverbs-utils ibverbs-providers perftest python3
for s in $series; do
	need_image "$s"
done
need_qemu
[[ $scope != demo ]] || exit 0

install sparse shellcheck yamllint codespell perl python3-yaml python3-pyverbs rdmacm-utils \
	libibverbs-dev librdmacm-dev ethtool procps coccinelle python3-jsonschema clang libclang-rt-dev \
	lld llvm
need_source
need_spin
need_root trixie
need_root sid
[[ " $kernels " != *" newest "* ]] || need_root newest
