/* group.h - a process group: the ranks that train one model together. Each rank holds one ls_group; all ranks
 * make the same calls on it in the same order. Calls marked *collective* return on a rank only when the
 * others have made them too.
 *
 * One thread at a time uses a rank's group, any thread. Ranks that make different calls, or the same with
 * other counts, types or roots, all get LS_E_ARG, which says what differs; nothing has moved, and the group
 * can be used on. Comparing costs nothing that can be measured among the ranks of a host, and a message of 16
 * bytes for each call between hosts.
 *
 * A wait has a deadline (ls_group_set_deadline). When a rank does not come, or has failed or died, every
 * waiting call on every rank ends with LS_E_PEER and one message that names the rank, what was waited for,
 * and what the missing rank did last. After LS_E_PEER the group can only be destroyed. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_group ls_group;

/* A group of one: no other rank, no waiting. */
LS_API ls_status ls_group_self(ls_group **out);

/* `ranks` groups for as many threads of this process; out[r] is rank r's and is used, and destroyed, by one
 * thread. Local. */
LS_API ls_status ls_group_threads(ls_group **out, int ranks);

/* This process's place as its environment tells it: started by `lockstep --workers` (shared memory), by
 * mpirun or srun (the MPI module, shared memory inside each host), by torchrun-style variables (RANK,
 * WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE; one host only), or a group of one. Collective over the ranks that
 * were started together. */
LS_API ls_status ls_group_from_environment(ls_group **out);

/* Over a communicator of the caller's program: `comm` points to its MPI_Comm (for the module lockstep-mpi.so
 * was built for). The communicator is duplicated; MPI must be initialised with MPI_THREAD_MULTIPLE, and is
 * never finalised here. Collective over the communicator. */
LS_API ls_status ls_group_from_mpi(ls_group **out, const void *comm);
/* The same for other languages, which hold a communicator as an integer: `comm` in Fortran's mpi module,
 * `comm%MPI_VAL` in mpi_f08, MPI_Comm_c2f in C. LS_E_UNSUPPORTED where the program is not linked with MPI. */
LS_API ls_status ls_group_from_mpi_handle(ls_group **out, int comm);

LS_API void ls_group_destroy(ls_group **g); /* nulls *g; null is fine. Local. */

LS_API int ls_group_rank(const ls_group *g);
LS_API int ls_group_size(const ls_group *g);
LS_API int ls_group_hosts(const ls_group *g);
LS_API int ls_group_local_rank(const ls_group *g); /* among the ranks on this host */
LS_API int ls_group_local_size(const ls_group *g);
LS_API const char *ls_group_kind(const ls_group *g);            /* "self", "thread", "shm", "mpi" */
LS_API void ls_group_set_deadline(ls_group *g, double seconds); /* of every wait; default 300 */

LS_API ls_status ls_group_barrier(ls_group *g); /* collective */

typedef enum ls_reduction { LS_REDUCE_SUM, LS_REDUCE_MAX } ls_reduction;
/* On memory of the caller's own, staged through shared memory or messages; for programs that need a number
 * from every rank. `count` elements of f32, f64, i32 or i64. Sums associate in the balanced tree over ranks:
 * (0+1)+(2+3). Collective. */
LS_API ls_status ls_group_all_reduce(ls_group *g, void *data, int64_t count, ls_dtype dtype,
                                     ls_reduction how);
/* all: [size][bytes]. Collective. */
LS_API ls_status ls_group_all_gather(ls_group *g, const void *mine, size_t bytes, void *all);
/* Collective. */
LS_API ls_status ls_group_broadcast(ls_group *g, void *data, size_t bytes, int root);

/* This rank cannot go on: the others' waits end with LS_E_PEER and this message. The first rank to fail is
 * the one that is heard. Local. */
LS_API void ls_group_fail(ls_group *g, ls_status code, const char *message);

#ifdef __cplusplus
}
#endif
