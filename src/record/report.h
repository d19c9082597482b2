/* report.h - report.html of a run: one file without outside resources. Curves come from metrics.jsonl,
 * everything else from the caller. */
#pragma once
#include "plan/plan.h"
#include "rundir.h"

typedef struct ls_report_program { /* one compiled program of the step: micro, update */
    const char *name;
    int n; /* schedule positions */
    /* live bytes by category, as ls_plan_timeline gives them: with the program's own state and io */
    const ls_timeline_point *points;
    size_t fixed[LS_CAT_COUNT]; /* how much of each point that state and io is */
    const char *const *labels;  /* per position: op and scope; NULL: none */
    int peak;                   /* position of the peak */
    double seconds;             /* planned time of one run; 0: no calibration */
    size_t arena_bytes;
} ls_report_program;

typedef struct ls_report {
    const ls_recipe *recipe;
    /* what the page says; the run directory says "finished" when the page is there */
    ls_run_state state;
    const char *data_note; /* "fashion-mnist: 60,000 + 10,000 images, from ..." */
    bool builtin_data;     /* the procedural set stood in: said in the page's head */
    const char *cpu, *isa; /* "AMD EPYC ...", "avx2" */
    int threads;
    /* "2 ranks: dp=2, fsdp in 11 units"; NULL: one. What the page says of a step is then rank 0's part */
    const char *ranks;
    int n_programs;
    ls_report_program programs[4];
    /* bytes that live between steps, and as gradients those that go from one program to the next */
    size_t state_by_category[LS_CAT_COUNT];
    size_t plan_arena, plan_state, plan_io, plan_staging; /* plan_io: with the gradients between programs */
    double plan_step_seconds;                             /* 0: no calibration here */
    double plan_step_flops;
    double measured_step_seconds; /* median; 0: no steps */
    double first_step_seconds;    /* 0: not known */
    size_t measured_rss;          /* peak anonymous memory of the process; 0: not known */
    int64_t parameters;           /* number of elements */
} ls_report;

/* Writes DIR/report.html (replaced whole). Reads DIR/metrics.jsonl; startup and metrics from `d`. Local. */
ls_status ls_report_write(const ls_rundir *d, const ls_report *r);
