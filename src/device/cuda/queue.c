/* queue.c - a queue of the device cuda: a stream.
 *
 * Kernels, calls of libraries, copies, fills and functions of the host go straight into the stream. While the
 * queue captures they are kept in a list: so all kernels of a program are known before the first one runs,
 * and are compiled together; then the list becomes a graph, which one call puts into the stream
 * (LOCKSTEP_CUDA_GRAPHS=0: it is put in task by task).
 *
 * What fails: a call of the driver, at once; a function of the host, in its turn, and then later ones are
 * skipped; a kernel, which the driver says at the next wait, without its name. Then the context is lost, and
 * all later calls fail. Kernels that were put in behind a function that failed do run, but nobody looks at
 * their results. With LOCKSTEP_CUDA_WAIT=1 the host waits for each task, so a kernel that fails is named. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/sys.h"
#include "cuda_own.h"

/* A function of the host, on its way through the stream. */
typedef struct host_task {
    ls_queue *queue;
    ls_host_task run;
    void *context;
    int64_t number;
} host_task;

typedef enum task_kind { KERNEL, CALL, COPY, FILL, HOST, RECORD, AWAIT } task_kind;
typedef struct task {
    task_kind kind;
    int64_t number;
    ls_cuda_kernel *kernel;
    unsigned blocks;
    ls_cuda_call call;
    void *args; /* of the kernel or the call */
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    host_task *host;
    ls_event *event;
    struct task *next;
} task;

struct ls_recording {
    ls_arena arena;
    task *first, **end;
    int n;
    bool alone; /* no events in it: it may become a graph, in its first replay */
    cu_graph_exec *graph;
};

struct ls_event {
    cu_event event;
    pid_t process;
};

struct ls_queue {
    const cu_driver *cu;
    cu_stream stream;
    pid_t process;
    bool one_by_one; /* LOCKSTEP_CUDA_WAIT=1 */
    int64_t number;
    ls_recording *recording; /* while it captures */
    host_task **tasks;       /* those that are not part of a recording; `used` since the last wait */
    int n_tasks, used, cap;
    pthread_mutex_t lock; /* of all that follows: functions of the host run on a thread of the driver */
    _Atomic bool skips;
    ls_status status; /* of the first failure since the last wait */
    int64_t failed;
    char message[LS_TASK_MESSAGE];
};

static bool elsewhere(const ls_queue *q) { return q->process != getpid(); }

/* ---- failures */

static void fail(ls_queue *q, ls_status s, int64_t number, const char *message)
{
    pthread_mutex_lock(&q->lock);
    if (q->status == LS_OK) {
        q->status = s;
        q->failed = number;
        snprintf(q->message, sizeof q->message, "%s", message);
        atomic_store(&q->skips, true);
    }
    pthread_mutex_unlock(&q->lock);
}

static void check(ls_queue *q, cu_result r, int64_t number, const char *what)
{
    if (r != CU_SUCCESS)
        fail(q, ls_cuda_check(r, what), number, ls_error_message());
}

/* On a thread of the driver, which may not call the driver. */
static void run_host(void *context)
{
    const host_task *t = context;
    ls_queue *q = t->queue;
    const ls_status s = atomic_load(&q->skips) ? LS_OK : t->run(t->context);
    if (s != LS_OK)
        fail(q, s, t->number, ls_error_message());
}

/* ---- putting in */

static void check_task(ls_queue *q, cu_result r, const task *t)
{
    const ls_cuda_kernel *k = t->kernel;
    char what[256] = "a copy, a fill or an event";
    if (r != CU_SUCCESS && k)
        snprintf(what, sizeof what, "kernel %s (%u blocks of %u threads, %u bytes of shared memory)", k->name,
                 t->blocks, k->threads, k->shared);
    check(q, r, t->number, what);
}

static void launch(ls_queue *q, const task *t)
{
    void *arguments[] = { t->args };
    const ls_cuda_kernel *k = t->kernel;
    check_task(q,
               q->cu->launch(k->function, t->blocks, 1, 1, k->threads, 1, 1, k->shared, q->stream, arguments,
                             NULL),
               t);
}

static void call(ls_queue *q, const task *t)
{
    const ls_status s = t->call(q->stream, t->args);
    if (s != LS_OK)
        fail(q, s, t->number, ls_error_message());
}

