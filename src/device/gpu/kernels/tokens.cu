/* tokens.cu - what models of text begin with: rows of a table by number, positions as rotations, T5's bias by
 * distance, and shifted ids. WORD (of `embedding`: word16, u32 or u16) and X are defined in front. */
#include "dialect.h"
#include "word.h"
#include "tokens.h"

#if defined(WORD)
/* A warp has a row: of the table, zeros if another rank has it, or NaN if there is none. */
KERNEL(embedding, embedding_args, TOKEN_THREADS)
{
    const i64 i = BLOCK * (TOKEN_THREADS / WARP) + THREAD / WARP;
    if (i >= a.n)
        return;
    const i64 id = AT(const i32, a.ids)[i], row = id - a.first;
    WORD *y = AT(WORD, a.y) + i * a.y_words;
    if (row >= 0 && row < a.rows) {
        const WORD *x = AT(const WORD, a.table) + row * a.table_words;
        for (i64 w = THREAD % WARP; w < a.words; w += WARP)
            y[w] = x[w];
        return;
    }
    const u32 bits = id >= 0 && id < a.whole ? 0 : a.nan;
    union {
        word16 all;
        WORD word;
    } fill;
    fill.all.w[0] = fill.all.w[1] = fill.all.w[2] = fill.all.w[3] = bits;
    for (i64 w = THREAD % WARP; w < a.words; w += WARP)
        y[w] = fill.word;
}
#else

/* The method of device cpu: |angle| < 2^31. The multiple of pi/2 is subtracted in f64, in two parts, of which
 * the first has 33 bits; the rest are Taylor series, with errors below 2e-9. */
DEVICE void sine(double angle, float *sin_out, float *cos_out)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: the sum is rounded to a whole number */
    const double quarter = angle * 0x1.45f306dc9c883p-1 + magic - magic;
    const double r = angle - quarter * 0x1.921fb544p+0 - quarter * 0x1.0b4611a626331p-34, z = r * r;
    const double s = r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880))));
    const double c = 1 +
                     z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 - z * (1.0 / 3628800)))));
    const i64 turn = (i64)quarter;
    const double first = turn & 1 ? c : s, second = turn & 1 ? s : c;
    *sin_out = (float)(turn & 2 ? -first : first);
    *cos_out = (float)((turn + 1) & 2 ? -second : second);
}

typedef struct rope_shared {
    float sine[TOKEN_THREADS], cosine[TOKEN_THREADS];
} rope_shared;

/* A block has as many rows as give each thread one sine, which then serves all heads. VECTOR: pairs are
 * loaded 16 bytes at a time. */
KERNEL_SHARED(rope, rope_args, TOKEN_THREADS, rope_shared)
{
    const int rows = TOKEN_THREADS / a.pairs;
    const i64 row = BLOCK * rows;
    if (THREAD < rows * a.pairs && row + THREAD / a.pairs < a.rows) {
        const i64 r = row + THREAD / a.pairs;
        const double angle = (double)(a.positions ? AT(const i32, a.positions)[r]
                                                  : a.first_token + r % a.tokens) *
                             a.frequency[THREAD % a.pairs];
        sine(a.inverse ? -angle : angle, &s->sine[THREAD], &s->cosine[THREAD]);
    }
    BARRIER();
    enum { V = VECTOR ? 16 / (int)sizeof(X) : 1 };
    typedef union piece {
        word16 word;
        X x[V];
    } piece;
    const int pieces = a.pairs / V, each = (int)a.heads * pieces;
    for (int i = THREAD; i < rows * each && row + i / each < a.rows; i += TOKEN_THREADS) {
        const int r = i / each, pair = i % pieces * V;
        const i64 feature = (i64)(i % each / pieces) * 2 * a.half + a.first + pair;
        const X *x = AT(const X, a.x) + (row + r) * a.x_row + feature;
        X *y = AT(X, a.y) + (row + r) * a.y_row + feature;
        piece u, v;
#if VECTOR
        u.word = *(const word16 *)x;
        v.word = *(const word16 *)(x + a.half);
#else
        u.x[0] = x[0];
        v.x[0] = x[a.half];
#endif
        for (int e = 0; e < V; e++) {
            const float p = LOAD(X, u.x, e), q = LOAD(X, v.x, e), sin = s->sine[r * a.pairs + pair + e],
                        cos = s->cosine[r * a.pairs + pair + e];
            STORE(X, u.x, e, fma_(-q, sin, p * cos));
            STORE(X, v.x, e, fma_(p, sin, q * cos));
        }
#if VECTOR
        *(word16 *)y = u.word;
        *(word16 *)(y + a.half) = v.word;
#else
        y[0] = u.x[0];
        y[a.half] = v.x[0];
#endif
    }
}

KERNEL(shift_right, shift_args, TOKEN_THREADS)
{
    const i64 i = BLOCK * TOKEN_THREADS + THREAD;
    if (i >= a.n)
        return;
    const i32 id = i % a.tokens ? AT(const i32, a.ids)[i - 1] : a.start;
    AT(i32, a.y)[i] = id < 0 ? a.pad : id;
}

DEVICE i64 bucket_of(const position_args *a, i64 distance) /* key - query */
{
    const i64 first = a->both && distance > 0 ? a->half : 0,
              n = distance > 0 ? (a->both ? distance : 0) : -distance;
    if (n < a->exact)
        return first + n;
    i64 bucket = first + a->exact;
    for (int i = 0; i < a->n_far && n >= a->far[i]; i++)
        bucket++;
    return bucket;
}

KERNEL(position_bias, position_args, TOKEN_THREADS)
{
    const i64 i = BLOCK * TOKEN_THREADS + THREAD;
    if (i < a.heads * a.distances)
        AT(X, a.y)
    [i] = AT(const X, a.table)[bucket_of(&a, i % a.distances - a.queries + 1) * a.heads + i / a.distances];
}

/* A warp has a bucket and a head. */
KERNEL(position_bias_grad, position_args, TOKEN_THREADS)
{
    const i64 i = BLOCK * (TOKEN_THREADS / WARP) + THREAD / WARP, bucket = i / a.heads, h = i % a.heads;
    if (bucket >= a.buckets)
        return;
    double sum = 0;
    for (i64 d = THREAD % WARP; d < a.distances; d += WARP)
        if (bucket_of(&a, d - a.queries + 1) == bucket)
            sum = sum + (double)LOAD(X, AT(const X, a.dy), h * a.distances + d);
    for (int mask = WARP / 2; mask; mask /= 2) {
        const double other = WARP_XOR(sum, mask);
        sum = sum + other;
    }
    if (THREAD % WARP == 0)
        STORE(X, AT(X, a.dtable), i, (float)sum);
}
#endif
