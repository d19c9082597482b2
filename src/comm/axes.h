/* axes.h - what the library asks of a mesh beside lockstep/mesh.h. Local. */
#pragma once
#include "lockstep/mesh.h"

/* Name of the group of all ranks along the axes that deal no samples: "tp", "" when there is none. Its ranks
 * compute the same samples, each its part of them. Lives as long as the process. */
const char *ls_mesh_model_axes(const ls_mesh *m);
/* Whether an axis is one of those that name a group: "dp" of "dp*tp". */
bool ls_mesh_group_has(const char *group, const char *axis);
/* The first of LS_MESH_NAMES with that role: for advice. */
const char *ls_mesh_name(ls_axis_role role);
