/* cublaslt_product.c - the kernel of the shim's libcublasLt.so.13: a thread has an element of D. */
#include "cublaslt.h"
#include "device/gpu/kernels/dialect.h"

static float load(int type, u64 p, i64 i)
{
    return type == SHIM_F32   ? LOAD(f32, AT(const f32, p), i)
           : type == SHIM_F16 ? LOAD(f16, AT(const f16, p), i)
                              : LOAD(bf16, AT(const bf16, p), i);
}

static void store(int type, u64 p, i64 i, float x)
{
    if (type == SHIM_F32)
        STORE(f32, AT(f32, p), i, x);
    else if (type == SHIM_F16)
        STORE(f16, AT(f16, p), i, x);
    else
        STORE(bf16, AT(bf16, p), i, x);
}

/* of element (i, j) of matrix `which`, over a part of depth */
static float part_of(const shim_product_args *a, i64 which, i64 i, i64 j, i64 part)
{
    const i64 each = (a->k + a->parts - 1) / a->parts, end = (part + 1) * each;
    float sum = 0;
    for (i64 k = part * each; k < end && k < a->k; k++)
        sum = fma_(load(a->type, a->a, which * a->step_a + (a->trans_a ? i * a->lda + k : k * a->lda + i)),
                   load(a->type, a->b, which * a->step_b + (a->trans_b ? k * a->ldb + j : j * a->ldb + k)),
                   sum);
    return sum;
}

static float sum_of(const shim_product_args *a, i64 element, i64 which, i64 i, i64 j)
{
    if (a->parts == 1)
        return part_of(a, which, i, j, 0);
    float *parts = AT(float, a->workspace) + element;
    const i64 step = a->m * a->n * a->batch;
    for (i64 p = 0; p < a->parts; p++)
        parts[p * step] = part_of(a, which, i, j, p);
    float sum = parts[a->from * step];
    for (i64 p = 1; p < a->parts; p++)
        sum = sum + parts[(a->from + p) % a->parts * step];
    return sum;
}

KERNEL(shim_product, shim_product_args, SHIM_PRODUCT_THREADS)
{
    const i64 element = BLOCK * SHIM_PRODUCT_THREADS + THREAD, which = element / (a.m * a.n),
              i = element % a.m, j = element / a.m % a.n;
    if (which >= a.batch)
        return;
    float v = a.alpha * sum_of(&a, element, which, i, j);
    if (a.beta != 0)
        v = v + a.beta * load(a.type, a.c, which * a.step_c + j * a.ldc + i);
    if (a.bias)
        v = v + load(a.type, a.bias, i);
    store(a.type, a.d, which * a.step_d + j * a.ldd + i, v);
}
