/* queue.c - a queue of the device emulated: a thread that runs tasks one after the other, and waits for a
 * drawn time in front of each.
 *
 * Tasks stand in a ring that grows. A task belongs to its entry of the ring, or to a recording, whose tasks
 * are put in any number of times. A failed queue skips what computes, but still records events: other queues
 * wait for them. Without memory for a task, the call that puts it in waits until the queue is empty, and the
 * queue fails. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/sys.h"
#include "emulated_own.h"

typedef enum task_kind { KERNEL, COPY, FILL, HOST, RECORD, AWAIT } task_kind;

/* Constant once it is made. */
typedef struct task {
    struct task *next; /* in the list of those that are free */
    ls_queue *queue;
    int room; /* operands that it has room for */
    task_kind kind;
    int64_t number; /* for messages */
    const ls_kernel *kernel;
    ls_kernel_args args;
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    ls_host_task host;
    void *context;
    ls_event *event;
    ls_tensor operands[];
} task;

typedef struct entry {
    task *task;
    bool owned;  /* else a recording has it */
    int64_t nth; /* RECORD: which record of the event it is; AWAIT: which one it waits for */
} entry;

enum { FEW = LS_KERNEL_INPUTS + 2, STOCK = 64 };

struct ls_recording {
    task **tasks;
    int n, cap;
    bool failed; /* out of memory */
};

struct ls_queue {
    ls_emulation how;
    bool first;      /* of the process */
    ls_rng_key draw; /* of delays */
    pthread_t thread;
    pid_t process; /* that has the thread: a process that is forked has none, and the lock may be taken for
                      ever */

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t more, done;
    entry *ring; /* entries head .. tail - 1, each at its number modulo cap, a power of 2 */
    int64_t head, tail, cap;
    task *free; /* with room for FEW operands, STOCK of them at first: a step allocates nothing */
    bool closing;
    bool captures;
    ls_recording *recording; /* tasks are kept in it while the queue captures; NULL: out of memory */
    ls_queue *beside;        /* whose tasks are kept in it too; NULL: none */
    int64_t number, failed;
    ls_status status; /* of the first task that failed since the last wait */
    char message[LS_TASK_MESSAGE];
};

/* ---- the thread's side */

/* A short wait keeps the core: to sleep takes longer. */
static void dawdle(double seconds)
{
    const double end = ls_now() + seconds;
    if (seconds > 50e-6)
        nanosleep(&(struct timespec){ .tv_sec = (time_t)seconds,
                                      .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) },
                  NULL);
    while (ls_now() < end)
        ;
}

/* `index`: of the tasks that the queue has begun, from 0. */
static ls_status work(const ls_queue *q, const task *t, int64_t index)
{
    const double u = ls_rng_uniform(q->draw, (uint64_t)index);
    dawdle(q->how.delay * u * u * u * u); /* mostly short */
    if (q->first && index + 1 == q->how.fail)
        return ls_fail(LS_E_DEVICE, "emulated: task %lld of the first queue fails (LOCKSTEP_EMULATED, fail=)",
                       (long long)q->how.fail);
    switch (t->kind) {
    case KERNEL: t->kernel->run(&t->args); break;
    case COPY: memcpy(t->to, t->from, t->bytes); break;
    case FILL: memset(t->to, t->byte, t->bytes); break;
    case HOST: return t->host(t->context);
    case RECORD:
    case AWAIT: break;
    }
    return LS_OK;
}

static void fail(ls_queue *q, ls_status s, int64_t number, const char *message)
{
    if (q->status != LS_OK)
        return;
    q->status = s;
    q->failed = number;
    snprintf(q->message, sizeof q->message, "%s", message);
}

static void give_back(ls_queue *q, task *t)
{
    if (t->room > FEW) {
        free(t);
        return;
    }
    t->next = q->free;
    q->free = t;
}

