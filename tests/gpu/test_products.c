/* test_products.c - every tile of products for GPUs, in every form, with and without rows that can be fetched
 * in 16 bytes: right sums, and the same bits from all tiles of a way. The rows of linear and the others
 * choose large tiles for large products only, which test_ops does not have. With LOCKSTEP_KERNEL_DUMP all
 * texts of matmul.cu are written. LS_TEST_SEED: other numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/gpu/tiles.h"
#include "device/ref/ref.h"
#include "support/support.h"

/* Numbers that all types have, with sums that f32 has, so every result is known; or of many digits. */
typedef enum digits { FEW, MANY } digits;

typedef struct problem {
    ls_gpu_way way;
    ls_dtype type;
    bool left_along_k, right_along_k;
    int64_t m, n, k, parts;
    ls_tensor left, right, y; /* in host memory, contiguous */
    digits digits;
} problem;

static const ls_queue_ops *ops;
static ls_queue *queue;
static ls_device device;
static uint32_t drawn;

static double draw(digits d)
{
    drawn = drawn * 1664525u + 1013904223u;
    return d == FEW ? (double)(drawn >> 16 & 15) / 8 - 1 : (double)(drawn >> 8) / (1 << 23) - 1;
}

static ls_tensor filled(const ls_type *t, digits d)
{
    ls_tensor x = ls_tensor_of(malloc(ls_type_bytes(t) + 1), t);
    for (int64_t i = 0; i < ls_type_count(t); i++)
        ls_ref_put(&x, i, draw(d));
    return x;
}

static double at_of(const ls_tensor *t, bool along_k, int64_t outer, int64_t k)
{
    return ls_ref_get(t, along_k ? outer * t->type.dims[1] + k : k * t->type.dims[1] + outer);
}

static problem problem_of(ls_gpu_way way, ls_dtype type, int form, int64_t m, int64_t n, int64_t k,
                          int64_t parts, digits d)
{
    problem p = { way, type, form < 2, form < 1, m, n, k, parts, .digits = d };
    const ls_type left = p.left_along_k ? LS_TYPE(type, m, k) : LS_TYPE(type, k, m),
                  right = p.right_along_k ? LS_TYPE(type, n, k) : LS_TYPE(type, k, n);
    p.left = filled(&left, d);
    p.right = filled(&right, d);
    const ls_type y = parts > 1 ? LS_TYPE(LS_F32, parts, m, n) : LS_TYPE(type, m, n);
    p.y = ls_tensor_of(calloc(ls_type_bytes(&y) + 1, 1), &y);
    return p;
}

static void *on_device(const ls_tensor *t)
{
    void *room;
    ASSERT_OK(ops->room(&room, &device, ls_type_bytes(&t->type) + 1));
    ops->copy(queue, room, t->data, ls_type_bytes(&t->type));
    return room;
}

/* Makes the product with this tile. The result stays in p->y. */
static void make(const problem *p, const ls_gpu_tile *t)
{
    void *left = on_device(&p->left), *right = on_device(&p->right), *y = on_device(&p->y);
    const int64_t part = (p->k / p->parts + 127) / 128 * 128;
    ls_gpu_product g = { queue,
                         device.arch,
                         p->type,
                         p->way,
                         p->left_along_k,
                         p->right_along_k,
                         1,
                         { .left = ls_gpu_at(left),
                           .right = ls_gpu_at(right),
                           .y = ls_gpu_at(y),
                           .m = p->m,
                           .n = p->n,
                           .k = p->k,
                           .ld_left = p->left.type.dims[1],
                           .ld_right = p->right.type.dims[1],
                           .ld_y = p->n,
                           .part = p->parts > 1 ? part : p->k,
                           .parts = p->parts } };
    ls_gpu_product_run(&g, t);
    ops->copy(queue, p->y.data, y, ls_type_bytes(&p->y.type));
    ASSERT_OK(ops->wait(queue, NULL));
    ops->release(left, ls_type_bytes(&p->left.type) + 1);
    ops->release(right, ls_type_bytes(&p->right.type) + 1);
    ops->release(y, ls_type_bytes(&p->y.type) + 1);
}

static void assert_right(const problem *p, const ls_gpu_tile *t)
{
    const int64_t part = p->parts > 1 ? (p->k / p->parts + 127) / 128 * 128 : p->k;
    const ls_dtype stored = p->y.type.dtype;
    for (int64_t i = 0; i < p->parts * p->m * p->n; i++) {
        const int64_t row = i / p->n % p->m, column = i % p->n, k0 = i / p->n / p->m * part;
        double sum = 0;
        for (int64_t k = k0; k < k0 + part && k < p->k; k++)
            sum += at_of(&p->left, p->left_along_k, row, k) * at_of(&p->right, p->right_along_k, column, k);
        if (ls_ref_get(&p->y, i) != ls_ref_round(sum, stored))
            fail_msg(
                "%s, way %d, tile %d x %d x %d, sides along depth %d %d, %lld x %lld x %lld: result %lld "
                "is %g, not %g",
                ls_dtype_name(p->type), p->way, t->m, t->n, t->k, p->left_along_k, p->right_along_k,
                (long long)p->m, (long long)p->n, (long long)p->k, (long long)i, ls_ref_get(&p->y, i),
                ls_ref_round(sum, stored));
    }
}

