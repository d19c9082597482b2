/* pool.c - max and average pooling of planes, and their gradients. */
#include "ref.h"
#include "device/picture_lines.h"

static int64_t planes(const ls_type *t) { return t->dims[0] * t->dims[1]; }

/* PyTorch's rule: the first of equal ones, and NaN wins over everything before it. */
void ls_ref_max_pool2d(const ls_kernel_args *a) /* x -> y, where */
{
    const ls_max_pool_attrs *o = a->attrs;
    const ls_type *x = &a->in[0].type, *y = &a->out[0].type;
    const int64_t H = x->dims[2], W = x->dims[3], OH = y->dims[2], OW = y->dims[3];
    for (int64_t i = 0; i < ls_type_count(y); i++) {
        const int64_t plane = i / (OH * OW), top = i / OW % OH * o->stride_h - o->pad_h,
                      left = i % OW * o->stride_w - o->pad_w;
        double best = -INFINITY;
        int64_t where = -1;
        for (int64_t h = top; h < top + o->kernel_h; h++)
            for (int64_t w = left; w < left + o->kernel_w; w++) {
                if (h < 0 || h >= H || w < 0 || w >= W)
                    continue;
                const double v = flat_get(&a->in[0], plane * H * W + h * W + w);
                if (where < 0 || v > best || isnan(v)) {
                    best = v;
                    where = h * W + w;
                }
            }
        flat_put(&a->out[0], i, best);
        flat_put(&a->out[1], i, (double)where);
    }
}

void ls_ref_max_pool2d_grad(const ls_kernel_args *a) /* dy, where -> dx */
{
    const int64_t in = a->out[0].type.dims[2] * a->out[0].type.dims[3],
                  out = a->in[0].type.dims[2] * a->in[0].type.dims[3];
    double *sum = a->workspace;
    for (int64_t plane = 0; plane < planes(&a->in[0].type); plane++) {
        for (int64_t p = 0; p < in; p++)
            sum[p] = 0;
        for (int64_t p = 0; p < out; p++)
            sum[(int64_t)flat_get(&a->in[1], plane * out + p)] += flat_get(&a->in[0], plane * out + p);
        for (int64_t p = 0; p < in; p++)
            flat_put(&a->out[0], plane * in + p, sum[p]);
    }
}

size_t ls_ref_max_pool2d_grad_workspace(const ls_kernel_args *a)
{
    return 8 * (size_t)(a->out[0].type.dims[2] * a->out[0].type.dims[3]);
}

void ls_ref_avg_pool2d(const ls_kernel_args *a)
{
    const ls_type *x = &a->in[0].type, *y = &a->out[0].type;
    const int64_t H = x->dims[2], W = x->dims[3], OH = y->dims[2], OW = y->dims[3];
    for (int64_t i = 0; i < ls_type_count(y); i++) {
        const int64_t plane = i / (OH * OW);
        const ls_pool_window r = ls_avg_row(a->attrs, i / OW % OH, OH, H),
                             c = ls_avg_column(a->attrs, i % OW, OW, W);
        double sum = 0;
        for (int64_t h = r.begin; h < r.end; h++)
            for (int64_t w = c.begin; w < c.end; w++)
                sum += flat_get(&a->in[0], plane * H * W + h * W + w);
        flat_put(&a->out[0], i, sum / (double)(r.divisor * c.divisor));
    }
}

void ls_ref_avg_pool2d_grad(const ls_kernel_args *a) /* dy -> dx */
{
    const ls_type *dx = &a->out[0].type, *dy = &a->in[0].type;
    const int64_t H = dx->dims[2], W = dx->dims[3], OH = dy->dims[2], OW = dy->dims[3];
    for (int64_t i = 0; i < ls_type_count(dx); i++) {
        const int64_t plane = i / (H * W), h = i / W % H, w = i % W;
        double sum = 0;
        for (int64_t row = 0; row < OH; row++)
            for (int64_t column = 0; column < OW; column++) {
                const ls_pool_window r = ls_avg_row(a->attrs, row, OH, H),
                                     c = ls_avg_column(a->attrs, column, OW, W);
                if (h >= r.begin && h < r.end && w >= c.begin && w < c.end)
                    sum += flat_get(&a->in[0], (plane * OH + row) * OW + column) /
                           (double)(r.divisor * c.divisor);
            }
        flat_put(&a->out[0], i, sum);
    }
}
