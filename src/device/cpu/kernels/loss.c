/* loss.c - cross-entropy of rows of logits with class numbers, its gradient, and argmax. There may be 10 to
 * 150,000 classes, so a row is read from memory once, in chunks that stay in L1 between the maximum and the
 * exponentials. */
#include "linear_loss.h"
#include "kernel.h"
#include "tree_sum.h"

enum { CHUNK = 1024, LOSS_BLOCK = 64 };

typedef struct loss_job {
    const ls_kernel_args *a;
    int64_t k;
} loss_job;

/* The largest of k numbers, and the sum of exp(x - largest). The sum is relative to the running maximum,
 * which each chunk may increase. It is NaN if a number is NaN or +inf. */
typedef struct exp_sum {
    float top, sum;
} exp_sum;

SIMD_FN exp_sum sum_exp(ls_dtype T, const void *x, int64_t k)
{
    const float none = -__builtin_inff();
    float m = none, sum = 0.0f;
    for (int64_t begin = 0; begin < k; begin += CHUNK) {
        const int64_t end = min_i64(begin + CHUNK, k);
        vf top = vf_set1(m), s = vf_zero();
        for (int64_t c = begin; c < end; c += VF_LANES)
            top = vf_max(get_padded(T, x, c, (int)min_i64(VF_LANES, end - c), none), top);
        const float most = vf_max_lane(top);
        const float base = most == none ? 0.0f : most;
        for (int64_t c = begin; c < end; c += VF_LANES)
            s += exp_below_zero(get_padded(T, x, c, (int)min_i64(VF_LANES, end - c), none) - base);
        if (most > m && sum != 0.0f)
            sum *= exp_below_zero(vf_set1(m - base))[0];
        sum += vf_sum(s);
        m = most;
    }
    return (exp_sum){ m, sum };
}

/* NaN as in PyTorch, also if all are -inf */
SIMD_FN float log_sum_exp(exp_sum e)
{
    return e.top == -__builtin_inff() ? __builtin_nanf("") : e.top + vf_log(vf_set1(e.sum))[0];
}

/* For columns on other ranks, cross_entropy needs three numbers of this rank's: the largest, the sum, and the
 * label's logit if it is among these columns. */
enum { TOP, SUM, AT_LABEL, PARTS };

/* What the loss subtracts from the log-sum-exp: the label's logit (0 if it is not one of these k columns), or
 * with smoothing its mean with the logits of all classes, of which these columns give their part. */
SIMD_FN float at_label_of(ls_dtype T, const ls_kernel_args *a, const void *x, int64_t k, int64_t label)
{
    const double smoothing = ((const ls_loss_attrs *)a->attrs)->smoothing;
    const float own = label >= 0 && label < k ? f_get(x, T, label) : 0.0f;
    if (smoothing == 0)
        return own;
    vf sum = vf_zero();
    for (int64_t c = 0; c < k; c += VF_LANES)
        sum += get_padded(T, x, c, (int)min_i64(VF_LANES, k - c), 0.0f);
    return (float)(1 - smoothing) * own + (float)(smoothing / (double)ls_at_whole(a, 1, k)) * vf_sum(sum);
}

SIMD_FN void part_rows(ls_dtype T, const loss_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int64_t first = ls_at_start(a, 1);
    const int32_t *labels = a->in[1].data;
    for (int64_t r = begin; r < end; r++) {
        const void *x = elem_at(&a->in[0], r * j->k);
        const int64_t label = labels[r] - first;
        const exp_sum e = sum_exp(T, x, j->k);
        float *part = (float *)a->out[0].data + r * PARTS;
        part[TOP] = e.top;
        part[SUM] = e.sum;
        part[AT_LABEL] = at_label_of(T, a, x, j->k, label);
    }
}

static void part_task(void *context, int64_t begin, int64_t end, int worker)
{
    const loss_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, part_rows, j, begin, end);
}

KERNEL(cross_entropy_part)
{
    loss_job j = { .a = a, .k = cols_of(&a->in[0]) };
    const int64_t n = rows_of(&a->in[0]);
    ls_parallel_for(threads_for(a, n * j.k), n, part_task, &j);
}

