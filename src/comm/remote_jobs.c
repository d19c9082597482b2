/* remote_jobs.c - the communication thread and its queue, and what axes that span machines do: each fence,
 * exchange and collective is a job of that thread. */
#include "remote_jobs.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/sys.h"
#include "remote_control.h"
#include "remote_flight.h"
#include "remote_move.h"
#include "wait.h"

/* between two looks of an idle thread: for notices; for messages that leave, which the transport moves on
 * only while it is called */
static const long LOOK_NANOSECONDS = 20000000, LEAVING_NANOSECONDS = 100000;

/* ---- the communication thread
 *
 * It alone calls the transport between attach and detach. It may use the buffers of messages, operands and
 * results of queued collectives, and the counters LS_TICKS of axes that span machines. */

static ls_job *take_job(ls_remote_group *r)
{
    pthread_mutex_lock(&r->lock);
    if (!r->first && !r->posts && !r->closing) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += r->leaving ? LEAVING_NANOSECONDS : LOOK_NANOSECONDS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&r->work, &r->lock, &until);
    }
    ls_job *j = r->first;
    if (j && !(r->first = j->next))
        r->last = NULL;
    pthread_mutex_unlock(&r->lock);
    return j;
}

/* `j`: NULL if the thread only looks around. */
static ls_status remote_run(ls_remote_group *r, const ls_job *j)
{
    ls_status s = ls_remote_look(r);
    if (s == LS_OK)
        s = ls_post_look(r);
    if (s == LS_OK && j)
        s = ls_remote_move(r, j);
    if (s == LS_OK)
        return LS_OK;
    if (!ls_control_failed(r->group->control))
        ls_control_fail(r->group->control, r->group->rank, r->group->rank, s, ls_error_message());
    ls_remote_look(r); /* the others know it before messages are given up */
    ls_flight_give_up(r);
    return s;
}

static ls_status look_of(void *context) { return ls_remote_look(context); }

static void *communicate(void *context)
{
    ls_remote_group *r = context;
    ls_wait_looks(look_of, r); /* a rank of this machine that hangs must not keep it from answering others */
    for (;;) {
        ls_job *j = take_job(r);
        const ls_status s = remote_run(r, j);
        if (j) {
            ls_job_finish(r, j, s);
            continue;
        }
        pthread_mutex_lock(&r->lock);
        bool over = r->closing && !r->first;
        pthread_mutex_unlock(&r->lock);
        if (over)
            break;
    }
    ls_remote_look(r); /* sends a notice of a failure that came late */
    return NULL;
}

/* ---- jobs, as the rank sees them */

static void append(ls_remote_group *r, ls_job **first, ls_job **last, ls_job *j)
{
    pthread_mutex_lock(&r->lock);
    LS_CHECK(j->state != LS_JOB_QUEUED, "started twice");
    j->state = LS_JOB_QUEUED;
    j->next = NULL;
    if (*last)
        (*last)->next = j;
    else
        *first = j;
    *last = j;
    atomic_store(&r->posted, r->posts != NULL);
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
}

static void remote_put(ls_remote_group *r, ls_job *j) { append(r, &r->first, &r->last, j); }

/* The wait ends, because every wait of the communication thread has a deadline. */
static ls_status await(ls_remote_group *r, ls_job *j)
{
    if (!r || !r->running)
        return LS_OK;
    pthread_mutex_lock(&r->lock);
    while (j->state == LS_JOB_QUEUED)
        pthread_cond_wait(&r->done, &r->lock);
    ls_status s = j->status;
    j->state = LS_JOB_IDLE;
    j->status = LS_OK;
    pthread_mutex_unlock(&r->lock);
    return s == LS_OK ? LS_OK : ls_group_failure(r->group);
}

void ls_remote_arrive(ls_axis *a)
{
    ls_remote_group *r = a->group->remote;
    ls_job *j = &a->route->fence;
    await(r, j); /* an earlier arrival without a fence comes first; a failure shows up in the next fence */
    remote_put(r, j);
}

ls_status ls_remote_fence(ls_axis *a) { return await(a->group->remote, &a->route->fence); }

ls_status ls_remote_exchange(ls_axis *a, const void *mine, size_t bytes, void *all, const char *what)
{
    ls_job *j = &a->route->exchange;
    j->mine = mine;
    j->all = all;
    j->bytes = bytes;
    j->what = what;
    remote_put(a->group->remote, j);
    return await(a->group->remote, j);
}

/* A send or a receive: what the thread has to know of it. */
static ls_status describe_message(ls_job *j, const ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    const bool sends = d->kind == LS_SEND;
    const int most = c->axis->group->remote->transport.most_tag - LS_REMOTE_MAILBOX;
    j->bytes = (size_t)d->count * ls_dtype_size(d->from);
    j->tag = LS_REMOTE_MAILBOX + d->mailbox;
    j->to = j->from = c->axis->members[d->peer];
    if (sends) {
        char *box = (char *)(uintptr_t)c->operand[c->axis->position];
        j->box = (ls_counters *)(void *)box;
        j->mine = box + LS_MAILBOX_BYTES(0);
        atomic_fetch_add(&c->axis->group->remote->senders, 1);
    }
    if (j->bytes > INT_MAX)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: %zu bytes go to another host in one message, and MPI takes 2 GiB: make "
                       "micro-batches smaller",
                       d->label, j->bytes);
    if (d->mailbox > most)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: mailbox %d, and this MPI tells %d of them apart: take fewer stages", d->label,
                       d->mailbox, most + 1);
    return LS_OK;
}

