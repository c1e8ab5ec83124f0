#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Breaks the rules of kmod/fence.c one at a time: fence_test must notice each.
# TAP, as the tests themselves. CC and the flags are the makefile's.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
src=$here/../../kmod/fence.c
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
nr=0 rc=0

# mutant NAME SED-EXPRESSION
mutant() {
	local name=$1 expression=$2
	nr=$((nr + 1))
	sed -E "$expression" "$src" > "$tmp/fence.c"
	if cmp -s "$src" "$tmp/fence.c"; then
		echo "not ok $nr mutant_$name # the expression changes nothing"
		rc=1
	elif ! ${CC:-cc} -std=gnu11 -w -O1 -I "$here/shim" -I "$here" -I "$here/../../kmod" \
		-DFENCE_C="\"$tmp/fence.c\"" -o "$tmp/test" "$here/fence_test.c"; then
		echo "not ok $nr mutant_$name # it does not build"
		rc=1
	elif timeout 60 "$tmp/test" > "$tmp/out" 2>&1; then
		echo "not ok $nr mutant_$name # nobody noticed"
		rc=1
	else
		echo "ok $nr mutant_$name"
	fi
}

mutant rule_3_read_again 's/\} else if \(f->state != AGG_FENCE_LIVE\) \{/} else if (f->state == AGG_FENCE_NONE) {/'
mutant rule_8_answer_while_live '0,/return AGG_FENCE_DRAIN;/s//return AGG_FENCE_ANSWER;/'
mutant rule_8_old_fence_stops_new_pair '0,/if \(epoch == f->epoch\)/s//if (1)/'
mutant rule_9_any_epoch 's/if \(peer->epoch != f->own.epoch\)/if (0)/'
mutant rule_10_not_executed_is_done 's/return AGG_FATE_AGAIN;$/return AGG_FATE_DONE;/'
mutant rule_10_executed_again 's/return returns_data \? AGG_FATE_AGAIN : AGG_FATE_DONE;/return AGG_FATE_AGAIN;/'
mutant rule_11_atomic_again 's/return AGG_FATE_LOST;/return AGG_FATE_AGAIN;/'
mutant rule_12_both_lead 's/ \|\| !f->leader//'
mutant rule_13_offer_unclassified 's/if \(f->state != AGG_FENCE_KNOWN/if (f->state == AGG_FENCE_NONE/'
mutant rule_14_unattached_counts 's/\tif \(f->state == AGG_FENCE_OFFERED\) \{/\tif (0) {/'
mutant rule_14_refused_may_come '/agg_newer\(epoch, f->refused\)\)$/,+1s/if \(!agg_newer\(epoch, f->refused\)\)/if (0)/'
mutant rule_15_repeat_makes_new 's/return AGG_FENCE_REPEAT;/return AGG_FENCE_TAKE;/'
mutant rule_15_late_offer 's/if \(!agg_newer\(epoch, f->own.epoch\)\)/if (0)/'
mutant rule_20_move_with_work 's/if \(idle\)$/if (1)/'
mutant rule_21_refused_may_come '/agg_newer\(attempt, f->move_refused\)\)$/s/!agg_newer.*$/0)/'
mutant psn_signed_comparison 's/0x800000 \? 0x1000000/0x400000 ? 0x1000000/'
mutant packets_of_nothing 's/return length <= mtu \? 1/return length <= mtu ? !!length/'
echo "1..$nr"
exit $rc
