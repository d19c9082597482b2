/* groups.cu - rows that go to groups: the largest elements of a row, what follows a sort of rows by group,
 * rows copied into that order and added up from it. Defined in front: X; WORD for dispatch (word16, u32 or
 * u16); VECTOR for combine (1: pieces of 16 bytes). */
#include "dialect.h"
#include "groups.h"
#include "place.h"
#include "word.h"

#if defined(WORD)
KERNEL(dispatch, dispatch_args, GROUP_THREADS)
{
    const i64 i = BLOCK * GROUP_THREADS + THREAD, row = quotient(i, a.words), w = i - row * a.words;
    if (row >= a.rows)
        return;
    const i64 from = AT(const i32, a.order)[row];
    union {
        word16 all;
        WORD word;
    } value;
    value.all.w[0] = value.all.w[1] = value.all.w[2] = value.all.w[3] = a.nan;
    if (from >= 0 && from < a.rows)
        value.word = AT(const WORD, a.x)[quotient(from, a.k) * a.words + w];
    AT(WORD, a.y)[i] = value.word;
}
#else

/* Numbers in the order of their keys; NaN is the largest, and both zeros are equal. No key is 0 or 2^32 - 1.
 */
DEVICE u32 key_of(float x)
{
    const u32 b = bits_of(x);
    if (is_nan(x))
        return 0xfffffffeu;
    return x == 0.0f ? 0x80000000u : b & 0x80000000u ? ~b : b | 0x80000000u;
}

/* A warp has a row. It looks k times for the largest element behind the one before it, in the order of keys
 * and, of equal ones, of their places. */
KERNEL(top_k, top_k_args, GROUP_THREADS)
{
    const i64 row = BLOCK * (GROUP_THREADS / WARP) + THREAD / WARP;
    if (row >= a.rows)
        return;
    const X *x = AT(const X, a.x) + row * a.n;
    u64 before = ~(u64)0;
    for (i64 s = 0; s < a.k; s++) {
        u64 best = 0;
        for (i64 e = THREAD % WARP; e < a.n; e += WARP) {
            const u64 at = (u64)key_of(LOAD(X, x, e)) << 32 | (0xffffffffu - (u32)e);
            best = at < before && at > best ? at : best;
        }
        for (int mask = WARP / 2; mask; mask /= 2) {
            const u64 other = WARP_XOR(best, mask);
            best = other > best ? other : best;
        }
        const i64 found = (i64)(0xffffffffu - (u32)best);
        if (THREAD % WARP == 0) {
            AT(X, a.values)[row * a.k + s] = x[found];
            AT(i32, a.numbers)[row * a.k + s] = (i32)found;
        }
        before = best;
    }
}

/* A thread has a row of the order. It says where the groups behind that of the row before begin, up to its
 * own; the last one also where those behind its own do. */
KERNEL(group_places, group_places_args, GROUP_THREADS)
{
    const i64 j = BLOCK * GROUP_THREADS + THREAD;
    if (j >= a.n)
        return;
    const u32 *sorted = AT(const u32, a.sorted);
    i32 *offsets = AT(i32, a.offsets);
    AT(i32, a.place)[AT(const i32, a.order)[j]] = (i32)j;
    for (i64 g = j ? (i64)sorted[j - 1] + 1 : 0; g <= (i64)sorted[j]; g++)
        offsets[g] = (i32)j;
    for (i64 g = (i64)sorted[j] + 1; j + 1 == a.n && g <= a.groups; g++)
        offsets[g] = (i32)a.n;
}

/* A thread has an offset: the rows of all ranks before, and of the groups before of its own rank. */
KERNEL(received_groups, received_groups_args, GROUP_THREADS)
{
    const i64 i = BLOCK * GROUP_THREADS + THREAD, rank = i / a.own;
    const i32 *begins = AT(const i32, a.begins) + a.first;
    i32 at = 0;
    if (i > a.groups)
        return;
    for (i64 r = 0; r < rank; r++)
        at += begins[r * (a.groups + 1) + a.own] - begins[r * (a.groups + 1)];
    if (rank < a.ranks)
        at += begins[rank * (a.groups + 1) + i % a.own] - begins[rank * (a.groups + 1)];
    AT(i32, a.offsets)[i] = at;
}

enum { V = VECTOR ? 16 / (int)sizeof(X) : 1 };
typedef union piece {
    word16 word;
    X x[V];
} piece;

KERNEL(combine, combine_args, GROUP_THREADS)
{
    const i64 pieces = a.each / V, i = BLOCK * GROUP_THREADS + THREAD, token = quotient(i, pieces),
              c = (i - token * pieces) * V;
    if (token >= a.tokens)
        return;
    float sum[V];
    piece p;
    UNROLL for (int e = 0; e < V; e++) sum[e] = 0;
    for (i64 s = 0; s < a.k; s++) {
        const i64 from = AT(const i32, a.place)[token * a.k + s];
        const int is_row = from >= 0 && from < a.rows;
        const X *x = AT(const X, a.x) + (is_row ? from : 0) * a.each + c;
#if VECTOR
        p.word = *(const word16 *)x;
#else
        p.x[0] = *x;
#endif
        UNROLL for (int e = 0; e < V; e++) sum[e] = sum[e] + (is_row ? LOAD(X, p.x, e) : nan_());
    }
    UNROLL for (int e = 0; e < V; e++) STORE(X, p.x, e, sum[e]);
    X *y = AT(X, a.y) + token * a.each + c;
#if VECTOR
    *(word16 *)y = p.word;
#else
    *y = p.x[0];
#endif
}
#endif
