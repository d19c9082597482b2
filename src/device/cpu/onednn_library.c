/* onednn_library.c - the only file that includes dnnl.h. An operation is a list of primitives: a product is
 * one; a convolution chooses its own layouts, and has a reorder for each operand that it needs in another
 * layout. Operations are made when a step is compiled (`supports` asks for them) and are kept in a list by
 * shape, because making one generates machine code and takes up to milliseconds. The caller provides scratch
 * memory. */
#ifdef LS_HAVE_ONEDNN
#include <dlfcn.h>
#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/check.h"
#include "base/sys.h"
#include "onednn.h"

/* The library is loaded when kernels: onednn is asked for; until then this table is empty. All calls go
 * through it. */
#define COMMON(X)                                                                \
    X(dnnl_engine_create)                                                        \
    X(dnnl_stream_create)                                                        \
    X(dnnl_stream_wait)                                                          \
    X(dnnl_primitive_attr_create)                                                \
    X(dnnl_primitive_attr_set_scratchpad_mode)                                   \
    X(dnnl_memory_create)                                                        \
    X(dnnl_memory_set_data_handle)                                               \
    X(dnnl_memory_desc_get_size)                                                 \
    X(dnnl_memory_desc_equal) X(dnnl_primitive_create) X(dnnl_primitive_execute) \
        X(dnnl_primitive_desc_destroy) X(dnnl_primitive_desc_query_md) X(dnnl_reorder_primitive_desc_create)
#if DNNL_VERSION_MAJOR >= 3
#define FUNCTIONS(X)                                        \
    COMMON(X)                                               \
    X(dnnl_memory_desc_destroy)                             \
    X(dnnl_memory_desc_create_with_strides)                 \
    X(dnnl_memory_desc_create_with_tag)                     \
    X(dnnl_matmul_primitive_desc_create)                    \
    X(dnnl_convolution_forward_primitive_desc_create)       \
    X(dnnl_convolution_backward_data_primitive_desc_create) \
    X(dnnl_convolution_backward_weights_primitive_desc_create)
#else
#define FUNCTIONS(X)                                    \
    COMMON(X)                                           \
    X(dnnl_memory_desc_init_by_strides)                 \
    X(dnnl_memory_desc_init_by_tag)                     \
    X(dnnl_matmul_desc_init)                            \
    X(dnnl_primitive_desc_create)                       \
    X(dnnl_dilated_convolution_forward_desc_init)       \
    X(dnnl_dilated_convolution_backward_data_desc_init) \
    X(dnnl_dilated_convolution_backward_weights_desc_init)
#endif
#define FIELD(name) __typeof__(name) *name;
static struct {
    FUNCTIONS(FIELD)
} lib;
#define dnnl(name) (lib.dnnl_##name)
#define TEXT_OF(x) #x
#define SONAME(major) "libdnnl.so." TEXT_OF(major)

static pthread_once_t opening = PTHREAD_ONCE_INIT;
static char refusal[512]; /* why the library cannot be used; "": it can */

