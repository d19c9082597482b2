/* run_own.h - the struct of a run (lockstep/run.h), and what run*.c share. */
#pragma once
#include "lockstep/run.h"
#include "base/metric_list.h"
#include "record/rundir.h"
#include "loop/profiler.h"
#include "loop/resume.h"
#include "snapshots/snapshots.h"
#include "step/state.h"

/* The contents of a checkpoint's trainer.json. */
typedef struct ls_run_saved {
    int64_t step, epoch, report;
    ls_metric_list metrics;
    char *text;
} ls_run_saved;
/* malloc'ed. t: whose optimizer is saved; NULL: none */
char *ls_run_saved_json(const ls_run_saved *s, int ranks, const ls_trainer *t);
ls_status ls_run_saved_read(ls_run_saved *out, const char *json, const char *where);
void ls_run_saved_release(ls_run_saved *s);

struct ls_run {
    ls_run_place place;
    ls_run_opts opts; /* its strings belong to the caller and are not used after ls_run_open */
    char *name, *storage, *best;
    ls_group *group;
    bool own_group;
    ls_rundir *dir;
    ls_snapshots snapshots;   /* the list is rank 0's */
    struct ls_remote *remote; /* the bucket; rank 0's; NULL: none */
    bool apart;               /* the hosts share no folder: every rank has the bucket */
    char *coming; /* trainer.json of a checkpoint that is saved, until `latest` is set to it; rank 0's */
    ls_run_checkpoint latest; /* path NULL: none. It owns the path; the rest belongs to `saved` */
    ls_run_saved saved;
    int64_t reports; /* number of the next report */
    int64_t step;    /* of the last report; -1: none */
    double reported; /* time of the last report, on the clock of ls_now */
    uint64_t calls;  /* number of collective calls so far */
    ls_profiler profiler;
    ls_trainer *profiled; /* by the profiler; NULL: none */
    int64_t n_profiled;   /* its steps since the profile began */
    int32_t *words;       /* [ranks] the `word` of each rank in the last ls_run_compare */
};

/* Every collective call of a run begins with this. It checks that all ranks make the same call ("report 3",
 * up to 47 characters) and that `mine`, the status of each rank's own checks, is LS_OK on all. Otherwise all
 * ranks fail with the same status and a message that names the rank. r->words gets the `word` of every rank.
 * A save beside the program goes on when no rank is writing, and a complete checkpoint becomes the latest.
 * Collective. */
ls_status ls_run_compare(ls_run *r, const char *call, ls_status mine, int32_t word);

/* Sets the latest checkpoint to r->coming; NULL: it stays. Collective. */
ls_status ls_run_point(ls_run *r);
/* Waits for the checkpoint that is being saved, and sets the latest one to it. Collective. */
ls_status ls_run_settle(ls_run *r);
/* Whether a checkpoint with these metrics is the best so far. If so, the next ones are compared with it. */
bool ls_run_is_best(ls_run *r, int64_t step, int64_t epoch, const ls_metric_list *metrics);
/* The value by which checkpoints are compared (ls_kept). */
double ls_run_value(const ls_run *r, const ls_metric_list *metrics);

/* LS_E_ARG if the contents are not valid. NULL is valid. */
ls_status ls_run_check_contents(const ls_run_contents *c);
/* LS_E_ARG, on the rank that is 0, if the shards of all ranks are not each element once. Otherwise a save
 * finds it in the files; of ranks whose hosts share no folder rank 0 does not see them. `call` is for the
 * message. Collective. */
ls_status ls_run_check_cover(ls_group *g, const ls_run_contents *c, const char *call);
/* Makes a list of tensors of the shards. The arena owns its arrays. */
ls_tensor_list ls_run_list(ls_arena *a, const ls_run_contents *c);
