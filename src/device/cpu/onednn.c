/* onednn.c - linear, linear_dx and linear_dw computed by oneDNN (kernels: onednn): for comparison, and for
 * machines on which the library is faster. Our own code applies bias, activation and residual afterwards. The
 * library promises the same bits neither for another number of threads, nor for a row in another batch.
 * onednn_conv.c has the convolutions.
 *
 * All operands are contiguous (the rows below ask for that), so the shape identifies a product when a step is
 * compiled. Sums in f32 go to the output, where our code finishes them; those of bf16 go to scratch
 * memory. */
#ifdef LS_HAVE_ONEDNN
#ifndef LS_HAVE_generic
#error "oneDNN needs the generic level beside it: LS_LEVELS, or -DLS_ONEDNN=OFF"
#endif
#define LS_LEVEL generic /* only for the helpers and declarations of kernels/gemm.h */
#define LS_LEVEL_generic 1
#include "kernels/gemm.h"
#include "onednn.h"

typedef __typeof__(ls_gemm_finish_generic) finish_fn;
#ifdef LS_HAVE_avx2
finish_fn ls_gemm_finish_avx2;
#endif
#ifdef LS_HAVE_avx512
finish_fn ls_gemm_finish_avx512;
#endif

static finish_fn *finish_of(ls_isa isa)
{ /* all levels give the same bits; these are the fastest */
#ifdef LS_HAVE_avx512
    if (isa >= LS_ISA_AVX512)
        return ls_gemm_finish_avx512;
#endif
#ifdef LS_HAVE_avx2
    if (isa >= LS_ISA_AVX2)
        return ls_gemm_finish_avx2;
#endif
    (void)isa;
    return ls_gemm_finish_generic;
}

typedef struct job {
    const ls_kernel_args *a;
    gemm_kind kind;
    onednn_key key;
    float *sums;
    finish_fn *finish;
} job;

static job onednn_job_of(const ls_kernel_args *a, gemm_kind kind)
{
    const ls_tensor *x = &a->in[0], *w = &a->in[1];
    job j = { .a = a, .kind = kind, .finish = finish_of(ls_isa_of(a->arch)) };
    onednn_product *k = &j.key.product;
    memset(&j.key, 0, sizeof j.key);
    j.key.kind = ONEDNN_PRODUCT;
    j.key.dtype = x->type.dtype;
    j.key.threads = a->threads < 1 ? 1 : a->threads;
    k->m = kind == GEMM_DW ? cols_of(x) : rows_of(x);
    k->n = kind == GEMM_LINEAR ? rows_of(w) : cols_of(w);
    k->k = kind == GEMM_DW ? rows_of(x) : cols_of(x);
    k->a_rows = kind == GEMM_DW ? 1 : k->k;
    k->a_cols = kind == GEMM_DW ? k->m : 1;
    k->b_rows = kind == GEMM_LINEAR ? 1 : k->n;
    k->b_cols = kind == GEMM_LINEAR ? k->k : 1;
    return j;
}

static size_t sums_bytes(const job *j)
{
    return j->key.dtype == LS_F32 ? 0 : (size_t)round_up(j->key.product.m * j->key.product.n * 4, 64);
}

static size_t onednn_workspace(const ls_kernel_args *a, gemm_kind kind)
{
    const job j = onednn_job_of(a, kind);
    const onednn_op *o = ls_onednn_find(&j.key);
    return sums_bytes(&j) + (o ? ls_onednn_scratch(o) : 0);
}

static void finish_rows(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = context;
    for (int64_t i = begin; i < end; i++)
        j->finish(j->a, j->kind, j->sums + i * j->key.product.n, j->key.product.n, i, 1, 0,
                  (int)j->key.product.n);
}

