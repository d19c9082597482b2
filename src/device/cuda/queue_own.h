/* queue_own.h - a queue of the device cuda, and what it keeps while it captures. */
#pragma once
#include <unistd.h>

#include "base/arena.h"
#include "cuda_own.h"

/* A function of the host, on its way through the stream. */
typedef struct host_task {
    ls_queue *queue;
    ls_host_task run;
    void *context;
    int64_t number;
} host_task;

typedef enum task_kind { KERNEL, COPY, FILL, HOST, RECORD, AWAIT, CALL } task_kind;
typedef struct cuda_task {
    task_kind kind;
    ls_queue *queue;
    int64_t number;
    ls_cuda_kernel *kernel;
    unsigned blocks;
    void *args;
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    host_task *host;
    ls_event *event;
    ls_cuda_call call;
    struct cuda_task *next, *next_call;
} cuda_task;

struct ls_recording {
    ls_arena arena;
    ls_queue *queue, *beside;
    int64_t nth; /* of the process, from 1: which recording an event is in */
    cuda_task *first, **end, *calls;
    int n, unawaited;         /* events that are recorded in it and not awaited in it */
    bool forked, reaches_out; /* `beside` has awaited an event of it; it awaits another event */
    cu_graph_exec *graph;     /* NULL: it is put in task by task. Made by the first replay */
};

struct ls_queue {
    const cu_driver *cu;
    cu_stream stream;
    pid_t process;
    bool one_by_one; /* LOCKSTEP_CUDA_WAIT=1 */
    int64_t number;
    ls_recording *recording; /* while it captures, or another queue captures with it beside */
    host_task **tasks;       /* those that are not part of a recording; `used` since the last wait */
    int n_tasks, used, cap;
    pthread_mutex_t lock; /* of all that follows: functions of the host run on a thread of the driver */
    _Atomic bool skips;
    ls_status status; /* of the first failure since the last wait */
    int64_t failed;
    char message[LS_TASK_MESSAGE];
};

/* The process was forked. */
static inline bool ls_cuda_elsewhere(const ls_queue *q) { return q->process != getpid(); }

/* ---- stream.c */
void ls_cuda_fail(ls_queue *q, ls_status s, int64_t number, const char *message);
void ls_cuda_check_put(ls_queue *q, cu_result r, int64_t number, const char *what);
void ls_cuda_no_memory(ls_queue *q);
/* Puts a task into its queue's stream. */
void ls_cuda_enter_task(const cuda_task *t);
ls_status ls_cuda_wait(ls_queue *q, int64_t *failed);

/* ---- recording.c */
void ls_cuda_keep(ls_recording *r, const cuda_task *t, size_t arg_bytes);
void ls_cuda_capture(ls_queue *q, ls_queue *beside);
ls_status ls_cuda_captured(ls_queue *q, ls_recording **out);
void ls_cuda_replay(ls_queue *q, const ls_recording *r);
void ls_cuda_discard(ls_recording **r);
/* Tasks are kept no more; the recording, or NULL. */
ls_recording *ls_cuda_end_capture(ls_queue *q);

/* ---- queue.c */
void ls_cuda_run(ls_queue *q, const ls_kernel *k, const ls_kernel_args *a);
void ls_cuda_host(ls_queue *q, ls_host_task function, void *context);
void ls_cuda_record(ls_queue *q, ls_event *e);
void ls_cuda_await(ls_queue *q, ls_event *e);
void ls_cuda_number(ls_queue *q, int64_t n);
