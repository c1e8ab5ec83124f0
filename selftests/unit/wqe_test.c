// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Elements of the rings (kmod/wqe.c): what a request comes to, and that no
 * content of an element does harm.
 *
 *	wqe_test --corpus DIR	writes the seeds of the fuzz target
 */
#include <stddef.h>

#include "fuzz_wqe.c"
#include "corpus.h"
#include "tap.h"

static const u32 opcodes[] = {
	IB_UVERBS_WR_RDMA_WRITE, IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, IB_UVERBS_WR_SEND,
	IB_UVERBS_WR_SEND_WITH_IMM, IB_UVERBS_WR_RDMA_READ, IB_UVERBS_WR_ATOMIC_CMP_AND_SWP,
	IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD,
};

static const struct agg_wqe_limits lim = {
	.max_sge = 4, .max_inline = 64, .max_msg = 0x800000, .atomics = true,
};

/* One element with room for its four scatter elements, and what comes of it. */
static union {
	struct rxe_send_wqe wqe;
	u8 bytes[sizeof(struct rxe_send_wqe) + 64];
} elem;

static struct fuzz_wqe got;

static enum agg_wqe_verdict take(void)
{
	fuzz_scribble = false;
	fuzz_take(false, elem.bytes, sizeof(elem.bytes), &lim, &got);
	return got.verdict;
}

static void fill(void *p, size_t n)
{
	u8 *b = p;

	while (n--)
		*b++ = tap_rand();
}

/* A good request: @num scatter elements of @len bytes each. */
static void good(u32 opcode, u32 flags, u32 num, u32 len)
{
	memset(&elem, 0, sizeof(elem));
	elem.wqe.wr.wr_id = tap_rand();
	elem.wqe.wr.opcode = opcode;
	elem.wqe.wr.send_flags = flags;
	elem.wqe.wr.wr.atomic.remote_addr = tap_rand() & ~7ULL;
	elem.wqe.dma.num_sge = num;
	elem.wqe.dma.length = num * len;
	for (u32 i = 0; i < num; i++)
		elem.wqe.dma.sge[i] = (struct rxe_sge){ tap_rand(), len, tap_rand() };
}

/* ---- Single rules ---- */

TEST(opcodes)
{
	for (u32 op = 0; op < 1000; op++) {
		bool known = false;

		for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++)
			known |= opcodes[i] == op;
		good(op, 0, 1, 8);
		CHECK(take() == (known ? AGG_WQE_OK : AGG_WQE_BAD), "opcode %u", op);
		elem.wqe.wr.opcode = op | 1U << (8 + tap_rand() % 24);
		if (elem.wqe.wr.opcode != op)
			CHECK(take() == AGG_WQE_BAD, "opcode %u", elem.wqe.wr.opcode);
	}
}

TEST(flags)
{
	for (int bit = 0; bit < 32; bit++) {
		good(IB_UVERBS_WR_SEND, 1U << bit, 1, 8);
		CHECK(take() == (bit < 5 ? AGG_WQE_OK : AGG_WQE_BAD), "bit %d", bit);
	}
}

TEST(sges_without_the_empty)
{
	struct rxe_sge *sge = elem.wqe.dma.sge;

	good(IB_UVERBS_WR_RDMA_WRITE, 0, 4, 100);
	sge[0].length = 0;
	sge[2].length = 0;
	CHECK(take() == AGG_WQE_OK, "%d", got.verdict);
	CHECK(got.send.dma.num_sge == 2 && got.send.dma.length == 200, "%u %u",
	      got.send.dma.num_sge, got.send.dma.length);
	CHECK(!memcmp(&got.sge[0], &sge[1], sizeof(*sge)), "first");
	CHECK(!memcmp(&got.sge[1], &sge[3], sizeof(*sge)), "second");
	elem.wqe.dma.num_sge = 5;
	CHECK(take() == AGG_WQE_BAD, "more than there is room for");
	elem.wqe.dma.num_sge = U32_MAX;
	CHECK(take() == AGG_WQE_BAD, "more than there is room for");
}

