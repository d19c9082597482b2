/* batch_matmul.c - products of matrices, one for each of the leading dimensions. */
#include "ref.h"
#include "graph/tensor_attrs.h"

void ls_ref_batch_matmul(const ls_kernel_args *a) /* a, b -> y */
{
    const ls_matmul_attrs *at = a->attrs;
    const ls_type *ta = &a->in[0].type, *ty = &a->out[0].type;
    const int n = ty->ndim;
    const int64_t M = ty->dims[n - 2], N = ty->dims[n - 1], K = ta->dims[at->transpose_a ? n - 2 : n - 1];
    for (int64_t i = 0; i < ls_type_count(ty); i++) {
        const int64_t batch = i / (M * N), row = i / N % M, column = i % N;
        double sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += flat_get(&a->in[0], batch * M * K + (at->transpose_a ? k * M + row : row * K + k)) *
                   flat_get(&a->in[1], batch * K * N + (at->transpose_b ? column * K + k : k * N + column));
        flat_put(&a->out[0], i, sum);
    }
}
