/* embedding_grad.cu - the gradient of a table: each row is the sum of dy over the places that read it, in
 * their order. The places are sorted by row number, with a stable sort by digits of 8 bits; so no atomics are
 * needed, and the bits do not depend on the order of blocks. X and VECTOR (1: pieces of 16 bytes) are
 * defined in front. */
#include "dialect.h"
#include "word.h"
#include "tokens.h"

/* ---- one pass of the sort. Blocks of threads have tiles of SORT_TILE places, in groups of a warp's size. */

enum { GROUPS = SORT_TILE / WARP };

typedef struct sort_shared {
    u8 digits[SORT_TILE];
    u8 counts[GROUPS][SORT_DIGITS]; /* in a group */
    u32 before[SORT_DIGITS];        /* of the tile: where places with this digit go to */
    u32 sums[SORT_DIGITS];
} sort_shared;

/* The row number of a place, `rows` if it has none; and its position. */
DEVICE u32 row_of(const sort_args *a, i64 i, u32 *place)
{
    if (!a->ids) {
        *place = AT(const u32, a->from_places)[i];
        return AT(const u32, a->from_rows)[i];
    }
    const i64 row = AT(const i32, a->ids)[i] - a->first;
    *place = (u32)i;
    return (u32)(row >= 0 && row < a->rows ? row : a->rows);
}

/* How many places of each group have each digit; the threads' digits. */
DEVICE void count_groups(const sort_args *a, sort_shared *s, i64 from, int n)
{
    u32 place;
    for (int i = THREAD; i < n; i += SORT_THREADS)
        s->digits[i] = (u8)(row_of(a, from + i, &place) >> a->shift);
    for (int g = 0; g < GROUPS; g++)
        s->counts[g][THREAD] = 0;
    BARRIER();
    for (int i = THREAD; i < n; i += SORT_THREADS) {
        const int group = i / WARP * WARP;
        int same = 0, last = 1;
        for (int j = group; j < group + WARP && j < n; j++)
            if (s->digits[j] == s->digits[i]) {
                same++;
                last = j <= i;
            }
        if (last)
            s->counts[i / WARP][s->digits[i]] = (u8)same;
    }
    BARRIER();
}

KERNEL_SHARED(sort_count, sort_args, SORT_THREADS, sort_shared)
{
    const i64 from = BLOCK * SORT_TILE;
    count_groups(&a, s, from, (int)(a.n - from < SORT_TILE ? a.n - from : SORT_TILE));
    u32 sum = 0;
    for (int g = 0; g < GROUPS; g++)
        sum += s->counts[g][THREAD];
    AT(u32, a.counts)[BLOCK * SORT_DIGITS + THREAD] = sum;
}

KERNEL_SHARED(sort_move, sort_args, SORT_THREADS, sort_shared)
{
    const i64 from = BLOCK * SORT_TILE;
    const int n = (int)(a.n - from < SORT_TILE ? a.n - from : SORT_TILE);
    u32 before = 0, sum = 0;
    for (i64 b = 0; b < a.blocks; b++) { /* of this thread's digit */
        const u32 count = AT(const u32, a.counts)[b * SORT_DIGITS + THREAD];
        before += b < BLOCK ? count : 0;
        sum += count;
    }
    s->sums[THREAD] = sum;
    count_groups(&a, s, from, n);
    for (int d = 0; d < THREAD; d++)
        before += s->sums[d];
    s->before[THREAD] = before;
    BARRIER();
    for (int i = THREAD; i < n; i += SORT_THREADS) {
        const int digit = s->digits[i];
        u32 place, to = s->before[digit];
        for (int g = 0; g < i / WARP; g++)
            to += s->counts[g][digit];
        for (int j = i / WARP * WARP; j < i; j++)
            to += s->digits[j] == digit;
        AT(u32, a.to_rows)[to] = row_of(&a, from + i, &place);
        AT(u32, a.to_places)[to] = place;
    }
}

/* ---- sums */

