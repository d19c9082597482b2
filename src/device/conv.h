/* conv.h - the sizes of a convolution, from the operands of conv2d, conv2d_dx or conv2d_dw, and which
 * elements of source and result meet. */
#pragma once
#include <string.h>
#include "device.h"

typedef enum ls_conv_kind { LS_CONV_Y, LS_CONV_DX, LS_CONV_DW } ls_conv_kind;

/* x [n, c, h, w], kernel [o, c / groups, kh, kw], y [n, o, oh, ow] */
typedef struct ls_conv {
    int64_t n, c, h, w, o, kh, kw, oh, ow;
    ls_conv_attrs at;
} ls_conv;

static inline ls_conv ls_conv_of(const ls_kernel_args *a, ls_conv_kind kind)
{
    const ls_type *x = kind == LS_CONV_Y    ? &a->in[0].type
                       : kind == LS_CONV_DX ? &a->out[0].type
                                            : &a->in[1].type;
    const ls_type *y = kind == LS_CONV_Y ? &a->out[0].type : &a->in[0].type;
    const ls_type *w = kind == LS_CONV_DW ? &a->out[0].type : &a->in[1].type;
    ls_conv s = { .n = x->dims[0],
                  .c = x->dims[1],
                  .h = x->dims[2],
                  .w = x->dims[3],
                  .o = y->dims[1],
                  .kh = w->dims[2],
                  .kw = w->dims[3],
                  .oh = y->dims[2],
                  .ow = y->dims[3] };
    memcpy(&s.at, a->attrs, sizeof s.at);
    return s;
}

/* The position in x (of h * w) that the result at `position` (of oh * ow) sees through kernel element `tap`
 * (of kh * kw); -1: padding. */
static inline int64_t ls_conv_seen(const ls_conv *s, int64_t position, int64_t tap)
{
    const int64_t ih = position / s->ow * s->at.stride_h - s->at.pad_h + tap / s->kw * s->at.dilation_h;
    const int64_t iw = position % s->ow * s->at.stride_w - s->at.pad_w + tap % s->kw * s->at.dilation_w;
    return ih >= 0 && ih < s->h && iw >= 0 && iw < s->w ? ih * s->w + iw : -1;
}

/* The inverse: the result that sees position `position` of x through `tap`; -1: none does. */
static inline int64_t ls_conv_seer(const ls_conv *s, int64_t position, int64_t tap)
{
    const int64_t h = position / s->w + s->at.pad_h - tap / s->kw * s->at.dilation_h;
    const int64_t w = position % s->w + s->at.pad_w - tap % s->kw * s->at.dilation_w;
    if (h < 0 || w < 0 || h % s->at.stride_h || w % s->at.stride_w || h / s->at.stride_h >= s->oh ||
        w / s->at.stride_w >= s->ow)
        return -1;
    return h / s->at.stride_h * s->ow + w / s->at.stride_w;
}
