/* memory_page.h - log/rank-N.memory.html: the memory of a rank over the profiled steps. */
#pragma once
#include "execute/trace.h"
#include "step/trainer.h"

/* Writes one file without external resources: bytes by category over time, the moment of the peak, what was
 * alive then, of which unit and category, and what is there all the time. p NULL: the times are the planned
 * ones. Replaces the file. `peak` (may be NULL) gets a line about the peak. Local. */
ls_status ls_memory_page_write(const char *path, const ls_trainer *t, const ls_profile *p, int rank,
                               ls_str *peak);
