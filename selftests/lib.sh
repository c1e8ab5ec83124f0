# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# What the tests share.  A test is selftests/agg_NAME.sh, one behaviour each:
#
#   #!/bin/bash
#   # SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#   # timeout: 120                     (seconds; optional)
#   # (what is tested, and the topology when it is not the usual one)
#   . "$(dirname "$0")/lib.sh"
#   test_begin
#   agg_setup                          # lanes, module, agg0 with all lanes, on both guests
#   ok "pingpong on agg0" pair "ibv_rc_pingpong -d agg0 -g \$(gid_index agg0 \$MY_MGMT)" \
#                              "ibv_rc_pingpong -d agg0 -g \$(gid_index agg0 \$MY_MGMT) \$PEER_MGMT"
#   agg_teardown
#
# A test in which the rate of the lanes plays no part sets AGG_RATE=none first.
#
# It runs as root on guest A (see qemu/run.sh):
#   selftests/qemu/run.sh -k 6.12 -n 2 -- selftests/agg_NAME.sh
# Its output is KTAP; the plan line comes at the end, by itself, and with it
# the look into dmesg of both guests.  skip_all ends it with code 4.
#
# With one guest (-n 1) "the peer" is guest A itself: on_b runs here, and
# $PEER_MGMT and peer_lane are A's own addresses.  So a test that goes through
# the helpers works both ways.
#
# Sourcing this file has no effect but definitions; it is sourced on guest B
# too, by b_lib and both.

# ------------------------------------------------------------- addresses

AGG_LANES=${AGG_LANES:-4}
AGG_GUESTS=${AGG_GUESTS:-2}
AGG_TMP=${AGG_TMP:-/tmp}
[[ ${AGG_ROLE:-a} == a ]] && MY=1 || MY=2
if [[ $AGG_GUESTS -eq 1 ]]; then
	PEER=$MY
else
	PEER=$((3 - MY))
fi
# shellcheck disable=SC2034 # for the tests
{
MY_MGMT=10.0.0.$MY PEER_MGMT=10.0.0.$PEER
MY_MGMT6=fd00::$MY PEER_MGMT6=fd00::$PEER
}
my_lane() { echo "10.10.$1.$MY"; }
peer_lane() { echo "10.10.$1.$PEER"; }
my_lane6() { echo "fd00:10:$1::$MY"; }
peer_lane6() { echo "fd00:10:$1::$PEER"; }

# A debug kernel (the one with kmemleak) takes several times as long for
# everything: tests do less of the same there, and wait longer.
[[ -e /sys/kernel/debug/kmemleak ]] && AGG_SLOW=1 || AGG_SLOW=0

# So many lanes are used unless a test asks for more.
AGG_USE_LANES=$((AGG_SLOW && AGG_LANES > 2 ? 2 : AGG_LANES))

# few COUNT [SLOW]: COUNT, and on a debug kernel SLOW or a tenth of COUNT.
few() { echo $((AGG_SLOW ? ${2:-($1 + 9) / 10} : $1)); }

# fewer WORDS [LEAST]: a command with few of the N of its "-n N"; not less than LEAST.
fewer() {
	local n
	if [[ $AGG_SLOW -eq 1 && $1 =~ ^(.*-n )([0-9]+)(.*)$ ]]; then
		n=$(few "${BASH_REMATCH[2]}")
		[[ $n -ge ${2:-1} ]] || n=$2
		echo "${BASH_REMATCH[1]}$n${BASH_REMATCH[3]}"
	else
		echo "$1"
	fi
}

# With -icount an idle guest's clock jumps to the next timer at once, also when
# it is idle because a file comes from the host: deadlines mean little there.
[[ ${AGG_ICOUNT:-0} -eq 1 ]] && time_scale=1000 || time_scale=$((AGG_SLOW ? 3 : 1))

# ------------------------------------------------------------------ KTAP

ktap_count=0
ktap_failed=0
ktap_step=${AGG_TMP}/step.$$

diag() { echo "# ${*//$'\n'/$'\n'# }"; }

pass() {
	ktap_count=$((ktap_count + 1))
	echo "ok $ktap_count $1"
}

