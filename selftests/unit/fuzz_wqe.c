// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Fuzz target for the elements of the rings (kmod/wqe.c).
 *
 *	make fuzz		runs it for a minute; needs clang
 *
 * The input is what the QP was made for (struct fuzz_wqe_head) and one element.
 * The element, the scatter list and the inline data lie in blocks of memory of
 * exactly their length, so that ASan sees an access beyond them. Each element
 * is taken three times:
 *
 *	as it lies there;
 *	from an application that turns over every byte as soon as it was copied,
 *	as nothing stops it from doing: the result must be the same;
 *	by a second parser, below, of the simplest kind.
 *
 * wqe_test.c includes this file and runs it over the corpus and over mutations
 * of it, so that a plain `make check` does some of it without clang.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fuzz_scribble;

/* In agg_wqe_copy(): what was copied is @len bytes at @from. */
#define barrier()	fuzz_barrier((unsigned char *)from, len)

static void fuzz_barrier(unsigned char *from, size_t len)
{
	__asm__ __volatile__("" : : : "memory");
	while (fuzz_scribble && len--)
		*from++ ^= 0xff;
}

#include "wqe.c"

#define FUZZ_SGE	32	/* most of anything: AGG_MAX_SGE, AGG_MAX_INLINE */

struct fuzz_wqe_head {
	u8 recv;		/* bit 0 */
	u8 max_sge;
	u16 max_inline;
	u8 max_msg;		/* index of fuzz_max_msg */
	u8 atomics;		/* bit 0 */
	u8 pad[2];
};

static const u32 fuzz_max_msg[] = { 0x800000, 0x80000000, 0x40000000, 4096, 0, U32_MAX };

/* All that comes of an element. */
struct fuzz_wqe {
	enum agg_wqe_verdict verdict;
	struct rxe_sge sge[FUZZ_SGE];
	u8 data[FUZZ_SGE * sizeof(struct rxe_sge)];
	union {
		struct rxe_send_wqe send;
		struct rxe_recv_wqe recv;
	};
};

static void fuzz_wqe_die(const char *what)
{
	fprintf(stderr, "fuzz_wqe: %s\n", what);
	abort();
}

static void *fuzz_alloc(size_t len, int c)
{
	void *p = malloc(len);

	if (!p)
		abort();
	return memset(p, c, len);
}

static void fuzz_take(bool recv, const u8 *elem, size_t size, const struct agg_wqe_limits *lim,
		      struct fuzz_wqe *out)
{
	struct rxe_sge *sge = fuzz_alloc(lim->max_sge * sizeof(*sge), 0xa5);
	u8 *data = fuzz_alloc(lim->max_inline, 0xa5);
	u8 *ring = fuzz_alloc(size, 0);

	memset(out, 0, sizeof(*out));
	memcpy(ring, elem, size);
	if (recv)
		out->verdict = agg_wqe_get_recv((void *)ring, lim, &out->recv, sge);
	else
		out->verdict = agg_wqe_get_send((void *)ring, lim, &out->send, sge, data);
	memcpy(out->sge, sge, lim->max_sge * sizeof(*sge));
	memcpy(out->data, data, lim->max_inline);
	free(ring);
	free(data);
	free(sge);
}

static bool fuzz_model_sges(const struct rxe_dma_info *dma, const struct agg_wqe_limits *lim,
			    bool cut, const struct rxe_dma_info *got, const struct rxe_sge *list,
			    u64 *total)
{
	u32 i, n = 0;
	u64 sum = 0;

	for (i = 0; i < dma->num_sge; i++) {
		struct rxe_sge sge = dma->sge[i];

		if (cut && sum + sge.length > lim->max_msg)
			sge.length = lim->max_msg - sum;
		sum += sge.length;
		if (!sge.length)
			continue;
		if (memcmp(&sge, &list[n++], sizeof(sge)))
			return false;
	}
	*total = sum;
	/* What is refused for its length needs no numbers. */
	return (!cut && sum > lim->max_msg) || (got->num_sge == n && got->length == sum);
}

