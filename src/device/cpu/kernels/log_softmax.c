/* log_softmax.c - the logarithm of softmax over the last dimension, and its gradient. As in PyTorch, a row
 * gives NaN if all of it is -inf, or if it contains NaN or +inf. */
#include "tensor_ops.h"
#include "kernel.h"

typedef struct log_softmax_job {
    const ls_kernel_args *a;
    int64_t k;
} log_softmax_job;

SIMD_FN void log_softmax_rows(ls_dtype T, const log_softmax_job *j, int64_t begin, int64_t end)
{
    const int64_t k = j->k;
    const float none = -__builtin_inff();
    for (int64_t r = begin; r < end; r++) {
        const char *x = elem_at(&j->a->in[0], r * k);
        char *y = elem_at(&j->a->out[0], r * k); /* may have the memory of x */
        vf top = vf_set1(none), sum = vf_zero();
        for (int64_t c = 0; c < k; c += VF_LANES)
            top = vf_max(get_padded(T, x, c, (int)min_i64(VF_LANES, k - c), none), top);
        const vf m = vf_set1(vf_max_lane(top));
        for (int64_t c = 0; c < k; c += VF_LANES)
            sum += exp_below_zero(get_padded(T, x, c, (int)min_i64(VF_LANES, k - c), none) - m);
        const vf log_sum = vf_log(vf_set1(vf_sum(sum)));
        for (int64_t c = 0; c < k; c += VF_LANES) {
            const int n = (int)min_i64(VF_LANES, k - c);
            vf_put_n(y, T, c, get_padded(T, x, c, n, 0.0f) - m - log_sum, n);
        }
    }
}

static void log_softmax_task(void *context, int64_t begin, int64_t end, int worker)
{
    const log_softmax_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, log_softmax_rows, j, begin, end);
}

KERNEL(log_softmax)
{
    log_softmax_job j = { .a = a, .k = cols_of(&a->in[0]) };
    const int64_t rows = rows_of(&a->in[0]);
    ls_parallel_for(threads_for(a, rows * j.k), rows, log_softmax_task, &j);
}

SIMD_FN void log_softmax_grad_rows(ls_dtype T, const log_softmax_job *j, int64_t begin, int64_t end)
{
    const int64_t k = j->k;
    for (int64_t r = begin; r < end; r++) {
        const char *dy = elem_at(&j->a->in[0], r * k), *y = elem_at(&j->a->in[1], r * k);
        char *dx = elem_at(&j->a->out[0], r * k);
        vf s = vf_zero();
        for (int64_t c = 0; c < k; c += VF_LANES)
            s += get_padded(T, dy, c, (int)min_i64(VF_LANES, k - c), 0.0f);
        const vf sum = vf_set1(vf_sum(s));
        for (int64_t c = 0; c < k; c += VF_LANES) {
            const int n = (int)min_i64(VF_LANES, k - c);
            const vf p = exp_below_zero(get_padded(T, y, c, n, 0.0f));
            vf_put_n(dx, T, c, vf_fnma(p, sum, get_padded(T, dy, c, n, 0.0f)), n);
        }
    }
}

static void log_softmax_grad_task(void *context, int64_t begin, int64_t end, int worker)
{
    const log_softmax_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, log_softmax_grad_rows, j, begin, end);
}

KERNEL(log_softmax_grad)
{
    log_softmax_job j = { .a = a, .k = cols_of(&a->in[0]) };
    const int64_t rows = rows_of(&a->in[0]);
    ls_parallel_for(threads_for(a, rows * j.k), rows, log_softmax_grad_task, &j);
}
