/* queue.c - tasks that are put into a queue of the device cuda, which is a stream.
 *
 * Kernels, copies, fills, functions of the host and calls of libraries go straight into the stream. While the
 * queue captures they are kept in a list: so all kernels of a program are known before the first one runs,
 * and are compiled together; then the list becomes a graph, which one call puts into the stream
 * (LOCKSTEP_CUDA_GRAPHS=0: it is put in task by task). The list has the tasks of two queues where one
 * captures beside the other. In a graph an event only orders the graph's tasks: a list whose events reach
 * beyond it is put in task by task. */
#include <stdatomic.h>

#include "base/sys.h"
#include "queue_own.h"

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

static void queue_put(ls_queue *q, cuda_task t, size_t arg_bytes)
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
        ls_cuda_fail(q, LS_E_DEVICE, ls_cuda_heard_of_earlier_work() ? -1 : q->number, ls_error_message());
    else
        ls_cuda_enter_task(&t);
}

void ls_cuda_run(ls_queue *q, const ls_kernel *k, const ls_kernel_args *a)
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
        queue_put(q,
                  (cuda_task){
                      .kind = KERNEL, .kernel = k, .blocks = (unsigned)l->blocks, .args = (void *)l->args },
                  l->bytes);
}

void ls_gpu_copy(ls_queue *q, void *to, const void *from, size_t bytes)
{
    if (bytes)
        queue_put(q, (cuda_task){ .kind = COPY, .to = to, .from = from, .bytes = bytes }, 0);
}

void ls_gpu_fill(ls_queue *q, void *to, int byte, size_t bytes)
{
    if (bytes)
        queue_put(q, (cuda_task){ .kind = FILL, .to = to, .byte = byte, .bytes = bytes }, 0);
}

void ls_cuda_host(ls_queue *q, ls_host_task function, void *context)
{
    host_task t = { q, function, context, q->number };
    queue_put(q, (cuda_task){ .kind = HOST, .host = &t }, 0);
}

void ls_cuda_record(ls_queue *q, ls_event *e) { queue_put(q, (cuda_task){ .kind = RECORD, .event = e }, 0); }
void ls_cuda_await(ls_queue *q, ls_event *e) { queue_put(q, (cuda_task){ .kind = AWAIT, .event = e }, 0); }

void ls_cuda_call_put(ls_queue *q, ls_cuda_call c, const void *args, size_t bytes)
{
    queue_put(q, (cuda_task){ .kind = CALL, .call = c, .args = (void *)args }, bytes);
}

void ls_cuda_number(ls_queue *q, int64_t n) { q->number = n; }
