/* combine.cu - adds pieces of several ranks in the balanced tree of comm/reduce.c, (0+1)+(2+3), so the bits
 * are the same. LARGEST: 1: the larger one of two instead of their sum; NaN is the largest.
 *
 * FROM, VIA, TO: types of the pieces, of each partial sum, and of the result. A thread has W neighbouring
 * elements of all pieces. VECTOR: 1 if W elements of pieces and result are aligned to their size. PIECES:
 * their number if it is small, which unrolls all loops, else `a.n`. LEVELS: of the tree: the bits of that
 * number.
 *
 * The tree is a binary counter: level l holds the sum of 2^l pieces, if bit l of the number of pieces so far
 * is set. The result may lie where the first piece does: a thread reads all that it needs before it
 * writes. */
#include "combine.h"
#include "dialect.h"

typedef struct ALIGNED(W * sizeof(FROM)) pieces_word {
    FROM v[W];
} pieces_word;
typedef struct ALIGNED(W * sizeof(TO)) result_word {
    TO v[W];
} result_word;

#if LARGEST
DEVICE float joined(float a, float b) { return a > b || is_nan(a) ? a : b; }
#else
DEVICE float joined(float a, float b) { return a + b; }
#endif

/* x = left joined with x; the left one is of lower ranks */
DEVICE void join(float *x, const float *left)
{
    UNROLL for (int e = 0; e < W; e++) x[e] = ROUNDED(VIA, joined(left[e], x[e]));
}

/* `valid`: how many of the W elements there are */
DEVICE void load(float *x, const FROM *in, int valid)
{
    if (VECTOR && valid == W) {
        const pieces_word word = *(const pieces_word *)in;
        UNROLL for (int e = 0; e < W; e++) x[e] = ROUNDED(VIA, TO_FLOAT(FROM, word.v[e]));
    } else {
        UNROLL for (int e = 0; e < W; e++) x[e] = e < valid ? ROUNDED(VIA, LOAD(FROM, in, e)) : 0.0f;
    }
}

DEVICE void store(TO *out, const float *x, int valid)
{
    if (VECTOR && valid == W) {
        result_word word;
        UNROLL for (int e = 0; e < W; e++) word.v[e] = OF_FLOAT(TO, x[e]);
        *(result_word *)out = word;
    } else {
        UNROLL for (int e = 0; e < W; e++) if (e < valid) STORE(TO, out, e, x[e]);
    }
}

KERNEL(combine, combine_args, 256)
{
    const i64 first = (BLOCK * THREADS + THREAD) * W, left = a.count - first;
    const int valid = left < W ? (int)left : W;
    if (valid <= 0)
        return;
    const FROM *in = AT(const FROM, a.in) + first;
    float level[LEVELS][W], x[W];
#if UNROLLED
    UNROLL
#endif
    for (int p = 0; p < PIECES; p++) {
        int carries = 1;
        load(x, (const FROM *)((const u8 *)in + p * a.stride), valid);
        UNROLL for (int l = 0; l < LEVELS; l++)
        {
            if (carries && (p >> l & 1)) {
                join(x, level[l]);
            } else if (carries) {
                UNROLL for (int e = 0; e < W; e++) level[l][e] = x[e];
                carries = 0;
            }
        }
    }
    int begun = 0;
    UNROLL for (int l = 0; l < LEVELS; l++)
    {
        if ((PIECES >> l & 1) && begun) {
            join(x, level[l]);
        } else if (PIECES >> l & 1) {
            UNROLL for (int e = 0; e < W; e++) x[e] = level[l][e];
            begun = 1;
        }
    }
    store(AT(TO, a.out) + first, x, valid);
}