ls_status ls_remote_create(ls_collective *c)
{
    ls_job *j = ls_sys_calloc(1, sizeof *j);
    if (!j)
        return ls_fail(LS_E_MEMORY, "no memory for %s", c->d.label);
    *j = (ls_job){ .kind = LS_JOB_COLLECTIVE, .route = c->axis->route, .collective = c, .what = c->d.label };
    c->job = j;
    const double most = (double)(c->d.count > c->d.row * c->d.room ? c->d.count : c->d.row * c->d.room) *
                        (double)ls_dtype_size(c->d.from);
    if (c->d.kind == LS_ALL_TO_ALL && most > INT_MAX)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: up to %.0f bytes of rows go to another host in one message, and MPI takes 2 GiB: "
                       "make micro-batches smaller",
                       c->d.label, most);
    return c->d.kind == LS_SEND || c->d.kind == LS_RECEIVE ? describe_message(j, c) : LS_OK;
}

void ls_remote_start(ls_collective *c) { remote_put(c->axis->group->remote, c->job); }

ls_status ls_remote_wait(ls_collective *c)
{
    double began = ls_now();
    ls_status s = await(c->axis->group->remote, c->job);
    c->axis->ledger.waited += ls_now() - began;
    return s;
}

ls_status ls_remote_receive(ls_collective *c)
{
    ls_remote_start(c);
    return ls_remote_wait(c);
}

/* Waits until the mailbox is empty. The thread does it, which can ask other machines who is late. */
static ls_status await_room(ls_collective *c)
{
    ls_job *room = &c->axis->route->room;
    const ls_counters *box = c->job->box;
    if (atomic_load(&box->count[LS_TICKS]) == atomic_load(&box->count[LS_ARRIVALS]))
        return LS_OK;
    room->box = c->job->box;
    room->what = c->d.label;
    const double began = ls_now();
    remote_put(c->axis->group->remote, room);
    ls_status s = await(c->axis->group->remote, room);
    c->axis->ledger.waited += ls_now() - began;
    return s;
}

ls_status ls_remote_send(ls_collective *c)
{
    ls_remote_group *r = c->axis->group->remote;
    ls_job *j = c->job;
    LS_TRY(await_room(c));
    memcpy((char *)(uintptr_t)j->mine, c->d.operand, j->bytes);
    atomic_fetch_add(&j->box->count[LS_TICKS], 1);
    append(r, &r->posts, &r->last_post, j);
    return ls_control_failed(r->group->control) ? ls_group_failure(r->group) : LS_OK;
}

/* After a failure a collective may have been started and not waited for: the thread still has it. A message
 * may still leave. */
void ls_remote_destroy(ls_collective *c)
{
    if (c->job && c->job->box) {
        await_room(c);
        atomic_fetch_sub(&c->axis->group->remote->senders, 1);
    }
    if (c->job)
        await(c->axis->group->remote, c->job);
    free(c->job);
    c->job = NULL;
}

ls_status ls_remote_start_thread(ls_remote_group *r)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->work, &monotonic);
    pthread_cond_init(&r->done, NULL);
    pthread_condattr_destroy(&monotonic);
    int error = ls_sys_thread(&r->thread, communicate, r);
    r->running = !error;
    return error ? ls_fail(LS_E_MEMORY, "cannot start the communication thread: %s", strerror(error)) : LS_OK;
}

void ls_remote_stop_thread(ls_remote_group *r)
{
    if (!r->running)
        return;
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
}

/* ---- routes */

/* Sets M and L. L is the number of members on every machine if it is the same, else 1. */
static void find_levels(ls_route *t, const ls_axis *a)
{
    int here = a->group->here, each = 1, machines = 1;
    while (each < a->n && a->members[each] / here == a->members[0] / here)
        each++;
    bool even = a->n % each == 0;
    for (int i = 0; i < a->n; i++)
        even = even && a->members[i] / here == a->members[i / each * each] / here;
    for (int i = each; i < a->n; i += each, machines++)
        even = even && a->members[i] / here != a->members[i - 1] / here;
    t->each = even ? each : 1;
    t->machines = a->n / t->each;
}

/* While the thread waits for ranks of its machine, messages leave: those ranks may wait for them. */
static double let_leave(const ls_axis *a)
{
    ls_remote_group *r = a->group->remote;
    if (!atomic_load(&r->senders))
        return (double)LOOK_NANOSECONDS / 1e9;
    ls_post_look(r); /* (its failure is the group's) */
    return (double)LEAVING_NANOSECONDS / 1e9;
}

ls_route *ls_route_create(const ls_axis *a)
{
    ls_route *t = ls_sys_calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->axis = *a;
    t->axis.idle = let_leave;
    find_levels(t, a);
    t->peer = ls_sys_calloc((size_t)t->machines, sizeof *t->peer);
    t->present = ls_sys_calloc((size_t)a->n, 1);
    if (!t->peer || !t->present) {
        free(t->peer);
        free(t->present);
        free(t);
        return NULL;
    }
    t->machine = a->position / t->each;
    t->local = a->position % t->each;
    for (int h = 0; h < t->machines; h++)
        t->peer[h] = a->members[h * t->each + t->local];
    t->first_here = true;
    for (int i = 0; i < a->position; i++)
        t->first_here = t->first_here && !a->counters[i];
    t->fence = (ls_job){ .kind = LS_JOB_FENCE, .route = t, .what = "a fence" };
    t->exchange = (ls_job){ .kind = LS_JOB_EXCHANGE, .route = t };
    t->room = (ls_job){ .kind = LS_JOB_ROOM, .route = t };
    return t;
}

void ls_route_destroy(ls_route **t)
{
    if (!*t)
        return;
    await((*t)->axis.group->remote, &(*t)->fence); /* an arrival without a fence */
    free((*t)->peer);
    free((*t)->present);
    free(*t);
    *t = NULL;
}
