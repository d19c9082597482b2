/* state.h - all that a trainer keeps between steps, by name: what a checkpoint holds. */
#pragma once
#include "base/arena.h"
#include "ckpt/checkpoint.h"
#include "compile.h"
#include "lockstep/trainer.h"

/* Which of the ranks that store the same of a tensor this is (ls_held). */
typedef struct ls_copies {
    int copy, copies;
    unsigned cut_by; /* tensors with an equal one have their copies on the same ranks */
} ls_copies;

/* Lists of full tensors, alike on every rank and for every layout, and where this rank has its ranges of them
 * in memory. The model: parameters in the order of the model, then buffers. The optimizer: MOMENT.NAME for
 * every parameter NAME, then what belongs to no parameter (step counter, loss scale). */
typedef struct ls_state_lists {
    ls_arena arena; /* owns the arrays and names */
    ls_tensor_list model, optimizer;
    /* the first so many tensors lie in units; the rest is whole on every rank */
    int64_t sliced_model, sliced_optimizer;
    const ls_copies *model_copies, *optimizer_copies; /* of those */
} ls_state_lists;
ls_status ls_trainer_lists(ls_state_lists *out, ls_trainer *t); /* local */
/* Bytes of what one rank writes of them, each range at a multiple of 64. Local. */
ls_status ls_state_share_bytes(size_t *out, const ls_compiled *c);
void ls_state_lists_release(ls_state_lists *l);

/* Saves everything as checkpoint directory `dir`; replicas divide the work. *bytes: of the tensors' files.
 * Collective. */
ls_status ls_trainer_save_state(ls_trainer *t, const char *dir, const char *config_json,
                                const char *trainer_json, uint64_t max_file, uint64_t *bytes);

/* The same, but what this rank saves is copied to the trainer's staging memory, and nothing is written yet:
 * training may go on, and change its state, while somebody calls ls_saving_write and what follows. Release
 * `lists` after the save has ended. Collective. */
ls_status ls_trainer_stage_state(ls_saving **out, ls_state_lists *lists, ls_trainer *t, const char *dir,
                                 const char *config_json, const char *trainer_json, uint64_t max_file);

/* Everything from a checkpoint, whatever ranks and layout wrote it; each rank reads its ranges. Initial
 * values are not needed before. A failure of one rank is the group's: the others return LS_E_PEER. `advice`:
 * what the message of damage ends with; NULL: nothing. Collective. */
ls_status ls_trainer_load_state(ls_trainer *t, const ls_checkpoint *c, const char *advice);
