/* matmul.cu - products of plain matrices: linear, its two gradients, batch_matmul. product.h says how, and
 * what the host defines; WHOLE: rows of both sides can be fetched in 16 bytes; PARTS: depth is cut. */
#define LEFT_ASYNC WHOLE
#define RIGHT_ASYNC WHOLE
#include "matmul.h"
#include "matrix.h"
#include "math.h"

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

DEVICE float act_of(int act, float x)
{
    return act == MATMUL_RELU ? relu_(x) : act == MATMUL_GELU ? gelu_(x) : gelu_tanh_(x);
}
/* For relu a selection, because dy may be infinite: 0 * inf is NaN. */
DEVICE float act_grad(int act, float dy, float x)
{
    return act == MATMUL_RELU   ? (x > 0.0f ? dy : 0.0f)
           : act == MATMUL_GELU ? dy * gelu_slope_(x)
                                : dy * gelu_tanh_slope_(x);
}
DEVICE void round_8(float *v)
{
    for (int i = 0; i < 8; i++)
        v[i] = ROUNDED(ELEMENT, v[i]);
}

DEVICE void finish(const product_context *c, i64 m, i64 n, const float *sums)
{
    const matmul_args *a = c->a;
    if (m >= a->m || n >= a->n)
        return;
    const i64 left = a->n - n;
#if PARTS
    float *to = AT(float, a->y) + (c->part * a->m + m) * a->n + n;
    if (left >= 8 && a->n % 4 == 0)
        floats_store(to, sums);
    else
        for (int i = 0; i < 8; i++)
            if (i < left)
                to[i] = sums[i];
#else
    float v[8], other[8];
    for (int i = 0; i < 8; i++)
        v[i] = sums[i];
    if (a->bias) {
        eight_load(AT(const ELEMENT, a->bias) + n, left, (a->whole & MATMUL_BIAS) != 0, other);
        for (int i = 0; i < 8; i++)
            v[i] = v[i] + other[i];
    }
    if (a->slope) {
        eight_load(AT(const ELEMENT, a->slope) + m * a->ld_slope + n, left, (a->whole & MATMUL_PRE) != 0,
                   other);
        round_8(v);
        for (int i = 0; i < 8; i++)
            v[i] = act_grad(a->act, v[i], other[i]);
    }
    if (a->pre) {
        round_8(v);
        eight_store(AT(ELEMENT, a->pre) + m * a->ld_pre + n, left, (a->whole & MATMUL_PRE) != 0, v);
        for (int i = 0; i < 8; i++)
            v[i] = act_of(a->act, v[i]);
    }
    if (a->residual) {
        eight_load(AT(const ELEMENT, a->residual) + m * a->ld_residual + n, left,
                   (a->whole & MATMUL_RESIDUAL) != 0, other);
        round_8(v);
        for (int i = 0; i < 8; i++)
            v[i] = v[i] + other[i];
    }
    eight_store(AT(ELEMENT, a->y) + c->batch * a->step_y + m * a->ld_y + n, left, (a->whole & MATMUL_Y) != 0,
                v);
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
