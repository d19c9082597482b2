/* run_account.h - what the parent of the ranks writes to the run directory: each restart with its cause (log,
 * metrics.jsonl, result.json), the state between two attempts, and the failure of the run if no rank could
 * write it. The recipe names the run directory of `lockstep train`. Which one a user's program has, if any,
 * its rank 0 tells (ls_group_names_run). One that this host does not see is left alone, with a warning. */
#pragma once
#include "comm/control.h"
#include "controller.h"
#include "lockstep/recipe.h"
#include "loop/resume.h"

typedef struct ls_run_account {
    const ls_recipe *const *recipe;  /* the parent may replace the recipe; NULL: a user's program */
    const ls_resume_ask *resume;     /* as the ranks have it */
    bool allow_change;               /* the same */
    char program[LS_RUN_PATH_BYTES]; /* of a program's last attempt (ls_launch_opts.run) */
    int64_t rows_before;             /* bytes of metrics.jsonl when the attempt began */
    struct ls_rundir *run;           /* NULL: none is recorded */
} ls_run_account;

/* *r must stay valid as long as the result is used. */
ls_account ls_run_account_of(ls_run_account *r);
