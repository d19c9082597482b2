/* controller.h - the parent's side of a run that survives its ranks: starts them, and again from the last checkpoint after a failure that need not repeat. */
#pragma once
#include "launch.h"
#include "lockstep/recipe.h"

/* ls_launch, and again up to failure.max_failures times (-1: without end), after a pause, when a rank was killed, crashed or did not come; what any rank said itself
 * (recipe, data, disk, NaN) would come again and ends the run. Each failure is told (ls_log_warn) and kept in the run directory of `r`, as is the state meanwhile:
 * `restarting`. `resume`, `allow_change`: as the ranks have them. Status as ls_launch; LS_E_STOPPED also when the request came during the pause. Local. */
ls_status ls_control(const ls_launch_opts *o, const ls_recipe *r, const char *resume, bool allow_change);