# fail DESCRIPTION [WHY]
fail() {
	ktap_count=$((ktap_count + 1))
	ktap_failed=$((ktap_failed + 1))
	echo "not ok $ktap_count $1"
	[[ -z ${2:-} ]] || diag "$2"
}

# skip DESCRIPTION REASON: one point; AGG_NO_SKIP=1 makes it a failure.
skip() {
	[[ -z ${AGG_NO_SKIP:-} ]] || { fail "$1" "skipped: $2"; return; }
	ktap_count=$((ktap_count + 1))
	echo "ok $ktap_count $1 # SKIP $2"
}

# skip_all REASON: the whole test.
skip_all() {
	[[ -z ${AGG_NO_SKIP:-} ]] || { fail "all" "skipped: $1"; exit 1; }
	trap - EXIT
	echo "1..0 # SKIP $1"
	exit 4
}

# ok DESCRIPTION COMMAND...: passes when the command succeeds; shows its output when not.
ok() {
	local what=$1 rc
	shift
	"$@" > "$ktap_step" 2>&1
	rc=$?
	if [[ $rc -eq 0 ]]; then
		pass "$what"
	else
		fail "$what" "exit $rc: $*"
		tail -n 40 "$ktap_step" | sed 's/^/#   /'
	fi
	return $rc
}

# refuses DESCRIPTION REGEX COMMAND...: passes when the command fails and says so.
refuses() {
	local what=$1 regex=$2 rc
	shift 2
	"$@" > "$ktap_step" 2>&1
	rc=$?
	if [[ $rc -ne 0 && $rc -lt 124 ]] && grep -qE -- "$regex" "$ktap_step"; then
		pass "$what"
		return 0
	fi
	fail "$what" "exit $rc, wanted a refusal with /$regex/: $*"
	tail -n 20 "$ktap_step" | sed 's/^/#   /'
	return 1
}

# is DESCRIPTION GOT WANTED
is() {
	if [[ $2 == "$3" ]]; then
		pass "$1"
	else
		fail "$1" "got: $2"$'\n'"wanted: $3"
		return 1
	fi
}

# bail REASON: the rest makes no sense.
bail() {
	fail "bail out" "$1"
	exit 1
}

# A test with a function of its own by one of these names would pass whatever
# happens.
ktap_functions=(pass fail skip ok refuses is bail wait_for pair)
ktap_bodies=

test_begin() {
	echo "KTAP version 1"
	dmesg_mark
	[[ $AGG_GUESTS -eq 1 ]] || b_lib dmesg_mark
	trap test_end EXIT
}

test_end() {
	local rc=$?
	trap - EXIT
	stop_all_b
	if [[ $(declare -f "${ktap_functions[@]}") != "$ktap_bodies" ]]; then
		echo "Bail out! the test redefines one of ${ktap_functions[*]}"
		exit 1
	fi
	[[ $rc -eq 0 || $ktap_failed -gt 0 ]] || fail "test script ended early" "exit code $rc"
	ok "no complaint of the kernel on guest a" check_dmesg
	[[ $AGG_GUESTS -eq 1 ]] || ok "no complaint of the kernel on guest b" b_lib check_dmesg
	echo "1..$ktap_count"
	[[ $ktap_failed -eq 0 ]] || exit 1
	exit 0
}

# ----------------------------------------------------------------- dmesg

dmesg_mark() {
	rm -f "$AGG_TMP/allowed"
	echo "selftest: mark" > /dev/kmsg
}

# allow_warning REGEX: this test may provoke a WARNING whose report matches,
# on any guest.  For bugs of the lanes' drivers that are not ours: rxe of 6.12
# warns in rxe_completer() when a READ response was lost.  Say why.
allow_warning_here() {
	echo "$1" >> "$AGG_TMP/allowed"
	echo 0 > /proc/sys/kernel/panic_on_warn
}
allow_warning() { both allow_warning_here "$1"; }

# allow_report_here REGEX: the same for what vmalloc() says when it fails, which is
# no WARNING but has a trace: a test that lets allocations fail.
allow_report_here() { echo "$1" >> "$AGG_TMP/allowed"; }

