#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 2
# timeout: 400
#
# A process is killed at any moment, on either side, while perftest runs:
# nothing of it is left on the agg device or on the lanes, nothing stays
# outstanding, and the device goes on working.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"

# counter NAME: of the device, which comes before its lanes.
counter() {
	rdma-agg -j stat show "$DEV" | tr ',{[' '\n' | sed -n "s/^\"$1\":\([0-9]*\).*/\1/p" | head -n 1
}

idle() { [[ $(counter outstanding) -eq 0 ]]; }

# kill_after MILLISECONDS WHO TOOL ARGS...: starts both ends, kills one after
# the time; the other must end by itself or is ended after that.
port=19000
kill_after() {
	local ms=$1 who=$2 prog=$3 client
	shift 3
	port=$((port + 1))
	start_b server ". '$AGG_REPO/selftests/lib.sh'; exec timeout 30 $prog -d $DEV -x $GID -F $* -p $port"
	wait_listen_b "$port" 20 || { stop_b server; return 1; }
	bash -c ". '$AGG_REPO/selftests/lib.sh'; exec timeout 30 $prog -d $DEV -x $GID -F $* -p $port $PEER_MGMT" \
		> "$AGG_TMP/client.out" 2>&1 &
	client=$!
	# The moment of the kill is what is varied, so it is a time and no event.
	ms=$((ms * $(few 1 5)))
	sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
	if [[ $who == client ]]; then
		pkill -KILL -f "^$prog .*-p $port" || true
	else
		on_b "pkill -KILL -f '^$prog .*-p $port'" || true
	fi
	# Whoever is left notices, or waits for a peer that never comes.
	stop_b server
	pkill -KILL -f "^$prog .*-p $port"
	wait "$client" 2> /dev/null
	return 0
}

test_begin
dev_setup
before=$(counter bad-wqes)
for ms in $([[ $AGG_SLOW -eq 1 ]] && echo 5 990 || echo 5 150 450 990); do
	ok "client of ib_write_bw killed after $ms ms" kill_after "$ms" client ib_write_bw -s 65536 -q 4 -D 20
	ok "server of ib_send_bw killed after $ms ms" kill_after "$ms" server ib_send_bw -s 4096 -q 4 -D 20
done
for ms in 100 800; do
	ok "client of ib_read_bw killed after $ms ms" kill_after "$ms" client ib_read_bw -s 65536 -q 2 -D 20
	ok "client of ib_send_bw -e killed after $ms ms" kill_after "$ms" client ib_send_bw -s 64 -q 8 -e -n 100000
done
ok "nothing is left of them here and on the peer" both res_check "$DEV"
for ((i = 0; i < AGG_USE_LANES; i++)); do
	is "no lane QP is left on rxe$i" "$(rdma resource show qp link "rxe$i/1" | grep -c "type RC .*rdma_agg")" 0
done
ok "nothing is outstanding" wait_for 10 idle
is "no malformed request was seen" "$(counter bad-wqes)" "$before"
ok "and the device still works" pair "ibv_rc_pingpong -d $DEV -g $GID -n 50" \
	"ibv_rc_pingpong -d $DEV -g $GID -n 50 $PEER_MGMT"
dev_teardown