static void enter(ls_queue *q, const task *t)
{
    const cu_driver *cu = q->cu;
    switch (t->kind) {
    case KERNEL: launch(q, t); break;
    case CALL: call(q, t); break;
    case COPY:
        check(q, cu->copy((cu_address)(uintptr_t)t->to, (cu_address)(uintptr_t)t->from, t->bytes, q->stream),
              t->number, "a copy");
        break;
    case FILL:
        check(q, cu->fill((cu_address)(uintptr_t)t->to, (unsigned char)t->byte, t->bytes, q->stream),
              t->number, "a fill");
        break;
    case HOST: check(q, cu->host(q->stream, run_host, t->host), t->number, "a function of the host"); break;
    case RECORD: check(q, cu->event_record(t->event->event, q->stream), t->number, "an event"); break;
    case AWAIT: check(q, cu->stream_await(q->stream, t->event->event, 0), t->number, "an event"); break;
    }
    if (q->one_by_one)
        check_task(q, cu->stream_wait(q->stream), t);
}

/* What it has no memory for, the arena remembers. */
static void keep(ls_recording *r, const task *t, size_t arg_bytes)
{
    task *own = ls_arena_dup(&r->arena, t, sizeof *t);
    if (own && t->args)
        own->args = ls_arena_dup(&r->arena, t->args, arg_bytes);
    if (own && t->host)
        own->host = ls_arena_dup(&r->arena, t->host, sizeof *t->host);
    if (r->arena.no_memory)
        return;
    r->alone &= t->kind != RECORD && t->kind != AWAIT;
    *r->end = own;
    r->end = &own->next;
    r->n++;
}

static void no_memory(ls_queue *q)
{
    fail(q, LS_E_MEMORY, q->number, "out of memory for a task of device cuda");
}

/* A task's own copy, for its way through the stream. */
static host_task *on_its_way(ls_queue *q, const host_task *t)
{
    if (q->used == q->n_tasks) {
        host_task **more = ls_sys_grow(q->tasks, q->n_tasks, &q->cap, sizeof *more);
        q->tasks = more ? more : q->tasks;
        if (!more || !(more[q->n_tasks] = ls_sys_malloc(sizeof *t)))
            return NULL;
        q->n_tasks++;
    }
    *q->tasks[q->used] = *t;
    return q->tasks[q->used++];
}

static void put(ls_queue *q, task t, size_t arg_bytes)
{
    const cu_driver *cu;
    t.number = q->number;
    if (elsewhere(q))
        return; /* `wait` says so */
    if (q->recording) {
        keep(q->recording, &t, arg_bytes);
        return;
    }
    if (atomic_load(&q->skips))
        return;
    if (t.kind == HOST && !(t.host = on_its_way(q, t.host)))
        no_memory(q);
    else if (ls_cuda_enter(&cu) != LS_OK ||
             (t.kernel && !t.kernel->function && ls_cuda_ready(&t.kernel, 1) != LS_OK))
        fail(q, LS_E_DEVICE, q->number, ls_error_message());
    else
        enter(q, &t);
}

static void run(ls_queue *q, const ls_kernel *k, const ls_kernel_args *a)
{
    ls_kernel_args own = *a;
    own.queue = q;
    k->run(&own);
}

void ls_gpu_run(ls_queue *q, const ls_gpu_launch *l)
{
    if (!l->blocks || elsewhere(q))
        return;
    ls_cuda_kernel *k = ls_cuda_kernel_of(l);
    if (!k)
        no_memory(q);
    else
        put(q, (task){ .kind = KERNEL, .kernel = k, .blocks = (unsigned)l->blocks, .args = (void *)l->args },
            l->bytes);
}

void ls_cuda_put(ls_queue *q, ls_cuda_call function, const void *args, size_t bytes)
{
    put(q, (task){ .kind = CALL, .call = function, .args = (void *)args }, bytes);
}

void ls_cuda_refuse(ls_queue *q, ls_status s) { fail(q, s, q->number, ls_error_message()); }

static void copy(ls_queue *q, void *to, const void *from, size_t bytes)
{
    if (bytes)
        put(q, (task){ .kind = COPY, .to = to, .from = from, .bytes = bytes }, 0);
}

static void fill(ls_queue *q, void *to, int byte, size_t bytes)
{
    if (bytes)
        put(q, (task){ .kind = FILL, .to = to, .byte = byte, .bytes = bytes }, 0);
}

void ls_gpu_copy(ls_queue *q, void *to, const void *from, size_t bytes) { copy(q, to, from, bytes); }
void ls_gpu_fill(ls_queue *q, void *to, int byte, size_t bytes) { fill(q, to, byte, bytes); }

