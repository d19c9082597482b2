/* fill.c - takes samples out of the queue, for one step. Every rank takes what it has and tells the others
 * how many; the trainer pads the rest and divides by what all have. */
#include "live.h"

#include <string.h>

#include "base/argument.h"
#include "comm/agree.h"

static char *row_of(const ls_live *q, int field, int64_t row)
{
    return q->t->fields[field].put + (size_t)row * q->fields[field].bytes;
}

static void take_one(ls_live *q, int64_t row, int64_t at)
{
    for (int i = 0; i < q->n_fields; i++)
        memcpy(row_of(q, i, row), q->fields[i].kept + (size_t)at * q->fields[i].bytes, q->fields[i].bytes);
    if (!q->seen[at])
        q->fresh[q->n_fresh++] = row;
    q->seen[at] = 1;
}

/* Copies this rank's samples of the step to where ls_trainer_put would. */
static void fill_take(ls_live *q, int64_t n)
{
    const ls_rng_key key = ls_live_key(q, "draw", q->fills);
    q->n_fresh = 0;
    for (int64_t row = 0; row < n; row++)
        take_one(q, row,
                 q->o.keep == LS_LIVE_RESERVOIR
                     ? (int64_t)ls_permute_index(key, (uint64_t)row, (uint64_t)q->kept)
                     : (q->first + row) % q->o.capacity);
    if (q->o.keep == LS_LIVE_FIFO) {
        q->first = (q->first + n) % q->o.capacity;
        q->kept -= n;
    }
    for (int i = 0; i < q->n_fields && n; i++)
        memcpy(q->fields[i].spare, row_of(q, i, 0), q->fields[i].bytes);
    q->has_spare = q->has_spare || n > 0;
    q->trained += n;
    q->refused = false;
    q->fills++;
    pthread_cond_broadcast(&q->changed);
}

/* A rank that never had a sample gets one of the first rank that has. Only the thread that takes samples uses
 * the spare ones. Collective. */
static ls_status share_spare(ls_live *q)
{
    int from = 0;
    bool lacking = false;
    for (int r = 0; r < q->ranks; r++)
        lacking = lacking || !q->offers[r].has;
    if (!lacking)
        return LS_OK;
    while (!q->offers[from].has)
        from++;
    for (int i = 0; i < q->n_fields; i++)
        LS_TRY(ls_group_broadcast(q->t->group,
                                  q->has_spare && q->rank != from ? q->scratch : q->fields[i].spare,
                                  q->fields[i].bytes, from));
    q->has_spare = true;
    return LS_OK;
}

/* A rank without samples pads its whole share, always with the same one. */
static void pad_all(ls_live *q)
{
    for (int64_t row = 0; row < ls_trainer_room(q->t); row++)
        for (int i = 0; i < q->n_fields; i++)
            memcpy(row_of(q, i, row), q->fields[i].spare, q->fields[i].bytes);
}

/* Exchanges what the ranks have. Between this and `fill_take` a push can only add samples. */
static ls_status exchange(ls_live *q, int64_t *n, int64_t *total, bool *finished, bool *stops, bool *presses)
{
    const int64_t room = ls_trainer_room(q->t);
    pthread_mutex_lock(&q->lock);
    *n = q->kept < room ? q->kept : room;
    const bool half = q->o.keep == LS_LIVE_FIFO && q->kept >= (q->o.capacity + 1) / 2;
    const bool refuses = q->o.keep == LS_LIVE_FIFO && q->o.full == LS_LIVE_REFUSE;
    const bool replaces = !refuses && q->kept == q->o.capacity;
    const ls_live_offer mine = { *n,
                                 q->kept,
                                 q->finished,
                                 q->has_spare || q->kept > 0,
                                 q->worker.stops,
                                 half || q->worker.pushes || q->refused,
                                 q->worker.pushes || q->refused || replaces };
    pthread_mutex_unlock(&q->lock);
    q->offers[0] = mine;
    if (q->t->group)
        LS_TRY(ls_group_all_gather(q->t->group, &mine, sizeof mine, q->offers));
    *total = 0;
    *finished = *stops = true;
    *presses = false;
    for (int r = 0; r < q->ranks; r++) {
        *total += q->offers[r].samples;
        *finished = *finished && q->offers[r].finished;
        *stops = *stops && q->offers[r].stops;
        *presses = *presses || q->offers[r].presses;
    }
    return LS_OK;
}

/* Whether the scaling waits for more samples. A rank whose queue is full never has more of them, and other
 * ranks may always have few, so then the scaling is found over fewer. */
static bool fit_waits(const ls_live *q)
{
    int64_t n = 0;
    bool full = false;
    for (int r = 0; r < q->ranks; r++) {
        n += q->offers[r].kept;
        full = full || q->offers[r].full;
    }
    return q->o.fit && !q->fitted && n < q->o.fit && !full;
}

ls_status ls_live_take(ls_live *q, int64_t least, int64_t *samples, int64_t *total, bool *done, bool *stops)
{
    int64_t n = 0;
    bool finished = false, presses = false;
    LS_TRY(exchange(q, &n, total, &finished, stops, &presses));
    *done = finished && (q->o.keep == LS_LIVE_RESERVOIR || !*total);
    if (*done || (!finished && !presses && *total < least))
        *total = 0;
    if (!finished && fit_waits(q))
        *total = 0;
    *samples = *total ? n : 0;
    if (!*total)
        return LS_OK;
    if (q->o.fit && !q->fitted)
        LS_TRY(ls_live_fit(q));
    q->fitted = q->o.fit > 0;
    pthread_mutex_lock(&q->lock);
    fill_take(q, n);
    pthread_mutex_unlock(&q->lock);
    if (q->t->group)
        LS_TRY(share_spare(q));
    if (!n)
        pad_all(q);
    for (int i = 0; i < q->n_fields; i++)
        q->t->fields[i].put_to = n;
    q->t->has_put = q->t->taken = true;
    q->t->taken_samples = n;
    return q->record.dir ? ls_live_record_rows(q) : LS_OK;
}

ls_status ls_live_fill(ls_live *q, int64_t *samples, int64_t *total, bool *done)
{
    LS_ARG(q);
    LS_ARG(samples);
    int64_t all = 0;
    bool end = false, stops;
    LS_TRY(ls_live_usable(q, "ls_live_fill"));
    LS_TRAINER_USE(q->t);
    if (ls_live_pending(q))
        return ls_fail(LS_E_ARG, "ls_live_fill: the samples of the last fill have not been trained: call "
                                 "ls_trainer_run first");
    const ls_status s = ls_live_take(q, 1, samples, &all, &end, &stops);
    if (total)
        *total = all;
    if (done)
        *done = end;
    return s;
}
