/* cores.h - whether the ranks of a machine have a core each: only then may a wait spin. */
#pragma once
#include "group_own.h"

/* Writes the cores that this process may use into its rank's slot. */
void ls_rank_publish_cpus(ls_rank_slot *s);
/* Decides whether this group's waits spin. Call it when all ranks of the machine have published their cores.
 */
void ls_group_tune(ls_group *g);
