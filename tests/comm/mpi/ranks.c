/* ranks.c - started by mpirun (tests/comm/mpi.sh): goes through all that a group can do and compares every
 * bit with ranks that are threads. `ranks fail RANK` leaves with an error on one rank instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "comm/scenes.h"

static ls_status same_bits(ls_group *g)
{
    int n = ls_group_size(g), r = ls_group_rank(g);
    uint64_t mine, expected[n];
    LS_TRY(scenes_run(g, &mine));
    LS_TRY(scenes_run_threads(n, expected));
    if (mine != expected[r])
        return ls_fail(LS_E_INTERNAL, "rank %d has other bits than a thread", r);
    printf("rank %d of %d, %d hosts, %s: the same bits\n", r, n, ls_group_hosts(g), ls_group_kind(g));
    return LS_OK;
}

static ls_status run(ls_group *g, int argc, char **argv)
{
    if (argc < 3)
        return same_bits(g);
    LS_TRY(ls_group_barrier(g));
    if (ls_group_rank(g) == atoi(argv[2]))
        return ls_fail(LS_E_NUMERIC, "the loss is NaN");
    return ls_group_barrier(g);
}

int main(int argc, char **argv)
{
    ls_group *g = NULL;
    ls_status s = ls_group_from_environment(&g);
    if (s == LS_OK)
        s = run(g, argc, argv);
    if (s != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_message());
        if (g)
            ls_group_fail(g, s, ls_error_message());
    }
    ls_group_destroy(&g);
    return s != LS_OK;
}
