/* program.c - a program that has MPI and communicators of its own, and lends one: backwards, so that ranks
 * must be numbered anew. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/scenes.h"

static ls_status same_bits(MPI_Comm comm)
{
    ls_group *g = NULL;
    uint64_t mine, expected[64];
    int rank;
    MPI_Comm_rank(comm, &rank); /* both calls are one collective */
    LS_TRY(rank % 2 ? ls_group_from_mpi_handle(&g, MPI_Comm_c2f(comm)) : ls_group_from_mpi(&g, &comm));
    int n = ls_group_size(g), r = ls_group_rank(g);
    LS_TRY(scenes_run(g, &mine));
    ls_group_destroy(&g);
    LS_TRY(scenes_run_threads(n, expected));
    if (mine != expected[r])
        return ls_fail(LS_E_INTERNAL, "rank %d has other bits than a thread", r);
    return LS_OK;
}

int main(int argc, char **argv)
{
    int level, rank, sum = 1;
    MPI_Comm backwards;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &backwards);
    if (same_bits(backwards) != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_message());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, backwards); /* MPI is still the program's */
    printf("rank %d of %d: its own communicator\n", rank, sum);
    MPI_Comm_free(&backwards);
    return MPI_Finalize();
}
