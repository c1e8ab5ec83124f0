/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What failover.c and move.c share. All of it under qp->mutex.
 */
#ifndef AGG_FAILOVER_H
#define AGG_FAILOVER_H

#include "agg.h"

void agg_fo_queue(struct agg_qp *qp, unsigned int ms);
bool agg_fo_mark(struct agg_qp *qp, enum agg_cause cause);
void agg_fo_quiesce(struct agg_qp *qp);
int agg_fo_call(struct agg_qp *qp, struct agg_wire_attach *req, struct agg_wire_attach *resp);
u8 agg_fo_refusal(enum agg_fence_verdict verdict);
bool agg_fo_is_for(const struct agg_qp *qp, const struct agg_wire_attach *req);

int agg_move_step(struct agg_qp *qp);
void agg_move_stop(struct agg_qp *qp);
void agg_move_done(struct agg_qp *qp);

#endif /* AGG_FAILOVER_H */
