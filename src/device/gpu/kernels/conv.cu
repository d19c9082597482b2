/* conv.cu - convolution, and its gradient for the picture, as a product of matrices that gathers: the left
 * matrix is what conv_pack.cu made of the kernel; the right one has a column for each position of the result,
 * and is never stored: a line of it is read through the place that conv_pack.cu wrote for it. The host
 * defines ELEMENT and what product.h wants, and WHOLE: 1 if 8 results beside each other are 16-byte aligned.
 */
#include "conv_chunk.h"
#include "place.h"
#include "conv_phase.h"

#define LEFT_ALONG_K 0
#define RIGHT_ALONG_K 0
#define LEFT_ASYNC 1
#define RIGHT_ASYNC 0

typedef struct product_context {
    const conv_args *a;
    i64 phase, group;
    i64 source_h, source_w, source_image; /* source_image: elements of an image */
    i64 step_h, step_w, first_h, first_w; /* line of the source that position 0 meets, and the step */
    const ELEMENT *source, *packed;       /* of the group */
    const conv_tap *taps;
} product_context;

typedef struct left_place {
    const ELEMENT *p;
} left_place;
DEVICE left_place left_at(const product_context *c, i64 m)
{
    left_place p;
    p.p = c->packed + m;
    return p;
}
DEVICE void left_fetch(const product_context *c, const left_place *p, i64 k, chunk *to)
{
    COPY_16(to, p->p + k * c->a->m_padded);
}

typedef struct right_place {
    i64 element[CHUNK];
    i32 row[CHUNK], column[CHUNK];
} right_place;
DEVICE right_place right_at(const product_context *c, i64 n)
{
    right_place p;
    for (int e = 0; e < CHUNK; e++) {
        const place at = place_of(n + e, c->a->rows, c->a->columns);
        const i64 row = at.row * c->step_h + c->first_h, column = at.column * c->step_w + c->first_w;
        p.row[e] = at.plane < c->a->c.n ? (i32)row : CONV_NOWHERE;
        p.column[e] = (i32)column;
        p.element[e] = at.plane * c->source_image + row * c->source_w + column;
    }
    return p;
}
DEVICE void right_fetch(const product_context *c, const right_place *p, i64 k, chunk *to)
{
    const int per = CHUNK / 4; /* elements of a u32 */
    const conv_tap tap = c->taps[k];
    const ELEMENT *source = c->source + tap.element;
    for (int i = 0; i < 4; i++) {
        u32 v = 0;
        for (int j = 0; j < per; j++) {
            const int e = i * per + j;
            if ((u32)(p->row[e] + tap.row) < (u32)c->source_h &&
                (u32)(p->column[e] + tap.column) < (u32)c->source_w)
                v |= bits_at(source + p->element[e]) << 16 * j;
        }
        to->v[i] = v;
    }
}

DEVICE void finish(const product_context *c, i64 m, i64 n, const float *v)
{
    const conv_args *a = c->a;
    const conv_sizes *s = &a->c;
    const i64 channels = a->back ? s->cg : s->og, height = a->back ? s->h : s->oh,
              width = a->back ? s->w : s->ow;
    place at = place_of(n, a->rows, a->columns);
    if (m >= channels || at.plane >= s->n)
        return;
    const float bias = a->bias ? LOAD(ELEMENT, AT(const ELEMENT, a->bias), c->group * channels + m) : 0;
    ELEMENT *to = AT(ELEMENT, a->to) + (c->group * channels + m) * height * width;
    const i64 image = channels * s->groups * height * width;
#if WHOLE
    float sums[8];
    for (int e = 0; e < 8; e++)
        sums[e] = v[e] + bias;
    store_8(to + at.plane * image + at.row * width + at.column, sums);
#else
    const i64 step_h = a->back ? s->stride_h : 1, step_w = a->back ? s->stride_w : 1,
              first_h = a->back ? c->phase / a->phases_w : 0, first_w = a->back ? c->phase % a->phases_w : 0;
    for (int e = 0; e < 8 && at.plane < s->n; e++) {
        const i64 row = at.row * step_h + first_h, column = at.column * step_w + first_w;
        if (row < height && column < width)
            STORE(ELEMENT, to, at.plane * image + row * width + column, v[e] + bias);
        if (++at.column == a->columns) {
            at.column = 0;
            if (++at.row == a->rows) {
                at.row = 0;
                at.plane++;
            }
        }
    }
#endif
}

#include "product.h"

KERNEL_SHARED(conv, conv_args, PRODUCT_THREADS, product_shared)
{
    const conv_sizes *s_ = &a.c;
    const i64 tiles_m = a.m_padded / TILE_M, tiles_n = (s_->n * a.rows * a.columns + TILE_N - 1) / TILE_N;
    const i64 matrix = BLOCK / (tiles_m * tiles_n), tile = BLOCK - matrix * tiles_m * tiles_n;
    product_context c;
    c.a = &a;
    c.phase = matrix / s_->groups;
    c.group = matrix % s_->groups;
    const conv_axis rows = conv_rows(&a, c.phase), columns = conv_columns(&a, c.phase);
    const i64 channels = a.back ? s_->og : s_->cg;
    c.source_h = a.back ? s_->oh : s_->h;
    c.source_w = a.back ? s_->ow : s_->w;
    c.source_image = channels * s_->groups * c.source_h * c.source_w;
    c.step_h = a.back ? 1 : s_->stride_h;
    c.step_w = a.back ? 1 : s_->stride_w;
    c.first_h = rows.first;
    c.first_w = columns.first;
    c.source = AT(const ELEMENT, a.source) + c.group * channels * c.source_h * c.source_w;
    c.packed = AT(const ELEMENT, a.packed) + matrix * a.depth * a.m_padded;
    c.taps = AT(const conv_tap, a.taps) + c.phase * a.depth;
    /* tiles that share columns follow each other: the L2 cache has what they gather */
    product(&c, s, tile % tiles_m * TILE_M, tile / tiles_m * TILE_N, 0,
            rows.count * columns.count * channels);
}
