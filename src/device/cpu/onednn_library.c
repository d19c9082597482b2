/* onednn_library.c - the only file that includes dnnl.h. Products are made when a step is compiled (`supports` asks for them) and kept
 * in a list by shape, because making one compiles machine code and takes up to milliseconds. Scratch memory is the caller's. */
#ifdef LS_HAVE_ONEDNN
#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/check.h"
#include "onednn.h"

struct onednn_product {
    onednn_key key;
    dnnl_primitive_t primitive; /* NULL: the library refused; remembered, too */
    dnnl_memory_t memory[4];    /* a, b, c, scratch; their data is set for each run */
    size_t scratch;
    onednn_product *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below, and the products' memory objects during a run */
static onednn_product *products;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

static bool start(void) {
    return (engine || dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success) &&
           (stream || dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) == dnnl_success);
}

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t const_layout;
#define LAYOUT(l) (l)
#else
typedef dnnl_memory_desc_t layout;
typedef const dnnl_memory_desc_t *const_layout;
#define LAYOUT(l) (&(l))
#endif

static bool describe(layout *l, ls_dtype t, int64_t rows, int64_t cols, int64_t row_step, int64_t col_step) {
    const dnnl_dims_t dims = { rows, cols }, strides = { row_step, col_step };
    const dnnl_data_type_t type = t == LS_F32 ? dnnl_f32 : t == LS_BF16 ? dnnl_bf16 : dnnl_f16;
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_strides(l, 2, dims, type, strides) == dnnl_success;
#else
    return dnnl_memory_desc_init_by_strides(l, 2, dims, type, strides) == dnnl_success;
#endif
}

static bool make_description(dnnl_primitive_desc_t *pd, const_layout a, const_layout b, const_layout c) {
    dnnl_primitive_attr_t attr = NULL;
    bool ok = dnnl_primitive_attr_create(&attr) == dnnl_success &&
              dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success;
#if DNNL_VERSION_MAJOR >= 3
    ok = ok && dnnl_matmul_primitive_desc_create(pd, engine, a, b, NULL, c, attr) == dnnl_success;
#else
    dnnl_matmul_desc_t op;
    ok = ok && dnnl_matmul_desc_init(&op, a, b, NULL, c) == dnnl_success &&
         dnnl_primitive_desc_create(pd, &op, attr, engine, NULL) == dnnl_success;
#endif
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return ok;
}

static void make(onednn_product *p) {
    const onednn_key *k = &p->key;
    layout l[3];
    dnnl_primitive_desc_t pd = NULL;
    if (!start() || !describe(&l[0], k->dtype, k->m, k->k, k->a_rows, k->a_cols) ||
        !describe(&l[1], k->dtype, k->k, k->n, k->b_rows, k->b_cols) || !describe(&l[2], LS_F32, k->m, k->n, k->n, 1) ||
        !make_description(&pd, LAYOUT(l[0]), LAYOUT(l[1]), LAYOUT(l[2])))
        return;
    const_layout scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    p->scratch = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    bool ok = dnnl_primitive_create(&p->primitive, pd) == dnnl_success;
    for (int i = 0; ok && i < 3; i++)
        ok = dnnl_memory_create(&p->memory[i], LAYOUT(l[i]), engine, DNNL_MEMORY_NONE) == dnnl_success;
    if (ok && p->scratch)
        ok = dnnl_memory_create(&p->memory[3], scratch, engine, DNNL_MEMORY_NONE) == dnnl_success;
    dnnl_primitive_desc_destroy(pd);
    if (!ok && p->primitive) {
        dnnl_primitive_destroy(p->primitive);
        p->primitive = NULL;
    }
}

/* The library asks OpenMP how many threads it may use, when a product is made and when it runs. */
static int use_threads(int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
}

onednn_product *ls_onednn_product(const onednn_key *key) {
    pthread_mutex_lock(&lock);
    onednn_product *p = products;
    while (p && memcmp(&p->key, key, sizeof *key) != 0)
        p = p->next;
    if (!p) {
        p = calloc(1, sizeof *p);
        LS_CHECK(p != NULL, "out of memory");
        memcpy(&p->key, key, sizeof *key);
        const int before = use_threads(key->threads);
        make(p);
        omp_set_num_threads(before);
        p->next = products;
        products = p;
    }
    pthread_mutex_unlock(&lock);
    return p->primitive ? p : NULL;
}

size_t ls_onednn_scratch(const onednn_product *p) {
    return p->scratch;
}

void ls_onednn_run(onednn_product *p, const void *a, const void *b, float *c, void *scratch) {
    void *data[4] = { (void *)(uintptr_t)a, (void *)(uintptr_t)b, c, scratch };
    static const int slots[4] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD };
    dnnl_exec_arg_t args[4];
    pthread_mutex_lock(&lock);
    int n = 0;
    for (; n < 4 && p->memory[n]; n++) {
        dnnl_memory_set_data_handle(p->memory[n], data[n]);
        args[n] = (dnnl_exec_arg_t){ slots[n], p->memory[n] };
    }
    const int before = use_threads(p->key.threads);
    const dnnl_status_t s = dnnl_primitive_execute(p->primitive, stream, n, args);
    LS_CHECK(s == dnnl_success && dnnl_stream_wait(stream) == dnnl_success, "oneDNN refused to run a product that it made (%d)", (int)s);
    omp_set_num_threads(before);
    pthread_mutex_unlock(&lock);
}
#else
typedef int ls_onednn_not_built;
#endif
