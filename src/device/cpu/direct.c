/* direct.c - the queue of devices that work in host memory: a task is done when the call that puts it in
 * returns. So events order nothing, and there is nothing to capture. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "device/queue.h"

struct ls_queue {
    int threads;
    int64_t number, failed;
    ls_status status;              /* of the first task that failed since the last wait */
    char message[LS_TASK_MESSAGE]; /* and what it said */
};

struct ls_event {
    double at;
};

static ls_status direct_room(void **out, const ls_device *d, size_t bytes)
{
    char text[32];
    (void)d;
    *out = ls_sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*out != MAP_FAILED)
        return LS_OK;
    *out = NULL;
    return ls_fail(LS_E_MEMORY, "the system refuses %s", ls_format_bytes(text, bytes));
}

static void direct_release(void *at, size_t bytes) { munmap(at, bytes); }

static ls_status open_queue(ls_queue **out, const ls_device *d)
{
    LS_TRY(ls_sys_have(*out = ls_sys_calloc(1, sizeof **out)));
    (*out)->threads = d->threads;
    return LS_OK;
}

static void close_queue(ls_queue **q)
{
    free(*q);
    *q = NULL;
}

static void direct_run(ls_queue *q, const ls_kernel *k, const ls_kernel_args *a)
{
    if (q->status == LS_OK)
        k->run(a);
}

typedef struct moving {
    char *to;
    const char *from;
    size_t bytes;
} moving;

enum { BLOCK = 1 << 18 };

static void move_blocks(void *context, int64_t begin, int64_t end, int worker)
{
    const moving *m = context;
    const size_t from = (size_t)begin * BLOCK, to = (size_t)end * BLOCK;
    (void)worker;
    memcpy(m->to + from, m->from + from, (to < m->bytes ? to : m->bytes) - from);
}

/* Large copies are shared by the threads of the device: they may be the first to touch the memory. */
static void direct_copy(ls_queue *q, void *to, const void *from, size_t bytes)
{
    moving m = { to, from, bytes };
    if (q->status != LS_OK)
        return;
    if (bytes <= 4 * BLOCK)
        memcpy(to, from, bytes);
    else
        ls_parallel_for(q->threads, (int64_t)((bytes + BLOCK - 1) / BLOCK), move_blocks, &m);
}

static void direct_fill(ls_queue *q, void *to, int byte, size_t bytes)
{
    if (q->status == LS_OK)
        memset(to, byte, bytes);
}

static void direct_host(ls_queue *q, ls_host_task task, void *context)
{
    if (q->status != LS_OK || (q->status = task(context)) == LS_OK)
        return;
    q->failed = q->number;
    snprintf(q->message, sizeof q->message, "%s", ls_error_message());
}

static void direct_number(ls_queue *q, int64_t n) { q->number = n; }

static ls_status direct_event(ls_event **out, const ls_device *d)
{
    (void)d;
    return ls_sys_have(*out = ls_sys_calloc(1, sizeof **out));
}

static void direct_forget(ls_event **e)
{
    free(*e);
    *e = NULL;
}

static void direct_record(ls_queue *q, ls_event *e)
{
    (void)q;
    e->at = ls_now();
}

static void direct_await(ls_queue *q, ls_event *e) { (void)q, (void)e; }

static double direct_elapsed(const ls_event *from, const ls_event *to) { return to->at - from->at; }

static ls_status direct_wait(ls_queue *q, int64_t *failed)
{
    const ls_status s = q->status;
    if (s == LS_OK)
        return LS_OK;
    if (failed)
        *failed = q->failed;
    q->status = LS_OK;
    return ls_fail(s, "%s", q->message);
}

const ls_queue_ops ls_queue_direct = { .room = direct_room,
                                       .release = direct_release,
                                       .pinned = direct_room,
                                       .unpin = direct_release,
                                       .open = open_queue,
                                       .close = close_queue,
                                       .run = direct_run,
                                       .copy = direct_copy,
                                       .fill = direct_fill,
                                       .host = direct_host,
                                       .number = direct_number,
                                       .event = direct_event,
                                       .forget = direct_forget,
                                       .record = direct_record,
                                       .await = direct_await,
                                       .elapsed = direct_elapsed,
                                       .wait = direct_wait };
