/* conv_stage.c - the copies around the products of a convolution (conv.h has the orders): blocks of VF_LANES x VF_LANES, transposed in registers.
 * Types other than f32 are converted on the way. */
#include "conv.h"

/* Rows `row` elements apart, n of them with m elements each: r[i] is element i of every row. */
SIMD_FN void get_block(ls_dtype T, vf *r, const void *from, int64_t at, int64_t row, int n, int m) {
    if (n == VF_LANES && m == VF_LANES) {
#pragma GCC unroll 16
        for (int i = 0; i < VF_LANES; i++)
            r[i] = vf_get(from, T, at + i * row);
    } else {
        for (int i = 0; i < VF_LANES; i++)
            r[i] = i < n ? vf_get_n(from, T, at + i * row, m) : vf_zero();
    }
    transpose(r);
}

/* n channels from `channel` on of one image, at all positions: whole vectors of channels (zeros where there are no more), `step` apart. */
SIMD_FN void channels_in(ls_dtype T, float *to, int64_t step, const ls_tensor *t, int64_t image, int64_t channel, int n) {
    const int64_t positions = t->type.dims[2] * t->type.dims[3], at = (image * t->type.dims[1] + channel) * positions;
    if (positions == 1) {
        vf_store(to, vf_get_n(t->data, T, at, n));
        return;
    }
    for (int64_t p = 0; p < positions; p += VF_LANES) {
        const int m = (int)min_i64(VF_LANES, positions - p);
        vf r[VF_LANES];
        get_block(T, r, t->data, at + p, positions, n, m);
        for (int i = 0; i < m; i++)
            vf_store(to + (p + i) * step, r[i]);
    }
}

SIMD_FN int lanes_left(int64_t n) { return (int)min_i64(n, VF_LANES); }

/* What the kernel sees from position p of the result, in the order of its weights; zeros where it sees padding. Writes up to a vector more. */
SIMD_FN void patch(ls_dtype T, float *to, const conv *c, const ls_tensor *x, int64_t image, int64_t p) {
    const ls_conv *s = &c->s;
    const int64_t cg = s->c / s->at.groups, left = p % s->ow * s->at.stride_w - s->at.pad_w, top = p / s->ow * s->at.stride_h - s->at.pad_h;
    for (int64_t k = 0; k < cg; k++)
        for (int64_t i = 0; i < s->kh; i++, to += s->kw) {
            const int64_t h = top + i * s->at.dilation_h, row = ((image * s->c + c->group * cg + k) * s->h + h) * s->w;
            const bool is = h >= 0 && h < s->h;
            if (is && s->at.dilation_w == 1 && left >= 0 && left + s->kw <= s->w) {
                for (int64_t j = 0; j < s->kw; j += VF_LANES)
                    vf_store(to + j, vf_get_n(x->data, T, row + left + j, (int)min_i64(VF_LANES, s->kw - j)));
                continue;
            }
            for (int64_t j = 0; j < s->kw; j++) {
                const int64_t w = left + j * s->at.dilation_w;
                to[j] = is && w >= 0 && w < s->w ? f_get(x->data, T, row + w) : 0.0f;
            }
        }
}

SIMD_FN void source_images(ls_dtype T, const conv *c, int64_t begin, int64_t end) {
    const ls_tensor *t = &c->a->in[0];
    for (int64_t n = begin; n < end; n++) {
        float *to = c->staged + n * c->ld;
        if (c->patches)
            for (int64_t p = 0; p < c->source; p++)
                patch(T, to + p * c->now * c->ld, c, t, c->first_image + n, p);
        else
            for (int64_t k = 0; k < c->source_channels; k += VF_LANES)
                channels_in(T, to + k, c->now * c->ld, t, c->first_image + n, c->group * c->source_channels + k,
                            lanes_left(c->source_channels - k));
    }
}

/* dw: x in panels, with zeros behind the last channel. */
SIMD_FN void x_images(ls_dtype T, const conv *c, int64_t begin, int64_t end) {
    const ls_tensor *t = &c->a->in[1];
    const int64_t step = c->now * c->nr;
    for (int64_t n = begin; n < end; n++) {
        for (int64_t p = 0; c->patches && p < c->source; p++) {
            float row[CONV_PATCH + 2 * VF_LANES];
            patch(T, row, c, t, c->first_image + n, p);
            memset(row + c->source_channels, 0, 2 * VF_LANES * sizeof *row);
            for (int64_t k = 0; k < c->panels * c->nr; k += VF_LANES)
                vf_store(c->staged + ((k / c->nr * c->source + p) * c->now + n) * c->nr + k % c->nr, vf_load(row + k));
        }
        for (int64_t k = 0; !c->patches && k < c->panels * c->nr; k += VF_LANES) {
            float *to = c->staged + (k / c->nr * c->source * c->now + n) * c->nr + k % c->nr;
            if (k < c->source_channels)
                channels_in(T, to, step, t, c->first_image + n, c->group * c->source_channels + k, lanes_left(c->source_channels - k));
            else
                for (int64_t p = 0; p < c->source; p++)
                    vf_store(to + p * step, vf_zero());
        }
    }
}

