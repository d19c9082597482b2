/* nccl.c - the shim's libnccl.so.2: checks what each call is given, as the header says it must be, or
 * stricter, and puts functions into streams of the shim's libcuda.so.1. */
#define _GNU_SOURCE
#include "nccl.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DECLARE(field, symbol, arguments) EXPORT nccl_result symbol arguments;
NCCL_FUNCTIONS(DECLARE)
#define DECLARE_TEXT(field, symbol, arguments) EXPORT const char *symbol arguments;
NCCL_TEXTS(DECLARE_TEXT)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nccl_comm comms;          /* those that live */
static _Atomic unsigned dropped; /* calls that are gone */
static char last_error[512];     /* of any thread */

/* ---- the libcuda that is loaded */

typedef cu_result (*put_fn)(cu_stream s, cu_host_function f, void *context, void (*drop)(void *),
                            bool (*allowed)(void *));
typedef bool (*reaches_fn)(const void *at, size_t bytes);
typedef int (*gpu_fn)(cu_stream s);

static void *of_cuda(const char *name)
{
    static void *cuda;
    if (!cuda)
        cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *f = cuda ? dlsym(cuda, name) : NULL;
    if (!f) {
        fprintf(stderr, "shim: NCCL: the shim's libcuda.so.1 is not loaded\n");
        abort();
    }
    return f;
}

/* ---- errors */

static nccl_result wrong(nccl_result r, const char *function, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
static nccl_result wrong(nccl_result r, const char *function, const char *what, ...)
{
    va_list list;
    va_start(list, what);
    vsnprintf(last_error, sizeof last_error, what, list);
    va_end(list);
    fprintf(stderr, "shim: %s: %s\n", function, last_error);
    return r;
}
#define WRONG_NCCL(r, ...) wrong(r, __func__, __VA_ARGS__)

const char *ncclGetErrorString(nccl_result r)
{
    static const char *const TEXT[] = { "no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress" };
    return r >= 0 && r <= NCCL_IN_PROGRESS ? TEXT[r] : "unknown result code";
}

const char *ncclGetLastError(nccl_comm c)
{
    (void)c;
    return last_error;
}

/* ---- communicators */

nccl_result ncclGetVersion(int *version)
{
    *version = (int)shim_read_settings().nccl;
    return NCCL_SUCCESS;
}

nccl_result ncclGetUniqueId(nccl_id *id)
{
    return nccl_make_share(id) ? NCCL_SUCCESS : WRONG_NCCL(NCCL_SYSTEM_ERROR, "no shared memory");
}

static bool is_live(nccl_comm c)
{
    pthread_mutex_lock(&lock);
    nccl_comm each = comms;
    while (each && each != c)
        each = each->next;
    pthread_mutex_unlock(&lock);
    return each != NULL;
}

static nccl_result check_comm(const char *function, nccl_comm c)
{
    if (!c || !is_live(c))
        return wrong(NCCL_INVALID_ARGUMENT, function, "no communicator, or it was destroyed or aborted");
    if (c->process != getpid())
        return wrong(NCCL_INVALID_USAGE, function, "the communicator is of the process that forked this one");
    if (c->finalized)
        return wrong(NCCL_INVALID_USAGE, function, "the communicator was finalized");
    return NCCL_SUCCESS;
}
#define CHECK_COMM(c)                                        \
    do {                                                     \
        const nccl_result checked = check_comm(__func__, c); \
        if (checked != NCCL_SUCCESS)                         \
            return checked;                                  \
    } while (0)

/* Takes the rank's place in the shared memory; what is wrong with it, or NULL. */
static const char *take_place(share *s, int n, int rank, int gpu)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&s->n, &none, n) && none != n)
        return "another rank says another number of ranks";
    none = 0;
    if (!atomic_compare_exchange_strong(&s->gpus[rank], &none, gpu + 1))
        return "another process has this rank";
    for (int r = 0; r < n; r++)
        if (r != rank && atomic_load(&s->gpus[r]) == gpu + 1)
            return "Duplicate GPU detected: another rank has this GPU";
    return NULL;
}

