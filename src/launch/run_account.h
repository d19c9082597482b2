/* run_account.h - what the parent of the ranks writes to the run directory: each restart with its cause (log,
 * metrics.jsonl, result.json), the state between two attempts, and the failure of the run if no rank could
 * write it. */
#pragma once
#include "controller.h"
#include "lockstep/recipe.h"
#include "loop/resume.h"

typedef struct ls_run_account {
    const ls_recipe *const *recipe; /* the parent may replace the recipe */
    const ls_resume_ask *resume;    /* as the ranks have it */
    bool allow_change;              /* the same */
    int64_t rows_before;            /* bytes of metrics.jsonl when the attempt began */
    struct ls_rundir *run;
} ls_run_account;

/* *r must stay valid as long as the result is used. */
ls_account ls_run_account_of(ls_run_account *r);
