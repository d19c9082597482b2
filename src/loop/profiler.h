/* profiler.h - which steps of a run are profiled, and what is written of them. A schedule is that of
 * torch.profiler: after `skip` steps of this start, cycles of `wait` steps that are left alone, `warmup`
 * steps that are timed and forgotten, and `active` steps that are recorded. Each cycle, a repetition,
 * writes its own files to RUN/log: a trace and a page of memory for each rank. A run without a schedule
 * measures its steps 2 to 5 and shows the times in step.html; it writes no other file. */
#pragma once
#include "execute/trace.h"
#include "plan/plan.h"
#include "record/rundir.h"
#include "step/trainer.h"

typedef struct ls_profile_schedule {
    int64_t skip, wait, warmup, active;
    int64_t repeat; /* repetitions; 0: until the run ends */
} ls_profile_schedule;

typedef enum ls_profile_phase { LS_PROFILE_OFF, LS_PROFILE_WARMUP, LS_PROFILE_ACTIVE } ls_profile_phase;
/* Of step k of this start, counted from 0. *repetition: from 1; *last: the repetition ends with this step. */
ls_profile_phase ls_profile_phase_of(const ls_profile_schedule *s, int64_t k, int64_t *repetition,
                                     bool *last);

typedef struct ls_profiler {
    ls_profile_schedule schedule; /* active 0: only the first steps are measured, for step.html */
    ls_profile *taking;           /* of the repetition that is being recorded; NULL: none */
    int64_t repetition, first;    /* its number, and its first step as the run counts */
    int runs[LS_PROGRAMS];        /* of each program, that are recorded */
    ls_arena arena;               /* of `times` */
    ls_step_times times[LS_EVAL]; /* LS_MICRO, LS_UPDATE: of the last repetition */
} ls_profiler;

/* What ls_step_view takes; NULL: the run had too few steps. Valid until ls_profiler_release. */
const ls_step_times *ls_profiler_times(const ls_profiler *p);

/* Before step `step` of the run (from 1), which is step k of this start. Local. */
ls_status ls_profiler_before(ls_profiler *p, ls_trainer *t, int64_t step, int64_t k);
/* After it: writes the files of a repetition that ended. `c` NULL: nothing is known of the machine. `out`:
 * where rank 0 prints a table; NULL: it says nothing. Local. */
ls_status ls_profiler_after(ls_profiler *p, ls_trainer *t, const ls_rundir *d, const ls_calibration *c,
                            FILE *out, int64_t step, int64_t k);
/* The run has no more steps: writes what was recorded of the repetition under way. Local. */
ls_status ls_profiler_end(ls_profiler *p, ls_trainer *t, const ls_rundir *d, const ls_calibration *c,
                          FILE *out, int64_t step);
void ls_profiler_release(ls_profiler *p);
