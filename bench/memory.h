/* memory.h - memory of a benchmark, in huge pages, as a session has it (src/execute/session.c). In pages of
 * 4 KB, rows that lie apart cost walks through the page tables (5 % of attention over 512 tokens). */
#pragma once
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A range of addresses that is handed out from its start. The system gives memory to what is touched. */
static struct {
    char *base;
    size_t used;
} bench_range;
enum { BENCH_RANGE_GIB = 64 };

/* Memory of `bytes`, aligned to 64. Ends the program if there is none. Its contents are undefined. */
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

/* Frees all that bench_memory has given. */
static inline void bench_free_all(void) { bench_range.used = 0; }
