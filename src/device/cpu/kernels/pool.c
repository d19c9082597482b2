/* pool.c - max pooling and adaptive average pooling, and their gradients. Threads share planes; a plane is done in order, in f32. */
#include "table.h"
#include "kernel.h"

typedef struct pool {
    const ls_kernel_args *a;
    int64_t h, w, oh, ow; /* of a plane of the picture and of the result */
    float *sums;          /* gradients: a plane of the picture for each thread */
} pool;

static int64_t plane_floats(const ls_type *picture) { return round_up(picture->dims[2] * picture->dims[3], 16); }

static size_t plane_bytes(const ls_kernel_args *a) {
    return sizeof(float) * (size_t)(plane_floats(&a->out[0].type) * (a->threads > 1 ? a->threads : 1));
}

/* Runs over all planes; the picture is `x`, the result `y`. */
static void run(const ls_kernel_args *a, const ls_type *x, const ls_type *y, ls_range_fn task) {
    pool p = { .a = a, .h = x->dims[2], .w = x->dims[3], .oh = y->dims[2], .ow = y->dims[3], .sums = a->workspace };
    const int64_t planes = x->dims[0] * x->dims[1];
    ls_parallel_for(threads_for(a, planes * p.h * p.w), planes, task, &p);
}

SIMD_FN int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

SIMD_FN void max_planes(ls_dtype T, const pool *p, int64_t begin, int64_t end) {
    const ls_max_pool_attrs *o = p->a->attrs;
    for (int64_t plane = begin; plane < end; plane++)
        for (int64_t i = 0; i < p->oh * p->ow; i++) {
            const int64_t top = i / p->ow * o->stride_h - o->pad_h, left = i % p->ow * o->stride_w - o->pad_w;
            const int64_t h0 = max_i64(top, 0), h1 = min_i64(top + o->kernel_h, p->h);
            const int64_t w0 = max_i64(left, 0), w1 = min_i64(left + o->kernel_w, p->w);
            int64_t where = h0 * p->w + w0;
            float best = f_get(p->a->in[0].data, T, plane * p->h * p->w + where);
            for (int64_t h = h0; h < h1; h++)
                for (int64_t k = h * p->w + w0; k < h * p->w + w1; k++) {
                    const float v = f_get(p->a->in[0].data, T, plane * p->h * p->w + k);
                    const bool better = v > best || v != v; /* PyTorch's rule: the first of equals, the last NaN */
                    best = better ? v : best;
                    where = better ? k : where;
                }
            f_put(p->a->out[0].data, T, plane * p->oh * p->ow + i, best);
            ((int32_t *)p->a->out[1].data)[plane * p->oh * p->ow + i] = (int32_t)where;
        }
}

SIMD_FN void put_plane(ls_dtype T, const ls_tensor *to, int64_t plane, const float *sums, int64_t n) {
    for (int64_t i = 0; i < n; i += VF_LANES)
        vf_put_n(to->data, T, plane * n + i, vf_load_n(sums + i, (int)min_i64(n - i, VF_LANES)), (int)min_i64(n - i, VF_LANES));
}

SIMD_FN void max_grad_planes(ls_dtype T, const pool *p, int64_t begin, int64_t end, int worker) {
    const int64_t n = p->h * p->w, results = p->oh * p->ow;
    const int32_t *where = p->a->in[1].data;
    float *sums = p->sums + worker * plane_floats(&p->a->out[0].type);
    for (int64_t plane = begin; plane < end; plane++) {
        memset(sums, 0, sizeof(float) * (size_t)n);
        for (int64_t i = plane * results; i < (plane + 1) * results; i++)
            sums[where[i]] += f_get(p->a->in[0].data, T, i);
        put_plane(T, &p->a->out[0], plane, sums, n);
    }
}

/* Window k of `windows` that cover n elements. */
SIMD_FN int64_t window_begin(int64_t k, int64_t windows, int64_t n) { return k * n / windows; }
SIMD_FN int64_t window_end(int64_t k, int64_t windows, int64_t n) { return ((k + 1) * n + windows - 1) / windows; }

SIMD_FN void avg_planes(ls_dtype T, const pool *p, int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; plane++)
        for (int64_t i = 0; i < p->oh * p->ow; i++) {
            const int64_t r = i / p->ow, c = i % p->ow, h0 = window_begin(r, p->oh, p->h), h1 = window_end(r, p->oh, p->h);
            const int64_t w0 = window_begin(c, p->ow, p->w), w1 = window_end(c, p->ow, p->w);
            vf sum = vf_zero();
            for (int64_t h = h0; h < h1; h++)
                for (int64_t w = w0; w < w1; w += VF_LANES)
                    sum += vf_get_n(p->a->in[0].data, T, (plane * p->h + h) * p->w + w, (int)min_i64(w1 - w, VF_LANES));
            f_put(p->a->out[0].data, T, plane * p->oh * p->ow + i, vf_sum(sum) / (float)((h1 - h0) * (w1 - w0)));
        }
}

SIMD_FN void avg_grad_planes(ls_dtype T, const pool *p, int64_t begin, int64_t end, int worker) {
    float *sums = p->sums + worker * plane_floats(&p->a->out[0].type);
    for (int64_t plane = begin; plane < end; plane++) {
        memset(sums, 0, sizeof(float) * (size_t)(p->h * p->w));
        for (int64_t i = 0; i < p->oh * p->ow; i++) {
            const int64_t r = i / p->ow, c = i % p->ow, h0 = window_begin(r, p->oh, p->h), h1 = window_end(r, p->oh, p->h);
            const int64_t w0 = window_begin(c, p->ow, p->w), w1 = window_end(c, p->ow, p->w);
            const float each = f_get(p->a->in[0].data, T, plane * p->oh * p->ow + i) / (float)((h1 - h0) * (w1 - w0));
            for (int64_t h = h0; h < h1; h++)
                for (int64_t w = w0; w < w1; w++)
                    sums[h * p->w + w] += each;
        }
        put_plane(T, &p->a->out[0], plane, sums, p->h * p->w);
    }
}

static void max_task(void *context, int64_t begin, int64_t end, int worker) {
    const pool *p = context;
    (void)worker;
    BY_FLOAT(p->a->in[0].type.dtype, max_planes, p, begin, end);
}
static void max_grad_task(void *context, int64_t begin, int64_t end, int worker) {
    const pool *p = context;
    BY_FLOAT(p->a->in[0].type.dtype, max_grad_planes, p, begin, end, worker);
}
static void avg_task(void *context, int64_t begin, int64_t end, int worker) {
    const pool *p = context;
    (void)worker;
    BY_FLOAT(p->a->in[0].type.dtype, avg_planes, p, begin, end);
}
static void avg_grad_task(void *context, int64_t begin, int64_t end, int worker) {
    const pool *p = context;
    BY_FLOAT(p->a->in[0].type.dtype, avg_grad_planes, p, begin, end, worker);
}

KERNEL(max_pool2d) { run(a, &a->in[0].type, &a->out[0].type, max_task); }
KERNEL(max_pool2d_grad) { run(a, &a->out[0].type, &a->in[0].type, max_grad_task); }
KERNEL_WORKSPACE(max_pool2d_grad) { return plane_bytes(a); }
KERNEL(adaptive_avg_pool2d) { run(a, &a->in[0].type, &a->out[0].type, avg_task); }
KERNEL(adaptive_avg_pool2d_grad) { run(a, &a->out[0].type, &a->in[0].type, avg_grad_task); }
KERNEL_WORKSPACE(adaptive_avg_pool2d_grad) { return plane_bytes(a); }
