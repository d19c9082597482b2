/* conv_point_dw.c - conv2d_dw of a kernel of 1 x 1 as a matrix product (conv_point.h).
 *
 * Columns are taken lot by lot: a part of an image, or some small images. A chain is a lot; lots are added in
 * ascending order. Their sizes follow from the shapes alone. A task is a block of input channels and a strip
 * of output channels, for which it goes through all lots. */
#include "conv_point.h"

enum {
    LOT = 448,       /* columns of a lot, at most */
    MOST_IMAGES = 64 /* of a lot */
};

typedef struct gradient {
    const conv *c;
    int64_t panels, ld;            /* of input channels; f32 of a row of sums */
    int64_t parts, images;         /* an image has several lots, or a lot has several images */
    int64_t lots, most;            /* most: columns of a lot */
    int64_t block, blocks, strips; /* panels of a block; tasks */
    int64_t line, own;             /* f32 of a line; of a worker's scratch */
    bool copied, apart;            /* dy is copied to f32; sums lie in the workspace */
    float *sums;
    float *scratch; /* for each worker: channels, panels [panel][column][nr], rows of dy */
} gradient;

static gradient conv_point_dw_plan_of(const conv *c)
{
    const int64_t room = c->lanes == 16 ? POINT_PANELS_AVX512 : POINT_PANELS, plane = c->target;
    const bool f32 = c->a->in[0].type.dtype == LS_F32;
    gradient d = { .c = c, .images = 1, .parts = 1 };
    d.panels = c->panels;
    d.ld = round_up(c->source_channels, c->lanes);
    d.copied = !f32;
    d.apart = !f32 || d.ld != c->source_channels;
    if (plane > LOT)
        d.parts = (plane + LOT - 1) / LOT;
    else
        d.images = min_i64(MOST_IMAGES, LOT / plane);
    d.lots = d.parts * ((c->s.n + d.images - 1) / d.images);
    d.most = (plane + d.parts - 1) / d.parts * d.images;
    d.block = room / (d.most * c->nr);
    d.block = min_i64(d.block < 1 ? 1 : d.block, (d.panels + c->threads - 1) / c->threads);
    d.blocks = (d.panels + d.block - 1) / d.block;
    d.strips = min_i64(c->tiles, (2 * c->threads - 1 + d.blocks) / d.blocks);
    if (c->threads == 1)
        d.strips = 1;
    d.line = round_up(d.most + c->lanes, 16) + POINT_OFF_SET;
    d.own = c->lanes * d.line + round_up(d.block * c->nr * d.most, 16) +
            (d.copied ? c->target_channels * d.line : 0);
    return d;
}

static int64_t sums_of(const gradient *d) { return d->apart ? d->c->target_channels * d->ld : 0; }

size_t LS_NAME(ls_conv_point_dw_workspace)(const conv *c)
{
    const gradient d = conv_point_dw_plan_of(c);
    return sizeof(float) * (size_t)(round_up(sums_of(&d), 16) + c->threads * d.own);
}

/* Columns of a lot: n of each of `images` images from `image` on, from position p on. */
typedef struct lot {
    int64_t image, images, p, n;
} lot;

SIMD_FN lot lot_at(const gradient *d, int64_t number)
{
    const int64_t plane = d->c->target, part = number % d->parts, image = number / d->parts * d->images,
                  p = part_begin(plane, part, d->parts);
    return (lot){ image, min_i64(d->images, d->c->s.n - image), p,
                  part_begin(plane, part + 1, d->parts) - p };
}

/* VF_LANES channels from `first` on: to[column][nr]. */
SIMD_FN void make_half_panel(ls_dtype T, const gradient *d, const lot *l, float *taken, float *to,
                             int64_t first)
{
    const conv *c = d->c;
    const int n = first < c->source_channels ? lanes_left(c->source_channels - first) : 0;
    for (int64_t image = l->image; image < l->image + l->images; image++, to += l->n * c->nr) {
        for (int i = 0; i < n && !reads_every_position(c); i++)
            take_columns(T, c, taken + i * d->line, image, first + i, l->p, l->n);
        for (int64_t k = 0; k < l->n; k += VF_LANES) {
            const int m = lanes_left(l->n - k);
            vf r[VF_LANES];
            if (reads_every_position(c))
                get_block(T, r, c->a->in[1].data, channel_at(c, image, first) + l->p + k, c->target, n, m);
            else
                get_block(LS_F32, r, taken, k, d->line, n, m);
            for (int i = 0; i < m; i++)
                vf_store(to + (k + i) * c->nr, r[i]);
        }
    }
}

