#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Boots one or two guests and runs tests, or one command, in guest A.
#
#   run.sh [options] -- TEST...      tests: paths below the repository
#   run.sh [options] --cmd 'COMMAND' a bash command line, run in the repository
#
#   -k, --kernel SPEC   6.1, 6.12, debug, newest, a release, or a folder (kernels.sh;
#                       default 6.12)
#   -n, --guests N      1 or 2 (default 2)
#   --lanes N           lane NICs per guest, joined pairwise (default 4)
#   --rate RATE         every lane sends no faster (tbf in the guest; default: 25mbit
#                       with two guests, none with one; "none" turns it off)
#   --mtu N             MTU of the lanes (default 4200: RDMA path MTU 4096)
#   --icount            deterministic time: one vCPU, the clock counts instructions
#   --smp N             vCPUs per guest (default: 2 for one guest, 1 for two: with more
#                       vCPUs than host cores everything takes twice as long)
#   --mem MIB           memory per guest (default 1024)
#   --timeout SECONDS   for one boot with all its tests (default 1200)
#   --test-timeout S    for one test without a "# timeout: S" line (default 240)
#   --append ARGS       more kernel arguments
#   --root DIR          a folder other than / as the guests' root file system
#   --out DIR           where results go (default: a new folder below /tmp)
#   --keep              keep the default folder also after success
#   --no-build          use the module and the tool as they are
#   --bare              without rdma_agg: neither built nor offered to the tests
#   --ko FILE           use this rdma_agg.ko, below the repository
#   --no-panic          do not panic on a kernel warning
#   -v                  also show the consoles
#
# Guest A drives.  Each guest has mgmt0 (10.0.0.1 on A, 10.0.0.2 on B), lane0
# to laneN, and ctl0, over which A commands B (lib.sh: on_b).  All addresses
# but ctl0's are set up by lib.sh, so a test can arrange things otherwise.
#
#        guest A                         guest B
#      +---------+  unix datagrams     +---------+
#      |   mgmt0 +---------------------+ mgmt0   |
#      |   lane0 +---------------------+ lane0   |   tbf at --rate
#      |    ...  |                     |  ...    |
#      |   lane3 +---------------------+ lane3   |
#      |    ctl0 +---------------------+ ctl0    |
#      +---------+                     +---------+
#
# The guests' root is the host's / by 9p, read-only, with memory file systems
# where programs write: the tests run the host's own programs.  The repository
# is /run/agg/repo, the results folder /run/agg/out ($AGG_OUT).
#
# A guest that panics fails the test that was running; the others are run in
# a fresh boot.  The exit code is 0 when all tests passed or were skipped, 1
# when one failed, 2 when a run could not start; with --cmd the command's own,
# or 2 when the guest died.  Any kernel warning is a panic.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)

die() { echo "run.sh: $*" >&2; exit 2; }
usage() { sed -n '3,/^set -/{/^#/s/^# \{0,1\}//p}' "$0"; exit "$1"; }

kernel=6.12 guests=2 lanes=4 rate='' mtu=4200 icount='' smp='' mem=1024
timeout=1200 test_timeout=240 append='' root=/ out='' keep='' build=1 ko=''
panic='panic_on_warn=1 oops=panic' verbose='' cmd='' bare=''
tests=()
while [[ $# -gt 0 ]]; do
	case $1 in
	-k | --kernel) kernel=$2; shift ;;
	-n | --guests) guests=$2; shift ;;
	--lanes) lanes=$2; shift ;;
	--rate) rate=$2; shift ;;
	--mtu) mtu=$2; shift ;;
	--icount) icount=1 smp=1 ;;
	--smp) smp=$2; shift ;;
	--mem) mem=$2; shift ;;
	--timeout) timeout=$2; shift ;;
	--test-timeout) test_timeout=$2; shift ;;
	--append) append=$2; shift ;;
	--root) root=$2; shift ;;
	--out) out=$2; shift ;;
	--keep) keep=1 ;;
	--no-build) build='' ;;
	--bare) bare=1 build='' ;;
	--ko) ko=$2; shift ;;
	--no-panic) panic='' ;;
	--cmd) cmd=$2; shift ;;
	-v) verbose=1 ;;
	-h | --help) usage 0 ;;
	--) shift; tests=("$@"); break ;;
	-*) die "unknown option $1 (--help)" ;;
	*) tests+=("$1") ;;
	esac
	shift
