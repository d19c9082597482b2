/* state.h - saves and loads the state that a trainer keeps between steps. */
#pragma once
#include "ckpt/dcp_state.h"
#include "lockstep/trainer.h"
#include "state_lists.h"

ls_status ls_trainer_lists(ls_state_lists *out, ls_trainer *t); /* local */

/* Saves the state as checkpoint folder `dir`. Ranks that store the same values divide the work. `texts` has
 * the config and trainer.json; its lists of tensors are ignored. `saved` may be NULL.
 * Collective. */
ls_status ls_trainer_save_state(ls_trainer *t, const char *dir, const ls_checkpoint_contents *texts,
                                ls_saved *saved);

/* Begins a save: copies what this rank saves to `room` (ls_state_share_bytes), and writes nothing yet.
 * Training may continue, and end, while another thread calls ls_saving_write and the following steps: nothing
 * of the trainer is used then. Release `lists` when the save has ended. Collective. */
ls_status ls_trainer_stage_state(ls_saving **out, ls_state_lists *lists, ls_trainer *t, const char *dir,
                                 const ls_checkpoint_contents *texts, char *room);

/* Loads the state from a checkpoint of any ranks and layout. Each rank reads its ranges. The trainer needs no
 * initial values before. If one rank fails, the others return LS_E_PEER. `advice` is added to messages about
 * damage; NULL: nothing. Collective. */
ls_status ls_trainer_load_state(ls_trainer *t, const ls_checkpoint *c, const char *advice);

/* Loads model and optimizer from a DCP directory of PyTorch, whose model is open; s then describes its
 * optimizer. `steps`: the number of its steps, if the optimizer does not count them. State that PyTorch does
 * not store (loss scale, states of the model's own) stays as it is or, in a new trainer, gets its initial
 * value. Otherwise as above. Collective. */
ls_status ls_trainer_load_dcp(ls_trainer *t, ls_dcp_state *s, int64_t steps);
