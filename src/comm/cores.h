/* cores.h - decides whether waits may spin: only if each rank of the machine has a core of its own. */
#pragma once
#include "group_own.h"

/* Writes the cores that this process may use into its rank's record. */
void ls_rank_publish_cpus(ls_rank_record *s);
/* Decides whether this group's waits spin. Call it when all ranks of the machine have published their cores.
 */
void ls_group_tune(ls_group *g);
