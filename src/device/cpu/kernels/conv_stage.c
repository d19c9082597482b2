/* conv_stage.c - the copies before and after the products of a convolution (conv.h has the orders). */
#include "conv_move.h"

/* All positions of n channels of one image (count == plane). slot: see channels_in. */
SIMD_FN void image_in(ls_dtype T, float *to, int64_t step, const ls_tensor *t, int64_t image, int64_t channel,
                      int n, const int32_t *slot)
{
    const int64_t positions = t->type.dims[2] * t->type.dims[3];
    channels_in(T, to, step, t->data, (image * t->type.dims[1] + channel) * positions, positions, n,
                positions, slot);
}

SIMD_FN void source_images(ls_dtype T, const conv *c, int64_t begin, int64_t end)
{
    const int64_t blocks = (c->source_channels + VF_LANES - 1) / VF_LANES;
    for (int64_t task = begin; task < end; task++) {
        const int64_t n = task / blocks, k = task % blocks * VF_LANES;
        image_in(T, c->staged + n * c->ld + k, c->now * c->ld, &c->a->in[0], c->first_image + n,
                 c->group * c->source_channels + k, lanes_left(c->source_channels - k),
                 c->kind == LS_CONV_Y ? c->slot : NULL);
    }
}

SIMD_FN void result_images(ls_dtype T, const conv *c, int64_t begin, int64_t end)
{
    const ls_tensor *t = &c->a->out[0];
    const ls_tensor *bias = c->kind == LS_CONV_Y && present(&c->a->in[2]) ? &c->a->in[2] : NULL;
    const int64_t ldc = c->panels * c->nr, blocks = (c->target_channels + VF_LANES - 1) / VF_LANES;
    for (int64_t task = begin; task < end; task++) {
        const int64_t n = task / blocks, k = task % blocks * VF_LANES,
                      channel = c->group * c->target_channels + k;
        const int channels = lanes_left(c->target_channels - k);
        const vf add = bias ? vf_get_n(bias->data, T, channel, channels) : vf_zero();
        channels_out(T, t->data, ((c->first_image + n) * t->type.dims[1] + channel) * c->target, c->target,
                     c->result + n * ldc + k, c->now * ldc, channels, c->target,
                     c->kind == LS_CONV_DX ? c->slot : NULL, bias ? &add : NULL);
    }
}

/* dw: x in panels, with zeros after the last channel. */
SIMD_FN void x_images(ls_dtype T, const conv *c, int64_t begin, int64_t end)
{
    const ls_tensor *t = &c->a->in[1];
    const int64_t step = c->now * c->nr;
    for (int64_t n = begin; n < end; n++) {
        for (int64_t k = 0; k < c->panels * c->nr; k += VF_LANES) {
            float *to = c->staged + (k / c->nr * c->source * c->now + n) * c->nr + k % c->nr;
            if (k < c->source_channels)
                image_in(T, to, step, t, c->first_image + n, c->group * c->source_channels + k,
                         lanes_left(c->source_channels - k), c->slot);
            else
                for (int64_t p = 0; p < c->source; p++)
                    vf_store(to + p * step, vf_zero());
        }
    }
}

/* dw: dy in tiles of rows of nearly equal height. */
SIMD_FN void dy_images(ls_dtype T, const conv *c, int64_t begin, int64_t end)
{
    for (int64_t n = begin; n < end; n++)
        for (int64_t tile = 0; tile < c->tiles; tile++) {
            const int64_t row = part_begin(c->target_channels, tile, c->tiles),
                          after = part_begin(c->target_channels, tile + 1, c->tiles);
            image_in(T, c->result + (tile * c->target * c->now + n) * VF_LANES, c->now * VF_LANES,
                     &c->a->in[0], c->first_image + n, c->group * c->target_channels + row,
                     (int)(after - row), NULL);
        }
}

