#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Builds the debug kernel: Debian's linux-source-6.12, trimmed to what the
# guests need, with KASAN, lockdep, kmemleak, debug objects, fault injection
# and the like (debug.config).  Prints the folder that qemu/run.sh takes:
#
#   selftests/qemu/run.sh -k "$(selftests/qemu/debug-kernel.sh)" -- TEST...
#
#   debug-kernel.sh             the folder; builds when there is none
#   debug-kernel.sh --have      the folder, or exit 1 without building
#   debug-kernel.sh --update    takes the source that apt has now
#   debug-kernel.sh --config    only shows the complete configuration
#   debug-kernel.sh --clean     removes debug kernels of other configurations
#   debug-kernel.sh -j N        make -j N (default: all CPUs)
#
# The folder holds vmlinuz, lib/modules/RELEASE and build, the kernel tree
# that modules are built against.  It is kept below the cache folder (see
# deps.sh) by source version and a digest of the configuration and the
# compiler, so a second call returns at once and without the network.  From
# nothing it takes about 15 minutes on two cores; an interrupted build is
# continued.  Everything but the folder's name goes to standard error.  The
# exit code is 3 when the source cannot be had.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${RDMA_AGG_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rdma_agg}
package=linux-source-6.12
config=$here/debug.config
jobs=$(nproc) mode=build update=

die() { echo "debug-kernel.sh: $*" >&2; exit 1; }
no_source() { echo "debug-kernel.sh: $*" >&2; exit 3; }
say() { echo "debug-kernel.sh: $*" >&2; }

while [[ $# -gt 0 ]]; do
	case $1 in
	--have) mode=have ;;
	--update) update=1 ;;
	--config) mode=config ;;
	--clean) mode=clean ;;
	-j) jobs=$2; shift ;;
	-j*) jobs=${1#-j} ;;
	*) sed -n '3,/^set -/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
	esac
	shift
done

