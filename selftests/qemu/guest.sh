#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Process 1 of a guest: names the NICs, starts the command server, and, on
# guest A, runs the tests or the command that run.sh was given.
#
# Everything it needs to know is in /run/agg/out/env, written by run.sh; what
# it has to say goes into /run/agg/out/: progress (shown live by run.sh),
# results (one line per test), status (the exit code; its absence means that
# the guest died), dmesg.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LC_ALL=C TERM=dumb
agg=/run/agg
out=$agg/out
export AGG_REPO=$agg/repo AGG_OUT=$out AGG_TMP=/tmp

# Process 1 must not return: whatever happens ends in power off.
power_off() {
	dmesg > $out/dmesg 2>&1
	$agg/busybox poweroff -f
	sleep 5
	# No ACPI in this kernel: run.sh starts QEMU with -no-reboot.
	$agg/busybox reboot -f
}
trap power_off EXIT

# shellcheck source=/dev/null
. $out/env		# AGG_ROLE AGG_GUESTS AGG_LANES AGG_RATE AGG_KO AGG_CLOCK AGG_TIMEOUT AGG_ROOTS
export AGG_ROLE AGG_GUESTS AGG_LANES AGG_RATE AGG_MTU AGG_KO AGG_ICOUNT AGG_ROOTS
export PATH=$agg/repo/build/selftests:$agg/repo/tools/rdma-agg:$agg/repo/tools/fabric:$PATH

mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
ln -sfn /proc/self/fd /dev/fd
for fs in debugfs tracefs configfs; do
	case $fs in
	debugfs) dir=/sys/kernel/debug ;;
	tracefs) dir=/sys/kernel/tracing ;;
	configfs) dir=/sys/kernel/config ;;
	esac
	[[ ! -d $dir ]] || mount -t "$fs" "$fs" "$dir" 2> /dev/null
done
hostname "guest-$AGG_ROLE"
ulimit -l unlimited -n 65536 -c 0
date -s "@$AGG_CLOCK" > /dev/null

