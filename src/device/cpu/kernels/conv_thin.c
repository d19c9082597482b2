/* conv_thin.c - conv2d and conv2d_dw if a group has few channels, as in a first layer. A product over
 * channels alone would be too thin, so a chain runs over the whole kernel. No patches are copied: a block of
 * lines of the picture is copied, with zeros for padding, and tiles read it in place,
 *
 *     y[position][o] = sum over c, i of  sum over j of  x[c][line + i][column + j] * w[c, i, j][o]
 *                      rows of a tile: positions of a line
 *     dw[c, i, j][o] = sum over lines, sum over positions of  x[c][line + i][position + j] * dy[position][o]
 *                      rows of a tile: j
 *
 * A task works in its worker's scratch memory. For dw the images are cut into at most THIN_PARTS parts, whose
 * sums are added in a balanced tree. */
#include "conv.h"
#include "conv_move.h"

enum { THIN_PARTS = 16, THIN_POSITIONS = 112 /* of a block, about */ };

typedef struct thin {
    const conv *c;
    int64_t depth, ldc;     /* kernel elements of an output channel; output channels in whole panels */
    int64_t blocks, rows;   /* blocks of the result's rows; rows of the largest block */
    int64_t lines, pitch;   /* lines of a block of the picture as copied; their length */
    int64_t parts;          /* dw: parts of the images */
    int64_t own, shared;    /* f32 of scratch: of each worker; of all together */
    conv_segment *segments; /* y */
} thin;

bool LS_NAME(ls_conv_is_thin)(const conv *c)
{
    const ls_conv *s = &c->s;
    const int64_t channels = s->c / s->at.groups, taps = s->kh * s->kw;
    return c->kind != LS_CONV_DX && channels < CONV_FEW_CHANNELS && taps > 1 &&
           channels * taps <= CONV_LONGEST;
}

static thin conv_thin_plan_of(const conv *c)
{
    const ls_conv *s = &c->s;
    thin t = { .c = c, .depth = s->c / s->at.groups * s->kh * s->kw };
    const int64_t most = s->ow < THIN_POSITIONS ? THIN_POSITIONS / s->ow : 1;
    t.blocks = (s->oh + most - 1) / most;
    t.rows = (s->oh + t.blocks - 1) / t.blocks;
    t.ldc = round_up(s->o / s->at.groups, c->nr);
    t.lines = (t.rows - 1) * s->at.stride_h + (s->kh - 1) * s->at.dilation_h + 1;
    t.pitch = round_up((s->ow - 1) * s->at.stride_w + (s->kw - 1) * s->at.dilation_w + 1, 16);
    t.parts = c->kind == LS_CONV_DW ? min_i64(s->n, THIN_PARTS) : 1;
    t.own = round_up(s->c / s->at.groups * t.lines * t.pitch + t.rows * s->ow * t.ldc, 16);
    t.shared = round_up(t.parts * t.depth * t.ldc, 16);
    return t;
}

size_t LS_NAME(ls_conv_thin_workspace)(const conv *c)
{
    const thin t = conv_thin_plan_of(c);
    return (size_t)round_up((int64_t)sizeof(conv_segment) * c->s.c * c->s.kh, 64) +
           sizeof(float) * (size_t)(t.shared + c->threads * t.own);
}

/* y: the kernel, [panel][c, i, j][nr]; dw: the sums of each part, [c, i, j][ldc]. */
SIMD_FN float *shared_of(const thin *t)
{
    return (float *)((char *)t->c->a->workspace +
                     round_up((int64_t)sizeof(conv_segment) * t->c->s.c * t->c->s.kh, 64));
}
SIMD_FN float *own_of(const thin *t, int worker) { return shared_of(t) + t->shared + worker * t->own; }

/* The rows of the result that block `block` has. */
SIMD_FN int64_t first_row(const thin *t, int64_t block) { return part_begin(t->c->s.oh, block, t->blocks); }

