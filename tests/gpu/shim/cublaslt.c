/* cublaslt.c - the shim's libcublasLt.so.13: checks each argument by the rules of the vendor's header and
 * documentation, or stricter, says what is wrong, and puts the product into a stream of the shim's
 * libcuda.so.1.
 *
 * Its heuristic gives algorithms that differ in what a caller must not forget: the first result is none, the
 * next one adds in place in another order each time, if the caller allows it; then one that needs workspace.
 * Each is for one product and for addresses that are aligned as the caller said. */
#define _GNU_SOURCE
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cublaslt.h"
#include "device/cuda/cublaslt.h"

#define DECLARE(field, symbol, arguments) EXPORT lt_status symbol arguments;
LT_FUNCTIONS(DECLARE)
EXPORT size_t cublasLtGetVersion(void);
EXPORT const char *cublasLtGetStatusName(lt_status r);

enum { PARTS = 4, WORKSPACE_ALIGN = 256, MAGIC = 0x17a19 };

typedef enum kind { HANDLE, OPERATION, LAYOUT, PREFERENCE, KINDS } kind;
static const char *const KIND_NAMES[] = { "handles", "operations", "layouts", "preferences" };
typedef struct object {
    kind kind;
    struct object *next;
} object;
struct lt_handle_st {
    object o;
};
struct lt_operation_st {
    object o;
    int32_t trans[2];
    uint32_t epilogue;
    uint64_t bias;
    int32_t bias_type;
};
struct lt_layout_st {
    object o;
    int32_t type, batch;
    uint64_t rows, columns;
    int64_t ld, step;
};
struct lt_preference_st {
    object o;
    uint64_t workspace;
    uint32_t reductions, align[4];
};

static object *objects;
static uint64_t products;
static pid_t process;

/* ---- objects (all under the lock of this library) */

static lt_status add(void *made, size_t bytes, kind k, const void *like)
{
    object *o = malloc(bytes);
    if (!o || !made)
        abort();
    memcpy(o, like, bytes);
    shim_lock();
    *o = (object){ k, objects };
    objects = o;
    process = getpid();
    shim_unlock();
    memcpy(made, &o, sizeof o);
    return LT_SUCCESS;
}

static bool is_live(const void *p, kind k)
{
    shim_lock();
    const object *o = objects;
    while (o && o != p)
        o = o->next;
    shim_unlock();
    return o && o->kind == k;
}

