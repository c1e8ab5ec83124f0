// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fence.h"

/* Epochs only grow, by far less than 2^31. */
static bool agg_newer(u32 a, u32 b)
{
	return (s32)(a - b) > 0;
}

/**
 * agg_fence_init - the first pair is attached
 * @f: one end
 * @leader: it leads
 * @epoch: of the pair
 *
 * Context: any; like all of this file the caller serialises the calls.
 */
void agg_fence_init(struct agg_fence *f, bool leader, u32 epoch)
{
	*f = (struct agg_fence){
		.state = AGG_FENCE_LIVE,
		.leader = leader,
		.epoch = epoch,
		.refused = epoch,
	};
}

/**
 * agg_fence_quiet - our lane QP is quiet: freeze what it has done
 * @f: one end
 * @psn: packets it executed, modulo 2^24
 * @recvs: receives it completed
 *
 * Rule 3 says when a lane QP is quiet. Its state is read once and stored, and
 * never read again. An offered pair that was never attached counts as
 * "executed nothing" (rule 14).
 *
 * Context: any. Return: false if there was nothing to freeze.
 */
bool agg_fence_quiet(struct agg_fence *f, u32 psn, u32 recvs)
{
	if (f->state == AGG_FENCE_OFFERED) {
		psn = 0;
		recvs = 0;
	} else if (f->state != AGG_FENCE_LIVE) {
		return false;
	}
	f->own.epoch = f->epoch;
	f->own.psn = psn & AGG_PSN_MASK;
	f->own.recvs = recvs;
	f->state = AGG_FENCE_QUIET;
	return true;
}

/**
 * agg_fence_learn - the peer's frozen state has come, in whatever message
 * @f: one end
 * @peer: it
 *
 * Rule 9: it counts for the current epoch alone; and rule 10: only when we are
 * quiet ourselves.
 *
 * Context: any. Return: 1: now requests are to be classified by @f->peer;
 * 0: nothing new; -1: the peer contradicts itself.
 */
int agg_fence_learn(struct agg_fence *f, const struct agg_frozen *peer)
{
	switch (f->state) {
	case AGG_FENCE_QUIET:
		if (peer->epoch != f->own.epoch)
			return 0;
		f->peer = *peer;
		f->peer.psn &= AGG_PSN_MASK;
		f->state = AGG_FENCE_KNOWN;
		return 1;
	case AGG_FENCE_KNOWN:
	case AGG_FENCE_OFFERED:
		if (peer->epoch != f->own.epoch)
			return 0;
		return peer->psn == f->peer.psn && peer->recvs == f->peer.recvs ? 0 : -1;
	default:
		return 0;
	}
}

/**
 * agg_fence_asked - the peer's FENCE
 * @f: one end
 * @epoch: of the pair it is about
 *
 * Rule 8.
 *
 * Context: any. Return: DRAIN, ANSWER (with @f->own), STALE or BAD.
 */
enum agg_fence_verdict agg_fence_asked(const struct agg_fence *f, u32 epoch)
{
	switch (f->state) {
	case AGG_FENCE_LIVE:
		if (epoch == f->epoch)
			return AGG_FENCE_DRAIN;
		break;
	case AGG_FENCE_OFFERED:
		/* It has taken our offer, and the pair has failed already. */
		if (epoch == f->epoch)
			return AGG_FENCE_DRAIN;
		fallthrough;
	case AGG_FENCE_QUIET:
	case AGG_FENCE_KNOWN:
	case AGG_FENCE_OVER:
		if (epoch == f->own.epoch)
			return AGG_FENCE_ANSWER;
		break;
	default:
		return AGG_FENCE_BAD;
	}
	return agg_newer(epoch, f->epoch) ? AGG_FENCE_BAD : AGG_FENCE_STALE;
}

/**
 * agg_fence_offer - begin to offer the next pair
 * @f: one end
 *
 * Rules 1, 12 and 13. On success @f->epoch is the new pair's, and @f->own goes
 * with the offer. From now on the offer is repeated as it is until the peer
 * says something about it (rule 14).
 *
 * Context: any. Return: false if it is not for us, or too early.
 */
bool agg_fence_offer(struct agg_fence *f)
{
	if (f->state != AGG_FENCE_KNOWN || !f->leader)
		return false;
	f->epoch++;
	f->state = AGG_FENCE_OFFERED;
	return true;
}

/**
 * agg_fence_turned_down - the peer refuses our offer
 * @f: one end
 *
 * It will refuse this epoch for ever; the next offer has the next one.
 *
 * Context: any.
 */
void agg_fence_turned_down(struct agg_fence *f)
{
	if (f->state == AGG_FENCE_OFFERED)
		f->state = AGG_FENCE_KNOWN;
}

