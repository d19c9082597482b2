/* cache.h - arguments of cache.cu. A row of features has `words` words. */
#pragma once
#include "types.h"

typedef struct cache_write_args {
    gpu_address cache, x, positions;
    i64 rows, tokens, places, words, x_words; /* x_words: from row to row of x */
} cache_write_args;

/* Places first .. first + n of all sequences. */
typedef struct cache_reorder_args {
    gpu_address cache, from, aside; /* aside: [B, n, words] */
    i64 B, places, words, first, n;
} cache_reorder_args;

enum { CACHE_THREADS = 256 };
