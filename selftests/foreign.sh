# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# Packages of another suite than the machine's, by an apt of their own that is
# kept below the cache folder: what the machine's apt knows stays as it is.
# Sourced by deps.sh and roots.sh.

cache=${RDMA_AGG_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rdma_agg}
# shellcheck source=/dev/null
. /etc/os-release	# VERSION_CODENAME

# The mirror that this machine takes its release from.
own_mirror() {
	# shellcheck disable=SC2016 # apt's own words
	apt-get indextargets --format '$(REPO_URI)' "Codename: $VERSION_CODENAME" 'Origin: Debian' | sed -n 1p
}

# foreign_apt SUITE: sets $apt_opt to the options of an apt that knows that
# suite and nothing else, and brings its lists up to date.
foreign_apt() {
	local root=$cache/apt/$1 uri
	uri=$(own_mirror)
	if [[ -z $uri && $(id -u) -eq 0 ]]; then
		# The machine's own lists were cleaned away.
		apt-get -qq update
		uri=$(own_mirror)
	fi
	[[ -n $uri ]] || return 1
	mkdir -p "$root/lists/partial" "$root/cache/archives/partial" "$root/parts"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $1 main" > "$root/sources.list"
	apt_opt=(-o "Dir::Etc::SourceList=$root/sources.list" -o "Dir::Etc::SourceParts=$root/parts"
		-o "Dir::State::Lists=$root/lists" -o "Dir::Cache=$root/cache" -o APT::Sandbox::User=root
		-o "APT::Default-Release=$1")
	apt-get -qq "${apt_opt[@]}" -o APT::Update::Error-Mode=any update
}
