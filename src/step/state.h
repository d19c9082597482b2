/* state.h - saving and loading all that a trainer keeps between steps. */
#pragma once
#include "lockstep/trainer.h"
#include "state_lists.h"

ls_status ls_trainer_lists(ls_state_lists *out, ls_trainer *t); /* local */

/* Saves everything as checkpoint directory `dir`; replicas divide the work. `texts`: the contents without
 * their lists, which are the trainer's. *bytes: of the tensors' files. Collective. */
ls_status ls_trainer_save_state(ls_trainer *t, const char *dir, const ls_checkpoint_contents *texts,
                                uint64_t *bytes);

/* The same, but what this rank saves is copied to the trainer's staging memory, and nothing is written yet:
 * training may go on, and change its state, while somebody calls ls_saving_write and what follows. Release
 * `lists` after the save has ended. Collective. */
ls_status ls_trainer_stage_state(ls_saving **out, ls_state_lists *lists, ls_trainer *t, const char *dir,
                                 const ls_checkpoint_contents *texts);

/* Everything from a checkpoint, whatever ranks and layout wrote it; each rank reads its ranges. Initial
 * values are not needed before. A failure of one rank is the group's: the others return LS_E_PEER. `advice`:
 * what the message of damage ends with; NULL: nothing. Collective. */
ls_status ls_trainer_load_state(ls_trainer *t, const ls_checkpoint *c, const char *advice);
