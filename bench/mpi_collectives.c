/* mpi_collectives.c - MPI's collectives at the sizes of bench/collectives.c, from private into private
 * memory: `mpirun -n 2 bench_mpi_collectives [MB]`. Prints one JSON line a size, with the seconds of each:
 * the best of several turns, as the slowest rank saw it. Built only where Open MPI is. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ROWS };
static const char *const NAMES[ROWS] = { "all_reduce", "reduce_scatter", "all_gather" };

static char *room(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static void once(int row, const char *from, char *to, int whole, int part)
{
    if (row == ALL_REDUCE)
        MPI_Allreduce(from, to, whole, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (row == REDUCE_SCATTER)
        MPI_Reduce_scatter_block(from, to, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Allgather(from, part, MPI_FLOAT, to, part, MPI_FLOAT, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const size_t most = (size_t)(argc > 1 ? atoi(argv[1]) : 256) << 20,
                 sizes[] = { 64 << 10, 1 << 20, 16 << 20, 256 << 20 };
    char *from = room(most), *to = room(most);
    for (int i = 0; i < 4 && sizes[i] <= most; i++) {
        const int whole = (int)(sizes[i] / sizeof(float)),
                  times = sizes[i] >= 8u << 20 ? 1 : (int)((8u << 20) / sizes[i]);
        double best[ROWS] = { 0 };
        for (int turn = -1; turn < (sizes[i] > 64u << 20 ? 9 : 25); turn++)
            for (int row = 0; row < ROWS; row++) {
                MPI_Barrier(MPI_COMM_WORLD);
                double seconds = -MPI_Wtime();
                for (int k = 0; k < times; k++)
                    once(row, from, to, whole, whole / ranks);
                seconds = (seconds + MPI_Wtime()) / times;
                MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
                best[row] = turn < 0 || seconds < best[row] ? seconds : best[row];
            }
        if (rank == 0) {
            printf("{\"bytes\": %zu", sizes[i]);
            for (int row = 0; row < ROWS; row++)
                printf(", \"%s\": %.3e", NAMES[row], best[row]);
            puts("}");
        }
    }
    MPI_Finalize();
    return 0;
}