# Lines of the kernel since the last mark that nobody wants to see.
check_dmesg() {
	local allowed='^$'
	if [[ -e $AGG_TMP/allowed ]]; then
		allowed=$(paste -sd '|' "$AGG_TMP/allowed")
		echo 1 > /proc/sys/kernel/panic_on_warn
	fi
	# A report goes from "cut here" to "end trace", or to the end of its stack;
	# it is dropped as a whole.
	! dmesg | allowed=$allowed awk '
		/selftest: mark/ { n = 0; next }
		/\[ cut here \]/ { first = n; hit = 0; end = "---[ end trace" }
		!end && /vmalloc error/ { first = n; hit = 0; end = "</TASK>" }
		end && $0 ~ ENVIRON["allowed"] { hit = 1 }
		{ line[n++] = $0 }
		end && index($0, end) { end = ""; if (hit) n = first }
		END { for (i = 0; i < n; i++) print line[i] }' |
		grep -E -A 30 'WARNING|BUG|Oops|[Cc]all [Tt]race|circular locking|recursive locking|inconsistent lock|invalid wait context|suspicious RCU|refcount_t|use-after-free|KASAN|UBSAN|kmemleak|leak|unreferenced object|blocked for more than|detected (expedited )?stalls|self-detected stall|soft lockup|general protection|sleeping function|ODEBUG|list_(add|del) corruption|page allocation failure'
}

# Prints what kmemleak finds; an object counts when it is still unreferenced
# at the second scan, and older than kmemleak's own grace of 5 s.
kmemleak_scan() {
	local file=/sys/kernel/debug/kmemleak
	[[ -w $file ]] || return 0
	sleep 6
	echo scan > $file
	sleep 1
	echo scan > $file
	cat $file
}

# -------------------------------------------------------- the other guest

# on_b COMMAND...: a shell command on the peer; output and exit code come back.
on_b() {
	if [[ $AGG_GUESTS -eq 1 ]]; then
		bash -c "$*"
	else
		"$AGG_REPO/build/rexec" 169.254.254.2 22 "cd '$AGG_REPO'; $*"
	fi
}

# on_b_stdin COMMAND...: the same with our standard input.
on_b_stdin() {
	if [[ $AGG_GUESTS -eq 1 ]]; then
		bash -c "$*"
	else
		"$AGG_REPO/build/rexec" -i 169.254.254.2 22 "cd '$AGG_REPO'; $*"
	fi
}

# b_lib FUNCTION [ARG...]: a function of this file on the peer.
b_lib() { on_b "AGG_RATE=${AGG_RATE:-none}; . '$AGG_REPO/selftests/lib.sh'; $*"; }

# both FUNCTION [ARG...]: on every guest, at the same time; fails when one did.
both() {
	local pid rc=0
	if [[ $AGG_GUESTS -eq 1 ]]; then
		"$@"
		return
	fi
	b_lib "$(printf '%q ' "$@")" &
	pid=$!
	"$@" || rc=$?
	wait "$pid" || rc=$?
	return "$rc"
}

# start_b NAME COMMAND...: in the background on the peer, until it ends, stop_b
# or the end of the test.  Its output is here, in $AGG_TMP/NAME.out.
declare -A b_pid=()
start_b() {
	local name=$1
	shift
	# setsid: so that stop_b reaches a pipeline too when it runs here.
	if [[ $AGG_GUESTS -eq 1 ]]; then
		setsid -w bash -c "$*" > "$AGG_TMP/$name.out" 2>&1 < /dev/null &
	else
		"$AGG_REPO/build/rexec" 169.254.254.2 22 "cd '$AGG_REPO'; $*" > "$AGG_TMP/$name.out" 2>&1 < /dev/null &
	fi
	b_pid[$name]=$!
}

# wait_b NAME: its exit code.
wait_b() {
	local rc=0
	wait "${b_pid[$1]}" || rc=$?
	unset "b_pid[$1]"
	return "$rc"
}

stop_b() {
	local pid=${b_pid[$1]:-}
	[[ -n $pid ]] || return 0
	# The client's death makes the other side kill the command's group.
	[[ $AGG_GUESTS -eq 2 ]] || pkill -KILL -P "$pid" 2> /dev/null
	kill "$pid" 2> /dev/null
	wait "$pid" 2> /dev/null
	unset "b_pid[$1]"
	return 0
}