done
[[ $guests == [12] ]] || die "-n takes 1 or 2"
[[ -n $cmd || ${#tests[@]} -gt 0 ]] || usage 2
[[ -z $icount || $guests -eq 1 ]] || die "--icount is for one guest: two clocks that count instructions drift apart"
[[ -n $smp ]] || smp=$((3 - guests))
if [[ -z $rate ]]; then
	[[ $guests -eq 2 ]] && rate=25mbit || rate=none
fi
for i in "${!tests[@]}"; do
	path=$(realpath -e "${tests[i]}") || die "no test ${tests[i]}"
	tests[i]=${path#"$repo"/}
	[[ ${tests[i]} != /* ]] || die "$path is not in the repository"
done
read -ra qemu <<< "$("$here/../kernels.sh" qemu any)"
command -v "${qemu[0]}" > /dev/null || die "no QEMU; selftests/deps.sh demo installs it"
shell=$("$here/../kernels.sh" show "$kernel") || exit 2
krel='' vmlinuz='' moddir='' kdir='' kroot=''
eval "$shell"
[[ -r $vmlinuz ]] || die "cannot read $vmlinuz"

made_out=
if [[ -z $out ]]; then
	out=$(mktemp -d "${TMPDIR:-/tmp}/rdma_agg-$kernel.XXXXXX" 2> /dev/null || mktemp -d)
	made_out=1
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Sockets have short names of their own: a unix address ends at 107 bytes.
scratch=$(mktemp -d /tmp/agg.XXXXXX)
pids=()
cleanup() {
	local pid
	for pid in "${pids[@]}"; do
		kill "$pid" 2> /dev/null || true
	done
	wait 2> /dev/null || true
	rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ---------------------------------------------------------------- build

mkdir -p "$repo/build"
(
	# Several runs may start at once.
	flock 9
	if [[ $here/rexec.c -nt $repo/build/rexec ]]; then
		cc -static -O2 -Wall -Wextra -o "$repo/build/rexec.new" "$here/rexec.c"
		mv "$repo/build/rexec.new" "$repo/build/rexec"
	fi
	[[ -n $build ]] || exit 0
	if [[ -e $repo/kmod/Kbuild && -z $ko ]]; then
		make -s -C "$repo" modules KVER="$krel" KDIR="$kdir" KROOT="$kroot" > "$out/build.log" 2>&1 ||
			{ cat "$out/build.log" >&2; exit 1; }
	fi
	if [[ -e $repo/tools/rdma-agg/Makefile ]]; then
		make -s -C "$repo" tools > "$out/build-tools.log" 2>&1 ||
			{ cat "$out/build-tools.log" >&2; exit 1; }
	fi
	if [[ -e $repo/selftests/Makefile ]]; then
		make -s -C "$repo/selftests" helpers > "$out/build-helpers.log" 2>&1 ||
			{ cat "$out/build-helpers.log" >&2; exit 1; }
	fi
) 9> "$repo/build/.lock" || die "the build failed"
if [[ -z $ko && -z $bare && -e $repo/build/$krel/kmod/rdma_agg.ko ]]; then
	ko=$repo/build/$krel/kmod/rdma_agg.ko
fi
if [[ -n $ko ]]; then
	ko=$(realpath -e "$ko")
	[[ $ko == "$repo"/* ]] || die "$ko is not below the repository"
	ko=/run/agg/repo/${ko#"$repo"/}
fi

# The smallest initramfs that can mount 9p.
make_initramfs() {
	local dir=$scratch/initramfs mod file name
	mkdir -p "$dir/bin" "$dir/modules"
	cp "$(command -v busybox)" "$dir/bin/busybox"
	cp "$here/init" "$dir/init"
	mkdir -p "$scratch/tree/lib/modules"
	ln -sfn "$moddir" "$scratch/tree/lib/modules/$krel"
	for mod in virtio_pci 9p 9pnet_virtio; do
		modprobe -d "$scratch/tree" -S "$krel" --show-depends "$mod"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' > "$scratch/modules"
	while read -r file; do
		name=$(basename "$file")
		case $name in
		*.xz) xz -dc "$file" > "$dir/modules/${name%.xz}" ;;
		*.zst) zstd -qdc "$file" > "$dir/modules/${name%.zst}" ;;
		*.gz) gzip -dc "$file" > "$dir/modules/${name%.gz}" ;;
		*) cp "$file" "$dir/modules/$name" ;;
		esac
		name=${name%.xz} name=${name%.zst} name=${name%.gz}
		echo "$name" >> "$dir/modules.list"
	done < "$scratch/modules"
	touch "$dir/modules.list"
	(cd "$dir" && find . | busybox cpio -o -H newc 2> /dev/null) | gzip -1 > "$scratch/initramfs.gz"
}
make_initramfs

# ----------------------------------------------------------------- boot

nic_args=()
# nic ROLE KIND INDEX SPEED: one virtio NIC; its peer is the same one of the other guest.
nic() {
	local id=$2$3 peer=b kind number guest=0a
	[[ $1 == a ]] || { peer=a; guest=0b; }
	case $2 in
	mgmt) kind=01 ;;
	lane) kind=02 ;;
	ctl) kind=03 ;;
	esac
	number=$(printf '%02x' "$3")
	if [[ $guests -eq 2 ]]; then
		nic_args+=(-netdev "dgram,id=$id,local.type=unix,local.path=$scratch/$id.$1,remote.type=unix,remote.path=$scratch/$id.$peer")
	else
		# A wire that ends in the air, with link.
		nic_args+=(-netdev "hubport,id=$id,hubid=$((16#$kind * 256 + $3))")
	fi
	# romfile= : no network boot; the speed makes the link's speed known.
	nic_args+=(-device "virtio-net-pci,netdev=$id,mac=52:54:00:$guest:$kind:$number,romfile=,host_mtu=9000,speed=$4,duplex=full")
}

# The user space of other distributions, for tests that mount it (lib.sh: root_up).
roots=() root_args=()
for name in trixie sid; do
	dir=$("$here/../roots.sh" have "$name") || continue
	roots+=("$name")
	root_args+=(-fsdev "local,id=$name,path=$dir,security_model=none,multidevs=remap,readonly=on"
		-device "virtio-9p-pci,fsdev=$name,mount_tag=$name")
done

share() {	# share ID PATH [readonly]
	echo -fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap${3:+,readonly=on}" \
		-device "virtio-9p-pci,fsdev=$1,mount_tag=$1"
}

# Features that cost an emulator most and that nothing here tests: 5-level page
# tables, vector registers beyond SSE with their state, protection keys.
cpu=${AGG_CPU:-max,la57=off,pku=off,xsave=off,avx=off,avx2=off}

# start_guest ROLE: sets $pid.
start_guest() {
	local role=$1 dir=$boot_out/$1 i accel=(-accel "tcg,thread=multi") speed
	mkdir -p "$dir"
	# /proc/kallsyms of a slow kernel is very slow.
	[[ ! -e $kdir/System.map ]] || cp "$kdir/System.map" "$dir"
	cat > "$dir/env" <<-ENV
		AGG_ROLE=$role AGG_GUESTS=$guests AGG_LANES=$lanes AGG_RATE=$rate AGG_MTU=$mtu
		AGG_KO=$ko AGG_ICOUNT=${icount:-0} AGG_TIMEOUT=$test_timeout AGG_CLOCK=$(date +%s)
		AGG_ROOTS="${roots[*]}"
	ENV
	if [[ -n $icount ]]; then
		accel=(-accel "tcg,thread=single" -icount "shift=1,sleep=off")
	elif [[ -n ${AGG_KVM:-} ]]; then
		accel=(-accel kvm)
	fi
	# The lanes' announced speed follows the rate, as a real port's would.
	speed=1000
	nic_args=()
	nic "$role" mgmt 0 1000
	for ((i = 0; i < lanes; i++)); do
		nic "$role" lane "$i" "$speed"
	done
	[[ $guests -eq 1 ]] || nic "$role" ctl 0 1000
	# shellcheck disable=SC2046 # words of share are wanted apart
	# Also when this shell is killed hard its guests go.
	setpriv --pdeathsig TERM timeout -k 5 "$timeout" "${qemu[@]}" -M q35 -cpu "$cpu" "${accel[@]}" \
		-smp "$smp" -m "$mem" -nodefaults -no-user-config -display none -no-reboot \
		-serial "file:$dir/console" \
		-kernel "$vmlinuz" -initrd "$scratch/initramfs.gz" \
		-append "console=ttyS0 loglevel=5 panic=-1 nokaslr mitigations=off init_on_alloc=0 random.trust_cpu=on apparmor=0 rcupdate.rcu_cpu_stall_timeout=120 net.ifnames=0 no_timer_check $panic $append" \
		$(share rootfs "$root" ro) $(share repo "$repo" ro) \
		$(share mods "$moddir" ro) $(share out "$dir") \
		"${root_args[@]}" -device virtio-rng-pci "${nic_args[@]}" > "$dir/qemu.log" 2>&1 < /dev/null &
	pid=$!
	pids+=("$pid")
}

# Why a guest died, from its console.
death_reason() {
	local dir why
	for dir in "$boot_out/a" "$boot_out/b"; do
		[[ -e $dir/console && ! -e $dir/status ]] || continue
		why=$(tr -d '\r' < "$dir/console" | grep -aE 'Kernel panic|WARNING:|BUG:|Oops|guest init:|hangs in the kernel' | head -n 2 |
			sed 's/^\[ *[0-9.]*\] *//' | paste -sd '|' | sed 's/|/; /')
		[[ -z $why ]] || { echo "guest ${dir##*/}: $why"; return; }
	done
	for dir in "$boot_out/a" "$boot_out/b"; do
		[[ ! -s $dir/qemu.log ]] || { echo "QEMU: $(tail -n 1 "$dir/qemu.log")"; return; }
	done
	echo "no answer within $timeout s"
}

# Did the emulator break a guest?  QEMU before 9.1 (deps.sh gets a later one) can lose the flags register
# when a memory operand faults (it then holds leftovers of a computation).  A
# register dump with bits set that no processor ever sets (31..22) proves it.
emulator_fault() {
	local flags
	cat "$boot_out"/[ab]/console 2> /dev/null | grep -aoE 'EFLAGS: [0-9a-f]{8}' |
		while read -r _ flags; do
			if (((16#$flags & 16#ffc00000) != 0)); then
				echo "$flags"
				break
			fi
		done | grep -q .
}

# boot: one boot with what is in $boot_out/a; returns 0 when guest A ended by itself.
boot() {
	local pid a b='' follow show=() first
	pids=()
	: > "$boot_out/a/progress"
	[[ $guests -eq 1 ]] || { start_guest b; b=$pid; }
	start_guest a
	a=$pid
	tail -qf --pid="$a" -n +1 "$boot_out/a/progress" & follow=$!
	if [[ -n $verbose ]]; then
		: >> "$boot_out/a/console"
		tail -qf --pid="$a" -n +1 "$boot_out/a/console" & show=($!)
	fi
	wait -n -p first "$a" ${b:+"$b"} || true
	if [[ $first == "$b" && ! -e $boot_out/b/status ]]; then
		# Guest B died under A's hands.
		kill "$a" 2> /dev/null || true
	fi
	wait "$a" || true
	if [[ -n $b ]]; then
		if [[ -e $boot_out/a/status ]]; then
			for ((i = 0; i < 100; i++)); do
				kill -0 "$b" 2> /dev/null || break
				sleep 0.2
			done
		fi
		kill "$b" 2> /dev/null || true
		wait "$b" 2> /dev/null || true
	fi
	wait "$follow" "${show[@]}" 2> /dev/null || true
	pids=()
	[[ -e $boot_out/a/status ]] && [[ $guests -eq 1 || -e $boot_out/b/status ]]
}

say_where() {
	local dir
	echo "# logs: $out (per guest: console, dmesg, one log per test)"
	for dir in "$boot_out/a" "$boot_out/b"; do
		[[ -e $dir/console && ! -e $dir/status ]] || continue
		echo "# console of guest ${dir##*/}:"
		# From the first complaint on, or else the end.
		tr -d '\r' < "$dir/console" | awk -v max="${AGG_CONSOLE_LINES:-60}" '
			!from && /hangs in the kernel|WARNING:|BUG:|Oops|Kernel panic|INFO: task/ { from = NR }
			{ line[NR] = $0 }
			END {
				if (!from) from = NR > max ? NR - max + 1 : 1
				for (i = from; i <= NR && i < from + max; i++) print "    | " line[i]
			}'
	done
}

start=$SECONDS
if [[ ${#tests[@]} -eq 0 ]]; then
	boot_out=$out
	mkdir -p "$out/a"
	printf '%s\n' "$cmd" > "$out/a/cmd"
	ended=''
	for ((try = 0; try < 3; try++)); do
		boot && { ended=1; break; }
		emulator_fault || break
		echo "# the emulator lost a guest's flags register: once more"
		rm -f "$out"/[ab]/status
		for dir in "$out"/[ab]; do
			mv "$dir/console" "$dir/console.$try"
		done
	done
	if [[ -n $ended ]]; then
		rc=$(< "$out/a/status")
	else
		echo "run.sh: $(death_reason)"
		say_where
		exit 2
	fi
	if [[ $rc -eq 0 && -n $made_out && -z $keep ]]; then
		rm -rf "$out"
	else
		echo "# logs: $out" >&2
	fi
	exit "$rc"
fi

left=("${tests[@]}")
: > "$out/results"
round=0 dead=0 emulator_faults=0
while [[ ${#left[@]} -gt 0 ]]; do
	round=$((round + 1))
	boot_out=$out/boot$round
	mkdir -p "$boot_out/a"
	printf '%s\n' "${left[@]}" > "$boot_out/a/tests"
	boot && ended=1 || ended=''
	done_now=0
	[[ ! -e $boot_out/a/results ]] || done_now=$(wc -l < "$boot_out/a/results")
	cat "$boot_out/a/results" >> "$out/results" 2> /dev/null || true
	left=("${left[@]:done_now}")
	if [[ -n $ended ]]; then
		[[ ${#left[@]} -eq 0 ]] || die "guest A left tests out"
		break
	fi
	if [[ ${#left[@]} -gt 0 && $emulator_faults -lt 5 ]] && emulator_fault; then
		emulator_faults=$((emulator_faults + 1))
		echo "# the emulator lost a guest's flags register: $(basename "${left[0]}") once more"
		continue
	fi
	reason=$(death_reason)
	say_where
	if [[ ${#left[@]} -eq 0 ]]; then
		# After the last test: all the same a failure.
		echo "not ok shutdown: $reason"
		echo "not shutdown 0 $reason" >> "$out/results"
		break
	fi
	name=$(basename "${left[0]}" .sh)
	echo "not ok $name: $reason"
	echo "not $name 0 $reason" >> "$out/results"
	# Nothing ran at all, twice: there is no point in booting on.
	[[ $done_now -gt 0 ]] && dead=0 || dead=$((dead + 1))
	if [[ $dead -ge 2 && ! -s $boot_out/a/progress ]]; then
		for name in "${left[@]:1}"; do
			echo "not $(basename "$name" .sh) 0 the guest does not boot" >> "$out/results"
		done
		break
	fi
	left=("${left[@]:1}")
done

passed=$(grep -c '^ok ' "$out/results" || true)
failed=$(grep -c '^not ' "$out/results" || true)
skipped=$(grep -c '^skip ' "$out/results" || true)
echo "# kernel $krel, $guests guest(s), $((SECONDS - start)) s"
if [[ $failed -gt 0 ]]; then
	echo "# logs: $out"
elif [[ -n $made_out && -z $keep ]]; then
	rm -rf "$out"
fi
if [[ $skipped -gt 0 ]]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[[ $failed -eq 0 ]]
