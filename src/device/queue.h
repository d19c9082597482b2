/* queue.h - what a device does besides running kernels: memory, and the order of work on it.
 *
 * Work goes into a queue, as tasks: kernels, copies, fills, functions of the host. A queue runs its tasks one
 * after the other; what two queues do is ordered by events alone. Every call but `wait` only puts a task into
 * the queue and cannot fail. The first task that fails makes the queue skip all later ones; `wait` says so,
 * and is the only call that blocks.
 *
 * Two kinds of devices. One works in the host's memory (`apart` false): its tasks are done when the call
 * returns, and device/cpu/direct.c is all of it. The other has memory of its own (`apart`): the host cannot
 * read at its addresses, nor its kernels at the host's, but for pinned host memory, which both can.
 * A process that was forked cannot use its parent's queues.
 *
 * A task's arguments are copied when it is put in; what pointers in them lead to (attributes, boxes, host
 * memory of copies, contexts) must stay until the task has run. */
#pragma once
#include "device.h"

typedef struct ls_queue ls_queue;         /* each device has structs of its own */
typedef struct ls_event ls_event;         /* a point in a queue's work, once it is recorded */
typedef struct ls_recording ls_recording; /* tasks that were captured */
typedef ls_status (*ls_host_task)(void *context);
enum { LS_TASK_MESSAGE = 4096 }; /* a queue keeps what its failed task said: as much as ls_fail does */

struct ls_queue_ops {
    bool apart;
    bool compiles; /* kernels are compiled when they are captured or run for the first time */
    bool shared;   /* the ranks of a host have one device together, not one each */
    /* Bytes of memory that the device has. NULL: it has none of its own. */
    size_t (*memory)(const ls_device *d);

    /* Memory of the device, with arbitrary contents, aligned to 4096 bytes. LS_E_MEMORY. Blocks. */
    ls_status (*room)(void **out, const ls_device *d, size_t bytes);
    void (*release)(void *room, size_t bytes);
    /* Pinned host memory, zero: the host reads and writes it, and so do kernels and copies. */
    ls_status (*pinned)(void **out, const ls_device *d, size_t bytes);
    void (*unpin)(void *pinned, size_t bytes);
    /* The same for memory that the host has already, such as what ranks share; then its end. NULL: tasks
     * reach all of the host's memory as well as pinned memory. */
    ls_status (*reach)(void *memory, const ls_device *d, size_t bytes);
    void (*unreach)(void *memory);

    ls_status (*open)(ls_queue **out, const ls_device *d);
    void (*close)(ls_queue **q); /* after the tasks that are in it */

    void (*run)(ls_queue *q, const ls_kernel *k, const ls_kernel_args *a);
    void (*copy)(ls_queue *q, void *to, const void *from, size_t bytes); /* both may be of either kind */
    void (*fill)(ls_queue *q, void *to, int byte, size_t bytes);
    void (*host)(ls_queue *q, ls_host_task task, void *context);
    /* Tasks put in from here on have this number, for messages. No task itself. */
    void (*number)(ls_queue *q, int64_t number);

    ls_status (*event)(ls_event **out, const ls_device *d); /* one queue records it, any may await it */
    void (*forget)(ls_event **e);                           /* after `wait` of the queues that name it */
    void (*record)(ls_queue *q, ls_event *e); /* the event happens when earlier tasks are done */
    void (*await)(ls_queue *q, ls_event *e);  /* later tasks begin when the latest record has happened */
    /* Seconds from one event to another. Both have happened: after `wait` of their queues. */
    double (*elapsed)(const ls_event *from, const ls_event *to);

    /* LS_OK when all tasks are done. Else what the first task that failed said, and *failed (unless NULL) is
     * its number; the queue then works again. */
    ls_status (*wait)(ls_queue *q, int64_t *failed);

    /* Between capture and captured tasks are kept instead of run; replay puts all of them in again, at
     * little cost. Those of the queue `beside` (NULL: none) are kept with them, in their order; its first one
     * awaits an event that q recorded meanwhile, and q awaits the end of its last one before captured. Events
     * that are recorded and awaited within it order its tasks only: `elapsed`, and tasks that were not
     * captured, must not use those records. NULL: the device has no such thing (nor the two below). */
    void (*capture)(ls_queue *q, ls_queue *beside);
    ls_status (*captured)(ls_queue *q, ls_recording **out);
    void (*replay)(ls_queue *q, const ls_recording *r);
    void (*discard)(ls_recording **r); /* after `wait` */
};

/* Whether the device's memory is its own. */
static inline bool ls_device_apart(const ls_device *d) { return d->ops->queue && d->ops->queue->apart; }

extern const ls_queue_ops ls_queue_direct;   /* of devices that work in host memory: cpu, ref, null */
extern const ls_queue_ops ls_queue_emulated; /* of the device emulated */
extern const ls_queue_ops ls_queue_cuda;     /* of the device cuda */
