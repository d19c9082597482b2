/* trace.h - profiles of runs: a Chrome trace (chrome://tracing, ui.perfetto.dev), and a table of where the
 * time goes.
 *
 *     ls_session_profile(s, true);
 *     for each run of program i:  ls_session_run(s, i, false);  ls_profile_add(p, s, i);
 *     ls_trace_write(path, p);  ls_profile_table(&text, p, calibration, 15); */
#pragma once
#include "base/str.h"
#include "session.h"

typedef struct ls_profile ls_profile;
ls_status ls_profile_create(ls_profile **out);
void ls_profile_destroy(ls_profile **p);

/* Copies the times of the latest run of plan i. It allocates, so call it between steps. */
void ls_profile_add(ls_profile *p, const ls_session *s, int i);
/* Runs that are added after this call belong to this optimizer step, which traces and pages mark. */
void ls_profile_step(ls_profile *p, int64_t step);

/* The runs, in the order in which they were added. */
typedef struct ls_profile_run {
    const ls_plan *plan;
    int64_t step;        /* 0: not said */
    double began;        /* ls_now() */
    const double *times; /* as ls_session_times returns them */
    struct ls_profile_run *next;
} ls_profile_run;
const ls_profile_run *ls_profile_first(const ls_profile *p);

/* Writes complete events: one for each op and each run of a program. Their names are scope path and op; their
 * arguments are types, FLOPs and bytes. Collectives have a track of their own, which shows what starting and
 * waiting cost this rank, and how long each was under way. Replaces the file. */
ls_status ls_trace_write(const char *path, const ls_profile *p);

/* The `top` ops by total time over all runs; calls of one op with the same shapes count together. Columns:
 * calls, time per call, share, GFLOP/s, GB/s, and, if c is given, the share of the machine's nearer limit. */
void ls_profile_table(ls_str *out, const ls_profile *p, const ls_calibration *c, int top);

/* Seconds of each step of a plan: the median over the recorded runs of its program. In memory of the arena.
 */
typedef struct ls_step_times {
    double *seconds; /* [n_steps] */
    int runs;        /* 0: none was recorded */
} ls_step_times;
ls_status ls_profile_times(ls_step_times *out, ls_arena *a, const ls_profile *p, const ls_plan *plan);
/* The same for n plans from a file that ls_trace_write made. LS_E_USAGE: the file is of other plans.
 * LS_E_FORMAT: it is not a trace of ls_trace_write. */
ls_status ls_trace_times(ls_step_times *out, ls_arena *a, const char *path, int n, ls_plan *const *plans);
