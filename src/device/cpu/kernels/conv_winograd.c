/* conv_winograd.c - conv2d and conv2d_dx by Winograd's method (conv_winograd.h). A task is a lot, from source
 * to target, in its worker's scratch. A chain has CHAIN channels. */
#include "conv_winograd.h"

bool LS_NAME(ls_conv_is_winograd)(const conv *c)
{
    const ls_conv_attrs *at = &c->s.at;
    return c->s.kh == 3 && c->s.kw == 3 && at->stride_h == 1 && at->stride_w == 1 && at->dilation_h == 1 &&
           at->dilation_w == 1 && c->s.oh >= SMALLEST && c->s.ow >= SMALLEST &&
           min_i64(c->source_channels, c->target_channels) >= LEAST_CHANNELS;
}

static int64_t off_set(int64_t channels) { return channels % 64 ? channels : channels + OFF_SET; }

static winograd conv_winograd_plan_of(const conv *c)
{
    const ls_conv *s = &c->s;
    const bool dx = c->kind == LS_CONV_DX, dw = c->kind == LS_CONV_DW;
    winograd g = { .c = c,
                   .result_h = dx ? s->h : s->oh,
                   .result_w = dx ? s->w : s->ow,
                   .pad_h = dx ? 2 - s->at.pad_h : s->at.pad_h,
                   .pad_w = dx ? 2 - s->at.pad_w : s->at.pad_w };
    g.rows = (g.result_h + SIDE - 1) / SIDE;
    g.cols = (g.result_w + SIDE - 1) / SIDE;
    const int64_t rows = s->n * g.rows, width = c->panels * c->nr, sources = round_up(c->source_channels, 16),
                  depth = dw ? c->target_channels : c->source_channels,
                  points = rows * g.cols * (dw ? sources + depth : sources), kernel = width * depth;
    g.kept = kernel * POINTS > BLOCK && points <= (dw ? kernel / 2 : kernel);
    g.block = g.kept ? min_i64(1 + BLOCK / (POINTS * c->nr * depth), c->panels) : c->panels;
    g.at_once = dw && g.kept ? rows
                             : min_i64((SQUARES + g.cols - 1) / g.cols,
                                       (rows + (dw ? 0 : c->threads - 1)) / (dw ? 1 : c->threads));
    if (g.at_once < 1) /* there are no pictures */
        g.at_once = 1;
    const int64_t squares = g.at_once * g.cols;
    g.lots = (rows + g.at_once - 1) / g.at_once;
    g.lines = (SIDE * min_i64(g.at_once, g.rows) + 2) * (SIDE * g.cols + 2) * c->lanes;
    g.ld = dw ? c->nr : off_set(round_up(c->source_channels, c->lanes));
    g.result_ld = dw ? off_set(round_up(c->target_channels, c->lanes)) : off_set(g.block * c->nr);
    g.point = squares * (dw ? width : g.ld) + OFF_SET;
    g.result_point = squares * g.result_ld + OFF_SET;
    g.kernel_point = g.block * c->nr * depth + OFF_SET;
    g.own = g.lines + (dw ? 0 : POINTS * (g.result_point + (g.kept ? 0 : g.point)));
    return g;
}

size_t LS_NAME(ls_conv_winograd_workspace)(const conv *c)
{
    const winograd g = conv_winograd_plan_of(c);
    const int64_t shared = c->kind == LS_CONV_DW ? g.point + g.result_point : g.kept ? g.lots * g.point : 0;
    return sizeof(float) * (size_t)(POINTS * (g.kernel_point + shared) + c->threads * g.own);
}

winograd LS_NAME(ls_winograd_begin)(const conv *c)
{
    winograd g = conv_winograd_plan_of(c);
    g.kernel = c->a->workspace;
    g.scratch = g.kernel + POINTS * g.kernel_point;
    g.shared = g.scratch + c->threads * g.own;
    return g;
}

/* ---- the kernel */

/* What lies side by side is written together: both halves of a panel, VF_LANES channels each.
 *
 * y: a task is a panel of the block. */
SIMD_FN void pack_results(ls_dtype T, const winograd *g, int64_t begin, int64_t end)
{
    const conv *c = g->c;
    const int64_t depth = c->source_channels;
    for (int64_t panel = g->begin + begin; panel < g->begin + end; panel++)
        for (int64_t half = 0; half < (depth + VF_LANES - 1) / VF_LANES * 2; half++) {
            const int64_t o = panel * c->nr + half % 2 * VF_LANES, k = half / 2 * VF_LANES,
                          at = ((c->group * c->target_channels + o) * depth + k) * TAPS,
                          count = o < c->target_channels ? min_i64(VF_LANES, depth - k) : 0;
            vf w[VF_LANES * TAPS], points[POINTS];
            for (int64_t i = 0; i < count * TAPS; i += VF_LANES)
                get_block(T, w + i, c->a->in[1].data, at + i, depth * TAPS,
                          lanes_left(c->target_channels - o), lanes_left(count * TAPS - i));
            for (int64_t i = 0; i < count; i++) {
                sums_of_square(KERNEL, w + i * TAPS, points);
                store_points(g->kernel + ((panel - g->begin) * depth + k + i) * c->nr + o % c->nr,
                             g->kernel_point, points);
            }
        }
}

