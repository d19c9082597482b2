/* remote_flight.c - messages under way, and waiting for them. */
#include "remote_flight.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "lag.h"
#include "remote_control.h"
#include "wait.h"

/* for a rank that waits itself to say for whom */
static const double GRACE_SECONDS = 1;

ls_status ls_flight_put(ls_remote_group *r, ls_flight *f, int rank, int tag, const void *send, void *receive,
                        size_t bytes)
{
    ls_message *m = &f->message[f->n];
    bool sent = send ? r->ops->send(&r->transport, m, send, bytes, r->transport_rank[rank], tag)
                     : r->ops->receive(&r->transport, m, receive, bytes, r->transport_rank[rank], tag);
    if (!sent)
        return ls_remote_broken(r);
    f->with[f->n++] = rank;
    return LS_OK;
}

/* (Under the lock, for then the rank may use the mailbox and the job again, or free them.) */
void ls_job_finish(ls_remote_group *r, ls_job *j, ls_status s)
{
    pthread_mutex_lock(&r->lock);
    j->status = s;
    j->state = LS_JOB_DONE;
    if (j->box && j->kind == LS_JOB_COLLECTIVE)
        ls_counters_raise(j->box, LS_ARRIVALS);
    pthread_cond_broadcast(&r->done);
    pthread_mutex_unlock(&r->lock);
}

/* ---- sends from mailboxes */

static ls_job *take_posts(ls_remote_group *r)
{
    if (!atomic_load(&r->posted))
        return NULL;
    pthread_mutex_lock(&r->lock);
    ls_job *j = r->posts;
    r->posts = r->last_post = NULL;
    atomic_store(&r->posted, false);
    pthread_mutex_unlock(&r->lock);
    return j;
}

static ls_status begin_posts(ls_remote_group *r)
{
    ls_status s = LS_OK;
    for (ls_job *j = take_posts(r), *next; j; j = next) {
        next = j->next;
        if (s == LS_OK &&
            !r->ops->send(&r->transport, &j->message, j->mine, j->bytes, r->transport_rank[j->to], j->tag))
            s = ls_remote_broken(r);
        if (s != LS_OK) {
            ls_job_finish(r, j, s);
            continue;
        }
        j->next = r->leaving;
        r->leaving = j;
    }
    return s;
}

ls_status ls_post_look(ls_remote_group *r)
{
    LS_TRY(begin_posts(r));
    for (ls_job **at = &r->leaving; *at;) {
        ls_job *j = *at;
        bool done;
        if (!r->ops->test(&r->transport, &j->message, &done))
            return ls_remote_broken(r);
        if (!done) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        ls_job_finish(r, j, LS_OK);
    }
    return LS_OK;
}

/* ---- waiting */

/* A wait is for the messages of a flight, or for one that leaves a mailbox. */
typedef struct awaited {
    ls_flight *flight;
    const ls_job *post;
} awaited;

/* Removes the messages of a flight that are done. */
static ls_status test_all(ls_remote_group *r, ls_flight *f)
{
    int left = 0;
    for (int i = 0; i < f->n; i++) {
        bool done;
        if (!r->ops->test(&r->transport, &f->message[i], &done))
            return ls_remote_broken(r);
        if (done)
            continue;
        f->message[left] = f->message[i];
        f->with[left++] = f->with[i];
    }
    f->n = left;
    return LS_OK;
}

/* *missing: a rank whose message is not done; -1: all are. */
static ls_status look(ls_remote_group *r, const awaited *a, int *missing)
{
    LS_TRY(ls_post_look(r));
    if (a->flight)
        LS_TRY(test_all(r, a->flight));
    if (a->flight)
        *missing = a->flight->n ? a->flight->with[0] : -1;
    else /* (only this thread finishes it) */
        *missing = a->post->state == LS_JOB_QUEUED ? a->post->to : -1;
    return LS_OK;
}

/* Sleeps between tests, up to a fifth of a millisecond, which is little compared with a message between
 * machines. */
static ls_status wait_long(ls_remote_group *r, const awaited *a, const ls_route *t, int missing,
                           const char *what)
{
    double patience = r->group->deadline, last = ls_now();
    ls_lag_timer lag = { 0 };
    bool again = false;
    for (int looks = 0; missing >= 0; looks++) {
        usleep(looks < 100 ? 20 : 200);
        if (looks % 50 == 0)
            LS_TRY(ls_remote_look(r));
        LS_TRY(look(r, a, &missing));
        const double now = ls_now();
        const double spent = ls_patience_spent(now - last);
        patience -= spent;
        last = now;
        if (missing >= 0 && patience <= 0) {
            LS_TRY(ls_remote_missing(r, t, missing, what, again));
            again = true;
            patience = GRACE_SECONDS;
        }
        if (ls_lag_due(r->group, &lag, spent) && missing >= 0)
            LS_TRY(ls_remote_lag(r, &lag, missing, what));
    }
    ls_lag_end(r->group, &lag);
    return LS_OK;
}

static ls_status await(ls_remote_group *r, const awaited *a, const ls_route *t, const char *what)
{
    int missing = -1;
    for (int looks = 0; looks < 100; looks++) {
        LS_TRY(look(r, a, &missing));
        if (missing < 0)
            return LS_OK;
        sched_yield();
    }
    ls_rank_record *me = ls_group_record(r->group);
    ls_control_set_answer(me, "");
    atomic_store(&me->waits_for_remote, 1 + missing);
    ls_status s = wait_long(r, a, t, missing, what);
    atomic_store(&me->waits_for_remote, 0);
    return s;
}

ls_status ls_flight_await(ls_remote_group *r, ls_flight *f, const ls_route *t, const char *what)
{
    return await(r, &(awaited){ .flight = f }, t, what);
}

ls_status ls_post_await(ls_remote_group *r, const ls_job *room)
{
    LS_TRY(ls_post_look(r));
    for (const ls_job *j = r->leaving; j; j = j->next)
        if (j->box == room->box)
            return await(r, &(awaited){ .post = j }, room->route, room->what);
    return LS_OK;
}

/* ---- after a failure */

static bool drop(ls_remote_group *r, ls_flight *f)
{
    bool all = true;
    for (int i = 0; i < f->n; i++)
        all = r->ops->cancel(&r->transport, &f->message[i]) && all;
    f->n = 0;
    return all;
}

void ls_flight_give_up(ls_remote_group *r)
{
    bool all = !r->deaf;
    for (int i = 0; i < LS_REMOTE_FLIGHTS && !r->deaf; i++)
        all = drop(r, &r->flight[i]) && all;
    for (ls_job *j = r->leaving, *next; j; j = next) {
        next = j->next;
        all = r->ops->cancel(&r->transport, &j->message) && all;
        ls_job_finish(r, j, LS_E_PEER);
    }
    r->leaving = NULL;
    r->deaf = !all;
    for (ls_job *j = take_posts(r), *next; j; j = next) {
        next = j->next;
        ls_job_finish(r, j, LS_E_PEER);
    }
}
