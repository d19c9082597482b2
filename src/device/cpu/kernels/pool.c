/* pool.c - max and average pooling, and their gradients. Threads share planes. The sums of a
 * plane are added in order, in f32. */
#include "table.h"
#include "gemm.h"
#include "device/picture_lines.h"

typedef struct pool {
    const ls_kernel_args *a;
    int64_t h, w, oh, ow; /* sizes of a plane of the picture, and of the result */
    float *sums; /* scratch of all threads: in gradients, a plane of the picture each, and for means a line */
} pool;

static int64_t plane_floats(const ls_type *picture)
{
    return round_up(picture->dims[2] * picture->dims[3], 16);
}

static size_t plane_bytes(const ls_kernel_args *a)
{
    return sizeof(float) * (size_t)(plane_floats(&a->out[0].type) * (a->threads > 1 ? a->threads : 1));
}

static int64_t line_floats(int64_t w) { return round_up(w, 16); }

static size_t lines_bytes(const ls_kernel_args *a, int64_t w, int64_t lines)
{
    return sizeof(float) * (size_t)(line_floats(w) * lines * (a->threads > 1 ? a->threads : 1));
}

/* Runs `each` for all planes. x is the picture, y the result. */
static void pool_run(const ls_kernel_args *a, const ls_type *x, const ls_type *y, int64_t each,
                     ls_range_fn task)
{
    pool p = {
        .a = a, .h = x->dims[2], .w = x->dims[3], .oh = y->dims[2], .ow = y->dims[3], .sums = a->workspace
    };
    const int64_t planes = x->dims[0] * x->dims[1];
    ls_parallel_for(threads_for(a, planes * p.h * p.w), (planes + each - 1) / each, task, &p);
}

SIMD_FN int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* Max pooling computes VF_LANES planes at a time, one in each lane. Scratch contains them, their results and
 * the positions of the results, as [position][lane]. */
static int64_t max_floats(const ls_kernel_args *a)
{
    const ls_isa isa = ls_isa_of(a->arch);
    const int64_t lanes = isa >= LS_ISA_AVX512 ? 16
                          : isa == LS_ISA_AVX2 ? 8
                                               : 4,
                  *x = a->in[0].type.dims, *y = a->out[0].type.dims;
    return round_up(lanes * (x[2] * x[3] + 2 * y[2] * y[3]), 16);
}

/* Moves positions p .. p+m of n planes between planes and vectors of lanes. */
SIMD_FN void lanes_out(ls_dtype T, void *to, int64_t plane, int64_t positions, int64_t p, int m, int n,
                       const float *from)
{
    vf r[VF_LANES];
    for (int i = 0; i < VF_LANES; i++)
        r[i] = i < m ? vf_load(from + (p + i) * VF_LANES) : vf_zero();
    transpose(r);
    for (int i = 0; i < n; i++)
        vf_put_n(to, T, (plane + i) * positions + p, r[i], m);
}
SIMD_FN void lanes_in(ls_dtype T, float *to, const void *from, int64_t plane, int64_t positions, int64_t p,
                      int m, int n)
{
    vf r[VF_LANES];
    for (int i = 0; i < VF_LANES; i++)
        r[i] = i < n ? vf_get_n(from, T, (plane + i) * positions + p, m) : vf_zero();
    transpose(r);
    for (int i = 0; i < m; i++)
        vf_store(to + (p + i) * VF_LANES, r[i]);
}

/* The largest of a window, by PyTorch's rule: the first of equal ones, and the last NaN. */
SIMD_FN void largest(const pool *p, const float *x, int64_t top, int64_t left, float *y, float *where)
{
    const ls_max_pool_attrs *o = p->a->attrs;
    const int64_t h0 = max_i64(top, 0), h1 = min_i64(top + o->kernel_h, p->h), w0 = max_i64(left, 0),
                  w1 = min_i64(left + o->kernel_w, p->w);
    vf best = vf_load(x + (h0 * p->w + w0) * VF_LANES);
    vi at = vi_set1((int32_t)(h0 * p->w + w0));
    for (int64_t h = h0; h < h1; h++)
        for (int64_t k = h * p->w + w0; k < h * p->w + w1; k++) {
            const vf v = vf_load(x + k * VF_LANES);
            const vm better = vm_or(vf_lt(best, v), vf_isnan(v));
            best = vf_select(better, v, best);
            at = vi_select(better, vi_set1((int32_t)k), at);
        }
    vf_store(y, best);
    vf_store(where, vi_as_vf(at));
}

SIMD_FN void max_planes(ls_dtype T, const pool *p, int64_t begin, int64_t end, int worker)
{
    const ls_max_pool_attrs *o = p->a->attrs;
    const int64_t in = p->h * p->w, out = p->oh * p->ow,
                  planes = p->a->in[0].type.dims[0] * p->a->in[0].type.dims[1];
    float *x = p->sums + worker * max_floats(p->a), *y = x + in * VF_LANES, *where = y + out * VF_LANES;
    for (int64_t plane = begin * VF_LANES; plane < min_i64(end * VF_LANES, planes); plane += VF_LANES) {
        const int n = (int)min_i64(VF_LANES, planes - plane);
        for (int64_t k = 0; k < in; k += VF_LANES)
            lanes_in(T, x, p->a->in[0].data, plane, in, k, (int)min_i64(VF_LANES, in - k), n);
        for (int64_t k = 0, r = 0; r < p->oh; r++)
            for (int64_t c = 0; c < p->ow; c++, k += VF_LANES)
                largest(p, x, r * o->stride_h - o->pad_h, c * o->stride_w - o->pad_w, y + k, where + k);
        for (int64_t k = 0; k < out; k += VF_LANES) {
            const int m = (int)min_i64(VF_LANES, out - k);
            lanes_out(T, p->a->out[0].data, plane, out, k, m, n, y);
            /* (copies the 32 bits of positions as if they were f32) */
            lanes_out(LS_F32, p->a->out[1].data, plane, out, k, m, n, where);
        }
    }
}

