/* conv_winograd.c - convolutions with 3 x 3 kernels and stride 1, with 36 multiplications instead of 144:
 * Winograd's F(4 x 4, 3 x 3). In f32 it is about as exact as PyTorch's plain sum (docs/numerics.md).
 *
 * A square of 4 x 4 results sees 6 x 6 elements of the source. Sums of these elements (B), times sums of the
 * kernel's elements (G), are 36 points. The results are sums of the points (A). Channels are added point by
 * point, so each point is a matrix product:
 *
 *     y, dx:  y = A^T (G w G^T . B^T x B) A      [squares, channels] * [channels, results]
 *             dx: the source is dy, and the kernel is rotated by half a turn
 *     dw:     dw = G^T (A dy A^T . B^T x B) G    [results, squares] * [squares, channels]
 *
 * The kernel's points can be many megabytes. If those of the pictures are fewer, they are kept, and the
 * kernel is taken block by block of panels, each from its elements to the results; else it is one block, and
 * pictures are taken lot by lot of rows of squares. So what is written is soon read, from the caches.
 *
 * y, dx: a task is a lot, from source to target, in its worker's scratch; a chain has CHAIN channels. dw:
 * threads share points and panels; a chain has CHAIN squares of a lot. Chains are added in ascending order.
 */
#include "conv.h"
#include "conv_move.h"

enum {
    SIDE = 4,      /* of a square of results */
    SIDE_SEEN = 6, /* of the elements that it sees, and of its points */
    POINTS = SIDE_SEEN * SIDE_SEEN,
    TAPS = 9,
    SQUARES = 32,        /* at once, about: their points and results share L2 with the kernel of a point */
    CHAIN = 64,          /* longer chains are hardly faster, and less exact */
    BLOCK = 1 << 19,     /* f32 of a block of the kernel's points */
    SMALLEST = 7,        /* height and width of a result, and */
    LEAST_CHANNELS = 16, /* for which it pays */
    /* f32 added to the distance between points, and between rows, to keep them off the same cache sets */
    OFF_SET = 16,
};

typedef struct winograd {
    const conv *c;
    int64_t h, w, pad_h, pad_w; /* size and padding of the picture that is read in squares of 6 x 6 */
    int64_t result_h, result_w; /* size of the picture in squares of 4 x 4: the result, or for dw dy */
    int64_t rows, cols;         /* rows and columns of squares in a picture */
    bool kept;             /* the points of all squares are kept, and blocks are smaller than the kernel */
    int64_t at_once, lots; /* rows of squares of a lot */
    int64_t block;         /* panels of a block */
    /* lines: f32 of the copied lines. ld, result_ld: of a square's channels in `points` (dw: of a panel's)
     * and in `results`. */
    int64_t lines, ld, result_ld;
    int64_t point, result_point; /* distance from point to point in these */
    int64_t kernel_point, own;   /* distance from point to point in the kernel; f32 of a worker's scratch */
    int64_t first, last;         /* dw: the rows of squares at hand, [first, last) */
    int64_t begin, end;          /* the panels at hand, [begin, end) */
    /* y, dx: the kernel, [point][panel][source channel][nr]; dw: sums, [point][panel][target channel][nr] */
    float *kernel;
    float *scratch; /* of each worker: lines; y, dx: then results, then points unless they are kept */
    float *shared;  /* dw: points, results; y, dx: the points that are kept, lot by lot */
} winograd;

bool LS_NAME(ls_conv_is_winograd)(const conv *c)
{
    const ls_conv_attrs *at = &c->s.at;
    return c->s.kh == 3 && c->s.kw == 3 && at->stride_h == 1 && at->stride_w == 1 && at->dilation_h == 1 &&
           at->dilation_w == 1 && c->s.oh >= SMALLEST && c->s.ow >= SMALLEST &&
           min_i64(c->source_channels, c->target_channels) >= LEAST_CHANNELS;
}

static int64_t off_set(int64_t channels) { return channels % 64 ? channels : channels + OFF_SET; }

