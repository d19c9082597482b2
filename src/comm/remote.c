/* remote.c - groups on several hosts: joining the hosts' groups into one, the communication thread and its
 * queue, and what axes that span hosts do: each fence, exchange and collective is a job of that thread. */
#include "remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/sys.h"

static const long LOOK_NANOSECONDS = 20000000; /* how often an idle thread looks for bad news */

ls_status ls_axis_create_world(ls_group *g); /* axis.c */

/* ---- the communication thread: may touch the transport, the buffers of messages, operands and results of
 * queued collectives, counters (LS_TICKS) of axes that span hosts. Nothing else calls the transport between
 * attach and detach. */

static ls_job *take_job(ls_remote *r)
{
    pthread_mutex_lock(&r->lock);
    if (!r->first && !r->closing) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_NANOSECONDS;
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

static void finish_job(ls_remote *r, ls_job *j, ls_status s)
{
    pthread_mutex_lock(&r->lock);
    j->status = s;
    j->state = LS_JOB_DONE;
    pthread_cond_broadcast(&r->done);
    pthread_mutex_unlock(&r->lock);
}

static ls_status run(ls_remote *r, const ls_job *j)
{
    LS_TRY(ls_remote_look(r));
    ls_status s = ls_remote_move(r, j);
    if (s != LS_OK && !ls_block_failed(r->group->block))
        ls_block_fail(r->group->block, r->group->rank, r->group->rank, s, ls_error_message());
    return s;
}

static void *communicate(void *context)
{
    ls_remote *r = context;
    for (;;) {
        ls_job *j = take_job(r);
        if (j) {
            finish_job(r, j, run(r, j));
            continue;
        }
        ls_remote_look(r);
        pthread_mutex_lock(&r->lock);
        bool over = r->closing && !r->first;
        pthread_mutex_unlock(&r->lock);
        if (over)
            break;
    }
    ls_remote_look(r); /* last words */
    return NULL;
}

/* ---- jobs, as the rank sees them */

static void put(ls_remote *r, ls_job *j)
{
    pthread_mutex_lock(&r->lock);
    LS_CHECK(j->state != LS_JOB_QUEUED, "started twice");
    j->state = LS_JOB_QUEUED;
    j->next = NULL;
    if (r->last)
        r->last->next = j;
    else
        r->first = j;
    r->last = j;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
}

/* The thread's own waits have deadlines, so this one ends. */
static ls_status await(ls_remote *r, ls_job *j)
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
    ls_remote *r = a->group->remote;
    ls_job *j = &a->route->fence;
    await(r, j); /* when it arrived before, without a fence: one after the other; a failure comes up again */
    put(r, j);
}

ls_status ls_remote_fence(ls_axis *a) { return await(a->group->remote, &a->route->fence); }

ls_status ls_remote_exchange(ls_axis *a, const void *mine, size_t bytes, void *all, const char *what)
{
    ls_job *j = &a->route->exchange;
    j->mine = mine;
    j->all = all;
    j->bytes = bytes;
    j->what = what;
    put(a->group->remote, j);
    return await(a->group->remote, j);
}

ls_status ls_remote_create(ls_collective *c)
{
    ls_job *j = ls_sys_calloc(1, sizeof *j);
    if (!j)
        return ls_fail(LS_E_MEMORY, "no memory for %s", c->d.label);
    *j = (ls_job){ .kind = LS_JOB_COLLECTIVE, .route = c->axis->route, .collective = c, .what = c->d.label };
    c->remote = j;
    return LS_OK;
}

void ls_remote_start(ls_collective *c) { put(c->axis->group->remote, c->remote); }

ls_status ls_remote_wait(ls_collective *c)
{
    double began = ls_now();
    ls_status s = await(c->axis->group->remote, c->remote);
    c->axis->ledger.waited += ls_now() - began;
    return s;
}

/* Started and not waited for, after a failure: the thread still has it. */
void ls_remote_destroy(ls_collective *c)
{
    if (c->remote)
        await(c->axis->group->remote, c->remote);
    free(c->remote);
    c->remote = NULL;
}

/* ---- routes */

/* Sets H and L: the same number of members on every host, or one each. */
static void find_levels(ls_route *t, const ls_axis *a)
{
    int here = a->group->here, each = 1, hosts = 1;
    while (each < a->n && a->members[each] / here == a->members[0] / here)
        each++;
    bool even = a->n % each == 0;
    for (int i = 0; i < a->n; i++)
        even = even && a->members[i] / here == a->members[i / each * each] / here;
    for (int i = each; i < a->n; i += each, hosts++)
        even = even && a->members[i] / here != a->members[i - 1] / here;
    t->each = even ? each : 1;
    t->hosts = a->n / t->each;
}

