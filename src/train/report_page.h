/* report_page.h - gathers what report.html shows of a finished loop and writes it. */
#pragma once
#include "loop.h"

ls_status ls_report_page(const ls_loop *l, const ls_calibration *calibration, ls_run_state state);
/* What a step of a plan does, for a reader of the page: "linear_dx (backward) in encoder.ln", "wait for
 * all_gather of unit root". */
const char *ls_report_label(ls_arena *a, const ls_plan *p, int step);
