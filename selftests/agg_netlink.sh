#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 600
# guests: 1
#
# The netlink family and the tool: what they show, what they refuse and how
# they say it, what a monitor hears.  Every request of the specification that
# is wrong in one way is made by nl_requests.py.
# shellcheck disable=SC2016 # expressions for awk and for on_b
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
test_begin
agg_setup 2

check() { "$here/json_check.py" "$@"; }
requests() { "$here/nl_requests.py" "$@"; }
nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# exits DESCRIPTION CODE COMMAND...
exits() {
	local what=$1 want=$2 rc=0
	shift 2
	"$@" > "$ktap_step" 2>&1 || rc=$?
	if [[ $rc -eq $want ]]; then
		pass "$what"
	else
		fail "$what" "exit $rc, not $want: $*"
		sed 's/^/#   /' "$ktap_step"
	fi
}

# value OBJECT KEY COMMAND...: a key of the only object that the tool shows
value() {
	local key=$1
	shift
	rdma-agg -j "$@" | python3 -c 'import json, sys
objs = json.load(sys.stdin)
assert len(objs) == 1, objs
print(objs[0][sys.argv[1]])' "$key"
}

# ------------------------------------------------- what was left out or wrong

# All in one: to start Python takes longer than the requests do.
ok "requests with wrong or missing parts, types, ranges, messages are refused" \
	requests missing,types,ranges,messages,errors
sed 's/^/# /' "$ktap_step"
ok "random requests do no harm" requests random "$(few 1500)"
ok "nobody is refused all that changes anything, before it is looked at" \
	nobody "$here/nl_requests.py" errors,missing --user

# ------------------------------------------------------------- exit codes

exits "no object" 1 rdma-agg
exits "unknown object" 1 rdma-agg nonsense
exits "unknown command" 1 rdma-agg dev nonsense
exits "unknown option" 1 rdma-agg --nonsense dev
exits "a command without arguments" 1 rdma-agg lane add
exits "too many arguments" 1 rdma-agg dev show agg0 agg0
exits "no number" 1 rdma-agg lane add agg0 rxe0 weight heavy
exits "a number out of range" 1 rdma-agg lane set agg0 rxe0 rail 255
exits "unknown parameter" 1 rdma-agg param set agg0 nonsense 1
exits "a parameter without a value" 1 rdma-agg param set agg0 policy
exits "unknown device" 2 rdma-agg dev show agg9
exits "refused" 2 rdma-agg dev add agg0 netdev lane0
exits "not allowed" 2 nobody rdma-agg dev del agg0
for object in dev lane peer qp stat param monitor; do
	exits "help of $object" 0 rdma-agg $object help
	grep -q "^Usage: rdma-agg $object" "$ktap_step" || fail "usage of $object" "$(< "$ktap_step")"
done
exits "version" 0 rdma-agg -V
exits "output that cannot be written" 1 bash -c 'rdma-agg dev > /dev/full'
for object in dev lane peer qp stat param; do
	exits "nobody may look at $object" 0 nobody rdma-agg $object show
done

# ------------------------------------------------------------- its words

refuses "a device twice" 'an RDMA device of that name exists: attribute dev-name' \
	rdma-agg dev add agg0 netdev lane0
refuses "an identity twice" 'identity of another agg device: attribute ifname' \
	rdma-agg dev add agg1 netdev mgmt0
refuses "no such netdev" 'no such netdev: attribute ifname' rdma-agg dev add agg1 netdev nope
refuses "a lane twice" 'is a lane already: attribute ibdev-name' rdma-agg lane add agg0 rxe0/1
refuses "a lane that is none" 'no such RDMA device: attribute ibdev-name' rdma-agg lane add agg0 nope
refuses "an agg device as a lane" 'agg device cannot be a lane' rdma-agg lane add agg0 agg0
refuses "no such port" 'has no such port' rdma-agg lane add agg0 rxe1/2
refuses "no such lane" 'has no such lane: attribute ibdev-name' rdma-agg lane del agg0 rxe7
refuses "no such device" 'no such agg device: attribute dev-name' rdma-agg lane show nope rxe0
# 6.1 does not tell the attribute at the end of a dump.
refuses "no such device in a dump" 'no such agg device' rdma-agg qp show nope
refuses "too many queues" 'out of range: attribute tx-queues' rdma-agg param set agg0 tx-queues 65
refuses "no queues" 'out of range: attribute rx-queues' rdma-agg param set agg0 rx-queues 0
refuses "the port with lanes" 'while the device has lanes: attribute session-port' \
	rdma-agg param set agg0 session-port 4711
