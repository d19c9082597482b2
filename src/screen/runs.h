/* runs.h - prints the table of `lockstep runs`. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "lockstep/status.h"

/* Every run directory in `storage`, sorted by name. width: columns of the terminal;
 * 0: no limit. */
ls_status ls_runs_print(FILE *out, const char *storage, bool json, int width);
