/* resize.c - planes of another size, and the gradient. */
#include "ref.h"
#include "device/picture_lines.h"

void ls_ref_resize2d(const ls_kernel_args *a)
{
    const ls_resize_attrs *o = a->attrs;
    const ls_type *x = &a->in[0].type, *y = &a->out[0].type;
    const int64_t H = x->dims[2], W = x->dims[3], OH = y->dims[2], OW = y->dims[3];
    for (int64_t i = 0; i < ls_type_count(y); i++) {
        const int64_t plane = i / (OH * OW) * H * W;
        const ls_between r = ls_resized(i / OW % OH, OH, H, o->mode), c = ls_resized(i % OW, OW, W, o->mode);
        const double a00 = flat_get(&a->in[0], plane + r.first * W + c.first);
        if (o->mode == LS_BY_NEAREST) {
            flat_put(&a->out[0], i, a00);
            continue;
        }
        const double a01 = flat_get(&a->in[0], plane + r.first * W + c.second),
                     a10 = flat_get(&a->in[0], plane + r.second * W + c.first),
                     a11 = flat_get(&a->in[0], plane + r.second * W + c.second);
        flat_put(&a->out[0], i,
                 (1 - c.weight) * ((1 - r.weight) * a00 + r.weight * a10) +
                     c.weight * ((1 - r.weight) * a01 + r.weight * a11));
    }
}

void ls_ref_resize2d_grad(const ls_kernel_args *a) /* dy -> dx */
{
    const ls_resize_attrs *o = a->attrs;
    const ls_type *dx = &a->out[0].type, *dy = &a->in[0].type;
    const int64_t H = dx->dims[2], W = dx->dims[3], OH = dy->dims[2], OW = dy->dims[3];
    double *sum = a->workspace;
    for (int64_t plane = 0; plane < dx->dims[0] * dx->dims[1]; plane++) {
        for (int64_t p = 0; p < H * W; p++)
            sum[p] = 0;
        for (int64_t p = 0; p < OH * OW; p++) {
            const ls_between r = ls_resized(p / OW, OH, H, o->mode), c = ls_resized(p % OW, OW, W, o->mode);
            const double d = flat_get(&a->in[0], plane * OH * OW + p);
            sum[r.first * W + c.first] += (1 - r.weight) * (1 - c.weight) * d;
            if (o->mode == LS_BY_NEAREST)
                continue;
            sum[r.first * W + c.second] += (1 - r.weight) * c.weight * d;
            sum[r.second * W + c.first] += r.weight * (1 - c.weight) * d;
            sum[r.second * W + c.second] += r.weight * c.weight * d;
        }
        for (int64_t p = 0; p < H * W; p++)
            flat_put(&a->out[0], plane * H * W + p, sum[p]);
    }
}

size_t ls_ref_resize2d_grad_workspace(const ls_kernel_args *a)
{
    return 8 * (size_t)(a->out[0].type.dims[2] * a->out[0].type.dims[3]);
}