static winograd plan_of(const conv *c)
{
    const ls_conv *s = &c->s;
    const bool dx = c->kind == LS_CONV_DX, dw = c->kind == LS_CONV_DW;
    winograd g = { .c = c,
                   .h = dx ? s->oh : s->h,
                   .w = dx ? s->ow : s->w,
                   .result_h = dx ? s->h : s->oh,
                   .result_w = dx ? s->w : s->ow,
                   .pad_h = dx ? 2 - s->at.pad_h : s->at.pad_h,
                   .pad_w = dx ? 2 - s->at.pad_w : s->at.pad_w };
    g.rows = (g.result_h + SIDE - 1) / SIDE;
    g.cols = (g.result_w + SIDE - 1) / SIDE;
    const int64_t rows = s->n * g.rows, width = c->panels * c->nr, sources = round_up(c->source_channels, 16),
                  depth = dw ? c->target_channels : c->source_channels,
                  points = rows * g.cols * (dw ? 2 * (sources + depth) : sources);
    g.kept = width * depth * POINTS > BLOCK && points <= width * depth; /* dw: twice as many would not pay */
    g.block = g.kept ? min_i64(1 + BLOCK / (POINTS * c->nr * depth), c->panels) : c->panels;
    g.at_once = dw && g.kept ? rows
                             : min_i64((SQUARES + g.cols - 1) / g.cols,
                                       (rows + (dw ? 0 : c->threads - 1)) / (dw ? 1 : c->threads));
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
    const winograd g = plan_of(c);
    const int64_t shared = c->kind == LS_CONV_DW ? g.point + g.result_point : g.kept ? g.lots * g.point : 0;
    return sizeof(float) * (size_t)(POINTS * (g.kernel_point + shared) + c->threads * g.own);
}

/* ---- sums of squares */

/* The matrices B^T, G and A; and A^T and G^T, which lead back from points. */
typedef enum square { SOURCE, KERNEL, GRADIENT, RESULT, KERNEL_GRADIENT } square;
#define SIDE_OF(what) ((what) == KERNEL ? 3 : (what) == GRADIENT ? SIDE : SIDE_SEEN)
#define SIDE_AFTER(what) ((what) == RESULT ? SIDE : (what) == KERNEL_GRADIENT ? 3 : SIDE_SEEN)

SIMD_FN vf times(float k, vf a, vf b) { return vf_fma(vf_set1(k), a, b); } /* k * a + b */

/* Multiplies a line by the matrix. Polynomials are multiplied at the points 0, P, -P, 2 P, -2 P and infinity
 * with P = sqrt(1/2), whose powers are closer to 1 than those of other points, so that less is rounded away
 * (Barabasz, Anderson, Soodhalter, Gregg 2020, "Error Analysis and Improving the Accuracy of Winograd
 * Convolution for Deep Neural Networks"). */
SIMD_FN void sums_of_line(square what, const vf *x, int step, vf *to, int to_step)
{
    const float P = 0.70710678f;
    vf in[SIDE_SEEN], y[SIDE_SEEN];
#pragma GCC unroll 6
    for (int i = 0; i < SIDE_SEEN; i++)
        in[i] = i < SIDE_OF(what) ? x[i * step] : vf_zero();
    const vf a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5];
    if (what == SOURCE) {
        const vf even = times(-2, c, e), odd = times(-2, b, d), even2 = times(-0.5f, c, e),
                 odd2 = times(-0.5f, b, d);
        y[0] = times(-2.5f, c, a + e), y[5] = times(-2.5f, d, b + f);
        y[1] = times(P, odd, even), y[2] = times(-P, odd, even);
        y[3] = times(2 * P, odd2, even2), y[4] = times(-2 * P, odd2, even2);
    } else if (what == KERNEL) {
        const vf even = times(-1 / 3.0f, c, a * vf_set1(-2 / 3.0f)),
                 even2 = times(1 / 3.0f, c, a * vf_set1(1 / 6.0f));
        y[0] = a, y[5] = c;
        y[1] = times(-2 / 3.0f * P, b, even), y[2] = times(2 / 3.0f * P, b, even);
        y[3] = times(P / 3, b, even2), y[4] = times(-P / 3, b, even2);
    } else if (what == GRADIENT) {
        const vf even = times(0.5f, c, a), odd = times(0.5f, d, b), even2 = times(2, c, a),
                 odd2 = times(2, d, b);
        y[0] = a, y[5] = d;
        y[1] = times(P, odd, even), y[2] = times(-P, odd, even);
        y[3] = times(2 * P, odd2, even2), y[4] = times(-2 * P, odd2, even2);
    } else {
        const vf even = b + c, odd = b - c, even2 = d + e, odd2 = d - e;
        if (what == RESULT) {
            y[0] = a + even + even2, y[1] = times(2, odd2, odd) * vf_set1(P);
            y[2] = times(2, even2, even * vf_set1(0.5f));
            y[3] = times(P, times(4, odd2, odd * vf_set1(0.5f)), f);
        } else {
            y[0] = times(1 / 6.0f, even2, times(-2 / 3.0f, even, a));
            y[1] = times(-2, odd, odd2) * vf_set1(P / 3);
            y[2] = times(1 / 3.0f, even2 - even, f);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < SIDE_SEEN; i++)
        if (i < SIDE_AFTER(what))
            to[i * to_step] = y[i];
}

