/* state_lists.h - the state that a trainer keeps between steps, as lists of named tensors: what a checkpoint
 * stores. */
#pragma once
#include "base/arena.h"
#include "ckpt/checkpoint.h"
#include "compile.h"
#include "execute/session.h"

/* Several ranks may store the same part of a tensor. This is the number of this rank among them
 * (ls_local_shard). */
typedef struct ls_copies {
    int copy, copies;
    unsigned sharded_by; /* tensors with equal `sharded_by` have their copies on the same ranks */
} ls_copies;

/* Lists of whole tensors, the same on every rank and in every layout, with the places of this rank's ranges
 * of them. `model` has the parameters in the order of the model, then the buffers. `optimizer` has
 * MOMENT.NAME for every parameter NAME, then the states of no parameter (step counter, loss scale). */
typedef struct ls_state_lists {
    ls_arena arena; /* owns the arrays and names */
    ls_tensor_list model, optimizer;
    /* how many tensors, at the beginning of each list, lie in units; the others are whole on every rank */
    int64_t sliced_model, sliced_optimizer;
    const ls_copies *model_copies, *optimizer_copies; /* of the tensors in units */
} ls_state_lists;

/* Makes the lists of a compiled step. `session` NULL: without memory, so the ranges have no places. Local. */
ls_status ls_state_lists_make(ls_state_lists *out, const ls_compiled *c, ls_session *session);
void ls_state_lists_release(ls_state_lists *l);

/* The contents that this rank writes: `texts` with its part of the lists. Ranks that store the same values
 * divide the work. Local. */
ls_checkpoint_contents ls_state_share(const ls_compiled *c, ls_state_lists *l,
                                      const ls_checkpoint_contents *texts);
size_t ls_state_range_bytes(const ls_tensor_list *l, int64_t i); /* of this rank's range of tensor i */
/* Bytes that this rank writes, with each range at a multiple of 64. Fails if a checkpoint cannot hold the
 * state. Local. */
ls_status ls_state_share_bytes(size_t *out, const ls_compiled *c);
