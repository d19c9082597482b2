/* conv_depthwise.c - conv2d, conv2d_dx and conv2d_dw if every channel is a group of its own (depthwise), with
 * stride
 * 1. There is no product over channels, so lanes are neighbours in a line of the picture,
 *
 *     y[line][position] = sum over i, j of  x[line + i][position + j] * w[i, j]     (ascending)
 *     dw[i, j]          = sum over pictures of  sum over lines, positions of  x[line + i][position + j] *
 * dy[line][position]
 *
 * dx is y of dy with the kernel turned round. A task copies a picture's channel as f32 with zeros around it
 * into its worker's scratch memory. dw: a picture's sum is f32 in lanes, the pictures' sums are added in f64.
 */
#include "conv.h"
#include "conv_move.h"

enum {
    ROWS = 4,    /* lines of a tile */
    VECTORS = 4, /* of a line of a tile, at most */
    TAPS = 8     /* dw: taps of a line of the kernel that share dy, at most */
};

typedef struct depthwise {
    const conv *c;
    int64_t source_h, source_w, target_h, target_w;
    int64_t pad_h, pad_w;  /* zeros before the source */
    int64_t lines, pitch;  /* of the copied source */
    int64_t dy_pitch, own; /* dw: of the copied dy; f32 of scratch of each worker */
} depthwise;

static depthwise plan_of(const conv *c)
{
    const ls_conv *s = &c->s;
    const bool dx = c->kind == LS_CONV_DX;
    const int64_t reach_h = (s->kh - 1) * s->at.dilation_h, reach_w = (s->kw - 1) * s->at.dilation_w;
    depthwise d = { .c = c,
                    .source_h = dx ? s->oh : s->h,
                    .source_w = dx ? s->ow : s->w,
                    .target_h = dx ? s->h : s->oh,
                    .target_w = dx ? s->w : s->ow,
                    .pad_h = dx ? reach_h - s->at.pad_h : s->at.pad_h,
                    .pad_w = dx ? reach_w - s->at.pad_w : s->at.pad_w };
    /* whole tiles and vectors of the target are computed, so they are read too */
    const int64_t read_h = round_up(d.target_h, ROWS) + reach_h, read_w = round_up(d.target_w, 16) + reach_w;
    d.lines = read_h > d.pad_h + d.source_h ? read_h : d.pad_h + d.source_h;
    d.pitch = round_up(read_w > d.pad_w + d.source_w ? read_w : d.pad_w + d.source_w, 16);
    d.dy_pitch = c->kind == LS_CONV_DW ? round_up(d.target_w, 16) : 0;
    d.own = d.lines * d.pitch + d.target_h * d.dy_pitch;
    return d;
}

bool LS_NAME(ls_conv_is_depthwise)(const conv *c)
{
    const ls_conv *s = &c->s;
    return s->at.groups > 1 && s->c == s->at.groups && s->o == s->c && s->at.stride_h == 1 &&
           s->at.stride_w == 1 && c->taps > 1 && c->taps <= CONV_LONGEST &&
           s->at.pad_h <= (s->kh - 1) * s->at.dilation_h && s->at.pad_w <= (s->kw - 1) * s->at.dilation_w;
}

size_t LS_NAME(ls_conv_depthwise_workspace)(const conv *c)
{
    return sizeof(float) * (size_t)(c->threads * plan_of(c).own);
}

/* Copies a plane of `height` lines of `width`, `pitch` apart. */
SIMD_FN void copy_plane(ls_dtype T, float *to, int64_t pitch, const void *from, int64_t plane, int64_t height,
                        int64_t width)
{
    for (int64_t l = 0; l < height; l++)
        for (int64_t k = 0; k < width; k += VF_LANES)
            vf_store_n(to + l * pitch + k,
                       vf_get_n(from, T, (plane * height + l) * width + k, lanes_left(width - k)),
                       lanes_left(width - k));
}

/* ---- y, dx */

/* ROWS lines of the target from (line, column) on, `vectors` wide. */
SIMD_FN void tile(ls_dtype T, const depthwise *d, const float *source, const float *w, float bias, void *to,
                  int64_t plane, int64_t line, int64_t column, int vectors)
{
    const ls_conv *s = &d->c->s;
    vf sum[ROWS][VECTORS];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = vf_set1(bias);
    for (int64_t i = 0; i < s->kh; i++)
        for (int64_t j = 0; j < s->kw; j++) {
            const float *from = source + (line + i * s->at.dilation_h) * d->pitch + column +
                                j * s->at.dilation_w;
            const vf factor = vf_set1(w[i * s->kw + j]);
            for (int r = 0; r < ROWS; r++)
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = vf_fma(vf_load(from + r * d->pitch + v * VF_LANES), factor, sum[r][v]);
        }
    for (int r = 0; r < ROWS && line + r < d->target_h; r++)
        for (int v = 0; v < vectors; v++)
            vf_put_n(to, T, (plane * d->target_h + line + r) * d->target_w + column + v * VF_LANES, sum[r][v],
                     lanes_left(d->target_w - column - v * VF_LANES));
}

