/* runs_page.h - the page of `lockstep runs --html`: all runs of a folder in one table, their curves laid over
 * one another, and the keys in which their recipes differ. */
#pragma once
#include "lockstep/status.h"

/* Writes `path`. Links lead to the report.html of each run that has one, relative to the folder of `path`.
 * LS_E_USAGE: there is no such folder, or no run in it. Local. */
ls_status ls_runs_page_write(const char *path, const char *storage);
