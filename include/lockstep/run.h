/* run.h - a run of a program of one's own: a named folder with its metrics and checkpoints, from which the
 * program continues when it is started again.
 *
 *     ls_run *run;
 *     LS_TRY(ls_run_open(&run, "runs", "mine", group, .best = "eval_loss"));
 *     const ls_run_contents all = { .trainer = trainer };
 *     const ls_run_checkpoint *last = ls_latest_checkpoint(run);
 *     if (last)
 *         LS_TRY(ls_run_load(run, last->path, &all));
 *     for (int64_t epoch = last ? last->epoch + 1 : 0; epoch < 5; epoch++) {
 *         ...
 *         const ls_metric metrics[] = { { "loss", loss }, { "eval_loss", eval_loss } };
 *         LS_TRY(ls_report(run, metrics, 2, &all, .epoch = epoch));
 *     }
 *     LS_TRY(ls_run_finish(&run, LS_OK, NULL));
 *
 * The folder is STORAGE/NAME, laid out as that of `lockstep train` (docs/run_directory.md), so `lockstep
 * runs`, `inspect` and `export` know it. Every rank makes the same calls in the same order. A rank that makes
 * another one, or makes it with other names, is named in the error that all ranks get; one that does not come
 * ends the wait with the group's deadline. Arrays have a count; strings end with NUL and are the caller's
 * unless said otherwise. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "group.h"
#include "trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One thread at a time uses a run; the run's calls use its group and the trainer that they are given.
 * ls_result is never changed: any thread may read it. */
typedef struct ls_run ls_run;

typedef struct ls_run_opts {
    const char *config; /* the program's configuration, any text: written to config.txt at every start */
    int64_t keep;       /* this many of the newest checkpoints stay, and the best */
    int64_t keep_best;  /* and this many of the best, by `best`; more than 1 need it; 0: 1 */
    /* metric by which a checkpoint is the best; NULL: none. One that was not reported, or is NaN, is never
     * the best */
    const char *best;
    bool best_is_max;  /* false: the lowest value is the best */
    bool verify;       /* loading compares every byte with its checksum; false: only the files' sizes */
    uint64_t max_file; /* bytes; more tensors are written as several files. 0: no limit */
    bool per_rank;     /* each rank writes checkpoint files of its own, however large */
    /* ls_report copies what a checkpoint holds, and returns; threads write the copy (ls_run_wait) */
    bool async;
} ls_run_opts;
#define LS_RUN_DEFAULTS                                                                          \
    .config = "", .keep = 2, .keep_best = 1, .best = NULL, .best_is_max = false, .verify = true, \
    .max_file = (uint64_t)5 << 30, .per_rank = false, .async = false
LS_API ls_run_opts ls_run_opts_default(void);

/* Makes STORAGE/NAME or opens the one that an earlier start left, and locks it for as long as the run is
 * open. `group` must outlive it; NULL: one rank. LS_E_USAGE when the folder is something else, or another
 * process has it. Of several hosts all must see the same storage, or it is a bucket. Collective.
 *
 * storage: a folder; or a bucket, s3://BUCKET/PREFIX (docs/run_directory.md: keys, other servers). Then the
 * run lies in the cache of this machine (ls_run_where: path). Rank 0 fetches here what the bucket has more
 * of: LS_E_USAGE when the bucket or the keys are refused, LS_E_IO when the server cannot, LS_E_STOPPED after
 * a request to stop. It copies each checkpoint to the bucket when it is complete (with `async` beside the
 * program), and everything else then and at the end. A copy that fails is a warning, and the next one sends
 * what is missing. On hosts that do not share the cache each rank writes its own files (as with `per_rank`)
 * and sends them itself; there a report whose checkpoint cannot be sent fails, and ls_run_load fetches the
 * files that this host lacks. */