static void *run_tasks(void *context)
{
    ls_queue *q = context;
    int64_t begun = 0;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (q->head == q->tail && !q->closing)
            pthread_cond_wait(&q->more, &q->lock);
        if (q->head == q->tail)
            break;
        const entry e = q->ring[q->head & (q->cap - 1)];
        const bool skips = q->status != LS_OK;
        ls_status s = LS_OK;
        pthread_mutex_unlock(&q->lock);
        if (e.task->kind == RECORD)
            ls_emulated_happen(e.task->event, e.nth);
        else if (e.task->kind == AWAIT)
            ls_emulated_await(e.task->event, e.nth);
        else if (!skips)
            s = work(q, e.task, begun++);
        pthread_mutex_lock(&q->lock);
        if (s != LS_OK)
            fail(q, s, e.task->number, ls_error_message());
        if (e.owned)
            give_back(q, e.task);
        if (++q->head == q->tail)
            pthread_cond_broadcast(&q->done);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* ---- putting in */

static void drain(ls_queue *q)
{
    while (q->head != q->tail)
        pthread_cond_wait(&q->done, &q->lock);
}

static bool queue_grow(ls_queue *q)
{
    const int64_t cap = q->cap ? 2 * q->cap : 1024;
    entry *ring = q->tail - q->head < q->cap ? q->ring : ls_sys_malloc((size_t)cap * sizeof *ring);
    if (!ring || ring == q->ring)
        return ring;
    for (int64_t i = q->head; i < q->tail; i++)
        ring[i & (cap - 1)] = q->ring[i & (q->cap - 1)];
    free(q->ring);
    q->ring = ring;
    q->cap = cap;
    return true;
}

static int64_t nth_of(const task *t) { return t->event ? ls_emulated_nth(t->event, t->kind == RECORD) : 0; }

/* There is no memory for the task. */
static void queue_refuse(ls_queue *q, const task *t)
{
    drain(q);
    fail(q, LS_E_MEMORY, t->number, "out of memory for a task of device emulated");
    if (t->kind == RECORD)
        ls_emulated_happen(t->event, nth_of(t));
}

static void queue_enter(ls_queue *q, task *t, bool owned)
{
    const bool leaves_out = t->kind == AWAIT && ls_emulation_await() == q->how.skip,
               enters = !leaves_out && queue_grow(q);
    if (enters) {
        q->ring[q->tail++ & (q->cap - 1)] = (entry){ t, owned, nth_of(t) };
        pthread_cond_signal(&q->more);
    } else if (!leaves_out) {
        queue_refuse(q, t);
    }
    if (!enters && owned)
        give_back(q, t);
}

static void queue_keep(ls_recording *r, task *t)
{
    task **more = r && t && !r->failed ? ls_sys_grow(r->tasks, r->n, &r->cap, sizeof(task *)) : NULL;
    if (!more) {
        free(t);
        if (r)
            r->failed = true;
        return;
    }
    r->tasks = more;
    r->tasks[r->n++] = t;
}

static ls_tensor on_host(ls_tensor t)
{
    t.data = ls_emulated_host(t.data);
    return t;
}

static task *new_task(int operands)
{
    const int room = operands > FEW ? operands : FEW;
    task *t = ls_sys_malloc(sizeof *t + (size_t)room * sizeof *t->operands);
    if (t)
        t->room = room;
    return t;
}

static task *get_task(ls_queue *q, int operands)
{
    task *t = operands > FEW || q->captures ? NULL : q->free;
    if (!t)
        return new_task(operands);
    q->free = t->next;
    return t;
}

/* A copy with the arguments `a` (NULL: none), whose list of inputs reaches as far as any kernel looks. */
static task *copy_of(ls_queue *q, const task *t, const ls_kernel_args *a)
{
    const int given = a ? a->n_in : 0, n_out = a ? a->n_out : 0,
              n_in = given > LS_KERNEL_INPUTS ? given : LS_KERNEL_INPUTS;
    task *c = get_task(q, n_in + n_out);
    if (!c)
        return NULL;
    const int room = c->room;
    *c = *t;
    c->room = room;
    if (a) {
        for (int i = 0; i < n_in; i++)
            c->operands[i] = i < given ? on_host(a->in[i]) : (ls_tensor){ .type.ndim = -1 };
        for (int i = 0; i < n_out; i++)
            c->operands[n_in + i] = on_host(a->out[i]);
        c->args = *a;
        c->args.in = c->operands;
        c->args.out = c->operands + n_in;
        c->args.workspace = ls_emulated_host(a->workspace);
        c->args.queue = NULL;
    }
    return c;
}

static bool elsewhere(const ls_queue *q) { return q->process != getpid(); }
static void enqueue(ls_queue *q, task t, const ls_kernel_args *a)
{
    if (elsewhere(q))
        return; /* `queue_wait` says so */
    pthread_mutex_lock(&q->lock);
    t.number = q->number;
    t.queue = q;
    task *own = copy_of(q, &t, a);
    if (q->captures)
        queue_keep(q->recording, own);
    else if (own)
        queue_enter(q, own, true);
    else
        queue_refuse(q, &t);
    pthread_mutex_unlock(&q->lock);
}

static void queue_run(ls_queue *q, const ls_kernel *k, const ls_kernel_args *a)
{
    enqueue(q, (task){ .kind = KERNEL, .kernel = k }, a);
}

static void queue_copy(ls_queue *q, void *to, const void *from, size_t bytes)
{
    const char *source = ls_emulated_host(from);
    enqueue(q, (task){ .kind = COPY, .to = ls_emulated_host(to), .from = source, .bytes = bytes }, NULL);
}

static void queue_fill(ls_queue *q, void *to, int byte, size_t bytes)
{
    enqueue(q, (task){ .kind = FILL, .to = ls_emulated_host(to), .byte = byte, .bytes = bytes }, NULL);
}

static void queue_host(ls_queue *q, ls_host_task function, void *context)
{
    enqueue(q, (task){ .kind = HOST, .host = function, .context = context }, NULL);
}

static void queue_record(ls_queue *q, ls_event *e) { enqueue(q, (task){ .kind = RECORD, .event = e }, NULL); }
static void queue_await(ls_queue *q, ls_event *e) { enqueue(q, (task){ .kind = AWAIT, .event = e }, NULL); }

static void queue_number(ls_queue *q, int64_t n)
{
    if (elsewhere(q))
        return;
    pthread_mutex_lock(&q->lock);
    q->number = n;
    pthread_mutex_unlock(&q->lock);
}

static ls_status queue_wait(ls_queue *q, int64_t *failed)
{
    char message[sizeof q->message];
    if (elsewhere(q)) {
        if (failed)
            *failed = -1;
        return ls_fail(LS_E_ARG, "device emulated: this process was forked, and work put in by its parent's "
                                 "session is done by the parent only");
    }
    pthread_mutex_lock(&q->lock);
    drain(q);
    const ls_status s = q->status;
    if (s != LS_OK) {
        memcpy(message, q->message, sizeof message);
        if (failed)
            *failed = q->failed;
    }
    q->status = LS_OK;
    pthread_mutex_unlock(&q->lock);
    return s == LS_OK ? LS_OK : ls_fail(s, "%s", message);
}

/* ---- recordings */

static void queue_discard(ls_recording **r)
{
    for (int i = 0; *r && i < (*r)->n; i++)
        free((*r)->tasks[i]);
    if (*r)
        free((*r)->tasks);
    free(*r);
    *r = NULL;
}

/* A queue keeps its tasks in r from here on (NULL: out of memory), or no more. */
static void set_capture(ls_queue *q, bool captures, ls_recording *r)
{
    pthread_mutex_lock(&q->lock);
    q->recording = r;
    q->captures = captures;
    pthread_mutex_unlock(&q->lock);
}

static void queue_capture(ls_queue *q, ls_queue *beside)
{
    if (elsewhere(q))
        return;
    ls_recording *r = ls_sys_calloc(1, sizeof *r);
    set_capture(q, true, r);
    if (beside)
        set_capture(beside, true, r);
    q->beside = beside;
}

static ls_status queue_captured(ls_queue *q, ls_recording **out)
{
    *out = NULL;
    if (elsewhere(q))
        return queue_wait(q, NULL);
    *out = q->recording;
    set_capture(q, false, NULL);
    if (q->beside)
        set_capture(q->beside, false, NULL);
    if (*out && (*out)->failed)
        queue_discard(out);
    return ls_sys_have(*out);
}

static void queue_replay(ls_queue *q, const ls_recording *r)
{
    if (elsewhere(q))
        return;
    for (int i = 0; i < r->n; i++) {
        ls_queue *own = r->tasks[i]->queue;
        pthread_mutex_lock(&own->lock);
        queue_enter(own, r->tasks[i], false);
        pthread_mutex_unlock(&own->lock);
    }
}

/* ---- queues */

/* Signals are left to the main thread, but not the thread's own faults. */
static int start_thread(ls_queue *q)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = ls_sys_thread(&q->thread, run_tasks, q);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void queue_release(ls_queue *q)
{
    pthread_cond_destroy(&q->more);
    pthread_cond_destroy(&q->done);
    pthread_mutex_destroy(&q->lock);
    queue_discard(&q->recording);
    for (task *t = q->free, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    free(q->ring);
    free(q);
}

static ls_status open_queue(ls_queue **out, const ls_device *d)
{
    ls_emulation how;
    (void)d;
    *out = NULL;
    LS_TRY(ls_emulation_read(&how));
    ls_queue *q = ls_sys_calloc(1, sizeof *q);
    LS_TRY(ls_sys_have(q));
    const int64_t nth = ls_emulation_queue();
    q->how = how;
    q->process = getpid();
    q->first = nth == 1;
    q->draw = ls_rng_key_of(how.seed, (uint64_t)nth);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->more, NULL);
    pthread_cond_init(&q->done, NULL);
    bool have = queue_grow(q);
    for (int i = 0; i < STOCK && have; i++) {
        task *t = new_task(FEW);
        if ((have = t != NULL))
            give_back(q, t);
    }
    const int error = have ? start_thread(q) : 0;
    if (!have || error) {
        queue_release(q);
        return have ? ls_fail(LS_E_IO, "cannot start a thread: %s", strerror(error)) : ls_sys_have(NULL);
    }
    *out = q;
    return LS_OK;
}

static void close_queue(ls_queue **q)
{
    if (*q && elsewhere(*q))
        *q = NULL; /* (what the parent's thread works with stays) */
    if (!*q)
        return;
    pthread_mutex_lock(&(*q)->lock);
    (*q)->closing = true;
    pthread_cond_signal(&(*q)->more);
    pthread_mutex_unlock(&(*q)->lock);
    pthread_join((*q)->thread, NULL);
    queue_release(*q);
    *q = NULL;
}

const ls_queue_ops ls_queue_emulated = { .apart = true,
                                         .shared = true,
                                         .memory = ls_emulated_memory,
                                         .room = ls_emulated_room,
                                         .release = ls_emulated_release,
                                         .pinned = ls_emulated_pinned,
                                         .unpin = ls_emulated_unpin,
                                         .open = open_queue,
                                         .close = close_queue,
                                         .run = queue_run,
                                         .copy = queue_copy,
                                         .fill = queue_fill,
                                         .host = queue_host,
                                         .number = queue_number,
                                         .event = ls_emulated_event,
                                         .forget = ls_emulated_forget,
                                         .record = queue_record,
                                         .await = queue_await,
                                         .elapsed = ls_emulated_elapsed,
                                         .wait = queue_wait,
                                         .capture = queue_capture,
                                         .captured = queue_captured,
                                         .replay = queue_replay,
                                         .discard = queue_discard };