need_tools() {
	local pkg missing=()
	for pkg in gcc make bc bison flex libelf-dev kmod cpio xz-utils; do
		[[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$pkg" 2> /dev/null) == ii* ]] || missing+=("$pkg")
	done
	[[ ${#missing[@]} -gt 0 ]] || return 0
	[[ $(id -u) -eq 0 ]] || die "packages are missing and only root can install them: ${missing[*]}"
	say "installing ${missing[*]}"
	apt-get -qq update >&2
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
		-o Dpkg::Use-Pty=0 install "${missing[@]}" > /dev/null
}

[[ $mode == have || -n $(command -v gcc) ]] || need_tools
# Comments and blank lines do not make another kernel.
digest=$({
	grep -E '^(CONFIG_|# CONFIG_.* is not set$)' "$config" | LC_ALL=C sort
	gcc --version 2> /dev/null | head -n 1
} | sha256sum | cut -c1-12)

# The newest complete kernel of this configuration.
find_done() {
	local dir
	for dir in $(printf '%s\n' "$cache/debug/${package}_"*"-$digest" | sort -rV); do
		[[ -e $dir/vmlinuz ]] || continue
		echo "$dir"
		return
	done
	return 1
}

if [[ $mode == clean ]]; then
	for dir in "$cache/debug/${package}_"*; do
		[[ -d $dir && $dir != *"-$digest" ]] || continue
		say "removing $dir"
		rm -rf "$dir"
	done
	exit 0
fi
if [[ -z $update && $mode != config ]] && find_done; then
	exit 0
fi
[[ $mode != have ]] || exit 1

# The source package of apt's current version; sets $version and $deb.  Without
# network, or when the archive has moved on, one that is here will do.
fetch_source() {
	version=$(apt-cache policy "$package" 2> /dev/null | awk '/Candidate:/ { print $2 }')
	[[ -n $version && $version != '(none)' && -z $update ]] || {
		[[ $(id -u) -ne 0 ]] || apt-get -qq update >&2 || true
		version=$(apt-cache policy "$package" | awk '/Candidate:/ { print $2 }')
	}
	[[ -n $version && $version != '(none)' ]] || no_source "apt knows no $package"
	tree_of "$version"
	[[ ! -e $dir/tree/Makefile ]] || return 0
	mkdir -p "$cache/debug/download"
	deb=$(printf '%s\n' "$cache/debug/download/$package"_*.deb | tail -n 1)
	if [[ ! -e $deb || $(dpkg-deb -f "$deb" Version) != "$version" ]]; then
		rm -f "$cache/debug/download/$package"_*.deb
		say "downloading $package $version"
		# apt drops to its own user for downloads and warns where that user cannot write.
		(cd "$cache/debug/download" &&
			{ apt-get -qq -o APT::Sandbox::User=root download "$package" ||
				{ apt-get -qq update && apt-get -qq -o APT::Sandbox::User=root download "$package"; }; }) >&2 ||
			no_source "$package cannot be downloaded"
		deb=$(printf '%s\n' "$cache/debug/download/$package"_*.deb | tail -n 1)
		version=$(dpkg-deb -f "$deb" Version)
		tree_of "$version"
	fi
}

tree_of() { dir=$cache/debug/${package}_$1-$digest; }

# What this configuration compiles; the Kconfig files of the rest must be there.
unpack() {
	local tar tmp
	[[ ! -e $dir/tree/Makefile ]] || return 0
	say "unpacking $package $version"
	mkdir -p "$dir"
	tmp=$(mktemp -d "$dir/tmp.XXXXXX")
	chmod 755 "$tmp"
	tar=$(dpkg-deb --fsys-tarfile "$deb" | tar -t | grep -E '/linux-source-[0-9.]+\.tar\.xz$')
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "$tar" | xz -dc -T0 |
		tar -x -C "$tmp" --strip-components=1 --wildcards \
			--exclude='*/Documentation/*/*' --exclude='*/tools/testing/*' \
			--exclude='*/tools/perf/*' --exclude='*/drivers/gpu/*.[ch]' \
			--exclude='*/drivers/media/*.[ch]' --exclude='*/drivers/staging/*.[ch]' \
			--exclude='*/drivers/net/wireless/*.[ch]' --exclude='*/sound/*.[ch]' \
			--exclude='*/arch/*/boot/dts/*.dts*'
	rm -rf "$dir/tree"
	mv "$tmp" "$dir/tree"
	rm -rf "$dir"/tmp.* "$deb"
}

kmake() {
	make -C "$dir/tree" ARCH=x86_64 KBUILD_BUILD_TIMESTAMP=@0 \
		KBUILD_BUILD_USER=agg KBUILD_BUILD_HOST=agg "$@"
}

# Writes .config and proves that each line of debug.config holds in it.
configure() {
	local line name bad=''
	kmake -s tinyconfig > /dev/null
	(cd "$dir/tree" && scripts/kconfig/merge_config.sh -m .config "$config" > /dev/null)
	kmake -s olddefconfig >&2
	while read -r line; do
		case $line in
		CONFIG_*)
			! grep -qxF -- "$line" "$dir/tree/.config" || continue
			name=${line%%=*}
			;;
		'# CONFIG_'*' is not set')
			name=${line#\# }
			name=${name%% *}
			# A symbol that does not exist here is not set either.
			grep -q "^${name}=" "$dir/tree/.config" || continue
			;;
		*) continue ;;
		esac
		say "does not hold: $line (it is: $(grep -E "^(# )?${name}[= ]" "$dir/tree/.config" || echo absent))"
		bad=1
	done < "$config"
	[[ -z $bad ]] || die "the configuration does not hold: $config"
}

build() {
	local release start=$SECONDS
	say "building $package $version with -j$jobs, log: $dir/log"
	if ! kmake -j"$jobs" bzImage modules > "$dir/log" 2>&1; then
		tail -n 40 "$dir/log" >&2
		die "the build failed; the log is $dir/log"
	fi
	release=$(kmake -s kernelrelease)
	rm -rf "${dir:?}/lib"
	kmake -s modules_install INSTALL_MOD_PATH="$dir" DEPMOD=true >> "$dir/log" 2>&1
	rm -f "$dir/lib/modules/$release/build" "$dir/lib/modules/$release/source"
	depmod -b "$dir" "$release"
	ln -sfn tree "$dir/build"
	cp "$dir/tree/System.map" "$dir/tree/.config" "$dir"
	cp "$dir/tree/arch/x86/boot/bzImage" "$dir/vmlinuz.new"
	# Its presence means that all is there.
	mv "$dir/vmlinuz.new" "$dir/vmlinuz"
	# What modules are built with stays, vmlinux, and the sources that reports
	# are most likely to lead to.
	find "$dir/tree" -path "$dir/tree/scripts" -prune -o -path "$dir/tree/tools/objtool" -prune -o \
		-path "$dir/tree/drivers/infiniband/*.[ch]" -o -name '*.h' -o -name 'Makefile*' -o \
		-name 'Kbuild*' -o -name 'Kconfig*' -o -path "$dir/tree/include/*" -o \
		-path "$dir/tree/[^/]*" ! -path "$dir/tree/*/*" -o \
		! -type d -print0 | xargs -0 rm -f
	say "built in $((SECONDS - start)) s"
}

mkdir -p "$cache/debug"
exec 9> "$cache/debug/.lock"
flock -n 9 || { say "waiting for another build"; flock 9; }
# The other one may have built it.
if [[ -z $update && $mode != config ]] && find_done; then
	exit 0
fi
version='' deb='' dir=''
need_tools
fetch_source
if [[ -e $dir/vmlinuz && $mode != config ]]; then
	echo "$dir"
	exit 0
fi
unpack
if [[ $mode == config ]]; then
	[[ -e $dir/vmlinuz ]] || configure
	cat "$dir/tree/.config"
	exit 0
fi
configure
build
echo "$dir"
