/* cache.cu - rows written into a cache, and a cache whose sequences change places. WORD is defined in front:
 * word16, u32 or u16. */
#include "dialect.h"
#include "word.h"
#include "cache.h"

/* A warp has a row of x. Of rows for one place, the last one counts. */
KERNEL(cache_write, cache_write_args, CACHE_THREADS)
{
    const i64 row = BLOCK * (CACHE_THREADS / WARP) + THREAD / WARP, sample = row / a.tokens;
    if (row >= a.rows)
        return;
    const i32 *positions = AT(const i32, a.positions);
    const i64 place = positions[row];
    if (place < 0 || place >= a.places)
        return;
    for (i64 later = row + 1; later < (sample + 1) * a.tokens; later++)
        if (positions[later] == place)
            return;
    const WORD *x = AT(const WORD, a.x) + row * a.x_words;
    WORD *to = AT(WORD, a.cache) + (sample * a.places + place) * a.words;
    for (i64 i = THREAD % WARP; i < a.words; i += WARP)
        to[i] = x[i];
}

/* What moves is set aside, then put where it belongs. */
DEVICE void reorder(const cache_reorder_args *a, int put)
{
    const i64 i = BLOCK * CACHE_THREADS + THREAD, size = a->n * a->words, b = i / size;
    if (b >= a->B)
        return;
    const i64 from = AT(const i32, a->from)[b], at_place = a->first * a->words + i % size,
              whole = a->places * a->words;
    if (from == b || from < 0 || from >= a->B)
        return;
    if (put)
        AT(WORD, a->cache)[b * whole + at_place] = AT(const WORD, a->aside)[i];
    else
        AT(WORD, a->aside)[i] = AT(const WORD, a->cache)[from * whole + at_place];
}
KERNEL(cache_set_aside, cache_reorder_args, CACHE_THREADS) { reorder(&a, 0); }
KERNEL(cache_put, cache_reorder_args, CACHE_THREADS) { reorder(&a, 1); }
