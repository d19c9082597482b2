/* modules.c - kernels that are ready to be launched. A module is one file of kernels with the text in front
 * of it, compiled and loaded once in a process; it stays to the end. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "cuda_own.h"

struct ls_cuda_module {
    const char *file, *before;
    uint64_t key;
    cu_module module; /* NULL: not loaded */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, loading = PTHREAD_MUTEX_INITIALIZER;
/* Hash tables with open addressing, at most half full. Entries never move. */
static struct {
    ls_arena arena;
    bool begun;
    void **kernels, **modules;
    uint32_t n_kernels, cap_kernels, n_modules, cap_modules;
} own;

/* ---- tables */

typedef uint64_t (*key_fn)(const void *entry);
static uint64_t kernel_key(const void *e) { return ((const ls_cuda_kernel *)e)->key; }
static uint64_t module_key(const void *e) { return ((const ls_cuda_module *)e)->key; }

static void insert(void **table, uint32_t cap, void *entry, uint64_t key)
{
    uint32_t i = (uint32_t)key & (cap - 1);
    while (table[i])
        i = (i + 1) & (cap - 1);
    table[i] = entry;
}

static bool modules_grow(void ***table, uint32_t n, uint32_t *cap, key_fn key)
{
    if (2 * n < *cap)
        return true;
    const uint32_t more = *cap ? 2 * *cap : 256;
    void **bigger = ls_sys_calloc(more, sizeof *bigger);
    if (!bigger)
        return false;
    for (uint32_t i = 0; i < *cap; i++)
        if ((*table)[i])
            insert(bigger, more, (*table)[i], key((*table)[i]));
    free(*table);
    *table = bigger;
    *cap = more;
    return true;
}

static ls_cuda_module *module_of(const ls_gpu_launch *l, const char *before, uint64_t key)
{
    for (uint32_t i = (uint32_t)key & (own.cap_modules - 1); own.cap_modules && own.modules[i];
         i = (i + 1) & (own.cap_modules - 1)) {
        ls_cuda_module *m = own.modules[i];
        if (m->key == key && !strcmp(m->file, l->file) && !strcmp(m->before, before))
            return m;
    }
    ls_cuda_module *m = modules_grow(&own.modules, own.n_modules, &own.cap_modules, module_key)
                            ? LS_ARENA_NEW(&own.arena, ls_cuda_module)
                            : NULL;
    if (!m)
        return NULL;
    *m = (ls_cuda_module){ .file = ls_arena_strdup(&own.arena, l->file),
                           .before = ls_arena_strdup(&own.arena, before),
                           .key = key };
    insert(own.modules, own.cap_modules, m, key);
    own.n_modules++;
    return m;
}

static ls_cuda_kernel *kernel_locked(const ls_gpu_launch *l)
{
    const char *before = l->before ? l->before : "";
    const uint64_t of_module = ls_hash64_more(ls_hash_text(l->file), before, strlen(before)),
                   key = ls_hash64_more(of_module, l->function, strlen(l->function));
    for (uint32_t i = (uint32_t)key & (own.cap_kernels - 1); own.cap_kernels && own.kernels[i];
         i = (i + 1) & (own.cap_kernels - 1)) {
        ls_cuda_kernel *k = own.kernels[i];
        if (k->key == key && !strcmp(k->name, l->function) && !strcmp(k->module->file, l->file) &&
            !strcmp(k->module->before, before))
            return k;
    }
    ls_cuda_module *m = module_of(l, before, of_module);
    ls_cuda_kernel *k = m && modules_grow(&own.kernels, own.n_kernels, &own.cap_kernels, kernel_key)
                            ? LS_ARENA_NEW(&own.arena, ls_cuda_kernel)
                            : NULL;
    if (!k)
        return NULL;
    *k = (ls_cuda_kernel){ .module = m, .name = ls_arena_strdup(&own.arena, l->function), .key = key };
    insert(own.kernels, own.cap_kernels, k, key);
    own.n_kernels++;
    return k;
}

ls_cuda_kernel *ls_cuda_kernel_of(const ls_gpu_launch *l)
{
    pthread_mutex_lock(&lock);
    if (!own.begun)
        ls_arena_init(&own.arena);
    own.begun = true;
    ls_cuda_kernel *k = kernel_locked(l);
    if (own.arena.no_memory)
        k = NULL;
    pthread_mutex_unlock(&lock);
    return k;
}

/* ---- compiling */

typedef struct job {
    ls_cuda_module *module;
    char *text;
    ls_cuda_key key;
    ls_cuda_code code;
    ls_status status;
    char message[LS_TASK_MESSAGE];
} job;

typedef struct work {
    const ls_arch *arch;
    job *jobs;
} work;

static void modules_compile(void *context, int64_t begin, int64_t end, int worker)
{
    const work *w = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        job *j = &w->jobs[i];
        if (j->code.cubin)
            continue;
        j->status = ls_cuda_compile(&j->code, w->arch, j->module->file, j->text);
        if (j->status == LS_OK)
            ls_cuda_cache_keep(&j->code, j->key);
        else
            snprintf(j->message, sizeof j->message, "%s", ls_error_message());
    }
}

static ls_status modules_prepare(job *j, const ls_arch *arch)
{
    LS_TRY(ls_cuda_whole_text(&j->text, j->module->file, j->module->before));
    return ls_cuda_key_of(&j->key, arch, j->text);
}