/* Copies the lines of the picture that a block sees, as [channel][line][pitch]. */
SIMD_FN void copy_lines(ls_dtype T, const thin *t, float *to, const ls_tensor *x, int64_t image, int64_t row,
                        int64_t rows)
{
    const ls_conv *s = &t->c->s;
    const int64_t channels = s->c / s->at.groups, top = row * s->at.stride_h - s->at.pad_h;
    const int64_t lines = (rows - 1) * s->at.stride_h + (s->kh - 1) * s->at.dilation_h + 1,
                  width = min_i64(s->w, t->pitch - s->at.pad_w);
    for (int64_t k = 0; k < channels; k++)
        for (int64_t l = 0; l < lines; l++) {
            float *line = to + (k * t->lines + l) * t->pitch;
            const bool is = top + l >= 0 && top + l < s->h;
            const int64_t from = ((image * s->c + t->c->group * channels + k) * s->h + top + l) * s->w;
            memset(line, 0, sizeof(float) * (size_t)t->pitch);
            for (int64_t w = 0; is && w < width; w += VF_LANES)
                vf_store_n(line + s->at.pad_w + w, vf_get_n(x->data, T, from + w, lanes_left(width - w)),
                           lanes_left(width - w));
        }
}

/* ---- y */

SIMD_FN void pack_kernel(ls_dtype T, const thin *t)
{
    const int64_t og = t->c->s.o / t->c->s.at.groups, nr = t->c->nr;
    float *to = shared_of(t);
    for (int64_t o = 0; o < t->ldc; o++)
        for (int64_t k = 0; k < t->depth; k++)
            to[(o / nr * t->depth + k) * nr + o % nr] = o < og ? f_get(t->c->a->in[1].data, T,
                                                                       (t->c->group * og + o) * t->depth + k)
                                                               : 0.0f;
}

SIMD_FN void y_blocks(ls_dtype T, const thin *t, int64_t begin, int64_t end, int worker)
{
    const conv *c = t->c;
    const ls_conv *s = &c->s;
    const ls_tensor *y = &c->a->out[0], *bias = present(&c->a->in[2]) ? &c->a->in[2] : NULL;
    const int64_t og = s->o / s->at.groups, channels = s->c / s->at.groups,
                  tiles = (s->ow + c->mr - 1) / c->mr;
    float *lines = own_of(t, worker), *result = lines + channels * t->lines * t->pitch;
    const conv_chain chain = { .segments = channels * s->kh,
                               .steps = s->kw,
                               .segment = t->segments,
                               .row = s->at.stride_w,
                               .step = s->at.dilation_w };
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / t->blocks, row = first_row(t, task % t->blocks),
                      rows = first_row(t, task % t->blocks + 1) - row;
        copy_lines(T, t, lines, &c->a->in[0], image, row, rows);
        for (int64_t panel = 0; panel < t->ldc / c->nr; panel++) {
            const conv_tile *tile = LS_NAME(ls_conv_tiles)[og - panel * c->nr > VF_LANES];
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = 0; k < tiles; k++) {
                    const int64_t p = part_begin(s->ow, k, tiles),
                                  height = part_begin(s->ow, k + 1, tiles) - p;
                    tile[height - 1](&chain, lines + r * s->at.stride_h * t->pitch + p * s->at.stride_w,
                                     shared_of(t) + panel * t->depth * c->nr,
                                     result + (r * s->ow + p) * t->ldc + panel * c->nr, t->ldc, false);
                }
        }
        for (int64_t k = 0; k < og; k += VF_LANES) {
            const int64_t channel = c->group * og + k;
            const vf add = bias ? vf_get_n(bias->data, T, channel, lanes_left(og - k)) : vf_zero();
            channels_out(T, y->data, (image * s->o + channel) * s->oh * s->ow + row * s->ow, s->oh * s->ow,
                         result + k, t->ldc, lanes_left(og - k), rows * s->ow, NULL, bias ? &add : NULL);
        }
    }
}

/* ---- dw */

/* Copies dy of a block as [panel][position][nr], with zeros after the last channel. */
SIMD_FN void copy_dy(ls_dtype T, const thin *t, float *to, int64_t image, int64_t row, int64_t rows)
{
    const conv *c = t->c;
    const ls_conv *s = &c->s;
    const int64_t og = s->o / s->at.groups, count = rows * s->ow, plane = s->oh * s->ow;
    for (int64_t k = 0; k < t->ldc; k += VF_LANES) {
        float *panel = to + k / c->nr * count * c->nr + k % c->nr;
        if (k < og)
            channels_in(T, panel, c->nr, c->a->in[0].data,
                        (image * s->o + c->group * og + k) * plane + row * s->ow, plane, lanes_left(og - k),
                        count, NULL);
        for (int64_t p = 0; k >= og && p < count; p++)
            vf_store(panel + p * c->nr, vf_zero());
    }
}