stop_all_b() {
	local name
	for name in "${!b_pid[@]}"; do
		stop_b "$name"
	done
}

# wait_for SECONDS COMMAND...: until it succeeds; no output.
wait_for() {
	local end
	end=$((${EPOCHREALTIME/./} + $1 * time_scale * 1000000))
	shift
	until "$@" > /dev/null 2>&1; do
		[[ ${EPOCHREALTIME/./} -lt $end ]] || return 1
		sleep 0.05
	done
}

# listening PORT: does a TCP socket listen there?
listening() {
	local hex file addr st
	printf -v hex '%04X' "$1"
	# No program is started: this is polled.
	for file in /proc/net/tcp /proc/net/tcp6; do
		while read -r _ addr _ st _; do
			[[ $st != 0A || $addr != *":$hex" ]] || return 0
		done < "$file"
	done
	return 1
}
wait_listen() { wait_for "${2:-30}" listening "$1"; }
wait_listen_b() { b_lib wait_listen "$1" "${2:-30}"; }

# pair SERVER CLIENT: starts the server on the peer with -p PORT added, waits
# until it listens, runs the client with the same -p here.  Both must end with
# 0.  For ibv_*_pingpong and perftest.  $PORT in the words is replaced too.
# Output: $AGG_TMP/server.out, client.out.  PAIR_TIMEOUT: seconds (60).
pair_port=18600
pair() {
	local port rc=0 src=0 server=$1 client=$2
	pair_port=$((pair_port + 1))
	port=$pair_port
	# The words may hold $(gid_index ...) and the like for their own side.
	start_b server ". '$AGG_REPO/selftests/lib.sh'; exec timeout $((${PAIR_TIMEOUT:-60} * time_scale)) ${server} -p $port"
	if ! wait_listen_b "$port" 30; then
		echo "the server does not listen:"
		cat "$AGG_TMP/server.out"
		stop_b server
		return 1
	fi
	bash -c ". '$AGG_REPO/selftests/lib.sh'; exec timeout $((${PAIR_TIMEOUT:-60} * time_scale)) ${client} -p $port" \
		> "$AGG_TMP/client.out" 2>&1 < /dev/null || rc=$?
	# A server whose client failed may wait for ever.
	[[ $rc -eq 0 ]] || stop_b server
	[[ $rc -ne 0 ]] || wait_b server || src=$?
	if [[ $rc -ne 0 || $src -ne 0 ]]; then
		echo "client: exit $rc"
		cat "$AGG_TMP/client.out"
		echo "server: exit $src"
		cat "$AGG_TMP/server.out"
		return 1
	fi
}

# ----------------------------------------------------------------- lanes

# In a guest a process costs a tenth of a second, and on a debug kernel half a
# second.  So what every test does starts as few of them as it can.