nccl_result ncclCommInitRank(nccl_comm *out, int n, nccl_id id, int rank)
{
    const int gpu = ((gpu_fn)of_cuda("shim_nccl_gpu"))(NULL);
    if (!out || n < 1 || rank < 0 || rank >= n)
        return WRONG_NCCL(NCCL_INVALID_ARGUMENT, "rank %d of %d", rank, n);
    if (n > NCCL_RANKS)
        return WRONG_NCCL(NCCL_INVALID_ARGUMENT, "the shim has at most %d ranks", NCCL_RANKS);
    if (gpu < 0)
        return WRONG_NCCL(NCCL_CUDA_ERROR, "no context is current in this thread");
    nccl_comm c = calloc(1, sizeof *c);
    share *s = c ? nccl_map_share(&id, n, &c->mapped) : NULL;
    if (!s) {
        free(c);
        return WRONG_NCCL(NCCL_SYSTEM_ERROR, "the id is none of ncclGetUniqueId, or its process has ended");
    }
    const char *why = take_place(s, n, rank, gpu);
    if (why && !atomic_exchange(&s->broken, 1))
        snprintf(s->why, sizeof s->why, "rank %d of %d: %s", rank, n, why);
    atomic_fetch_add(&s->arrived, 1);
    nccl_changed(s);
    for (unsigned seen;
         seen = atomic_load(&s->changes), atomic_load(&s->arrived) < n && !atomic_load(&s->broken);)
        if (!nccl_wait_change(s, seen))
            fprintf(stderr, "shim: ncclCommInitRank: rank %d waits, and %d of %d have come\n", rank,
                    atomic_load(&s->arrived), n);
    if (atomic_load(&s->broken)) {
        const nccl_result r = WRONG_NCCL(NCCL_INVALID_USAGE, "%s", s->why);
        munmap(s, c->mapped);
        free(c);
        return r;
    }
    c->s = s;
    c->n = n;
    c->rank = rank;
    c->gpu = gpu;
    c->process = getpid();
    pthread_mutex_lock(&lock);
    c->next = comms;
    comms = c;
    pthread_mutex_unlock(&lock);
    *out = c;
    return NCCL_SUCCESS;
}

/* Waits until the stream's calls have ended, and graphs with calls are gone. */
static void drain(nccl_comm c, const char *function)
{
    for (unsigned seen; seen = atomic_load(&dropped), atomic_load(&c->calls);)
        if (!nccl_sleep(&dropped, seen))
            fprintf(stderr, "shim: %s: rank %d waits for %u calls in streams and graphs\n", function, c->rank,
                    atomic_load(&c->calls));
}

nccl_result ncclCommFinalize(nccl_comm c)
{
    CHECK_COMM(c);
    c->finalized = true;
    atomic_fetch_add(&c->s->finalized, 1);
    nccl_changed(c->s);
    for (unsigned seen; seen = atomic_load(&c->s->changes),
                        atomic_load(&c->s->finalized) < c->n && !atomic_load(&c->s->broken);)
        if (!nccl_wait_change(c->s, seen))
            fprintf(stderr, "shim: ncclCommFinalize: rank %d waits for others\n", c->rank);
    return NCCL_SUCCESS;
}

