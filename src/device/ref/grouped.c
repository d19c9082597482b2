/* grouped.c - rows that go to one of several groups, each with a weight of its own. */
#include "ref.h"
#include "graph/tensor_attrs.h"

/* NaN is larger than all numbers, as in max_to. Of equals the first is taken. */
static bool larger(double a, double b) { return a > b || (isnan(a) && !isnan(b)); }

void ls_ref_top_k(const ls_kernel_args *a) /* x -> values, numbers */
{
    const int64_t n = columns(&a->in[0].type), k = columns(&a->out[0].type),
                  rows = ls_type_rows(&a->in[0].type);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t s = 0; s < k; s++) {
            int64_t best = -1;
            for (int64_t e = 0; e < n; e++) {
                bool taken = false;
                for (int64_t before = 0; before < s; before++)
                    taken = taken || (int64_t)row_get(ref_row(&a->out[1], i), before) == e;
                const double x = row_get(ref_row(&a->in[0], i), e);
                if (!taken && (best < 0 || larger(x, row_get(ref_row(&a->in[0], i), best))))
                    best = e;
            }
            row_put(ref_row(&a->out[0], i), s, row_get(ref_row(&a->in[0], i), best));
            row_put(ref_row(&a->out[1], i), s, (double)best);
        }
}

void ls_ref_group_order(const ls_kernel_args *a) /* index -> order, place, offsets */
{
    const int64_t groups = a->out[2].type.dims[0] - 1, rows = a->out[0].type.dims[0];
    int64_t at = 0;
    for (int64_t g = 0; g <= groups; g++) { /* behind the last group: rows of none */
        flat_put(&a->out[2], g, (double)at);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t of = (int64_t)flat_get(&a->in[0], i);
            if (of == g || (g == groups && (of < 0 || of > groups))) {
                flat_put(&a->out[0], at, (double)i);
                flat_put(&a->out[1], i, (double)at++);
            }
        }
    }
}

/* Element `number` of order or place; -1: it is not a row. */
static int64_t numbered(const ls_tensor *t, int64_t number)
{
    const double i = flat_get(t, number);
    return i >= 0 && i < (double)t->type.dims[0] ? (int64_t)i : -1;
}

void ls_ref_dispatch(const ls_kernel_args *a) /* x, order, place -> y */
{
    const int64_t rows = a->out[0].type.dims[0], n = a->in[0].type.dims[0],
                  each = ls_type_count(&a->in[0].type) / n;
    for (int64_t j = 0; j < rows; j++) {
        const int64_t from = numbered(&a->in[1], j);
        for (int64_t c = 0; c < each; c++)
            flat_put(&a->out[0], j * each + c,
                     from < 0 ? (double)NAN : flat_get(&a->in[0], from / (rows / n) * each + c));
    }
}

void ls_ref_combine(const ls_kernel_args *a) /* x, order, place -> y */
{
    const int64_t rows = a->in[0].type.dims[0], n = a->out[0].type.dims[0], k = rows / n,
                  each = ls_type_count(&a->out[0].type) / n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < each; c++) {
            double sum = 0;
            for (int64_t s = 0; s < k; s++) {
                const int64_t from = numbered(&a->in[2], i * k + s);
                sum += from < 0 ? (double)NAN : flat_get(&a->in[0], from * each + c);
            }
            flat_put(&a->out[0], i * each + c, sum);
        }
}

void ls_ref_received_groups(const ls_kernel_args *a) /* offsets of all ranks -> those here */
{
    const ls_received_attrs *r = a->attrs;
    const int64_t groups = a->out[0].type.dims[0] - 1, own = groups / r->ranks;
    double at = 0;
    flat_put(&a->out[0], 0, 0);
    for (int64_t g = 0; g < groups; g++) {
        const int64_t from = g / own * (groups + 1) + r->position * own + g % own;
        at += flat_get(&a->in[0], from + 1) - flat_get(&a->in[0], from);
        flat_put(&a->out[0], g + 1, at);
    }
}

/* The group of row i; -1: none. */
static int64_t group_of(const ls_tensor *offsets, int64_t i)
{
    for (int64_t g = 0; g + 1 < offsets->type.dims[0]; g++)
        if ((double)i >= flat_get(offsets, g) && (double)i < flat_get(offsets, g + 1))
            return g;
    return -1;
}

/* x, offsets, a weight for each group -> y. turned: w^T is what rows are multiplied by */
static void grouped_product(const ls_kernel_args *a, bool turned)
{
    const int64_t rows = a->in[0].type.dims[0], depth = a->in[0].type.dims[1], n = a->out[0].type.dims[1];
    for (int64_t i = 0; i < rows; i++) {
        const int64_t g = group_of(&a->in[1], i);
        for (int64_t c = 0; c < n; c++) {
            double sum = g < 0 ? (double)NAN : 0;
            for (int64_t d = 0; g >= 0 && d < depth; d++) {
                const ls_tensor *w = &a->in[2 + g];
                sum += row_get(ref_row(&a->in[0], i), d) *
                       (turned ? row_get(ref_row(w, c), d) : row_get(ref_row(w, d), c));
            }
            row_put(ref_row(&a->out[0], i), c, sum);
        }
    }
}
void ls_ref_grouped_linear(const ls_kernel_args *a) { grouped_product(a, true); }
void ls_ref_grouped_linear_dx(const ls_kernel_args *a) { grouped_product(a, false); }

void ls_ref_grouped_linear_dw(const ls_kernel_args *a) /* dy, x, offsets -> dw */
{
    const int64_t group = ((const ls_group_attrs *)a->attrs)->n, rows = a->in[0].type.dims[0];
    const int64_t begin = (int64_t)flat_get(&a->in[2], group), end = (int64_t)flat_get(&a->in[2], group + 1);
    for (int64_t n = 0; n < a->out[0].type.dims[0]; n++)
        for (int64_t k = 0; k < a->out[0].type.dims[1]; k++) {
            double sum = 0;
            for (int64_t i = begin < 0 ? 0 : begin; i < end && i < rows; i++)
                sum += row_get(ref_row(&a->in[0], i), n) * row_get(ref_row(&a->in[1], i), k);
            row_put(ref_row(&a->out[0], n), k, sum);
        }
}