ls_route *ls_route_create(const ls_axis *a)
{
    ls_route *t = ls_sys_calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->axis = *a;
    find_levels(t, a);
    t->peer = ls_sys_calloc((size_t)t->hosts, sizeof *t->peer);
    if (!t->peer) {
        free(t);
        return NULL;
    }
    t->host = a->position / t->each;
    t->local = a->position % t->each;
    for (int h = 0; h < t->hosts; h++)
        t->peer[h] = a->members[h * t->each + t->local];
    t->first_here = true;
    for (int i = 0; i < a->position; i++)
        t->first_here = t->first_here && !a->lines[i];
    t->fence = (ls_job){ .kind = LS_JOB_FENCE, .route = t, .what = "a fence" };
    t->exchange = (ls_job){ .kind = LS_JOB_EXCHANGE, .route = t };
    return t;
}

void ls_route_destroy(ls_route **t)
{
    if (!*t)
        return;
    await((*t)->axis.group->remote, &(*t)->fence); /* arrived, and then no fence */
    free((*t)->peer);
    free(*t);
    *t = NULL;
}

/* ---- life */

size_t ls_message_bytes(int ranks)
{
    return 3 * (size_t)LS_REMOTE_REGION + 4 * (size_t)ranks * (sizeof(ls_message) + sizeof(int));
}

static ls_status make_buffers(ls_remote *r)
{
    size_t messages = 2 * (size_t)r->group->size;
    bool there = (r->sent = ls_sys_malloc(LS_REMOTE_REGION)) &&
                 (r->received = ls_sys_malloc(LS_REMOTE_REGION));
    for (int i = 0; i < 2; i++)
        there = there && (r->flight[i].message = ls_sys_calloc(messages, sizeof(ls_message))) &&
                (r->flight[i].with = ls_sys_calloc(messages, sizeof(int)));
    return there ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for messages to other hosts");
}

/* Slices of this host's ranks, for each other. Made while the group is this host's alone. */
static ls_status make_stage(ls_remote *r)
{
    ls_group *g = r->group;
    int *members = ls_sys_calloc((size_t)g->here, sizeof *members);
    for (int i = 0; members && i < g->here; i++)
        members[i] = i;
    ls_status s = members ? ls_axis_create(&r->here, g, "host", g->here, members)
                          : ls_fail(LS_E_MEMORY, "no memory for %d ranks", g->here);
    free(members);
    LS_TRY(s);
    return ls_window_create(&r->stage, r->here, LS_REMOTE_REGION, 0);
}

static ls_status start_thread(ls_remote *r)
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

/* The ranks of this host get their places among all. */
static ls_status move_group(ls_group *g, int host, int hosts)
{
    ls_axis_destroy(&g->world);
    g->rank += host * g->here;
    g->first = host * g->here;
    g->size = hosts * g->here;
    g->hosts = hosts;
    for (int i = 0; i < g->here; i++)
        g->remote->here->members[i] += g->first;
    return ls_axis_create_world(g);
}

ls_status ls_remote_attach(ls_group *g, const ls_transport_ops *ops, const ls_transport *t, int host,
                           int *place)
{
    ls_remote *r = ls_sys_calloc(1, sizeof *r);
    if (!r) {
        free(place);
        return ls_fail(LS_E_MEMORY, "no memory for a group on several hosts");
    }
    *r = (ls_remote){ .group = g, .ops = ops, .transport = *t, .place = place };
    g->remote = r;
    LS_TRY(make_stage(r));
    LS_TRY(move_group(g, host, t->size / g->here));
    LS_TRY(make_buffers(r));
    LS_TRY(ls_remote_listen(r));
    return start_thread(r);
}

/* Messages that a failure left behind. False: one cannot be taken back, and the transport may still use its
 * memory. */
static bool drop_messages(ls_remote *r)
{
    bool all = !r->listens || r->ops->cancel(&r->transport, &r->listening);
    for (int i = 0; i < 2; i++)
        all = ls_flight_drop(r, &r->flight[i]) && all;
    return all;
}

void ls_remote_detach(ls_group *g)
{
    ls_remote *r = g->remote;
    if (!r)
        return;
    if (r->running) {
        pthread_mutex_lock(&r->lock);
        r->closing = true;
        pthread_cond_signal(&r->work);
        pthread_mutex_unlock(&r->lock);
        pthread_join(r->thread, NULL);
    }
    if (drop_messages(r)) {
        for (int i = 0; i < 2; i++)
            free(r->flight[i].message), free(r->flight[i].with);
        free(r->sent), free(r->received);
        ls_window_destroy(&r->stage);
    }
    ls_axis_destroy(&r->here);
    r->ops->close(&r->transport, r->running && !ls_block_failed(g->block));
    free(r->place);
    free(r);
    g->remote = NULL;
}
