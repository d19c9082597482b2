/* loss.c - softmax, cross-entropy and argmax over the last dimension. */
#include "graph/loss_attrs.h"
#include "ref.h"

/* max + log(sum of exp(x - max)); NaN if an element is NaN or if the largest is infinite, as in PyTorch. */
static double log_sum_exp(ls_ref_row x, int64_t n)
{
    double max = -HUGE_VAL, sum = 0;
    for (int64_t k = 0; k < n; k++)
        max = fmax(max, row_get(x, k));
    for (int64_t k = 0; k < n; k++)
        sum += exp(row_get(x, k) - max);
    return max + log(sum);
}

void ls_ref_softmax(const ls_kernel_args *a) /* y may have a's memory */
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

void ls_ref_log_softmax(const ls_kernel_args *a) /* y may have a's memory */
{
    const int64_t rows = ls_type_rows(&a->in[0].type), n = columns(&a->in[0].type);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row x = ref_row(&a->in[0], r), y = ref_row(&a->out[0], r);
        const double lse = log_sum_exp(x, n);
        for (int64_t k = 0; k < n; k++)
            row_put(y, k, row_get(x, k) - lse);
    }
}

void ls_ref_log_softmax_grad(const ls_kernel_args *a) /* dy, y -> dx */
{
    const int64_t rows = ls_type_rows(&a->in[0].type), n = columns(&a->in[0].type);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row dy = ref_row(&a->in[0], r), y = ref_row(&a->in[1], r), dx = ref_row(&a->out[0], r);
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += row_get(dy, k);
        for (int64_t k = 0; k < n; k++)
            row_put(dx, k, row_get(dy, k) - exp(row_get(y, k)) * sum);
    }
}

/* The sum of elements [begin, end): blocks of 64 in order, and the blocks' sums in a balanced tree. */
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

/* The position of the largest; the first of equal ones. NaN is the largest. */
static int64_t largest(ls_ref_row x, int64_t n)
{
    int64_t best = 0;
    for (int64_t k = 1; k < n && !isnan(row_get(x, best)); k++)
        if (isnan(row_get(x, k)) || row_get(x, k) > row_get(x, best))
            best = k;
    return best;
}

/* The logit that the loss subtracts from the log-sum-exp: the label's, or with smoothing its mean with those
 * of all classes, of which these columns give their part. `label` counts from the first of them. */
static double at_label(const ls_kernel_args *a, ls_ref_row z, int64_t columns, int64_t classes, int64_t label)
{
    const double smoothing = ((const ls_loss_attrs *)a->attrs)->smoothing;
    double sum = 0;
    for (int64_t c = 0; c < columns && smoothing > 0; c++)
        sum += row_get(z, c);
    const double own = label >= 0 && label < columns ? row_get(z, label) : 0;
    return smoothing > 0 ? (1 - smoothing) * own + smoothing / (double)classes * sum : own;
}

void ls_ref_cross_entropy_part(const ls_kernel_args *a) /* logits, labels -> parts */
{
    const int64_t rows = a->in[0].type.dims[0], columns = a->in[0].type.dims[1];
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row z = ref_row(&a->in[0], r), part = ref_row(&a->out[0], r);
        const int64_t label = (int64_t)flat_get(&a->in[1], r) - ls_at_start(a, 1);
        const double max = row_get(z, largest(z, columns));
        double sum = 0;
        for (int64_t c = 0; c < columns && max != -HUGE_VAL; c++)
            sum += exp(row_get(z, c) - max);
        row_put(part, 0, max);
        row_put(part, 1, sum);
        row_put(part, 2, at_label(a, z, columns, ls_at_whole(a, 1, columns), label));
    }
}

/* The log-sum-exp of row r, and the label's logit, which is in one of the parts. */
static void ref_loss_join(const ls_tensor *parts, int64_t r, double *lse, double *at_label)
{
    const int64_t n = parts->type.dims[0], rows = parts->type.dims[1];
    double max = -HUGE_VAL, sum = 0;
    *at_label = 0;
    for (int64_t p = 0; p < n; p++)
        max = fmax(max, row_get(ref_row(parts, p * rows + r), 0));
    for (int64_t p = 0; p < n; p++) {
        const ls_ref_row part = ref_row(parts, p * rows + r);
        sum += row_get(part, 1) * exp(row_get(part, 0) - max);
        *at_label += row_get(part, 2);
    }
    *lse = max + log(sum);
}