/* Written anew from what the comments of wqe.c promise. */
static void fuzz_model_send(const struct rxe_send_wqe *e, const struct agg_wqe_limits *lim,
			    const struct fuzz_wqe *got)
{
	enum agg_wqe_verdict want = AGG_WQE_OK;
	u64 len = 0;

	if (got->send.wr.wr_id != e->wr.wr_id || got->send.wr.opcode != e->wr.opcode ||
	    got->send.wr.send_flags != e->wr.send_flags)
		fuzz_wqe_die("the words to complete it with");

	/* WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CMP_SWP, FETCH_ADD are 0 to 6 */
	if (e->wr.opcode > 6 || e->wr.send_flags >= 32 || (e->wr.opcode >= 5 && !lim->atomics)) {
		want = AGG_WQE_BAD;
	} else if (e->wr.send_flags & 8) {
		len = e->dma.length;
		if (e->wr.opcode >= 4 || len > lim->max_inline)
			want = AGG_WQE_BAD;
		else if (memcmp(got->data, e->dma.inline_data, len))
			fuzz_wqe_die("inline data");
		else if (len <= lim->max_msg && (got->send.dma.length != len ||
						 got->send.dma.num_sge))
			fuzz_wqe_die("inline length");
	} else if (e->dma.num_sge > lim->max_sge) {
		want = AGG_WQE_BAD;
	} else if (!fuzz_model_sges(&e->dma, lim, false, &got->send.dma, got->sge, &len)) {
		fuzz_wqe_die("scatter list");
	}
	if (want == AGG_WQE_OK && (len > lim->max_msg || (e->wr.opcode >= 5 && len != 8)))
		want = AGG_WQE_LENGTH;
	if (want == AGG_WQE_OK && e->wr.opcode >= 5 && e->wr.wr.atomic.remote_addr % 8)
		want = AGG_WQE_ALIGN;
	if (got->verdict != want)
		fuzz_wqe_die("verdict");
	if (want == AGG_WQE_OK && memcmp(&got->send.wr, &e->wr, sizeof(e->wr)))
		fuzz_wqe_die("request");
}

static void fuzz_model_recv(const struct rxe_recv_wqe *e, const struct agg_wqe_limits *lim,
			    const struct fuzz_wqe *got)
{
	u64 len;

	if (got->recv.wr_id != e->wr_id)
		fuzz_wqe_die("the id to complete it with");
	if (got->verdict != (e->dma.num_sge > lim->max_sge ? AGG_WQE_BAD : AGG_WQE_OK))
		fuzz_wqe_die("verdict");
	if (got->verdict == AGG_WQE_OK &&
	    !fuzz_model_sges(&e->dma, lim, true, &got->recv.dma, got->sge, &len))
		fuzz_wqe_die("scatter list");
}

/* The name that libFuzzer calls. */
int fuzz_wqe_input(const u8 *data, size_t size) __asm__("LLVMFuzzerTestOneInput");

int fuzz_wqe_input(const u8 *data, size_t size)
{
	static struct fuzz_wqe still, moving;
	struct fuzz_wqe_head head = { 0 };
	struct agg_wqe_limits lim;
	size_t room, bytes;
	u8 *elem;

	bytes = size < sizeof(head) ? size : sizeof(head);
	memcpy(&head, data, bytes);
	data += bytes;
	size -= bytes;

	/* As qp.c makes the rings. */
	lim.max_sge = head.max_sge % (FUZZ_SGE + 1);
	lim.max_inline = head.max_inline % (FUZZ_SGE * sizeof(struct rxe_sge) + 1);
	lim.max_msg = fuzz_max_msg[head.max_msg % ARRAY_SIZE(fuzz_max_msg)];
	lim.atomics = head.atomics & 1;
	room = max(lim.max_sge * sizeof(struct rxe_sge), (size_t)lim.max_inline);
	room += head.recv & 1 ? sizeof(struct rxe_recv_wqe) : sizeof(struct rxe_send_wqe);

	elem = fuzz_alloc(room, 0);
	memcpy(elem, data, size < room ? size : room);
	fuzz_scribble = false;
	fuzz_take(head.recv & 1, elem, room, &lim, &still);
	fuzz_scribble = true;
	fuzz_take(head.recv & 1, elem, room, &lim, &moving);
	if (memcmp(&still, &moving, sizeof(still)))
		fuzz_wqe_die("it looked twice");
	if (head.recv & 1)
		fuzz_model_recv((void *)elem, &lim, &still);
	else
		fuzz_model_send((void *)elem, &lim, &still);
	free(elem);
	return 0;
}
