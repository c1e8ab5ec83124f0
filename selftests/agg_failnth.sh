#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 1
# kernels: debug
# timeout: 600
#
# Memory runs out at every point of every operation (failnth.c): it fails with an
# errno and succeeds when it is repeated, or it succeeds all the same; nothing is
# left behind, and the device works on.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"

test_begin
[[ -d /sys/kernel/debug/failslab && -e /proc/self/fail-nth ]] ||
	skip_all "no fault injection in this kernel"
f=$(tool failnth)

# text_of FUNCTION [LAST]: its range, or up to the end of another one, "START-END"
text_of() {
	awk -v name="$1" -v last="${2:-$1}" '
		seen { print "0x" start "-0x" $1; exit }
		$3 == name { start = $1 }
		start && $3 == last { seen = 1 }' "$AGG_OUT/System.map"
}

# module_text: that of the module
module_text() {
	local start size
	start=$(< /sys/module/rdma_agg/sections/.text)
	size=$(size -A "$AGG_KO" | awk '$1 == ".text" { print $2 }')
	printf '%#x-%#x' "$start" $((start + size))
}

agg_setup 3
if ! { ip link add ident0 type dummy && ip addr add 10.99.0.1/24 dev ident0 && ip link set ident0 up; }; then
	bail "no dummy netdev"
fi
# Not what kmemleak takes to keep its books. Nor, where a device is made, the hundreds
# of nodes of sysfs: to the module each is the same failure of ib_register_device().
below=$(module_text)
books=$(text_of kmemleak_alloc kmemleak_scan_area)
nodes=$(text_of kernfs_new_node)
# failnth CASE [OPTION...]
failnth() {
	local not=$books
	[[ $1 != dev-* ]] || not=$nodes
	timeout 300 "$f" --below "$below" --not-below "$not" --gid "$gid" --lane rxe2 --case "$@"
}
allow_report_here "vmalloc error"
gid=$(gid_index agg0 "$MY_MGMT")
for case in ${CASES:-$("$f" --list)}; do
	ok "$case" failnth "$case"
	sed 's/^/# /' "$ktap_step"
done

# Now what work items allocate counts, too: the session's, and the other end's.
counted=0
for case in connect connect-psk qp-rtr-follow key-miss lane-add; do
	ok "$case, in the background too" failnth "$case" --background --counted "$counted" || break
	sed 's/^/# /' "$ktap_step"
	counted=$(sed -n 's/^counted //p' "$ktap_step")
done
ip link del ident0
ok "and the device still works" pair "ibv_rc_pingpong -d agg0 -g \$(gid_index agg0 \$MY_MGMT) -n 50" \
	"ibv_rc_pingpong -d agg0 -g \$(gid_index agg0 \$MY_MGMT) -n 50 $PEER_MGMT"

ok "no object of agg0 is left" res_check agg0
ok "agg0 goes" rdma-agg dev del agg0
ok "the module unloads" rmmod rdma_agg
# A module takes long to load: every fourth.
ok "load" timeout 300 "$f" --below "$(text_of do_one_initcall)" --not-below "$books" --step 4 \
	--load "$AGG_KO"
sed 's/^/# /' "$ktap_step"
agg_teardown