TEST(inline_data)
{
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		bool out = !agg_opcode_reads(opcodes[i]);

		for (u32 len = 0; len <= 70; len++) {
			good(opcodes[i], AGG_WQE_INLINE, 0, 0);
			fill(elem.wqe.dma.inline_data, 64);
			elem.wqe.dma.length = len;
			/* Of no meaning here. */
			elem.wqe.dma.num_sge = tap_rand();
			CHECK(take() == (out && len <= 64 ? AGG_WQE_OK : AGG_WQE_BAD),
			      "opcode %u, %u bytes", opcodes[i], len);
			if (got.verdict == AGG_WQE_OK)
				CHECK(!memcmp(got.data, elem.wqe.dma.inline_data, len), "%u", len);
		}
	}
}

TEST(lengths)
{
	u64 max = lim.max_msg;

	for (size_t i = 0; i < 5; i++) {
		good(opcodes[i], 0, 1, max);
		CHECK(take() == AGG_WQE_OK && got.send.dma.length == max, "opcode %u", opcodes[i]);
		good(opcodes[i], 0, 1, max + 1);
		CHECK(take() == AGG_WQE_LENGTH, "opcode %u", opcodes[i]);
		/* Sums that 32 bits do not hold. */
		good(opcodes[i], 0, 4, 1U << 30);
		CHECK(take() == AGG_WQE_LENGTH, "opcode %u", opcodes[i]);
		good(opcodes[i], 0, 4, U32_MAX);
		CHECK(take() == AGG_WQE_LENGTH, "opcode %u", opcodes[i]);
	}
}

TEST(atomics)
{
	for (size_t i = 5; i < ARRAY_SIZE(opcodes); i++) {
		for (u32 len = 0; len < 20; len++) {
			good(opcodes[i], 0, 1, len);
			CHECK(take() == (len == 8 ? AGG_WQE_OK : AGG_WQE_LENGTH), "%u bytes", len);
		}
		for (u32 off = 0; off < 16; off++) {
			good(opcodes[i], 0, 2, 4);
			elem.wqe.wr.wr.atomic.remote_addr += off;
			CHECK(take() == (off % 8 ? AGG_WQE_ALIGN : AGG_WQE_OK), "offset %u", off);
		}
	}
}

TEST(receive_is_cut)
{
	struct agg_wqe_limits l = { .max_sge = 3, .max_msg = 1000 };
	struct rxe_recv_wqe *e = (void *)elem.bytes;

	memset(&elem, 0, sizeof(elem));
	e->wr_id = 77;
	e->dma.num_sge = 3;
	e->dma.sge[0].length = 600;
	e->dma.sge[1].length = U32_MAX;
	e->dma.sge[2].length = U32_MAX;
	fuzz_scribble = false;
	fuzz_take(true, elem.bytes, sizeof(*e) + 3 * sizeof(struct rxe_sge), &l, &got);
	CHECK(got.verdict == AGG_WQE_OK && got.recv.wr_id == 77, "%d", got.verdict);
	CHECK(got.recv.dma.num_sge == 2 && got.recv.dma.length == 1000, "%u %u",
	      got.recv.dma.num_sge, got.recv.dma.length);
	CHECK(got.sge[1].length == 400, "%u", got.sge[1].length);
}

/* ---- The fuzz target, a little ---- */

enum { SEEDS = 24, SEED_LEN = sizeof(struct fuzz_wqe_head) + sizeof(struct rxe_send_wqe) + 512 };