/* dx: a task is the kernel of an output channel, rotated by half a turn. */
SIMD_FN void pack_sources(ls_dtype T, const winograd *g, int64_t begin, int64_t end)
{
    const conv *c = g->c;
    for (int64_t panel = g->begin; panel < g->end; panel++)
        for (int64_t half = 2 * begin; half < 2 * end; half++) {
            const int64_t o = half / 2, k = panel * c->nr + half % 2 * VF_LANES,
                          at = ((c->group * c->source_channels + o) * c->target_channels + k) * TAPS;
            if (k >= c->target_channels)
                continue;
            vf w[TAPS + VF_LANES], turned[TAPS], points[POINTS];
            for (int i = 0; i < TAPS; i += VF_LANES)
                get_block(T, w + i, c->a->in[1].data, at + i, TAPS, lanes_left(c->target_channels - k),
                          lanes_left(TAPS - i));
#pragma GCC unroll 9
            for (int i = 0; i < TAPS; i++)
                turned[i] = w[TAPS - 1 - i];
            sums_of_square(KERNEL, turned, points);
            store_points(g->kernel + ((panel - g->begin) * c->source_channels + o) * c->nr + k % c->nr,
                         g->kernel_point, points);
        }
}

/* ---- a lot */

/* The opposite direction: from `results` to NCHW. */
SIMD_FN void put_squares(ls_dtype T, const winograd *g, float *lines, const float *from, int64_t first,
                         int64_t last, int64_t channel, int n)
{
    const ls_tensor *t = &g->c->a->out[0],
                    *bias = g->c->kind == LS_CONV_Y && present(&g->c->a->in[2]) ? &g->c->a->in[2] : NULL;
    const vf add = bias ? vf_get_n(bias->data, T, channel, n) : vf_zero();
    const int64_t w = g->result_w;
    for (run r; first < last; first += r.n) {
        r = run_at(g, first, last);
        const int64_t height = min_i64(SIDE * r.n, g->result_h - SIDE * r.row);
        for (int64_t i = 0; i < r.n * g->cols; i++, from += g->result_ld) {
            const int64_t row = i / g->cols * SIDE, column = i % g->cols * SIDE;
            vf points[POINTS], y[SIDE * SIDE];
            load_points(points, from, g->result_point);
            sums_of_square(RESULT, points, y);
            for (int k = 0; k < SIDE * SIDE; k++)
                if (row + k / SIDE < height && column + k % SIDE < w)
                    vf_store(lines + ((row + k / SIDE) * w + column + k % SIDE) * VF_LANES, y[k]);
        }
        channels_out(T, t->data, ((r.image * t->type.dims[1] + channel) * g->result_h + SIDE * r.row) * w,
                     g->result_h * w, lines, VF_LANES, n, height * w, NULL, bias ? &add : NULL);
    }
}

SIMD_FN void multiply(const winograd *g, const float *points, float *results, int64_t squares)
{
    const conv *c = g->c;
    const conv_segment whole = { 0, 0 };
    const int64_t tiles = (squares + c->mr - 1) / c->mr, depth = c->source_channels;
    const int64_t panels = g->end - g->begin;
    for (int64_t task = 0; task < POINTS * panels; task++) {
        const int64_t i = task / panels, panel = task % panels; /* of the block */
        const int64_t left = c->target_channels - (g->begin + panel) * c->nr;
        const conv_tile *tile = LS_NAME(ls_conv_tiles)[left > VF_LANES];
        for (int64_t k = 0; k < depth; k += CHAIN) {
            const conv_chain chain = {
                .segments = 1, .steps = min_i64(CHAIN, depth - k), .segment = &whole, .row = g->ld, .step = 1
            };
            for (int64_t t = 0; t < tiles; t++) {
                const int64_t row = part_begin(squares, t, tiles),
                              height = part_begin(squares, t + 1, tiles) - row;
                tile[height - 1](&chain, points + i * g->point + row * g->ld + k,
                                 g->kernel + i * g->kernel_point + (panel * depth + k) * c->nr,
                                 results + i * g->result_point + row * g->result_ld + panel * c->nr,
                                 g->result_ld, k > 0);
            }
        }
    }
}

SIMD_FN void convolve_lots(ls_dtype T, const winograd *g, int64_t begin, int64_t end, int worker)
{
    const conv *c = g->c;
    float *lines = g->scratch + worker * g->own, *results = lines + g->lines;
    const int64_t top = g->begin * c->nr, bottom = min_i64(g->end * c->nr, c->target_channels);
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * g->at_once, last = min_i64(first + g->at_once, c->s.n * g->rows);
        float *points = g->kept ? g->shared + task * POINTS * g->point : results + POINTS * g->result_point;
        for (int64_t k = 0; k < c->source_channels && g->begin == 0; k += VF_LANES)
            take_squares(SOURCE, T, g, lines, points + k, &c->a->in[0], first, last,
                         c->group * c->source_channels + k, lanes_left(c->source_channels - k));
        multiply(g, points, results, (last - first) * g->cols);
        for (int64_t k = top; k < bottom; k += VF_LANES)
            put_squares(T, g, lines, results + k - top, first, last, c->group * c->target_channels + k,
                        lanes_left(c->target_channels - k));
    }
}

CONV_TASK(winograd, pack_y, pack_results, )
CONV_TASK(winograd, pack_dx, pack_sources, )
CONV_TASK(winograd, lots_task, convolve_lots, , worker)

void LS_NAME(ls_conv_winograd)(conv *c)
{
    winograd g = LS_NAME(ls_winograd_begin)(c);
    for (c->group = 0; c->group < c->s.at.groups; c->group++)
        for (g.begin = 0; g.begin < c->panels; g.begin = g.end) {
            g.end = min_i64(c->panels, g.begin + g.block);
            if (c->kind == LS_CONV_Y)
                ls_parallel_for(c->threads, g.end - g.begin, pack_y, &g);
            else
                ls_parallel_for(c->threads, c->source_channels, pack_dx, &g);
            ls_parallel_for(c->threads, g.lots, lots_task, &g);
        }
}
