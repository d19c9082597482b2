/* loss.c - softmax, cross-entropy and argmax over the last dimension. */
#include "ref.h"

/* max + log(sum of exp(x - max)); NaN if an element is NaN or the largest is infinite, as in PyTorch. */
static double log_sum_exp(ls_ref_row x, int64_t n)
{
    double max = -HUGE_VAL, sum = 0;
    for (int64_t k = 0; k < n; k++)
        max = fmax(max, row_get(x, k));
    for (int64_t k = 0; k < n; k++)
        sum += exp(row_get(x, k) - max);
    return max + log(sum);
}

void ls_ref_softmax(const ls_kernel_args *a) /* a -> y; y may be a */
{
    const int64_t rows = ls_type_rows(&a->in[0].type), n = columns(&a->in[0].type);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row x = ref_row(&a->in[0], r), y = ref_row(&a->out[0], r);
        const double lse = log_sum_exp(x, n);
        for (int64_t k = 0; k < n; k++)
            row_put(y, k, exp(row_get(x, k) - lse));
    }
}

void ls_ref_softmax_grad(const ls_kernel_args *a) /* dy, y -> dx */
{
    const int64_t rows = ls_type_rows(&a->in[0].type), n = columns(&a->in[0].type);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row dy = ref_row(&a->in[0], r), y = ref_row(&a->in[1], r), dx = ref_row(&a->out[0], r);
        double dot = 0;
        for (int64_t k = 0; k < n; k++)
            dot += row_get(dy, k) * row_get(y, k);
        for (int64_t k = 0; k < n; k++)
            row_put(dx, k, row_get(y, k) * (row_get(dy, k) - dot));
    }
}

/* Sum of elements [begin, end): blocks of 64 in index order, the blocks' sums in a balanced tree. */
static double tree_sum(const ls_tensor *t, int64_t begin, int64_t end)
{
    const int64_t blocks = (end - begin + 63) / 64;
    if (blocks > 1) {
        const int64_t middle = begin + 64 * ((blocks + 1) / 2);
        return tree_sum(t, begin, middle) + tree_sum(t, middle, end);
    }
    double sum = 0;
    for (int64_t i = begin; i < end; i++)
        sum += flat_get(t, i);
    return sum;
}

void ls_ref_cross_entropy(const ls_kernel_args *a) /* logits, labels, count -> loss, lse, rows */
{
    const int64_t ignore = ((const ls_loss_attrs *)a->attrs)->ignore_index;
    const int64_t rows = a->in[0].type.dims[0], classes = a->in[0].type.dims[1];
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row z = ref_row(&a->in[0], r);
        const int64_t label = (int64_t)flat_get(&a->in[1], r);
        const double lse = log_sum_exp(z, classes);
        flat_put(&a->out[1], r, lse);
        flat_put(&a->out[2], r, label == ignore ? 0 : lse - row_get(z, label));
    }
    ls_ref_put(&a->out[0], 0, tree_sum(&a->out[2], 0, rows) / scalar_get(&a->in[2]));
}

void ls_ref_cross_entropy_grad(const ls_kernel_args *a) /* logits, labels, lse, count, dloss -> dlogits */
{
    const int64_t ignore = ((const ls_loss_attrs *)a->attrs)->ignore_index;
    const int64_t rows = a->in[0].type.dims[0], classes = a->in[0].type.dims[1];
    const double weight = scalar_get(&a->in[4]) / scalar_get(&a->in[3]);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row z = ref_row(&a->in[0], r), dz = ref_row(&a->out[0], r);
        const int64_t label = (int64_t)flat_get(&a->in[1], r);
        const double lse = flat_get(&a->in[2], r);
        for (int64_t c = 0; c < classes; c++)
            row_put(dz, c, label == ignore ? 0 : (exp(row_get(z, c) - lse) - (c == label)) * weight);
    }
}

void ls_ref_argmax(const ls_kernel_args *a) /* the first of equals; NaN counts as largest */
{
    const int64_t rows = ls_type_rows(&a->in[0].type), n = columns(&a->in[0].type);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row x = ref_row(&a->in[0], r);
        int64_t best = 0;
        for (int64_t k = 1; k < n && !isnan(row_get(x, best)); k++)
            if (isnan(row_get(x, k)) || row_get(x, k) > row_get(x, best))
                best = k;
        flat_put(&a->out[0], r, (double)best);
    }
}
