/* nccl.c - the link of device cuda (device/link.h): NVIDIA's NCCL moves the bytes.
 *
 * A communicator is used by calls, which are put into a stream, and by graphs that were captured from them.
 * It may be aborted by another thread at any time, and NCCL does not allow a call after that. So each call
 * holds the link's lock and looks at `severed` first. A call may itself wait for other ranks, as their first
 * one sets up connections; then only the abort ends it, so the abort waits for the lock for a moment only.
 *
 * ncclCommAbort ends what runs on the GPU first, then waits until graphs with the communicator's calls are
 * gone. The thread that severs a link may own these graphs, so another thread aborts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "comm/host_share.h"
#include "cuda_own.h"
#include "nccl_api.h"

/* In older ones ncclCommAbort crashes or hangs (release notes of 2.16.2 and 2.16.5). */
enum { OLDEST = 21800, ABORT_WAITS = 1 /* seconds for a call that is under way */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    nccl_functions f;
    bool open;
    char name[32]; /* "NCCL 2.27.3" */
} own;

struct ls_link {
    nccl_comm comm; /* NULL: it has one member */
    int n, position;
    pid_t process;
    pthread_mutex_t lock; /* of the communicator */
    _Atomic bool severed;
    bool aborts; /* `abort` runs, or ran (under own lock) */
    pthread_t abort;
    char why[512];
};

/* ---- the library */

static ls_status too_old(const char *path, int version, const char *missing)
{
    return ls_fail(
        LS_E_UNSUPPORTED,
        "NCCL (%s) has version %d.%d.%d%s%s; 2.18 or newer is needed: pip install nvidia-nccl-cu13 (with "
        "a driver for CUDA 12: nvidia-nccl-cu12)",
        path, version / 10000, version % 10000 / 100, version % 100, missing ? " and lacks " : "",
        missing ? missing : "");
}

static ls_status open_library(void)
{
    static const char *const NAMES[] = { "libnccl.so.2", NULL };
    const ls_cuda_symbol symbols[] = {
#define NCCL_SYMBOL(field, symbol, arguments) { #symbol, &own.f.field },
        NCCL_FUNCTIONS(NCCL_SYMBOL) NCCL_TEXTS(NCCL_SYMBOL){ NULL, NULL }
    };
    char *path;
    ls_str places = { 0 };
    void *library = ls_cuda_library(NAMES, &path, &places);
    const char *missing = library ? ls_cuda_symbols(library, symbols) : NULL;
    int v = 0;
    ls_status s = LS_OK;
    if (library && own.f.version)
        own.f.version(&v);
    if (!library)
        s = ls_fail(LS_E_UNSUPPORTED,
                    "NCCL, with which GPUs reach each other: libnccl.so.2 is not in %s. pip install "
                    "nvidia-nccl-cu13 (with a driver for CUDA 12: nvidia-nccl-cu12)",
                    ls_str_text(&places));
    else if (missing || v < OLDEST)
        s = too_old(path, v, missing);
    if (s == LS_OK && v >= 22803 && v < 22809)
        ls_log_warn("NCCL 2.%d.%d (%s) may hang when a rank has failed; 2.28.9 does not", v % 10000 / 100,
                    v % 100, path);
    snprintf(own.name, sizeof own.name, "NCCL %d.%d.%d", v / 10000, v % 10000 / 100, v % 100);
    own.open = s == LS_OK;
    free(path);
    ls_str_release(&places);
    return s;
}

static ls_status nccl_look(const char **name)
{
    const ls_cuda_gpu *gpu;
    LS_TRY(ls_cuda_gpu_of_process(&gpu));
    if (ls_host_share_get().threads)
        return ls_fail(LS_E_UNSUPPORTED,
                       "NCCL needs a GPU for each rank, and ranks that are threads have one");
    if (gpu->ranks > 1)
        return ls_fail(LS_E_UNSUPPORTED,
                       "NCCL needs a GPU for each rank, and %d ranks share GPU %d (LOCKSTEP_CUDA_SHARE=1)",
                       gpu->ranks, gpu->ordinal);
    pthread_mutex_lock(&lock);
    const ls_status s = own.open ? LS_OK : open_library();
    pthread_mutex_unlock(&lock);
    if (s == LS_OK)
        *name = own.name;
    return s;
}

