/* queue.c - a queue of the device cuda: a stream.
 *
 * Kernels, copies, fills, functions of the host and calls of NCCL go straight into the stream. While the
 * queue captures they are kept in a list: so all kernels of a program are known before the first one runs,
 * and are compiled together; then the list becomes a graph, which one call puts into the stream
 * (LOCKSTEP_CUDA_GRAPHS=0: it is put in task by task). The list has the tasks of two queues where one
 * captures beside the other. In a graph an event only orders the graph's tasks: a list whose events reach
 * beyond it is put in task by task.
 *
 * What fails: a call of the driver, at once; a function of the host, in its turn, and then later ones are
 * skipped; a kernel, which the driver says at the next wait. Then the context is lost, and all later calls
 * fail. Kernels that were put in behind a function that failed do run, but nobody looks at their results. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "queue_own.h"

/* ---- failures */

void ls_cuda_fail(ls_queue *q, ls_status s, int64_t number, const char *message)
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

void ls_cuda_check_put(ls_queue *q, cu_result r, int64_t number, const char *what)
{
    if (r != CU_SUCCESS)
        ls_cuda_fail(q, ls_cuda_check(r, what), number, ls_error_message());
}

/* On a thread of the driver, which may not call the driver. */
static void run_host(void *context)
{
    const host_task *t = context;
    ls_queue *q = t->queue;
    const ls_status s = atomic_load(&q->skips) ? LS_OK : t->run(t->context);
    if (s != LS_OK)
        ls_cuda_fail(q, s, t->number, ls_error_message());
}

/* ---- putting in */

static void launch(ls_queue *q, const cuda_task *t)
{
    void *arguments[] = { t->args };
    const ls_cuda_kernel *k = t->kernel;
    const cu_result r = q->cu->launch(k->function, t->blocks, 1, 1, k->threads, 1, 1, k->shared, q->stream,
                                      arguments, NULL);
    if (r != CU_SUCCESS) {
        char what[256];
        snprintf(what, sizeof what, "kernel %s (%u blocks of %u threads, %u bytes of shared memory)", k->name,
                 t->blocks, k->threads, k->shared);
        ls_cuda_check_put(q, r, t->number, what);
    }
}

static void call(ls_queue *q, const cuda_task *t)
{
    if (atomic_load(t->call.ended))
        return;
    const ls_status s = t->call.put(t->args, q->stream);
    if (s != LS_OK)
        ls_cuda_fail(q, s, t->number, ls_error_message());
}

void ls_cuda_enter_task(const cuda_task *t)
{
    ls_queue *q = t->queue;
    const cu_driver *cu = q->cu;
    switch (t->kind) {
    case KERNEL: launch(q, t); break;
    case COPY:
        ls_cuda_check_put(
            q, cu->copy((cu_address)(uintptr_t)t->to, (cu_address)(uintptr_t)t->from, t->bytes, q->stream),
            t->number, "a copy");
        break;
    case FILL:
        ls_cuda_check_put(q,
                          cu->fill((cu_address)(uintptr_t)t->to, (unsigned char)t->byte, t->bytes, q->stream),
                          t->number, "a fill");
        break;
    case HOST:
        ls_cuda_check_put(q, cu->host(q->stream, run_host, t->host), t->number, "a function of the host");
        break;
    case RECORD:
        ls_cuda_check_put(q, cu->event_record(t->event->event, q->stream), t->number, "an event");
        break;
    case AWAIT:
        ls_cuda_check_put(q, cu->stream_await(q->stream, t->event->event, 0), t->number, "an event");
        break;
    case CALL: call(q, t); break;
    }
}

