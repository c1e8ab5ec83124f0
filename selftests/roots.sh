#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Folders with programs of other Debian suites, to be run by chroot:
#
#   roots.sh get NAME               makes or renews one (deps.sh does)
#   roots.sh have NAME              prints its folder, or fails
#   roots.sh run FOLDER COMMAND...  runs a command in it, in the current folder
#
#   trixie, sid    user space: rdma-core and perftest of that suite
#   newest         sid's kernel, and what builds modules for it: headers,
#                  compilers, make, sparse
#
# Packages are unpacked and not configured; a folder is all there is of them:
# $cache/roots/NAME_DIGEST, where the digest is of the packages' names and
# versions.  A week after it was last held against the archive it is looked up
# again.  Without the network what is there goes on being used.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=selftests/foreign.sh
. "$here/foreign.sh"	# cache

die() { echo "roots.sh: $*" >&2; exit 1; }
say() { echo "roots.sh: $*" >&2; }

# all NAME: its complete folders, newest first.
all() {
	local stamp
	for stamp in "$cache/roots/$1"_*/.complete; do
		[[ ! -e $stamp ]] || stat -c '%Y %n' "$stamp"
	done | sort -rn | sed 's/^[0-9]* //; s|/.complete$||'
}

have() {
	local dir
	dir=$(all "$1" | sed -n 1p)
	[[ -n $dir ]] && echo "$dir"
}

fresh() {
	local dir
	dir=$(have "$1") && [[ -n $(find "$dir/.complete" -mtime -7) ]]
}

# depends PACKAGE REGEX: the packages it depends on whose names match.
depends() {
	apt-cache "${apt_opt[@]}" depends --important "$1" |
		sed -nE 's/^ *(Pre)?Depends: ([^<]*)$/\2/p' | grep -E "$2" || true
}

# contents NAME: sets $packages.
contents() {
	local krel images
	# What a shell and a makefile take for granted.
	packages=(base-files dash bash coreutils sed grep mawk findutils)
	if [[ $1 != newest ]]; then
		packages+=(ibverbs-providers ibverbs-utils perftest)
		return
	fi
	krel=$(depends linux-headers-amd64 '^linux-headers-[0-9]' | sed -n '1s/^linux-headers-//p')
	[[ -n $krel ]] || die "$suite has no kernel headers"
	# The image package is empty where image and modules have packages of their own.
	mapfile -t images < <(depends "linux-image-$krel" '^linux-(binary|modules)-')
	[[ ${#images[@]} -gt 0 ]] || images=("linux-image-$krel")
	packages+=(diffutils make sparse clang lld llvm linux-headers-amd64 "${images[@]}")
}

# prepare_kernel FOLDER
prepare_kernel() {
	local krel checker
	krel=$(ls "$1/usr/lib/modules")
	[[ -e $1/usr/lib/modules/$krel/vmlinuz ]] ||
		mv "$1/boot/vmlinuz-$krel" "$1/usr/lib/modules/$krel/vmlinuz"
	depmod -b "$1" "$krel"
	# Since 7.0 `make C=2` calls a script of the kernel that Debian leaves out.
	checker=$(echo "$1"/usr/lib/linux-kbuild-*/scripts)/checker-valid.sh
	if [[ ! -e $checker ]]; then
		printf '%s\n' '#!/bin/sh' '"$@" /dev/null && echo 1' > "$checker"
		chmod +x "$checker"
	fi
}

renew() {
	local suite=$1 dir tmp download deb apt_opt=() packages=()
	[[ $1 != newest ]] || suite=sid
	say "looking up what $suite has"
	foreign_apt "$suite" || die "no package lists of $suite"
	# To an apt that thinks nothing is installed all that is needed is missing.
	apt_opt+=(-o Dir::State::status=/dev/null -o Debug::NoLocking=1)
	contents "$1"
	tmp=$(mktemp -d "$cache/roots/tmp.XXXXXX")
	chmod 755 "$tmp"
	apt-get -qq "${apt_opt[@]}" --no-install-recommends --print-uris install "${packages[@]}" |
		awk '{ print $2 }' | sort > "$tmp/.packages"
	dir=$cache/roots/$1_$(sha256sum < "$tmp/.packages" | cut -c1-12)
	if [[ -e $dir/.complete ]]; then
		touch "$dir/.complete"
		rm -rf "$tmp"
		return
	fi
	download=$cache/download/$1
	rm -rf "$download"
	mkdir -p "$download"
	say "downloading $(wc -l < "$tmp/.packages") packages of $suite"
	# shellcheck disable=SC2046 # package names
	(cd "$download" && apt-get -qq "${apt_opt[@]}" download $(cut -d_ -f1 "$tmp/.packages"))
	# base-files has the links from / into /usr, which the others must not undo.
	for deb in "$download"/base-files_*.deb "$download"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tmp" --keep-directory-symlink \
			--exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
	done
	rm -rf "$download"
	# What the packages' scripts would have linked.
	[[ -e $tmp/bin/sh ]] || ln -s dash "$tmp/bin/sh"
	[[ -e $tmp/usr/bin/awk ]] || ln -s mawk "$tmp/usr/bin/awk"
	[[ $1 != newest ]] || prepare_kernel "$tmp"
	rm -rf "$dir"
	touch "$tmp/.complete"
	mv "$tmp" "$dir"
	# The one before may be in use.
	all "$1" | tail -n +3 | xargs -r rm -rf
}

get() {
	local dir
	! fresh "$1" || return 0
	mkdir -p "$cache/roots"
	# Several may want it at once.
	exec 9> "$cache/roots/.lock"
	flock 9
	! fresh "$1" || return 0
	# A shell of its own: errexit is off in what `if` looks at.
	if ! "$0" renew "$1"; then
		rm -rf "$cache/roots"/tmp.*
		dir=$(have "$1") || die "$1 cannot be had"
		say "$1 cannot be renewed: going on with that of $(date -r "$dir/.complete" +%F)"
	fi
}

# A mount namespace of its own: what is mounted for the command goes with it.
run() {
	local root=$1 user=()
	shift
	[[ $(id -u) -eq 0 ]] || user=(--map-root-user)
	mkdir -p "$root$PWD"
	# shellcheck disable=SC2016 # for the inner shell
	exec unshare --mount "${user[@]}" sh -ec '
		root=$1
		shift
		mount --rbind /dev "$root/dev"
		mount --rbind /proc "$root/proc"
		mount --bind "$PWD" "$root$PWD"
		exec chroot "$root" env --chdir="$PWD" PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' sh "$root" "$@"
}

case $#-${1:-} in
2-get) get "$2" ;;
2-renew) renew "$2" ;;
2-have) have "$2" ;;
[3-9]*-run | [1-9][0-9]*-run) shift; run "$@" ;;
*) die "usage: roots.sh get|have NAME, roots.sh run FOLDER COMMAND..." ;;
esac
