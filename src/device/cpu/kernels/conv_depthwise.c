/* conv_depthwise.c - conv2d, conv2d_dx and conv2d_dw if every channel is a group of its own (depthwise).
 * There is no product over channels, so lanes are neighbours in a line of the picture. With stride 1
 *
 *     y[line][position] = sum over i, j of  x[line + i][position + j] * w[i, j]     (ascending)
 *     dw[i, j] = sum over pictures of  sum over lines, positions of  x[line + i][position + j] *
 *                dy[line][position]
 *
 * dx is y of dy with the kernel turned round. A task copies a picture's channel as f32 with zeros around it
 * into its worker's scratch memory. dw: a picture's sum is f32 in lanes, the pictures' sums are added in f64.
 *
 * A stride s changes only that copy. y, dw: a line becomes s lines, of elements 0, s, 2s, .., then 1, s + 1,
 * .., so that what a tap sees of neighbours in a line are neighbours again. dx: dy's elements stand s apart,
 * with zeros in between. */
#include "conv.h"
#include "conv_move.h"

enum {
    ROWS = 4,          /* lines of a tile */
    VECTORS = 4,       /* of a line of a tile, at most */
    TAPS = 8,          /* dw: taps of a line of the kernel that share dy, at most */
    LONGEST_STRIDE = 4 /* dx multiplies the zeros, too */
};

typedef struct depthwise {
    const conv *c;
    int64_t source_h, source_w, target_h, target_w;
    int64_t pad_h, pad_w;   /* zeros before the source */
    int64_t apart_h, apart; /* dx: the strides, by which elements of the copied source stand apart; else 1 */
    int64_t step_h, step;   /* y, dw: the strides; else 1 */
    int64_t lines;          /* of the copied source, each of `step` parts */
    int64_t part, pitch;    /* f32 of a part of a line; of a line */
    int64_t dy_pitch, own;  /* dw: of the copied dy; f32 of scratch of each worker */
    int64_t tap[CONV_LONGEST]; /* where in a copied line each tap of a line of the kernel begins to see */
} depthwise;

static depthwise conv_depthwise_plan_of(const conv *c)
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
                    .pad_w = dx ? reach_w - s->at.pad_w : s->at.pad_w,
                    .apart_h = dx ? s->at.stride_h : 1,
                    .apart = dx ? s->at.stride_w : 1,
                    .step_h = dx ? 1 : s->at.stride_h,
                    .step = dx ? 1 : s->at.stride_w };
    /* whole tiles and vectors of the target are computed, so they are read too */
    const int64_t read_h = (round_up(d.target_h, ROWS) - 1) * d.step_h + reach_h + 1;
    const int64_t read_w = (round_up(d.target_w, 16) - 1) * d.step + reach_w + 1;
    const int64_t have_h = d.pad_h + (d.source_h - 1) * d.apart_h + 1,
                  have_w = d.pad_w + (d.source_w - 1) * d.apart + 1;
    d.lines = read_h > have_h ? read_h : have_h;
    d.part = round_up(((read_w > have_w ? read_w : have_w) + d.step - 1) / d.step, 16);
    d.pitch = d.part * d.step;
    d.dy_pitch = c->kind == LS_CONV_DW ? round_up(d.target_w, 16) : 0;
    d.own = d.lines * d.pitch + d.target_h * d.dy_pitch;
    for (int64_t j = 0; j < s->kw && j < CONV_LONGEST; j++) {
        const int64_t at = j * s->at.dilation_w;
        d.tap[j] = at % d.step * d.part + at / d.step;
    }
    return d;
}

bool LS_NAME(ls_conv_is_depthwise)(const conv *c)
{
    const ls_conv *s = &c->s;
    return s->at.groups > 1 && s->c == s->at.groups && s->o == s->c && s->at.stride_h <= LONGEST_STRIDE &&
           s->at.stride_w <= LONGEST_STRIDE && c->taps > 1 && c->taps <= CONV_LONGEST &&
           s->at.pad_h <= (s->kh - 1) * s->at.dilation_h && s->at.pad_w <= (s->kw - 1) * s->at.dilation_w;
}

size_t LS_NAME(ls_conv_depthwise_workspace)(const conv *c)
{
    return sizeof(float) * (size_t)(c->threads * conv_depthwise_plan_of(c).own);
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

/* Copies a plane of the source to its place. */
SIMD_FN void copy_source(ls_dtype T, const depthwise *d, float *to, const void *from, int64_t plane)
{
    to += d->pad_h * d->pitch;
    if (d->step == 1 && d->apart == 1 && d->apart_h == 1) {
        copy_plane(T, to + d->pad_w, d->pitch, from, plane, d->source_h, d->source_w);
        return;
    }
    for (int64_t q = 0; q < d->step; q++) {
        const int64_t first = (q + d->step - d->pad_w % d->step) % d->step; /* of the elements of part q */
        float *part = to + q * d->part + (d->pad_w + first) / d->step;
        for (int64_t l = 0; l < d->source_h; l++, part += d->apart_h * d->pitch) {
            const int64_t line = (plane * d->source_h + l) * d->source_w;
            for (int64_t k = first, n = 0; k < d->source_w; k += d->step, n += d->apart)
                part[n] = f_get(from, T, line + k);
        }
    }
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
            const float *from = source + (line * d->step_h + i * s->at.dilation_h) * d->pitch + column +
                                d->tap[j];
            const vf factor = vf_set1(w[i * s->kw + j]);
            for (int r = 0; r < ROWS; r++)
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = vf_fma(vf_load(from + r * d->step_h * d->pitch + v * VF_LANES), factor,
                                       sum[r][v]);
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
        copy_source(T, d, source, a->in[0].data, plane);
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
    int64_t at[TAPS];
    for (int t = 0; t < n; t++) {
        sum[t] = vf_zero();
        at[t] = d->tap[j + t];
    }
    for (int64_t line = 0; line < d->target_h; line++) {
        const float *from = x + (line * d->step_h + i * s->at.dilation_h) * d->pitch;
        for (int64_t k = 0; k < d->target_w; k += VF_LANES) {
            const vf by = vf_load(dy + line * d->dy_pitch + k);
            for (int t = 0; t < n; t++)
                sum[t] = vf_fma(vf_load(from + k + at[t]), by, sum[t]);
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
            copy_source(T, d, x, a->in[1].data, n * s->c + channel);
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

void LS_NAME(ls_conv_depthwise)(conv *c)
{
    depthwise d = conv_depthwise_plan_of(c);
    if (c->kind == LS_CONV_DW)
        ls_parallel_for(c->threads, c->s.c, channels_task, &d);
    else
        ls_parallel_for(c->threads, c->s.n * c->s.c, planes_task, &d);
}
