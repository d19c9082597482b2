/* resize.c - planes of another size, and the gradient. Threads share planes. A line is first interpolated
 * between two lines of the picture, in vectors, and then along its columns, which a table describes. Sums of
 * the gradient are added in the order of dy, in f32. */
#include "table.h"
#include "gemm.h"
#include "device/picture_lines.h"

typedef struct resize {
    const ls_kernel_args *a;
    bool nearest;
    int64_t h, w, oh, ow;    /* sizes of the picture, and of the resized one */
    int64_t line;            /* f32 of a line of the picture, in whole vectors */
    int32_t *first, *second; /* [ow]: columns of the picture */
    float *weight;           /* [ow]: of the second */
    float *own;              /* scratch of all threads */
    int64_t each;            /* f32 of it for one */
} resize;

static int64_t columns_bytes(int64_t ow) { return round_up(12 * ow, 64); }

/* `x`: the picture; `y`: the resized one; `each`: f32 of scratch for a thread. */
static resize resize_plan_of(const ls_kernel_args *a, const ls_type *x, const ls_type *y, bool plane)
{
    resize p = { .a = a, .h = x->dims[2], .w = x->dims[3], .oh = y->dims[2], .ow = y->dims[3] };
    p.nearest = ((const ls_resize_attrs *)a->attrs)->mode == LS_BY_NEAREST;
    p.line = round_up(p.w, 16);
    p.each = p.line * (plane ? p.h + 1 : 1);
    p.first = a->workspace;
    p.second = p.first + p.ow;
    p.weight = (float *)(p.second + p.ow);
    p.own = (float *)((char *)a->workspace + columns_bytes(p.ow));
    return p;
}

static size_t bytes_of(const ls_kernel_args *a, const ls_type *x, const ls_type *y, bool plane)
{
    const int64_t line = round_up(x->dims[3], 16), each = line * (plane ? x->dims[2] + 1 : 1);
    return (size_t)(columns_bytes(y->dims[3]) +
                    (int64_t)sizeof(float) * each * (a->threads > 1 ? a->threads : 1));
}

static void resize_run(resize *p, int64_t planes, ls_range_fn task)
{
    const ls_resize_attrs *o = p->a->attrs;
    for (int64_t k = 0; k < p->ow; k++) {
        const ls_between c = ls_resized(k, p->ow, p->w, o->mode);
        p->first[k] = (int32_t)c.first;
        p->second[k] = (int32_t)c.second;
        p->weight[k] = (float)c.weight;
    }
    ls_parallel_for(threads_for(p->a, planes * (p->h * p->w + p->oh * p->ow)), planes, task, p);
}

static ls_between row_of(const resize *p, int64_t k)
{
    return ls_resized(k, p->oh, p->h, ((const ls_resize_attrs *)p->a->attrs)->mode);
}

SIMD_FN void planes_out(ls_dtype T, const resize *p, int64_t begin, int64_t end, int worker)
{
    const void *x = p->a->in[0].data;
    float *line = p->own + worker * p->each;
    for (int64_t k = begin * p->oh; k < end * p->oh; k++) {
        const ls_between r = row_of(p, k % p->oh);
        const int64_t plane = k / p->oh * p->h, upper = (plane + r.first) * p->w,
                      lower = (plane + r.second) * p->w;
        const vf keep = vf_set1((float)(1 - r.weight)), take = vf_set1((float)r.weight);
        for (int64_t w = 0; w < p->w; w += VF_LANES) {
            const int n = (int)min_i64(p->w - w, VF_LANES);
            const vf v = vf_get_n(x, T, upper + w, n);
            vf_store(line + w, p->nearest ? v : keep * v + take * vf_get_n(x, T, lower + w, n));
        }
        for (int64_t c = 0; c < p->ow; c++) {
            const float v = line[p->first[c]], t = p->weight[c];
            f_put(p->a->out[0].data, T, k * p->ow + c, p->nearest ? v : (1 - t) * v + t * line[p->second[c]]);
        }
    }
}

/* to += factor * line */
SIMD_FN void add_line(float *to, const float *line, int64_t n, double factor)
{
    const vf f = vf_set1((float)factor);
    for (int64_t i = 0; i < n; i += VF_LANES)
        vf_store(to + i, vf_load(to + i) + f * vf_load(line + i));
}

SIMD_FN void planes_back(ls_dtype T, const resize *p, int64_t begin, int64_t end, int worker)
{
    float *line = p->own + worker * p->each, *sums = line + p->line;
    for (int64_t plane = begin; plane < end; plane++) {
        memset(sums, 0, sizeof(float) * (size_t)(p->h * p->line));
        for (int64_t k = 0; k < p->oh; k++) {
            const ls_between r = row_of(p, k);
            memset(line, 0, sizeof(float) * (size_t)p->line);
            for (int64_t c = 0; c < p->ow; c++) {
                const float d = f_get(p->a->in[0].data, T, (plane * p->oh + k) * p->ow + c), t = p->weight[c];
                line[p->first[c]] += (1 - t) * d;
                if (!p->nearest)
                    line[p->second[c]] += t * d;
            }
            add_line(sums + r.first * p->line, line, p->line, 1 - r.weight);
            if (!p->nearest)
                add_line(sums + r.second * p->line, line, p->line, r.weight);
        }
        for (int64_t h = 0; h < p->h; h++)
            for (int64_t w = 0; w < p->w; w += VF_LANES)
                vf_put_n(p->a->out[0].data, T, (plane * p->h + h) * p->w + w, vf_load(sums + h * p->line + w),
                         (int)min_i64(p->w - w, VF_LANES));
    }
}

static void out_task(void *context, int64_t begin, int64_t end, int worker)
{
    const resize *p = context;
    BY_FLOAT(p->a->in[0].type.dtype, planes_out, p, begin, end, worker);
}
static void back_task(void *context, int64_t begin, int64_t end, int worker)
{
    const resize *p = context;
    BY_FLOAT(p->a->in[0].type.dtype, planes_back, p, begin, end, worker);
}

KERNEL(resize2d)
{
    resize p = resize_plan_of(a, &a->in[0].type, &a->out[0].type, false);
    resize_run(&p, a->in[0].type.dims[0] * a->in[0].type.dims[1], out_task);
}
KERNEL_WORKSPACE(resize2d) { return bytes_of(a, &a->in[0].type, &a->out[0].type, false); }
KERNEL(resize2d_grad)
{
    resize p = resize_plan_of(a, &a->out[0].type, &a->in[0].type, true);
    resize_run(&p, a->in[0].type.dims[0] * a->in[0].type.dims[1], back_task);
}
KERNEL_WORKSPACE(resize2d_grad) { return bytes_of(a, &a->out[0].type, &a->in[0].type, true); }
