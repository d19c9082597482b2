/* onednn.h - one operation of the oneDNN library, its C interface (2.x and 3.x differ) hidden: a matrix
 * product or a convolution. */
#pragma once
#include "device/conv.h"

typedef enum onednn_kind { ONEDNN_PRODUCT, ONEDNN_CONV } onednn_kind;

/* C[m, n] = A[m, k] B[k, n], f32 result; element (i, j) of A lies at i * a_rows + j * a_cols, and so on. C is
 * row-major. */
typedef struct onednn_product {
    int64_t m, n, k, a_rows, a_cols, b_rows, b_cols;
} onednn_product;

/* y, dx or dw of a convolution, all operands of one type, inputs and then results as in docs/ops.md;
 * s.at.bias: y has one, or its gradient is wanted (dw). The library lays pictures and kernels out as it
 * likes: what it wants otherwise is copied in scratch memory. */
typedef struct onednn_conv {
    int64_t kind; /* ls_conv_kind */
    ls_conv s;
} onednn_conv;

/* Compared byte by byte: clear it before it is filled in. */
typedef struct onednn_key {
    onednn_kind kind;
    ls_dtype dtype; /* of the operands */
    int threads;
    union {
        onednn_product product;
        onednn_conv conv;
    };
} onednn_key;

/* LS_E_UNSUPPORTED with the reason where the library is not there. Before anything else here. */
ls_status ls_onednn_open(void);

typedef struct onednn_op onednn_op;
enum { ONEDNN_OPERANDS = 4 };

/* Finds the operation or makes it; NULL if the library cannot on this CPU. Lives as long as the process: a
 * step never makes one. */
onednn_op *ls_onednn_find(const onednn_key *key);
size_t ls_onednn_scratch(const onednn_op *o); /* bytes */
/* product: a, b, c */
void ls_onednn_run(onednn_op *o, const void *const operands[ONEDNN_OPERANDS], void *scratch);

/* Kernels, for the table in onednn.c. */
#define ONEDNN_KERNEL(name)                                       \
    void ls_onednn_##name(const ls_kernel_args *a);               \
    size_t ls_onednn_##name##_workspace(const ls_kernel_args *a); \
    const char *ls_onednn_##name##_supports(const ls_kernel_args *a);
ONEDNN_KERNEL(conv2d)
ONEDNN_KERNEL(conv2d_dx)
ONEDNN_KERNEL(conv2d_dw)
#undef ONEDNN_KERNEL