void ls_ref_cross_entropy(const ls_kernel_args *a) /* logits, labels, count, parts? -> loss, lse, rows */
{
    const ls_loss_attrs *at = a->attrs;
    const int64_t rows = a->in[0].type.dims[0], here = a->in[0].type.dims[1],
                  classes = ls_at_whole(a, 1, here);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row z = ref_row(&a->in[0], r);
        const int64_t label = (int64_t)flat_get(&a->in[1], r);
        const bool valid = label >= 0 && label < classes;
        double lse, subtract = NAN;
        if (given(a, 3)) {
            ref_loss_join(&a->in[3], r, &lse, &subtract);
        } else {
            lse = log_sum_exp(z, here);
            subtract = valid ? at_label(a, z, here, classes, label) : subtract;
        }
        flat_put(&a->out[1], r, lse);
        flat_put(&a->out[2], r, label == at->ignore_index ? 0 : valid ? lse - subtract : NAN);
    }
    ls_ref_put(&a->out[0], 0, tree_sum(&a->out[2], 0, rows) / (given(a, 2) ? scalar_get(&a->in[2]) : 1));
}

void ls_ref_cross_entropy_grad(const ls_kernel_args *a) /* logits, labels, lse, count?, dloss -> dlogits */
{
    const ls_loss_attrs *at = a->attrs;
    const int64_t rows = a->in[0].type.dims[0], classes = a->in[0].type.dims[1], first = ls_at_start(a, 1);
    const double count = given(a, 3) ? scalar_get(&a->in[3]) : 1,
                 everywhere = at->smoothing / (double)ls_at_whole(a, 1, classes);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row z = ref_row(&a->in[0], r), dz = ref_row(&a->out[0], r);
        const int64_t label = (int64_t)flat_get(&a->in[1], r);
        const double lse = flat_get(&a->in[2], r),
                     weight = flat_get(&a->in[4], a->in[4].type.ndim ? r : 0) / count;
        for (int64_t c = 0; c < classes; c++) {
            const double target = everywhere + (first + c == label ? 1 - at->smoothing : 0);
            row_put(dz, c, label == at->ignore_index ? 0 : (exp(row_get(z, c) - lse) - target) * weight);
        }
    }
}

void ls_ref_argmax(const ls_kernel_args *a)
{
    const int64_t rows = ls_type_rows(&a->in[0].type), n = columns(&a->in[0].type);
    for (int64_t r = 0; r < rows; r++)
        flat_put(&a->out[0], r, (double)largest(ref_row(&a->in[0], r), n));
}

void ls_ref_argmax_part(const ls_kernel_args *a) /* a -> parts */
{
    const int64_t rows = ls_type_rows(&a->in[0].type), n = columns(&a->in[0].type),
                  first = ls_at_start(a, a->in[0].type.ndim - 1);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row x = ref_row(&a->in[0], r), part = ref_row(&a->out[0], r);
        const int64_t best = largest(x, n);
        row_put(part, 0, row_get(x, best));
        row_put(part, 1, (double)(first + best));
    }
}

void ls_ref_argmax_join(const ls_kernel_args *a) /* parts -> argmax; the first part of equals */
{
    const int64_t n = a->in[0].type.dims[0], rows = ls_type_count(&a->out[0].type);
    for (int64_t r = 0; r < rows; r++) {
        ls_ref_row best = ref_row(&a->in[0], r);
        for (int64_t p = 1; p < n && !isnan(row_get(best, 0)); p++) {
            const ls_ref_row other = ref_row(&a->in[0], p * rows + r);
            if (isnan(row_get(other, 0)) || row_get(other, 0) > row_get(best, 0))
                best = other;
        }
        flat_put(&a->out[0], r, row_get(best, 1));
    }
}

/* linear_cross_entropy: linear and cross_entropy, one row after the other. */
enum { X, W, LABELS, BIAS, COUNT, DLOSS };

size_t ls_ref_linear_cross_entropy_workspace(const ls_kernel_args *a)
{
    const ls_type *w = &a->in[W].type;
    const int64_t sums = ((const ls_linear_loss_attrs *)a->attrs)->dw ? w->dims[0] * w->dims[1] : 0;
    return sizeof(double) * (size_t)(w->dims[0] + sums);
}

