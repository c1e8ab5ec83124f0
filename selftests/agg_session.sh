#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 600
# guests: 2
#
# The session between peers: what it answers to hosts that speak the protocol
# well, badly or not at all (session.py), what an application is told when
# there is no session, and how a session comes back.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
PORT=47910
FAKE=10.0.0.99
test_begin
agg_setup 2

# ask CASE [OPTION...]: as if a peer asked agg0 of this guest
ask() { "$here/session.py" ask "$MY_MGMT" "$FAKE" "$MY_MGMT" --timeout "$(few 30 120)" "$@"; }

# rtr WANTED [OPTION...]: modify_qp(RTR) towards the other guest ends like this
rtr() {
	local want=$1 got
	shift
	got=$("$AGG_REPO/build/selftests/session_rtr" -g "$MY_MGMT" "$@" "$PEER_MGMT") || return
	echo "$got"
	[[ $got == "$want" ]]
}

# said REGEX: the kernel has logged it since the last mark
said() { dmesg | tac | sed '/selftest: here/q' | grep -E -- "$1"; }
mark() { echo "selftest: here" > /dev/kmsg; }

pingpong() {
	pair "ibv_rc_pingpong -d agg0 -n 20 -g \$(gid_index agg0 \$MY_MGMT)" \
	     "ibv_rc_pingpong -d agg0 -n 20 -g \$(gid_index agg0 \$MY_MGMT) $PEER_MGMT"
}

# count NAME: a counter of agg0
count() { cat "/sys/class/infiniband/agg0/ports/1/hw_counters/$1"; }

# peer KEY: of the session with the other guest
peer() {
	rdma-agg -j peer show agg0 | python3 -c 'import json, sys
for p in json.load(sys.stdin):
    if p["gid"].endswith(sys.argv[1]):
        print(p.get(sys.argv[2]))' "$PEER_MGMT" "$1"
}

peer_up() { [[ $(peer state) == up ]]; }

# ------------------------------------------------------------ being asked

for what in hello attach key version no-device lengths malformed garbage \
	    dies supersede silent slow-reader keepalive no-key; do
	case $what in
	no-key) ok "asked: $what" ask "$what" --key secret ;;
	*) ok "asked: $what" ask "$what" ;;
	esac
done
ok "and well again" ask hello

# -------------------------------------------------- a session and its loss

ok "an application on both guests" pingpong
ok "the session is up" wait_for 10 peer_up
ok "no such QP is refused" rtr ENOENT -q 0xfffff0
if ss -K dport = 1 > /dev/null 2>&1; then
	# -K: the connection is destroyed under both ends.
	ss -K -t state established "( dport = :$PORT or sport = :$PORT )" > /dev/null 2>&1
	ok "an application after the connections were killed" pingpong
	ok "the session is up again" wait_for 10 peer_up
fi
# Each of them waits for the others, too.
both rdma-agg param set agg0 connect-timeout "$(few 2 20)s"
ok "64 QPs ask at once" rtr "64 ENOENT" -n 64
both rdma-agg param set agg0 connect-timeout 2s

# -------------------------------------------------------- pre-shared key

set_key() { echo "$1" | rdma-agg param set agg0 psk -; }
no_key() { rdma-agg param set agg0 psk none; }

mark
ok "a key on this guest alone" set_key secret
ok "refused: the other has none" rtr EKEYREJECTED
ok "and the log says so" said "peer $PEER_MGMT refused: the peer has no pre-shared key"
ok "asked with the key" ask hello --key secret
ok "asked without" ask need-key
ok "asked with another one" ask wrong-key
ok "asked with a recorded answer" ask replay --key secret
ok "another key on the other guest" on_b "echo secret2 | rdma-agg param set agg0 psk -"
ok "refused: wrong key" rtr EACCES
ok "and the log says so" said "agg0: peer $PEER_MGMT refused: wrong pre-shared key"
ok "the same key on the other guest" on_b "echo secret | rdma-agg param set agg0 psk -"
ok "an application with the key" pingpong
ok "no key on this guest" no_key
ok "refused: the other requires one" rtr ENOKEY
ok "no key there" on_b "rdma-agg param set agg0 psk none"
ok "an application without a key" pingpong

# ------------------------------------------------- a peer that is none

ok "the other guest's device goes" on_b "rdma-agg dev del agg0"
ok "refused: nobody listens" rtr ECONNREFUSED
ok "another device on the other guest" \
	on_b "ip link add dum0 type dummy && ip addr add 10.9.9.9/24 dev dum0 &&
	      ip link set dum0 up && rdma-agg dev add agg7 netdev dum0"
ok "refused: no device of that address" rtr ENXIO
ok "it goes, and the module" on_b "rdma-agg dev del agg7 && ip link del dum0 && rmmod rdma_agg"
ok "refused: no module" rtr ECONNREFUSED

# fake CASE WANTED: the other guest only looks like a peer
fake() {
	start_b fake "selftests/session.py peer $PEER_MGMT $1 --timeout 120"
	if wait_for 20 grep -q ready "$AGG_TMP/fake.out"; then
		ok "peer: $1" rtr "$2"
	else
		fail "peer: $1" "$(cat "$AGG_TMP/fake.out")"
	fi
	stop_b fake
}
fake silent ETIMEDOUT
fake version ENOPROTOOPT
fake newer ENOPROTOOPT
fake garbage EPROTO
fake cut EPROTO
fake close ECONNRESET
fake dies ENOTCONN
fake no-answer ETIMEDOUT
fake liar ENOTCONN
fake wrong-id ETIMEDOUT

# ---------------------------------------------------------- and it is back

ok "module and device on the other guest" b_lib "agg_load_here && agg_dev_here agg0 2"
b_lib res_save agg0
ok "an application on both guests" pingpong

for name in session_bad_msg session_reject session_up session_down; do
	[[ -e /sys/class/infiniband/agg0/ports/1/hw_counters/$name ]] || continue
	ok "$name has counted" test "$(count $name)" -gt 0
done
agg_teardown
