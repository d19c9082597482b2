/* report.h - report.html of a run: one file without external resources. Curves, epochs, checkpoints and
 * restarts come from the run's files, everything else from the caller. */
#pragma once
#include "plan/plan.h"
#include "record/rundir.h"

typedef struct ls_report_program { /* one compiled program of the step: micro, update */
    const char *name;
    int n;                           /* schedule positions */
    const ls_timeline_point *points; /* live bytes by category (ls_plan_timeline), with state and io */
    size_t fixed[LS_CAT_COUNT];      /* bytes of state and io in each point */
    const char *const *labels;       /* per position: op and scope; NULL: none */
    int peak;                        /* position of the peak */
    double seconds;                  /* planned time of one run; 0: no calibration */
    size_t arena_bytes;
} ls_report_program;

/* What the run's files do not say. What is NULL or 0 is not known, and the page leaves it out: of a program,
 * and of a run whose ranks were killed. */
typedef struct ls_report {
    const ls_recipe *recipe;    /* NULL: the run of a user's program */
    ls_run_state state;         /* as the page says; result.json says "finished" after the page is written */
    const char *data_note;      /* "fashion-mnist: 60,000 + 10,000 images, from ..." */
    bool builtin_data;          /* the built-in shapes replaced the data; the page says so at its top */
    const char *hardware, *isa; /* "AMD EPYC ...", "avx2"; "NVIDIA H100 ...", "sm_90" */
    int threads;
    /* "2 ranks: dp=2, fsdp in 11 units", and the page shows the part of rank 0; NULL: one rank */
    const char *ranks;
    int n_programs;
    ls_report_program programs[4];
    /* bytes that live between steps; as gradients, those that one program passes to the next */
    size_t state_by_category[LS_CAT_COUNT];
    size_t plan_arena, plan_state, plan_io, plan_staging; /* plan_io: with these gradients */
    double plan_step_seconds;                             /* 0: this machine is not calibrated */
    double plan_step_flops, peak_flops;                   /* peak: FLOP/s of the device; 0: not known */
    double model_flops;                                   /* of a step: ls_compiled_model_flops */
    size_t plan_device, plan_host; /* the parts of a device with memory of its own, and the host's; else 0 */
    double measured_step_seconds;  /* median; 0: no steps */
    double first_step_seconds;     /* 0: not known */
    size_t measured_rss;           /* peak anonymous memory of the process; 0: not known */
    int64_t parameters;            /* number of elements */
} ls_report;

/* Replaces DIR/report.html. Reads DIR/metrics.jsonl; times of the start and metrics come from `d`. Local. */
ls_status ls_report_write(const ls_rundir *d, const ls_report *r);
