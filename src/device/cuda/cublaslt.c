/* cublaslt.c - kernels: cublaslt. The matrix products of linear, its gradients and batch_matmul by NVIDIA's
 * library. Bias, and a residual without an activation, are the library's; what else follows a product is done
 * by our own kernel afterwards, and empty products are our own. What is not here (convolutions, attention)
 * has own kernels, as with kernels: own.
 *
 * A row-major matrix is the library's column-major one transposed, so y = left * right is asked for as
 * y' = right' * left'.
 *
 * The algorithm of a product is the library's first choice that adds in a fixed order: no reduction in place.
 * It is a function of the shapes, the types, the alignment of addresses, the GPU and the version of the
 * library, and is asked for once in a process. */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "cublaslt.h"
#include "cuda_own.h"
#include "device/gpu/products.h"

enum {
    WORKSPACE = 32 << 20,   /* what NVIDIA recommends for sm_90; part of each product's plan */
    WORKSPACE_ALIGN = 256,  /* of its address */
    OLDEST_VERSION = 120000 /* 12.0.0 */
};

/* All that decides an algorithm. Compared byte by byte: all members have one size. Alignments are those of
 * addresses, in bytes, at most 16; 0: the operand is not there. */
typedef struct product {
    int64_t type, m, n, k, batch;
    int64_t left_along_k, right_along_k; /* whether lines of a side follow depth */
    int64_t ld_left, ld_right, ld_add, ld_y, step_left, step_right, step_y;
    int64_t align_left, align_right, align_add, align_y, align_bias;
} product;

typedef struct chosen {
    product product;
    lt_algorithm algorithm;
    struct chosen *next;
} chosen;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    lt_functions f;
    bool is_open;
    char *path;
    lt_handle handle; /* of the GPU of this process; from the first product to the end */
    chosen *all;
} own;

/* ---- the library */

static ls_status not_there(const ls_str *places, bool old)
{
    return ls_fail(LS_E_UNSUPPORTED,
                   "kernels: cublaslt: NVIDIA's library for matrix products is missing: %s is not in %s; "
                   "install it with `pip install nvidia-cublas%s`, or with the CUDA toolkit; kernels: own "
                   "needs no library",
                   old ? "libcublasLt.so.12 (the driver is for CUDA 12)" : "libcublasLt.so.13 or .12",
                   ls_str_text(places), old ? "-cu12" : "");
}

static ls_status open_library(void)
{
    static const char *const NEW[] = { "libcublasLt.so.13", "libcublasLt.so.12", NULL }, *const OLD[] = {
        "libcublasLt.so.12", NULL
    };
    const ls_cuda_symbol symbols[] = {
#define LT_SYMBOL(field, symbol, arguments) { #symbol, &own.f.field },
        LT_FUNCTIONS(LT_SYMBOL){ "cublasLtGetVersion", &own.f.version },
        { "cublasLtGetStatusName", &own.f.status_name },
        { NULL, NULL }
    };
    const int driver = ls_cuda_driver_version();
    const bool old = driver && driver < 13000;
    ls_str places = { 0 };
    free(own.path); /* of an attempt that failed */
    void *library = ls_cuda_library(old ? OLD : NEW, &own.path, &places);
    const char *missing = library ? ls_cuda_symbols(library, symbols) : NULL;
    ls_status s = LS_OK;
    if (!library)
        s = not_there(&places, old);
    else if (missing)
        s = ls_fail(LS_E_UNSUPPORTED, "kernels: cublaslt: %s lacks %s", own.path, missing);
    else if (own.f.version() < OLDEST_VERSION)
        s = ls_fail(LS_E_UNSUPPORTED, "kernels: cublaslt: %s has version %zu.%zu; 12.0 or newer is needed",
                    own.path, own.f.version() / 10000, own.f.version() / 100 % 100);
    ls_str_release(&places);
    return s;
}

ls_status ls_cublaslt_open(void)
{
    pthread_mutex_lock(&lock);
    const ls_status s = own.is_open ? LS_OK : open_library();
    own.is_open = s == LS_OK;
    pthread_mutex_unlock(&lock);
    return s;
}

