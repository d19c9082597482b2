/* cublaslt.h - what the two files of the shim's libcublasLt.so.13 share: its kernel (cublaslt_product.c,
 * which is sanitized as all kernels are) and the checks of each call (cublaslt.c, which is not). */
#pragma once
#include <stdint.h>

#include "emulator.h"

enum { SHIM_F32, SHIM_F16, SHIM_BF16 };
/* D = alpha op(A) op(B) + beta C + bias, column-major. Depth is cut into `parts`, whose sums go through
 * `workspace`, [part][element] of f32, if there are several; `from` is the part that is added first. */
typedef struct shim_product_args {
    uint64_t a, b, c, d, bias, workspace;
    long long m, n, k, lda, ldb, ldc, ldd, step_a, step_b, step_c, step_d, batch, parts, from;
    int type, trans_a, trans_b;
    float alpha, beta;
} shim_product_args;
extern const emulated_kernel shim_product_emulated;
enum { SHIM_PRODUCT_THREADS = 64 };
