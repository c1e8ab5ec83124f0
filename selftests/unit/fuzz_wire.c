// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Fuzz target for the codec of the session (kmod/wire.c).
 *
 *	make fuzz		runs it for a minute; needs clang
 *
 * The input is a stream as it comes from TCP. Each message found in it is
 * given to every decoder, whatever its type says, in a block of memory of
 * exactly its length, so that ASan sees a read beyond it. What a decoder
 * accepts must be encodable, and encoding what the encoding decodes to must
 * give the same bytes.
 *
 * wire_test.c includes this file and runs it over the corpus and over mutations
 * of it, so that a plain `make check` does some of it without clang.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef WIRE_TEST
#include "wire.c"
#endif

static void fuzz_die(const char *what)
{
	fprintf(stderr, "fuzz_wire: %s\n", what);
	abort();
}

/* Decode @msg as @name into @m; encode; decode; encode again: the same? */
#define FUZZ_ONE(name, m, ...)							\
	do {									\
		u8 one[AGG_WIRE_MAX_LEN], two[AGG_WIRE_MAX_LEN];		\
		typeof(m) *p = &(m);						\
		int len1, len2;							\
										\
		memset(p, 0xa5, sizeof(*p));					\
		if (agg_wire_get_##name(msg, len, p))				\
			break;							\
		len1 = agg_wire_put_##name(one, sizeof(one), ##__VA_ARGS__, p);	\
		if (len1 < 0)							\
			fuzz_die(#name ": what was decoded cannot be encoded");	\
		memset(p, 0x5a, sizeof(*p));					\
		if (agg_wire_get_##name(one, len1, p))				\
			fuzz_die(#name ": what was encoded cannot be decoded");	\
		len2 = agg_wire_put_##name(two, sizeof(two), ##__VA_ARGS__, p);	\
		if (len1 != len2 || memcmp(one, two, len1))			\
			fuzz_die(#name ": not stable");				\
	} while (0)

static void fuzz_msg(const u8 *msg, size_t len)
{
	union {
		struct agg_wire_hello hello;
		struct agg_wire_lanes lanes;
		struct agg_wire_challenge challenge;
		struct agg_wire_auth auth;
		struct agg_wire_error error;
		struct agg_wire_attach attach;
		struct agg_wire_key key;
		struct agg_wire_key_gone key_gone;
	} m;

	FUZZ_ONE(hello, m.hello, 0, 1);
	FUZZ_ONE(lanes, m.lanes);
	FUZZ_ONE(challenge, m.challenge, 1);
	FUZZ_ONE(auth, m.auth, 0, 1);
	FUZZ_ONE(error, m.error, 1);
	FUZZ_ONE(attach, m.attach, AGG_WIRE_ATTACH, 0, 1);
	FUZZ_ONE(key, m.key, 0, 1);
	FUZZ_ONE(key_gone, m.key_gone);
}

/* The name that libFuzzer calls. */
int fuzz_one_input(const u8 *data, size_t size) __asm__("LLVMFuzzerTestOneInput");

int fuzz_one_input(const u8 *data, size_t size)
{
	struct agg_wire_hdr hdr;
	size_t pos = 0;
	u8 *rest, *msg;
	int len;

	while (pos < size) {
		rest = malloc(size - pos);
		if (!rest)
			abort();
		memcpy(rest, data + pos, size - pos);
		len = agg_wire_frame(rest, size - pos, &hdr);
		free(rest);
		if (len <= 0)
			break;
		if ((size_t)len > size - pos || len < AGG_WIRE_HDR_LEN || len > AGG_WIRE_MAX_LEN ||
		    hdr.len != len)
			fuzz_die("frame: impossible length");

		msg = malloc(len);
		if (!msg)
			abort();
		memcpy(msg, data + pos, len);
		fuzz_msg(msg, len);
		free(msg);
		pos += len;
	}
	return 0;
}
