/* digest.h - checks that all ranks run the same programs. */
#pragma once
#include "lockstep/group.h"
#include "lockstep/mesh.h"
#include "plan/plan.h"

/* LS_E_USAGE on a rank whose programs differ from those of rank 0 (in a pipeline: of its stage's first rank),
 * with the first lines that differ; the other ranks then return LS_E_PEER. Collective. */
ls_status ls_programs_agree(ls_group *g, const ls_mesh *mesh, int n, ls_plan *const *plans);
