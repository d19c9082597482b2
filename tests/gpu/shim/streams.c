/* streams.c - streams, events and launches of the shim's libcuda.so.1. Each stream is a thread,
 * which waits for a drawn time in front of some tasks, so wrong order shows. An event counts its records. */
#define _GNU_SOURCE
#include "streams.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define DECLARE(field, symbol, arguments) EXPORT cu_result symbol arguments;
CU_FUNCTIONS(DECLARE)

cu_stream shim_streams;
static cu_event events;

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ---- what a stream's thread does (under the lock, but for the work itself) */

void shim_free_task(task *t)
{
    if (t->event && --t->event->uses == 0)
        free(t->event);
    if (t->drop)
        t->drop(t->context);
    if (t->graph)
        shim_drop_exec(t->graph);
    if (t->graph_run)
        shim_drop_run(t->graph_run);
    free(t);
}

static void wait_drawn(cu_stream s)
{
    const uint64_t x = draw(&s->drawn);
    const double seconds = shim.set.delay * (double)(x >> 40) * 0x1p-24;
    if (x & 1 || seconds <= 0)
        return;
    const struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
}

static void work(cu_stream s, task *t)
{
    switch (t->kind) {
    case KERNEL:
        emulated_launch(t->kernel, t->blocks, t->args,
                        shim.set.seed * UINT64_C(0xd1342543de82ef95) + (s->number << 40) + ++s->launched);
        break;
    case COPY: memmove(shim_host(t->to), shim_host(t->from), t->bytes); break;
    case FILL: memset(shim_host(t->to), t->byte, t->bytes); break;
    case HOST:
        shim_in_host_function = true;
        t->run(t->context);
        shim_in_host_function = false;
        break;
    default: break;
    }
}

void shim_run_task(cu_stream s, task *t)
{
    if (shim.failed)
        return;
    if (t->kind == GRAPH) {
        shim_run_graph(s, t);
    } else if (t->kind == RECORD) {
        cu_event e = t->event;
        clock_gettime(CLOCK_MONOTONIC, &e->when);
        e->happened = t->ticket > e->happened ? t->ticket : e->happened;
        shim_release(e);
        shim_changed();
    } else if (t->kind == AWAIT) {
        while (t->event->happened < t->ticket && !shim.failed)
            shim_wait();
        shim_acquire(t->event);
    } else if (t->faults) {
        shim.failed = CU_ILLEGAL_ADDRESS;
        shim_changed();
    } else {
        shim_unlock();
        wait_drawn(s);
        work(s, t);
        shim_lock();
    }
}

static void *stream_main(void *p)
{
    cu_stream s = p;
    prctl(PR_SET_TIMERSLACK, 1000UL);
    shim_lock();
    for (;;) {
        while (!s->first && !s->ends)
            shim_wait();
        task *t = s->first;
        if (!t)
            break;
        shim_acquire(t);
        if (!(s->first = t->next))
            s->end = &s->first;
        s->works = true;
        shim_run_task(s, t);
        shim_free_task(t);
        s->works = false;
        shim_release(s);
        if (!s->first)
            shim_changed();
    }
    shim_unlock();
    return NULL;
}

/* ---- putting in */

task *shim_new_task(kind k, size_t arg_bytes)
{
    task *t = calloc(1, sizeof *t + arg_bytes);
    if (!t)
        abort();
    t->kind = k;
    return t;
}

void shim_append(cu_stream s, task *t)
{
    shim_release(t);
    *s->end = t;
    s->end = &t->next;
    shim_changed();
}

cu_result shim_put(cu_stream s, task *t)
{
    cu_graph g = s->capture;
    if (!g) {
        shim_append(s, t);
        return CU_SUCCESS;
    }
    t->branch = s->branch;
    *g->end = t;
    g->end = &t->next;
    if (t->kind != RECORD && t->kind != AWAIT)
        s->known[s->branch] = ++g->tasks[s->branch];
    return CU_SUCCESS;
}

cu_result shim_not_in_capture(const char *function, cu_stream s, const char *what)
{
    s->capture->invalid = true;
    return shim_wrong(CU_STREAM_CAPTURE_UNSUPPORTED, function, "while the stream captures: %s", what);
}

static cu_result check_range(const char *function, cu_stream s, uint64_t at, size_t bytes)
{
    size_t left;
    const shim_kind where = shim_find(at, &left);
    if (where == SHIM_NOWHERE || left < bytes)
        return shim_wrong(CU_INVALID_VALUE, function, "%zu bytes at %#llx are not within an allocation",
                          bytes, (unsigned long long)at);
    if (where == SHIM_PAGEABLE && s->capture)
        return shim_not_in_capture(function, s, "a copy of memory that is not pinned");
    return CU_SUCCESS;
}

