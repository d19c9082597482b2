/* trace.h - profiles of runs: a Chrome trace (chrome://tracing, ui.perfetto.dev) and a table of where the
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

/* Takes the times of the latest run of plan i. Copies; allocates, so between steps only. */
void ls_profile_add(ls_profile *p, const ls_session *s, int i);
/* The runs that are added from now on are of this optimizer step, which traces and pages mark. */
void ls_profile_step(ls_profile *p, int64_t step);
int ls_profile_runs(const ls_profile *p);

/* The runs in the order in which they were added. */
typedef struct ls_profile_run {
    const ls_plan *plan;
    int64_t step;        /* 0: not said */
    double began;        /* ls_now() */
    const double *times; /* as ls_session_times gives them: n_steps starts, n_steps durations */
    struct ls_profile_run *next;
} ls_profile_run;
const ls_profile_run *ls_profile_first(const ls_profile *p);

/* Complete events, one per op and one per program run; names are scope path + op, args carry types, FLOPs and
 * bytes. Collectives have a track of their own: what starting and waiting cost this rank, and from when to
 * when each was under way. Replaces the file. */
ls_status ls_trace_write(const char *path, const ls_profile *p);

/* The `top` ops by summed time over all runs, ops of one kind and shape taken together: calls, time per call,
 * share, GFLOP/s, GB/s, and the share of what the machine can do (the nearer of its two limits) when c is
 * given. */
void ls_profile_table(ls_str *out, const ls_profile *p, const ls_calibration *c, int top);