SIMD_FN void strip(ls_dtype T, const gradient *d, int64_t first_panel, int64_t last_panel, int64_t first_tile,
                   int64_t last_tile, float *taken)
{
    const conv *c = d->c;
    const ls_tensor *dy = &c->a->in[0];
    float *panels = taken + c->lanes * d->line, *copy = panels + round_up(d->block * c->nr * d->most, 16);
    const int64_t top = part_begin(c->target_channels, first_tile, c->tiles),
                  bottom = part_begin(c->target_channels, last_tile, c->tiles), plane = c->target;
    conv_segment segments[MOST_IMAGES];
    for (int64_t number = 0; number < d->lots; number++) {
        const lot l = lot_at(d, number);
        const int64_t columns = l.n * l.images;
        for (int64_t panel = first_panel; panel < last_panel; panel++)
            for (int half = 0; half < 2; half++)
                make_half_panel(T, d, &l, taken,
                                panels + (panel - first_panel) * columns * c->nr + half * VF_LANES,
                                panel * c->nr + half * VF_LANES);
        conv_chain chain = {
            .segments = l.images, .steps = l.n, .segment = segments, .row = plane, .step = 1
        };
        for (int64_t i = 0; i < l.images; i++)
            segments[i] = (conv_segment){ i * c->s.o * plane, i * l.n * c->nr };
        const float *rows = (const float *)dy->data +
                            (l.image * c->s.o + c->group * c->target_channels) * plane + l.p;
        if (d->copied) {
            for (int64_t row = top; row < bottom; row++)
                for (int64_t i = 0; i < l.images; i++)
                    take_elements(
                        T, copy + row * d->line + i * l.n, dy->data,
                        ((l.image + i) * c->s.o + c->group * c->target_channels + row) * plane + l.p, 1, l.n);
            chain.segments = 1, chain.steps = columns, chain.row = d->line;
            rows = copy;
        }
        for (int64_t t = first_tile; t < last_tile; t++) {
            const int64_t row = part_begin(c->target_channels, t, c->tiles),
                          height = part_begin(c->target_channels, t + 1, c->tiles) - row;
            for (int64_t panel = first_panel; panel < last_panel; panel++)
                LS_NAME(ls_conv_tiles)
            [c->source_channels - panel * c->nr > VF_LANES][height - 1](
                &chain, rows + row * chain.row, panels + (panel - first_panel) * columns * c->nr,
                d->sums + row * d->ld + panel * c->nr, d->ld, number > 0);
        }
    }
}

SIMD_FN void strips(ls_dtype T, const gradient *d, int64_t begin, int64_t end, int worker)
{
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task / d->strips, part = task % d->strips;
        strip(T, d, block * d->block, min_i64(d->panels, (block + 1) * d->block),
              part_begin(d->c->tiles, part, d->strips), part_begin(d->c->tiles, part + 1, d->strips),
              d->scratch + worker * d->own);
    }
}

SIMD_FN void put_rows(ls_dtype T, const gradient *d, int64_t begin, int64_t end)
{
    const conv *c = d->c;
    for (int64_t row = begin; row < end; row++)
        for (int64_t k = 0; k < c->source_channels; k += VF_LANES)
            vf_put_n(c->a->out[0].data, T, (c->group * c->target_channels + row) * c->source_channels + k,
                     vf_load(d->sums + row * d->ld + k), lanes_left(c->source_channels - k));
}

CONV_TASK(gradient, strips_task, strips, , worker)
CONV_TASK(gradient, put_task, put_rows, )

void LS_NAME(ls_conv_point_dw)(conv *c)
{
    gradient d = conv_point_dw_plan_of(c);
    float *sums = c->a->workspace;
    d.scratch = sums + round_up(sums_of(&d), 16);
    for (c->group = 0; c->group < c->s.at.groups; c->group++) {
        d.sums = d.apart ? sums
                         : (float *)c->a->out[0].data + c->group * c->target_channels * c->source_channels;
        ls_parallel_for(c->threads, d.blocks * d.strips, strips_task, &d);
        if (d.apart)
            ls_parallel_for(c->threads, c->target_channels, put_task, &d);
    }
}
