/* report_page.h - writes report.html at the end of a loop. */
#pragma once
#include "loop.h"

ls_status ls_report_page(const ls_loop *l, const ls_calibration *calibration, ls_run_state state);
