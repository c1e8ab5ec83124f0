# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The C programs of the behaviour tests.  Included by selftests/Makefile;
# OUT is the folder of the binaries.

OUT ?= ../build/selftests
PROGS := verify qpstate session_rtr trap rawring failnth fuzz_nl fuzz_ring fuzz_uverbs
PROG_CFLAGS := -std=gnu11 -O2 -g -Wall -Wextra -Wno-missing-field-initializers
PROG_LIBS := -libverbs -lpthread

progs: $(PROGS:%=$(OUT)/%)

$(OUT)/verify: verify_plan.c verify_send.c verify_recv.c verify.h verify_end.h
$(OUT)/qpstate: qpstate_err.c qpstate_cq.c qpstate.h
$(OUT)/rawring: rawring_map.c rawuv.c rawring.h rawuv.h
$(OUT)/fuzz_nl: fuzz.c fuzz.h
$(OUT)/fuzz_ring $(OUT)/fuzz_uverbs: fuzz.c fuzz.h rawuv.c rawuv.h
$(OUT)/failnth: failnth_ops.c failnth_nl.c failnth.h ../include/uapi/rdma/rdma_agg.h
$(OUT)/failnth: PROG_LIBS += -lmnl
$(PROGS:%=$(OUT)/%): $(OUT)/%: %.c common.c common.h
	@mkdir -p $(OUT)
	$(CC) $(PROG_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) $(LDFLAGS) $(PROG_LIBS)

.PHONY: progs
