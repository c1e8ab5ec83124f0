// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Taking an element out of a ring that an application writes: pure, see wqe.h.
 */
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "wqe.h"

/* The application may be writing it at this moment: no second look. */
static void agg_wqe_copy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	barrier();
}

/*
 * Copy a scatter list without its empty elements: 0 means 2^31 to some devices.
 * Each is cut to what @left leaves of it. Returns how many there are.
 */
static u32 agg_wqe_sges(struct rxe_sge *sge, const struct rxe_sge *elem, u32 num, u64 left,
			u64 *sum)
{
	u32 n = 0;
	u32 i;

	*sum = 0;
	for (i = 0; i < num; i++) {
		agg_wqe_copy(&sge[n], &elem[i], sizeof(*sge));
		if (sge[n].length > left - *sum)
			sge[n].length = left - *sum;
		if (!sge[n].length)
			continue;
		*sum += sge[n].length;
		n++;
	}
	return n;
}

/**
 * agg_wqe_get_send() - copy a send request out of a ring and check it
 * @elem: the element
 * @lim: what it may ask for; the ring's elements have the room
 * @wqe: filled; whatever the verdict is, wr.wr_id, wr.opcode and wr.send_flags
 *	are the application's, to complete the request with. If it is good,
 *	dma.length is its length and dma.num_sge the number of @sge
 * @sge: room for @lim->max_sge; filled with what is not empty. The keys are
 *	not looked at
 * @data: room for @lim->max_inline; filled if the data is inline
 *
 * Context: any. Return: see enum agg_wqe_verdict.
 */
enum agg_wqe_verdict agg_wqe_get_send(const struct rxe_send_wqe *elem,
				      const struct agg_wqe_limits *lim, struct rxe_send_wqe *wqe,
				      struct rxe_sge *sge, u8 *data)
{
	u64 length;

	agg_wqe_copy(wqe, elem, sizeof(*wqe));

	if (wqe->wr.send_flags & ~AGG_WQE_FLAGS)
		return AGG_WQE_BAD;

	switch (wqe->wr.opcode) {
	case IB_UVERBS_WR_SEND:
	case IB_UVERBS_WR_SEND_WITH_IMM:
	case IB_UVERBS_WR_RDMA_WRITE:
	case IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
	case IB_UVERBS_WR_RDMA_READ:
		break;
	case IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
	case IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		if (!lim->atomics)
			return AGG_WQE_BAD;
		break;
	default:
		/* FLUSH, ATOMIC_WRITE, BIND_MW and others carry keys we do not translate. */
		return AGG_WQE_BAD;
	}

	if (wqe->wr.send_flags & AGG_WQE_INLINE) {
		/* Only what carries data outwards can have it inline. */
		if (agg_opcode_reads(wqe->wr.opcode) || wqe->dma.length > lim->max_inline)
			return AGG_WQE_BAD;
		length = wqe->dma.length;
		agg_wqe_copy(data, elem->dma.inline_data, length);
		wqe->dma.num_sge = 0;
	} else {
		if (wqe->dma.num_sge > lim->max_sge)
			return AGG_WQE_BAD;
		wqe->dma.num_sge = agg_wqe_sges(sge, elem->dma.sge, wqe->dma.num_sge, U64_MAX,
						&length);
	}
	if (length > lim->max_msg)
		return AGG_WQE_LENGTH;
	wqe->dma.length = length;

	if (agg_opcode_atomic(wqe->wr.opcode)) {
		if (length != 8)
			return AGG_WQE_LENGTH;
		if (wqe->wr.wr.atomic.remote_addr & 7)
			return AGG_WQE_ALIGN;
	}
	return AGG_WQE_OK;
}

/**
 * agg_wqe_get_recv() - copy a receive out of a ring and check it
 * @elem: the element
 * @lim: what it may ask for; the ring's elements have the room
 * @wqe: filled; wr_id in any case. If it is good, dma.length is its length and
 *	dma.num_sge the number of @sge
 * @sge: room for @lim->max_sge; filled with what is not empty. No message fills
 *	more than @lim->max_msg, and soft-RoCE of 6.12 refuses to be offered it:
 *	it is cut to that
 *
 * Context: any. Return: see enum agg_wqe_verdict.
 */
enum agg_wqe_verdict agg_wqe_get_recv(const struct rxe_recv_wqe *elem,
				      const struct agg_wqe_limits *lim, struct rxe_recv_wqe *wqe,
				      struct rxe_sge *sge)
{
	u64 length;

	agg_wqe_copy(wqe, elem, sizeof(*wqe));
	if (wqe->dma.num_sge > lim->max_sge)
		return AGG_WQE_BAD;
	wqe->dma.num_sge = agg_wqe_sges(sge, elem->dma.sge, wqe->dma.num_sge, lim->max_msg,
					&length);
	wqe->dma.length = length;
	return AGG_WQE_OK;
}
