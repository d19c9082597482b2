/* collectives.c - collectives of two ranks of this machine beside copying memory: operands in windows,
 * results in private memory.
 *
 *   bench_collectives [MB]
 *
 * A size is that of the whole buffer: of an all-reduce, of a gather's result, of a scatter's operand; up to
 * MB, 256. Prints one JSON line a size: seconds of memcpy of such a buffer on both ranks at once, and of each
 * collective ("map": a gather into memory that the ranks share). Each is the best of several turns, in which
 * they follow each other; a turn takes as long as its slower rank. bench/compare_collectives.py sets
 * bench/mpi_collectives beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/clock.h"
#include "processes.h"

enum { RANKS = 2 };
enum { COPY, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, MAP, ROWS };
static const char *const NAMES[ROWS] = { "memcpy", "all_reduce", "reduce_scatter", "all_gather", "map" };

typedef struct bench {
    ls_group *group;
    ls_axis *world;
    ls_window *window;
    char *from, *to; /* private */
    ls_collective *collectives[ROWS];
} bench;

static char *room(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LS_CHECK(p != MAP_FAILED);
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 1, bytes);
    return p;
}

static ls_status once(bench *b, int row, size_t bytes)
{
    if (row == COPY) {
        memcpy(b->to, b->from, bytes);
        __asm__ volatile("" ::: "memory");
        return LS_OK;
    }
    LS_TRY(ls_collective_start(b->collectives[row]));
    return ls_collective_wait(b->collectives[row]);
}

/* Seconds of one call, as the slowest rank saw it. */
static ls_status turn(bench *b, int row, size_t bytes, int times, double *seconds)
{
    LS_TRY(ls_group_barrier(b->group));
    double start = ls_now();
    for (int i = 0; i < times; i++)
        LS_TRY(once(b, row, bytes));
    *seconds = (ls_now() - start) / times;
    return ls_group_all_reduce(b->group, seconds, 1, LS_F64, LS_REDUCE_MAX);
}

static ls_status prepare(bench *b, size_t bytes)
{
    const int64_t whole = (int64_t)(bytes / sizeof(float)), part = whole / RANKS;
    const struct {
        ls_collective_kind kind;
        int64_t count;
    } kinds[ROWS] = { [ALL_REDUCE] = { LS_ALL_REDUCE, whole },
                      [REDUCE_SCATTER] = { LS_REDUCE_SCATTER, part },
                      [ALL_GATHER] = { LS_ALL_GATHER, part },
                      [MAP] = { LS_ALL_GATHER, part } };
    LS_TRY(ls_window_create(&b->window, b->world, bytes, bytes));
    memset(b->window->mine, 0, bytes);
    for (int row = ALL_REDUCE; row < ROWS; row++)
        LS_TRY(ls_collective_create(&b->collectives[row],
                                    &(ls_collective_desc){ .kind = kinds[row].kind,
                                                           .axis = b->world,
                                                           .count = kinds[row].count,
                                                           .from = LS_F32,
                                                           .to = LS_F32,
                                                           .via = LS_F32,
                                                           .window = b->window,
                                                           .result = row == MAP ? NULL : b->to,
                                                           .map_to = row == MAP ? b->window->shared : NULL,
                                                           .threads = 1,
                                                           .label = NAMES[row] }));
    return LS_OK;
}

static ls_status measure(bench *b, size_t bytes)
{
    LS_TRY(prepare(b, bytes));
    double best[ROWS], seconds;
    const int times = bytes >= 8u << 20 ? 1 : (int)((8u << 20) / bytes), turns = bytes > 64u << 20 ? 9 : 25;
    for (int i = -1; i < turns; i++) /* the first touches pages */
        for (int row = 0; row < ROWS; row++) {
            LS_TRY(turn(b, row, bytes, times, &seconds));
            best[row] = i < 0 || seconds < best[row] ? seconds : best[row];
        }
    if (ls_group_rank(b->group) == 0) {
        printf("{\"bytes\": %zu", bytes);
        for (int row = 0; row < ROWS; row++)
            printf(", \"%s\": %.3e", NAMES[row], best[row]);
        puts("}");
    }
    for (int row = ALL_REDUCE; row < ROWS; row++)
        ls_collective_destroy(&b->collectives[row]);
    ls_window_destroy(&b->window);
    return ls_group_barrier(b->group);
}

static ls_status run(bench *b, size_t most)
{
    LS_TRY(processes_start(&b->group, RANKS));
    LS_TRY(ls_axis_create(&b->world, b->group, "all", RANKS, (const int[RANKS]){ 0, 1 }));
    b->from = room(most);
    b->to = room(most);
    static const size_t sizes[] = { 64 << 10, 1 << 20, 16 << 20, 256 << 20 };
    for (int i = 0; i < 4 && sizes[i] <= most; i++)
        LS_TRY(measure(b, sizes[i]));
    ls_axis_destroy(&b->world);
    return LS_OK;
}

int main(int argc, char **argv)
{
    bench b = { 0 };
    int most = argc > 1 ? atoi(argv[1]) : 256;
    if (argc > 2 || most < 1) {
        fprintf(stderr, "usage: bench_collectives [MB]\n");
        return 2;
    }
    return processes_end("bench_collectives", &b.group, run(&b, (size_t)most << 20));
}
