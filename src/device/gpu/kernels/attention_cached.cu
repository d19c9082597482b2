/* attention_cached.cu - attention of queries to a cache of keys and values. The query heads that share a key
 * head, of all tokens, are the rows of that key head. A block takes up to ROWS of them and a part of the
 * keys, which are read once for all; then the parts of each row are joined in order. Parts begin at fixed
 * keys, so a row's bits do not depend on other rows.
 *
 * X, D, ROWS, BIAS, VECTOR (1: pieces of 16 bytes) and KEY_LANES (threads that share a key, each with pieces
 * of it) are defined in front of this file. */
#include "dialect.h"
#include "math.h"
#include "word.h"
#include "attention.h"

enum {
    V = VECTOR ? 16 / (int)sizeof(X) : 1,
    SPAN = V * KEY_LANES,
    PIECES = (D + SPAN - 1) / SPAN,
    WARPS = CACHED_THREADS / WARP,
    SLOTS = CACHED_THREADS / KEY_LANES
};

typedef struct cached_shared {
    float q[ROWS][PIECES * SPAN];
    float p[ROWS][CACHED_PART];
    float sums[WARPS][ROWS][SPAN];
    i32 keys[ROWS], most;
} cached_shared;

/* The V numbers from feature c on; zeros behind the last one. */
DEVICE void read_piece(float out[V], const X *row, int c)
{
#if VECTOR
    union {
        word16 word;
        X x[V];
    } u;
    if (c < D)
        u.word = *(const word16 *)(row + c);
    UNROLL for (int e = 0; e < V; e++) out[e] = c < D ? LOAD(X, u.x, e) : 0;
#else
    out[0] = c < D ? LOAD(X, row, c) : 0;
#endif
}

DEVICE i32 keys_of(const cached_args *a, i64 b, i64 token)
{
    const i64 position = AT(const i32, a->positions)[b * a->T + token];
    return (i32)(position < 0 ? 0 : position + 1 < a->places ? position + 1 : a->places);
}

