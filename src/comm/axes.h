/* axes.h - functions on meshes and layouts for the library only; lockstep/mesh.h and lockstep/parallel.h have
 * the public ones. All are local. */
#pragma once
#include "lockstep/parallel.h"

/* The name of the group of all ranks along the axes with these roles, in the order of the mesh; "": there is
 * no such axis. The text is never freed. roles: a set of LS_ROLE_BIT. */
#define LS_ROLE_BIT(role) (1u << (role))
#define LS_ROLES_DATA \
    (LS_ROLE_BIT(LS_ROLE_REPLICATE) | LS_ROLE_BIT(LS_ROLE_SHARD) | LS_ROLE_BIT(LS_ROLE_EXPERT))
/* of the axes whose ranks have different parameters */
#define LS_ROLES_PARTS (LS_ROLE_BIT(LS_ROLE_TENSOR) | LS_ROLE_BIT(LS_ROLE_PIPELINE))
const char *ls_mesh_axes_of(const ls_mesh *m, unsigned roles);
/* The name of the group of all ranks along the axes that deal no samples ("tp"), "" if there is none. The
 * ranks of such a group compute different parts of the same samples. */
const char *ls_mesh_model_axes(const ls_mesh *m);
/* Whether results of the samples that a rank computes, with others, are taken from this one: of the ranks
 * that compute parts of the same samples it is the first that has the last layers. */
bool ls_mesh_has_results(const ls_mesh *m, int rank);
/* Whether the name of a group contains this axis, as "dp*tp" contains "dp". */
bool ls_mesh_group_has(const char *group, const char *axis);
/* The first of LS_MESH_NAMES with this role (for advice in messages). */
const char *ls_mesh_name(ls_axis_role role);

/* The groups over which the parameters of experts are sharded and replicated: ls_parallel_shard_axes and
 * ls_parallel_replicate_axes without the axis of role expert. */
const char *ls_parallel_expert_shard_axes(const ls_parallel *p);
const char *ls_parallel_expert_replicate_axes(const ls_parallel *p);

/* For a device whose memory is its own: no process maps it, so gather: auto becomes copy. LS_E_UNSUPPORTED:
 * map. device: its name. */
ls_status ls_parallel_apart(ls_parallel *p, const char *device);
