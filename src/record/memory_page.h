/* memory_page.h - log/rank-N.memory.html: what a rank's memory held over the profiled steps. */
#pragma once
#include "execute/trace.h"
#include "step/trainer.h"

/* One file without outside resources: bytes by category over time (p NULL: as planned), the moment of the
 * peak, what was alive then, and what is there all the time. Replaces the file. Local. */
ls_status ls_memory_page_write(const char *path, const ls_trainer *t, const ls_profile *p, int rank);