/**
 * agg_fence_offered - the leader's offer of the next pair
 * @f: one end
 * @epoch: of the offered pair
 * @peer: the leader's frozen state of the pair before
 *
 * Rule 15. The state that the offer carries is learned by the caller before it
 * does what TAKE says.
 *
 * Context: any. Return: TAKE, REPEAT, REFUSE, STALE or BAD.
 */
enum agg_fence_verdict agg_fence_offered(struct agg_fence *f, u32 epoch,
					 const struct agg_frozen *peer)
{
	if (f->leader)
		return AGG_FENCE_BAD;

	switch (f->state) {
	case AGG_FENCE_LIVE:
		if (epoch == f->epoch)
			return AGG_FENCE_REPEAT;
		return agg_newer(epoch, f->epoch) ? AGG_FENCE_BAD : AGG_FENCE_STALE;
	case AGG_FENCE_QUIET:
	case AGG_FENCE_KNOWN:
		if (!agg_newer(epoch, f->own.epoch))
			return AGG_FENCE_STALE;
		if (!agg_newer(epoch, f->refused))
			return AGG_FENCE_REFUSE;
		return peer->epoch == f->own.epoch ? AGG_FENCE_TAKE : AGG_FENCE_BAD;
	case AGG_FENCE_OVER:
		return AGG_FENCE_REFUSE;
	default:
		return AGG_FENCE_BAD;
	}
}

/**
 * agg_fence_refuse - we refuse an offer, for ever
 * @f: one end
 * @epoch: of the offer
 *
 * Context: any.
 */
void agg_fence_refuse(struct agg_fence *f, u32 epoch)
{
	if (agg_newer(epoch, f->refused))
		f->refused = epoch;
}

/**
 * agg_fence_attach - both ends of the next pair exist
 * @f: one end
 * @epoch: of the pair
 *
 * Context: any.
 */
void agg_fence_attach(struct agg_fence *f, u32 epoch)
{
	f->epoch = epoch;
	f->move_refused = 0;
	f->state = AGG_FENCE_LIVE;
}

/**
 * agg_fence_move - the leader, which has nothing outstanding, asks to move
 * @f: one end
 * @epoch: of the pair it wants to leave
 * @attempt: its number, from 1 for each pair
 * @idle: we have nothing outstanding, and post nothing
 *
 * Rules 20 and 21: an attempt that was refused once is refused for ever, or a
 * late repetition would find us quiet when the leader has long gone on.
 *
 * Context: any. Return: DRAIN, ANSWER (with @f->own), REFUSE, STALE or BAD.
 */
enum agg_fence_verdict agg_fence_move(struct agg_fence *f, u32 epoch, u32 attempt, bool idle)
{
	if (f->leader || f->state == AGG_FENCE_NONE || f->state == AGG_FENCE_OFFERED)
		return AGG_FENCE_BAD;
	if (epoch != (f->state == AGG_FENCE_LIVE ? f->epoch : f->own.epoch))
		return agg_newer(epoch, f->epoch) ? AGG_FENCE_BAD : AGG_FENCE_STALE;
	if (!agg_newer(attempt, f->move_refused))
		return AGG_FENCE_REFUSE;
	if (f->state != AGG_FENCE_LIVE)
		return AGG_FENCE_ANSWER;
	if (idle)
		return AGG_FENCE_DRAIN;
	f->move_refused = attempt;
	return AGG_FENCE_REFUSE;
}

/**
 * agg_packets - packets, and so PSNs, that a request takes
 * @length: bytes, of the answer for a READ
 * @mtu: bytes of a packet
 *
 * IBA 9.7.2, 9.7.5.1: a request of no bytes is one packet; a READ takes as
 * many PSNs as its answer has packets.
 *
 * Context: any. Return: the number, at least 1.
 */
u32 agg_packets(u32 length, u32 mtu)
{
	return length <= mtu ? 1 : (length - 1) / mtu + 1;
}

/**
 * agg_psn_expand - a packet count from its low 24 bits
 * @known: a count less than 2^23 away from it
 * @psn: the low 24 bits
 *
 * Context: any. Return: the count, modulo 2^32.
 */
u32 agg_psn_expand(u32 known, u32 psn)
{
	u32 diff = (psn - known) & AGG_PSN_MASK;

	return known + diff - (diff & 0x800000 ? 0x1000000 : 0);
}

/**
 * agg_fate_of - what becomes of a request after its path has failed
 * @executed: all its packets were executed by the responder
 * @returns_data: it reads
 * @atomic: what it reads cannot be read again
 *
 * Rules 10 and 11.
 *
 * Context: any.
 */
enum agg_fate agg_fate_of(bool executed, bool returns_data, bool atomic)
{
	if (!executed)
		return AGG_FATE_AGAIN;
	if (atomic)
		return AGG_FATE_LOST;
	return returns_data ? AGG_FATE_AGAIN : AGG_FATE_DONE;
}
