/* setup.h - from a recipe to what the engine takes: a model's builder, a trainer's options, data sets, batch
 * arithmetic. */
#pragma once
#include "step/compile.h"
#include "lockstep/data.h"
#include "lockstep/weights.h"
#include "recipe/model_row.h"
#include "base/ui.h"

typedef struct ls_setup {
    const ls_model_row *model; /* its builder's configuration is the recipe */
    char recompute[64];        /* block class, "" none */
    ls_trainer_opts trainer;
    ls_share share;              /* this rank's micro-batches of a step: for the loader */
    int channels, size, classes; /* what the model wants of the data; of text only classes: the vocabulary */
    ls_schedule schedule;
    double lr;
} ls_setup;

/* Fills *s for rank `rank` of `ranks`, of which each host has `ranks_per_host` (0: all of them): resolves the
 * mesh and train.micro_batch (0 becomes global_batch / data ranks, in the recipe), checks that the layout can
 * be and that the data ranks divide the micro-batches, and shares this process's cores among the ranks of a
 * host when `threads` is 0 (so call it before a rank is bound to its part of them). Messages name the file
 * and line of the key. The pointers in s->trainer live as long as the recipe and *s. Local. */
ls_status ls_setup_make(ls_setup *s, ls_recipe *r, int ranks, int rank, int ranks_per_host);
/* ls_compile of what ls_setup_make made. Local. */
ls_status ls_setup_compile(ls_compiled *c, const ls_setup *s, const ls_recipe *r,
                           const ls_calibration *calibration);
/* For ranks that evaluate or show the model, whatever `r` says of workers, layout and global batch: the
 * parameters are sharded over them all. Else as above. */
ls_status ls_setup_use(ls_setup *s, ls_recipe *r, int ranks, int rank, int ranks_per_host);
/* total optimizer steps of the run, for schedules that need it and for progress; `base_epoch` epochs took
 * `base_step` of them, each later one takes steps_per_epoch. */
int64_t ls_setup_total_steps(const ls_recipe *r, int64_t steps_per_epoch, int64_t base_step,
                             int64_t base_epoch);
/* schedule.step_epochs as steps, with the arguments above. Epochs that are over count as epochs, however many
 * steps they had. */
void ls_setup_cut_epochs(ls_schedule *s, const ls_recipe *r, int64_t steps_per_epoch, int64_t base_step,
                         int64_t base_epoch);

/* Opens the weights of model.init. What a state dict of a tied model has a second time, and T5's files for no
 * layer, is left out. */
ls_status ls_setup_weights(ls_weights **out, const ls_recipe *r);

/* Opens a split as the recipe says, and checks that it fits the model. `ui` may show a download's progress.
 */
ls_status ls_setup_data(ls_dataset **out, const ls_recipe *r, const ls_setup *s, ls_split split,
                        const ls_ui *ui);
ls_order ls_setup_order(const ls_recipe *r, const ls_dataset *set);

/* The calibration of this machine if `doctor` has stored one, else NULL. */
const ls_calibration *ls_setup_calibration(ls_calibration *store, const ls_trainer_opts *o);