static void open_library(void)
{
    void *library = dlopen(SONAME(DNNL_VERSION_MAJOR), RTLD_NOW | RTLD_LOCAL); /* never closed */
    if (!library) {
        snprintf(refusal, sizeof refusal, "%s", dlerror());
        return;
    }
#define FIND(name)                                                             \
    if (!(lib.name = __extension__(__typeof__(name) *) dlsym(library, #name))) \
        snprintf(refusal, sizeof refusal, "%s has no function %s", SONAME(DNNL_VERSION_MAJOR), #name);
    FUNCTIONS(FIND)
}

ls_status ls_onednn_open(void)
{
    pthread_once(&opening, open_library);
    if (refusal[0])
        return ls_fail(
            LS_E_UNSUPPORTED,
            "kernels: onednn needs oneDNN, which cannot be opened here (%s); install it, or use kernels: own",
            refusal);
    return LS_OK;
}

enum { MOST_STEPS = ONEDNN_OPERANDS + 1, MOST_ARGS = ONEDNN_OPERANDS + 1, MOST_PLACES = 4 * ONEDNN_OPERANDS };
enum { BLOCKED = -1, SCRATCHPAD = -2 };

/* What a primitive reads or writes: an operand of the caller (its number), or scratch memory: a blocked copy,
 * or the scratchpad. */
typedef struct place {
    dnnl_memory_t memory;
    int operand;
    size_t offset;
} place;

typedef struct step {
    dnnl_primitive_t primitive;
    int n;
    dnnl_exec_arg_t args[MOST_ARGS];
} step;

struct onednn_op {
    onednn_key key;
    /* false: the library refused to make it; that is remembered, with what had been made until then */
    bool works;
    int n_steps, n_places;
    step steps[MOST_STEPS];
    place places[MOST_PLACES];  /* memory objects, which get their addresses for each run */
    size_t blocked, scratchpad; /* bytes: of all blocked copies; of the largest scratchpad */
    onednn_op *next;
};

/* guards everything below, and the operations' memory objects during a run */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static onednn_op *ops;
static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_primitive_attr_t attr; /* the caller provides scratchpads */

static bool onednn_start(void)
{
    return ls_onednn_open() == LS_OK &&
           (engine || dnnl(engine_create)(&engine, dnnl_cpu, 0) == dnnl_success) &&
           (stream || dnnl(stream_create)(&stream, engine, dnnl_stream_default_flags) == dnnl_success) &&
           (attr ||
            (dnnl(primitive_attr_create)(&attr) == dnnl_success &&
             dnnl(primitive_attr_set_scratchpad_mode)(attr, dnnl_scratchpad_mode_user) == dnnl_success));
}

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t layout; /* NULL: none */
typedef const_dnnl_memory_desc_t const_layout;
#define LAYOUT(l) (l)
#define FORGET(l) ((l) ? (void)dnnl(memory_desc_destroy)(l) : (void)0)
#define WITH_STRIDES dnnl(memory_desc_create_with_strides)
#define WITH_TAG dnnl(memory_desc_create_with_tag)
#else
typedef dnnl_memory_desc_t layout; /* ndims 0: none */
typedef const dnnl_memory_desc_t *const_layout;
#define LAYOUT(l) (&(l))
#define FORGET(l) ((void)(l))
#define WITH_STRIDES dnnl(memory_desc_init_by_strides)
#define WITH_TAG dnnl(memory_desc_init_by_tag)
#endif

static dnnl_data_type_t type_of(ls_dtype t)
{
    return t == LS_F32 ? dnnl_f32 : t == LS_BF16 ? dnnl_bf16 : dnnl_f16;
}

/* ---- the steps of an operation */

static dnnl_memory_t add_place(onednn_op *o, const_layout l, int operand)
{
    LS_CHECK(o->n_places < MOST_PLACES, "too many operands of a oneDNN operation");
    place *p = &o->places[o->n_places];
    const size_t bytes = (dnnl(memory_desc_get_size)(l) + 63) / 64 * 64;
    *p = (place){ .operand = operand, .offset = operand == BLOCKED ? o->blocked : 0 };
    if (dnnl(memory_create)(&p->memory, l, engine, DNNL_MEMORY_NONE) != dnnl_success)
        return NULL;
    o->n_places++;
    if (operand == BLOCKED)
        o->blocked += bytes;
    else if (operand == SCRATCHPAD && bytes > o->scratchpad)
        o->scratchpad = bytes;
    return p->memory;
}

/* (without memory for its arguments, the operation fails) */
static bool add_step(onednn_op *o, dnnl_primitive_desc_t pd, int n, const dnnl_exec_arg_t *args)
{
    step *s = &o->steps[o->n_steps];
    LS_CHECK(o->n_steps < MOST_STEPS && n < MOST_ARGS, "too many steps of a oneDNN operation");
    memcpy(s->args, args, sizeof *args * (size_t)n);
    s->n = n;
    const_layout scratchpad = dnnl(primitive_desc_query_md)(pd, dnnl_query_scratchpad_md, 0);
    if (scratchpad && dnnl(memory_desc_get_size)(scratchpad))
        s->args[s->n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, add_place(o, scratchpad, SCRATCHPAD) };
    bool ok = dnnl(primitive_create)(&s->primitive, pd) == dnnl_success;
    for (int i = 0; i < s->n; i++)
        ok = ok && s->args[i].memory;
    o->n_steps++;
    return ok;
}

static bool add_reorder(onednn_op *o, const_layout from, dnnl_memory_t source, const_layout to,
                        dnnl_memory_t target)
{
    dnnl_primitive_desc_t pd;
    if (dnnl(reorder_primitive_desc_create)(&pd, from, engine, to, engine, attr) != dnnl_success)
        return false;
    const bool ok = add_step(o, pd, 2,
                             (dnnl_exec_arg_t[]){ { DNNL_ARG_FROM, source }, { DNNL_ARG_TO, target } });
    dnnl(primitive_desc_destroy)(pd);
    return ok;
}

/* ---- products */

static bool describe_matrix(layout *l, ls_dtype t, int64_t rows, int64_t cols, int64_t row_step,
                            int64_t col_step)
{
    const dnnl_dims_t dims = { rows, cols }, strides = { row_step, col_step };
    return WITH_STRIDES(l, 2, dims, type_of(t), strides) == dnnl_success;
}

static bool describe_product(dnnl_primitive_desc_t *pd, const_layout a, const_layout b, const_layout c)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl(matmul_primitive_desc_create)(pd, engine, a, b, NULL, c, attr) == dnnl_success;
#else
    dnnl_matmul_desc_t op;
    return dnnl(matmul_desc_init)(&op, a, b, NULL, c) == dnnl_success &&
           dnnl(primitive_desc_create)(pd, &op, attr, engine, NULL) == dnnl_success;
#endif
}

static bool make_product(onednn_op *o)
{
    static const int slots[3] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
    const onednn_product *k = &o->key.product;
    layout l[3] = { 0 };
    dnnl_exec_arg_t args[3];
    dnnl_primitive_desc_t pd = NULL;
    bool ok = describe_matrix(&l[0], o->key.dtype, k->m, k->k, k->a_rows, k->a_cols) &&
              describe_matrix(&l[1], o->key.dtype, k->k, k->n, k->b_rows, k->b_cols) &&
              describe_matrix(&l[2], LS_F32, k->m, k->n, k->n, 1) &&
              describe_product(&pd, LAYOUT(l[0]), LAYOUT(l[1]), LAYOUT(l[2]));
    for (int i = 0; ok && i < 3; i++)
        args[i] = (dnnl_exec_arg_t){ slots[i], add_place(o, LAYOUT(l[i]), i) };
    ok = ok && add_step(o, pd, 3, args);
    dnnl(primitive_desc_destroy)(pd);
    for (int i = 0; i < 3; i++)
        FORGET(l[i]);
    return ok;
}

/* ---- convolutions */

enum { X, W, BIAS, Y, TENSORS };

/* The roles of the operands of y, dx and dw, inputs first. */
static const struct role {
    int slot, tensor;
    bool result;
} ROLES[3][ONEDNN_OPERANDS] = {
    [LS_CONV_Y] = { { DNNL_ARG_SRC, X, false },
                    { DNNL_ARG_WEIGHTS, W, false },
                    { DNNL_ARG_BIAS, BIAS, false },
                    { DNNL_ARG_DST, Y, true } },
    [LS_CONV_DX] = { { DNNL_ARG_DIFF_DST, Y, false },
                     { DNNL_ARG_WEIGHTS, W, false },
                     { DNNL_ARG_DIFF_SRC, X, true } },
    [LS_CONV_DW] = { { DNNL_ARG_DIFF_DST, Y, false },
                     { DNNL_ARG_SRC, X, false },
                     { DNNL_ARG_DIFF_WEIGHTS, W, true },
                     { DNNL_ARG_DIFF_BIAS, BIAS, true } },
};

/* The layout of an operand: the order that all our kernels use; or any: the library chooses. */
static bool describe_tensor(layout *l, const onednn_key *key, int tensor, bool any)
{
    const ls_conv *s = &key->conv.s;
    const int64_t g = s->at.groups;
    const dnnl_dims_t all[TENSORS] = { [X] = { s->n, s->c, s->h, s->w },
                                       [W] = { g, s->o / g, s->c / g, s->kh, s->kw },
                                       [BIAS] = { s->o },
                                       [Y] = { s->n, s->o, s->oh, s->ow } };
    const bool grouped = tensor == W && g > 1;
    /* with one group, the library's kernel lacks the dimension of groups */
    const int64_t *dims = all[tensor] + (tensor == W && !grouped);
    const int n = tensor == BIAS ? 1 : grouped ? 5 : 4;
    const dnnl_data_type_t type = type_of(key->dtype);
    dnnl_dims_t strides;
    for (int64_t d = n - 1, stride = 1; d >= 0; stride *= dims[d--])
        strides[d] = stride;
    return (any ? WITH_TAG(l, n, dims, type, dnnl_format_tag_any)
                : WITH_STRIDES(l, n, dims, type, strides)) == dnnl_success;
}

/* forward: the description of y, which the descriptions of gradients need. */
static bool describe_conv(dnnl_primitive_desc_t *pd, const onednn_conv *c, ls_conv_kind kind, const_layout x,
                          const_layout w, const_layout bias, const_layout y, dnnl_primitive_desc_t forward)
{
    const ls_conv_attrs *at = &c->s.at;
    const dnnl_dims_t by = { at->stride_h, at->stride_w }, pad = { at->pad_h, at->pad_w };
    const dnnl_dims_t gap = { at->dilation_h - 1, at->dilation_w - 1 };
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_status_t s;
#if DNNL_VERSION_MAJOR >= 3
    if (kind == LS_CONV_Y)
        s = dnnl(convolution_forward_primitive_desc_create)(pd, engine, dnnl_forward_training, direct, x, w,
                                                            bias, y, by, gap, pad, pad, attr);
    else if (kind == LS_CONV_DX)
        s = dnnl(convolution_backward_data_primitive_desc_create)(pd, engine, direct, x, w, y, by, gap, pad,
                                                                  pad, forward, attr);
    else
        s = dnnl(convolution_backward_weights_primitive_desc_create)(pd, engine, direct, x, w, bias, y, by,
                                                                     gap, pad, pad, forward, attr);
#else
    dnnl_convolution_desc_t op;
    if (kind == LS_CONV_Y)
        s = dnnl(dilated_convolution_forward_desc_init)(&op, dnnl_forward_training, direct, x, w, bias, y, by,
                                                        gap, pad, pad);
    else if (kind == LS_CONV_DX)
        s = dnnl(dilated_convolution_backward_data_desc_init)(&op, direct, x, w, y, by, gap, pad, pad);
    else
        s = dnnl(dilated_convolution_backward_weights_desc_init)(&op, direct, x, w, bias, y, by, gap, pad,
                                                                 pad);
    if (s == dnnl_success)
        s = dnnl(primitive_desc_create)(pd, &op, attr, engine, forward);
#endif
    return s == dnnl_success;
}

/* Adds reorders to the layouts that pd chose, the convolution, and reorders back. */
static bool add_conv(onednn_op *o, dnnl_primitive_desc_t pd, layout plain[TENSORS])
{
    const struct role *roles = ROLES[o->key.conv.kind];
    const_layout wanted[ONEDNN_OPERANDS];
    dnnl_memory_t theirs[ONEDNN_OPERANDS]; /* the caller's operands */
    dnnl_exec_arg_t args[ONEDNN_OPERANDS];
    struct role role[ONEDNN_OPERANDS];
    int n = 0;
    bool ok = true;
    for (int i = 0; i < ONEDNN_OPERANDS; i++)
        if (roles[i].slot && (roles[i].tensor != BIAS || o->key.conv.s.at.bias))
            role[n++] = roles[i];
    for (int i = 0; i < n; i++) {
        const_layout given = LAYOUT(plain[role[i].tensor]);
        wanted[i] = dnnl(primitive_desc_query_md)(pd, dnnl_query_exec_arg_md, role[i].slot);
        theirs[i] = add_place(o, given, i);
        const bool same = dnnl(memory_desc_equal)(given, wanted[i]);
        args[i] = (dnnl_exec_arg_t){ role[i].slot, same ? theirs[i] : add_place(o, wanted[i], BLOCKED) };
        if (!same && !role[i].result)
            ok = ok && add_reorder(o, given, theirs[i], wanted[i], args[i].memory);
    }
    ok = ok && add_step(o, pd, n, args);
    for (int i = 0; i < n; i++)
        if (role[i].result && args[i].memory != theirs[i])
            ok = ok && add_reorder(o, wanted[i], args[i].memory, LAYOUT(plain[role[i].tensor]), theirs[i]);
    return ok;
}

static bool make_conv(onednn_op *o)
{
    const ls_conv_kind kind = (ls_conv_kind)o->key.conv.kind;
    layout plain[TENSORS] = { 0 }, any[TENSORS] = { 0 };
    dnnl_primitive_desc_t forward = NULL, pd = NULL;
    bool ok = true;
    for (int t = 0; t < TENSORS; t++)
        ok = ok && describe_tensor(&plain[t], &o->key, t, false) &&
             describe_tensor(&any[t], &o->key, t, t != BIAS);
    const_layout bias = o->key.conv.s.at.bias ? LAYOUT(any[BIAS]) : NULL;
    ok = ok && describe_conv(&forward, &o->key.conv, LS_CONV_Y, LAYOUT(any[X]), LAYOUT(any[W]), bias,
                             LAYOUT(any[Y]), NULL);
    if (kind != LS_CONV_Y)
        ok = ok && describe_conv(&pd, &o->key.conv, kind, LAYOUT(any[X]), LAYOUT(any[W]), bias,
                                 LAYOUT(any[Y]), forward);
    ok = ok && add_conv(o, pd ? pd : forward, plain);
    dnnl(primitive_desc_destroy)(pd);
    dnnl(primitive_desc_destroy)(forward);
    for (int t = 0; t < TENSORS; t++) {
        FORGET(plain[t]);
        FORGET(any[t]);
    }
    return ok;
}

/* ---- all operations */

/* The library asks OpenMP how many threads it may use, both when a primitive is made and when it runs. */
static int use_threads(int threads)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
}

onednn_op *ls_onednn_find(const onednn_key *key)
{
    pthread_mutex_lock(&lock);
    onednn_op *o = ops;
    while (o && memcmp(&o->key, key, sizeof *key) != 0)
        o = o->next;
    if (!o) {
        o = ls_sys_calloc(1, sizeof *o);
        if (!o) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        memcpy(&o->key, key, sizeof *key);
        const int before = use_threads(key->threads);
        o->works = onednn_start() && (key->kind == ONEDNN_CONV ? make_conv(o) : make_product(o));
        omp_set_num_threads(before);
        o->next = ops;
        ops = o;
    }
    pthread_mutex_unlock(&lock);
    return o->works ? o : NULL;
}

size_t ls_onednn_scratch(const onednn_op *o) { return o->blocked + o->scratchpad; }

void ls_onednn_run(onednn_op *o, const void *const operands[ONEDNN_OPERANDS], void *scratch)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < o->n_places; i++) {
        const place *p = &o->places[i];
        char *in_scratch = (char *)scratch + (p->operand == BLOCKED ? p->offset : o->blocked);
        dnnl(memory_set_data_handle)(p->memory,
                                     p->operand < 0 ? in_scratch : (void *)(uintptr_t)operands[p->operand]);
    }
    const int before = use_threads(o->key.threads);
    dnnl_status_t s = dnnl_success;
    for (int i = 0; i < o->n_steps && s == dnnl_success; i++)
        s = dnnl(primitive_execute)(o->steps[i].primitive, stream, o->steps[i].n, o->steps[i].args);
    LS_CHECK(s == dnnl_success && dnnl(stream_wait)(stream) == dnnl_success,
             "oneDNN refused to run what it made (%d)", (int)s);
    omp_set_num_threads(before);
    pthread_mutex_unlock(&lock);
}
#else
typedef int ls_onednn_not_built;
#endif
