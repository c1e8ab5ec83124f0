#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Generates from Documentation/netlink/specs/rdma_agg.yaml:
#
#   include/uapi/rdma/rdma_agg.h
#   kmod/generated/netlink_policy.h, netlink_policy.c
#
#   gen-netlink.sh [--check] [TREE]
#
# --check changes nothing and fails when a file is not what the spec says.
# TREE is an unpacked kernel source with tools/net/ynl (6.12: later generators
# write other code); without it, the one that deps.sh put into the cache.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/.." && pwd)
spec=Documentation/netlink/specs/rdma_agg.yaml

check=
if [[ ${1:-} == --check ]]; then
	check=1
	shift
fi
tree=${1:-$("$here/kernels.sh" source 6.12)}
gen=$tree/tools/net/ynl/ynl-gen-c.py
[[ -r $gen ]] || { echo "gen-netlink.sh: no tools/net/ynl/ynl-gen-c.py in $tree" >&2; exit 2; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# The generator looks for MAINTAINERS in the folders above the spec, for ever
# when there is none, and for the schema next to the specs.  The unpacked tree
# is not ours to write to: build what the generator wants to see.
mkdir -p "$tmp/tree/Documentation/netlink/specs" "$tmp/out"
touch "$tmp/tree/MAINTAINERS"
cp "$tree"/Documentation/netlink/*.yaml "$tmp/tree/Documentation/netlink/"
cp "$repo/$spec" "$tmp/tree/$spec"

export PYTHONDONTWRITEBYTECODE=1
if ! python3 -c 'import jsonschema' 2> /dev/null; then
	echo "gen-netlink.sh: no python3-jsonschema: the spec is not checked against the schema" >&2
	mkdir "$tmp/python"
	echo 'def validate(instance, schema): pass' > "$tmp/python/jsonschema.py"
	export PYTHONPATH=$tmp/python
fi

ynl() { python3 "$gen" --spec "$tmp/tree/$spec" "$@"; }
ynl --mode uapi --header -o "$tmp/out/rdma_agg.h"
ynl --mode kernel --header -o "$tmp/out/netlink_policy.h"
ynl --mode kernel --source -o "$tmp/out/netlink_policy.c"

rc=0
# place FILE TARGET
place() {
	if [[ -n $check ]]; then
		cmp -s "$tmp/out/$1" "$repo/$2" && return
		echo "gen-netlink.sh: $2 is not what the spec gives:" >&2
		diff -u "$repo/$2" "$tmp/out/$1" | head -n 40 >&2 || true
		rc=1
	else
		mkdir -p "$(dirname "$repo/$2")"
		cmp -s "$tmp/out/$1" "$repo/$2" || cp "$tmp/out/$1" "$repo/$2"
	fi
}
place rdma_agg.h include/uapi/rdma/rdma_agg.h
place netlink_policy.h kmod/generated/netlink_policy.h
place netlink_policy.c kmod/generated/netlink_policy.c
exit $rc