LS_API ls_status ls_run_open_with(ls_run **out, const char *storage, const char *name, ls_group *group,
                                  const ls_run_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_run_open(...) ls_run_open_with(__VA_ARGS__)
#else
#define ls_run_open(out, storage, name, group, ...)                           \
    LS_QUIETLY(ls_status, ls_run_open_with((out), (storage), (name), (group), \
                                           &(ls_run_opts){ LS_RUN_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* Where this rank stands. Lives as long as the run. Local. */
typedef struct ls_run_place {
    int rank, ranks, local_rank, local_ranks, hosts; /* local: on this host */
    const char *name, *storage, *path; /* path: STORAGE/NAME, or of a bucket its folder in the cache */
    int64_t attempt;                   /* 0, one more at each later start */
} ls_run_place;
LS_API const ls_run_place *ls_run_where(const ls_run *r);
LS_API void ls_run_log(ls_run *r, const char *message); /* a line in log/rank-N.log. Local */

/* ---- checkpoints */

/* What this rank has of a tensor, or wants: `count` elements from number `first` of it, row-major. */
typedef struct ls_shard {
    const char *name;
    ls_type type;         /* of the whole tensor */
    int64_t first, count; /* count 0: nothing */
    void *data;           /* `count` elements; only read when saving */
} ls_shard;

/* What a checkpoint holds: all that a trainer keeps, or tensors. */
typedef struct ls_run_contents {
    ls_trainer *trainer;    /* NULL: none, then `shards` */
    const ls_shard *shards; /* [n]: the same names and types in the same order on every rank */
    int64_t n;
    /* where the loop stands, in the program's own words (JSON or not, UTF-8, up to 1 MiB); rank 0's is kept.
     * NULL: none */
    const char *text;
    /* what the model is: an object of JSON, kept as config.json; rank 0's. NULL: {} */
    const char *config;
} ls_run_contents;

typedef struct ls_run_checkpoint {
    const char *path; /* a folder: docs/checkpoint.md */
    int64_t step, epoch;
    int64_t n_metrics; /* reported with it */
    const ls_metric *metrics;
    const char *text; /* as saved, "" if there was none. NULL in ls_result */
} ls_run_checkpoint;

/* The newest checkpoint that is complete: of an earlier start, or of ls_report. NULL: none. Valid until the
 * next ls_report; with `async` until the next collective call of the run. Local. */
LS_API const ls_run_checkpoint *ls_latest_checkpoint(const ls_run *r);

/* Reads a checkpoint, of this run or another, whatever number of ranks wrote it: everything into the trainer,
 * or each rank its own ranges (which may overlap) of tensors, whose names must be all of the checkpoint's
 * (LS_E_SHAPE tells what does not fit). `text` and `config` are not looked at; NULL: this rank reads nothing.
 * With `async` it first waits for the checkpoint that is being written, which may remove the one that was the
 * latest (LS_E_USAGE): to load the latest, call ls_run_wait, then ls_latest_checkpoint. Collective. */
LS_API ls_status ls_run_load(ls_run *r, const char *path, const ls_run_contents *c);

/* With `async`: waits for the checkpoint that is being written. It is then the latest, unless it has a name
 * of its own, and its memory is free. Without this call the run asks in every collective call (ls_report,
 * ls_run_stop_requested, ...) whether all ranks have written their parts, and then names it; the next report
 * with a checkpoint, ls_run_load and ls_run_finish wait for it. Of one rank, or where rank 0 alone brings it,
 * the thread completes it by itself. A process that is killed before continues from the checkpoint before.
 * Where a thread has failed, this and every other collective call fail, with its message, on all ranks.
 * Collective. */
LS_API ls_status ls_run_wait(ls_run *r);

/* ---- reports */

typedef struct ls_report_opts {
    /* finished steps, up to 99,999,999 and more than at the last report; -1: one more than then */
    int64_t step;
    int64_t epoch; /* that this report is about, from 0; -1: the number of this report */
    /* Folder of the checkpoint in the run's `checkpoints`, up to 100 letters, digits and _-. such as
     * "full_model". It stays until one of that name replaces it, whatever `keep` says, and the run does not
     * continue from it: ls_run_load reads it by its path. NULL: step-00000468, by the step */
    const char *checkpoint;
} ls_report_opts;
#define LS_REPORT_DEFAULTS .step = -1, .epoch = -1, .checkpoint = NULL
LS_API ls_report_opts ls_report_opts_default(void);

/* Says how the run stands: a row in metrics.jsonl and metrics.csv, with rank 0's values; every rank gives the
 * same names. With `c` also a checkpoint, complete on disk when this returns (with `async`: copied): given by
 * rank 0 alone (whole tensors, or a trainer of no group), or by all ranks (together every element once, or a
 * trainer of the run's group). Metrics that are named loss, lr, eval_loss and eval_accuracy are those that
 * `lockstep runs` shows. When one rank fails, all do. Collective, and a barrier. */
LS_API ls_status ls_report_with(ls_run *r, const ls_metric *metrics, int64_t n, const ls_run_contents *c,
                                const ls_report_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_report(...) ls_report_with(__VA_ARGS__)
#else
#define ls_report(run, metrics, n, contents, ...)                           \
    LS_QUIETLY(ls_status, ls_report_with((run), (metrics), (n), (contents), \
                                         &(ls_report_opts){ LS_REPORT_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* *any: whether any rank was asked to stop; `asked` is this rank's own answer, from a signal handler of the
 * program's, a time limit, a file. The loop that stops reports a checkpoint and finishes with LS_E_STOPPED.
 * Collective. */
LS_API ls_status ls_run_stop_requested(ls_run *r, bool asked, bool *any);

/* ---- a profile */

/* As torch.profiler.schedule: the first `skip` steps are left alone; then come cycles of `wait` steps that
 * are left alone, `warmup` steps that are timed and forgotten, and `active` steps that are recorded. */
typedef struct ls_run_profile_opts {
    int64_t skip, wait, warmup, active;
    int64_t repeat; /* cycles; 0: until the end */
} ls_run_profile_opts;
#define LS_RUN_PROFILE_DEFAULTS .skip = 0, .wait = 0, .warmup = 0, .active = 6, .repeat = 1
LS_API ls_run_profile_opts ls_run_profile_opts_default(void);

/* Profiles the steps of a trainer from now on. Of each cycle every rank writes log/rank-N.trace.json (for
 * Perfetto), rank-N.memory.html and rank-N.step.html to the run's folder; of several cycles
 * log/rank-N.CYCLE.trace.json and so on. Replaces an earlier profile. Local. */
LS_API ls_status ls_run_profile_with(ls_run *r, ls_trainer *t, const ls_run_profile_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_run_profile(...) ls_run_profile_with(__VA_ARGS__)
#else
#define ls_run_profile(run, trainer, ...)            \
    LS_QUIETLY(ls_status,                            \
               ls_run_profile_with((run), (trainer), \
                                   &(ls_run_profile_opts){ LS_RUN_PROFILE_DEFAULTS, ##__VA_ARGS__ }))
#endif
/* Call it after each step. The last step of a cycle writes its files; LS_E_IO if they cannot be written.
 * Local. */
LS_API ls_status ls_run_profile_step(ls_run *r);
/* Ends the profile, and writes what was recorded of a cycle that is not complete. Call it before the trainer
 * and the run end. Without a profile it does nothing. Local. */
LS_API ls_status ls_run_profile_end(ls_run *r);

/* ---- the end */

typedef struct ls_result {
    const char *path, *name;
    /* "running" "finished" "failed" "stopped" "restarting" "died" (it says running, and no process has it) */
    const char *state;
    const char *error; /* of a failed run; NULL: none */
    int64_t attempt, step, epoch;
    int64_t n_metrics;
    /* of the last report; of `lockstep train` the last loss, lr, eval_loss, eval_accuracy */
    const ls_metric *metrics;
    int64_t n_checkpoints;
    const ls_run_checkpoint *checkpoints;   /* those that are there, oldest first */
    const ls_run_checkpoint *latest, *best; /* NULL: none */
} ls_result;

/* What a run directory says of its run: while it runs, too, and from any process. Local. */
LS_API ls_status ls_result_read(ls_result **out, const char *run_directory);
/* The checkpoint that is there with the highest or lowest value of a metric; NULL: none has it. Local. */
LS_API const ls_run_checkpoint *ls_result_best(const ls_result *r, const char *metric, bool highest);
LS_API void ls_result_free(ls_result **r); /* nulls *r; null is fine */

/* Ends the run, frees it, nulls *r, and returns `how`, or why it could not end so. LS_OK: finished,
 * LS_E_STOPPED: stopped; then this is collective. Any other: failed, with this thread's message, with which
 * the other ranks' calls end, too. Of a run in a bucket that ended well, rank 0 alone returns why the bucket
 * has not got all of it: it is complete in the cache, and the next start sends the rest. *result (may be
 * NULL) as of ls_result_read; NULL when that fails. */
LS_API ls_status ls_run_finish(ls_run **run, ls_status how, ls_result **result);

#ifdef __cplusplus
}
#endif
