/* queue.c - what all files of a queue ask of it. */
#include "base/hash.h"
#include "live.h"

ls_status ls_live_usable(const ls_live *q, const char *call)
{
    return q->t ? LS_OK : ls_fail(LS_E_ARG, "%s: the trainer of this queue was destroyed", call);
}

ls_rng_key ls_live_key(const ls_live *q, const char *purpose, int64_t at)
{
    const uint64_t of[3] = { ls_hash_text(purpose), (uint64_t)q->rank, (uint64_t)at };
    return ls_rng_key_of(q->o.seed, ls_hash64(of, sizeof of));
}

ls_field ls_live_field_of(const ls_live *q, int k)
{
    const ls_trainer_field *f = &q->t->fields[k];
    const ls_type *own = &f->own.type;
    const int64_t batch = q->t->compiled.micro_batch;
    ls_type type = { .dtype = own->dtype };
    for (int d = 0; d < own->ndim; d++)
        if (d > 0 || own->dims[0] != batch)
            type.dims[type.ndim++] = d > 0 ? own->dims[d] : own->dims[0] / batch;
    return (ls_field){ .name = f->name, .type = type, .ignorable = own->dtype == LS_I32 };
}

bool ls_live_pending(const ls_live *q) { return q->t->taken; }

int64_t ls_live_held_of(const ls_live *q, int64_t pushed)
{
    return q->o.hold_out ? pushed / q->o.hold_out : 0;
}

int64_t ls_live_unheld(const ls_live *q, int64_t m)
{
    return m - (ls_live_held_of(q, q->pushed + m) - ls_live_held_of(q, q->pushed));
}

bool ls_live_lacks_room(const ls_live *q, int64_t m)
{
    return q->o.keep == LS_LIVE_FIFO && q->o.full == LS_LIVE_REFUSE &&
           ls_live_unheld(q, m) > q->o.capacity - q->kept;
}

ls_status ls_live_thread_lives(const ls_live *q)
{
    const ls_live_worker *w = &q->worker;
    if (!w->runs || !w->ended || w->status == LS_OK)
        return LS_OK;
    return ls_fail(w->status, "the training thread has ended: %s", w->message);
}

ls_status ls_live_join(ls_live *q)
{
    if (!q->worker.runs)
        return LS_OK;
    pthread_mutex_lock(&q->lock);
    q->worker.stops = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    const ls_status s = ls_background_wait(&q->worker.thread);
    q->worker.runs = q->worker.stops = false;
    return s;
}
