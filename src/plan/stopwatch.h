/* stopwatch.h - times tasks on a queue of a device, between events. */
#pragma once
#include "device/queue.h"

typedef struct ls_lap {
    ls_event *from, *to;
    int of; /* identifies the lap: a number of the caller's */
} ls_lap;

typedef struct ls_stopwatch {
    const ls_device *device;
    const ls_queue_ops *ops;
    ls_queue *queue;
    ls_lap *laps;
    int n, made, room; /* laps since `n` was set to 0; laps with events; room for laps */
    /* How many tasks of a kind to put into the queue before the host waits for their times. On a device whose
     * memory is its own a queue that ran empty would add the time of starting a kernel to that of the kernel.
     */
    int ahead;
} ls_stopwatch;

/* The device must live longer. After a failure there is nothing to close. */
ls_status ls_stopwatch_open(ls_stopwatch *w, const ls_device *d);
void ls_stopwatch_close(ls_stopwatch *w);

/* Lap number w->n - 1 has the tasks that are put into the queue between these two calls. */
ls_status ls_stopwatch_begin(ls_stopwatch *w, int of);
void ls_stopwatch_end(ls_stopwatch *w);
/* Seconds of a lap: after `wait` of the queue. */
double ls_stopwatch_seconds(const ls_stopwatch *w, int lap);

/* Copies `block` again and again to `bytes` bytes of memory. The block must stay until `wait`. */
void ls_stopwatch_fill(const ls_stopwatch *w, void *to, size_t bytes, const void *block, size_t size);
