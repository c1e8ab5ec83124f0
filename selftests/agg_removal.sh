#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# guests: 2
# timeout: 500
#
# Things go away under running traffic: the lane's carrier, the lane, its RDMA
# device: the application does not notice; rdma_rxe itself, the agg device, its
# identity netdev, the module: it gets errors. Nothing crashes, hangs or is left.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/dev.sh"

# Endless traffic on 8 QPs, so on every lane, in both directions.
start_traffic() {
	port=$((${port:-19500} + 1))
	start_b server ". '$AGG_REPO/selftests/lib.sh'; exec timeout 170 ib_write_bw -d $DEV -x $GID -F -s 65536 -q 8 -b -D 150 -p $port"
	wait_listen_b "$port" 20 || return 1
	bash -c ". '$AGG_REPO/selftests/lib.sh'; exec timeout 170 ib_write_bw -d $DEV -x $GID -F -s 65536 -q 8 -b -D 150 -p $port $PEER_MGMT" \
		> "$AGG_TMP/client.out" 2>&1 &
	client=$!
	wait_for 30 flowing || { cat "$AGG_TMP/client.out" "$AGG_TMP/server.out"; return 1; }
}

# By the lanes' own counters: cheap, and true for both directions.
sent() { bytes_sent lane{0..3} | paste -sd + | bc; }
flowing() {
	local first
	first=$(sent)
	sleep 0.3
	# More than acknowledgements and keepalives.
	[[ $(sent) -gt $((first + 200000)) ]]
}

client_gone() { ! kill -0 "$client" 2> /dev/null; }

# The client ends by itself, with an error.
client_fails() {
	wait_for "${1:-30}" client_gone || { echo "it is still running"; return 1; }
	! wait "$client"
}

stop_traffic() {
	kill -KILL "$client" 2> /dev/null
	pkill -KILL -f '^ib_write_bw'
	wait "$client" 2> /dev/null
	stop_b server
	on_b "pkill -KILL -f '^ib_write_bw'" || true
	return 0
}

# What the device counts, again and again, in a file; not what is outstanding.
watch_counters() {
	while rdma statistic show link "$DEV/1"; do :; done |
		sed -u 's/outstanding_[a-z]* [0-9]* //g' > "$AGG_TMP/counters" &
	watcher=$!
}
# None of it has decreased, and some of it has grown.
none_decreased() {
	kill "$watcher"
	wait "$watcher" 2> /dev/null
	awk '
		$1 == "link" && NF > 40 {
			for (i = 3; i < NF; i += 2) {
				if ($(i + 1) < last[$i]) { print $i ": " last[$i] ", then " $(i + 1); bad = 1 }
				last[$i] = $(i + 1)
			}
			if (!n++) first = last["tx_bytes"]
		}
		END {
			print n " samples, " last["tx_bytes"] - first " bytes sent"
			exit bad || n < 20 || last["tx_bytes"] == first
		}' "$AGG_TMP/counters"
}

lane_is() { rdma-agg lane show "$DEV" "$1" | grep -qw "$2"; }
port_is() { rdma link show "$DEV/1" | grep -q "state $1"; }

test_begin
dev_setup "$AGG_LANES"

# A short flap.
ok "traffic runs" start_traffic
ip link set lane1 down
ok "the lane is reported down" wait_for 10 lane_is rxe1/1 down
ip link set lane1 up
ip addr replace "$(my_lane6 1)/64" dev lane1 nodad
ok "and up again" wait_for 10 lane_is rxe1/1 up
ok "traffic goes on after the flap" wait_for 40 flowing

# All lanes down: the port follows.
for ((i = 0; i < AGG_LANES; i++)); do ip link set "lane$i" down; done
ok "the port is down with all lanes" wait_for 10 port_is DOWN
not_flowing() { ! flowing; }
ok "and the traffic stands still" wait_for 40 not_flowing
for ((i = 0; i < AGG_LANES; i++)); do
	ip link set "lane$i" up
	ip addr replace "$(my_lane6 "$i")/64" dev "lane$i" nodad
done
ok "the port is active with a lane" wait_for 10 port_is ACTIVE
for ((i = 0; i < AGG_LANES; i++)); do wait_for 10 lane_is "rxe$i/1" up; done
ok "traffic goes on after all that" wait_for 40 flowing

watch_counters
refuses "rmmod is refused while a device is open" "in use" rmmod rdma_agg
ok "a lane is removed by the CLI" timeout "$(few 20 60)" rdma-agg lane del "$DEV" rxe0/1
ok "traffic goes on by the others" wait_for 40 flowing
stop_traffic
ok "the lane is taken back" rdma-agg lane add "$DEV" rxe0/1 rail 0

ok "traffic on all lanes" start_traffic
ok "the lane's RDMA device is deleted" timeout "$(few 20 60)" rdma link delete rxe2
ok "traffic goes on by the others again" wait_for 40 flowing
ok "no counter of the device has gone back" none_decreased
stop_traffic
ok "the lane is gone" bash -c "! rdma-agg -j lane show $DEV | grep -q rxe2"
ok "its device comes back" rdma link add rxe2 type rxe netdev lane2
wait_for 10 gid_index rxe2 "$(my_lane 2)"
res_save rxe2
ok "and is a lane again" rdma-agg lane add "$DEV" rxe2/1 rail 2

ok "traffic once more" start_traffic
ok "the agg device is deleted under it" timeout "$(few 20 60)" rdma-agg dev del "$DEV"
ok "the application gets an error from that too" client_fails
stop_traffic
ok "the module unloads" timeout "$(few 20 60)" rmmod rdma_agg
ok "and comes back" agg_setup_here "$AGG_LANES"

ok "traffic for the identity" start_traffic
# A dummy as identity is added and removed; mgmt0 itself carries the test.
ip link add ident0 type dummy 2> /dev/null || modprobe dummy
ip link add ident0 type dummy 2> /dev/null
if [[ -e /sys/class/net/ident0 ]]; then
	ip addr add 10.99.0.1/24 dev ident0
	ip link set ident0 up
	ok "a second agg device, of another name" rdma link add other type agg netdev ident0
	refuses "one netdev is the identity of one device" "identity" rdma-agg dev add third netdev ident0
	ip link del ident0
	ok "it goes with its identity netdev" wait_for 10 test ! -e /sys/class/infiniband/other
fi
ok "which the first does not mind" flowing
ok "rdma_rxe is unloaded under traffic" timeout "$(few 30 90)" modprobe -r rdma_rxe
ok "the application gets an error from that as well" client_fails
stop_traffic
ok "no agg device is left, they share its driver id" test ! -e "/sys/class/infiniband/$DEV"
ok "everything comes back" agg_setup_here "$AGG_LANES"
ok "and works" pair "ibv_rc_pingpong -d $DEV -g $GID -n 50" \
	"ibv_rc_pingpong -d $DEV -g $GID -n 50 $PEER_MGMT"
dev_teardown
