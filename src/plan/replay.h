/* replay.h - measures the kernel calls of a plan. */
#pragma once
#include "plan.h"

/* Times the calls of `p` that `c` (or c->host, for a program that runs on the host) does not know, and adds
 * them. It takes about as long as a step or two; for a deep model, as a few of its layers. It needs the
 * memory that these calls touch; on a device whose memory is its own, as much as the program.
 * LS_E_UNSUPPORTED if the plan is for another machine. Local. */
ls_status ls_calibration_replay(ls_calibration *c, const ls_plan *p);