SIMD_FN void sums_of_square(square what, const vf *x, vf *to)
{
    const int n = SIDE_OF(what), m = SIDE_AFTER(what);
    vf half[POINTS];
#pragma GCC unroll 6
    for (int j = 0; j < SIDE_SEEN; j++)
        if (j < n)
            sums_of_line(what, x + j, n, half + j, n);
#pragma GCC unroll 6
    for (int i = 0; i < SIDE_SEEN; i++)
        if (i < m)
            sums_of_line(what, half + i * n, 1, to + i * m, 1);
}

SIMD_FN void store_points(float *to, int64_t step, const vf *points)
{
#pragma GCC unroll 36
    for (int i = 0; i < POINTS; i++)
        vf_store(to + i * step, points[i]);
}
SIMD_FN void load_points(vf *points, const float *from, int64_t step)
{
#pragma GCC unroll 36
    for (int i = 0; i < POINTS; i++)
        points[i] = vf_load(from + i * step);
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

/* dw: a task is an output channel. */
SIMD_FN void unpack_sums(ls_dtype T, const winograd *g, int64_t begin, int64_t end)
{
    const conv *c = g->c;
    for (int64_t panel = g->begin; panel < g->end; panel++)
        for (int64_t half = 2 * begin; half < 2 * end; half++) {
            const int64_t o = half / 2, k = panel * c->nr + half % 2 * VF_LANES,
                          at = ((c->group * c->target_channels + o) * c->source_channels + k) * TAPS;
            const int n = k < c->source_channels ? lanes_left(c->source_channels - k) : 0;
            vf points[POINTS], w[TAPS + VF_LANES] = { { 0 } };
            load_points(points, g->kernel + ((panel - g->begin) * c->target_channels + o) * c->nr + k % c->nr,
                        g->kernel_point);
            sums_of_square(KERNEL_GRADIENT, points, w);
            for (int i = 0; i < TAPS; i += VF_LANES)
                transpose(w + i);
            /* (in ascending order, so the next element overwrites what a whole vector has too much) */
            for (int j = 0; j < n; j++)
                for (int i = 0; i < TAPS; i += VF_LANES)
                    if (j * TAPS + i + VF_LANES <= n * TAPS)
                        vf_put(c->a->out[0].data, T, at + j * TAPS + i, w[i + j]);
                    else
                        vf_put_n(c->a->out[0].data, T, at + j * TAPS + i, w[i + j], lanes_left(TAPS - i));
        }
}

/* ---- pictures */

/* Copies n channels of an image, from line `top` and column `left` on, with zeros outside of it:
 * [line][pitch][VF_LANES]. */
SIMD_FN void copy_lines(ls_dtype T, float *to, const ls_tensor *t, int64_t image, int64_t channel, int n,
                        int64_t top, int64_t lines, int64_t left, int64_t pitch)
{
    const int64_t h = t->type.dims[2], w = t->type.dims[3], first = left < 0 ? min_i64(-left, pitch) : 0,
                  end = min_i64(pitch, w - left);
    for (int64_t line = top; line < top + lines; line++, to += pitch * VF_LANES) {
        const bool is = line >= 0 && line < h && first < end;
        for (int64_t p = 0; p < (is ? first : pitch); p++)
            vf_store(to + p * VF_LANES, vf_zero());
        if (!is)
            continue;
        channels_in(T, to + first * VF_LANES, VF_LANES, t->data,
                    ((image * t->type.dims[1] + channel) * h + line) * w + left + first, h * w, n,
                    end - first, NULL);
        for (int64_t p = end; p < pitch; p++)
            vf_store(to + p * VF_LANES, vf_zero());
    }
}

/* How many rows of squares, from `row` on, belong to one image and are below `last`. Rows are counted over
 * all images. */
typedef struct run {
    int64_t image, row, n;
} run;
SIMD_FN run run_at(const winograd *g, int64_t at, int64_t last)
{
    return (run){ at / g->rows, at % g->rows, min_i64(last - at, g->rows - at % g->rows) };
}

/* Writes the points of rows [first, last) of squares, for VF_LANES channels of a picture (GRADIENT: of dy),
 * as [square][ld]. */
SIMD_FN void take_squares(square what, ls_dtype T, const winograd *g, float *lines, float *to,
                          const ls_tensor *t, int64_t first, int64_t last, int64_t channel, int n)
{
    const bool source = what == SOURCE;
    const int64_t side = SIDE_OF(what), more = side - SIDE, pitch = SIDE * g->cols + more;
    const int64_t point = source ? g->point : g->result_point, ld = source ? g->ld : g->result_ld;
    for (run r; first < last; first += r.n) {
        r = run_at(g, first, last);
        copy_lines(T, lines, t, r.image, channel, n, SIDE * r.row - (source ? g->pad_h : 0),
                   SIDE * r.n + more, source ? -g->pad_w : 0, pitch);
        for (int64_t i = 0; i < r.n * g->cols; i++, to += ld) {
            const float *at = lines + SIDE * (i / g->cols * pitch + i % g->cols) * VF_LANES;
            vf x[POINTS], points[POINTS];
#pragma GCC unroll 36
            for (int k = 0; k < POINTS; k++)
                if (k < side * side)
                    x[k] = vf_load(at + (k / side * pitch + k % side) * VF_LANES);
            sums_of_square(what, x, points);
            store_points(to, point, points);
        }
    }
}

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

/* ---- y and dx */

SIMD_FN void multiply(const winograd *g, const float *points, float *results, int64_t squares)
{
    const conv *c = g->c;
    const conv_segment whole = { 0, 0 };
    const int64_t tiles = (squares + c->mr - 1) / c->mr, depth = c->source_channels;
    const int64_t panels = g->end - g->begin;
    for (int64_t task = 0; task < POINTS * panels; task++) {
        const int64_t i = task / panels, panel = task % panels; /* of the block */
        const conv_tile *tile = LS_NAME(
            ls_conv_tiles)[c->target_channels - (g->begin + panel) * c->nr > VF_LANES];
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

SIMD_FN void squares_tasks(ls_dtype T, const winograd *g, int64_t begin, int64_t end, int worker)
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

/* ---- dw */

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
        const int64_t i = task / panels, block = task % panels, panel = g->begin + block;
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
                                 g->kernel + i * g->kernel_point + (block * c->target_channels + row) * c->nr,
                                 c->nr, g->first + k > 0);
            }
        }
    }
}

