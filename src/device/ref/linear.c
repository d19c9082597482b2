/* linear.c - the three matrix products: y = x w^T (+ bias, activation, residual), dx = dy w, dw = dy^T x.
 * Each multiplies rows of A by a matrix B that is held as doubles. Each output is one sum in the order of the
 * inner index, rounded where the unfused graph would store it. */
#include "ref.h"
#include "base/thread_pool.h"

typedef struct product {
    const ls_kernel_args *a;
    int64_t rows, inner, cols;
    const double *b;   /* [inner, cols] */
    double *sums;      /* [threads, cols] */
    bool a_transposed; /* element (i, m) of A is element (m, i) of in[0] */
    void (*finish)(const ls_kernel_args *a, int64_t row, int64_t cols, double *sums);
} product;

static void product_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const product *p = context;
    double *sums = p->sums + worker * p->cols;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = 0; j < p->cols; j++)
            sums[j] = 0;
        for (int64_t m = 0; m < p->inner; m++) {
            const double x = p->a_transposed ? row_get(ref_row(&p->a->in[0], m), i)
                                             : row_get(ref_row(&p->a->in[0], i), m);
            const double *b = p->b + m * p->cols;
            for (int64_t j = 0; j < p->cols; j++)
                sums[j] += x * b[j];
        }
        p->finish(p->a, i, p->cols, sums);
    }
}

static size_t product_workspace(const ls_kernel_args *a, int64_t inner, int64_t cols)
{
    return sizeof(double) * (size_t)(inner * cols + (a->threads > 1 ? a->threads : 1) * cols);
}

/* w of linear and linear_dx, of any type, or codes of 4 bits whose scales are the last operand */
static double weight_at(const ls_kernel_args *a, int64_t row, int64_t col)
{
    return given(a, 4) ? ls_ref_round(ls_ref_nf4_at(&a->in[1], &a->in[4], row, col), a->in[0].type.dtype)
                       : row_get(ref_row(&a->in[1], row), col);
}
static int64_t weight_columns(const ls_kernel_args *a)
{
    return a->in[1].type.dims[1] * (given(a, 4) ? 2 : 1);
}

static void product_run(product p, bool b_transposed)
{
    double *b = p.a->workspace;
    for (int64_t m = 0; m < p.inner; m++)
        for (int64_t j = 0; j < p.cols; j++)
            b[m * p.cols + j] = b_transposed ? weight_at(p.a, j, m) : weight_at(p.a, m, j);
    p.b = b;
    p.sums = b + p.inner * p.cols;
    ls_parallel_for(p.a->threads, p.rows, product_rows, &p);
}

/* linear: x, w, bias?, residual?, scales? -> y, pre if act */
static void finish_linear(const ls_kernel_args *a, int64_t row, int64_t cols, double *sums)
{
    const ls_act act = (ls_act)((const ls_linear_attrs *)a->attrs)->act;
    const ls_dtype dtype = a->out[0].type.dtype;
    for (int64_t n = 0; n < cols; n++) {
        double y = ls_ref_round(sums[n] + (given(a, 2) ? row_get(ref_row(&a->in[2], 0), n) : 0), dtype);
        if (act != LS_ACT_NONE) {
            row_put(ref_row(&a->out[1], row), n, y);
            y = ls_ref_round(ls_ref_act(act, y), dtype);
        }
        if (given(a, 3))
            y += row_get(ref_row(&a->in[3], row), n);
        row_put(ref_row(&a->out[0], row), n, y);
    }
}

void ls_ref_linear(const ls_kernel_args *a)
{
    const ls_type *x = &a->in[0].type, *w = &a->in[1].type;
    product_run((product){ a, .rows = ls_type_rows(x), .inner = weight_columns(a), .cols = w->dims[0],
                           .finish = finish_linear },
                true);
}

size_t ls_ref_linear_workspace(const ls_kernel_args *a)
{
    return product_workspace(a, weight_columns(a), a->in[1].type.dims[0]);
}

/* linear_dx: dy, w, pre?, addend?, scales? -> dx */
static void finish_linear_dx(const ls_kernel_args *a, int64_t row, int64_t cols, double *sums)
{
    const ls_act act = (ls_act)((const ls_linear_attrs *)a->attrs)->act;
    const ls_dtype dtype = a->out[0].type.dtype;
    for (int64_t k = 0; k < cols; k++) {
        double dx = ls_ref_round(sums[k], dtype);
        if (given(a, 2))
            dx = ls_ref_round(ls_ref_act_grad(act, dx, row_get(ref_row(&a->in[2], row), k)), dtype);
        if (given(a, 3))
            dx += row_get(ref_row(&a->in[3], row), k);
        row_put(ref_row(&a->out[0], row), k, dx);
    }
}

void ls_ref_linear_dx(const ls_kernel_args *a)
{
    const ls_type *dy = &a->in[0].type, *w = &a->in[1].type;
    product_run((product){ a, .rows = ls_type_rows(dy), .inner = w->dims[0], .cols = weight_columns(a),
                           .finish = finish_linear_dx },
                false);
}

size_t ls_ref_linear_dx_workspace(const ls_kernel_args *a)
{
    return product_workspace(a, a->in[1].type.dims[0], weight_columns(a));
}

/* linear_dw: dy, x -> dw, db if bias */
static void finish_linear_dw(const ls_kernel_args *a, int64_t row, int64_t cols, double *sums)
{
    for (int64_t k = 0; k < cols; k++)
        row_put(ref_row(&a->out[0], row), k, sums[k]);
    if (wanted(a, 1)) {
        const int64_t rows = ls_type_rows(&a->in[0].type);
        double sum = 0;
        for (int64_t r = 0; r < rows; r++)
            sum += row_get(ref_row(&a->in[0], r), row);
        row_put(ref_row(&a->out[1], 0), row, sum);
    }
}

void ls_ref_linear_dw(const ls_kernel_args *a)
{
    const ls_type *dy = &a->in[0].type, *x = &a->in[1].type;
    product_run((product){ a, .rows = columns(dy), .inner = ls_type_rows(dy), .cols = columns(x),
                           .a_transposed = true, .finish = finish_linear_dw },
                false);
}

size_t ls_ref_linear_dw_workspace(const ls_kernel_args *a)
{
    return product_workspace(a, ls_type_rows(&a->in[0].type), columns(&a->in[1].type));
}