static lt_status drop(const char *function, void *p, kind k)
{
    if (!is_live(p, k))
        return shim_wrong(LT_INVALID_VALUE, function, "it is none of the %s that there are", KIND_NAMES[k]);
    shim_lock();
    object **link = &objects;
    while (*link != p)
        link = &(*link)->next;
    *link = (*link)->next;
    shim_unlock();
    free(p);
    return LT_SUCCESS;
}
#define LIVE(p, k)          \
    if (!is_live((p), (k))) \
    return WRONG(LT_INVALID_VALUE, "%s is none of the %s that there are", #p, KIND_NAMES[k])

/* LOCKSTEP_SHIM=leaks. The handle stays to the end of a process, as a context does. */
static __attribute__((destructor)) void say_leaks(void)
{
    int n[KINDS] = { 0 }, any = 0;
    for (const object *o = objects; o; o = o->next)
        n[o->kind]++;
    if (!objects || process != getpid() || !shim_read_settings().leaks)
        return;
    for (int k = OPERATION; k < KINDS; k++)
        any += n[k] && fprintf(stderr, "shim: %d %s of cuBLASLt were not returned\n", n[k], KIND_NAMES[k]);
    if (any)
        _exit(86);
}

static lt_status set(const char *function, void *to, size_t size, const void *value, size_t bytes)
{
    if (!value || bytes != size)
        return shim_wrong(LT_INVALID_VALUE, function, "%zu bytes at %p instead of %zu", bytes, value, size);
    memcpy(to, value, bytes);
    return LT_SUCCESS;
}
#define SET(member) return set(__func__, &(member), sizeof(member), value, bytes)
#define NO_ATTRIBUTE() return WRONG(LT_INVALID_VALUE, "the shim does not know attribute %d", attribute)

size_t cublasLtGetVersion(void) { return (size_t)shim_read_settings().cublaslt; }

const char *cublasLtGetStatusName(lt_status r)
{
    return r == LT_SUCCESS           ? "CUBLAS_STATUS_SUCCESS"
           : r == LT_NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED"
           : r == LT_INVALID_VALUE   ? "CUBLAS_STATUS_INVALID_VALUE"
           : r == LT_NOT_SUPPORTED   ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                     : "CUBLAS_STATUS_EXECUTION_FAILED";
}

lt_status cublasLtCreate(lt_handle *out)
{
    if (shim_library_enter())
        return WRONG(LT_NOT_INITIALIZED, "no context is current in this thread");
    return add(out, sizeof **out, HANDLE, &(struct lt_handle_st){ 0 });
}

lt_status cublasLtMatmulDescCreate(lt_operation *out, int compute, int scale_type)
{
    if (compute != LT_COMPUTE_32F || scale_type != LT_R_32F)
        return WRONG(LT_INVALID_VALUE, "the shim computes in f32 (%d, %d), not in %d, %d", LT_COMPUTE_32F,
                     LT_R_32F, compute, scale_type);
    return add(out, sizeof **out, OPERATION,
               &(struct lt_operation_st){ .epilogue = LT_EPILOGUE_DEFAULT, .bias_type = -1 });
}
lt_status cublasLtMatmulDescDestroy(lt_operation o) { return drop(__func__, o, OPERATION); }
lt_status cublasLtMatmulDescSetAttribute(lt_operation o, int attribute, const void *value, size_t bytes)
{
    LIVE(o, OPERATION);
    switch (attribute) {
    case LT_OPERATION_TRANS_A: SET(o->trans[0]);
    case LT_OPERATION_TRANS_B: SET(o->trans[1]);
    case LT_OPERATION_EPILOGUE: SET(o->epilogue);
    case LT_OPERATION_BIAS_POINTER: SET(o->bias);
    case LT_OPERATION_BIAS_TYPE: SET(o->bias_type);
    default: NO_ATTRIBUTE();
    }
}

lt_status cublasLtMatrixLayoutCreate(lt_layout *out, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    return add(
        out, sizeof **out, LAYOUT,
        &(struct lt_layout_st){ .type = type, .batch = 1, .rows = rows, .columns = columns, .ld = ld });
}
lt_status cublasLtMatrixLayoutDestroy(lt_layout l) { return drop(__func__, l, LAYOUT); }
lt_status cublasLtMatrixLayoutSetAttribute(lt_layout l, int attribute, const void *value, size_t bytes)
{
    LIVE(l, LAYOUT);
    switch (attribute) {
    case LT_LAYOUT_BATCH_COUNT: SET(l->batch);
    case LT_LAYOUT_BATCH_STRIDE: SET(l->step);
    default: NO_ATTRIBUTE();
    }
}

lt_status cublasLtMatmulPreferenceCreate(lt_preference *out)
{
    return add(out, sizeof **out, PREFERENCE,
               &(struct lt_preference_st){ .reductions = 7, .align = { 256, 256, 256, 256 } });
}
lt_status cublasLtMatmulPreferenceDestroy(lt_preference p) { return drop(__func__, p, PREFERENCE); }
lt_status cublasLtMatmulPreferenceSetAttribute(lt_preference p, int attribute, const void *value,
                                               size_t bytes)
{
    LIVE(p, PREFERENCE);
    switch (attribute) {
    case LT_PREFERENCE_WORKSPACE: SET(p->workspace);
    case LT_PREFERENCE_REDUCTIONS: SET(p->reductions);
    case LT_PREFERENCE_ALIGNMENT_A:
    case LT_PREFERENCE_ALIGNMENT_A + 1:
    case LT_PREFERENCE_ALIGNMENT_A + 2:
    case LT_PREFERENCE_ALIGNMENT_A + 3: SET(p->align[attribute - LT_PREFERENCE_ALIGNMENT_A]);
    default: NO_ATTRIBUTE();
    }
}

/* ---- what a product is */

static size_t size_of(int32_t type) { return type == LT_R_32F ? 4 : 2; }

/* Whether a matrix is one that there may be. */
static lt_status check_layout(const char *function, const char *name, const struct lt_layout_st *l)
{
    if (l->type != LT_R_32F && l->type != LT_R_16F && l->type != LT_R_16BF)
        return shim_wrong(LT_NOT_SUPPORTED, function, "%s: type %d", name, l->type);
    if (l->rows < 1 || l->columns < 1 || l->rows > INT32_MAX || l->columns > INT32_MAX || l->batch < 1)
        return shim_wrong(LT_INVALID_VALUE, function, "%s: %llu x %llu, %d matrices", name,
                          (unsigned long long)l->rows, (unsigned long long)l->columns, l->batch);
    if (l->ld < (int64_t)l->rows)
        return shim_wrong(LT_INVALID_VALUE, function, "%s: columns are %lld apart and have %llu rows", name,
                          (long long)l->ld, (unsigned long long)l->rows);
    if (l->batch > 1 && (l->step < 0 || (*name == 'D' && l->step < l->ld * (int64_t)l->columns)))
        return shim_wrong(LT_INVALID_VALUE, function, "%s: matrices are %lld apart", name,
                          (long long)l->step);
    return LT_SUCCESS;
}

static lt_status check_shapes(const char *function, const struct lt_operation_st *o,
                              const struct lt_layout_st *const l[4])
{
    static const char *const NAMES[] = { "A", "B", "C", "D" };
    for (int i = 0; i < 4; i++) {
        const lt_status r = check_layout(function, NAMES[i], l[i]);
        if (r != LT_SUCCESS)
            return r;
        if (l[i]->batch != l[3]->batch)
            return shim_wrong(LT_INVALID_VALUE, function, "%s has %d matrices, D has %d", NAMES[i],
                              l[i]->batch, l[3]->batch);
    }
    if (l[0]->type != l[1]->type || l[2]->type != l[3]->type || l[0]->type != l[3]->type)
        return shim_wrong(LT_NOT_SUPPORTED, function, "types %d, %d, %d, %d are not one", l[0]->type,
                          l[1]->type, l[2]->type, l[3]->type);
    if ((o->trans[0] | o->trans[1]) & ~1)
        return shim_wrong(LT_INVALID_VALUE, function, "transpositions %d, %d", o->trans[0], o->trans[1]);
    const uint64_t m = o->trans[0] ? l[0]->columns : l[0]->rows,
                   ka = o->trans[0] ? l[0]->rows : l[0]->columns,
                   kb = o->trans[1] ? l[1]->columns : l[1]->rows,
                   n = o->trans[1] ? l[1]->rows : l[1]->columns;
    if (ka != kb || m != l[3]->rows || n != l[3]->columns || m != l[2]->rows || n != l[2]->columns)
        return shim_wrong(LT_INVALID_VALUE, function, "%llu x %llu times %llu x %llu is not %llu x %llu",
                          (unsigned long long)m, (unsigned long long)ka, (unsigned long long)kb,
                          (unsigned long long)n, (unsigned long long)l[3]->rows,
                          (unsigned long long)l[3]->columns);
    if (o->epilogue != LT_EPILOGUE_DEFAULT && o->epilogue != LT_EPILOGUE_BIAS)
        return shim_wrong(LT_NOT_SUPPORTED, function, "the shim has no epilogue %u", o->epilogue);
    if (o->epilogue == LT_EPILOGUE_BIAS && (!o->bias || (o->bias_type != -1 && o->bias_type != l[3]->type)))
        return shim_wrong(LT_INVALID_VALUE, function, "a bias at %#llx of type %d; D has type %d",
                          (unsigned long long)o->bias, o->bias_type, l[3]->type);
    return LT_SUCCESS;
}

/* One number for all of a product but its addresses. */
static uint64_t identity(const struct lt_operation_st *o, const struct lt_layout_st *const l[4])
{
    uint64_t h = UINT64_C(14695981039346656037);
    const int64_t words[] = { o->trans[0], o->trans[1], o->epilogue };
    for (int i = 0; i < 3; i++)
        h = (h ^ (uint64_t)words[i]) * UINT64_C(1099511628211);
    for (int i = 0; i < 4; i++) {
        const int64_t of[] = { l[i]->type, l[i]->batch, (int64_t)l[i]->rows, (int64_t)l[i]->columns,
                               l[i]->ld,   l[i]->step };
        for (int j = 0; j < 6; j++)
            h = (h ^ (uint64_t)of[j]) * UINT64_C(1099511628211);
    }
    return h;
}

/* ---- algorithms: what is in their words */

enum { IS, FOR, REDUCTION, DEPTH_PARTS, NEEDS, BIAS_ALIGN, ALIGN_AB, ALIGN_CD };

static uint64_t lowest_bit(uint64_t x) { return (x | 256) & -(x | 256); }

lt_status cublasLtMatmulAlgoGetHeuristic(lt_handle h, lt_operation o, lt_layout a, lt_layout b, lt_layout c,
                                         lt_layout d, lt_preference p, int most, lt_choice *list, int *n)
{
    LIVE(h, HANDLE);
    LIVE(o, OPERATION);
    LIVE(a, LAYOUT);
    LIVE(b, LAYOUT);
    LIVE(c, LAYOUT);
    LIVE(d, LAYOUT);
    LIVE(p, PREFERENCE);
    const struct lt_layout_st *const l[] = { a, b, c, d };
    const lt_status r = check_shapes(__func__, o, l);
    *n = 0;
    if (r != LT_SUCCESS || most < 1)
        return r == LT_SUCCESS ? LT_INVALID_VALUE : r;
    const uint64_t k = o->trans[0] ? a->rows : a->columns,
                   parts = PARTS * d->rows * d->columns * (uint64_t)d->batch * sizeof(float);
    const struct {
        bool offered;
        uint64_t reduction, parts, needs;
    } all[] = { { (p->reductions & LT_REDUCTION_INPLACE) != 0, LT_REDUCTION_INPLACE, PARTS, parts },
                { p->reductions & LT_REDUCTION_COMPUTE_TYPE && k >= 2 * PARTS && parts <= p->workspace,
                  LT_REDUCTION_COMPUTE_TYPE, PARTS, parts },
                { true, 0, 1, 0 } };
    if (most > 1)
        list[(*n)++] = (lt_choice){ .state = LT_NOT_SUPPORTED };
    for (int i = 0; i < 3 && *n < most; i++)
        if (all[i].offered)
            list[(*n)++] = (lt_choice){
                .algorithm = { { [IS] = MAGIC,
                                 [FOR] = identity(o, l),
                                 [REDUCTION] = all[i].reduction,
                                 [DEPTH_PARTS] = all[i].parts,
                                 [NEEDS] = all[i].needs,
                                 [BIAS_ALIGN] = o->epilogue == LT_EPILOGUE_BIAS ? lowest_bit(o->bias) : 1,
                                 [ALIGN_AB] = (uint64_t)p->align[0] << 32 | p->align[1],
                                 [ALIGN_CD] = (uint64_t)p->align[2] << 32 | p->align[3] } },
                .workspace = all[i].needs,
                .waves = 1
            };
    return LT_SUCCESS;
}

/* ---- a product */

typedef struct range {
    const char *name;
    uint64_t at, end;
} range;

/* Where a matrix lies: in device memory, aligned as the algorithm wants it. */
static lt_status place(range *out, const char *function, const char *name, const void *p, size_t bytes,
                       uint64_t align)
{
    *out = (range){ name, (uint64_t)(uintptr_t)p, (uint64_t)(uintptr_t)p + bytes };
    if (!shim_library_has(out->at, bytes))
        return shim_wrong(LT_INVALID_VALUE, function, "%s: %zu bytes at %p are not within device memory",
                          name, bytes, p);
    if (out->at % align)
        return shim_wrong(LT_INVALID_VALUE, function, "%s at %p is not a multiple of %llu bytes", name, p,
                          (unsigned long long)align);
    return LT_SUCCESS;
}

static size_t bytes_of(const struct lt_layout_st *l)
{
    return (size_t)((l->batch - 1) * l->step + ((int64_t)l->columns - 1) * l->ld + (int64_t)l->rows) *
           size_of(l->type);
}

static bool meet(const range *x, const range *y) { return x->at < y->end && y->at < x->end; }

/* The address of each, and that nothing that is written meets anything else. */
static lt_status check_places(const char *function, const struct lt_operation_st *o,
                              const struct lt_layout_st *const l[4], const void *const at[4], bool with_c,
                              const lt_algorithm *t, void *workspace, size_t workspace_bytes)
{
    static const char *const NAMES[] = { "A", "B", "C", "D" };
    const uint64_t align[] = { t->data[ALIGN_AB] >> 32, t->data[ALIGN_AB] & UINT32_MAX,
                               t->data[ALIGN_CD] >> 32, t->data[ALIGN_CD] & UINT32_MAX };
    range all[6] = { { 0 } };
    lt_status r = LT_SUCCESS;
    for (int i = 0; i < 4 && r == LT_SUCCESS; i++)
        if (i != 2 || with_c)
            r = place(&all[i], function, NAMES[i], at[i], bytes_of(l[i]), align[i]);
    if (r == LT_SUCCESS && o->epilogue == LT_EPILOGUE_BIAS)
        r = place(&all[4], function, "the bias", (void *)(uintptr_t)o->bias, l[3]->rows * size_of(l[3]->type),
                  t->data[BIAS_ALIGN]);
    if (r == LT_SUCCESS && workspace_bytes)
        r = place(&all[5], function, "the workspace", workspace, workspace_bytes, WORKSPACE_ALIGN);
    if (r != LT_SUCCESS)
        return r;
    if (workspace_bytes < t->data[NEEDS])
        return shim_wrong(LT_INVALID_VALUE, function, "%zu bytes of workspace; the algorithm needs %llu",
                          workspace_bytes, (unsigned long long)t->data[NEEDS]);
    const bool in_place = at[2] == at[3] && l[2]->ld == l[3]->ld && l[2]->step == l[3]->step;
    for (int i = 0; i < 6; i++)
        for (int w = 3; w < 6; w += 2)
            if (i != w && all[i].name && all[w].name && meet(&all[i], &all[w]) &&
                !(i == 2 && w == 3 && in_place))
                return shim_wrong(LT_INVALID_VALUE, function, "%s and %s overlap", all[i].name, all[w].name);
    return LT_SUCCESS;
}

lt_status cublasLtMatmul(lt_handle h, lt_operation o, const void *alpha, const void *pa, lt_layout a,
                         const void *pb, lt_layout b, const void *beta, const void *pc, lt_layout c, void *pd,
                         lt_layout d, const lt_algorithm *t, void *workspace, size_t workspace_bytes,
                         cu_stream s)
{
    LIVE(h, HANDLE);
    LIVE(o, OPERATION);
    LIVE(a, LAYOUT);
    LIVE(b, LAYOUT);
    LIVE(c, LAYOUT);
    LIVE(d, LAYOUT);
    const struct lt_layout_st *const l[] = { a, b, c, d };
    if (shim_library_enter())
        return WRONG(LT_NOT_INITIALIZED, "no context is current in this thread");
    if (!alpha || !beta || ((uint64_t)(uintptr_t)alpha | (uint64_t)(uintptr_t)beta) & EMULATED_DEVICE)
        return WRONG(LT_INVALID_VALUE, "alpha at %p and beta at %p are not the host's", alpha, beta);
    if (!t || t->data[IS] != MAGIC)
        return WRONG(LT_INVALID_VALUE, "no algorithm, or one that is not of a heuristic");
    lt_status r = check_shapes(__func__, o, l);
    if (r != LT_SUCCESS)
        return r;
    if (t->data[FOR] != identity(o, l))
        return WRONG(LT_INVALID_VALUE, "the algorithm is for another product");
    shim_product_args k = { .a = (uint64_t)(uintptr_t)pa,
                            .b = (uint64_t)(uintptr_t)pb,
                            .c = (uint64_t)(uintptr_t)pc,
                            .d = (uint64_t)(uintptr_t)pd,
                            .bias = o->epilogue == LT_EPILOGUE_BIAS ? o->bias : 0,
                            .workspace = (uint64_t)(uintptr_t)workspace,
                            .m = (long long)d->rows,
                            .n = (long long)d->columns,
                            .k = (long long)(o->trans[0] ? a->rows : a->columns),
                            .lda = a->ld,
                            .ldb = b->ld,
                            .ldc = c->ld,
                            .ldd = d->ld,
                            .step_a = a->step,
                            .step_b = b->step,
                            .step_c = c->step,
                            .step_d = d->step,
                            .batch = d->batch,
                            .parts = (long long)t->data[DEPTH_PARTS],
                            .type = d->type == LT_R_32F   ? SHIM_F32
                                    : d->type == LT_R_16F ? SHIM_F16
                                                          : SHIM_BF16,
                            .trans_a = o->trans[0],
                            .trans_b = o->trans[1] };
    memcpy(&k.alpha, alpha, sizeof k.alpha);
    memcpy(&k.beta, beta, sizeof k.beta);
    r = check_places(__func__, o, l, (const void *const[]){ pa, pb, pc, pd }, k.beta != 0, t, workspace,
                     workspace_bytes);
    if (r != LT_SUCCESS)
        return r;
    if (t->data[REDUCTION] == LT_REDUCTION_INPLACE)
        k.from = (long long)(__atomic_fetch_add(&products, 1, __ATOMIC_RELAXED) % PARTS);
    const long long elements = k.m * k.n * k.batch;
    return shim_library_launch(s, &shim_product_emulated,
                               (elements + SHIM_PRODUCT_THREADS - 1) / SHIM_PRODUCT_THREADS, &k)
               ? LT_EXECUTION_FAILED
               : LT_SUCCESS;
}