static void host(ls_queue *q, ls_host_task function, void *context)
{
    host_task t = { q, function, context, q->number };
    put(q, (task){ .kind = HOST, .host = &t }, 0);
}

static void record(ls_queue *q, ls_event *e) { put(q, (task){ .kind = RECORD, .event = e }, 0); }
static void await(ls_queue *q, ls_event *e) { put(q, (task){ .kind = AWAIT, .event = e }, 0); }
static void number(ls_queue *q, int64_t n) { q->number = n; }

static ls_status wait(ls_queue *q, int64_t *failed)
{
    const cu_driver *cu;
    char message[sizeof q->message];
    if (elsewhere(q)) {
        if (failed)
            *failed = -1;
        return ls_fail(LS_E_ARG,
                       "device cuda: this process was forked, and work put in by its parent's session "
                       "is done by the parent only");
    }
    LS_TRY(ls_cuda_enter(&cu));
    /* which kernel it was, the driver does not say */
    check(q, cu->stream_wait(q->stream), -1,
          "device cuda: work on the GPU failed (LOCKSTEP_CUDA_WAIT=1 waits for each task and names the op)");
    q->used = 0;
    pthread_mutex_lock(&q->lock);
    const ls_status s = q->status;
    memcpy(message, q->message, sizeof message);
    if (s != LS_OK && failed)
        *failed = q->failed;
    q->status = LS_OK;
    atomic_store(&q->skips, false);
    pthread_mutex_unlock(&q->lock);
    return s == LS_OK ? LS_OK : ls_fail(s, "%s", message);
}

/* ---- recordings */

static void discard(ls_recording **r)
{
    const cu_driver *cu;
    if (!*r)
        return;
    if ((*r)->graph && *(*r)->graph && ls_cuda_enter(&cu) == LS_OK)
        cu->graph_exec_destroy(*(*r)->graph);
    ls_arena_release(&(*r)->arena);
    free(*r);
    *r = NULL;
}

static void capture(ls_queue *q)
{
    if (elsewhere(q))
        return;
    ls_recording *r = ls_sys_calloc(1, sizeof *r);
    if (!r) {
        no_memory(q);
        return;
    }
    ls_arena_init(&r->arena);
    r->end = &r->first;
    r->alone = true;
    q->recording = r;
}

static ls_status get_ready(const ls_recording *r)
{
    int n = 0;
    ls_cuda_kernel **list = ls_sys_malloc((size_t)(r->n + 1) * sizeof *list);
    LS_TRY(ls_sys_have(list));
    for (const task *t = r->first; t; t = t->next)
        if (t->kind == KERNEL && !t->kernel->function)
            list[n++] = t->kernel;
    const ls_status s = n ? ls_cuda_ready(list, n) : LS_OK;
    free(list);
    return s;
}

/* What fails when a task is put in, the queue keeps. */
static void make_graph(ls_queue *q, const ls_recording *r)
{
    const cu_driver *cu = q->cu;
    cu_graph graph = NULL;
    char what[128];
    snprintf(what, sizeof what, "a graph of %d tasks (LOCKSTEP_CUDA_GRAPHS=0 does without)", r->n);
    cu_result e = cu->capture(q->stream, CU_CAPTURE_MODE_RELAXED);
    if (e == CU_SUCCESS) {
        for (const task *t = r->first; t; t = t->next)
            enter(q, t);
        e = cu->captured(q->stream, &graph);
    }
    if (e == CU_SUCCESS)
        e = cu->graph_instantiate(r->graph, graph, 0);
    if (graph)
        cu->graph_destroy(graph);
    check(q, e, -1, what);
}

static bool says(const char *variable, const char *value)
{
    const char *said = getenv(variable);
    return said && !strcmp(said, value);
}

static ls_status captured(ls_queue *q, ls_recording **out)
{
    const cu_driver *cu;
    *out = NULL;
    if (elsewhere(q) || !q->recording)
        return wait(q, NULL);
    ls_recording *r = q->recording;
    q->recording = NULL;
    ls_status s = ls_arena_status(&r->arena);
    if (s == LS_OK)
        s = ls_cuda_enter(&cu);
    if (s == LS_OK)
        s = get_ready(r);
    if (s == LS_OK && r->alone && r->n && !q->one_by_one && !says("LOCKSTEP_CUDA_GRAPHS", "0"))
        s = ls_sys_have(r->graph = LS_ARENA_NEW(&r->arena, cu_graph_exec));
    if (s != LS_OK)
        discard(&r);
    *out = r;
    return s;
}