static ls_status failed(const product *p, lt_status r, const char *function)
{
    return ls_fail(LS_E_DEVICE,
                   "kernels: cublaslt: %s of %s fails for a product of %lld x %lld x %lld, batch %lld: %s; "
                   "kernels: own makes it without the library",
                   function, own.path, (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->batch,
                   own.f.status_name(r));
}

/* ---- descriptors */

typedef struct described {
    lt_operation operation;
    lt_layout a, b, c, d;
} described;

static void forget(const described *o)
{
    const lt_layout layouts[] = { o->a, o->b, o->c, o->d };
    for (int i = 0; i < 4; i++)
        if (layouts[i])
            own.f.layout_destroy(layouts[i]);
    if (o->operation)
        own.f.operation_destroy(o->operation);
}

#define LT_TRY(call)                    \
    do {                                \
        const lt_status tried = (call); \
        if (tried != LT_SUCCESS)        \
            return tried;               \
    } while (0)

static lt_status cublaslt_lay_out(lt_layout *l, const product *p, int64_t rows, int64_t columns, int64_t ld,
                                  int64_t step)
{
    const int32_t batch = (int32_t)p->batch;
    LT_TRY(own.f.layout_create(l, (int)p->type, (uint64_t)rows, (uint64_t)columns, ld));
    if (batch == 1)
        return LT_SUCCESS;
    LT_TRY(own.f.layout_set(*l, LT_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    return own.f.layout_set(*l, LT_LAYOUT_BATCH_STRIDE, &step, sizeof step);
}

static lt_status operate(lt_operation *o, const product *p, const void *bias)
{
    const int32_t a = p->right_along_k ? LT_OP_T : LT_OP_N, b = p->left_along_k ? LT_OP_N : LT_OP_T,
                  type = (int32_t)p->type;
    const uint32_t epilogue = LT_EPILOGUE_BIAS;
    LT_TRY(own.f.operation_create(o, LT_COMPUTE_32F, LT_R_32F));
    LT_TRY(own.f.operation_set(*o, LT_OPERATION_TRANS_A, &a, sizeof a));
    LT_TRY(own.f.operation_set(*o, LT_OPERATION_TRANS_B, &b, sizeof b));
    if (!p->align_bias)
        return LT_SUCCESS;
    LT_TRY(own.f.operation_set(*o, LT_OPERATION_EPILOGUE, &epilogue, sizeof epilogue));
    LT_TRY(own.f.operation_set(*o, LT_OPERATION_BIAS_TYPE, &type, sizeof type));
    return own.f.operation_set(*o, LT_OPERATION_BIAS_POINTER, &bias, sizeof bias);
}

/* A is the right side, B the left one, D is y, C what is added. What fails is forgotten like the rest. */
static lt_status cublaslt_describe(described *o, const product *p, const void *bias)
{
    const int64_t m = p->m, n = p->n, k = p->k;
    *o = (described){ 0 };
    LT_TRY(operate(&o->operation, p, bias));
    LT_TRY(p->right_along_k ? cublaslt_lay_out(&o->a, p, k, n, p->ld_right, p->step_right)
                            : cublaslt_lay_out(&o->a, p, n, k, p->ld_right, p->step_right));
    LT_TRY(p->left_along_k ? cublaslt_lay_out(&o->b, p, k, m, p->ld_left, p->step_left)
                           : cublaslt_lay_out(&o->b, p, m, k, p->ld_left, p->step_left));
    LT_TRY(cublaslt_lay_out(&o->c, p, n, m, p->align_add ? p->ld_add : p->ld_y, p->step_y));
    return cublaslt_lay_out(&o->d, p, n, m, p->ld_y, p->step_y);
}

/* ---- which algorithm */

static lt_status prefer(lt_preference *f, const product *p)
{
    const uint64_t most = WORKSPACE;
    const uint32_t reductions = LT_REDUCTION_COMPUTE_TYPE;
    const int64_t align[] = { p->align_right, p->align_left, p->align_add ? p->align_add : p->align_y,
                              p->align_y };
    LT_TRY(own.f.preference_create(f));
    LT_TRY(own.f.preference_set(*f, LT_PREFERENCE_WORKSPACE, &most, sizeof most));
    LT_TRY(own.f.preference_set(*f, LT_PREFERENCE_REDUCTIONS, &reductions, sizeof reductions));
    for (int i = 0; i < 4; i++) {
        const uint32_t bytes = (uint32_t)align[i];
        LT_TRY(own.f.preference_set(*f, LT_PREFERENCE_ALIGNMENT_A + i, &bytes, sizeof bytes));
    }
    return LT_SUCCESS;
}

static lt_status cublaslt_ask(lt_algorithm *out, const product *p, const described *o, lt_preference *f)
{
    enum { MOST = 8 };
    lt_choice list[MOST];
    int n = 0;
    LT_TRY(prefer(f, p));
    LT_TRY(own.f.choices(own.handle, o->operation, o->a, o->b, o->c, o->d, *f, MOST, list, &n));
    for (int i = 0; i < n; i++)
        if (list[i].state == LT_SUCCESS && list[i].workspace <= WORKSPACE) {
            *out = list[i].algorithm;
            return LT_SUCCESS;
        }
    return LT_NOT_SUPPORTED;
}

static ls_status cublaslt_choose(lt_algorithm *out, const product *p)
{
    described o;
    lt_preference f = NULL;
    /* (a pointer with the alignment of the bias, and no other: the algorithm depends on nothing else) */
    lt_status r = cublaslt_describe(&o, p, (const void *)(uintptr_t)p->align_bias); /* NOLINT */
    if (r == LT_SUCCESS)
        r = cublaslt_ask(out, p, &o, &f);
    if (f)
        own.f.preference_destroy(f);
    forget(&o);
    return r == LT_SUCCESS ? LS_OK : failed(p, r, "cublasLtMatmulAlgoGetHeuristic");
}

static ls_status find_locked(const chosen **out, const product *p)
{
    const cu_driver *cu;
    lt_algorithm algorithm;
    for (const chosen *c = own.all; c; c = c->next)
        if (!memcmp(&c->product, p, sizeof *p))
            return *out = c, LS_OK;
    LS_TRY(ls_cuda_enter(&cu));
    const lt_status r = own.handle ? LT_SUCCESS : own.f.create(&own.handle);
    if (r != LT_SUCCESS)
        return failed(p, r, "cublasLtCreate");
    LS_TRY(cublaslt_choose(&algorithm, p));
    chosen *c = ls_sys_malloc(sizeof *c);
    LS_TRY(ls_sys_have(c));
    *c = (chosen){ *p, algorithm, own.all };
    *out = own.all = c;
    return LS_OK;
}

static ls_status cublaslt_find(const chosen **out, const product *p)
{
    pthread_mutex_lock(&lock);
    const ls_status s = find_locked(out, p);
    pthread_mutex_unlock(&lock);
    return s;
}

/* ---- a product, as a task of a queue */

typedef struct task {
    const chosen *with;
    gpu_address left, right, bias, add, y, workspace;
} task;

static void *at(gpu_address a) { return (void *)(uintptr_t)a; } /* NOLINT: the GPU's address */

static ls_status cublaslt_put(const void *args, cu_stream s)
{
    const task *t = args;
    const product *p = &t->with->product;
    const float one = 1, zero = 0;
    described o;
    lt_status r = cublaslt_describe(&o, p, at(t->bias));
    if (r == LT_SUCCESS)
        r = own.f.matmul(own.handle, o.operation, &one, at(t->right), o.a, at(t->left), o.b,
                         t->add ? &one : &zero, at(t->add ? t->add : t->y), o.c, at(t->y), o.d,
                         &t->with->algorithm, at(t->workspace), WORKSPACE, s);
    forget(&o);
    return r == LT_SUCCESS ? LS_OK : failed(p, r, "cublasLtMatmul");
}

static int64_t alignment(gpu_address a) { return (int64_t)((a | 16) & -(a | 16)); }

static product product_of(const ls_gpu_product *g, const task *t, int64_t ld_y)
{
    const matmul_args *k = &g->k;
    return (product){ .type = g->type == LS_F32   ? LT_R_32F
                              : g->type == LS_F16 ? LT_R_16F
                                                  : LT_R_16BF,
                      .m = k->m,
                      .n = k->n,
                      .k = k->k,
                      .batch = g->batch,
                      .left_along_k = g->left_along_k,
                      .right_along_k = g->right_along_k,
                      .ld_left = k->ld_left,
                      .ld_right = k->ld_right,
                      .ld_add = t->add ? k->ld_residual : 0,
                      .ld_y = ld_y,
                      .step_left = k->step_left,
                      .step_right = k->step_right,
                      .step_y = k->step_y,
                      .align_left = alignment(t->left),
                      .align_right = alignment(t->right),
                      .align_add = t->add ? alignment(t->add) : 0,
                      .align_y = alignment(t->y),
                      .align_bias = t->bias ? alignment(t->bias) : 0 };
}

/* The product lies in `pre`, or else in y, before an activation follows. */
static void multiply(const ls_kernel_args *a, ls_gpu_product g)
{
    matmul_args *k = &g.k;
    if (!k->m || !k->n || !k->k || !g.batch) {
        ls_gpu_product_make(&g);
        return;
    }
    const bool follows = k->act != MATMUL_NONE;
    const int64_t ld_y = k->pre ? k->ld_pre : k->ld_y;
    task t = { .left = k->left,
               .right = k->right,
               .bias = k->bias,
               .add = follows ? 0 : k->residual,
               .y = k->pre ? k->pre : k->y,
               .workspace = (ls_gpu_at(a->workspace) + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN *
                            WORKSPACE_ALIGN };
    const product p = product_of(&g, &t, ld_y);
    const ls_status s = cublaslt_find(&t.with, &p);
    if (s != LS_OK)
        ls_cuda_refuse(a->queue, s);
    else
        ls_cuda_call_put(a->queue, (ls_cuda_call){ .put = cublaslt_put }, &t, sizeof t);
    if (!follows)
        return;
    k->left = t.y;
    k->ld_left = ld_y;
    k->bias = 0;
    ls_gpu_product_finish(&g);
}

/* ---- rows */

static size_t cublaslt_workspace(const ls_kernel_args *a)
{
    (void)a;
    return WORKSPACE + WORKSPACE_ALIGN;
}
static size_t workspace_dw(const ls_kernel_args *a)
{
    return cublaslt_workspace(a) + ls_gpu_linear_db_workspace(a);
}

static const char *supports(const ls_kernel_args *a, ls_gpu_product (*make)(const ls_kernel_args *a))
{
    const char *why = ls_gpu_product_supports(a);
    if (why)
        return why;
    const ls_gpu_product g = make(a);
    return g.k.m > INT32_MAX || g.k.n > INT32_MAX || g.k.k > INT32_MAX || g.batch > INT32_MAX
               ? "kernels: cublaslt takes at most 2147483647 rows, columns and matrices (kernels: own takes "
                 "more)"
               : NULL;
}

#define ROW(op)                                                                    \
    static void run_##op(const ls_kernel_args *a) { multiply(a, ls_gpu_##op(a)); } \
    static const char *supports_##op(const ls_kernel_args *a) { return supports(a, ls_gpu_##op); }
ROW(linear)
ROW(linear_dx)
ROW(linear_dw)
ROW(batch_matmul)

static void run_linear_dw_db(const ls_kernel_args *a)
{
    run_linear_dw(a);
    ls_gpu_linear_db(a, ls_gpu_at(a->workspace) + cublaslt_workspace(a));
}

/* (the same operands may be row-strided as with our own kernels) */
const ls_kernel ls_kernels_cublaslt[] = {
    { .op = "linear",
      .by = "cublaslt",
      .run = run_linear,
      .workspace = cublaslt_workspace,
      .supports = supports_linear,
      .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(3),
      .rows_out = LS_OPERAND(0) | LS_OPERAND(1) },
    { .op = "linear_dx",
      .by = "cublaslt",
      .run = run_linear_dx,
      .workspace = cublaslt_workspace,
      .supports = supports_linear_dx,
      .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(2) | LS_OPERAND(3),
      .rows_out = LS_OPERAND(0) },
    { .op = "linear_dw",
      .by = "cublaslt",
      .run = run_linear_dw_db,
      .workspace = workspace_dw,
      .supports = supports_linear_dw,
      .rows_in = LS_OPERAND(0) | LS_OPERAND(1),
      .rows_out = LS_OPERAND(0) },
    { .op = "batch_matmul",
      .by = "cublaslt",
      .run = run_batch_matmul,
      .workspace = cublaslt_workspace,
      .supports = supports_batch_matmul },
    { 0 },
};
