/* softmax.c - softmax over the last dimension, and its gradient. As in PyTorch, a row gives NaN if all of it
 * is -inf, or if it contains NaN or +inf. */
#include "table.h"
#include "kernel.h"

typedef struct softmax_job {
    const ls_kernel_args *a;
    int64_t k;
} softmax_job;

SIMD_FN void softmax_rows(ls_dtype T, const softmax_job *j, int64_t begin, int64_t end)
{
    const int64_t k = j->k;
    for (int64_t r = begin; r < end; r++) {
        const char *x = elem_at(&j->a->in[0], r * k);
        char *y = elem_at(&j->a->out[0], r * k);
        vf top = vf_set1(-__builtin_inff()), sum = vf_zero();
        for (int64_t c = 0; c < k; c += VF_LANES)
            top = vf_max(get_padded(T, x, c, (int)min_i64(VF_LANES, k - c), -__builtin_inff()), top);
        const vf m = vf_set1(vf_max_lane(top));
        for (int64_t c = 0; c < k; c += VF_LANES)
            sum += exp_below_zero(get_padded(T, x, c, (int)min_i64(VF_LANES, k - c), -__builtin_inff()) - m);
        const vf scale = vf_set1(1.0f / vf_sum(sum));
        for (int64_t c = 0; c < k; c += VF_LANES) {
            /* computed again, because x may have the memory of y */
            const int n = (int)min_i64(VF_LANES, k - c);
            const vf p = exp_below_zero(get_padded(T, x, c, n, -__builtin_inff()) - m) * scale;
            if (n == VF_LANES)
                vf_put(y, T, c, p);
            else
                vf_put_n(y, T, c, p, n);
        }
    }
}

static void softmax_task(void *context, int64_t begin, int64_t end, int worker)
{
    const softmax_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, softmax_rows, j, begin, end);
}

KERNEL(softmax)
{
    softmax_job j = { .a = a, .k = cols_of(&a->in[0]) };
    const int64_t rows = rows_of(&a->in[0]);
    ls_parallel_for(threads_for(a, rows * j.k), rows, softmax_task, &j);
}

SIMD_FN void softmax_grad_rows(ls_dtype T, const softmax_job *j, int64_t begin, int64_t end)
{
    const int64_t k = j->k;
    for (int64_t r = begin; r < end; r++) {
        const char *dy = elem_at(&j->a->in[0], r * k), *y = elem_at(&j->a->in[1], r * k);
        char *dx = elem_at(&j->a->out[0], r * k);
        vf s = vf_zero();
        for (int64_t c = 0; c < k; c += VF_LANES) {
            const int n = (int)min_i64(VF_LANES, k - c);
            s = vf_fma(get_padded(T, dy, c, n, 0.0f), get_padded(T, y, c, n, 0.0f), s);
        }
        const vf dot = vf_set1(vf_sum(s));
        for (int64_t c = 0; c < k; c += VF_LANES) {
            const int n = (int)min_i64(VF_LANES, k - c);
            vf_put_n(dx, T, c, get_padded(T, y, c, n, 0.0f) * (get_padded(T, dy, c, n, 0.0f) - dot), n);
        }
    }
}

static void softmax_grad_task(void *context, int64_t begin, int64_t end, int worker)
{
    const softmax_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, softmax_grad_rows, j, begin, end);
}

KERNEL(softmax_grad)
{
    softmax_job j = { .a = a, .k = cols_of(&a->in[0]) };
    const int64_t rows = rows_of(&a->in[0]);
    ls_parallel_for(threads_for(a, rows * j.k), rows, softmax_grad_task, &j);
}