/* LOCKSTEP_CUDA_NCCL: 0: do without; 1: do not run without. */
static ls_status nccl_find(const char **name, const ls_device *d)
{
    const char *wanted = getenv("LOCKSTEP_CUDA_NCCL");
    (void)d;
    *name = NULL;
    if (wanted && !strcmp(wanted, "0"))
        return ls_fail(LS_E_UNSUPPORTED, "LOCKSTEP_CUDA_NCCL is 0");
    const ls_status s = nccl_look(name);
    return s == LS_E_UNSUPPORTED && wanted && !strcmp(wanted, "1")
               ? ls_fail(LS_E_DEVICE, "LOCKSTEP_CUDA_NCCL is 1, but: %s", ls_error_message())
               : s;
}

/* What NCCL says; of NCCL itself, not of Lockstep. */
static const char *said(char text[512], nccl_result r)
{
    const char *more = own.f.last_error(NULL);
    snprintf(text, 512, "%s%s%s", own.f.error_text(r), more && *more ? ": " : "", more ? more : "");
    return text;
}

static ls_status nccl_check(nccl_result r, const char *what)
{
    char text[512];
    return r == NCCL_SUCCESS
               ? LS_OK
               : ls_fail(LS_E_DEVICE, "%s: %s (NCCL_DEBUG=INFO says more)", what, said(text, r));
}

/* ---- joining and leaving */

static ls_status nccl_invite(unsigned char id[LS_LINK_ID])
{
    const char *name;
    nccl_id made;
    _Static_assert(sizeof made == LS_LINK_ID, "NCCL's id");
    LS_TRY(nccl_find(&name, NULL));
    LS_TRY(nccl_check(own.f.unique_id(&made), "ncclGetUniqueId"));
    memcpy(id, &made, sizeof made);
    return LS_OK;
}

static ls_status nccl_join(ls_link **out, const ls_device *d, const unsigned char id[LS_LINK_ID], int n,
                           int position)
{
    const char *name;
    const cu_driver *cu;
    char what[96];
    nccl_id given;
    *out = NULL;
    if (n > 1)
        LS_TRY(nccl_find(&name, d));
    LS_TRY(ls_cuda_enter(&cu));
    ls_link *l = ls_sys_calloc(1, sizeof *l);
    LS_TRY(ls_sys_have(l));
    l->n = n;
    l->position = position;
    l->process = getpid();
    memcpy(&given, id, sizeof given);
    snprintf(what, sizeof what, "ncclCommInitRank (rank %d of %d)", position, n);
    const ls_status s = n > 1 ? nccl_check(own.f.join(&l->comm, n, given, position), what) : LS_OK;
    if (s != LS_OK) {
        free(l);
        return s;
    }
    pthread_mutex_init(&l->lock, NULL);
    *out = l;
    return LS_OK;
}

