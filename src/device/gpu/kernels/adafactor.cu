/* adafactor.cu - Adafactor (Shazeer and Stern 2018), in the order of transformers. Sums are in f64, over
 * fixed blocks. The host defines G, the type of gradients. Parameters and moments are f32. */
#include "dialect.h"
#include "math.h"
#include "sums_64.h"
#include "update_words.h"
#include "adafactor.h"

typedef struct factor_parts {
    double v[2][WARP];
} factor_parts;

/* Gradient number k of the parameter. */
DEVICE float gradient(const adafactor_args *a, i64 k)
{
    return LOAD(G, AT(const G, a->g), k) * scale_of(a->scale);
}

/* What is added to a moment: never 0. */
DEVICE double square_of(const adafactor_args *a, float g) { return (double)g * (double)g + a->eps; }

DEVICE float moved(const adafactor_args *a, float moment, double now)
{
    const float part = pow_((float)*AT(const i64, a->step), (float)a->decay_rate);
    return (1.0f - part) * moment + part * (float)now;
}

/* The moment of the rows: a block adds a row. */
KERNEL_SHARED(adafactor_rows, adafactor_args, FACTOR_THREADS, factor_parts)
{
    float *row = AT(float, a.row) + BLOCK;
    if (skipped(a.apply))
        return;
    double total = 0;
    for (i64 j = THREAD; j < a.cols; j += THREADS)
        total = total + square_of(&a, gradient(&a, BLOCK * a.cols + j));
    total = block_sum_64(total, s->v[0]);
    if (THREAD == 0)
        *row = moved(&a, *row, total / (double)a.cols);
}

/* Sums over FACTOR_ROWS rows: a thread adds a column. */
KERNEL(adafactor_columns, adafactor_args, FACTOR_THREADS)
{
    const i64 across = (a.cols + THREADS - 1) / THREADS, chunk = BLOCK / across,
              chunks = (a.rows + FACTOR_ROWS - 1) / FACTOR_ROWS, begin = chunk % chunks * FACTOR_ROWS,
              j = BLOCK % across * THREADS + THREAD;
    if (skipped(a.apply) || j >= a.cols)
        return;
    double total = 0;
    for (i64 i = begin; i < begin + FACTOR_ROWS && i < a.rows; i++)
        total = total + square_of(&a, gradient(&a, (chunk / chunks * a.rows + i) * a.cols + j));
    AT(double, a.columns)[chunk * a.cols + j] = total;
}

/* The moment of the columns. */
KERNEL(adafactor_columns_end, adafactor_args, FACTOR_THREADS)
{
    const i64 k = BLOCK * THREADS + THREAD, chunks = (a.rows + FACTOR_ROWS - 1) / FACTOR_ROWS;
    if (skipped(a.apply) || k >= a.batch * a.cols)
        return;
    const double *part = AT(const double, a.columns) + k / a.cols * chunks * a.cols + k % a.cols;
    float *col = AT(float, a.col) + k;
    double total = 0;
    for (i64 c = 0; c < chunks; c++)
        total = total + part[c * a.cols];
    *col = moved(&a, *col, total / (double)a.rows);
}

/* The mean of the moment of a matrix' rows. */
KERNEL_SHARED(adafactor_means, adafactor_args, FACTOR_THREADS, factor_parts)
{
    const float *row = AT(const float, a.row) + BLOCK * a.rows;
    double total = 0;
    for (i64 i = THREAD; i < a.rows; i += THREADS)
        total = total + (double)row[i];
    total = block_sum_64(total, s->v[0]);
    if (THREAD == 0)
        AT(float, a.means)[BLOCK] = (float)(total / (double)a.rows);
}

/* Division of indices is quicker in 32 bits. */
DEVICE i64 quotient(const adafactor_args *a, i64 k, i64 by)
{
    return a->count < 0x7fffffff ? (i64)((u32)k / (u32)by) : k / by;
}

/* The update of number k, before it is clipped. */
DEVICE float update_at(const adafactor_args *a, i64 k)
{
    const float g = gradient(a, k), *row = AT(const float, a->row);
    if (!a->cols)
        return g / sqrt_(row[k]);
    const i64 i = quotient(a, k, a->cols), b = quotient(a, i, a->rows), j = k - i * a->cols;
    return g / sqrt_(row[i] / AT(const float, a->means)[b]) / sqrt_(AT(const float, a->col)[b * a->cols + j]);
}

/* Sums of squares of the update and of the parameter. A vector's moment is updated here. */
KERNEL_SHARED(adafactor_squares, adafactor_args, FACTOR_THREADS, factor_parts)
{
    const f32 *whole = AT(const f32, a.whole);
    float *row = AT(float, a.row);
    if (skipped(a.apply))
        return;
    double update = 0, parameter = 0;
    const i64 begin = BLOCK * FACTOR_EACH;
    for (i64 k = begin + THREAD; k < begin + FACTOR_EACH && k < a.count; k += THREADS) {
        if (!a.cols)
            row[k] = moved(&a, row[k], (double)(float)square_of(&a, gradient(&a, k)));
        const double u = (double)update_at(&a, k);
        update = update + u * u;
        if (a.scale_parameter)
            parameter = parameter + (double)whole[k] * (double)whole[k];
    }
    update = block_sum_64(update, s->v[0]);
    parameter = block_sum_64(parameter, s->v[1]);
    if (THREAD == 0) {
        AT(double, a.sums)[2 * BLOCK] = update;
        AT(double, a.sums)[2 * BLOCK + 1] = parameter;
    }
}

/* numbers: what is left of the parameter, and the length of the step */
KERNEL_SHARED(adafactor_numbers, adafactor_args, FACTOR_THREADS, factor_parts)
{
    const double *sums = AT(const double, a.sums);
    if (skipped(a.apply))
        return;
    double update = 0, parameter = 0;
    for (i64 k = THREAD; k < a.blocks; k += THREADS) {
        update = update + sums[2 * k];
        parameter = parameter + sums[2 * k + 1];
    }
    update = sqrt_64(block_sum_64(update, s->v[0]) / (double)a.count) / a.clip_threshold;
    parameter = sqrt_64(block_sum_64(parameter, s->v[1]) / (double)a.count);
    if (THREAD != 0)
        return;
    const double t = (double)*AT(const i64, a.step);
    double rate = *AT(const double, a.lr);
    if (a.relative_step) {
        const double most = a.warmup_init ? 1e-6 * t : 1e-2, falling = 1 / sqrt_64(t);
        rate = most < falling ? most : falling;
    }
    if (a.scale_parameter)
        rate = rate * (parameter > a.min_scale ? parameter : a.min_scale);
    AT(float, a.numbers)[0] = (float)(1 - a.weight_decay * rate);
    AT(float, a.numbers)[1] = (float)(update > 1 ? rate / update : rate);
}

KERNEL(adafactor_end, adafactor_args, FACTOR_THREADS)
{
    f32 *p = AT(f32, a.p);
    if (skipped(a.apply))
        return;
    const float keep = AT(const float, a.numbers)[0], step = AT(const float, a.numbers)[1];
    const i64 begin = a.from + BLOCK * FACTOR_EACH;
    for (i64 k = begin + THREAD; k < begin + FACTOR_EACH && k < a.to; k += THREADS)
        p[k] = p[k] * keep - step * update_at(&a, k);
}
