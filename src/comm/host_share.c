/* host_share.c - see host_share.h. Ranks that are threads are one process: the first group counts. */
#include "host_share.h"

#include <pthread.h>

#include "group_own.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ls_group *own;
static uint64_t claimed; /* also by groups that this process joins later */

void ls_host_share_begin(ls_group *g)
{
    pthread_mutex_lock(&lock);
    if (!own)
        own = g;
    if (claimed)
        atomic_store(&ls_group_record(g)->claimed, claimed);
    pthread_mutex_unlock(&lock);
}

void ls_host_share_end(ls_group *g)
{
    pthread_mutex_lock(&lock);
    if (own == g)
        own = NULL;
    pthread_mutex_unlock(&lock);
}

ls_host_share ls_host_share_get(void)
{
    pthread_mutex_lock(&lock);
    const bool threads = own && own->here > 1 && !atomic_load(&ls_group_record(own)->pid);
    const ls_host_share s = own ? (ls_host_share){ own->rank - own->first, own->here, threads }
                                : (ls_host_share){ 0, 1, false };
    pthread_mutex_unlock(&lock);
    return s;
}

/* Each process writes first and then reads: of two at the same time at least one sees the other. */
int ls_host_share_claim(uint64_t thing)
{
    int other = -1;
    pthread_mutex_lock(&lock);
    claimed = thing;
    if (own) {
        const int mine = atomic_load(&ls_group_record(own)->pid);
        atomic_store(&ls_group_record(own)->claimed, thing);
        for (int i = 0; i < own->here && other < 0; i++) {
            ls_rank_record *s = ls_control_record(own->control, i);
            if (atomic_load(&s->claimed) == thing && atomic_load(&s->pid) != mine)
                other = own->first + i;
        }
    }
    pthread_mutex_unlock(&lock);
    return other;
}