void ls_cuda_no_memory(ls_queue *q)
{
    ls_cuda_fail(q, LS_E_MEMORY, q->number, "out of memory for a task of device cuda");
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

static void put(ls_queue *q, cuda_task t, size_t arg_bytes)
{
    const cu_driver *cu;
    t.queue = q;
    t.number = q->number;
    if (ls_cuda_elsewhere(q))
        return; /* `wait` says so */
    if (q->recording) {
        ls_cuda_keep(q->recording, &t, arg_bytes);
        return;
    }
    if (atomic_load(&q->skips))
        return;
    if (t.kind == HOST && !(t.host = on_its_way(q, t.host)))
        ls_cuda_no_memory(q);
    else if (ls_cuda_enter(&cu) != LS_OK ||
             (t.kernel && !t.kernel->function && ls_cuda_ready(&t.kernel, 1) != LS_OK))
        ls_cuda_fail(q, LS_E_DEVICE, q->number, ls_error_message());
    else
        ls_cuda_enter_task(&t);
}

static void run(ls_queue *q, const ls_kernel *k, const ls_kernel_args *a)
{
    ls_kernel_args own = *a;
    own.queue = q;
    k->run(&own);
}

void ls_gpu_run(ls_queue *q, const ls_gpu_launch *l)
{
    if (!l->blocks || ls_cuda_elsewhere(q))
        return;
    ls_cuda_kernel *k = ls_cuda_kernel_of(l);
    if (!k)
        ls_cuda_no_memory(q);
    else
        put(q,
            (cuda_task){
                .kind = KERNEL, .kernel = k, .blocks = (unsigned)l->blocks, .args = (void *)l->args },
            l->bytes);
}

static void copy(ls_queue *q, void *to, const void *from, size_t bytes)
{
    if (bytes)
        put(q, (cuda_task){ .kind = COPY, .to = to, .from = from, .bytes = bytes }, 0);
}

static void fill(ls_queue *q, void *to, int byte, size_t bytes)
{
    if (bytes)
        put(q, (cuda_task){ .kind = FILL, .to = to, .byte = byte, .bytes = bytes }, 0);
}

void ls_gpu_copy(ls_queue *q, void *to, const void *from, size_t bytes) { copy(q, to, from, bytes); }
void ls_gpu_fill(ls_queue *q, void *to, int byte, size_t bytes) { fill(q, to, byte, bytes); }

static void host(ls_queue *q, ls_host_task function, void *context)
{
    host_task t = { q, function, context, q->number };
    put(q, (cuda_task){ .kind = HOST, .host = &t }, 0);
}

static void record(ls_queue *q, ls_event *e) { put(q, (cuda_task){ .kind = RECORD, .event = e }, 0); }
static void await(ls_queue *q, ls_event *e) { put(q, (cuda_task){ .kind = AWAIT, .event = e }, 0); }

void ls_cuda_call_put(ls_queue *q, ls_cuda_call c, const void *args, size_t bytes)
{
    put(q, (cuda_task){ .kind = CALL, .call = c, .args = (void *)args }, bytes);
}

static void number(ls_queue *q, int64_t n) { q->number = n; }

static bool idle(ls_queue *q)
{
    const cu_driver *cu;
    return ls_cuda_elsewhere(q) || ls_cuda_enter(&cu) != LS_OK || cu->stream_query(q->stream) != CU_NOT_READY;
}

ls_status ls_cuda_wait(ls_queue *q, int64_t *failed)
{
    const cu_driver *cu;
    char message[sizeof q->message];
    if (ls_cuda_elsewhere(q)) {
        if (failed)
            *failed = -1;
        return ls_fail(LS_E_ARG,
                       "device cuda: this process was forked, and work put in by its parent's session "
                       "is done by the parent only");
    }
    LS_TRY(ls_cuda_enter(&cu));
    /* which kernel it was, the driver does not say */
    ls_cuda_check_put(
        q, cu->stream_wait(q->stream), -1,
        "device cuda: work on the GPU failed (CUDA_LAUNCH_BLOCKING=1 with LOCKSTEP_CUDA_GRAPHS=0 names the "
        "op)");
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

/* ---- queues */

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
    if (*q && ls_cuda_elsewhere(*q))
        *q = NULL; /* (what the parent's stream works with stays) */
    if (!*q)
        return;
    if (ls_cuda_enter(&cu) == LS_OK) {
        cu->stream_wait((*q)->stream);
        cu->stream_destroy((*q)->stream);
    }
    ls_recording *kept = ls_cuda_end_capture(*q);
    ls_cuda_discard(&kept);
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
                                     .event = ls_cuda_event,
                                     .forget = ls_cuda_forget,
                                     .record = record,
                                     .await = await,
                                     .elapsed = ls_cuda_elapsed,
                                     .wait = ls_cuda_wait,
                                     .idle = idle,
                                     .capture = ls_cuda_capture,
                                     .captured = ls_cuda_captured,
                                     .replay = ls_cuda_replay,
                                     .discard = ls_cuda_discard,
                                     .link = &ls_cuda_link };
