/* mesh.h - named axes over ranks. Rank numbers run row-major: the last axis varies fastest, so its groups are
 * neighbours (one host). What an axis does is its role: the axes of roles replicate, shard and expert split
 * data, the data ranks are all positions along them. The ranks of role expert also have different experts of
 * a mixture of experts, to which the tokens of all of them go. The ranks of role context have the same
 * samples and split their tokens; the ranks of role tensor have the same samples and split layers; the ranks
 * of role pipeline have different layers, one after the other. Names are free. Those of LS_MESH_NAMES have a
 * role of their own, which another one may replace. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_MESH_AXES 8

typedef enum ls_axis_role {
    LS_ROLE_OF_NAME,
    LS_ROLE_REPLICATE,
    LS_ROLE_SHARD,
    LS_ROLE_TENSOR,
    LS_ROLE_CONTEXT,
    LS_ROLE_PIPELINE,
    LS_ROLE_EXPERT
} ls_axis_role;
/* Names that need no role, and the role that each has then, in recipes as in programs. */
#define LS_MESH_NAMES(X)                  \
    X("dp", LS_ROLE_REPLICATE)            \
    X("data_parallel", LS_ROLE_REPLICATE) \
    X("shard", LS_ROLE_SHARD)             \
    X("tp", LS_ROLE_TENSOR)               \
    X("cp", LS_ROLE_CONTEXT)              \
    X("pp", LS_ROLE_PIPELINE)             \
    X("ep", LS_ROLE_EXPERT)

typedef struct ls_mesh {
    int n;
    /* outermost first; size 0 in a specification: auto */
    struct {
        char name[24];
        int64_t size;
    } axes[LS_MESH_AXES];
    ls_axis_role roles[LS_MESH_AXES]; /* each once; by default those of the names */
} ls_mesh;
/* The name of the axis with that role; "", a group of one, when there is none. The text lives as long as the
 * process. Local. */
LS_API const char *ls_mesh_axis(const ls_mesh *m, ls_axis_role role);

/* Gives the `auto` axis what the others leave of `ranks`. LS_E_USAGE with the arithmetic ("dp 2 x shard 3 =
 * 6, but there are 4 ranks") when the product is another one; also for two autos, a size below 1, a name or a
 * role twice, a name without a role. Local. */
LS_API ls_status ls_mesh_resolve(ls_mesh *out, const ls_mesh *specification, int64_t ranks);
LS_API int64_t ls_mesh_ranks(const ls_mesh *m);

/* A group of ranks along axes, by name: "dp"; "dp*shard" (all ranks that differ in those only); "dp/2"
 * (blocks of 2 neighbours along dp). A name of axes that the mesh does not have is a group of one. `members`
 * (room for ls_mesh_ranks) gets the ranks of the group that `rank` is in, ascending along the axes; returns
 * how many, or -1 for a malformed name and for blocks that do not divide; *position is rank's place among
 * them. The order of axes in a name says nothing: members are always ascending. "" is a group of one. Local.
 */
LS_API int ls_mesh_group(const ls_mesh *m, int rank, const char *name, int *members, int *position);
/* Rank's place in that group, and the group's size, without listing it; -1 as there. These and those below
 * are local. */
LS_API int ls_mesh_position(const ls_mesh *m, int rank, const char *name);
LS_API int ls_mesh_group_size(const ls_mesh *m, const char *name);
/* Which of the ls_mesh_ranks / ls_mesh_group_size groups of that name `rank` is in: for memory that each
 * group has once. */
LS_API int ls_mesh_group_index(const ls_mesh *m, int rank, const char *name);

LS_API int ls_mesh_data_ranks(const ls_mesh *m); /* product of the data axes */
LS_API int ls_mesh_data_rank(const ls_mesh *m, int rank);
/* "dp", "shard", "dp*shard": name of the group of all data ranks; "" when there is no such axis. Lives as
 * long as the process */
LS_API const char *ls_mesh_data_axes(const ls_mesh *m);
/* "dp=2 x shard=2" into text. */
LS_API const char *ls_mesh_text(char text[128], const ls_mesh *m);

#ifdef __cplusplus
}
#endif
