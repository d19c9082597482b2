/* loop.h - the training loop of a recipe: epochs, steps, metrics, evaluation, checkpoints, requests to stop.
 */
#pragma once
#include "step/evaluate.h"
#include "profiler.h"
#include "request.h"
#include "setup/setup.h"
#include "snapshot.h"
#include "step/trainer.h"

enum { LS_LOOP_TIMES = 65536 }; /* steps whose times are kept */

typedef struct ls_loop {
    ls_recipe *recipe;
    ls_setup *setup;
    ls_trainer *trainer;
    size_t planned;  /* bytes of the process, as planned: without a device's own memory */
    ls_group *group; /* every rank of it runs this loop, with the same steps; NULL: one rank */
    ls_dataset *train, *eval;
    ls_rundir *run;
    ls_snapshots snapshots;
    const ls_ui *ui;
    ls_requests requests;
    int64_t steps_per_epoch; /* of the epochs to come */
    int64_t total_steps;     /* of the whole run, with the finished ones */
    int64_t compared;        /* the last step after which copies were compared, or the beginning */
    int64_t until;           /* stop after this step, as on request; 0: at the end */
    ls_resume_point from;    /* where the run stands when the loop begins; zeros: at its beginning */
    ls_profiler profiler;
    const ls_calibration *calibration; /* NULL: not measured here */
    double *seconds;                   /* of the last LS_LOOP_TIMES steps, for the median; owned */
    int64_t step;                      /* number of finished steps, with those of earlier attempts */
    bool said_undefined;               /* that the metric of checkpoint.best is undefined, and why */
    double began;                      /* on the clock of ls_now, before the first step */
    double first_step_seconds, step_median;
    void (*started)(struct ls_loop *l); /* called once, before the first step or evaluation; may be NULL */
    /* Generates texts with the present weights for an evaluation (eval.generate); NULL: none are generated.
     * LS_E_STOPPED if a rank is asked to stop (`rounds`). Collective. */
    ls_status (*generate)(struct ls_loop *l, ls_rounds *rounds, ls_metric_list *metrics, int64_t *texts,
                          double *seconds);
    void *context;
} ls_loop;

/* export.c: for checkpoint.export, writes the whole model of the latest checkpoint to the run's folder,
 * tensor by tensor. Call it when all steps are done. `replace`: also if the file exists. Only on rank 0.
 * Local. */
ls_status ls_loop_export(ls_loop *l, bool replace);
/* For checkpoint.export_best: of the best checkpoint, which epoch `epoch` has just saved, whose metric is
 * `value`. Only on rank 0. Local. */
ls_status ls_loop_export_best(ls_loop *l, int64_t epoch, double value);

/* LS_OK when all steps are done, LS_E_STOPPED after a stop request (everything is saved), else the error. */
ls_status ls_loop_run(ls_loop *l);
