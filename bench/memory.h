/* memory.h - memory of a benchmark, in huge pages, as a session has it (src/execute/session.c). In pages of
 * 4 KB, rows that lie apart cost walks through the page tables (5 % of attention over 512 tokens). */
#pragma once
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* All memory lies one behind the other in one range, of which only what is used is there. */
static struct {
    char *base;
    size_t used;
} bench_range;
enum { BENCH_RANGE_GIB = 64 };

/* `bytes` that are zero at first use, aligned to 64. */
static inline void *bench_memory(size_t bytes)
{
    const size_t all = (size_t)BENCH_RANGE_GIB << 30;
    if (!bench_range.base) {
        const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *at = mmap(NULL, all, PROT_READ | PROT_WRITE, kind, -1, 0);
        if (at == MAP_FAILED) {
            perror("mmap");
            exit(1);
        }
        madvise(at, all, MADV_HUGEPAGE);
        bench_range.base = at;
    }
    char *at = bench_range.base + bench_range.used;
    bench_range.used += (bytes + 127) / 64 * 64;
    if (bench_range.used > all) {
        fprintf(stderr, "a benchmark has no more than %d GiB\n", BENCH_RANGE_GIB);
        exit(1);
    }
    return at;
}

/* Starts again: everything is free, and holds what it held. */
static inline void bench_free_all(void) { bench_range.used = 0; }