/* y: VF_LANES output channels side by side, for every tap and input channel. */
SIMD_FN void pack_results(ls_dtype T, const conv *c, int64_t begin, int64_t end)
{
    const int64_t depth = c->source_channels * c->taps; /* elements of a row of weights */
    for (int64_t o = begin * VF_LANES; o < min_i64(end * VF_LANES, c->target_channels); o += VF_LANES) {
        const int n = lanes_left(c->target_channels - o);
        float *to = c->b + o / c->nr * c->source_channels * c->nr + o % c->nr;
        for (int64_t k = 0; k < depth; k += VF_LANES) {
            const int m = lanes_left(depth - k);
            vf r[VF_LANES];
            get_block(T, r, c->a->in[1].data, (c->group * c->target_channels + o) * depth + k, depth, n, m);
            int64_t channel = k / c->taps, tap = k % c->taps;
            for (int i = 0; i < m; i++) {
                if (c->used[tap])
                    vf_store(to + (tap * c->panels * c->source_channels + channel) * c->nr, r[i]);
                if (++tap == c->taps) {
                    tap = 0;
                    channel++;
                }
            }
        }
    }
}

/* dx: the weights of an output channel, VF_LANES input channels side by side, for every tap. */
SIMD_FN void pack_sources(ls_dtype T, const conv *c, int64_t begin, int64_t end)
{
    for (int64_t o = begin; o < end; o++)
        for (int64_t k = 0; k < c->target_channels; k += VF_LANES) {
            const int n = lanes_left(c->target_channels - k);
            const int64_t at = ((c->group * c->source_channels + o) * c->target_channels + k) * c->taps;
            float *to = c->b + (k / c->nr * c->source_channels + o) * c->nr + k % c->nr;
            for (int64_t tap = 0; tap < c->taps; tap += VF_LANES) {
                const int m = lanes_left(c->taps - tap);
                vf r[VF_LANES];
                if (c->taps == 1)
                    r[0] = vf_get_n(c->a->in[1].data, T, at, n);
                else
                    get_block(T, r, c->a->in[1].data, at + tap, c->taps, n, m);
                for (int i = 0; i < m; i++)
                    if (c->used[tap + i])
                        vf_store(to + (tap + i) * c->panels * c->source_channels * c->nr, r[i]);
            }
        }
}

SIMD_FN void unpack_rows(ls_dtype T, const conv *c, int64_t begin, int64_t end)
{
    const ls_tensor *t = &c->a->out[0];
    const int64_t next = c->panels * c->target_channels * c->nr; /* distance from tap to tap */
    for (int64_t o = begin; o < end; o++)
        for (int64_t k = 0; k < c->source_channels; k += VF_LANES) {
            const int n = lanes_left(c->source_channels - k);
            const float *from = c->b + (k / c->nr * c->target_channels + o) * c->nr + k % c->nr;
            const int64_t at = ((c->group * c->target_channels + o) * c->source_channels + k) * c->taps;
            if (c->taps == 1) {
                vf_put_n(t->data, T, at, c->used[0] ? vf_load(from) : vf_zero(), n);
                continue;
            }
            for (int64_t tap = 0; tap < c->taps; tap += VF_LANES) {
                const int m = lanes_left(c->taps - tap);
                vf r[VF_LANES];
                for (int i = 0; i < VF_LANES; i++)
                    r[i] = i < m && c->used[tap + i] ? vf_load(from + (tap + i) * next) : vf_zero();
                transpose(r);
                for (int i = 0; i < n; i++)
                    vf_put_n(t->data, T, at + i * c->taps + tap, r[i], m);
            }
        }
}

#define TASK(name, body)                                                      \
    void LS_NAME(name)(void *context, int64_t begin, int64_t end, int worker) \
    {                                                                         \
        const conv *c = context;                                              \
        (void)worker;                                                         \
        BY_FLOAT(c->a->in[0].type.dtype, body, c, begin, end);                \
    }
TASK(ls_conv_stage_source, source_images)
TASK(ls_conv_stage_x, x_images)
TASK(ls_conv_stage_dy, dy_images)
TASK(ls_conv_unstage, result_images)
TASK(ls_conv_unpack_dw, unpack_rows)

void LS_NAME(ls_conv_pack_w)(void *context, int64_t begin, int64_t end, int worker)
{
    const conv *c = context;
    (void)worker;
    if (c->kind == LS_CONV_Y)
        BY_FLOAT(c->a->in[0].type.dtype, pack_results, c, begin, end);
    else
        BY_FLOAT(c->a->in[0].type.dtype, pack_sources, c, begin, end);
}