/* A graph whose making failed is made again, which gives the same message. */
static void replay(ls_queue *q, const ls_recording *r)
{
    const cu_driver *cu;
    if (elsewhere(q) || atomic_load(&q->skips))
        return;
    if (ls_cuda_enter(&cu) != LS_OK) {
        fail(q, LS_E_DEVICE, -1, ls_error_message());
    } else if (r->graph) {
        if (!*r->graph)
            make_graph(q, r);
        if (*r->graph)
            check(q, cu->graph_launch(*r->graph, q->stream), -1, "a graph");
    } else {
        for (const task *t = r->first; t && !atomic_load(&q->skips); t = t->next)
            enter(q, t);
    }
}

/* ---- events and queues */

static ls_status event(ls_event **out, const ls_device *d)
{
    const cu_driver *cu;
    (void)d;
    LS_TRY(ls_cuda_enter(&cu));
    LS_TRY(ls_sys_have(*out = ls_sys_calloc(1, sizeof **out)));
    (*out)->process = getpid();
    const ls_status s = ls_cuda_check(cu->event_create(&(*out)->event, CU_EVENT_DEFAULT), "cuEventCreate");
    if (s != LS_OK) {
        free(*out);
        *out = NULL;
    }
    return s;
}

static void forget(ls_event **e)
{
    const cu_driver *cu;
    if (*e && (*e)->process == getpid() && ls_cuda_enter(&cu) == LS_OK)
        cu->event_destroy((*e)->event);
    free(*e);
    *e = NULL;
}

static double elapsed(const ls_event *from, const ls_event *to)
{
    const cu_driver *cu;
    float milliseconds = 0;
    if (ls_cuda_enter(&cu) == LS_OK)
        cu->event_elapsed(&milliseconds, from->event, to->event);
    return (double)milliseconds * 1e-3;
}

static ls_status open_queue(ls_queue **out, const ls_device *d)
{
    const cu_driver *cu;
    (void)d;
    *out = NULL;
    LS_TRY(ls_cuda_enter(&cu));
    ls_queue *q = ls_sys_calloc(1, sizeof *q);
    LS_TRY(ls_sys_have(q));
    q->cu = cu;
    q->process = getpid();
    q->one_by_one = says("LOCKSTEP_CUDA_WAIT", "1");
    q->number = -1;
    pthread_mutex_init(&q->lock, NULL);
    const ls_status s = ls_cuda_check(cu->stream_create(&q->stream, CU_STREAM_NON_BLOCKING),
                                      "cuStreamCreate");
    if (s != LS_OK) {
        pthread_mutex_destroy(&q->lock);
        free(q);
        return s;
    }
    *out = q;
    return LS_OK;
}

static void close_queue(ls_queue **q)
{
    const cu_driver *cu;
    if (*q && elsewhere(*q))
        *q = NULL; /* (what the parent's stream works with stays) */
    if (!*q)
        return;
    if (ls_cuda_enter(&cu) == LS_OK) {
        cu->stream_wait((*q)->stream);
        cu->stream_destroy((*q)->stream);
    }
    discard(&(*q)->recording);
    for (int i = 0; i < (*q)->n_tasks; i++)
        free((*q)->tasks[i]);
    free((*q)->tasks);
    pthread_mutex_destroy(&(*q)->lock);
    free(*q);
    *q = NULL;
}

const ls_queue_ops ls_queue_cuda = { .apart = true,
                                     .compiles = true,
                                     .memory = ls_cuda_memory,
                                     .room = ls_cuda_room,
                                     .release = ls_cuda_release,
                                     .pinned = ls_cuda_pinned,
                                     .unpin = ls_cuda_unpin,
                                     .reach = ls_cuda_reach,
                                     .unreach = ls_cuda_unreach,
                                     .open = open_queue,
                                     .close = close_queue,
                                     .run = run,
                                     .copy = copy,
                                     .fill = fill,
                                     .host = host,
                                     .number = number,
                                     .event = event,
                                     .forget = forget,
                                     .record = record,
                                     .await = await,
                                     .elapsed = elapsed,
                                     .wait = wait,
                                     .capture = capture,
                                     .captured = captured,
                                     .replay = replay,
                                     .discard = discard };
