/* batch_matmul.c - products of matrices, one for each of the leading dimensions, by the kernels of linear,
 * its dx and its dw (gemm.c): these multiply a by b transposed, by b, and a transposed by b. Many or small
 * products are shared among the threads; each of a few large ones is made by all of them. Both ways give the
 * same bits, because threads change none of a product. */
#include "tensor_ops.h"
#include "gemm.h"
#include "graph/tensor_attrs.h"

enum { SMALL = 64 * 64 * 64 }; /* multiplications of a product that is not worth the threads' meetings */

typedef struct matmul_job {
    const ls_kernel *kernel;
    ls_linear_attrs linear;
    ls_linear_dw_attrs dw;
    int64_t batch;
    int threads, each;       /* threads that share the products; threads of one product */
    ls_tensor in[4], out[2]; /* of the first product; linear may have two operands more */
    int64_t step[3];         /* bytes from product to product: a, b, y */
    char *workspace;
    size_t bytes; /* of a product's workspace */
    const ls_arch *arch;
} matmul_job;

/* The matrix of product 0, and the bytes from one to the next. */
static ls_tensor matrix(const ls_tensor *t, int64_t *step)
{
    const int n = t->type.ndim;
    const int64_t rows = t->type.dims[n - 2], columns = t->type.dims[n - 1];
    *step = rows * columns * elem_size(t->type.dtype);
    return (ls_tensor){ .type = { .dtype = t->type.dtype, .ndim = 2, .dims = { rows, columns } },
                        .strides = { columns, 1 },
                        .data = t->data };
}

static ls_kernel_args args_of(const matmul_job *j, ls_tensor in[4], ls_tensor out[2], void *workspace)
{
    const bool dw = j->kernel == &LS_NAME(ls_gemm_kernels)[GEMM_DW];
    return (ls_kernel_args){ .n_in = dw ? 2 : 4,
                             .n_out = 1,
                             .in = in,
                             .out = out,
                             .attrs = dw ? (const void *)&j->dw : &j->linear,
                             .workspace = workspace,
                             .threads = j->each,
                             .arch = j->arch };
}

static matmul_job batch_matmul_job_of(const ls_kernel_args *a)
{
    const ls_matmul_attrs *at = a->attrs;
    const gemm_kind kind = at->transpose_a ? GEMM_DW : at->transpose_b ? GEMM_LINEAR : GEMM_DX;
    matmul_job j = { .kernel = &LS_NAME(ls_gemm_kernels)[kind], .arch = a->arch, .workspace = a->workspace };
    j.in[0] = matrix(&a->in[0], &j.step[0]);
    j.in[1] = matrix(&a->in[1], &j.step[1]);
    j.out[0] = matrix(&a->out[0], &j.step[2]);
    j.in[2].type.ndim = j.in[3].type.ndim = j.out[1].type.ndim = -1;
    const int64_t one = count_of(&j.out[0]) * j.in[0].type.dims[at->transpose_a ? 0 : 1];
    j.batch = 1; /* a product may have no elements, so they are not divided */
    for (int d = 0; d < a->out[0].type.ndim - 2; d++)
        j.batch *= a->out[0].type.dims[d];
    const bool share = a->threads > 1 && (j.batch >= 4 * a->threads || one < SMALL);
    j.threads = share && one * j.batch >= SMALL ? a->threads : 1;
    j.each = share ? 1 : a->threads;
    const ls_kernel_args args = args_of(&j, j.in, j.out, NULL);
    j.bytes = j.kernel->workspace ? (size_t)round_up((int64_t)j.kernel->workspace(&args), 64) : 0;
    return j;
}

static void products(void *context, int64_t begin, int64_t end, int worker)
{
    const matmul_job *j = context;
    for (int64_t b = begin; b < end; b++) {
        ls_tensor in[4] = { j->in[0], j->in[1], j->in[2], j->in[3] }, out[2] = { j->out[0], j->out[1] };
        in[0].data = (char *)in[0].data + b * j->step[0];
        in[1].data = (char *)in[1].data + b * j->step[1];
        out[0].data = (char *)out[0].data + b * j->step[2];
        const ls_kernel_args args = args_of(j, in, out, j->workspace + (size_t)worker * j->bytes);
        j->kernel->run(&args);
    }
}

KERNEL_WORKSPACE(batch_matmul)
{
    const matmul_job j = batch_matmul_job_of(a);
    return (size_t)j.threads * j.bytes;
}

KERNEL(batch_matmul)
{
    matmul_job j = batch_matmul_job_of(a);
    if (j.threads > 1)
        ls_parallel_for(j.threads, j.batch, products, &j);
    else
        products(&j, 0, j.batch, 0);
}
