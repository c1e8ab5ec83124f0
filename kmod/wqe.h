/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Elements of the rings that applications write: pure, see hash.h.
 *
 * An element is hostile, and its owner can change it at any moment. Each part
 * of it is copied once and only the copy is looked at.
 */
#ifndef AGG_WQE_H
#define AGG_WQE_H

#include <linux/types.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>

/* rxe_send_wr.send_flags; the values are those of enum ib_send_flags */
#define AGG_WQE_FENCE		0x01
#define AGG_WQE_SIGNALED	0x02
#define AGG_WQE_SOLICITED	0x04
#define AGG_WQE_INLINE		0x08
#define AGG_WQE_IP_CSUM		0x10
#define AGG_WQE_FLAGS		0x1f

/**
 * struct agg_wqe_limits - what an element may ask for
 * @max_sge: scatter elements that the ring's elements have room for
 * @max_inline: bytes of inline data that they have room for
 * @max_msg: bytes of a message
 * @atomics: the device has atomics
 */
struct agg_wqe_limits {
	u32 max_sge;
	u32 max_inline;
	u32 max_msg;
	bool atomics;
};

/**
 * enum agg_wqe_verdict - what is wrong with an element
 * @AGG_WQE_OK: nothing
 * @AGG_WQE_BAD: no operation of this device, or not with these arguments
 * @AGG_WQE_LENGTH: too long for a message, or not 8 bytes for an atomic
 * @AGG_WQE_ALIGN: an atomic on an address that is no multiple of 8
 */
enum agg_wqe_verdict {
	AGG_WQE_OK,
	AGG_WQE_BAD,
	AGG_WQE_LENGTH,
	AGG_WQE_ALIGN,
};

/* Does the request bring something back? */
static inline bool agg_opcode_reads(u32 opcode)
{
	return opcode == IB_UVERBS_WR_RDMA_READ ||
	       opcode == IB_UVERBS_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD;
}

/* ... that a second execution would change? */
static inline bool agg_opcode_atomic(u32 opcode)
{
	return opcode == IB_UVERBS_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD;
}

/* Does it meet a receive of the peer? */
static inline bool agg_opcode_takes_receive(u32 opcode)
{
	return opcode == IB_UVERBS_WR_SEND || opcode == IB_UVERBS_WR_SEND_WITH_IMM ||
	       opcode == IB_UVERBS_WR_RDMA_WRITE_WITH_IMM;
}

enum agg_wqe_verdict agg_wqe_get_send(const struct rxe_send_wqe *elem,
				      const struct agg_wqe_limits *lim, struct rxe_send_wqe *wqe,
				      struct rxe_sge *sge, u8 *data);
enum agg_wqe_verdict agg_wqe_get_recv(const struct rxe_recv_wqe *elem,
				      const struct agg_wqe_limits *lim, struct rxe_recv_wqe *wqe,
				      struct rxe_sge *sge);

#endif /* AGG_WQE_H */
