/* totals.cu - sums of a loss over the rows of a batch, in f64: each block adds a fixed number of rows, and
 * one block adds those sums. */
#include "dialect.h"
#include "sums_64.h"
#include "totals.h"

typedef struct sum_shared {
    double parts[WARP];
} sum_shared;

/* Rows from here on are padding. */
DEVICE i64 rows_end(const row_sum_args *a)
{
    i64 n = a->here;
    if (a->real)
        n = AT(const i32, a->real)[0] * a->each - a->start;
    return (n < 0 ? 0 : n < a->here ? n : a->here) * a->inner;
}
DEVICE double divisor_of(const row_sum_args *a)
{
    return a->divisor ? (double)AT(const float, a->divisor)[0] : 1.0;
}

KERNEL_SHARED(row_sum, row_sum_args, ROW_SUM_THREADS, sum_shared)
{
    const i64 end = rows_end(&a);
    double sum = 0;
    for (int j = 0; j < ROW_SUM_EACH; j++) {
        const i64 i = (BLOCK * ROW_SUM_EACH + j) * ROW_SUM_THREADS + THREAD;
        if (i >= end)
            continue;
        const float weight = a.weights ? AT(const float, a.weights)[i]
                             : a.valid ? (AT(const i32, a.valid)[i] != a.ignore ? 1.0f : 0.0f)
                                       : 1.0f;
        if (weight != 0.0f) /* else the row may be NaN */
            sum = sum + (double)weight * (double)AT(const float, a.rows)[i];
    }
    sum = block_sum_64(sum, s->parts);
    if (THREAD)
        return;
    if (a.n_parts == 1)
        AT(float, a.sum)[0] = (float)(sum / divisor_of(&a));
    else
        AT(double, a.parts)[BLOCK] = sum;
}

KERNEL_SHARED(row_sum_join, row_sum_args, ROW_SUM_THREADS, sum_shared)
{
    double sum = 0;
    for (i64 p = THREAD; p < a.n_parts; p += ROW_SUM_THREADS)
        sum = sum + AT(const double, a.parts)[p];
    sum = block_sum_64(sum, s->parts);
    if (THREAD == 0)
        AT(float, a.sum)[0] = (float)(sum / divisor_of(&a));
}

KERNEL(row_sum_grad, row_sum_args, ROW_SUM_THREADS)
{
    const i64 i = BLOCK * ROW_SUM_THREADS + THREAD;
    if (i >= a.n)
        return;
    const float d = AT(const float, a.dsum)[0] / (float)divisor_of(&a);
    float out = 0;
    if (i < rows_end(&a))
        out = a.weights ? AT(const float, a.weights)[i] * d
              : a.valid ? (AT(const i32, a.valid)[i] != a.ignore ? d : 0.0f)
                        : d;
    AT(float, a.drows)[i] = out;
}

KERNEL(is_finite, scalar_args, WARP)
{
    const float x = AT(const float, a.max)[0];
    if (THREAD == 0)
        AT(i32, a.out)[0] = x - x == 0.0f;
}