static size_t seed(int i, u8 *p)
{
	struct fuzz_wqe_head head = { .max_sge = 4, .max_inline = 64, .atomics = 1 };
	size_t n = sizeof(elem.bytes);

	if (i >= SEEDS)
		return 0;
	if (i < 7) {
		good(opcodes[i], AGG_WQE_SIGNALED, 1, 8);
	} else if (i < 11) {
		good(opcodes[i - 7], AGG_WQE_INLINE | AGG_WQE_FENCE, 0, 0);
		elem.wqe.dma.length = 60;
		fill(elem.wqe.dma.inline_data, 60);
	} else if (i < 16) {
		good(opcodes[i - 11], AGG_WQE_SOLICITED, 4, 0x200000);
		head.max_msg = i - 11;
	} else if (i < 18) {
		good(IB_UVERBS_WR_BIND_MW + i, 0, 2, 8);
	} else if (i < 20) {
		good(opcodes[5], 0, i - 17, 4);
		head.atomics = i - 18;
		elem.wqe.wr.wr.atomic.remote_addr |= 1;
	} else {
		struct rxe_recv_wqe *e = (void *)elem.bytes;

		memset(&elem, 0, sizeof(elem));
		head.recv = 1;
		head.max_sge = i - 19;
		head.max_msg = i - 20;
		e->wr_id = tap_rand();
		e->dma.num_sge = i - 19;
		for (u32 k = 0; k < e->dma.num_sge; k++)
			e->dma.sge[k] = (struct rxe_sge){ tap_rand(), k * 0x300000, tap_rand() };
		n = sizeof(*e) + 4 * sizeof(struct rxe_sge);
	}
	memcpy(p, &head, sizeof(head));
	memcpy(p + sizeof(head), elem.bytes, n);
	return sizeof(head) + n;
}

static int write_corpus(const char *dir)
{
	u8 buf[SEED_LEN];
	char path[4200];
	size_t len;
	FILE *f;

	for (int i = 0; (len = seed(i, buf)); i++) {
		snprintf(path, sizeof(path), "%s/seed%02d", dir, i);
		f = fopen(path, "wb");
		if (!f || fwrite(buf, 1, len, f) != len || fclose(f)) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

/* Words that mean something where they land, and any. */
static void mutate(u8 *p, size_t len)
{
	static const u32 words[] = {
		0, 1, 4, 5, 7, 8, 32, 33, 64, 65, 512, 0x7fffff, 0x800000, 0x800001, 0x7fffffff,
		0x80000000, 0xfffffff8, 0xffffffff,
	};
	/* Where a word decides something, for both kinds. */
	static const size_t at[] = {
		offsetof(struct rxe_send_wqe, wr.opcode),
		offsetof(struct rxe_send_wqe, wr.send_flags),
		offsetof(struct rxe_send_wqe, dma.length),
		offsetof(struct rxe_send_wqe, dma.num_sge),
		offsetof(struct rxe_send_wqe, dma.sge[0].length),
		offsetof(struct rxe_send_wqe, dma.sge[2].length),
		offsetof(struct rxe_send_wqe, wr.wr.atomic.remote_addr),
		offsetof(struct rxe_recv_wqe, dma.num_sge),
		offsetof(struct rxe_recv_wqe, dma.sge[1].length),
	};
	int n = 1 + tap_rand() % 4;
	u32 word;

	while (n--) {
		size_t pos = sizeof(struct fuzz_wqe_head) + at[tap_rand() % ARRAY_SIZE(at)];

		word = tap_rand() % 4 ? words[tap_rand() % ARRAY_SIZE(words)] : tap_rand();
		if (tap_rand() % 3 && pos + sizeof(word) <= len)
			memcpy(p + pos, &word, sizeof(word));
		else
			p[tap_rand() % len] = tap_rand();
	}
}

TEST(fuzz_seeds)
{
	static u8 one[SEED_LEN], buf[SEED_LEN];
	size_t len;

	for (int i = 0; (len = seed(i, buf)); i++) {
		fuzz_wqe_input(buf, len);
		for (int j = 0; j < 20000; j++) {
			memcpy(one, buf, len);
			mutate(one, len);
			fuzz_wqe_input(one, len);
		}
	}
}

TEST(fuzz_corpus)
{
	corpus_run("wqe", fuzz_wqe_input, SEEDS);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--corpus"))
		return write_corpus(argv[2]);

	RUN(opcodes);
	RUN(flags);
	RUN(sges_without_the_empty);
	RUN(inline_data);
	RUN(lengths);
	RUN(atomics);
	RUN(receive_is_cut);
	RUN(fuzz_seeds);
	RUN(fuzz_corpus);
	return tap_end();
}
