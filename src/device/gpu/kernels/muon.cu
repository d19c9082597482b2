/* muon.cu - Muon (Jordan et al. 2024) without its matrix products, which are those of linear and linear_dx.
 */
#include "sums_64.h"
#include "update_words.h"
#include "muon.h"

typedef struct muon_parts {
    double v[WARP];
} muon_parts;

KERNEL_SHARED(muon_squares, muon_begin_args, MUON_THREADS, muon_parts)
{
    const f32 *u = AT(const f32, a.u);
    const i64 count = a.m * a.n, begin = BLOCK * MUON_EACH;
    double total = 0;
    for (i64 k = begin + THREAD; k < begin + MUON_EACH && k < count; k += THREADS)
        total = total + (double)u[k] * (double)u[k];
    total = block_sum_64(total, s->v);
    if (THREAD == 0)
        AT(double, a.parts)[BLOCK] = total;
}

KERNEL_SHARED(muon_norm, muon_begin_args, MUON_THREADS, muon_parts)
{
    const double *parts = AT(const double, a.parts);
    double total = 0;
    for (i64 k = THREAD; k < a.blocks; k += THREADS)
        total = total + parts[k];
    total = sqrt_64(block_sum_64(total, s->v));
    if (THREAD == 0)
        *AT(float, a.factor) = (float)(1.0 / (total > a.eps ? total : a.eps));
}

/* A tile of a matrix in shared memory, which is read and written along rows whether it is transposed or not.
 * The rows of the tile have one number more, so columns lie in different banks. */
typedef struct muon_tile {
    float v[MUON_TILE][MUON_TILE + 1];
} muon_tile;
enum { MUON_LINES = MUON_THREADS / MUON_TILE }; /* rows of a tile that a block reads at once */

/* x = factor u, or factor times u transposed */
KERNEL_SHARED(muon_begin, muon_begin_args, MUON_THREADS, muon_tile)
{
    const f32 *u = AT(const f32, a.u);
    f32 *x = AT(f32, a.x);
    const i64 across = (a.n + MUON_TILE - 1) / MUON_TILE, row = BLOCK / across * MUON_TILE,
              col = BLOCK % across * MUON_TILE;
    const int j = THREAD % MUON_TILE;
    const float factor = *AT(const float, a.factor);
    for (int i = THREAD / MUON_TILE; i < MUON_TILE; i += MUON_LINES)
        if (a.high && col + i < a.n && row + j < a.m)
            s->v[j][i] = u[(col + i) * a.m + row + j];
        else if (!a.high && row + i < a.m && col + j < a.n)
            s->v[i][j] = u[(row + i) * a.n + col + j];
    BARRIER();
    for (int i = THREAD / MUON_TILE; i < MUON_TILE; i += MUON_LINES)
        if (row + i < a.m && col + j < a.n)
            x[(row + i) * a.n + col + j] = s->v[i][j] * factor;
}

KERNEL(muon_sum, muon_sum_args, MUON_THREADS)
{
    const f32 *x = AT(const f32, a.x), *y = AT(const f32, a.y);
    f32 *out = AT(f32, a.out);
    const i64 begin = BLOCK * MUON_EACH;
    for (i64 k = begin + THREAD; k < begin + MUON_EACH && k < a.n; k += THREADS)
        out[k] = fma_(x[k], a.s, y[k] * a.t);
}

/* p = (1 - lr weight_decay) p - lr ratio x */
KERNEL_SHARED(muon_end, muon_end_args, MUON_THREADS, muon_tile)
{
    const f32 *x = AT(const f32, a.x);
    f32 *p = AT(f32, a.p);
    if (skipped(a.apply))
        return;
    const double lr = *AT(const double, a.lr);
    const float shrink = (float)(1.0 - lr * a.weight_decay), rate = (float)(lr * a.ratio);
    const i64 across = (a.n + MUON_TILE - 1) / MUON_TILE, row = BLOCK / across * MUON_TILE,
              col = BLOCK % across * MUON_TILE;
    const int j = THREAD % MUON_TILE;
    for (int i = THREAD / MUON_TILE; i < MUON_TILE; i += MUON_LINES)
        if (row + i < a.m && col + j < a.n)
            s->v[i][j] = x[(row + i) * a.n + col + j];
    BARRIER();
    const i64 rows = a.high ? a.n : a.m, cols = a.high ? a.m : a.n, first = a.high ? col : row,
              here = (a.high ? row : col) + j;
    for (int i = THREAD / MUON_TILE; i < MUON_TILE; i += MUON_LINES) {
        const i64 k = (first + i) * cols + here;
        if (first + i < rows && here < cols && k >= a.from && k < a.to)
            p[k] = p[k] * shrink - rate * (a.high ? s->v[j][i] : s->v[i][j]);
    }
}
