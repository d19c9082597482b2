/* resume.h - trainer.json of a checkpoint: where the run stood and which recipe it followed; written with
 * each checkpoint, read to continue from it. */
#pragma once
#include "ckpt/checkpoint.h"
#include "lockstep/recipe.h"
#include "record/metrics.h"
#include "record/rundir.h"
#include "step/trainer.h"

typedef struct ls_resume_point {
    int64_t step;              /* finished optimizer steps */
    int64_t epoch, epoch_step; /* of the next one */
    /* from epoch base_epoch on, which began after base_step steps: both 0, unless a change of the data or the
     * batch was */
    int64_t steps_per_epoch;
    int64_t base_step, base_epoch; /* allowed that changed how many steps an epoch has */
    /* over the running epoch; count: targets */
    struct {
        double loss, seconds;
        int64_t samples, count;
    } sums;
    ls_run_metrics metrics;
    const ls_epoch_row *ended; /* the epoch that ended with it; NULL: none, or the point was read */
    /* for the text: what the run is trained and evaluated on; eval NULL: it is not. A point that was read has
     * neither */
    const ls_dataset *train, *eval;
} ls_resume_point;
/* Where step number `step` (from 0) lies. */
int64_t ls_resume_epoch(const ls_resume_point *p, int64_t step);
int64_t ls_resume_epoch_step(const ls_resume_point *p, int64_t step);

/* The text; malloc'ed. Numbers read back as the same. */
char *ls_resume_text(const ls_resume_point *p, const ls_recipe *r, const ls_trainer *t);

/* Step of the newest checkpoint in a folder of them, by its name: whatever has such a name was whole, also
 * when the link `latest` had not followed yet. -1: none. Local. */
int64_t ls_resume_newest(const char *folder);

/* What a checkpoint's trainer.json says of the epoch that ended with it: loss, eval_loss and eval_accuracy of
 * *row, NAN where they were not measured. False: it cannot be read, is of no epoch's end, or of other data
 * than these (NULL: none). Local. */
bool ls_resume_ended(ls_epoch_row *row, const char *checkpoint, const ls_dataset *train,
                     const ls_dataset *eval);

/* Where a run shall continue. */
typedef struct ls_resume_ask {
    /* NULL or "auto": at the newest checkpoint of the run; "never": nowhere; else at this checkpoint, or at
     * what PyTorch has saved in this directory (DCP), */
    const char *from;
    const char *prefix; /* under names that begin so (NULL: with nothing), */
    /* with this step of this epoch. epoch -1: where the steps of its optimizer lead in the recipe's epochs */
    int64_t epoch, epoch_step;
} ls_resume_ask;

/* Path of the checkpoint to continue from, "" when there is none. LS_E_USAGE when `asked` names none, or when
 * the run has newer ones: it would meet them again. Local. */
ls_status ls_resume_find(char path[4096], const ls_recipe *r, const ls_resume_ask *asked);

/* The same after a failure of this very run: its newest checkpoint, else the one that was asked for. Local.
 */
ls_status ls_resume_find_again(char path[4096], const ls_recipe *r, const ls_resume_ask *asked);
/* Finished steps in a checkpoint; of a directory of PyTorch's 0. Local. */
ls_status ls_resume_step(int64_t *step, const char *checkpoint);

/* What a run continues with. */
typedef struct ls_resume_now {
    const ls_dataset *train, *eval; /* eval NULL: none */
    int64_t steps_per_epoch;
    bool allow_change;
    const ls_resume_ask *asked;
} ls_resume_now;
/* What was allowed to change. */
typedef struct ls_resume_change {
    char *what;     /* all of it in words; malloc'ed; NULL: nothing */
    bool eval_data; /* evaluations so far cannot be compared with those to come */
    bool best;      /* nor the best so far with what checkpoint.best says now */
} ls_resume_change;

/* Gives the trainer the state of checkpoint `path`, and says where it stands. LS_E_USAGE, naming each key and
 * what depends on it, when the checkpoint belongs to another recipe, another ISA level, other data or another
 * tokenizer, or rounds its sums over another number of ranks, or when the built-in set stands in for the
 * recipe's data on one side only; `allow_change` makes that a warning, and *change says it. An epoch that has
 * another number of steps now begins anew. `path` may be a directory of PyTorch's (resume_dcp.c). Collective.
 */
ls_status ls_resume_load(ls_resume_point *out, ls_resume_change *change, const char *path, ls_trainer *t,
                         const ls_recipe *r, const ls_resume_now *now);

/* resume_dcp.c: of a directory of PyTorch's, in which only the settings of the optimizer can be compared. */
ls_status ls_resume_load_dcp(ls_resume_point *out, ls_resume_change *change, const char *path, ls_trainer *t,
                             const ls_recipe *r, const ls_resume_now *now);
