/* controller.h - the parent's side of a run that survives its ranks: starts them, and again from the last
 * checkpoint after a failure that need not repeat, each time as many as there is room for. */
#pragma once
#include "launch.h"
#include "lockstep/recipe.h"

typedef struct ls_control_opts {
    ls_launch_opts ranks;           /* of the first attempt */
    const ls_recipe *const *recipe; /* `choose` may put another in its place */
    const char *resume;             /* as the ranks have it, and */
    bool allow_change;
    /* How many ranks the next attempt has, at most `most` (0: no such limit), within the recipe's range. */
    ls_status (*choose)(void *context, int most, int *workers);
    void *context;
} ls_control_opts;

/* ls_launch, and again up to failure.max_failures times (-1: without end), after a pause, when a rank was
 * killed, crashed or did not come; what any rank said itself (recipe, data, disk, NaN), and a program that
 * cannot be executed, would come again and ends the run. After the kernel killed a rank for want of memory
 * there is one rank fewer, if the recipe allows it. Each failure is told (ls_log_warn) and kept in the run
 * directory, as is the state meanwhile: `restarting`; a run that ends by a failure is `failed`, with its
 * cause, even if none of its ranks could say so. Status as ls_launch; LS_E_STOPPED also when the request came
 * during the pause. Local. */
ls_status ls_control(const ls_control_opts *o);