#define TASK(name, body, ...)                                                 \
    static void name(void *context, int64_t begin, int64_t end, int worker)   \
    {                                                                         \
        const winograd *g = context;                                          \
        (void)worker;                                                         \
        BY_FLOAT(g->c->a->in[0].type.dtype, body, g, begin, end __VA_ARGS__); \
    }
TASK(pack_y, pack_results, )
TASK(pack_dx, pack_sources, )
TASK(unpack_dw, unpack_sums, )
TASK(squares_task, squares_tasks, , worker)
TASK(take_task, take_channels, , worker)

void LS_NAME(ls_conv_winograd)(conv *c)
{
    winograd g = plan_of(c);
    const int64_t from = (c->source_channels + VF_LANES - 1) / VF_LANES,
                  to = (c->target_channels + VF_LANES - 1) / VF_LANES;
    const int64_t rows = c->s.n * g.rows;
    g.kernel = c->a->workspace;
    g.scratch = g.kernel + POINTS * g.kernel_point;
    g.shared = g.scratch + c->threads * g.own;
    for (c->group = 0; c->group < c->s.at.groups; c->group++)
        for (g.first = 0; g.first < rows; g.first = g.last) {
            g.last = c->kind == LS_CONV_DW ? min_i64(rows, g.first + g.at_once) : rows;
            if (c->kind == LS_CONV_DW)
                ls_parallel_for(c->threads, from + to, take_task, &g);
            for (g.begin = 0; g.begin < c->panels; g.begin = g.end) {
                g.end = min_i64(c->panels, g.begin + g.block);
                if (c->kind == LS_CONV_Y)
                    ls_parallel_for(c->threads, g.end - g.begin, pack_y, &g);
                else if (c->kind == LS_CONV_DX)
                    ls_parallel_for(c->threads, c->source_channels, pack_dx, &g);
                if (c->kind != LS_CONV_DW)
                    ls_parallel_for(c->threads, g.lots, squares_task, &g);
                else
                    ls_parallel_for(c->threads, POINTS * (g.end - g.begin), add_products, &g);
                if (c->kind == LS_CONV_DW && g.last == rows)
                    ls_parallel_for(c->threads, c->target_channels, unpack_dw, &g);
            }
        }
}
