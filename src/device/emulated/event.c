/* event.c - events of the device emulated. Records of an event are numbered when they are put into a queue; a
 * queue that awaits it waits for the latest one at that time. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sys.h"
#include "emulated_own.h"

struct ls_event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t recorded, happened; /* how many records were put in, and which of them was the last to happen */
    double at;
};

ls_status ls_emulated_event(ls_event **out, const ls_device *d)
{
    (void)d;
    LS_TRY(ls_sys_have(*out = ls_sys_calloc(1, sizeof **out)));
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->changed, NULL);
    return LS_OK;
}

void ls_emulated_forget(ls_event **e)
{
    if (!*e)
        return;
    pthread_cond_destroy(&(*e)->changed);
    pthread_mutex_destroy(&(*e)->lock);
    free(*e);
    *e = NULL;
}

int64_t ls_emulated_nth(ls_event *e, bool records)
{
    pthread_mutex_lock(&e->lock);
    e->recorded += records;
    const int64_t nth = e->recorded;
    pthread_mutex_unlock(&e->lock);
    return nth;
}

void ls_emulated_happen(ls_event *e, int64_t nth)
{
    pthread_mutex_lock(&e->lock);
    e->happened = e->happened > nth ? e->happened : nth;
    e->at = ls_now();
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

void ls_emulated_await(ls_event *e, int64_t nth)
{
    pthread_mutex_lock(&e->lock);
    while (e->happened < nth)
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

double ls_emulated_elapsed(const ls_event *from, const ls_event *to) { return to->at - from->at; }
