/* conv_phase.h - the kernel elements that meet the positions of a phase (conv.h), along one axis. Position i
 * of the phase and element number t of these meet line i * step + first + t * each of the source, where step
 * and first are the same for all phases. */
#pragma once
#include "dialect.h"
#include "conv.h"

typedef struct conv_axis {
    i64 count, tap; /* the elements: their number, the first */
    i64 first, each;
} conv_axis;

DEVICE conv_axis conv_axis_of(i64 back, i64 phase, i64 kernel, i64 stride, i64 pad, i64 dilation,
                              i64 tap_step)
{
    conv_axis r;
    r.tap = 0;
    r.count = kernel;
    r.first = -pad;
    r.each = dilation;
    if (!back)
        return r;
    /* dx line i * stride + phase is met by dy line (that + pad - tap * dilation) / stride, if it is whole */
    while (r.tap < tap_step && r.tap < kernel && (phase + pad - r.tap * dilation) % stride)
        r.tap++;
    r.count = r.tap == tap_step || r.tap >= kernel ? 0 : (kernel - 1 - r.tap) / tap_step + 1;
    r.first = (phase + pad - r.tap * dilation) / stride;
    r.each = -(tap_step * dilation / stride);
    return r;
}
DEVICE conv_axis conv_rows(const conv_args *a, i64 phase)
{
    const conv_sizes *c = &a->c;
    return conv_axis_of(a->back, phase / a->phases_w, c->kh, c->stride_h, c->pad_h, c->dilation_h,
                        a->tap_step_h);
}
DEVICE conv_axis conv_columns(const conv_args *a, i64 phase)
{
    const conv_sizes *c = &a->c;
    return conv_axis_of(a->back, phase % a->phases_w, c->kw, c->stride_w, c->pad_w, c->dilation_w,
                        a->tap_step_w);
}