/* Row r of part n, where each part has `rows` rows. */
SIMD_FN exp_sum join_parts(const float *parts, int64_t n, int64_t rows, int64_t r, float *at_label)
{
    exp_sum e = { -__builtin_inff(), 0.0f };
    *at_label = 0.0f;
    for (int64_t p = 0; p < n; p++)
        e.top = parts[(p * rows + r) * PARTS + TOP] > e.top ? parts[(p * rows + r) * PARTS + TOP] : e.top;
    for (int64_t p = 0; p < n; p++) {
        const float *part = &parts[(p * rows + r) * PARTS];
        /* nothing but -inf: adds nothing to the sum */
        e.sum += part[SUM] == 0.0f ? 0.0f : part[SUM] * exp_below_zero(vf_set1(part[TOP] - e.top))[0];
        *at_label += part[AT_LABEL];
    }
    return e;
}

/* The loader never gives a label outside of the classes. If one comes, the result is NaN, and nothing is read
 * beyond the row. */
SIMD_FN void loss_rows(ls_dtype T, const loss_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const ls_loss_attrs *at = a->attrs;
    const ls_tensor *parts = a->n_in > 3 && present(&a->in[3]) ? &a->in[3] : NULL;
    const int64_t classes = ls_at_whole(a, 1, j->k);
    const int32_t *labels = a->in[1].data;
    float *lse = a->out[1].data, *rows = a->out[2].data;
    for (int64_t r = begin; r < end; r++) {
        const void *x = elem_at(&a->in[0], r * j->k);
        const int64_t label = labels[r];
        const bool valid = label >= 0 && label < classes;
        float at_label = 0.0f;
        if (parts) {
            lse[r] = log_sum_exp(
                join_parts(parts->data, parts->type.dims[0], parts->type.dims[1], r, &at_label));
        } else {
            lse[r] = log_sum_exp(sum_exp(T, x, j->k));
            at_label = at_label_of(T, a, x, j->k, label);
        }
        rows[r] = label == at->ignore_index ? 0.0f : valid ? lse[r] - at_label : __builtin_nanf("");
    }
}

static void loss_task(void *context, int64_t begin, int64_t end, int worker)
{
    const loss_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, loss_rows, j, begin, end);
}

void LS_NAME(ls_loss_total)(float *loss, const float *rows, int64_t n, float count)
{
    tree_f64 tree = { .count = 0 };
    for (int64_t r = 0; r < n; r += LOSS_BLOCK) {
        double block = 0.0;
        for (int64_t i = r; i < min_i64(r + LOSS_BLOCK, n); i++)
            block += rows[i];
        tree_f64_add(&tree, block);
    }
    *loss = (float)(tree_f64_total(&tree) / (double)count);
}

KERNEL(cross_entropy)
{
    loss_job j = { .a = a, .k = cols_of(&a->in[0]) };
    const int64_t n = rows_of(&a->in[0]);
    ls_parallel_for(threads_for(a, n * j.k), n, loss_task, &j);
    LS_NAME(ls_loss_total)
    (a->out[0].data, a->out[2].data, n, present(&a->in[2]) ? *(const float *)a->in[2].data : 1.0f);
}

SIMD_FN void loss_grad_rows(ls_dtype T, const loss_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const ls_loss_attrs *at = a->attrs;
    const int64_t k = j->k, first = ls_at_start(a, 1), classes = ls_at_whole(a, 1, k);
    const int32_t *labels = a->in[1].data;
    const float *lse = a->in[2].data;
    const float *dloss = a->in[4].data, count = present(&a->in[3]) ? *(const float *)a->in[3].data : 1.0f,
                everywhere = (float)(at->smoothing / (double)classes), on_label = (float)(1 - at->smoothing);
    for (int64_t r = begin; r < end; r++) {
        const char *x = elem_at(&a->in[0], r * k);
        char *dx = elem_at(&a->out[0], r * k);
        const int64_t label = labels[r];
        if (label == at->ignore_index) {
            memset(dx, 0, (size_t)(k * elem_size(T)));
            continue;
        }
        const int64_t hot = label - first;
        const bool valid = label >= 0 && label < classes, here = valid && hot >= 0 && hot < k;
        /* read before dx is written, because dx may have the memory of x */
        const float at_label = here ? f_get(x, T, hot) : 0.0f;
        const float weight = dloss[a->in[4].type.ndim ? r : 0] / count;
        const vf l = vf_set1(valid ? lse[r] : __builtin_nanf("")), w = vf_set1(weight),
                 e = vf_set1(everywhere);
        for (int64_t c = 0; c < k; c += VF_LANES) {
            const int n = (int)min_i64(VF_LANES, k - c);
            vf_put_n(dx, T, c, (exp_below_zero(get_padded(T, x, c, n, 0.0f) - l) - e) * w, n);
        }
        if (here)
            f_put(dx, T, hot, (exp_below_zero(vf_set1(at_label) - l)[0] - everywhere - on_label) * weight);
    }
}