set_sysctl() { [[ ! -e /proc/sys/${1//.//} ]] || echo "$2" > "/proc/sys/${1//.//}"; }
# Two guests share two host cores: a vCPU may well stand still for seconds.
set_sysctl kernel.watchdog_thresh 60
# Real hangs end the run.
set_sysctl kernel.hung_task_timeout_secs 240
set_sysctl kernel.hung_task_panic 1
set_sysctl kernel.softlockup_panic 1
set_sysctl kernel.sysrq 1
set_sysctl kernel.printk_ratelimit 0
# One address per interface answers ARP for itself only, as on separate wires.
set_sysctl net.ipv4.conf.all.arp_ignore 1
set_sysctl net.ipv4.conf.all.arp_announce 2
# Addresses are usable at once.
set_sysctl net.ipv6.conf.all.accept_dad 0
set_sysctl net.ipv6.conf.default.accept_dad 0

modprobe -a virtio_net || exit
# run.sh puts the purpose of a NIC into its MAC: 52:54:00:GUEST:KIND:INDEX.
for dev in /sys/class/net/*; do
	# Not a netdev: bonding_masters.
	[[ -e $dev/address ]] || continue
	IFS=: read -r _ _ _ _ kind index < "$dev/address"
	case $kind in
	01) name=mgmt$((16#$index)) ;;
	02) name=lane$((16#$index)) ;;
	03) name=ctl0 ;;
	*) continue ;;
	esac
	ip link set "${dev##*/}" name "$name"
done
ip link set lo up
[[ $AGG_ROLE == a ]] && me=1 || me=2
if [[ -e /sys/class/net/ctl0 ]]; then
	ip addr add "169.254.254.$me/30" dev ctl0
	ip link set ctl0 up
	setsid "$AGG_REPO/build/rexec" -l "169.254.254.$me" 22 < /dev/null > $out/rexec.log 2>&1 &
fi

say() { echo "$*" >> $out/progress; }

if [[ $AGG_ROLE == b ]]; then
	[[ ! -w /sys/kernel/debug/kmemleak ]] || echo clear > /sys/kernel/debug/kmemleak
	# Serves until guest A says it is over.
	mkfifo /run/agg/finish
	read -r _ < /run/agg/finish
	echo 0 > $out/status
	exit
fi

kmemleak=/sys/kernel/debug/kmemleak
# The test's own words are its header: "# timeout: SECONDS".
test_timeout() {
	local t
	t=$(sed -n '1,40s/^# timeout: *\([0-9]\+\).*/\1/p' "$1" | head -n 1)
	t=${t:-$AGG_TIMEOUT}
	# See AGG_SLOW in lib.sh.
	[[ ! -e $kmemleak ]] || t=$((2 * t))
	echo "$t"
}

# A test that even SIGKILL does not end is stuck in the kernel: the blocked
# tasks are shown on the console, and the crash tells run.sh.
watchdog() {	# watchdog NAME SECONDS
	local nap
	exec {nap}<> <(:)
	read -r -t "$2" -u "$nap" _
	dmesg -n 8
	echo "selftest: $1 hangs in the kernel" > /dev/kmsg
	echo w > /proc/sysrq-trigger
	echo l > /proc/sysrq-trigger
	read -r -t 3 -u "$nap" _
	echo c > /proc/sysrq-trigger
}

# run_one TEST: runs it and adds its line to the results.
run_one() {
	local test=$1 name log rc start secs verdict reason mark total limit dog
	name=$(basename "$test")
	name=${name%.sh}
	log=$out/$name.log
	start=$EPOCHREALTIME
	echo "selftest: begin $name" > /dev/kmsg
	say "# begin $name"
	limit=$(test_timeout "$AGG_REPO/$test")
	# Jumps of an instruction clock are no sign of anything; run.sh's own timeout holds.
	[[ $AGG_ICOUNT -eq 0 ]] || limit=$((limit * 1000))
	watchdog "$name" $((limit + 30)) &
	dog=$!
	(cd "$AGG_REPO" && exec timeout -k 10 "$limit" bash "$test") > "$log" 2>&1 < /dev/null
	rc=$?
	kill "$dog"
	wait "$dog" 2> /dev/null
	echo "selftest: end $name $rc" > /dev/kmsg
	secs=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $start }")
	total=$(grep -cE '^(not )?ok ' "$log")
	mark=$(grep -m 1 '^not ok ' "$log")
	if [[ $rc -eq 4 ]]; then
		verdict=skip
		reason=$(grep -m 1 -oiE 'SKIP.*' "$log")
	elif [[ $rc -eq 124 || $rc -eq 137 ]]; then
		verdict=not reason="timed out"
	elif [[ $rc -ne 0 ]]; then
		verdict=not reason="exit code $rc${mark:+; $mark}"
	elif [[ -n $mark ]]; then
		verdict=not reason=$mark
	elif [[ $total -eq 0 ]]; then
		verdict=not reason="reported no test point"
	else
		verdict=ok reason="$total points"
	fi
	echo "$verdict $name $secs $reason" >> $out/results
	case $verdict in
	ok) say "ok $name ($secs s, $reason)" ;;
	skip) say "ok $name # SKIP ${reason#*[ :]} ($secs s)" ;;
	not)
		say "not ok $name ($secs s): $reason"
		tail -n 25 "$log" | sed 's/^/    | /' >> $out/progress
		;;
	esac
	# A crashed or killed test must not spoil the next one.
	# shellcheck disable=SC2016 # for the inner shell
	[[ $verdict == ok || ! -r $AGG_REPO/selftests/lib.sh ]] ||
		timeout 60 bash -c '. "$AGG_REPO/selftests/lib.sh"; agg_cleanup' >> "$log" 2>&1
}

# On a kernel with kmemleak: a line of its own, after all tests and with the
# module gone.  What was there at the start of the tests is not ours.
check_kmemleak() {
	local found
	[[ -w $kmemleak ]] || return 0
	# shellcheck disable=SC2016 # for the inner shell
	found=$(timeout 240 bash -c '. "$AGG_REPO/selftests/lib.sh"; agg_cleanup; both kmemleak_scan' 2>&1)
	if [[ -n $found ]]; then
		echo "$found" > $out/kmemleak
		echo "not kmemleak 0 unreferenced objects, see the file kmemleak" >> $out/results
		say "not ok kmemleak"
		head -n 40 <<< "$found" | sed 's/^/    | /' >> $out/progress
	else
		echo "ok kmemleak 0 -" >> $out/results
		say "ok kmemleak"
	fi
}
[[ ! -w $kmemleak ]] || echo clear > $kmemleak

rc=0
if [[ -s $out/tests ]]; then
	while read -r test; do
		run_one "$test"
	done < $out/tests
	check_kmemleak
	grep -q '^not ' $out/results && rc=1
else
	cd "$AGG_REPO" || exit
	bash $out/cmd < /dev/null >> $out/progress 2>&1
	rc=$?
fi
if [[ $AGG_GUESTS -eq 2 ]]; then
	timeout 20 "$AGG_REPO/build/rexec" 169.254.254.2 22 'echo > /run/agg/finish'
fi
echo $rc > $out/status
