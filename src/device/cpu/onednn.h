/* onednn.h - an operation of the oneDNN library: a matrix product or a convolution. It hides the library's C
 * interface, which differs between versions 2 and 3. */
#pragma once
#include "device/conv.h"

typedef enum onednn_kind { ONEDNN_PRODUCT, ONEDNN_CONV } onednn_kind;

/* C[m, n] = A[m, k] B[k, n], with a result in f32. Element (i, j) of A is at i * a_rows + j * a_cols, and B
 * accordingly. C is row-major. */
typedef struct onednn_product {
    int64_t m, n, k, a_rows, a_cols, b_rows, b_cols;
} onednn_product;

/* y, dx or dw of a convolution. All operands have one type; they are the inputs and then the results, as in
 * docs/ops.md. s.at.bias: y has a bias, or (dw) its gradient is wanted. The library chooses its own layouts
 * for pictures and kernels, and operands are copied to them in scratch memory. */
typedef struct onednn_conv {
    int64_t kind; /* ls_conv_kind */
    ls_conv s;
} onednn_conv;

/* Compared byte by byte, so it must be zeroed before it is filled. */
typedef struct onednn_key {
    onednn_kind kind;
    ls_dtype dtype; /* type of the operands */
    int threads;
    union {
        onednn_product product;
        onednn_conv conv;
    };
} onednn_key;

/* Must be called first. LS_E_UNSUPPORTED, with the reason, if the library cannot be loaded. */
ls_status ls_onednn_open(void);

typedef struct onednn_op onednn_op;
enum { ONEDNN_OPERANDS = 4 };

/* Finds or makes the operation. NULL: the library cannot compute it on this CPU. It lives as long as the
 * process. A running step never makes one. */
onednn_op *ls_onednn_find(const onednn_key *key);
size_t ls_onednn_scratch(const onednn_op *o); /* bytes */
/* operands of a product: a, b, c */
void ls_onednn_run(onednn_op *o, const void *const operands[ONEDNN_OPERANDS], void *scratch);

/* the kernels for the table in onednn.c */
#define ONEDNN_KERNEL(name)                                       \
    void ls_onednn_##name(const ls_kernel_args *a);               \
    size_t ls_onednn_##name##_workspace(const ls_kernel_args *a); \
    const char *ls_onednn_##name##_supports(const ls_kernel_args *a);
ONEDNN_KERNEL(conv2d)
ONEDNN_KERNEL(conv2d_dx)
ONEDNN_KERNEL(conv2d_dw)
#undef ONEDNN_KERNEL
