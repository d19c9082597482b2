/* stopwatch.c - laps between pairs of events, which are made once and used again. */
#include "stopwatch.h"

#include <stdlib.h>

#include "base/sys.h"

ls_status ls_stopwatch_open(ls_stopwatch *w, const ls_device *d)
{
    enum { AHEAD = 8 };
    const ls_queue_ops *q = d->ops->queue;
    *w = (ls_stopwatch){ .device = d, .ops = q, .ahead = q->apart ? AHEAD : 1 };
    return q->open(&w->queue, d);
}

void ls_stopwatch_close(ls_stopwatch *w)
{
    w->ops->close(&w->queue);
    for (int i = 0; i < w->made; i++) {
        w->ops->forget(&w->laps[i].from);
        w->ops->forget(&w->laps[i].to);
    }
    free(w->laps);
}

static ls_status stopwatch_make(ls_stopwatch *w)
{
    ls_lap lap = { 0 }, *laps = ls_sys_grow(w->laps, w->made, &w->room, sizeof *laps);
    LS_TRY(ls_sys_have(laps));
    w->laps = laps;
    LS_TRY(w->ops->event(&lap.from, w->device));
    const ls_status s = w->ops->event(&lap.to, w->device);
    if (s == LS_OK)
        w->laps[w->made++] = lap;
    else
        w->ops->forget(&lap.from);
    return s;
}

ls_status ls_stopwatch_begin(ls_stopwatch *w, int of)
{
    if (w->n == w->made)
        LS_TRY(stopwatch_make(w));
    w->laps[w->n].of = of;
    w->ops->record(w->queue, w->laps[w->n++].from);
    return LS_OK;
}

void ls_stopwatch_end(ls_stopwatch *w) { w->ops->record(w->queue, w->laps[w->n - 1].to); }

double ls_stopwatch_seconds(const ls_stopwatch *w, int lap)
{
    return w->ops->elapsed(w->laps[lap].from, w->laps[lap].to);
}

void ls_stopwatch_fill(const ls_stopwatch *w, void *to, size_t bytes, const void *block, size_t size)
{
    for (size_t at = 0; at < bytes; at += size)
        w->ops->copy(w->queue, (char *)to + at, block, bytes - at < size ? bytes - at : size);
}
