/* ranks.c - see ranks.h. */
#include "ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct run {
    rank_fn fn;
    void *context;
    pthread_mutex_t lock;
    ls_status first;
    char message[4096];
};

struct rank {
    struct run *run;
    ls_group *group;
    pthread_t thread;
};

static void *body(void *argument)
{
    struct rank *r = argument;
    struct run *run = r->run;
    ls_status s = run->fn(r->group, run->context);
    if (s != LS_OK) {
        pthread_mutex_lock(&run->lock);
        /* a rank that only hears of another one's failure may be faster than that one */
        if (run->first == LS_OK || run->first == LS_E_PEER) {
            run->first = s;
            snprintf(run->message, sizeof run->message, "%s", ls_error_message());
        }
        pthread_mutex_unlock(&run->lock);
        ls_group_fail(r->group, s, ls_error_message());
    }
    ls_group_destroy(&r->group);
    return NULL;
}

ls_status run_ranks(int n, rank_fn fn, void *context)
{
    ls_group *groups[n];
    struct run run = { .fn = fn, .context = context, .lock = PTHREAD_MUTEX_INITIALIZER };
    struct rank ranks[n];
    LS_TRY(ls_group_threads(groups, n));
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){ .run = &run, .group = groups[i] };
        if (pthread_create(&ranks[i].thread, NULL, body, &ranks[i]) != 0)
            abort();
    }
    for (int i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    return run.first == LS_OK ? LS_OK : ls_fail(run.first, "%s", run.message);
}

int tell_parent(ls_group *g, ls_status s)
{
    if (s != LS_OK && s != LS_E_PEER)
        ls_group_fail(g, s, ls_error_message());
    return s == LS_OK ? 0 : s == LS_E_USAGE ? 2 : 1;
}
