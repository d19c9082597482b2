/* queue_ops.c - queues of the device cuda are opened and closed; the table of all that they do. */
#include <stdlib.h>

#include "base/sys.h"
#include "queue_own.h"

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
    q->one_by_one = ls_cuda_one_by_one();
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
                                     .run = ls_cuda_run,
                                     .copy = ls_gpu_copy,
                                     .fill = ls_gpu_fill,
                                     .host = ls_cuda_host,
                                     .number = ls_cuda_number,
                                     .event = ls_cuda_event,
                                     .forget = ls_cuda_forget,
                                     .record = ls_cuda_record,
                                     .await = ls_cuda_await,
                                     .elapsed = ls_cuda_elapsed,
                                     .wait = ls_cuda_wait,
                                     .capture = ls_cuda_capture,
                                     .captured = ls_cuda_captured,
                                     .replay = ls_cuda_replay,
                                     .discard = ls_cuda_discard };