/* Reads compiled files from the cache. Returns how many are missing. */
static int modules_find(job *jobs, int n)
{
    int missing = 0;
    for (int i = 0; i < n; i++)
        missing += !jobs[i].code.cubin && !ls_cuda_cache_find(&jobs[i].code, jobs[i].key);
    return missing;
}

static ls_status modules_load(const cu_driver *cu, const job *j)
{
    char what[256];
    snprintf(what, sizeof what, "device cuda: the code of kernels/%s cannot be loaded", j->module->file);
    return ls_cuda_check(cu->module_load(&j->module->module, j->code.cubin), what);
}

/* A damaged file is found by its hash, so code of the cache that the driver refuses is of another driver. */
static ls_status finish(const cu_driver *cu, job *jobs, int n)
{
    for (int i = 0; i < n; i++) {
        if (jobs[i].status != LS_OK)
            return ls_fail(jobs[i].status, "%s", jobs[i].message);
        LS_TRY(modules_load(cu, &jobs[i]));
    }
    return LS_OK;
}

static void compile_missing(const ls_arch *arch, job *jobs, int n)
{
    const int held = ls_cuda_cache_lock(),
              missing = modules_find(jobs, n); /* what nobody else has made meanwhile */
    if (missing) {
        char *folder = ls_cuda_cache_folder();
        ls_log_info("compiling %d file%s of kernels for %s (once; kept in %s)", missing,
                    missing == 1 ? "" : "s", arch->name, folder ? folder : "the cache");
        free(folder);
        ls_parallel_for(ls_cpu_count(), n, modules_compile, &(work){ arch, jobs });
    }
    ls_cuda_cache_unlock(held);
}

static ls_status load_modules(const cu_driver *cu, const ls_arch *arch, job *jobs, int n)
{
    for (int i = 0; i < n; i++)
        LS_TRY(modules_prepare(&jobs[i], arch));
    if (modules_find(jobs, n))
        compile_missing(arch, jobs, n);
    return finish(cu, jobs, n);
}

/* ---- kernels */

/* Threads and shared memory, as the kernel's file says them. */
static ls_status read_facts(const cu_driver *cu, ls_cuda_kernel *k)
{
    const ls_cuda_gpu *gpu;
    char name[160], what[256];
    cu_address address;
    size_t bytes;
    uint32_t facts[2];
    cu_function f;
    LS_TRY(ls_cuda_gpu_of_process(&gpu));
    snprintf(name, sizeof name, "%s_facts", k->name);
    snprintf(what, sizeof what, "device cuda: kernel %s of kernels/%s", k->name, k->module->file);
    LS_TRY(ls_cuda_check(cu->module_function(&f, k->module->module, k->name), what));
    LS_TRY(ls_cuda_check(cu->module_global(&address, &bytes, k->module->module, name), what));
    if (bytes != sizeof facts)
        return ls_fail(LS_E_INTERNAL, "%s: %s has %zu bytes instead of %zu", what, name, bytes, sizeof facts);
    LS_TRY(ls_cuda_check(cu->read(facts, address, bytes), what));
    if (facts[1] > (uint32_t)gpu->shared_most)
        return ls_fail(LS_E_UNSUPPORTED, "%s: it needs %u bytes of shared memory, and %s has %d for a block",
                       what, facts[1], gpu->name, gpu->shared_most);
    if (facts[1] > 48 << 10)
        LS_TRY(ls_cuda_check(cu->function_set(f, CU_FUNC_MAX_DYNAMIC_SHARED, (int)facts[1]), what));
    k->threads = facts[0];
    k->shared = facts[1];
    k->function = f;
    return LS_OK;
}

static bool listed(const job *jobs, int n, const ls_cuda_module *m)
{
    for (int i = 0; i < n; i++)
        if (jobs[i].module == m)
            return true;
    return false;
}

static ls_status ready(ls_cuda_kernel *const *list, int n)
{
    const cu_driver *cu;
    const ls_cuda_gpu *gpu;
    LS_TRY(ls_cuda_enter(&cu));
    LS_TRY(ls_cuda_gpu_of_process(&gpu));
    job *jobs = NULL;
    int n_jobs = 0, cap = 0;
    ls_status s = LS_OK;
    for (int i = 0; i < n && s == LS_OK; i++) {
        if (list[i]->module->module || listed(jobs, n_jobs, list[i]->module))
            continue;
        job *more = ls_sys_grow(jobs, n_jobs, &cap, sizeof *jobs);
        s = ls_sys_have(more);
        jobs = more ? more : jobs;
        if (more)
            jobs[n_jobs++] = (job){ .module = list[i]->module };
    }
    if (s == LS_OK && n_jobs)
        s = load_modules(cu, ls_cuda_arch_of(gpu->capability), jobs, n_jobs);
    for (int i = 0; i < n_jobs; i++) {
        free(jobs[i].text);
        free(jobs[i].code.cubin);
        free(jobs[i].code.log);
    }
    free(jobs);
    for (int i = 0; i < n && s == LS_OK; i++)
        s = list[i]->function ? LS_OK : read_facts(cu, list[i]);
    return s;
}

ls_status ls_cuda_ready(ls_cuda_kernel *const *list, int n)
{
    pthread_mutex_lock(&loading);
    const ls_status s = ready(list, n);
    pthread_mutex_unlock(&loading);
    return s;
}
