/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SELFTESTS_RAWRING_H
#define SELFTESTS_RAWRING_H

#include "rawuv.h"

#define MEM_LEN		65536
#define ALL_ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define NR_WILD		26

extern const uint32_t wild[NR_WILD];
extern uint8_t *mem;		/* registered */
extern struct rmr mr;
extern uint64_t rng;
extern const char *dev_name;

void must(int err, const char *what);
void pair(struct rdev *d, struct rqp *a, struct rqp *b);
unsigned int kick(struct rdev *d, struct rqp *qp, unsigned int ms, uint64_t *ids);
void works(struct rdev *d);

/* rawring_map.c: what can be done to mappings, files and handles */
void case_mmap(struct rdev *d);
void case_unmap(struct rdev *d);
void case_move(struct rdev *d);
void case_protect(struct rdev *d);
void case_fork(struct rdev *d);
void case_advice(struct rdev *d);
void case_command(struct rdev *d);
void case_state(struct rdev *d);

#endif