/* db of linear_dw: rows are added in blocks of GEMM_KC, and blocks in ascending order. */
static void sum_columns(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const ls_tensor *dy = &((const job *)context)->a->in[0], *db = &((const job *)context)->a->out[1];
    const int64_t rows = rows_of(dy), cols = cols_of(dy);
    for (int64_t n = begin * 16; n < min_i64(cols, end * 16); n += 16) {
        const int count = (int)min_i64(16, cols - n);
        float total[16] = { 0 };
        for (int64_t i = 0; i < rows;) {
            float sum[16] = { 0 };
            for (const int64_t stop = min_i64(rows, i + GEMM_KC); i < stop; i++)
                for (int c = 0; c < count; c++)
                    sum[c] += f_get(dy->data, dy->type.dtype, i * cols + n + c);
            for (int c = 0; c < count; c++)
                total[c] += sum[c];
        }
        for (int c = 0; c < count; c++)
            f_put(db->data, db->type.dtype, n + c, total[c]);
    }
}

static void onednn_run(const ls_kernel_args *a, gemm_kind kind)
{
    job j = onednn_job_of(a, kind);
    j.sums = sums_bytes(&j) ? a->workspace : a->out[0].data;
    const void *const operands[ONEDNN_OPERANDS] = { a->in[0].data, a->in[1].data, j.sums };
    ls_onednn_run(ls_onednn_find(&j.key), operands, (char *)a->workspace + sums_bytes(&j));
    const bool plain = kind == GEMM_DW ||
                       (kind == GEMM_LINEAR && a->in[2].type.ndim < 0 && a->in[3].type.ndim < 0) ||
                       (kind == GEMM_DX && a->in[3].type.ndim < 0);
    const int64_t act = kind != GEMM_DW && a->attrs ? ((const ls_linear_attrs *)a->attrs)->act : LS_ACT_NONE;
    if (!plain || act || sums_bytes(&j))
        ls_parallel_for(threads_for(a, j.key.product.m * j.key.product.n), j.key.product.m, finish_rows, &j);
    if (kind == GEMM_DW && ((const ls_linear_dw_attrs *)a->attrs)->bias)
        ls_parallel_for(threads_for(a, j.key.product.m * j.key.product.k), (j.key.product.m + 15) / 16,
                        sum_columns, &j);
}

static const char *supports(const ls_kernel_args *a, gemm_kind kind)
{
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        const ls_tensor *t = i < a->n_in ? &a->in[i] : &a->out[i - a->n_in];
        if (t->type.ndim >= 0 && (!is_float16_or_32(t->type.dtype) || t->type.dtype != a->in[0].type.dtype))
            return "kernels: onednn wants operands of one type, f32 or bf16";
    }
    const job j = onednn_job_of(a, kind);
    if (!j.key.product.m || !j.key.product.n || !j.key.product.k)
        return "kernels: onednn has no empty products";
    return ls_onednn_find(&j.key) ? NULL
                                  : "this oneDNN cannot multiply this type on this CPU (kernels: own can)";
}

#define EACH(f) f(linear, GEMM_LINEAR) f(dx, GEMM_DX) f(dw, GEMM_DW)
#define FUNCTIONS(name, kind)                                                                     \
    static void run_##name(const ls_kernel_args *a) { onednn_run(a, kind); }                      \
    static size_t workspace_##name(const ls_kernel_args *a) { return onednn_workspace(a, kind); } \
    static const char *supports_##name(const ls_kernel_args *a) { return supports(a, kind); }
EACH(FUNCTIONS)

const ls_kernel ls_kernels_onednn[] = {
    { .op = "linear",
      .by = "onednn",
      .run = run_linear,
      .workspace = workspace_linear,
      .supports = supports_linear },
    { .op = "linear_dx", .by = "onednn", .run = run_dx, .workspace = workspace_dx, .supports = supports_dx },
    { .op = "linear_dw", .by = "onednn", .run = run_dw, .workspace = workspace_dw, .supports = supports_dw },
#define CONV(name)                               \
    { .op = #name,                               \
      .by = "onednn",                            \
      .run = ls_onednn_##name,                   \
      .workspace = ls_onednn_##name##_workspace, \
      .supports = ls_onednn_##name##_supports },
    CONV(conv2d) CONV(conv2d_dx) CONV(conv2d_dw){ 0 },
};
#else
typedef int ls_onednn_not_built;
#endif
