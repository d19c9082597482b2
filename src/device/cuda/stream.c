/* stream.c - what a queue of the device cuda puts into its stream, and waits for.
 *
 * What fails: a call of the driver, at once; a function of the host, in its turn, and then later ones are
 * skipped; a kernel, which the driver says at the next wait, without its name. Then the context is lost, and
 * all later calls fail. Kernels that were put in behind a function that failed do run, but nobody looks at
 * their results. With LOCKSTEP_CUDA_WAIT=1 the host waits for each task, so a kernel that fails is named. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

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
    const ls_status s = ls_cuda_check(r, what);
    if (s != LS_OK)
        ls_cuda_fail(q, s, ls_cuda_heard_of_earlier_work() ? -1 : number, ls_error_message());
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

static void check_task(ls_queue *q, cu_result r, const cuda_task *t)
{
    const ls_cuda_kernel *k = t->kernel;
    char what[256] = "a copy, a fill, an event or a call of a library";
    if (r != CU_SUCCESS && k)
        snprintf(what, sizeof what, "kernel %s (%u blocks of %u threads, %u bytes of shared memory)", k->name,
                 t->blocks, k->threads, k->shared);
    ls_cuda_check_put(q, r, t->number, what);
}

static void stream_launch(ls_queue *q, const cuda_task *t)
{
    void *arguments[] = { t->args };
    const ls_cuda_kernel *k = t->kernel;
    check_task(
        q,
        q->cu->launch(k->function, t->blocks, 1, 1, k->threads, 1, 1, k->shared, q->stream, arguments, NULL),
        t);
}

static void call(ls_queue *q, const cuda_task *t)
{
    if (t->call.ended && atomic_load(t->call.ended))
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
    case KERNEL: stream_launch(q, t); break;
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
    if (q->one_by_one)
        check_task(q, cu->stream_wait(q->stream), t);
}

void ls_cuda_refuse(ls_queue *q, ls_status s) { ls_cuda_fail(q, s, q->number, ls_error_message()); }

void ls_cuda_no_memory(ls_queue *q)
{
    ls_cuda_fail(q, LS_E_MEMORY, q->number, "out of memory for a task of device cuda");
}

/* ---- the host's side */

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
    ls_cuda_check_put(q, cu->stream_wait(q->stream), -1, "device cuda: a wait");
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
