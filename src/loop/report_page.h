/* report_page.h - gathers what report.html shows of a finished loop and writes it. */
#pragma once
#include "loop.h"

ls_status ls_report_page(const ls_loop *l, const ls_calibration *calibration, ls_run_state state);