SIMD_FN void planes(ls_dtype T, const depthwise *d, int64_t begin, int64_t end, int worker)
{
    const ls_kernel_args *a = d->c->a;
    const ls_conv *s = &d->c->s;
    const ls_tensor *bias = d->c->kind == LS_CONV_Y && present(&a->in[2]) ? &a->in[2] : NULL;
    float *source = (float *)a->workspace + worker * d->own, w[CONV_LONGEST];
    memset(source, 0, sizeof *source * (size_t)d->own);
    for (int64_t plane = begin; plane < end; plane++) {
        const int64_t channel = plane % s->c, taps = d->c->taps;
        for (int64_t t = 0; t < taps; t++)
            w[d->c->kind == LS_CONV_DX ? taps - 1 - t : t] = f_get(a->in[1].data, T, channel * taps + t);
        copy_plane(T, source + d->pad_h * d->pitch + d->pad_w, d->pitch, a->in[0].data, plane, d->source_h,
                   d->source_w);
        const float first = bias ? f_get(bias->data, T, channel) : 0.0f;
        for (int64_t line = 0; line < d->target_h; line += ROWS)
            for (int64_t column = 0, n; column < d->target_w; column += n * VF_LANES) {
                const int64_t left = (d->target_w - column + VF_LANES - 1) / VF_LANES;
                n = left >= 4 ? 4 : left >= 2 ? 2 : 1;
                if (n == 4)
                    tile(T, d, source, w, first, a->out[0].data, plane, line, column, 4);
                else if (n == 2)
                    tile(T, d, source, w, first, a->out[0].data, plane, line, column, 2);
                else
                    tile(T, d, source, w, first, a->out[0].data, plane, line, column, 1);
            }
    }
}

/* ---- dw */

/* Taps j .. j+n of line i of the kernel, for one picture. */
SIMD_FN void taps(const depthwise *d, const float *x, const float *dy, int64_t i, int64_t j, double *total,
                  int n)
{
    const ls_conv *s = &d->c->s;
    vf sum[TAPS];
    for (int t = 0; t < n; t++)
        sum[t] = vf_zero();
    for (int64_t line = 0; line < d->target_h; line++) {
        const float *from = x + (line + i * s->at.dilation_h) * d->pitch + j * s->at.dilation_w;
        for (int64_t k = 0; k < d->target_w; k += VF_LANES) {
            const vf by = vf_load(dy + line * d->dy_pitch + k);
            for (int t = 0; t < n; t++)
                sum[t] = vf_fma(vf_load(from + k + t * s->at.dilation_w), by, sum[t]);
        }
    }
    for (int t = 0; t < n; t++)
        total[i * s->kw + j + t] += (double)vf_sum(sum[t]);
}

static void kernel_line(const depthwise *d, const float *x, const float *dy, int64_t i, double *total)
{
    for (int64_t j = 0; j < d->c->s.kw; j += TAPS)
        switch (min_i64(TAPS, d->c->s.kw - j)) {
        case 1: taps(d, x, dy, i, j, total, 1); break;
        case 2: taps(d, x, dy, i, j, total, 2); break;
        case 3: taps(d, x, dy, i, j, total, 3); break;
        case 4: taps(d, x, dy, i, j, total, 4); break;
        case 5: taps(d, x, dy, i, j, total, 5); break;
        case 6: taps(d, x, dy, i, j, total, 6); break;
        case 7: taps(d, x, dy, i, j, total, 7); break;
        default: taps(d, x, dy, i, j, total, TAPS); break;
        }
}

SIMD_FN void channels(ls_dtype T, const depthwise *d, int64_t begin, int64_t end, int worker)
{
    const ls_kernel_args *a = d->c->a;
    const ls_conv *s = &d->c->s;
    float *x = (float *)a->workspace + worker * d->own, *dy = x + d->lines * d->pitch;
    memset(x, 0, sizeof *x * (size_t)d->own);
    for (int64_t channel = begin; channel < end; channel++) {
        double total[CONV_LONGEST] = { 0 };
        for (int64_t n = 0; n < s->n; n++) {
            copy_plane(T, x + d->pad_h * d->pitch + d->pad_w, d->pitch, a->in[1].data, n * s->c + channel,
                       d->source_h, d->source_w);
            copy_plane(T, dy, d->dy_pitch, a->in[0].data, n * s->c + channel, d->target_h, d->target_w);
            for (int64_t i = 0; i < s->kh; i++)
                kernel_line(d, x, dy, i, total);
        }
        for (int64_t t = 0; t < d->c->taps; t++)
            f_put(a->out[0].data, T, channel * d->c->taps + t, (float)total[t]);
    }
}

#define TASK(name, body)                                                    \
    static void name(void *context, int64_t begin, int64_t end, int worker) \
    {                                                                       \
        const depthwise *d = context;                                       \
        BY_FLOAT(d->c->a->in[0].type.dtype, body, d, begin, end, worker);   \
    }
TASK(planes_task, planes)
TASK(channels_task, channels)

void LS_NAME(ls_conv_depthwise)(const conv *c)
{
    depthwise d = plan_of(c);
    if (c->kind == LS_CONV_DW)
        ls_parallel_for(c->threads, c->s.c, channels_task, &d);
    else
        ls_parallel_for(c->threads, c->s.n * c->s.c, planes_task, &d);
}