static void *abort_comm(void *context)
{
    ls_link *l = context;
    const cu_driver *cu;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ABORT_WAITS;
    const bool locked = !pthread_mutex_timedlock(&l->lock, &until);
    if (ls_cuda_enter(&cu) == LS_OK)
        own.f.abort(l->comm);
    if (locked)
        pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Without a thread the abort blocks this one. */
static void nccl_sever(ls_link *l)
{
    pthread_mutex_lock(&lock);
    const bool first = !atomic_exchange(&l->severed, true);
    if (first && l->comm && l->process == getpid()) {
        l->aborts = !ls_sys_thread(&l->abort, abort_comm, l);
        if (!l->aborts)
            abort_comm(l);
    }
    pthread_mutex_unlock(&lock);
}

static void nccl_leave(ls_link **l)
{
    const cu_driver *cu;
    if (!*l)
        return;
    const bool here = (*l)->process == getpid();
    if (here && (*l)->aborts) {
        pthread_join((*l)->abort, NULL);
    } else if (here && (*l)->comm && !atomic_load(&(*l)->severed) && ls_cuda_enter(&cu) == LS_OK) {
        own.f.finalize((*l)->comm);
        own.f.destroy((*l)->comm);
    }
    pthread_mutex_destroy(&(*l)->lock);
    free(*l);
    *l = NULL;
}

static void nccl_ask(ls_link *l, const char **why)
{
    nccl_result r = NCCL_SUCCESS;
    *why = NULL;
    if (!l->comm || l->process != getpid() || pthread_mutex_trylock(&l->lock))
        return;
    if (!atomic_load(&l->severed) && own.f.async_error(l->comm, &r) == NCCL_SUCCESS && r != NCCL_SUCCESS &&
        r != NCCL_IN_PROGRESS)
        *why = said(l->why, r);
    pthread_mutex_unlock(&l->lock);
}

/* ---- tasks */

typedef struct call {
    ls_link *link;
    const void *from;
    void *to;
    size_t bytes; /* of a piece */
} call;

static nccl_result put_gather(const call *c, cu_stream s)
{
    const char *own_piece = (const char *)c->to + c->bytes * (size_t)c->link->position;
    return own.f.all_gather(own_piece, c->to, c->bytes, NCCL_INT8, c->link->comm, s);
}

/* A group is ended even if one of its calls fails. */
static nccl_result put_exchange(const call *c, cu_stream s)
{
    const ls_link *l = c->link;
    nccl_result r = own.f.group_start();
    if (r != NCCL_SUCCESS)
        return r;
    for (int i = 1; i < l->n && r == NCCL_SUCCESS; i++) {
        const int to = (l->position + i) % l->n, from = (l->position + l->n - i) % l->n;
        r = own.f.send((const char *)c->from + c->bytes * (size_t)to, c->bytes, NCCL_INT8, to, l->comm, s);
        if (r == NCCL_SUCCESS)
            r = own.f.receive((char *)c->to + c->bytes * (size_t)from, c->bytes, NCCL_INT8, from, l->comm, s);
    }
    const nccl_result end = own.f.group_end();
    return r == NCCL_SUCCESS ? end : r;
}

/* What fails because the link is severed meanwhile does not fail the queue. */
static ls_status put_call(const call *c, cu_stream s, nccl_result (*put)(const call *c, cu_stream s),
                          const char *what)
{
    ls_link *l = c->link;
    pthread_mutex_lock(&l->lock);
    const nccl_result r = atomic_load(&l->severed) ? NCCL_SUCCESS : put(c, s);
    const ls_status status = atomic_load(&l->severed) ? LS_OK : nccl_check(r, what);
    pthread_mutex_unlock(&l->lock);
    return status;
}

static ls_status gather_call(const void *args, cu_stream s)
{
    return put_call(args, s, put_gather, "ncclAllGather");
}
static ls_status exchange_call(const void *args, cu_stream s)
{
    return put_call(args, s, put_exchange, "ncclSend and ncclRecv");
}

static void nccl_gather(ls_queue *q, ls_link *l, void *all, size_t bytes)
{
    const call c = { .link = l, .to = all, .bytes = bytes };
    if (l->n > 1 && bytes)
        ls_cuda_call_put(q, (ls_cuda_call){ gather_call, &l->severed }, &c, sizeof c);
}

/* The member's own piece does not leave the device. */
static void nccl_exchange(ls_queue *q, ls_link *l, const void *from, void *to, size_t bytes)
{
    const call c = { l, from, to, bytes };
    const size_t at = bytes * (size_t)l->position;
    ls_gpu_copy(q, (char *)to + at, (const char *)from + at, bytes);
    if (l->n > 1 && bytes)
        ls_cuda_call_put(q, (ls_cuda_call){ exchange_call, &l->severed }, &c, sizeof c);
}

const ls_link_ops ls_cuda_link = { .find = nccl_find,
                                   .invite = nccl_invite,
                                   .join = nccl_join,
                                   .leave = nccl_leave,
                                   .sever = nccl_sever,
                                   .ask = nccl_ask,
                                   .gather = nccl_gather,
                                   .exchange = nccl_exchange,
                                   .combine = ls_gpu_combine };