/* x, w, labels, bias?, count?, dloss? -> loss, rows, top?, dx?, dw? */
void ls_ref_linear_cross_entropy(const ls_kernel_args *a)
{
    const ls_linear_loss_attrs *at = a->attrs;
    const ls_dtype dtype = a->in[X].type.dtype;
    const int64_t rows = a->in[X].type.dims[0], depth = a->in[X].type.dims[1],
                  classes = a->in[W].type.dims[0];
    double *z = a->workspace, *dw = z + classes;
    const double count = given(a, COUNT) ? scalar_get(&a->in[COUNT]) : 1;
    for (int64_t i = 0; i < classes * depth && at->dw; i++)
        dw[i] = 0;
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row x = ref_row(&a->in[X], r);
        const int64_t label = (int64_t)flat_get(&a->in[LABELS], r);
        double max = -HUGE_VAL, sum = 0, all = 0;
        int64_t top = 0;
        for (int64_t c = 0; c < classes; c++) {
            const ls_ref_row w = ref_row(&a->in[W], c);
            double dot = 0;
            for (int64_t k = 0; k < depth; k++)
                dot += row_get(x, k) * row_get(w, k);
            dot += given(a, BIAS) ? row_get(ref_row(&a->in[BIAS], 0), c) : 0;
            z[c] = ls_ref_round(dot, dtype);
            max = fmax(max, z[c]);
            all += z[c];
            if (!isnan(z[top]) && (isnan(z[c]) || z[c] > z[top]))
                top = c;
        }
        for (int64_t c = 0; c < classes; c++)
            sum += exp(z[c] - max);
        const double lse = max + log(sum);
        const bool valid = label >= 0 && label < classes, ignored = label == at->ignore_index;
        const double own = valid ? (1 - at->smoothing) * z[label] : NAN;
        const double subtract = at->smoothing > 0 ? own + at->smoothing / (double)classes * all : own;
        flat_put(&a->out[1], r, ignored ? 0 : lse - subtract);
        if (at->top)
            flat_put(&a->out[2], r, (double)top);
        if (!at->dx && !at->dw)
            continue;
        const double weight = flat_get(&a->in[DLOSS], a->in[DLOSS].type.ndim ? r : 0) / count;
        const double stored = ls_ref_round(lse, a->out[1].type.dtype);
        for (int64_t c = 0; c < classes; c++) {
            const double target = at->smoothing / (double)classes + (c == label ? 1 - at->smoothing : 0);
            z[c] = ignored ? 0 : ls_ref_round((exp(z[c] - stored) - target) * weight, dtype);
            for (int64_t k = 0; k < depth && at->dw && !ignored; k++)
                dw[c * depth + k] += z[c] * row_get(x, k);
        }
        for (int64_t k = 0; k < depth && at->dx; k++) {
            double dot = 0;
            for (int64_t c = 0; c < classes && !ignored; c++)
                dot += z[c] * row_get(ref_row(&a->in[W], c), k);
            row_put(ref_row(&a->out[2 + at->top], r), k, dot);
        }
    }
    ls_ref_put(&a->out[0], 0, tree_sum(&a->out[1], 0, rows) / count);
    for (int64_t c = 0; c < classes && at->dw; c++)
        for (int64_t k = 0; k < depth; k++)
            row_put(ref_row(&a->out[a->n_out - 1], c), k, dw[c * depth + k]);
}

/* Row i counts by this; rows from `end` on are padding. */
static double row_weight(const ls_kernel_args *a, int64_t i, int64_t end)
{
    const ls_row_sum_attrs *at = a->attrs;
    const double w = i >= end ? 0 : given(a, 1) ? flat_get(&a->in[1], i) : 1;
    return given(a, 1) && a->in[1].type.dtype == LS_I32 && i < end ? w != (double)at->ignore_index : w;
}

static int64_t row_end(const ls_kernel_args *a)
{
    const ls_row_sum_attrs *at = a->attrs;
    const int64_t here = a->in[0].type.dims[0], inner = ls_type_count(&a->in[0].type) / here;
    const int64_t n = given(a, 2) ? (int64_t)scalar_get(&a->in[2]) * at->each - ls_at_start(a, 0) : here;
    return (n < 0 ? 0 : n < here ? n : here) * inner;
}

void ls_ref_row_sum(const ls_kernel_args *a) /* rows, weights?, real?, divisor? -> sum */
{
    const int64_t n = ls_type_count(&a->in[0].type), end = row_end(a);
    double total = 0;
    for (int64_t i = 0; i < n; i++)
        if (row_weight(a, i, end) != 0)
            total += row_weight(a, i, end) * flat_get(&a->in[0], i);
    ls_ref_put(&a->out[0], 0, total / (given(a, 3) ? scalar_get(&a->in[3]) : 1));
}

void ls_ref_row_sum_grad(const ls_kernel_args *a) /* rows, weights?, real?, divisor?, dsum -> drows */
{
    const int64_t n = ls_type_count(&a->in[0].type), end = row_end(a);
    const double d = scalar_get(&a->in[4]) / (given(a, 3) ? scalar_get(&a->in[3]) : 1);
    for (int64_t i = 0; i < n; i++)
        flat_put(&a->out[0], i, row_weight(a, i, end) * d);
}
