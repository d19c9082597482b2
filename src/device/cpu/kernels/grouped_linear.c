/* grouped_linear.c - a product for each group of rows, by the kernels of linear, its dx and its dw (gemm.c),
 * which give a row the bits that it has alone. How many rows a group has is data, and the workspace is that
 * of the number which needs most. So linear and dx get at most MOST_ROWS at a time, from where on it does not
 * grow; dw, which sums over the rows, gets all of them. */
#include "tensor_ops.h"
#include "gemm.h"
#include "graph/tensor_attrs.h"

enum { MOST_ROWS = 1024, MOST_DEPTH = 2 * GEMM_CHUNK /* of dw: its chunks are the longest below it */ };

/* Operands of a product of some rows. */
typedef struct rows_args {
    ls_kernel_args a;
    ls_tensor in[5], out[2];
    ls_linear_attrs linear;
    ls_linear_dw_attrs dw;
} rows_args;

/* n rows of t from row `begin` on */
static ls_tensor rows_at(const ls_tensor *t, int64_t begin, int64_t n)
{
    const int64_t cols = cols_of(t);
    return (ls_tensor){ .data = t->data ? elem_at(t, begin * cols) : NULL,
                        .type = LS_TYPE(t->type.dtype, n, cols),
                        .strides = { cols, 1 } };
}

/* x, offsets, weights -> y; of dw dy, x, offsets -> dw */
static void product_of(rows_args *r, const ls_kernel_args *a, gemm_kind kind, int group, int64_t begin,
                       int64_t n)
{
    const ls_tensor none = { .type.ndim = -1 };
    const bool dw = kind == GEMM_DW;
    *r = (rows_args){
        .a = { .n_in = 2, .n_out = 1, .threads = a->threads, .arch = a->arch, .workspace = a->workspace },
        .in = { rows_at(&a->in[0], begin, n), dw ? rows_at(&a->in[1], begin, n) : a->in[2 + group], none,
                none, none },
        .out = { dw ? a->out[0] : rows_at(&a->out[0], begin, n), none }
    };
    r->a.in = r->in;
    r->a.out = r->out;
    r->a.attrs = dw ? (const void *)&r->dw : (const void *)&r->linear;
}

static size_t grouped_bytes(const ls_kernel_args *a, gemm_kind kind, int64_t n)
{
    rows_args r;
    product_of(&r, a, kind, 0, 0, n);
    return LS_NAME(ls_gemm_kernels)[kind].workspace(&r.a);
}

static size_t most_bytes(const ls_kernel_args *a, gemm_kind kind)
{
    const int64_t rows = rows_of(&a->in[0]), most = min_i64(rows, kind == GEMM_DW ? MOST_DEPTH : MOST_ROWS);
    size_t bytes = kind == GEMM_DW ? grouped_bytes(a, kind, rows) : 0;
    for (int64_t n = 1; n <= most; n++) {
        const size_t needs = grouped_bytes(a, kind, n);
        bytes = needs > bytes ? needs : bytes;
    }
    return bytes;
}

/* Rows [*begin, *end) of a group, within the rows that there are. */
static void range_of(const ls_tensor *offsets, int64_t group, int64_t rows, int64_t *begin, int64_t *end)
{
    const int32_t *o = offsets->data;
    *begin = min_i64(o[group] < 0 ? 0 : o[group], rows);
    *end = min_i64(o[group + 1] < *begin ? *begin : o[group + 1], rows);
}

/* Rows of no group have no product. */
static void put_nan(const ls_tensor *y, int64_t from)
{
    for (int64_t i = from * cols_of(y); i < count_of(y); i++)
        f_put(y->data, y->type.dtype, i, __builtin_nanf(""));
}

static void run_groups(const ls_kernel_args *a, gemm_kind kind)
{
    const int64_t rows = rows_of(&a->in[0]);
    int64_t begin, end = 0;
    for (int g = 0; g + 2 < a->n_in; g++) {
        range_of(&a->in[1], g, rows, &begin, &end);
        for (int64_t i = begin, n; i < end; i += n) {
            rows_args r;
            n = min_i64(end - i, MOST_ROWS);
            product_of(&r, a, kind, g, i, n);
            LS_NAME(ls_gemm_kernels)[kind].run(&r.a);
        }
    }
    put_nan(&a->out[0], end);
}

KERNEL(grouped_linear) { run_groups(a, GEMM_LINEAR); }
KERNEL(grouped_linear_dx) { run_groups(a, GEMM_DX); }
KERNEL(grouped_linear_dw)
{
    const int64_t group = ((const ls_group_attrs *)a->attrs)->n;
    int64_t begin, end;
    rows_args r;
    range_of(&a->in[2], group, rows_of(&a->in[0]), &begin, &end);
    product_of(&r, a, GEMM_DW, 0, begin, end - begin);
    if (begin < end)
        LS_NAME(ls_gemm_kernels)[GEMM_DW].run(&r.a);
    else
        memset(a->out[0].data, 0, (size_t)(count_of(&a->out[0]) * elem_size(a->out[0].type.dtype)));
}

KERNEL_WORKSPACE(grouped_linear) { return most_bytes(a, GEMM_LINEAR); }
KERNEL_WORKSPACE(grouped_linear_dx) { return most_bytes(a, GEMM_DX); }
KERNEL_WORKSPACE(grouped_linear_dw) { return most_bytes(a, GEMM_DW); }