/* Adds a block's products to the sums of its part. */
SIMD_FN void add_block(const thin *t, float *sums, const float *lines, const float *dy, int64_t rows,
                       bool add)
{
    const conv *c = t->c;
    const ls_conv *s = &c->s;
    const int64_t og = s->o / s->at.groups, count = rows * s->ow, tiles = (s->kw + c->mr - 1) / c->mr;
    conv_segment segments[THIN_POSITIONS];
    for (int64_t r = 0; r < rows; r++)
        segments[r] = (conv_segment){ r * s->at.stride_h * t->pitch, r * s->ow * c->nr };
    const conv_chain chain = {
        .segments = rows, .steps = s->ow, .segment = segments, .row = s->at.dilation_w, .step = s->at.stride_w
    };
    for (int64_t panel = 0; panel < t->ldc / c->nr; panel++) {
        const conv_tile *tile = LS_NAME(ls_conv_tiles)[og - panel * c->nr > VF_LANES];
        for (int64_t k = 0; k < t->depth / s->kw; k++)
            for (int64_t part = 0; part < tiles; part++) {
                const int64_t j = part_begin(s->kw, part, tiles),
                              height = part_begin(s->kw, part + 1, tiles) - j;
                tile[height - 1](&chain,
                                 lines + (k / s->kh * t->lines + k % s->kh * s->at.dilation_h) * t->pitch +
                                     j * s->at.dilation_w,
                                 dy + panel * count * c->nr, sums + (k * s->kw + j) * t->ldc + panel * c->nr,
                                 t->ldc, add);
            }
    }
}

SIMD_FN void dw_parts(ls_dtype T, const thin *t, int64_t begin, int64_t end, int worker)
{
    const ls_conv *s = &t->c->s;
    float *lines = own_of(t, worker), *dy = lines + s->c / s->at.groups * t->lines * t->pitch;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = part_begin(s->n, part, t->parts), last = part_begin(s->n, part + 1, t->parts);
        for (int64_t k = first * t->blocks; k < last * t->blocks; k++) {
            const int64_t image = k / t->blocks, row = first_row(t, k % t->blocks),
                          rows = first_row(t, k % t->blocks + 1) - row;
            copy_lines(T, t, lines, &t->c->a->in[1], image, row, rows);
            copy_dy(T, t, dy, image, row, rows);
            add_block(t, shared_of(t) + part * t->depth * t->ldc, lines, dy, rows, k > first * t->blocks);
        }
    }
}

SIMD_FN void finish_dw(ls_dtype T, const thin *t)
{
    const int64_t og = t->c->s.o / t->c->s.at.groups, each = t->depth * t->ldc;
    float *sums = shared_of(t);
    for (int64_t step = 1; step < t->parts; step *= 2)
        for (int64_t part = 0; part + step < t->parts; part += 2 * step)
            for (int64_t i = 0; i < each; i += VF_LANES)
                vf_store(sums + part * each + i,
                         vf_load(sums + part * each + i) + vf_load(sums + (part + step) * each + i));
    for (int64_t k = 0; k < og; k += VF_LANES)
        channels_out(T, t->c->a->out[0].data, (t->c->group * og + k) * t->depth, t->depth, sums + k, t->ldc,
                     lanes_left(og - k), t->depth, NULL, NULL);
}

#define TASK(name, body)                                                    \
    static void name(void *context, int64_t begin, int64_t end, int worker) \
    {                                                                       \
        const thin *t = context;                                            \
        BY_FLOAT(t->c->a->in[0].type.dtype, body, t, begin, end, worker);   \
    }
TASK(y_task, y_blocks)
TASK(dw_task, dw_parts)

void LS_NAME(ls_conv_thin)(conv *c)
{
    thin t = conv_thin_plan_of(c);
    const ls_conv *s = &c->s;
    t.segments = c->a->workspace;
    for (int64_t k = 0; k < t.depth / s->kw; k++)
        t.segments[k] = (conv_segment){ (k / s->kh * t.lines + k % s->kh * s->at.dilation_h) * t.pitch,
                                        k * s->kw * c->nr };
    for (c->group = 0; c->group < s->at.groups; c->group++)
        if (c->kind == LS_CONV_Y) {
            BY_FLOAT(c->a->in[0].type.dtype, pack_kernel, &t);
            ls_parallel_for(c->threads, s->n * t.blocks, y_task, &t);
        } else {
            ls_parallel_for(c->threads, t.parts, dw_task, &t);
            BY_FLOAT(c->a->in[0].type.dtype, finish_dw, &t);
        }
}