static void end(nccl_comm c, const char *function)
{
    pthread_mutex_lock(&lock);
    for (nccl_comm *link = &comms; *link; link = &(*link)->next)
        if (*link == c) {
            *link = c->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    drain(c, function);
    munmap(c->s, c->mapped);
    free(c);
}

nccl_result ncclCommDestroy(nccl_comm c)
{
    if (!c || !is_live(c))
        return WRONG_NCCL(NCCL_INVALID_ARGUMENT, "no communicator, or it was destroyed or aborted");
    if (!c->finalized)
        ncclCommFinalize(c);
    end(c, __func__);
    return NCCL_SUCCESS;
}

nccl_result ncclCommAbort(nccl_comm c)
{
    if (!c || !is_live(c))
        return WRONG_NCCL(NCCL_INVALID_ARGUMENT, "no communicator, or it was destroyed or aborted");
    atomic_store(&c->aborted, true);
    nccl_changed(c->s);
    end(c, __func__);
    return NCCL_SUCCESS;
}

nccl_result ncclCommGetAsyncError(nccl_comm c, nccl_result *r)
{
    CHECK_COMM(c);
    *r = atomic_load(&c->error);
    shim_acquire(&c->error);
    if (*r == NCCL_INVALID_USAGE)
        snprintf(last_error, sizeof last_error, "%s", c->s->why);
    return NCCL_SUCCESS;
}

/* ---- groups: a thread's calls until the group ends, which become one operation */

typedef struct open_group {
    int depth, n;
    nccl_result failed;
    nccl_comm comm;
    cu_stream stream;
    op_kind kind;
    part parts[2 * NCCL_RANKS];
} open_group;
static _Thread_local open_group *group; /* NULL: none has begun */

/* The communicator may be gone as soon as its last call is. */
static void drop_op(void *context)
{
    nccl_comm c = ((op *)context)->comm;
    free(context);
    atomic_fetch_sub(&c->calls, 1);
    atomic_fetch_add(&dropped, 1);
    nccl_wake(&dropped);
}

static bool may_launch(void *context) { return !atomic_load(&((op *)context)->comm->aborted); }

static nccl_result launch(void)
{
    const shim_settings set = shim_read_settings();
    nccl_comm c = group->comm;
    const bool meant = set.nccl_rank < 0 || set.nccl_rank == c->rank;
    op *o = calloc(1, sizeof *o + (size_t)group->n * sizeof(part));
    if (!o)
        abort();
    o->comm = c;
    o->kind = group->kind;
    o->number = ++c->operations;
    o->n = group->n;
    memcpy(o->parts, group->parts, (size_t)group->n * sizeof(part));
    if (meant && (int64_t)o->number == set.nccl_fail) {
        free(o);
        return wrong(NCCL_SYSTEM_ERROR, "ncclGroupEnd", "operation %lld fails (nccl_fail=)",
                     (long long)set.nccl_fail);
    }
    if (meant && (int64_t)o->number == set.nccl_lost) {
        o->lost = true;
        atomic_store(&c->error, NCCL_REMOTE_ERROR);
    }
    atomic_fetch_add(&c->calls, 1);
    const cu_result r = ((put_fn)of_cuda("shim_nccl_put"))(group->stream, nccl_run, o, drop_op, may_launch);
    if (r == CU_SUCCESS)
        return NCCL_SUCCESS;
    drop_op(o);
    return wrong(NCCL_CUDA_ERROR, "ncclGroupEnd", "the stream: CUDA error %d", r);
}

nccl_result ncclGroupStart(void)
{
    if (!group && !(group = calloc(1, sizeof *group)))
        abort();
    group->depth++;
    return NCCL_SUCCESS;
}

nccl_result ncclGroupEnd(void)
{
    if (!group)
        return WRONG_NCCL(NCCL_INVALID_USAGE, "no group has begun");
    if (--group->depth)
        return NCCL_SUCCESS;
    const nccl_result r = group->failed ? group->failed : group->n ? launch() : NCCL_SUCCESS;
    free(group);
    group = NULL;
    return r;
}

static nccl_result fail_group(nccl_result r)
{
    if (r != NCCL_SUCCESS && group->failed == NCCL_SUCCESS)
        group->failed = r;
    return r;
}

/* What is the same for all calls. */
static nccl_result check_call(const char *function, nccl_comm c, int type, cu_stream s, op_kind kind)
{
    const nccl_result r = check_comm(function, c);
    if (r != NCCL_SUCCESS)
        return r;
    if (type != NCCL_INT8)
        return wrong(NCCL_INVALID_ARGUMENT, function, "type %d; bytes are ncclInt8", type);
    const int gpu = ((gpu_fn)of_cuda("shim_nccl_gpu"))(s), here = ((gpu_fn)of_cuda("shim_nccl_gpu"))(NULL);
    if (!s || gpu != c->gpu)
        return wrong(NCCL_INVALID_ARGUMENT, function,
                     s ? "the stream was destroyed, or is of another GPU" : "the NULL stream is not used");
    if (here != c->gpu)
        return wrong(NCCL_INVALID_USAGE, function, "the thread's context is not that of GPU %d", c->gpu);
    if (group->n && (group->comm != c || group->stream != s || group->kind != kind))
        return wrong(NCCL_INVALID_USAGE, function, "a group of several communicators, streams or kinds");
    group->comm = c;
    group->stream = s;
    group->kind = kind;
    return NCCL_SUCCESS;
}

static nccl_result check_range(const char *function, const void *at, size_t bytes, const char *what)
{
    if (bytes && !((reaches_fn)of_cuda("shim_nccl_reaches"))(at, bytes))
        return wrong(NCCL_INVALID_ARGUMENT, function, "%s: %zu bytes at %p are not memory of the GPU", what,
                     bytes, at);
    return NCCL_SUCCESS;
}

/* Nothing may be written that another part reads or writes. */
static nccl_result add(const char *function, bool sends, int peer, const void *at, size_t bytes)
{
    char *own = shim_host((uint64_t)(uintptr_t)at);
    for (int i = 0; i < group->n; i++) {
        const part *p = &group->parts[i];
        if (p->sends == sends && p->peer == peer)
            return wrong(NCCL_INVALID_USAGE, function, "a second message for rank %d in one group", peer);
        if (!(p->sends && sends) && own < p->at + p->bytes && p->at < own + bytes)
            return wrong(NCCL_INVALID_USAGE, function, "messages of ranks %d and %d overlap in memory",
                         p->peer, peer);
    }
    group->parts[group->n++] = (part){ .sends = sends, .peer = peer, .at = own, .bytes = bytes };
    return NCCL_SUCCESS;
}

static nccl_result put_gather(const char *function, const char *from, char *to, size_t count, nccl_comm c)
{
    nccl_result r = check_range(function, to, count * (size_t)c->n, "what it gets");
    const char *in_place = to + count * (size_t)c->rank;
    if (r == NCCL_SUCCESS)
        r = check_range(function, from, count, "what it gives");
    if (r == NCCL_SUCCESS && from != in_place)
        return wrong(NCCL_INVALID_USAGE, function,
                     "not in place: rank %d gives %p, its place is %p (the shim does no other)", c->rank,
                     (const void *)from, (const void *)in_place);
    for (int p = 0; p < c->n && r == NCCL_SUCCESS; p++)
        if (p != c->rank) {
            group->parts[group->n++] = (part){ true, false, p, shim_host((uintptr_t)from), count, 0 };
            group->parts[group->n++] = (part){ false, false,
                                               p,     shim_host((uintptr_t)(to + count * (size_t)p)),
                                               count, 0 };
        }
    return r;
}

nccl_result ncclAllGather(const void *from, void *to, size_t count, int type, nccl_comm c, cu_stream s)
{
    ncclGroupStart();
    nccl_result r = group->n ? WRONG_NCCL(NCCL_INVALID_USAGE, "several operations in one group")
                             : check_call(__func__, c, type, s, ALL_GATHER);
    if (r == NCCL_SUCCESS)
        r = put_gather(__func__, from, to, count, c);
    fail_group(r);
    const nccl_result end = ncclGroupEnd();
    return r == NCCL_SUCCESS ? end : r;
}

static nccl_result message(const char *function, bool sends, const void *at, size_t count, int type, int peer,
                           nccl_comm c, cu_stream s)
{
    if (!group)
        return wrong(NCCL_INVALID_USAGE, function,
                     "outside of a group: two ranks that send to each other would wait for ever");
    nccl_result r = check_call(function, c, type, s, SEND_RECEIVE);
    if (r == NCCL_SUCCESS && (peer < 0 || peer >= c->n))
        r = wrong(NCCL_INVALID_ARGUMENT, function, "peer %d of %d ranks", peer, c->n);
    if (r == NCCL_SUCCESS)
        r = check_range(function, at, count, sends ? "what it gives" : "what it gets");
    if (r == NCCL_SUCCESS)
        r = add(function, sends, peer, at, count);
    return fail_group(r);
}

nccl_result ncclSend(const void *from, size_t count, int type, int peer, nccl_comm c, cu_stream s)
{
    return message(__func__, true, from, count, type, peer, c, s);
}

nccl_result ncclRecv(void *to, size_t count, int type, int peer, nccl_comm c, cu_stream s)
{
    return message(__func__, false, to, count, type, peer, c, s);
}

/* LOCKSTEP_SHIM=leaks */
static __attribute__((destructor)) void say_leaks(void)
{
    int n = 0;
    for (nccl_comm c = comms; c; c = c->next)
        n += c->process == getpid();
    if (!n || !shim_read_settings().leaks)
        return;
    fprintf(stderr, "shim: %d communicators were not destroyed\n", n);
    _exit(86);
}