static void loss_grad_task(void *context, int64_t begin, int64_t end, int worker)
{
    const loss_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, loss_grad_rows, j, begin, end);
}

KERNEL(cross_entropy_grad)
{
    loss_job j = { .a = a, .k = cols_of(&a->in[0]) };
    const int64_t n = rows_of(&a->in[0]);
    ls_parallel_for(threads_for(a, n * j.k), n, loss_grad_task, &j);
}

/* Finds the largest value, then its first position. NaN is the largest. */
SIMD_FN int64_t largest(ls_dtype T, const char *x, int64_t k)
{
    vf top = vf_set1(-__builtin_inff()), nan = vf_zero();
    for (int64_t c = 0; c < k; c += VF_LANES) {
        const vf v = get_padded(T, x, c, (int)min_i64(VF_LANES, k - c), -__builtin_inff());
        top = vf_max(v, top);
        nan = vf_select(vf_isnan(v), v, nan);
    }
    const bool any_nan = vm_any(vf_isnan(nan));
    const vf most = vf_set1(vf_max_lane(top));
    int64_t c = 0;
    for (; c + VF_LANES <= k; c += VF_LANES) {
        const vf v = vf_get(x, T, c);
        if (vm_any(any_nan ? vf_isnan(v) : vf_eq(v, most)))
            break;
    }
    for (; c + 1 < k; c++) {
        const float v = f_get(x, T, c);
        if (any_nan ? v != v : v == most[0])
            break;
    }
    return c;
}

/* argmax: the position of the largest; argmax_part: the largest, and its position. */
SIMD_FN void argmax_rows(ls_dtype T, const loss_job *j, int64_t begin, int64_t end)
{
    const ls_tensor *out = &j->a->out[0];
    const int64_t first = ls_at_start(j->a, j->a->in[0].type.ndim - 1);
    for (int64_t r = begin; r < end; r++) {
        const char *x = elem_at(&j->a->in[0], r * j->k);
        const int64_t c = largest(T, x, j->k);
        if (out->type.dtype == LS_I32) {
            ((int32_t *)out->data)[r] = (int32_t)c;
            continue;
        }
        ((float *)out->data)[2 * r] = f_get(x, T, c);
        ((float *)out->data)[2 * r + 1] = (float)(first + c);
    }
}

static void argmax_task(void *context, int64_t begin, int64_t end, int worker)
{
    const loss_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, argmax_rows, j, begin, end);
}

KERNEL(argmax)
{
    loss_job j = { .a = a, .k = cols_of(&a->in[0]) };
    const int64_t n = rows_of(&a->in[0]);
    ls_parallel_for(threads_for(a, n * j.k), n, argmax_task, &j);
}

KERNEL(argmax_part) { LS_NAME(ls_argmax)(a); }

KERNEL(argmax_join)
{
    const int64_t parts = a->in[0].type.dims[0], n = count_of(&a->out[0]);
    const float *in = a->in[0].data;
    for (int64_t r = 0; r < n; r++) {
        const float *best = &in[2 * r];
        for (int64_t p = 1; p < parts && best[0] == best[0]; p++)
            /* (the comparison is false for NaN) */
            best = in[2 * (p * n + r)] <= best[0] ? best : &in[2 * (p * n + r)];
        ((int32_t *)a->out[0].data)[r] = (int32_t)best[1];
    }
}