/* dw: dy in tiles of rows, cut evenly. */
SIMD_FN void dy_images(ls_dtype T, const conv *c, int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; n++)
        for (int64_t tile = 0; tile < c->tiles; tile++) {
            const int64_t row = part_begin(c->target_channels, tile, c->tiles), after = part_begin(c->target_channels, tile + 1, c->tiles);
            channels_in(T, c->result + (tile * c->target * c->now + n) * VF_LANES, c->now * VF_LANES, &c->a->in[0], c->first_image + n,
                        c->group * c->target_channels + row, (int)(after - row));
        }
}

SIMD_FN void result_images(ls_dtype T, const conv *c, int64_t begin, int64_t end) {
    const ls_tensor *t = &c->a->out[0];
    const ls_tensor *bias = c->kind == LS_CONV_Y && present(&c->a->in[2]) ? &c->a->in[2] : NULL;
    const int64_t ldc = c->panels * c->nr, step = c->now * ldc;
    for (int64_t n = begin; n < end; n++)
        for (int64_t k = 0; k < c->target_channels; k += VF_LANES) {
            const int channels = lanes_left(c->target_channels - k);
            const int64_t channel = c->group * c->target_channels + k, at = ((c->first_image + n) * t->type.dims[1] + channel) * c->target;
            const vf add = bias ? vf_get_n(bias->data, T, channel, channels) : vf_zero();
            const float *from = c->result + n * ldc + k;
            if (c->target == 1) {
                vf_put_n(t->data, T, at, bias ? vf_load(from) + add : vf_load(from), channels);
                continue;
            }
            for (int64_t p = 0; p < c->target; p += VF_LANES) {
                const int m = lanes_left(c->target - p);
                vf r[VF_LANES];
                for (int i = 0; i < VF_LANES; i++) {
                    r[i] = i < m ? vf_load(from + (p + i) * step) : vf_zero();
                    r[i] = bias ? r[i] + add : r[i];
                }
                transpose(r);
                for (int i = 0; i < channels; i++)
                    if (m == VF_LANES)
                        vf_put(t->data, T, at + i * c->target + p, r[i]);
                    else
                        vf_put_n(t->data, T, at + i * c->target + p, r[i], m);
            }
        }
}

/* y: VF_LANES output channels side by side, for every tap and input channel. */
SIMD_FN void pack_results(ls_dtype T, const conv *c, int64_t begin, int64_t end) {
    const int64_t depth = c->source_channels * c->taps; /* of a row of weights */
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

/* dx: one output channel's weights, VF_LANES input channels side by side, for every tap. */
SIMD_FN void pack_sources(ls_dtype T, const conv *c, int64_t begin, int64_t end) {
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

SIMD_FN void unpack_rows(ls_dtype T, const conv *c, int64_t begin, int64_t end) {
    const ls_tensor *t = &c->a->out[0];
    const int64_t next = c->panels * c->target_channels * c->nr; /* tap to tap */
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

#define TASK(name, body)                                                             \
    void LS_NAME(name)(void *context, int64_t begin, int64_t end, int worker) {      \
        const conv *c = context;                                                     \
        (void)worker;                                                                \
        BY_FLOAT(c->a->in[0].type.dtype, body, c, begin, end);                       \
    }
TASK(ls_conv_stage_source, source_images)
TASK(ls_conv_stage_x, x_images)
TASK(ls_conv_stage_dy, dy_images)
TASK(ls_conv_unstage, result_images)
TASK(ls_conv_unpack_dw, unpack_rows)

void LS_NAME(ls_conv_pack_w)(void *context, int64_t begin, int64_t end, int worker) {
    const conv *c = context;
    (void)worker;
    if (c->kind == LS_CONV_Y)
        BY_FLOAT(c->a->in[0].type.dtype, pack_results, c, begin, end);
    else
        BY_FLOAT(c->a->in[0].type.dtype, pack_sources, c, begin, end);
}
