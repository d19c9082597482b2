/* grouped_linear.cu - products of rows that are sorted by group, each with its group's weight, and the
 * gradient of a weight. How many rows a group has is data, so the launch has as many blocks as any numbers
 * can need, and a block finds its group in the offsets. product.h says how a tile is made, and what the host
 * defines; a row has the bits that it has in `linear`. LEFT_ALONG_K 0: the gradient of a weight. */
#define LEFT_ASYNC WHOLE
#define RIGHT_ASYNC WHOLE
#include "grouped_linear.h"
#include "matrix.h"

typedef struct product_context {
    matrix left, right;
    ELEMENT *y;
    i64 ld_y;
    int whole;
} product_context;
typedef matrix_place left_place;
typedef matrix_place right_place;

DEVICE left_place left_at(const product_context *c, i64 m) { return matrix_at(&c->left, LEFT_ALONG_K, m); }
DEVICE right_place right_at(const product_context *c, i64 n)
{
    return matrix_at(&c->right, RIGHT_ALONG_K, n);
}
DEVICE void left_fetch(const product_context *c, const left_place *p, i64 k, chunk *to)
{
    matrix_fetch(&c->left, LEFT_ALONG_K, WHOLE, p, k, to);
}
DEVICE void right_fetch(const product_context *c, const right_place *p, i64 k, chunk *to)
{
    matrix_fetch(&c->right, RIGHT_ALONG_K, WHOLE, p, k, to);
}
DEVICE void finish(const product_context *c, i64 m, i64 n, const float *sums)
{
    if (m < c->left.outer && n < c->right.outer)
        eight_store(c->y + m * c->ld_y + n, c->right.outer - n, c->whole, sums);
}

#include "product.h"

/* Rows [*begin, *end) of a group, within the rows that there are. */
DEVICE void range_of(const i32 *offsets, i64 group, i64 rows, i64 *begin, i64 *end)
{
    const i64 from = offsets[group] < 0 ? 0 : offsets[group], to = offsets[group + 1];
    *begin = from < rows ? from : rows;
    *end = to < *begin ? *begin : to < rows ? to : rows;
}

DEVICE void side_of(matrix *x, gpu_address p, i64 ld, i64 outer, i64 depth)
{
    x->p = AT(const ELEMENT, p);
    x->ld = ld;
    x->outer = outer;
    x->depth = depth;
}

#if LEFT_ALONG_K
/* Blocks are numbered by row tile; the tiles of a group follow those of the group before. */
KERNEL_SHARED(grouped_rows, grouped_args, PRODUCT_THREADS, product_shared)
{
    product_context c;
    i64 tile = BLOCK / a.tiles_n, begin = 0, end = 0;
    int group = 0;
    for (; group < a.groups; group++) {
        range_of(AT(const i32, a.offsets), a.first + group, a.rows, &begin, &end);
        const i64 tiles = (end - begin + TILE_M - 1) / TILE_M;
        if (tile < tiles)
            break;
        tile -= tiles;
    }
    if (group == a.groups)
        return;
    side_of(&c.left, a.x, a.ld_x, end - begin, a.k);
    side_of(&c.right, a.weights[group], a.ld_weight, a.n, a.k);
    c.left.p += begin * a.ld_x;
    c.y = AT(ELEMENT, a.y) + begin * a.ld_y;
    c.ld_y = a.ld_y;
    c.whole = a.whole;
    product(&c, s, tile * TILE_M, BLOCK % a.tiles_n * TILE_N, 0, a.k);
}

/* A thread has an element. */
KERNEL(grouped_none, grouped_none_args, GROUPED_NONE_THREADS)
{
    i64 begin, end;
    range_of(AT(const i32, a.offsets), a.groups - 1, a.rows, &begin, &end);
    const i64 i = end * a.n + BLOCK * GROUPED_NONE_THREADS + THREAD;
    for (i64 at = i; at < a.rows * a.n; at += BLOCKS * GROUPED_NONE_THREADS)
        STORE(ELEMENT, AT(ELEMENT, a.y) + at / a.n * a.ld_y, at % a.n, nan_());
}
#else
KERNEL_SHARED(grouped_dw, grouped_dw_args, PRODUCT_THREADS, product_shared)
{
    product_context c;
    i64 begin, end, m, n;
    product_tile(BLOCK, a.tiles_m, a.tiles_n, &m, &n);
    range_of(AT(const i32, a.offsets), a.group, a.rows, &begin, &end);
    side_of(&c.left, a.dy, a.ld_dy, a.m, end - begin);
    side_of(&c.right, a.x, a.ld_x, a.n, end - begin);
    c.left.p += begin * a.ld_dy;
    c.right.p += begin * a.ld_x;
    c.y = AT(ELEMENT, a.dw);
    c.ld_y = a.ld_dw;
    c.whole = a.whole;
    product(&c, s, m * TILE_M, n * TILE_N, 0, end - begin);
}
#endif