KERNEL(sum_bounds, embedding_grad_args, SUM_THREADS)
{
    const i64 i = BLOCK * SUM_THREADS + THREAD;
    const u32 *sorted = AT(const u32, a.sorted);
    if (i >= a.n || sorted[i] >= a.rows)
        return;
    if (i == 0 || sorted[i - 1] != sorted[i])
        AT(u32, a.starts)[sorted[i]] = (u32)i;
    if (i + 1 == a.n || sorted[i + 1] != sorted[i])
        AT(u32, a.ends)[sorted[i]] = (u32)i + 1;
}

enum { V = VECTOR ? 16 / (int)sizeof(X) : 1 };
typedef union piece {
    word16 word;
    X x[V];
} piece;

DEVICE piece piece_read(const X *x)
{
    piece p;
#if VECTOR
    p.word = *(const word16 *)x;
#else
    p.x[0] = *x;
#endif
    return p;
}

/* The sum of dy at places from .. end - 1 of the order, from column c on. */
DEVICE void sum_places(const embedding_grad_args *a, float sum[V], u32 from, u32 end, i64 c)
{
    UNROLL for (int e = 0; e < V; e++) sum[e] = 0;
    for (u32 i = from; i < end; i++) {
        const piece p = piece_read(AT(const X, a->dy) + AT(const u32, a->places)[i] * a->dy_row + c);
        UNROLL for (int e = 0; e < V; e++) sum[e] = sum[e] + LOAD(X, p.x, e);
    }
}

/* A warp has a place of the order. If it begins a part of a row that has several, the warp sums it. */
KERNEL(sum_parts, embedding_grad_args, SUM_THREADS)
{
    const i64 i = BLOCK * (SUM_THREADS / WARP) + THREAD / WARP;
    if (i >= a.n)
        return;
    const u32 row = AT(const u32, a.sorted)[i];
    if (row >= a.rows)
        return;
    const u32 start = AT(const u32, a.starts)[row], end = AT(const u32, a.ends)[row], number = (u32)i - start;
    if (end - start <= SUM_PART || number % SUM_PART)
        return;
    float *to = AT(float, a.parts) + (start / SUM_SLOT + number / SUM_PART) * a.k;
    for (i64 c = THREAD % WARP * V; c < a.k; c += WARP * V) {
        float sum[V];
        sum_places(&a, sum, (u32)i, end - (u32)i < SUM_PART ? end : (u32)i + SUM_PART, c);
        UNROLL for (int e = 0; e < V; e++) to[c + e] = sum[e];
    }
}

/* A warp has a row of the table. */
KERNEL(sum_rows, embedding_grad_args, SUM_THREADS)
{
    const i64 row = BLOCK * (SUM_THREADS / WARP) + THREAD / WARP;
    if (row >= a.rows)
        return;
    const u32 start = AT(const u32, a.starts)[row], end = AT(const u32, a.ends)[row];
    const float *parts = AT(const float, a.parts) + start / SUM_SLOT * a.k;
    X *to = AT(X, a.dtable) + row * a.k;
    const X *addend = AT(const X, a.addend) + row * a.k;
    if (start == end && a.addend == a.dtable)
        return;
    for (i64 c = THREAD % WARP * V; c < a.k; c += WARP * V) {
        float sum[V];
        piece p;
        if (end - start <= SUM_PART)
            sum_places(&a, sum, start, end, c);
        else {
            UNROLL for (int e = 0; e < V; e++) sum[e] = 0;
            for (u32 i = 0; i * SUM_PART < end - start; i++)
                UNROLL for (int e = 0; e < V; e++) sum[e] = sum[e] + parts[i * a.k + c + e];
        }
        if (a.addend) { /* the unfused graph stores the sum before it adds */
            p = piece_read(addend + c);
            if (start != end)
                UNROLL for (int e = 0; e < V; e++) STORE(X, p.x, e, ROUNDED(X, sum[e]) + LOAD(X, p.x, e));
        } else
            UNROLL for (int e = 0; e < V; e++) STORE(X, p.x, e, sum[e]);
#if VECTOR
        *(word16 *)(to + c) = p.word;
#else
        to[c] = p.x[0];
#endif
    }
}
