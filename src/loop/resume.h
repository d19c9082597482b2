/* resume.h - trainer.json of a checkpoint: where the run stood, and its recipe. It is written with each
 * checkpoint and read to continue from it. */
#pragma once
#include "ckpt/checkpoint.h"
#include "lockstep/recipe.h"
#include "record/metrics.h"
#include "record/rundir.h"
#include "step/trainer.h"

typedef struct ls_resume_point {
    int64_t step; /* finished optimizer steps */
    /* Of the next step. After a stop in the evaluation at the end of an epoch: that epoch and all of its
     * steps. */
    int64_t epoch, epoch_step;
    /* Epochs from number base_epoch on have steps_per_epoch steps; base_step steps were finished before them.
     * Both are 0 unless a change of the data or the batch changed the length of an epoch. */
    int64_t steps_per_epoch;
    int64_t base_step, base_epoch;
    /* sums over the running epoch; `count`: of targets; `skipped`: of steps that changed no weight;
     * `replaced`: broken samples, over all ranks */
    struct {
        double loss, seconds;
        int64_t samples, count, skipped, replaced;
    } sums;
    uint64_t base;    /* ls_base_digest of the weights that checkpoints leave out; 0: none */
    bool epoch_ended; /* only of a point that was read: `ended` was written */
    ls_run_metrics metrics;
    ls_metric_list evaluated; /* the last evaluation. Of a point that was read it is owned */
    /* Only for writing; a point that was read has NULL here. */
    const ls_epoch_row *ended;      /* the epoch that ended with this step; NULL: none did */
    const ls_dataset *train, *eval; /* the data of the run; eval NULL: it does not evaluate */
} ls_resume_point;
/* The epoch of step number `step` (from 0), and the step's number in it. */
int64_t ls_resume_epoch(const ls_resume_point *p, int64_t step);
int64_t ls_resume_epoch_step(const ls_resume_point *p, int64_t step);

/* Whether the end of an epoch is still to be done: its steps are, or those of the run. */
bool ls_resume_ending(const ls_resume_point *p, int64_t total_steps);

/* The text of trainer.json; malloc'ed. Its numbers read back exactly. */
char *ls_resume_text(const ls_resume_point *p, const ls_recipe *r, const ls_trainer *t);

/* Step of the newest checkpoint in the folder of a run's checkpoints; -1: none. It goes by the names of
 * folders: a folder gets its name when it is complete, and the link `latest` follows later. Local. */
int64_t ls_resume_newest(const char *folder);

/* Reads the metrics of the epoch that ended with a checkpoint; NAN: not measured. Release row->eval.
 * Returns false if trainer.json cannot be read, if no epoch ended with the checkpoint, or if its data differs
 * from `train` or `eval` (NULL: not compared). Local. */
bool ls_resume_ended(ls_epoch_row *row, const char *checkpoint, const ls_dataset *train,
                     const ls_dataset *eval);

/* Where a run continues. */
typedef struct ls_resume_ask {
    /* NULL or "auto": the newest checkpoint of the run; "never": none; else this checkpoint, or this
     * directory of PyTorch (DCP) */
    const char *from;
    /* The other members are for a directory of PyTorch. */
    const char *prefix; /* its tensors have names that begin with this; NULL: with nothing */
    /* step of the epoch to continue with. epoch -1: the step counter of its optimizer decides */
    int64_t epoch, epoch_step;
} ls_resume_ask;

/* Finds the checkpoint to continue from; path "": none. LS_E_USAGE if `asked` names no checkpoint, or if the
 * run has a newer one, which the run would have to overwrite later. Local. */
ls_status ls_resume_find(char path[4096], const ls_recipe *r, const ls_resume_ask *asked);

/* The same after a failure of this run: its newest checkpoint, or, if it has none, the one that `asked`
 * names. Local.
 */
ls_status ls_resume_find_again(char path[4096], const ls_recipe *r, const ls_resume_ask *asked);
/* The number of finished steps in a checkpoint; 0 for a directory of PyTorch. Local. */
ls_status ls_resume_step(int64_t *step, const char *checkpoint);

/* The present data of a run that is continued. */
typedef struct ls_resume_now {
    const ls_dataset *train, *eval; /* eval NULL: none */
    int64_t steps_per_epoch;
    bool allow_change;
    const ls_resume_ask *asked;
    const ls_sparse *sparse; /* of the checkpoint; NULL: none */
} ls_resume_now;
/* Changes since the checkpoint that --allow-change has permitted. */
typedef struct ls_resume_change {
    char *what;     /* all changes in words; malloc'ed; NULL: none */
    bool eval_data; /* the data of evaluation changed, so earlier evaluations cannot be compared */
    bool best;      /* checkpoint.best changed, so the earlier best value cannot be compared */
} ls_resume_change;

/* Loads the state of checkpoint `path`; *out says where it stands. LS_E_USAGE if the checkpoint has another
 * recipe, ISA level, data or tokenizer, if it has another number of ranks and sums are rounded to 16 bits, or
 * if only one side uses the built-in data set. The message names each key and what depends on it. With
 * `allow_change` this is a warning, and *change tells the changes. If epochs now have another number of
 * steps, the running epoch begins again. `path` may be a directory of PyTorch (resume_dcp.c). Collective. */
ls_status ls_resume_load(ls_resume_point *out, ls_resume_change *change, const char *path, ls_trainer *t,
                         const ls_recipe *r, const ls_resume_now *now);

/* resume_dcp.c: loads from a directory of PyTorch. Only the settings of its optimizer can be compared. */
ls_status ls_resume_load_dcp(ls_resume_point *out, ls_resume_change *change, const char *path, ls_trainer *t,
                             const ls_recipe *r, const ls_resume_now *now);