refuses "not allowed" 'CAP_NET_ADMIN' nobody rdma-agg param set agg0 policy rr

# ----------------------------------------------------------- what is shown

is "lanes" "$(rdma-agg lane show agg0 | awk 'NR > 1 { print $2, $3, $4, $5 }')" \
	$'rxe0/1 lane0 up 0\nrxe1/1 lane1 up 1'
is "device" "$(rdma-agg dev show agg0 | awk 'NR > 1 { print $1, $2, $3, $6 }')" 'agg0 mgmt0 active 2/2'
ok "columns are aligned" bash -c 'rdma-agg -d lane show | awk "
	NR == 1 { at = index(\$0, \"STATE\") }
	substr(\$0, at - 1, 1) != \" \" || substr(\$0, at, 1) == \" \" { exit 1 }"'
ok "no space at the ends of lines" bash -c '! for o in dev lane peer qp stat param; do rdma-agg -d $o show; done | grep " $"'

ok "lane is changed" rdma-agg lane set agg0 rxe1 rail 7 weight 123
is "rail" "$(value rail lane show agg0 rxe1)" 7
is "weight" "$(value weight lane show agg0 rxe1) $(value weight-fixed lane show agg0 rxe1)" "123 1"
ok "the weight follows the speed again" rdma-agg lane set agg0 rxe1 rail 1 weight auto
is "weight" "$(value weight lane show agg0 rxe1)" "$(value speed lane show agg0 rxe1)"

for policy in least rr numa hash; do
	ok "policy $policy" rdma-agg dev set agg0 policy $policy
	is "policy" "$(value policy param show agg0)" $policy
done
ok "all parameters in one request" rdma-agg param set agg0 load-bound 150% tx-queues 3 rx-queues 5 \
	connect-timeout 3s keepalive 1500ms rnr-grace 20 ack-timeout-min 17 ack-timeout-max 22 failover-timeout 10s \
	updelay 1s probe-interval 100 probe-lost 5
is "parameters" "$(rdma-agg param show agg0 | awk 'NR > 1 { $1 = ""; print }' | paste -sd,)" \
	" policy hash, load-bound 150 %, tx-queues 3, rx-queues 5, session-port 47910, connect-timeout 3 s, keepalive 1500 ms, rnr-grace 20 ms, ack-timeout-min 17 (537 ms), ack-timeout-max 22 (17.2 s), failover-timeout 10 s, updelay 1 s, probe-interval 100 ms, probe-lost 5, psk none"
exits "a request that is refused in part" 2 rdma-agg param set agg0 load-bound 100 session-port 4711
is "changes nothing" "$(value load-bound param show agg0)" 150

ok "a key from a file" bash -c 'echo 5ecr3t > /tmp/key; rdma-agg param set agg0 psk /tmp/key'
is "there is a key" "$(value psk-set param show agg0)" 1
ok "it cannot be read back" bash -c '! { rdma-agg param; rdma-agg -j param; } | grep 5ecr3t'
exits "a key that is too long" 2 bash -c 'head -c 65 /dev/zero | tr "\0" x | rdma-agg param set agg0 psk -'
is "leaves the old one" "$(value psk-set param show agg0)" 1
ok "no key" rdma-agg param set agg0 psk none
is "there is no key" "$(value psk-set param show agg0)" 0

# --------------------------------------------------- QPs, a peer, and JSON

# 300 QPs that do nothing.
cat > /tmp/qps.py <<- 'END'
	import sys
	from pyverbs.cq import CQ
	from pyverbs.device import Context
	from pyverbs.pd import PD
	from pyverbs.qp import QP, QPCap, QPInitAttr
	import pyverbs.enums as e
	ctx = Context(name="agg0")
	pd, cq = PD(ctx), CQ(ctx, 16)
	init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(1, 1, 1, 1))
	qps = [QP(pd, init) for _ in range(300)]
	open("/tmp/qps.ready", "w").close()
	sys.stdin.read()
END
mkfifo /tmp/qps.stop
python3 /tmp/qps.py < /tmp/qps.stop > /tmp/qps.out 2>&1 &
qps=$!
exec 7> /tmp/qps.stop
if wait_for 60 test -e /tmp/qps.ready; then
	is "QPs are counted" "$(value qps dev show agg0)" 300
	is "and shown" "$(rdma-agg qp show agg0 | awk 'NR > 1 && $3 == "rc" && $4 == "reset"' | wc -l)" 300
	ok "a dump in small parts has each QP once" requests resume 300
	ok "JSON of QPs" bash -c "rdma-agg -j qp show | '$here/json_check.py' qp-get --min 300 \
		--need qpn,type,state,attached,pid,comm,created"
else
	fail "QPs" "$(< /tmp/qps.out)"
fi
exec 7>&-
wait $qps
is "QPs are gone" "$(value qps dev show agg0)" 0

# A connection of agg0 with itself that stays: the client of the second
# iteration never comes.
gid=$(gid_index agg0 "$MY_MGMT")
setsid ibv_rc_pingpong -e -d agg0 -g "$gid" -n 1000000 -p 18500 > /tmp/server.out 2>&1 &
server=$!
wait_listen 18500
setsid ibv_rc_pingpong -e -d agg0 -g "$gid" -n 1000000 -p 18500 "$MY_MGMT" > /tmp/client.out 2>&1 &
client=$!
attached() { [[ $(rdma-agg qp show agg0 | grep -c "rts .*rxe[01]/1") -eq 2 ]]; }
if wait_for 60 attached; then
	qpn=$(rdma-agg -j qp show agg0 | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["qpn"])')
	ok "JSON of a connected QP" bash -c "rdma-agg -j qp show agg0 qpn $qpn |
		'$here/json_check.py' qp-get --min 1 --need sgid,peer-gid,peer-qpn,flow-hash,lane-id,ibdev-name,ibdev-port,tx-queue,rx-queue,lane-qpn,peer-lane-id,peer-lane-gid,peer-lane-qpn"
	is "both ends have one hash" "$(rdma-agg -d qp show agg0 | awk 'NR > 1' | grep -o ' [0-9a-f]\{8\} ' | sort -u | wc -l)" 1
	is "and are flows of the lanes" "$(rdma-agg -j lane show agg0 | grep -o '"flows":[0-9]*' | awk -F: '{ n += $2 } END { print n }')" 2
	ok "JSON of the peer" bash -c "rdma-agg -j peer show | '$here/json_check.py' peer-get --min 1 \
		--need gid,sgid,state,instance,lanes,keys,qps,since,tx-messages,rx-messages,reconnects"
	is "the peer" "$(rdma-agg peer show agg0 | awk 'NR > 1 { print $2, $3, $4 }')" "$MY_MGMT $MY_MGMT up"
else
	fail "a connection" "$(cat /tmp/server.out /tmp/client.out; rdma-agg -d qp)"
fi
kill -KILL $server $client
wait $server $client 2> /dev/null
ok "JSON of devices" bash -c "rdma-agg -j dev show | '$here/json_check.py' dev-get --min 1 --need all"
ok "JSON of lanes" bash -c "rdma-agg -j lane show | '$here/json_check.py' lane-get --min 2 \
	--need ibdev-name,ibdev-port,lane-id,ifname,rail,weight,weight-fixed,state,speed,mtu,gid,tx-queues,rx-queues,flows,qps,outstanding-bytes,state-changes,created"
ok "JSON of parameters" bash -c "rdma-agg -jp param show | '$here/json_check.py' param-get --min 1 --need all"
ok "JSON of counters" bash -c "rdma-agg -j stat show | '$here/json_check.py' stat-get --min 3 --need tx-bytes,rx-bytes"
ok "JSON of one lane's counters" bash -c "rdma-agg -jp stat show agg0 lane rxe0 |
	'$here/json_check.py' stat-get --min 1 --need tx-bytes,rx-bytes,queue,ibdev-name,lane-id"
is "rdma statistic has the same names" \
	"$(rdma statistic show link agg0/1 | tr ' ' '\n' | grep -c '^\(tx_bytes\|doorbells\|rnr_exceeded\|outstanding_bytes\)$')" 4

# ------------------------------------------ 128 queues: a lane in many parts

# One lane alone, its queues take 128 MiB.
ok "lanes away" bash -c 'rdma-agg lane del agg0 rxe0 && rdma-agg lane del agg0 rxe1'
ok "64 queues each way" bash -c 'rdma-agg param set agg0 tx-queues 64 rx-queues 64 && rdma-agg lane add agg0 rxe0'
queues() { grep -o '"direction":"[tr]x","index":[0-9]*' | sort -u | wc -l; }
is "queues of a lane" "$(rdma-agg -j stat show agg0 lane rxe0 | queues)" 128
is "queues in a dump" "$(rdma-agg -j stat show | queues)" 128
is "the dump has two objects" "$(rdma-agg -j stat show | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')" 2
is "a table of them" "$(rdma-agg -d stat show agg0 | grep -c '^agg0 .*[tr]x[0-9]')" 128
ok "lane away" rdma-agg lane del agg0 rxe0

# Without lanes the port may change, and it is the one that listens.
ok "another port" rdma-agg param set agg0 session-port 4711
ok "it listens" wait_listen 4711 5
ok "and not on the old one" bash -c "! { . '$here/lib.sh'; listening 47910; }"
python3 -c 'import socket, time
s = socket.create_server(("", 4712), family=socket.AF_INET6, dualstack_ipv6=True)
time.sleep(600)' & busy=$!
ok "somebody else has a port" wait_listen 4712 20
refuses "it is refused" 'cannot listen on this port: attribute session-port' \
	rdma-agg param set agg0 session-port 4712
is "and all stays" "$(value session-port param show agg0)" 4711
ok "it still listens" listening 4711
kill $busy
wait $busy 2> /dev/null
ok "as it was" rdma-agg param set agg0 session-port 47910 tx-queues 2 rx-queues 4
# No lane is on its way from one state to another.
settled() { ! rdma-agg lane show | grep -qw probe; }
ok "lanes again" bash -c 'rdma-agg lane add agg0 rxe0 && rdma-agg lane add agg0 rxe1'
wait_for 10 settled

# --------------------------------------------------------------- monitor

heard() { grep -c -- "$1" /tmp/monitor.out; }
stdbuf -oL rdma-agg monitor > /tmp/monitor.out 2>&1 &
monitor=$!
ok "monitor begins with what there is" wait_for 10 grep -q param-get /tmp/monitor.out
is "lanes there are" "$(heard '"name":"lane-get"')" 2
ok "changes" bash -c 'rdma-agg param set agg0 policy rr && rdma-agg param set agg0 policy hash &&
	rdma-agg lane set agg0 rxe1 weight 99 && rdma-agg lane set agg0 rxe1 weight auto &&
	rdma-agg dev add agg1 netdev lane1 && rdma-agg dev del agg1 &&
	rdma-agg lane del agg0 rxe1 && rdma-agg lane add agg0 rxe1'
ip link set lane0 down
wait_for 10 grep -q '"ibdev-name":"rxe0".*"state":"down"' /tmp/monitor.out
ip link set lane0 up
ok "a lane without carrier" wait_for 10 grep -q '"ibdev-name":"rxe0".*"state":"down".*"old-state":"up"' /tmp/monitor.out
ok "a lane with carrier" wait_for 10 grep -q '"ibdev-name":"rxe0".*"state":"up".*"old-state":"probe"' /tmp/monitor.out
is "parameters" "$(heard '"param-ntf".*"policy":"\(rr\|hash\)"')" 2
is "weights" "$(heard '"lane-ntf".*"event":"change".*"ibdev-name":"rxe1".*"weight-fixed":1')" 1
is "a device came" "$(heard '"dev-ntf".*"dev-name":"agg1","event":"new"')" 1
is "and went" "$(heard '"dev-ntf".*"dev-name":"agg1","event":"del"')" 1
is "a lane went" "$(heard '"lane-ntf".*"event":"del","ibdev-name":"rxe1"')" 1
is "and came" "$(heard '"lane-ntf".*"event":"new","ibdev-name":"rxe1"')" 1
ok "QPs" pair "ibv_rc_pingpong -e -d agg0 -g $gid -n 10" \
	"ibv_rc_pingpong -e -d agg0 -g $gid -n 10 $MY_MGMT"
ok "QPs were heard" wait_for 10 grep -q '"qp-ntf".*"state":"rts"' /tmp/monitor.out
ok "JSON of the monitor" bash -c "'$here/json_check.py' --lines --min 15 < /tmp/monitor.out"

# A monitor that does not read for a while is told that it has missed something.
kill -STOP $monitor
ok "many changes" requests flood "$(few 1500 300)"
kill -CONT $monitor
ok "a monitor that sleeps hears of its loss" wait_for 20 grep -q '^{"name":"overrun"}$' /tmp/monitor.out
ok "and then all there is" wait_for 20 bash -c \
	"sed '1,/overrun/d' /tmp/monitor.out | grep -q '\"param-get\"'"
kill $monitor
wait $monitor 2> /dev/null
ok "JSON after the loss" bash -c "'$here/json_check.py' --lines < /tmp/monitor.out"
stdbuf -oL rdma-agg monitor dev > /tmp/monitor.out 2>&1 & monitor=$!
wait_for 10 grep -q dev-get /tmp/monitor.out
rdma-agg param set agg0 rnr-grace 100
is "a monitor of one object hears of no other" "$(grep -vc '"dev-' /tmp/monitor.out)" 0
kill $monitor
wait $monitor 2> /dev/null
is "nobody may listen too" "$(nobody timeout 2 rdma-agg monitor dev | grep -c dev-get)" 1

# ------------------------------------------------------------ at the same time

# loop SECONDS COMMAND...: again and again; only "done" and "refused" are right
loop() {
	local end=$((SECONDS + $1)) rc
	shift
	while [[ $SECONDS -lt $end ]]; do
		rc=0
		"$@" > /dev/null 2>&1 || rc=$?
		[[ $rc -eq 0 || $rc -eq 2 ]] || { echo "exit $rc: $*"; return 1; }
	done
}
together() {
	local pid pids=() rc=0
	loop 4 rdma-agg dev add agg1 netdev lane1 & pids+=($!)
	loop 4 rdma-agg dev del agg1 & pids+=($!)
	loop 4 rdma-agg lane add agg1 rxe1 & pids+=($!)
	loop 4 rdma-agg lane del agg0 rxe1 & pids+=($!)
	loop 4 rdma-agg lane add agg0 rxe1 & pids+=($!)
	loop 4 rdma-agg param set agg1 policy rr load-bound 300 & pids+=($!)
	loop 4 rdma-agg -j stat & pids+=($!)
	loop 4 rdma-agg -d lane & pids+=($!)
	# rdma(8) ends with other codes when it is refused
	loop 4 sh -c 'rdma link add agg2 type agg netdev lane0 || exit 2' & pids+=($!)
	loop 4 rdma-agg dev del agg2 & pids+=($!)
	for pid in "${pids[@]}"; do
		wait "$pid" || rc=1
	done
	return $rc
}
ok "ten tools at once" together
rdma-agg dev del agg1 2> /dev/null
rdma-agg dev del agg2 2> /dev/null
rdma-agg lane add agg0 rxe1 2> /dev/null
wait_for 10 settled
is "what is left" "$(rdma-agg lane show | awk 'NR > 1 { print $1, $2, $4 }')" $'agg0 rxe0/1 up\nagg0 rxe1/1 up'
ok "JSON is right" bash -c "rdma-agg -j dev show | '$here/json_check.py' dev-get --min 1 --need all"

# ------------------------------------------------------------ namespaces

ip netns add other
ip -n other link add dummy0 type dummy 2> /dev/null
inside() { ip netns exec other "$@"; }
if ip -n other link show dummy0 > /dev/null 2>&1; then
	is "another namespace sees no device" "$(inside rdma-agg dev)" ""
	# Not by the function: that would be another process to kill.
	ip netns exec other python3 -c 'import socket, time
s = socket.create_server(("", 47910), family=socket.AF_INET6, dualstack_ipv6=True)
time.sleep(600)' & busy=$!
	ok "somebody else listens on the session port there" \
		inside bash -c ". '$here/lib.sh'; wait_listen 47910 20"
	refuses "and no device can" 'somebody else listens on the session port' \
		inside rdma-agg dev add agg1 netdev dummy0
	kill $busy
	wait $busy 2> /dev/null
	refuses "and finds none" 'no such agg device' inside rdma-agg dev del agg0
	ok "it has its own" inside rdma-agg dev add agg1 netdev dummy0
	is "which it sees" "$(inside rdma-agg dev | awk 'NR > 1 { print $1, $2 }')" "agg1 dummy0"
	is "alone" "$(rdma-agg dev | awk 'NR > 1 { print $1 }')" agg0
	refuses "we do not" 'no such agg device' rdma-agg dev del agg1
	ok "it goes with its namespace" ip netns del other
	ok "and is gone" wait_for 20 bash -c '! test -e /sys/class/infiniband/agg1'
else
	skip "namespaces" "no dummy netdev"
	ip netns del other
fi

agg_teardown
exits "without the module" 2 rdma-agg dev
refuses "the tool says so" 'is the module rdma_agg loaded' rdma-agg dev
