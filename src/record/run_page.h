/* run_page.h - report.html of a program of its own: a curve for each metric that it reported. */
#pragma once
#include "rundir.h"

/* Writes DIR/report.html (replaced whole) from what is in DIR; `state` is what the page says. Local. */
ls_status ls_run_page_write(const ls_rundir *d, ls_run_state state);
