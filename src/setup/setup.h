/* setup.h - turns a recipe into what the library takes: a model's builder, a trainer's options, data sets,
 * and the numbers of batches and steps. */
#pragma once
#include "step/compile.h"
#include "lockstep/data.h"
#include "lockstep/weights.h"
#include "recipe/model_row.h"
#include "base/cpu_limits.h"
#include "base/ui.h"

typedef struct ls_setup {
    const ls_model_row *model; /* its builder's configuration is the recipe */
    ls_trainer_opts trainer;
    ls_share share;          /* this rank's micro-batches of a step, for the loader */
    int channels, size;      /* of the model's images; 0 for text */
    int classes;             /* of the model; for text the size of its vocabulary */
    ls_cpu_limit threads_by; /* what decided trainer.threads, if the recipe did not */
    ls_schedule schedule;
    double lr;
} ls_setup;

/* Fills *s for rank `rank` of `ranks`, of which each host has `ranks_per_host` (0: all of them). It resolves
 * the mesh, and sets train.micro_batch 0 in the recipe to global_batch / data ranks. It checks that the
 * layout is possible and that the data ranks divide the micro-batches. With `threads` 0 it divides the cores
 * of this process among the ranks of a host, so call it before a rank is bound to its cores. Messages name
 * the file and line of the key. The pointers in s->trainer are valid as long as the recipe and *s. Local. */
ls_status ls_setup_make(ls_setup *s, ls_recipe *r, int ranks, int rank, int ranks_per_host);
/* Calls ls_compile with the options in *s. Local. */
ls_status ls_setup_compile(ls_compiled *c, const ls_setup *s, const ls_recipe *r,
                           const ls_calibration *calibration);
/* Whether the step has the same bits on 1, 2, 4, ... data ranks, in any layout, as long as train.micro_batch
 * is the same. If not, `why` is the reason. */
enum { LS_WHY_BYTES = 256 };
bool ls_setup_same_bits(char why[LS_WHY_BYTES], const ls_recipe *r, const ls_compiled *c);
/* The layout that the bits of the step depend on, as "dp=3 fsdp"; "": with this train.micro_batch every
 * layout on 1, 2, 4, ... data ranks has them. */
enum { LS_LAYOUT_BYTES = 192 };
void ls_setup_bits_layout(char text[LS_LAYOUT_BYTES], const ls_recipe *r, const ls_compiled *c);
/* The origin of a train.micro_batch that nobody set. */
#define LS_ORIGIN_PER_RANK "resolved: global_batch / data ranks"

/* Checks that the model has the metric of checkpoint.best, and sets its mode where the recipe does not.
 * Local. */
ls_status ls_setup_best(ls_recipe *r, const ls_compiled *c);
/* The same for ranks that only evaluate or predict. The recipe's workers, layout and global batch are
 * replaced: the parameters are sharded over all `ranks`. Local. */
ls_status ls_setup_inference(ls_setup *s, ls_recipe *r, int ranks, int rank, int ranks_per_host);
/* Optimizer steps of the whole run, for schedules and for progress. The first `base_epoch` epochs took
 * `base_step` steps; each later one takes `steps_per_epoch`. */
int64_t ls_setup_total_steps(const ls_recipe *r, int64_t steps_per_epoch, int64_t base_step,
                             int64_t base_epoch);
/* Sets s->step_size and s->step_offset from schedule.step_epochs, with the arguments of ls_setup_total_steps.
 * A finished epoch counts as one epoch, whatever its number of steps. */
void ls_setup_cut_epochs(ls_schedule *s, const ls_recipe *r, int64_t steps_per_epoch, int64_t base_step,
                         int64_t base_epoch);

/* Opens the weights of model.init. Tensors that the model does not have are left out: second names of tied
 * ones, and those of T5's files that no layer uses. */
ls_status ls_setup_weights(ls_weights **out, const ls_recipe *r);
/* The same of the weights at `path`, in place of model.init. */
ls_status ls_setup_weights_at(ls_weights **out, const ls_recipe *r, const char *path);

/* Loads the recipe that checkpoint `dir` stores, which names the samples, too. A checkpoint that your own
 * program wrote may have the sections `model` and `data` of a recipe in config.json. LS_E_FORMAT: it has
 * neither. Local. */
ls_status ls_setup_recorded(ls_recipe **out, const char *dir, int n_sets, const char *const *sets);

/* Opens a split as the recipe says, and checks that it fits the model. `ui` shows the progress of a download;
 * NULL: nothing is shown. */
ls_status ls_setup_data(ls_dataset **out, const ls_recipe *r, const ls_setup *s, ls_split split,
                        const ls_ui *ui);
/* The same for a training: the training split is changed as data.augment asks for, and both splits have the
 * fields of mixtures if it mixes samples. */
ls_status ls_setup_training_data(ls_dataset **out, const ls_recipe *r, const ls_setup *s, ls_split split,
                                 const ls_ui *ui);
/* Gives the samples the weights of their classes as class_weights of the losses say; `balanced` counts the
 * training split, which is opened for it where *set is another one. The training split gets the draws of
 * data.sampler, too. On failure *set is closed. */
ls_status ls_setup_balance(ls_dataset **set, const ls_recipe *r, const ls_setup *s, ls_split split,
                           const ls_ui *ui);
ls_order ls_setup_order(const ls_recipe *r, const ls_dataset *set);
/* ls_order_check, of training data. */
ls_status ls_setup_check_order(const ls_recipe *r, const ls_order *order);

/* The calibration of this machine if `doctor` has stored one, else NULL. */
const ls_calibration *ls_setup_calibration(ls_calibration *store, const ls_trainer_opts *o);
