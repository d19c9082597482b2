/* conv_winograd_dw.c - conv2d_dw by Winograd's method (conv_winograd.h). Threads share the channels of a lot,
 * then its points and panels. A chain has CHAIN squares. */
#include "conv_winograd.h"

static float *results_of(const winograd *g) { return g->shared + POINTS * g->point; }

/* A task is VF_LANES channels of x, and then of dy. */
SIMD_FN void take_channels(ls_dtype T, const winograd *g, int64_t begin, int64_t end, int worker)
{
    const conv *c = g->c;
    const int64_t blocks = (c->source_channels + VF_LANES - 1) / VF_LANES,
                  squares = (g->last - g->first) * g->cols;
    float *lines = g->scratch + worker * g->own;
    for (int64_t task = begin; task < end; task++)
        if (task < blocks) {
            const int64_t k = task * VF_LANES;
            take_squares(SOURCE, T, g, lines, g->shared + k / c->nr * squares * c->nr + k % c->nr,
                         &c->a->in[1], g->first, g->last, c->group * c->source_channels + k,
                         lanes_left(c->source_channels - k));
        } else {
            const int64_t k = (task - blocks) * VF_LANES;
            take_squares(GRADIENT, T, g, lines, results_of(g) + k, &c->a->in[0], g->first, g->last,
                         c->group * c->target_channels + k, lanes_left(c->target_channels - k));
        }
}

/* A task is a panel of a point. */
static void add_products(void *context, int64_t begin, int64_t end, int worker)
{
    const winograd *g = context;
    const conv *c = g->c;
    const conv_segment whole = { 0, 0 };
    const int64_t squares = (g->last - g->first) * g->cols, panels = g->end - g->begin;
    (void)worker;
    for (int64_t task = begin; task < end; task++) {
        const int64_t i = task / panels, at = task % panels, panel = g->begin + at;
        const conv_tile *tile = LS_NAME(ls_conv_tiles)[c->source_channels - panel * c->nr > VF_LANES];
        for (int64_t t = 0; t < c->tiles; t++) {
            const int64_t row = part_begin(c->target_channels, t, c->tiles),
                          height = part_begin(c->target_channels, t + 1, c->tiles) - row;
            for (int64_t k = 0; k < squares; k += CHAIN) {
                const conv_chain chain = { .segments = 1,
                                           .steps = min_i64(CHAIN, squares - k),
                                           .segment = &whole,
                                           .row = 1,
                                           .step = g->result_ld };
                tile[height - 1](&chain, results_of(g) + i * g->result_point + k * g->result_ld + row,
                                 g->shared + i * g->point + (panel * squares + k) * c->nr,
                                 g->kernel + i * g->kernel_point + (at * c->target_channels + row) * c->nr,
                                 c->nr, g->first + k > 0);
            }
        }
    }
}

/* A task is an output channel. */
SIMD_FN void unpack_sums(ls_dtype T, const winograd *g, int64_t begin, int64_t end)
{
    const conv *c = g->c;
    for (int64_t panel = g->begin; panel < g->end; panel++)
        for (int64_t half = 2 * begin; half < 2 * end; half++) {
            const int64_t o = half / 2, k = panel * c->nr + half % 2 * VF_LANES,
                          at = ((c->group * c->target_channels + o) * c->source_channels + k) * TAPS;
            if (k >= c->source_channels)
                continue;
            const int n = lanes_left(c->source_channels - k);
            vf points[POINTS], w[TAPS + VF_LANES] = { { 0 } };
            load_points(points, g->kernel + ((panel - g->begin) * c->target_channels + o) * c->nr + k % c->nr,
                        g->kernel_point);
            sums_of_square(KERNEL_GRADIENT, points, w);
            for (int i = 0; i < TAPS; i += VF_LANES)
                transpose(w + i);
            /* A whole vector can reach into the next input channel, whose own elements are stored later. */
            for (int j = 0; j < n; j++)
                for (int i = 0; i < TAPS; i += VF_LANES)
                    if (j * TAPS + i + VF_LANES <= n * TAPS)
                        vf_put(c->a->out[0].data, T, at + j * TAPS + i, w[i + j]);
                    else
                        vf_put_n(c->a->out[0].data, T, at + j * TAPS + i, w[i + j], lanes_left(TAPS - i));
        }
}

CONV_TASK(winograd, take_task, take_channels, , worker)
CONV_TASK(winograd, unpack_task, unpack_sums, )

void LS_NAME(ls_conv_winograd_dw)(conv *c)
{
    winograd g = LS_NAME(ls_winograd_begin)(c);
    const int64_t rows = c->s.n * g.rows, channels = (c->source_channels + VF_LANES - 1) / VF_LANES +
                                                     (c->target_channels + VF_LANES - 1) / VF_LANES;
    for (c->group = 0; c->group < c->s.at.groups; c->group++)
        for (g.first = 0; g.first < rows; g.first = g.last) {
            g.last = min_i64(rows, g.first + g.at_once);
            ls_parallel_for(c->threads, channels, take_task, &g);
            for (g.begin = 0; g.begin < c->panels; g.begin = g.end) {
                g.end = min_i64(c->panels, g.begin + g.block);
                ls_parallel_for(c->threads, POINTS * (g.end - g.begin), add_products, &g);
                if (g.last == rows)
                    ls_parallel_for(c->threads, c->target_channels, unpack_task, &g);
            }
        }
}
