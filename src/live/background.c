/* background.c - training in a thread of each rank, while the program computes. The thread is in the trainer
 * from its start to its end, so that another call on the trainer is refused and none comes between its own.
 *
 * The threads of all ranks make the same calls: ls_live_take, and a step if it gave samples. All end after
 * the same ls_live_take, because each knows from it whether all ranks stop. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/argument.h"
#include "base/str.h"
#include "comm/agree.h"
#include "live.h"

/* How long a thread without samples sleeps before it asks the other ranks again. */
enum { PAUSE_MS = 2 };

static struct timespec in(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double whole = floor(seconds);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((seconds - whole) * 1e9);
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

static void pause_a_little(ls_live *q)
{
    const struct timespec until = in(PAUSE_MS * 1e-3);
    pthread_mutex_lock(&q->lock);
    pthread_cond_timedwait(&q->changed, &q->lock, &until);
    pthread_mutex_unlock(&q->lock);
}

static ls_status train(ls_live *q)
{
    ls_live_worker *w = &q->worker;
    bool done = false, stops = false;
    while (!done) {
        int64_t samples, total;
        ls_step_result r;
        LS_TRY(ls_live_take(q, w->least, &samples, &total, &done, &stops));
        if (total) {
            const double lr = ls_schedule_rate(&w->schedule, w->lr, q->fills - 1);
            LS_TRY(ls_trainer_run(q->t, samples, lr, &r));
            pthread_mutex_lock(&q->lock);
            w->last = r;
            w->steps++;
            pthread_mutex_unlock(&q->lock);
        }
        /* once all ranks have finished, what is left is trained; before, stopping is a pause */
        for (int k = 0; k < q->ranks && stops; k++)
            done = done || !q->offers[k].finished;
        if (!total && !done)
            pause_a_little(q);
    }
    return LS_OK;
}

static ls_status work(void *context)
{
    ls_live *q = context;
    ls_trainer *mine = NULL;
    ls_status s = ls_trainer_enter(&mine, q->t, "ls_live_start");
    if (s == LS_OK)
        s = train(q);
    if (s != LS_OK && s != LS_E_PEER && q->t->group)
        ls_group_fail(q->t->group, s, ls_error_message());
    ls_trainer_leave(&mine);
    pthread_mutex_lock(&q->lock);
    q->worker.ended = true;
    q->worker.status = s;
    if (s != LS_OK)
        snprintf(q->worker.message, sizeof q->worker.message, "%s", ls_error_message());
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return s;
}

static ls_status check_start(const ls_live *q, double lr, int64_t least)
{
    LS_TRY(ls_trainer_check_step(q->t, lr, "ls_live_start"));
    const int64_t most = q->t->compiled.micro_batch * q->t->compiled.micro_batches;
    if (least > most)
        return ls_fail(LS_E_ARG, "ls_live_start: least %lld: a step has at most %lld samples, of all ranks",
                       (long long)least, (long long)most);
    if (ls_live_pending(q))
        return ls_fail(LS_E_ARG, "ls_live_start: the samples of the last ls_live_fill have not been trained: "
                                 "call ls_trainer_run first");
    return LS_OK;
}

static ls_status same_arguments(const ls_live *q, double lr, const ls_schedule *s, int64_t least)
{
    ls_str lines = { 0 };
    if (!q->t->group)
        return LS_OK;
    ls_str_printf(&lines,
                  "lr %.17g\nleast %lld\nschedule %d, %lld, %lld, %lld, %.17g, %.17g, %lld, %.17g, "
                  "%lld, %.17g, %.17g, %.17g, %lld, %lld, %lld\n",
                  lr, (long long)least, (int)s->kind, (long long)s->warmup_steps, (long long)s->step_size,
                  (long long)s->total_steps, s->gamma, s->min_lr, (long long)s->step_offset, s->power,
                  (long long)s->decay_steps, s->pct_start, s->div_factor, s->final_div_factor,
                  (long long)s->period, (long long)s->period_factor, (long long)s->cuts);
    const ls_status status = ls_ranks_same(q->t->group, ls_str_text(&lines), "ls_live_start");
    ls_str_release(&lines);
    return status;
}

ls_status ls_live_start(ls_live *q, double lr, const ls_schedule *schedule, int64_t least)
{
    LS_ARG(q);
    const ls_schedule constant = { .kind = LS_SCHED_CONSTANT };
    LS_TRY(ls_live_usable(q, "ls_live_start"));
    ls_live_worker *w = &q->worker;
    if (w->runs)
        return ls_fail(LS_E_ARG, "ls_live_start: the thread runs already");
    LS_TRAINER_USE(q->t);
    schedule = schedule ? schedule : &constant;
    LS_TRY(same_arguments(q, lr, schedule, least));
    LS_TRY(check_start(q, lr, least));
    *w = (ls_live_worker){ .runs = true, .lr = lr, .schedule = *schedule, .least = least > 1 ? least : 1 };
    ls_trainer_leave(&trainer_in_use_); /* the thread enters it */
    trainer_in_use_ = NULL;
    const ls_status s = ls_background_start(&w->thread, work, q);
    w->runs = s == LS_OK;
    if (s != LS_OK && q->t->group) /* the other ranks' threads wait for this one's */
        ls_group_fail(q->t->group, s, ls_error_message());
    return s;
}

ls_status ls_live_stop(ls_live *q, int64_t *steps, ls_step_result *last)
{
    LS_ARG(q);
    LS_TRY(ls_live_usable(q, "ls_live_stop"));
    if (!q->worker.runs)
        return ls_fail(LS_E_ARG, "ls_live_stop without ls_live_start");
    const ls_status s = ls_live_join(q);
    if (steps)
        *steps = q->worker.steps;
    if (last)
        *last = q->worker.last;
    return s;
}

ls_status ls_live_push_wait(ls_live *q, int64_t m, double seconds)
{
    LS_ARG(q);
    LS_TRY(ls_live_usable(q, "ls_live_push_wait"));
    if (!q->worker.runs)
        return ls_fail(LS_E_ARG,
                       "ls_live_push_wait without ls_live_start: nobody would take samples meanwhile, so "
                       "it would wait for ever; use ls_live_push");
    if (!(seconds >= 0) || seconds > 1e9)
        return ls_fail(LS_E_ARG, "ls_live_push_wait: seconds is %g: 0 to 1e9 are possible", seconds);
    const struct timespec until = in(seconds);
    int error = 0;
    pthread_mutex_lock(&q->lock);
    q->worker.pushes = true;
    while (ls_live_lacks_room(q, m) && ls_live_unheld(q, m) <= q->o.capacity && !error && !q->worker.ended)
        error = pthread_cond_timedwait(&q->changed, &q->lock, &until);
    q->worker.pushes = false;
    pthread_mutex_unlock(&q->lock);
    const ls_status s = ls_live_push(q, m);
    return s == LS_E_ARG && error == ETIMEDOUT
               ? ls_fail(s, "waited %g s, as long as it may: %s", seconds, ls_error_message())
               : s;
}
