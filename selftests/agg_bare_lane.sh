#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The ground the other tests stand on: plain lanes, without rdma_agg, carry
# traffic at their rate and leave nothing behind.  When this fails, look at
# the guests, not at the module.
. "$(dirname "$0")/lib.sh"
test_begin

ok "lanes on both guests" lanes_up || exit 1
both res_save rxe0
for ((i = 0; i < AGG_USE_LANES; i++)); do
	ok "pingpong on rxe$i" \
		pair "ibv_rc_pingpong -n $(few 200) -d rxe$i -g \$(gid_index rxe$i \$(my_lane $i))" \
		"ibv_rc_pingpong -n $(few 200) -d rxe$i -g \$(gid_index rxe$i \$(my_lane $i)) \$(peer_lane $i)"
done
ok "pingpong on rxe0 over IPv6, with events" \
	pair "ibv_rc_pingpong -n $(few 200) -e -d rxe0 -g \$(gid_index rxe0 \$(my_lane6 0))" \
	"ibv_rc_pingpong -n $(few 200) -e -d rxe0 -g \$(gid_index rxe0 \$(my_lane6 0)) \$(peer_lane 0)"
is "path MTU" "$(ibv_devinfo -d rxe0 | awk '/active_mtu/ { print $2 }')" 4096
ok "rxe0 has no objects left" both res_check rxe0
ok "lanes go" lanes_down
