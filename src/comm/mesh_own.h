/* mesh_own.h - arithmetic on meshes that the public header does not offer. */
#pragma once
#include "lockstep/mesh.h"

/* The rank at `position` in the group `name` (ls_mesh_group) of `rank`; -1: there is no such group. Local. */
int ls_mesh_member(const ls_mesh *m, int rank, const char *name, int position);