/* With few digits results are compared with the exact ones, with many those of all tiles with each other. */
static void every_tile(problem p)
{
    const ls_gpu_product shape = {
        .type = p.type, .way = p.way, .left_along_k = p.left_along_k, .arch = device.arch
    };
    const size_t bytes = ls_type_bytes(&p.y.type);
    void *first = NULL;
    const bool whole = p.m % 8 == 0 && p.n % 8 == 0 && p.k % 8 == 0;
    for (const ls_gpu_tile *t = ls_gpu_tiles[p.way]; t->m; t++) {
        if (!ls_gpu_tile_fits(t, &shape, whole))
            continue;
        make(&p, t);
        if (p.digits == FEW)
            assert_right(&p, t);
        if (!first) {
            first = malloc(bytes + 1);
            memcpy(first, p.y.data, bytes);
        } else if (memcmp(first, p.y.data, bytes)) {
            fail_msg("%s, way %d: tile %d x %d x %d gives other bits than the largest one",
                     ls_dtype_name(p.type), p.way, t->m, t->n, t->k);
        }
    }
    free(first);
    free(p.left.data);
    free(p.right.data);
    free(p.y.data);
}

static void tiles_agree(void **state)
{
    static const struct {
        ls_gpu_way way;
        ls_dtype type;
    } WAYS[] = {
        { LS_GPU_MMA, LS_BF16 }, { LS_GPU_MMA, LS_F16 }, { LS_GPU_TF32, LS_F32 }, { LS_GPU_FMA, LS_F32 }
    };
    (void)state;
    for (int w = 0; w < 4; w++)
        for (int form = 0; form < 3; form++)
            for (digits d = FEW; d <= MANY; d++) {
                const ls_gpu_way way = WAYS[w].way;
                const ls_dtype t = WAYS[w].type;
                every_tile(problem_of(way, t, form, 24, 40, 712, 1, d)); /* every stage is used twice */
                every_tile(problem_of(way, t, form, 17, 65, 139, 1, d));
                if (d == FEW) {
                    every_tile(problem_of(way, t, form, 136, 264, 40, 1, d)); /* more tiles than one */
                    every_tile(problem_of(way, t, form, 1, 1, 1, 1, d));
                    every_tile(problem_of(way, t, form, 3, 5, 0, 1, d));
                }
                if (form == 2) {
                    every_tile(problem_of(way, t, form, 72, 24, 520, 3, d));
                    every_tile(problem_of(way, t, form, 5, 3, 257, 2, d));
                }
            }
}

/* The row of `kernels: tf32`: products within 1e-3 of the largest one, and other types by the other rows. */
static void tf32_is_near(void **state)
{
    const ls_kernel *row = &ls_gpu_products_tf32[0];
    problem p = problem_of(LS_GPU_TF32, LS_F32, 0, 33, 70, 300, 1, MANY);
    void *left = on_device(&p.left), *right = on_device(&p.right), *y = on_device(&p.y);
    ls_tensor in[] = { p.left, p.right }, out = p.y;
    double worst = 0, largest = 0;
    (void)state;
    in[0].data = left, in[1].data = right, out.data = y;
    ls_kernel_args a = { .n_in = 2,
                         .n_out = 1,
                         .in = in,
                         .out = &out,
                         .attrs = &(ls_linear_attrs){ 0 },
                         .threads = 1,
                         .arch = device.arch,
                         .queue = queue };
    assert_string_equal(row->op, "linear");
    assert_null(row->supports(&a));
    row->run(&a);
    ops->copy(queue, p.y.data, y, ls_type_bytes(&p.y.type));
    ASSERT_OK(ops->wait(queue, NULL));
    for (int64_t i = 0; i < p.m * p.n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < p.k; k++)
            sum += at_of(&p.left, true, i / p.n, k) * at_of(&p.right, true, i % p.n, k);
        worst = fmax(worst, fabs(sum - ls_ref_get(&p.y, i)));
        largest = fmax(largest, fabs(sum));
    }
    print_message("tf32: largest error %.2g of %.2g\n", worst, largest);
    assert_true(worst < 1e-3 * largest && worst > 1e-6 * largest);
    in[0].type.dtype = LS_BF16;
    assert_non_null(row->supports(&a));
    ops->release(left, ls_type_bytes(&p.left.type) + 1);
    ops->release(right, ls_type_bytes(&p.right.type) + 1);
    ops->release(y, ls_type_bytes(&p.y.type) + 1);
    free(p.left.data);
    free(p.right.data);
    free(p.y.data);
}

static int open_device(void **state)
{
    const char *seed = getenv("LS_TEST_SEED");
    (void)state;
    drawn = seed ? (uint32_t)atoi(seed) : 1;
    ASSERT_OK(ls_device_open(&device, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    ops = device.ops->queue;
    ASSERT_OK(ops->open(&queue, &device));
    return 0;
}
static int close_device(void **state)
{
    (void)state;
    if (queue)
        ops->close(&queue);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tiles_agree), cmocka_unit_test(tf32_is_near) };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
