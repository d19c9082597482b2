/* run_page.h - report.html of a user's program: a curve for each metric that it reported. */
#pragma once
#include "record/rundir.h"

/* Replaces DIR/report.html, made from the files in DIR. The page shows `state`. Local. */
ls_status ls_run_page_write(const ls_rundir *d, ls_run_state state);