cu_result cuMemcpyAsync(cu_address to, cu_address from, size_t bytes, cu_stream s)
{
    ENTER_STREAM(s);
    cu_result r = bytes ? check_range(__func__, s, to, bytes) : CU_SUCCESS;
    if (r == CU_SUCCESS && bytes)
        r = check_range(__func__, s, from, bytes);
    if (r != CU_SUCCESS || !bytes)
        return shim_leave(r);
    task *t = shim_new_task(COPY, 0);
    t->to = to;
    t->from = from;
    t->bytes = bytes;
    return shim_leave(shim_put(s, t));
}

cu_result cuMemsetD8Async(cu_address to, unsigned char byte, size_t bytes, cu_stream s)
{
    ENTER_STREAM(s);
    size_t left;
    const shim_kind where = shim_find(to, &left);
    if (bytes && ((where != SHIM_DEVICE && where != SHIM_PINNED) || left < bytes))
        return shim_leave(WRONG(CU_INVALID_VALUE, "%zu bytes at %#llx are not within an allocation", bytes,
                                (unsigned long long)to));
    task *t = shim_new_task(FILL, 0);
    t->to = to;
    t->byte = byte;
    t->bytes = bytes;
    return shim_leave(shim_put(s, t));
}

cu_result cuLaunchHostFunc(cu_stream s, cu_host_function f, void *context)
{
    ENTER_STREAM(s);
    if (!f)
        return shim_leave(WRONG(CU_INVALID_VALUE, "no function"));
    task *t = shim_new_task(HOST, 0);
    t->run = f;
    t->context = context;
    return shim_leave(shim_put(s, t));
}

cu_result cuLaunchKernel(cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared_bytes, cu_stream s,
                         void **arguments, void **extra)
{
    ENTER_STREAM(s);
    if (!shim_is_function(f))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no function"));
    const emulated_kernel *k = f->kernel;
    if (!grid_x || grid_x > INT32_MAX || grid_y != 1 || grid_z != 1)
        return shim_leave(
            WRONG(CU_INVALID_VALUE, "%s: %u x %u x %u blocks", k->name, grid_x, grid_y, grid_z));
    if (block_x != (unsigned)k->threads || block_x > 1024 || block_y != 1 || block_z != 1)
        return shim_leave(WRONG(CU_INVALID_VALUE, "%s is for %d threads, not %u x %u x %u", k->name,
                                k->threads, block_x, block_y, block_z));
    if (shared_bytes > f->most_shared)
        return shim_leave(WRONG(CU_INVALID_VALUE,
                                "%s: %u bytes of shared memory; cuFuncSetAttribute allows %u", k->name,
                                shared_bytes, f->most_shared));
    if (shared_bytes < k->shared)
        return shim_leave(WRONG(CU_INVALID_VALUE, "%s needs %zu bytes of shared memory and gets %u", k->name,
                                k->shared, shared_bytes));
    if (k->args > CU_LAUNCH_ARGUMENT_BYTES || !arguments || !arguments[0] || extra)
        return shim_leave(WRONG(CU_INVALID_VALUE, "%s: its %zu bytes of arguments", k->name, k->args));
    task *t = shim_new_task(KERNEL, k->args);
    t->kernel = k;
    t->blocks = grid_x;
    t->faults = (int64_t)++shim.launches == shim.set.launch;
    memcpy(t->args, arguments[0], k->args);
    return shim_leave(shim_put(s, t));
}

/* ---- libraries */

cu_result shim_library_enter(void)
{
    ENTER();
    return shim_leave(CU_SUCCESS);
}

bool shim_library_has(uint64_t at, size_t bytes)
{
    size_t left;
    shim_lock();
    const shim_kind where = shim_find(at, &left);
    shim_unlock();
    return where == SHIM_DEVICE && left >= bytes;
}

cu_result shim_library_launch(cu_stream s, const emulated_kernel *k, long long blocks, const void *args)
{
    ENTER_STREAM(s);
    task *t = shim_new_task(KERNEL, k->args);
    t->kernel = k;
    t->blocks = blocks;
    t->faults = (int64_t)++shim.launches == shim.set.launch;
    memcpy(t->args, args, k->args);
    return shim_leave(shim_put(s, t));
}

/* ---- what the shim of NCCL calls (dlsym) */

/* A function of the host; `drop` is called when its task goes (of a graph when that goes), `allowed` when a
 * graph with it is launched. */
EXPORT cu_result shim_nccl_put(cu_stream s, cu_host_function f, void *context, void (*drop)(void *context),
                               bool (*allowed)(void *context))
{
    ENTER_STREAM(s);
    task *t = shim_new_task(HOST, 0);
    t->run = f;
    t->context = context;
    t->drop = drop;
    t->allowed = allowed;
    return shim_leave(shim_put(s, t));
}

/* Whether a GPU reaches these bytes. */
EXPORT bool shim_nccl_reaches(const void *at, size_t bytes)
{
    size_t left;
    shim_lock();
    const shim_kind where = shim_find((uint64_t)(uintptr_t)at, &left);
    shim_unlock();
    return (where == SHIM_DEVICE || where == SHIM_PINNED) && left >= bytes;
}

