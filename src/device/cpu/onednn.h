/* onednn.h - one matrix product of the oneDNN library, its C interface (2.x and 3.x differ) hidden. */
#pragma once
#include "device/device.h"

/* C[m, n] = A[m, k] B[k, n], f32 result; element (i, j) of A lies at i * a_rows + j * a_cols, and so on. C is row-major. */
typedef struct onednn_key {
    ls_dtype dtype; /* of A and B */
    int threads;
    int64_t m, n, k, a_rows, a_cols, b_rows, b_cols;
} onednn_key;

typedef struct onednn_product onednn_product;

/* Finds the product or makes it; NULL if the library cannot on this CPU. Lives as long as the process: a step never makes one. */
onednn_product *ls_onednn_product(const onednn_key *key);
size_t ls_onednn_scratch(const onednn_product *p); /* bytes */
void ls_onednn_run(onednn_product *p, const void *a, const void *b, float *c, void *scratch);
