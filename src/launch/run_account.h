/* run_account.h - what the parent of a run's ranks writes into the run directory: each restart with its cause
 * (log, metrics.jsonl, result.json), how the run stands meanwhile, and why it failed when none of its ranks
 * could say so. */
#pragma once
#include "controller.h"
#include "lockstep/recipe.h"
#include "loop/resume.h"

typedef struct ls_run_account {
    const ls_recipe *const *recipe; /* the parent may put another in its place */
    const ls_resume_ask *resume;    /* as the ranks have it, and */
    bool allow_change;
    int64_t rows_before; /* bytes of metrics.jsonl when the attempt began */
    struct ls_rundir *run;
} ls_run_account;

/* `r` must outlive it. */
ls_account ls_run_account_of(ls_run_account *r);
