/* matmul.cu - products of plain matrices: linear, its two gradients, batch_matmul. product.h says how, and
 * what the host defines; WHOLE: rows of both sides can be fetched in 16 bytes; PARTS: depth is cut. */
#define LEFT_ASYNC WHOLE
#define RIGHT_ASYNC WHOLE
#define STORES_PRE 1
#include "matmul_finish.h"

typedef struct product_context {
    const matmul_args *a;
    matrix left, right;
    i64 batch, part;
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
    const matmul_args *a = c->a;
    if (m >= a->m || n >= a->n)
        return;
#if PARTS
    const i64 left = a->n - n;
    float *to = AT(float, a->y) + (c->part * a->m + m) * a->n + n;
    if (left >= 8 && a->n % 4 == 0)
        floats_store(to, sums);
    else
        for (int i = 0; i < 8; i++)
            if (i < left)
                to[i] = sums[i];
#else
    finish_8(a, c->batch, m, n, sums);
#endif
}

#include "product.h"

KERNEL_SHARED(matmul, matmul_args, PRODUCT_THREADS, product_shared)
{
    const i64 tiles = a.tiles_m * a.tiles_n, outer = BLOCK / tiles;
    product_context c;
    c.a = &a;
    c.batch = outer / a.parts;
    c.part = outer % a.parts;
    i64 m, n;
    product_tile(BLOCK % tiles, a.tiles_m, a.tiles_n, &m, &n);
    const i64 k0 = c.part * a.part, k1 = k0 + a.part < a.k ? k0 + a.part : a.k;
    c.left.p = AT(const ELEMENT, a.left) + c.batch * a.step_left;
    c.left.ld = a.ld_left;
    c.left.outer = a.m;
    c.left.depth = a.k;
    c.right.p = AT(const ELEMENT, a.right) + c.batch * a.step_right;
    c.right.ld = a.ld_right;
    c.right.outer = a.n;
    c.right.depth = a.k;
    product(&c, s, m * TILE_M, n * TILE_N, k0, k1);
}
