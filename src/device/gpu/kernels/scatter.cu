/* scatter.cu - adds numbers of type X to the places that indices name, in the order of the indices. An index
 * that names no place makes place 0 NaN. */
#include "dialect.h"
#include "sums.h"

enum { SIZE = 256, EACH = 8 };

/* One index for a whole slice: a warp makes 32 EACH columns of one place, and looks for it among all indices.
 */
KERNEL(slices, scatter_args, SIZE)
{
    const i64 chunks = (a.inner + WARP * EACH - 1) / (WARP * EACH),
              number = BLOCK * (SIZE / WARP) + THREAD / WARP, place = number / chunks % a.size,
              outer = number / chunks / a.size, first = number % chunks * WARP * EACH;
    const int lane = THREAD % WARP;
    if (outer >= a.outer)
        return;
    const X *in = AT(const X, a.in) + outer * a.n * a.inner;
    float sum[EACH];
    for (int e = 0; e < EACH; e++)
        sum[e] = 0.0f;
    for (i64 begin = 0; begin < a.n; begin += WARP) {
        const i64 to = begin + lane < a.n ? AT(const i32, a.index)[begin + lane] : -1;
        const int nowhere = begin + lane < a.n && (to < 0 || to >= a.size);
        u32 here = (u32)(nowhere ? place == 0 : to == place) << lane, bad = (u32)nowhere << lane;
        for (int mask = WARP / 2; mask; mask /= 2) {
            const u32 other = WARP_XOR(here, mask), other_bad = WARP_XOR(bad, mask);
            here |= other;
            bad |= other_bad;
        }
        while (here) {
            const u32 lowest = here & (0u - here);
            const i64 i = begin + (i64)(bits_of((float)lowest) >> 23) - 127; /* log2 */
            here ^= lowest;
            for (int e = 0; e < EACH; e++) {
                const i64 k = first + e * WARP + lane;
                if (k < a.inner)
                    sum[e] = sum[e] + (bad & lowest ? nan_() : LOAD(X, in, i * a.inner + k));
            }
        }
    }
    for (int e = 0; e < EACH; e++) {
        const i64 k = first + e * WARP + lane;
        if (k < a.inner)
            STORE(X, AT(X, a.out), (outer * a.size + place) * a.inner + k, sum[e]);
    }
}

/* An index for each element: a thread adds a column, to zeros of f32. */
KERNEL(elements, scatter_args, SIZE)
{
    const i64 c = BLOCK * SIZE + THREAD, outer = c / a.inner, k = c % a.inner;
    if (outer >= a.outer)
        return;
    float *out = AT(float, a.out) + outer * a.size * a.inner + k;
    for (i64 i = 0; i < a.n; i++) {
        const i64 from = (outer * a.n + i) * a.inner + k, to = AT(const i32, a.index)[from];
        if (to >= 0 && to < a.size)
            out[to * a.inner] = out[to * a.inner] + LOAD(X, AT(const X, a.in), from);
        else
            out[0] = nan_();
    }
}