KERNEL_SHARED(cached_part, cached_args, CACHED_THREADS, cached_shared)
{
    const i64 group = a.H / a.G, part = BLOCK % a.n_parts, block = BLOCK / a.n_parts % a.blocks,
              g = BLOCK / a.n_parts / a.blocks % a.G, b = BLOCK / a.n_parts / a.blocks / a.G;
    const int k0 = (int)part * CACHED_PART, lane = THREAD % KEY_LANES, slot = THREAD / KEY_LANES;
    /* row r of this block: token a.first + (block * ROWS + r) / group, head g * group + (..) % group */
    if (THREAD < ROWS) {
        const i64 row = block * ROWS + THREAD;
        s->keys[THREAD] = row < a.tokens * group ? keys_of(&a, b, a.first + row / group) : 0;
    }
    BARRIER();
    i32 most = 0;
    for (int r = 0; r < ROWS; r++)
        most = s->keys[r] > most ? s->keys[r] : most;
    if (most <= k0)
        return;
    const int n = most - k0 < CACHED_PART ? most - k0 : CACHED_PART;
    for (int i = THREAD; i < ROWS * PIECES * SPAN; i += CACHED_THREADS) {
        const int r = i / (PIECES * SPAN), c = i % (PIECES * SPAN);
        const i64 row = block * ROWS + r;
        s->q[r][c] = row < a.tokens * group && c < D ? LOAD(X, AT(const X, a.q),
                                                            (b * a.T + a.first + row / group) * a.q_row +
                                                                (g * group + row % group) * D + c)
                                                     : 0;
    }
    BARRIER();
    const X *keys = AT(const X, a.k) + ((b * a.places + k0) * a.G + g) * D,
            *values = AT(const X, a.v) + ((b * a.places + k0) * a.G + g) * D;
    for (int j = slot; j < CACHED_PART; j += SLOTS) {
        float dot[ROWS], x[V];
        UNROLL for (int r = 0; r < ROWS; r++) dot[r] = 0;
        UNROLL for (int i = 0; i < PIECES; i++)
        {
            const int c = (i * KEY_LANES + lane) * V;
            read_piece(x, keys + (j < n ? j : 0) * a.G * D, c);
            UNROLL for (int e = 0; e < ROWS * V; e++)
                dot[e / V] = fma_(s->q[e / V][c + e % V], x[e % V], dot[e / V]);
        }
        UNROLL for (int r = 0; r < ROWS; r++)
        {
            for (int mask = KEY_LANES / 2; mask; mask /= 2) {
                const float other = WARP_XOR(dot[r], mask);
                dot[r] = dot[r] + other;
            }
            float score = dot[r] * a.scale;
            const int seen = s->keys[r], from = a.window ? seen - (int)a.window : 0;
#if BIAS /* its last column is the distance 0 */
            if (k0 + j < seen)
                score = score +
                        LOAD(X, AT(const X, a.bias),
                             (g * group + (block * ROWS + r) % group) * a.places + a.places - seen + k0 + j);
#endif
            if (lane == 0)
                s->p[r][j] = k0 + j < seen && k0 + j >= from ? score : -infinity_();
        }
    }
    BARRIER();
    const i64 step = D + 2;
    for (int r = THREAD / WARP; r < ROWS; r += WARPS) {
        const i64 row = block * ROWS + r;
        float top = -infinity_(), sum = 0;
        UNROLL for (int i = 0; i < CACHED_PART / WARP; i++)
            top = max_(top, s->p[r][i * WARP + THREAD % WARP]);
        top = warp_max(top);
        const float base = top == -infinity_() ? 0 : top;
        UNROLL for (int i = 0; i < CACHED_PART / WARP; i++)
        {
            float *p = &s->p[r][i * WARP + THREAD % WARP];
            *p = exp_(*p - base);
            sum = sum + *p;
        }
        sum = warp_sum(sum);
        if (THREAD % WARP == 0 && row < a.tokens * group) {
            float *to = AT(float, a.parts) +
                        (((b * a.tokens + row / group) * a.H + g * group + row % group) * a.n_parts + part) *
                            step;
            to[D] = top;
            to[D + 1] = sum;
        }
    }
    BARRIER();
    UNROLL for (int i = 0; i < PIECES; i++)
    {
        const int c = (i * KEY_LANES + lane) * V;
        float sums[ROWS][V], x[V];
        UNROLL for (int e = 0; e < ROWS * V; e++) sums[e / V][e % V] = 0;
        for (int j = slot; j < n; j += SLOTS) {
            read_piece(x, values + j * a.G * D, c);
            UNROLL for (int e = 0; e < ROWS * V; e++)
                sums[e / V][e % V] = fma_(s->p[e / V][j], x[e % V], sums[e / V][e % V]);
        }
        UNROLL for (int e = 0; e < ROWS * V; e++)
        {
            for (int mask = KEY_LANES; mask < WARP; mask *= 2) {
                const float other = WARP_XOR(sums[e / V][e % V], mask);
                sums[e / V][e % V] = sums[e / V][e % V] + other;
            }
            if (THREAD % WARP < KEY_LANES)
                s->sums[THREAD / WARP][e / V][lane * V + e % V] = sums[e / V][e % V];
        }
        BARRIER();
        for (int e = THREAD; e < ROWS * SPAN; e += CACHED_THREADS) {
            const int r = e / SPAN, feature = i * SPAN + e % SPAN;
            const i64 row = block * ROWS + r;
            float sum = s->sums[0][r][e % SPAN];
            for (int w = 1; w < WARPS; w++)
                sum = sum + s->sums[w][r][e % SPAN];
            if (row < a.tokens * group && feature < D)
                AT(float, a.parts)
            [(((b * a.tokens + row / group) * a.H + g * group + row % group) * a.n_parts + part) * step +
                feature] = sum;
        }
        BARRIER();
    }
}

/* A block has a row: its parts are joined relative to the largest score of all. */
KERNEL(cached_join, cached_args, CACHED_THREADS)
{
    const i64 h = BLOCK % a.H, token = BLOCK / a.H % a.tokens, b = BLOCK / a.H / a.tokens, step = D + 2;
    const int n = (keys_of(&a, b, a.first + token) + CACHED_PART - 1) / CACHED_PART;
    const float *parts = AT(const float, a.parts) + BLOCK * a.n_parts * step;
    float top = -infinity_(), total = 0;
    for (int i = 0; i < n; i++)
        top = max_(top, parts[i * step + D]);
    top = top == -infinity_() ? 0 : top;
    for (int i = 0; i < n; i++)
        total = fma_(parts[i * step + D + 1], exp_(parts[i * step + D] - top), total);
    for (int c = THREAD; c < D; c += CACHED_THREADS) {
        float sum = 0;
        for (int i = 0; i < n; i++)
            sum = fma_(parts[i * step + c], exp_(parts[i * step + D] - top), sum);
        STORE(X, AT(X, a.y), (b * a.T + a.first + token) * a.y_row + h * D + c, total == 0 ? 0 : sum / total);
    }
}