/* The GPU of a stream, or (NULL) of the calling thread's context. -1: there is none. */
EXPORT int shim_nccl_gpu(cu_stream s)
{
    if (!s)
        return shim_current_gpu();
    shim_lock();
    const int gpu = IS_LIVE(shim_streams, s) ? s->gpu : -1;
    shim_unlock();
    return gpu;
}

/* ---- streams */

cu_stream shim_new_stream(void)
{
    cu_stream s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->end = &s->first;
    s->number = ++shim.streams;
    s->drawn = shim.set.seed * 7919 + s->number;
    s->gpu = shim_current_gpu();
    if (!pthread_create(&s->thread, NULL, stream_main, s))
        return s;
    free(s);
    return NULL;
}

static void join(cu_stream s)
{
    pthread_join(s->thread, NULL); /* (the driver lets the work end behind the caller's back) */
    for (int i = 0; i < BRANCHES - 1; i++)
        if (s->beside[i])
            join(s->beside[i]);
    free(s);
}

cu_result cuStreamCreate(cu_stream *out, unsigned flags)
{
    ENTER();
    if (flags & ~1u)
        return shim_leave(WRONG(CU_INVALID_VALUE, "flags %u", flags));
    const shim_settings now = shim_read_settings();
    shim.set.seed = now.seed;
    shim.set.delay = now.delay;
    cu_stream s = shim_new_stream();
    if (!s)
        return shim_leave(CU_OUT_OF_MEMORY);
    s->next = shim_streams;
    shim_streams = s;
    shim.live_streams++;
    *out = s;
    return shim_leave(CU_SUCCESS);
}

cu_result cuStreamDestroy_v2(cu_stream s)
{
    ENTER_STREAM(s);
    UNLINK(shim_streams, s);
    s->ends = true;
    for (int i = 0; i < BRANCHES - 1; i++)
        if (s->beside[i])
            s->beside[i]->ends = true;
    shim_changed();
    shim.live_streams--;
    shim_unlock();
    join(s);
    return CU_SUCCESS;
}

cu_result cuStreamSynchronize(cu_stream s)
{
    ENTER_STREAM(s);
    if (s->capture)
        return shim_leave(shim_not_in_capture(__func__, s, "a wait for it"));
    while ((s->first || s->works) && !shim.failed)
        shim_wait();
    shim_acquire(s);
    return shim_leave(shim.failed);
}

/* ---- events */

cu_result cuEventCreate(cu_event *out, unsigned flags)
{
    ENTER();
    if (flags & ~7u)
        return shim_leave(WRONG(CU_INVALID_VALUE, "flags %u", flags));
    cu_event e = calloc(1, sizeof *e);
    if (!e)
        return shim_leave(CU_OUT_OF_MEMORY);
    e->uses = 1;
    e->next = events;
    events = e;
    shim.live_events++;
    *out = e;
    return shim_leave(CU_SUCCESS);
}

cu_result cuEventDestroy_v2(cu_event e)
{
    ENTER();
    if (!IS_LIVE(events, e))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no event, or it was destroyed"));
    UNLINK(events, e);
    shim.live_events--;
    if (--e->uses == 0)
        free(e);
    return shim_leave(CU_SUCCESS);
}

cu_result cuEventRecord(cu_event e, cu_stream s)
{
    ENTER_STREAM(s);
    if (!IS_LIVE(events, e))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no event, or it was destroyed"));
    if (s->capture)
        return shim_leave(shim_record_captured(s, e));
    e->captured = 0;
    task *t = shim_new_task(RECORD, 0);
    t->event = e;
    t->ticket = ++e->recorded;
    e->uses++;
    return shim_leave(shim_put(s, t));
}

cu_result cuStreamWaitEvent(cu_stream s, cu_event e, unsigned flags)
{
    ENTER_STREAM(s);
    if (!IS_LIVE(events, e) || flags)
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no event, or it was destroyed, or flags %u", flags));
    if (s->capture || e->captured)
        return shim_leave(shim_await_captured(s, e));
    if ((int64_t)++shim.awaits == shim.set.skip)
        return shim_leave(CU_SUCCESS);
    task *t = shim_new_task(AWAIT, 0);
    t->event = e;
    t->ticket = e->recorded;
    e->uses++;
    return shim_leave(shim_put(s, t));
}

cu_result cuEventElapsedTime(float *milliseconds, cu_event from, cu_event to)
{
    ENTER();
    if (!IS_LIVE(events, from) || !IS_LIVE(events, to) || !from->recorded || !to->recorded)
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no event, or it was destroyed or never recorded"));
    if (from->captured || to->captured)
        return shim_leave(WRONG(CU_CAPTURED_EVENT, "an event of a capture has no time"));
    if (from->happened < from->recorded || to->happened < to->recorded)
        return shim_leave(CU_NOT_READY);
    *milliseconds = (float)((double)(to->when.tv_sec - from->when.tv_sec) * 1e3 +
                            (double)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6);
    return shim_leave(CU_SUCCESS);
}