SIMD_FN void put_plane(ls_dtype T, const ls_tensor *to, int64_t plane, const float *sums, int64_t n)
{
    for (int64_t i = 0; i < n; i += VF_LANES)
        vf_put_n(to->data, T, plane * n + i, vf_load_n(sums + i, (int)min_i64(n - i, VF_LANES)),
                 (int)min_i64(n - i, VF_LANES));
}

SIMD_FN void max_grad_planes(ls_dtype T, const pool *p, int64_t begin, int64_t end, int worker)
{
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

/* Mean pooling adds the rows of windows up in vectors, and then their columns. */
SIMD_FN void avg_planes(ls_dtype T, const pool *p, int64_t begin, int64_t end, int worker)
{
    float *line = p->sums + worker * line_floats(p->w);
    for (int64_t plane = begin; plane < end; plane++)
        for (int64_t i = 0; i < p->oh; i++) {
            const ls_pool_window r = ls_avg_row(p->a->attrs, i, p->oh, p->h);
            for (int64_t w = 0; w < p->w; w += VF_LANES) {
                vf sum = vf_zero();
                for (int64_t h = r.begin; h < r.end; h++)
                    sum += vf_get_n(p->a->in[0].data, T, (plane * p->h + h) * p->w + w,
                                    (int)min_i64(p->w - w, VF_LANES));
                vf_store(line + w, sum);
            }
            for (int64_t j = 0; j < p->ow; j++) {
                const ls_pool_window c = ls_avg_column(p->a->attrs, j, p->ow, p->w);
                float sum = 0.0f;
                for (int64_t w = c.begin; w < c.end; w++)
                    sum += line[w];
                f_put(p->a->out[0].data, T, (plane * p->oh + i) * p->ow + j,
                      sum / (float)(r.divisor * c.divisor));
            }
        }
}

/* The other way round: columns, then rows. */
SIMD_FN void avg_grad_planes(ls_dtype T, const pool *p, int64_t begin, int64_t end, int worker)
{
    const int64_t pitch = line_floats(p->w);
    float *line = p->sums + worker * pitch * (p->h + 1), *sums = line + pitch;
    for (int64_t plane = begin; plane < end; plane++) {
        memset(sums, 0, sizeof(float) * (size_t)(p->h * pitch));
        for (int64_t i = 0; i < p->oh; i++) {
            const ls_pool_window r = ls_avg_row(p->a->attrs, i, p->oh, p->h);
            memset(line, 0, sizeof(float) * (size_t)pitch);
            for (int64_t j = 0; j < p->ow; j++) {
                const ls_pool_window c = ls_avg_column(p->a->attrs, j, p->ow, p->w);
                const float each = f_get(p->a->in[0].data, T, (plane * p->oh + i) * p->ow + j) /
                                   (float)(r.divisor * c.divisor);
                for (int64_t w = c.begin; w < c.end; w++)
                    line[w] += each;
            }
            for (int64_t h = r.begin; h < r.end; h++)
                for (int64_t w = 0; w < pitch; w += VF_LANES)
                    vf_store(sums + h * pitch + w, vf_load(sums + h * pitch + w) + vf_load(line + w));
        }
        for (int64_t h = 0; h < p->h; h++)
            for (int64_t w = 0; w < p->w; w += VF_LANES)
                vf_put_n(p->a->out[0].data, T, (plane * p->h + h) * p->w + w, vf_load(sums + h * pitch + w),
                         (int)min_i64(p->w - w, VF_LANES));
    }
}

static void max_task(void *context, int64_t begin, int64_t end, int worker)
{
    const pool *p = context;
    BY_FLOAT(p->a->in[0].type.dtype, max_planes, p, begin, end, worker);
}
static void max_grad_task(void *context, int64_t begin, int64_t end, int worker)
{
    const pool *p = context;
    BY_FLOAT(p->a->in[0].type.dtype, max_grad_planes, p, begin, end, worker);
}
static void avg_task(void *context, int64_t begin, int64_t end, int worker)
{
    const pool *p = context;
    BY_FLOAT(p->a->in[0].type.dtype, avg_planes, p, begin, end, worker);
}
static void avg_grad_task(void *context, int64_t begin, int64_t end, int worker)
{
    const pool *p = context;
    BY_FLOAT(p->a->in[0].type.dtype, avg_grad_planes, p, begin, end, worker);
}

KERNEL(max_pool2d) { pool_run(a, &a->in[0].type, &a->out[0].type, VF_LANES, max_task); }
KERNEL_WORKSPACE(max_pool2d)
{
    return sizeof(float) * (size_t)(max_floats(a) * (a->threads > 1 ? a->threads : 1));
}
KERNEL(max_pool2d_grad) { pool_run(a, &a->out[0].type, &a->in[0].type, 1, max_grad_task); }
KERNEL_WORKSPACE(max_pool2d_grad) { return plane_bytes(a); }
KERNEL(avg_pool2d) { pool_run(a, &a->in[0].type, &a->out[0].type, 1, avg_task); }
KERNEL(avg_pool2d_grad) { pool_run(a, &a->out[0].type, &a->in[0].type, 1, avg_grad_task); }
KERNEL_WORKSPACE(avg_pool2d) { return lines_bytes(a, a->in[0].type.dims[3], 1); }
KERNEL_WORKSPACE(avg_pool2d_grad)
{
    return lines_bytes(a, a->out[0].type.dims[3], a->out[0].type.dims[2] + 1);
}