# gid_of IP: sets $gid_text to the address as sysfs writes it as a GID.
gid_of() {
	local IFS=: words left right
	if [[ $1 != *:* ]]; then
		IFS=. read -ra words <<< "$1"
		printf -v gid_text '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "${words[@]}"
		return
	fi
	read -ra left <<< "${1%%::*}"
	[[ $1 != *::* ]] || read -ra right <<< "${1#*::}"
	while [[ $((${#left[@]} + ${#right[@]})) -lt 8 ]]; do
		left+=(0)
	done
	printf -v gid_text '%04x:' "${left[@]/#/0x}" "${right[@]/#/0x}"
	gid_text=${gid_text%:}
}

# gid_index DEVICE IP: the index of the RoCE v2 GID of an address, by sysfs.
gid_index() {
	local gid_text dir=/sys/class/infiniband/$1/ports/1 i text
	gid_of "$2"
	for ((i = 0; i < 256; i++)); do
		{ read -r text < "$dir/gids/$i"; } 2> /dev/null || break
		[[ $text == "$gid_text" ]] || continue
		{ read -r text < "$dir/gid_attrs/types/$i"; } 2> /dev/null || continue
		[[ $text == *v2* ]] || continue
		echo "$i"
		return 0
	done
	echo "gid_index: $1 has no GID of $2" >&2
	return 1
}

# shape LANE RATE: limits what leaves a lane; "none" takes the limit away.
# The queue holds more than the QPs together have on the way: rxe knows no
# congestion control and a drop costs a whole timeout.
shape() {
	if [[ $2 == none ]]; then
		tc qdisc del dev "lane$1" root 2> /dev/null
		return 0
	fi
	tc qdisc replace dev "lane$1" root tbf rate "$2" burst 64kb limit 8mb
}

# The local half of mgmt_up and lanes_up.
mgmt_up_here() {
	ip -batch - <<- END
		addr replace $MY_MGMT/24 dev mgmt0
		addr replace $MY_MGMT6/64 dev mgmt0 nodad
		link set mgmt0 up
	END
}

lanes_up_here() {
	local n=${1:-$AGG_USE_LANES} i
	modprobe -q crc32_generic
	modprobe -a ib_uverbs rdma_ucm rdma_rxe || return
	[[ ${AGG_RATE:-none} == none ]] || modprobe sch_tbf
	for ((i = 0; i < n; i++)); do
		echo "link set lane$i mtu ${AGG_MTU:-4200} up"
		echo "addr replace 10.10.$i.$MY/24 dev lane$i"
		echo "addr replace fd00:10:$i::$MY/64 dev lane$i nodad"
	done | ip -batch - || return
	[[ ${AGG_RATE:-none} == none ]] || for ((i = 0; i < n; i++)); do
		shape "$i" "$AGG_RATE"
	done
	for ((i = 0; i < n; i++)); do
		[[ -e /sys/class/infiniband/rxe$i ]] || echo "link add rxe$i type rxe netdev lane$i"
	done | rdma -b - || return
	for ((i = 0; i < n; i++)); do
		wait_for 10 gid_index "rxe$i" "$(my_lane "$i")" ||
			{ echo "rxe$i: no GID of its address"; return 1; }
	done
}

lanes_down_here() {
	local i
	for ((i = 0; i < AGG_LANES; i++)); do
		[[ ! -e /sys/class/infiniband/rxe$i ]] || echo "link delete rxe$i"
	done | rdma -b -
	for ((i = 0; i < AGG_LANES; i++)); do
		[[ -e /sys/class/net/lane$i ]] || continue
		printf 'link set lane%d down\naddr flush dev lane%d\n' "$i" "$i"
	done | ip -force -batch -
	for ((i = 0; i < AGG_LANES; i++)); do
		[[ ! -e /sys/class/net/lane$i ]] || echo "qdisc del dev lane$i root"
	done | tc -force -batch - 2> /dev/null
	return 0
}

# lanes_up [N]: mgmt0 and N lanes with rxe0.. on both guests.
lanes_up() { both mgmt_up_here && both lanes_up_here "$@"; }
lanes_down() { both lanes_down_here; }

# root_up NAME: the user space of another distribution, for chroot, at
# /run/agg/roots/NAME on this guest.  $AGG_ROOTS says which there are (roots.sh).
root_up() {
	local dir=/run/agg/roots/$1
	mkdir -p "$dir"
	mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,ro,cache=loose "$1" "$dir" &&
		mount --rbind /dev "$dir/dev" && mount --rbind /sys "$dir/sys" &&
		mount --rbind /proc "$dir/proc"
}
root_down() { umount -R "/run/agg/roots/$1"; }

# bytes_sent DEVICE...: what netdevs have sent so far, one number per line.
bytes_sent() {
	local dev
	for dev in "$@"; do
		cat "/sys/class/net/$dev/statistics/tx_bytes"
	done
}

# ------------------------------------------------------------- rdma_agg

# Each guest checks for itself that what it made is gone at the end.
res_dir=$AGG_TMP/res
# res_of DEVICE...: their objects as `rdma resource` counts them, a line for each.
res_of() {
	local name rest
	rdma resource show | while read -r _ name rest; do
		[[ " $* " != *" ${name%:} "* ]] || echo "$name $rest"
	done
}
res_save() {
	local dev
	mkdir -p "$res_dir"
	for dev in "$@"; do
		: > "$res_dir/$dev"
	done
	res_of "$@" | while read -r dev rest; do
		echo "$dev $rest" > "$res_dir/${dev%:}"
	done
}
res_same() {
	local dev now before
	now=$'\n'$(res_of "$@")$'\n'
	for dev in "$@"; do
		before=''
		read -r before < "$res_dir/$dev"
		[[ $now == *$'\n'"$before"$'\n'* ]] || return 1
	done
}
# res_check DEVICE...: waits until their objects are as at res_save.
res_check() {
	local dev
	wait_for 15 res_same "$@" && return
	for dev in "$@"; do
		echo "objects of $dev:"
		echo "before: $(cat "$res_dir/$dev")"
		echo "now:    $(res_of "$dev")"
		rdma resource show qp 2> /dev/null | grep "$dev"
		rdma resource show mr 2> /dev/null | grep "$dev"
	done
	return 1
}

agg_present() { [[ -n ${AGG_KO:-} && -e $AGG_KO ]] && command -v rdma-agg > /dev/null; }

# Module parameters may follow.
# shellcheck disable=SC2120
agg_load_here() {
	local deps
	[[ ! -d /sys/module/rdma_agg ]] || return 0
	deps=$(modinfo -F depends "$AGG_KO") || return
	# shellcheck disable=SC2086 # several words
	modprobe -a ${deps//,/ } && insmod "$AGG_KO" "$@"
}

agg_unload_here() {
	[[ -d /sys/module/rdma_agg ]] || return 0
	rmmod rdma_agg
}

# agg_dev_here NAME [LANES]: an agg device on mgmt0 with lanes rxe0...
agg_dev_here() {
	local dev=${1:-agg0} n=${2:-$AGG_USE_LANES} i
	rdma-agg dev add "$dev" netdev mgmt0 || return
	for ((i = 0; i < n; i++)); do
		rdma-agg lane add "$dev" "rxe$i/1" || return
	done
	wait_for 10 gid_index "$dev" "$MY_MGMT" ||
		{ echo "$dev: no GID of $MY_MGMT"; return 1; }
}

agg_setup_here() {
	local n=${1:-$AGG_USE_LANES} i names=()
	mgmt_up_here && lanes_up_here "$n" || return
	for ((i = 0; i < n; i++)); do
		names+=("rxe$i")
	done
	res_save "${names[@]}"
	# shellcheck disable=SC2119
	agg_load_here && agg_dev_here agg0 "$n" || return
	res_save agg0
}

agg_teardown_here() {
	local rc=0 i names=()
	if [[ -e /sys/class/infiniband/agg0 ]]; then
		res_check agg0 || rc=1
		rdma-agg dev del agg0 || rc=1
	fi
	for ((i = 0; i < AGG_LANES; i++)); do
		[[ ! -e /sys/class/infiniband/rxe$i ]] || names+=("rxe$i")
	done
	[[ ${#names[@]} -eq 0 ]] || res_check "${names[@]}" || rc=1
	agg_unload_here || rc=1
	lanes_down_here
	return $rc
}

# agg_setup [LANES]: everything, on both guests, or the test ends here.
agg_setup() {
	agg_present || skip_all "no rdma_agg module or tool in this run"
	ok "agg0 is set up" both agg_setup_here "$@" || exit 1
}

# agg_teardown: and the proof that nothing of it is left.
agg_teardown() {
	stop_all_b
	ok "nothing is left of agg0 and the module unloads" both agg_teardown_here
}

# After a test that died: whatever it takes, without a judgement.
agg_cleanup_here() {
	local dev
	# Background jobs of the test; the guest runs nothing else.
	pkill -KILL -f 'ib_(write|read|send|atomic)_|ibv_|rping|pyverbs|run_tests' 2> /dev/null
	for dev in /sys/class/infiniband/agg*; do
		[[ ! -e $dev ]] || timeout 20 rdma link delete "${dev##*/}"
	done
	timeout 20 rmmod rdma_agg 2> /dev/null
	lanes_down_here
	# Down first: IPv6 is of no use any more on a link that loses all its addresses while up.
	ip link set mgmt0 down
	ip addr flush dev mgmt0
}
agg_cleanup() { both agg_cleanup_here; }

ktap_bodies=$(declare -f "${ktap_functions[@]}")
