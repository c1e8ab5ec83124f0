#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 1 2
# timeout: 300
#
# ibv_rc_pingpong as the distribution ships it: by polling and by events, over
# IPv4 and IPv6 GIDs, small and large messages, many receives and one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"

pingpong() {
	local words
	words="ibv_rc_pingpong -d $DEV -g $1 $(fewer "$2")"
	pair "$words" "$words $PEER_IP"
}

test_begin
# Their rate would only cost time.
AGG_RATE=none
dev_setup
ok "by polling" pingpong "$GID" "-n 1000"
ok "by events" pingpong "$GID" "-n 1000 -e"
ok "over IPv6" pingpong "$GID6" "-n 200"
ok "over IPv6 by events" pingpong "$GID6" "-e -n 200"
for size in 1 4097 65536; do
	ok "messages of $size bytes, checked" pingpong "$GID" "-s $size -n 50 -c"
	ok "messages of $size bytes by events, checked" pingpong "$GID" "-e -s $size -n 50 -c"
done
ok "messages of 8 MiB" pingpong "$GID" "-s 8388608 -n 2"
ok "a single receive at a time" pingpong "$GID" "-r 1 -n 200"
ok "a single receive at a time by events" pingpong "$GID" "-r 1 -n 200 -e"
ok "path MTU 256" pingpong "$GID" "-m 256 -n 100"
# Only agg devices: the peer's TCP port says no to none of these.
if [[ $DEV == agg* ]]; then
	for ((i = 0; i < 3; i++)); do
		ok "again, connection $i" pingpong "$GID" "-n 10" || break
	done
fi
dev_teardown
