/* run_own.h - a run of a program of one's own (lockstep/run.h) behind its header: shared by run*.c. */
#pragma once
#include "lockstep/run.h"
#include "record/metric_list.h"
#include "record/rundir.h"
#include "loop/snapshot.h"
#include "step/state.h"

/* What trainer.json of a checkpoint says. */
typedef struct ls_run_saved {
    int64_t step, epoch, report;
    ls_metric_list metrics;
    char *text;
} ls_run_saved;
char *ls_run_saved_json(const ls_run_saved *s, int ranks); /* malloc'ed */
ls_status ls_run_saved_read(ls_run_saved *out, const char *json, const char *where);
void ls_run_saved_release(ls_run_saved *s);

struct ls_run {
    ls_run_place place;
    ls_run_opts opts; /* its texts are not kept */
    char *name, *storage, *best;
    ls_group *group;
    bool own_group;
    ls_rundir *dir;
    ls_snapshots snapshots;   /* rank 0's */
    ls_run_checkpoint latest; /* path NULL: none; owns its path, the rest is in `saved` */
    ls_run_saved saved;
    int64_t reports, step; /* number of the next report; step of the last, -1: none */
    double reported;       /* when the last was: ls_now() */
    uint64_t calls;        /* collective ones so far */
    int32_t *words;        /* [ranks] what each rank said in the latest ls_run_meet */
};

/* All ranks are at the same call ("report 3", up to 47 characters) and `mine`, what each found alone, is
 * LS_OK on all; else all fail with the same status and message. r->words: every rank's `word`. Every
 * collective call begins here, so that a rank that makes another one is named on all of them. Collective. */
ls_status ls_run_meet(ls_run *r, const char *call, ls_status mine, int32_t word);

/* The latest checkpoint is the one with this trainer.json, which only rank 0 knows; NULL: there is none. The
 * next report comes after it. Collective. */
ls_status ls_run_point(ls_run *r, const char *json);
/* Whether a checkpoint with these metrics is better than all before; then it is what the next ones are
 * compared with. */
bool ls_run_is_best(ls_run *r, int64_t step, int64_t epoch, const ls_metric_list *metrics);
/* By which checkpoints are compared, as in ls_kept. */
double ls_run_value(const ls_run *r, const ls_metric_list *metrics);

/* LS_E_ARG for contents that cannot be, whoever brings them. NULL is fine. */
ls_status ls_run_check_contents(const ls_run_contents *c);
/* The shards as a list of tensors; arrays live in the arena. */
ls_tensor_list ls_run_list(ls_arena *a, const ls_run_contents *c);
