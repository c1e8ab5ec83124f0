#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What an administrator does, on a machine that has nothing: in a folder that
# debootstrap makes (root; some GB and from a few minutes on, so not part of
# `make check`).
#
#   fresh.sh              install and dkms
#   fresh.sh STEP...      of: install  deps.sh build, make, make install
#                             dkms     dkms add, build, install, remove
#                             demo     make demo, which installs what it needs
#                             check    make check: as long as it takes without caches
#
# SERIES=6.12 selects the kernel, DIR=FOLDER where to work (default: below
# /var/tmp; removed at the end).  The last line is "N passed, M failed".
# shellcheck disable=SC2016 # command lines are for the inner shell
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/.." && pwd)
series=${SERIES:-6.12}
# shellcheck source=selftests/foreign.sh
. "$here/foreign.sh"	# VERSION_CODENAME, own_mirror

die() { echo "fresh.sh: $*" >&2; exit 2; }
steps=("$@")
[[ ${#steps[@]} -gt 0 ]] || steps=(install dkms)
for step in "${steps[@]}"; do
	[[ $step == install || $step == dkms || $step == demo || $step == check ]] || die "no step $step"
done
[[ $(id -u) -eq 0 ]] || die "wants to be root"
command -v debootstrap > /dev/null || die "no debootstrap; apt install debootstrap"

if [[ -n ${DIR:-} ]]; then
	mkdir -p "$DIR"
	root=$(cd "$DIR" && pwd)
else
	root=$(mktemp -d /var/tmp/rdma_agg-fresh.XXXXXX)
	trap 'rm -rf "$root"' EXIT
fi
log=$root.log
passed=0 failed=0

# ok WHAT COMMAND...
ok() {
	local what=$1 start=$SECONDS
	shift
	if "$@" > "$log" 2>&1 < /dev/null; then
		passed=$((passed + 1))
		echo "ok $what ($((SECONDS - start)) s): $(tail -n 1 "$log")"
	else
		failed=$((failed + 1))
		echo "not ok $what"
		tail -n 30 "$log" | sed 's/^/    | /'
		return 1
	fi
}

# inside COMMAND-LINE: a shell command in the folder, at the sources.
inside() {
	unshare --mount sh -ec '
		mount --rbind /dev "$1/dev"
		mount -t proc proc "$1/proc"
		mount -t sysfs -o ro sysfs "$1/sys"
		exec chroot "$1" env -i HOME=/root LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin \
			DEBIAN_FRONTEND=noninteractive INITRD=No KERNELS="$3" SERIES="$3" \
			bash -ec "cd /src; $2"' sh "$root" "$1" "$series"
}

# The machine's own Debian suites, and no others.
bare_machine() {
	local file
	[[ -e $root/etc/debian_version ]] ||
		debootstrap --variant=minbase --include=ca-certificates "$VERSION_CODENAME" "$root" "$(own_mirror)"
	rm -f "$root/etc/apt/sources.list"
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
		[[ ! -s $file ]] || cp "$file" "$root$file"
	done
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	rm -rf "$root/src"
	mkdir -p "$root/src"
	(cd "$repo" && git ls-files -z | tar -c --null -T -) | tar -x -C "$root/src"
	inside 'apt-get -qq update && apt-get -qq -y --no-install-recommends install make'
}

# After `make install`: every file, in its place and of use.
check_installed() {
	inside '
		krel=$(selftests/kernels.sh krel $SERIES)
		file=$(modinfo -k "$krel" -F filename rdma_agg)
		[[ $file == /lib/modules/$krel/updates/rdma_agg.ko* ]] || { echo "module: $file"; exit 1; }
		modprobe -S "$krel" --show-depends rdma_agg | grep ib_core
		rdma-agg -V
		test -s /usr/share/man/man8/rdma-agg.8
		. /usr/share/bash-completion/completions/rdma-agg
		complete -p rdma-agg
		echo "#include <rdma/rdma_agg.h>" | cc -fsyntax-only -xc -'
}

check_staged() {
	inside '
		make -s install KVER=$SERIES DESTDIR=/stage
		cd /stage && find . -type f ! -name "modules.*" | sort
		for f in usr/sbin/rdma-agg usr/share/man/man8/rdma-agg.8 \
			 usr/share/bash-completion/completions/rdma-agg usr/include/rdma/rdma_agg.h; do
			test -s "$f"
		done
		ls lib/modules/*/updates/rdma_agg.ko*'
}

step_install() {
	ok "deps.sh build" inside 'selftests/deps.sh build' || return 0
	ok "make" inside 'make -s modules tools KVER=$SERIES' || return 0
	ok "make install" inside 'make -s install KVER=$SERIES' || return 0
	ok "what it installed" check_installed || true
	ok "make install DESTDIR=..." check_staged || true
}

step_dkms() {
	local version
	version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$repo/dkms.conf")
	ok "headers of $series" inside "selftests/deps.sh build && make -s clean" || return 0
	ok "Debian's dkms" inside 'apt-get -qq -y --no-install-recommends install dkms' || return 0
	inside "rm -rf /usr/src/rdma_agg-$version && cp -r /src /usr/src/rdma_agg-$version"
	ok "dkms add" inside "dkms add rdma_agg/$version" || return 0
	ok "dkms build" inside "dkms build rdma_agg/$version -k \$(selftests/kernels.sh krel $series)" || return 0
	ok "dkms install" inside "
		krel=\$(selftests/kernels.sh krel $series)
		rm -f /lib/modules/\$krel/updates/rdma_agg.ko*
		dkms install rdma_agg/$version -k \$krel
		dkms status | grep installed
		test \"\$(modinfo -k \$krel -F version rdma_agg)\" = $version
		modinfo -k \$krel -F filename rdma_agg | grep updates/dkms" || return 0
	ok "dkms remove" inside "dkms remove rdma_agg/$version --all && ! modinfo -k \$(selftests/kernels.sh krel $series) rdma_agg"
}

step_demo() {
	ok "deps.sh demo" inside 'selftests/deps.sh demo' || return 0
	ok "a kernel to boot, QEMU, programs" inside '
		selftests/kernels.sh show $SERIES
		read -r qemu _ <<< "$(selftests/kernels.sh qemu any)"
		$qemu --version
		command -v busybox ibv_rc_pingpong ib_write_bw rdma ip tc modprobe python3 unshare' || true
	ok "deps.sh demo again, without the network" inside '
		time unshare --net selftests/deps.sh demo'
	ok "make demo" inside 'make demo' || true
}

step_check() {
	ok "deps.sh check" inside 'selftests/deps.sh check' || return 0
	ok "the checkers" inside '
		command -v sparse shellcheck yamllint codespell spatch clang ld.lld perl
		selftests/kernels.sh source 6.12
		selftests/roots.sh have trixie
		selftests/roots.sh have sid
		python3 -c "import yaml, pyverbs, jsonschema"' || true
	ok "deps.sh check again, without the network" inside '
		time unshare --net selftests/deps.sh check'
	# No series: all that the check runs by itself.
	ok "make check" inside 'unset KERNELS SERIES; make check' || true
}

ok "a bare $VERSION_CODENAME with make" bare_machine || exit 1
for step in "${steps[@]}"; do
	"step_$step" || true
done
rm -f "$log"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
