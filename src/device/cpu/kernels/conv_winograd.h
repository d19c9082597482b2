/* conv_winograd.h - convolutions with 3 x 3 kernels and stride 1, with 36 multiplications instead of 144:
 * Winograd's F(4 x 4, 3 x 3). docs/numerics.md has its rounding errors beside those of plain sums. What
 * conv_winograd.c (y, dx) and conv_winograd_dw.c share.
 *
 * A square of 4 x 4 results sees 6 x 6 elements of the source. Sums of these elements (B), times sums of the
 * kernel's elements (G), are 36 points. The results are sums of the points (A). Channels are added point by
 * point, so each point is a matrix product:
 *
 *     y, dx:  y = A^T (G w G^T . B^T x B) A      [squares, channels] * [channels, results]
 *             dx: the source is dy, and the kernel is rotated by half a turn
 *     dw:     dw = G^T (A dy A^T . B^T x B) G    [results, squares] * [squares, channels]
 *
 * A kernel's points can take many megabytes. What is written should be read again while it is in the caches.
 * Therefore, if the kernel has more than BLOCK points and the pictures have fewer (dw: less than half as
 * many), the pictures' points are all computed first, and then the kernel is processed in blocks of panels.
 * Otherwise the kernel is one block, and the pictures are processed in lots, which are rows of squares.
 * Chains are added in ascending order. */
#pragma once
#include "conv.h"
#include "conv_move.h"

enum {
    SIDE = 4,      /* of a square of results */
    SIDE_SEEN = 6, /* of the elements that it sees, and of its points */
    POINTS = SIDE_SEEN * SIDE_SEEN,
    TAPS = 9,
    SQUARES = 32,        /* of a lot, about: their points and results share L2 with the kernel of a point */
    CHAIN = 64,          /* longer chains are hardly faster, and less exact */
    BLOCK = 1 << 19,     /* f32 of a block of the kernel's points */
    SMALLEST = 7,        /* height and width of a result, and */
    LEAST_CHANNELS = 16, /* for which it pays */
    /* f32 added to the distance between points, and between rows, to keep them off the same cache sets */
    OFF_SET = 16,
};

typedef struct winograd {
    const conv *c;
    int64_t pad_h, pad_w;       /* padding of the picture that is read in squares of 6 x 6 */
    int64_t result_h, result_w; /* size of the picture in squares of 4 x 4: the result, or for dw dy */
    int64_t rows, cols;         /* rows and columns of squares in a picture */
    bool kept;             /* the points of all squares are kept, and blocks are smaller than the kernel */
    int64_t at_once, lots; /* rows of squares in a lot; number of lots */
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

winograd LS_NAME(ls_winograd_begin)(const conv *c); /* conv_winograd.c: with its parts of the workspace */

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
