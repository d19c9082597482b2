/* conv_dw.cu - the gradient of convolution for the kernel, as a product of matrices that gathers, over the
 * positions of the results of some images: a part, which conv_sum adds to the others. The left matrix is dy;
 * a column of the right one is a kernel element of a channel, of which depth reads what it met. The host
 * defines ELEMENT and what product.h wants, and WHOLE: 1 if CHUNK elements of dy beside each other are
 * aligned. */
#include "conv_chunk.h"
#include "place.h"
#include "conv.h"

#define LEFT_ALONG_K 1
#define RIGHT_ALONG_K 1
#define LEFT_ASYNC WHOLE
#define RIGHT_ASYNC 0

typedef struct product_context {
    const conv_dw_args *a;
    i64 group, part, end; /* end: of depth */
} product_context;

typedef struct left_place {
    const ELEMENT *p; /* of image 0; NULL: outside */
} left_place;
DEVICE left_place left_at(const product_context *c, i64 m)
{
    const conv_sizes *s = &c->a->c;
    left_place p;
    p.p = m < s->og ? AT(const ELEMENT, c->a->dy) + (c->group * s->og + m) * s->oh * s->ow : 0;
    return p;
}
DEVICE void left_fetch(const product_context *c, const left_place *p, i64 k, chunk *to)
{
    const conv_sizes *s = &c->a->c;
    const i64 plane = s->oh * s->ow, other = (s->o - 1) * plane; /* of other channels between images */
    i64 image = quotient(k, plane);
    if (!p->p || k >= c->end) {
        chunk_zero(to);
        return;
    }
#if WHOLE
    COPY_16(to, p->p + image * other + k);
#else
    const int per = CHUNK / 4;
    i64 left = (image + 1) * plane - k; /* of this image */
    for (int i = 0; i < 4; i++) {
        u32 v = 0;
        for (int j = 0; j < per; j++) {
            const i64 at = k + i * per + j;
            if (at < c->end)
                v |= bits_at(p->p + image * other + at) << 16 * j;
            if (--left == 0) {
                left = plane;
                image++;
            }
        }
        to->v[i] = v;
    }
#endif
}

typedef struct right_place {
    i64 element; /* of image 0; that result (0, 0) meets */
    i64 row, column;
    int inside;
} right_place;
DEVICE right_place right_at(const product_context *c, i64 n)
{
    const conv_sizes *s = &c->a->c;
    const place w = place_of(n, s->kh, s->kw);
    right_place p;
    p.inside = w.plane < s->cg;
    p.row = w.row * s->dilation_h - s->pad_h;
    p.column = w.column * s->dilation_w - s->pad_w;
    p.element = ((c->group * s->cg + w.plane) * s->h + p.row) * s->w + p.column;
    return p;
}
DEVICE void right_fetch(const product_context *c, const right_place *p, i64 k, chunk *to)
{
    const conv_sizes *s = &c->a->c;
    const int per = CHUNK / 4;
    const ELEMENT *x = AT(const ELEMENT, c->a->x) + p->element;
    place at = place_of(k, s->oh, s->ow);
    for (int i = 0; i < 4; i++) {
        u32 v = 0;
        for (int j = 0; j < per; j++) {
            const i64 down = at.row * s->stride_h, right = at.column * s->stride_w, row = p->row + down,
                      column = p->column + right;
            if (p->inside && k + i * per + j < c->end && row >= 0 && row < s->h && column >= 0 &&
                column < s->w)
                v |= bits_at(x + (at.plane * s->c * s->h + down) * s->w + right) << 16 * j;
            if (++at.column == s->ow) {
                at.column = 0;
                if (++at.row == s->oh) {
                    at.row = 0;
                    at.plane++;
                }
            }
        }
        to->v[i] = v;
    }
}

DEVICE void finish(const product_context *c, i64 m, i64 n, const float *v)
{
    const conv_sizes *s = &c->a->c;
    const i64 columns = s->cg * s->kh * s->kw;
    f32 *to = AT(f32, c->a->parts) + (c->part * s->o + c->group * s->og + m) * columns;
    for (int e = 0; m < s->og && e < 8 && n + e < columns; e++)
        to[n + e] = v[e];
}

#include "product.h"

KERNEL_SHARED(conv_dw, conv_dw_args, PRODUCT_THREADS, product_shared)
{
    const conv_sizes *z = &a.c;
    const i64 tiles_m = (z->og + TILE_M - 1) / TILE_M,
              tiles_n = (z->cg * z->kh * z->kw + TILE_N - 1) / TILE_N, tiles = tiles_m * tiles_n;
    const i64 matrix = BLOCK / tiles, tile = BLOCK - matrix * tiles, plane = z->oh * z->ow;
    product_context c;
    c.a = &a;
    c.part = matrix / z->groups;
    c.group = matrix % z->groups;
    const i64 first = c.part * a.part_images, last = smaller(first + a.part_images, z->n);
    c.end = last * plane;
    product(&c, s, tile % tiles_m * TILE_M, tile / tiles_m * TILE_N, first * plane, c.end);
}
