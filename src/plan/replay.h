/* replay.h - measures the kernel calls of a plan. */
#pragma once
#include "plan.h"

/* Times the calls of `p` that `c` does not know, and adds them. It takes about as long as a step or two, or
 * for a deep model as a few of its layers, and as much memory as what it touches. LS_E_UNSUPPORTED if the
 * plan is for another machine. Local. */
ls_status ls_calibration_replay(ls_calibration *c, const ls_plan *p);
