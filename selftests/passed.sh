# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# What has passed before, by content: a slow check whose files and tools are the
# same as when it passed need not run again.  Kept in the cache folder; failures
# are not kept, and without the folder everything runs.  Sourced.
#
#   RDMA_AGG_FRESH=1     run everything all the same

passed_dir=${RDMA_AGG_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rdma_agg}/passed

# content_key FILE-OR-FOLDER... [-- WORD...]: stands for names and contents of the
# files, and for the words: versions of tools, options.
content_key() {
	local paths=()
	while [[ $# -gt 0 && $1 != -- ]]; do
		paths+=("$1")
		shift
	done
	{
		echo "$@"
		find "${paths[@]}" -type f -print0 | sort -z | xargs -0 sha256sum
	} | sha256sum | cut -c1-32
}

# passed_before NAME KEY
passed_before() {
	[[ ${RDMA_AGG_FRESH:-0} == 0 ]] && touch -c "$passed_dir/$1-$2" && [[ -e $passed_dir/$1-$2 ]]
}

# passed_now NAME KEY: also drops what was of no use for two months.
passed_now() {
	mkdir -p "$passed_dir" 2> /dev/null && : 2> /dev/null > "$passed_dir/$1-$2" || return 0
	find "$passed_dir" -type f -mtime +60 -delete
}

# version_of COMMAND...: the first line of what each says of itself.
version_of() {
	local tool
	for tool in "$@"; do
		"$tool" --version 2>&1 | head -n 1
	done
}
