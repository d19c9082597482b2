/* digest.h - checks that all ranks run the same programs. */
#pragma once
#include "lockstep/group.h"
#include "plan/plan.h"

/* LS_E_USAGE on a rank whose programs differ from those of rank 0, with the first lines that differ; the
 * other ranks then return LS_E_PEER. Collective. */
ls_status ls_programs_agree(ls_group *g, int n, ls_plan *const *plans);
