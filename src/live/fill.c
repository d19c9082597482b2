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
    if (!q->seen[at]) {
        q->fresh[q->n_fresh] = row;
        q->fresh_at[q->n_fresh++] = at;
    }
    q->seen[at] = 1;
}

/* Copies this rank's samples of the step to where ls_trainer_put would. */
static int64_t take(ls_live *q)
{
    const int64_t room = ls_trainer_room(q->t), n = q->kept < room ? q->kept : room;
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
    return n;
}

/* The samples of a reservoir stay in it, as if they had not been taken. */
static void put_back(ls_live *q)
{
    for (int64_t i = 0; i < q->n_fresh; i++)
        q->seen[q->fresh_at[i]] = 0;
}

/* A rank that never had a sample gets one of the first rank that has. Collective. */
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

/* Exchanges what the ranks have taken. *total: all ranks' samples. */
static ls_status exchange(ls_live *q, int64_t n, int64_t *total, bool *done)
{
    const ls_live_offer mine = { n, q->n_fresh, q->finished, q->has_spare };
    q->offers[0] = mine;
    if (q->t->group)
        LS_TRY(ls_group_all_gather(q->t->group, &mine, sizeof mine, q->offers));
    *total = 0;
    *done = true;
    for (int r = 0; r < q->ranks; r++) {
        *total += q->offers[r].samples;
        *done = *done && q->offers[r].finished;
    }
    *done = *done && (q->o.keep == LS_LIVE_RESERVOIR || !*total);
    return LS_OK;
}

static ls_status fill(ls_live *q, int64_t *samples, int64_t *total, bool *done)
{
    const int64_t n = take(q);
    LS_TRY(exchange(q, n, total, done));
    if (*done && *total) {
        put_back(q);
        *total = 0;
    }
    *samples = *total ? n : 0;
    if (!*total)
        return LS_OK;
    if (q->t->group)
        LS_TRY(share_spare(q));
    if (!n)
        pad_all(q);
    for (int i = 0; i < q->n_fields; i++)
        q->t->fields[i].put_to = n;
    q->t->has_put = true;
    q->trained += n;
    q->fills++;
    q->filled = true;
    q->filled_at = q->t->step_number;
    return q->record.dir ? ls_live_record_rows(q) : LS_OK;
}

ls_status ls_live_fill(ls_live *q, int64_t *samples, int64_t *total, bool *done)
{
    LS_ARG(q);
    LS_ARG(samples);
    int64_t all = 0;
    bool end = false;
    LS_TRY(ls_live_usable(q, "ls_live_fill"));
    LS_TRAINER_USE(q->t);
    if (ls_live_pending(q))
        return ls_fail(LS_E_ARG, "ls_live_fill: the samples of the last fill have not been trained: call "
                                 "ls_trainer_run first");
    pthread_mutex_lock(&q->lock);
    const ls_status s = fill(q, samples, &all, &end);
    pthread_mutex_unlock(&q->lock);
    if (total)
        *total = all;
    if (done)
        *done = end;
    return s;
}
