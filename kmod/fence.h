/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What one end of an RC QP pair knows about a failed path, and what may follow
 * from it: pure, see hash.h. The rules are those of Documentation/failover.rst;
 * their numbers stand where each is kept.
 */
#ifndef AGG_FENCE_H
#define AGG_FENCE_H

#include <linux/types.h>

#define AGG_PSN_MASK	0xffffff

/*
 * Most packets a QP has under way. Half of the PSN space would do for telling
 * old from new; a quarter leaves room for what the lane repeats.
 */
#define AGG_PSN_WINDOW	0x400000U

/**
 * struct agg_frozen - what a lane QP had done as responder when it was quiet
 * @epoch: of the lane QP pair
 * @psn: packets executed, modulo 2^24: its expected PSN less its first one
 * @recvs: receives it completed
 */
struct agg_frozen {
	u32 epoch;
	u32 psn;
	u32 recvs;
};

/**
 * enum agg_fence_state - of one end
 * @AGG_FENCE_NONE: no pair yet
 * @AGG_FENCE_LIVE: the pair of the newest epoch is attached
 * @AGG_FENCE_QUIET: that pair has failed here and is quiet; our state is frozen
 * @AGG_FENCE_KNOWN: the peer's frozen state is known as well
 * @AGG_FENCE_OFFERED: leader: the next pair is offered and not answered yet
 * @AGG_FENCE_OVER: the peer will not attach again
 */
enum agg_fence_state {
	AGG_FENCE_NONE,
	AGG_FENCE_LIVE,
	AGG_FENCE_QUIET,
	AGG_FENCE_KNOWN,
	AGG_FENCE_OFFERED,
	AGG_FENCE_OVER,
};

/**
 * struct agg_fence - one end
 * @state: see there
 * @leader: this end offers the next pair (rule 12)
 * @epoch: the newest this end has used, given up ones included
 * @refused: the newest it has refused; none up to it is ever accepted
 * @move_refused: follower: the newest attempt to move from @epoch that it refused
 * @own: our frozen state, in QUIET, KNOWN, OFFERED and OVER
 * @peer: the peer's, from KNOWN on
 */
struct agg_fence {
	enum agg_fence_state state;
	bool leader;
	u32 epoch;
	u32 refused;
	u32 move_refused;
	struct agg_frozen own, peer;
};

/**
 * enum agg_fence_verdict - what to do with a message of the peer
 * @AGG_FENCE_ANSWER: answer from the stored state
 * @AGG_FENCE_DRAIN: make the lane QP quiet, then look again
 * @AGG_FENCE_TAKE: create our end of the offered pair
 * @AGG_FENCE_REPEAT: answer as before; create and reset nothing
 * @AGG_FENCE_REFUSE: the same no as before
 * @AGG_FENCE_STALE: it is about the past; touch nothing
 * @AGG_FENCE_BAD: no correct peer says this
 */
enum agg_fence_verdict {
	AGG_FENCE_ANSWER,
	AGG_FENCE_DRAIN,
	AGG_FENCE_TAKE,
	AGG_FENCE_REPEAT,
	AGG_FENCE_REFUSE,
	AGG_FENCE_STALE,
	AGG_FENCE_BAD,
};

/**
 * enum agg_fate - of a request that was under way when the path failed
 * @AGG_FATE_DONE: executed; success
 * @AGG_FATE_AGAIN: not executed, or its result is lost and can be had again
 * @AGG_FATE_LOST: executed, its result is lost for ever (atomics)
 */
enum agg_fate {
	AGG_FATE_DONE,
	AGG_FATE_AGAIN,
	AGG_FATE_LOST,
};

void agg_fence_init(struct agg_fence *f, bool leader, u32 epoch);
bool agg_fence_quiet(struct agg_fence *f, u32 psn, u32 recvs);
int agg_fence_learn(struct agg_fence *f, const struct agg_frozen *peer);
enum agg_fence_verdict agg_fence_asked(const struct agg_fence *f, u32 epoch);
bool agg_fence_offer(struct agg_fence *f);
void agg_fence_turned_down(struct agg_fence *f);
enum agg_fence_verdict agg_fence_offered(struct agg_fence *f, u32 epoch,
					 const struct agg_frozen *peer);
void agg_fence_refuse(struct agg_fence *f, u32 epoch);
enum agg_fence_verdict agg_fence_move(struct agg_fence *f, u32 epoch, u32 attempt, bool idle);
void agg_fence_attach(struct agg_fence *f, u32 epoch);

u32 agg_packets(u32 length, u32 mtu);
u32 agg_psn_expand(u32 known, u32 psn);
enum agg_fate agg_fate_of(bool executed, bool returns_data, bool atomic);

#endif /* AGG_FENCE_H */
