/* link.c - links of the device emulated (LOCKSTEP_EMULATED=links=1), between ranks that are threads of one
 * process: members meet, and copy from one another's memory. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "comm/reduce.h"
#include "emulated_own.h"

/* Where the members of a link meet. */
typedef struct meeting {
    uint64_t number; /* begins the id */
    struct meeting *next;
    pthread_mutex_t lock;
    pthread_cond_t all;
    int n, members, arrived;
    int64_t turn;
    bool severed;
    const char **shown; /* [n] what each member shows the others */
    size_t *sizes;
} meeting;

typedef struct task {
    struct task *next;
    ls_link *link;
    bool gather;
    const char *from;
    char *to;
    size_t bytes;
    ls_combination combination;
} task;

struct ls_link {
    meeting *meeting;
    int position;
    task *tasks; /* all that were ever put in: recordings have them, too */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static meeting *meetings;
static uint64_t numbers;
static task *combinations; /* as long as the process lives: they belong to no link */

static ls_status emulated_link_find(const char **name, const ls_device *d)
{
    ls_emulation e;
    (void)d;
    LS_TRY(ls_emulation_read(&e));
    *name = "emulated links";
    return e.links ? LS_OK : ls_fail(LS_E_UNSUPPORTED, "LOCKSTEP_EMULATED has no links=1");
}

static ls_status emulated_link_invite(unsigned char id[LS_LINK_ID])
{
    pthread_mutex_lock(&lock);
    const uint64_t number = ++numbers;
    pthread_mutex_unlock(&lock);
    memset(id, 0, LS_LINK_ID);
    memcpy(id, &number, sizeof number);
    return LS_OK;
}

/* Waits for all members. False: the link is severed. */
static bool meet(meeting *m)
{
    pthread_mutex_lock(&m->lock);
    const int64_t turn = m->turn;
    if (++m->arrived == m->n) {
        m->arrived = 0;
        m->turn++;
        pthread_cond_broadcast(&m->all);
    }
    while (m->turn == turn && !m->severed)
        pthread_cond_wait(&m->all, &m->lock);
    const bool well = !m->severed;
    pthread_mutex_unlock(&m->lock);
    return well;
}

static void forget(meeting *m)
{
    pthread_cond_destroy(&m->all);
    pthread_mutex_destroy(&m->lock);
    free((void *)m->shown);
    free(m->sizes);
    free(m);
}

static meeting *meeting_of(uint64_t number, int n)
{
    for (meeting *m = meetings; m; m = m->next)
        if (m->number == number)
            return m;
    meeting *m = ls_sys_calloc(1, sizeof *m);
    if (!m)
        return NULL;
    *m = (meeting){ .number = number,
                    .n = n,
                    .next = meetings,
                    .shown = ls_sys_calloc((size_t)n, sizeof *m->shown),
                    .sizes = ls_sys_calloc((size_t)n, sizeof *m->sizes) };
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->all, NULL);
    if (!m->shown || !m->sizes) {
        forget(m);
        return NULL;
    }
    return meetings = m;
}

static ls_status emulated_link_join(ls_link **out, const ls_device *d, const unsigned char id[LS_LINK_ID],
                                    int n, int position)
{
    uint64_t number;
    (void)d;
    memcpy(&number, id, sizeof number);
    ls_link *l = *out = ls_sys_calloc(1, sizeof *l);
    LS_TRY(ls_sys_have(l));
    pthread_mutex_lock(&lock);
    meeting *m = meeting_of(number, n);
    if (m)
        m->members++;
    pthread_mutex_unlock(&lock);
    if (!m) {
        free(l);
        *out = NULL;
        return ls_sys_have(NULL);
    }
    *l = (ls_link){ .meeting = m, .position = position };
    if (!meet(m))
        return ls_fail(LS_E_DEVICE, "emulated: the link was severed while it was joined");
    return LS_OK;
}

static void emulated_link_leave(ls_link **out)
{
    ls_link *l = *out;
    for (task *t = l->tasks, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    pthread_mutex_lock(&lock);
    meeting **at = &meetings;
    while (*at != l->meeting)
        at = &(*at)->next;
    if (--l->meeting->members == 0) {
        *at = l->meeting->next;
        forget(l->meeting);
    }
    pthread_mutex_unlock(&lock);
    free(l);
    *out = NULL;
}

static void emulated_link_sever(ls_link *l)
{
    pthread_mutex_lock(&l->meeting->lock);
    l->meeting->severed = true;
    pthread_cond_broadcast(&l->meeting->all);
    pthread_mutex_unlock(&l->meeting->lock);
}

static void emulated_link_ask(ls_link *l, const char **why)
{
    (void)l;
    *why = NULL;
}

/* ---- tasks */

/* A gather takes from each member its own piece, an exchange that for this member. */
static ls_status move(void *context)
{
    const task *t = context;
    meeting *m = t->link->meeting;
    const size_t mine = (size_t)t->link->position * t->bytes;
    m->shown[t->link->position] = t->from;
    m->sizes[t->link->position] = t->bytes;
    if (!meet(m))
        return LS_OK;
    for (int p = 0; p < m->n; p++) {
        const size_t piece = (size_t)p * t->bytes;
        if (m->sizes[p] != t->bytes)
            return ls_fail(LS_E_INTERNAL,
                           "emulated: member %d of a link moves pieces of %zu B, member %d of %zu",
                           t->link->position, t->bytes, p, m->sizes[p]);
        if (!t->gather || p != t->link->position)
            memcpy(t->to + piece, m->shown[p] + (t->gather ? piece : mine), t->bytes);
    }
    meet(m); /* nobody changes what others still read */
    return LS_OK;
}

/* (Without memory the device emulated waits, as its queue does: tests of memory have no links.) */
static task *emulated_link_keep(task **list, task t)
{
    task *own;
    while (!(own = ls_sys_malloc(sizeof *own)))
        ;
    *own = t;
    own->next = *list;
    return *list = own;
}

static void emulated_link_put(ls_queue *q, ls_link *l, bool gather, const void *from, void *to, size_t bytes)
{
    const task t = { .link = l,
                     .gather = gather,
                     .from = ls_emulated_host(from),
                     .to = ls_emulated_host(to),
                     .bytes = bytes };
    ls_queue_emulated.host(q, move, emulated_link_keep(&l->tasks, t));
}

static void emulated_link_gather(ls_queue *q, ls_link *l, void *all, size_t bytes)
{
    emulated_link_put(q, l, true, all, all, bytes);
}

static void emulated_link_exchange(ls_queue *q, ls_link *l, const void *from, void *to, size_t bytes)
{
    emulated_link_put(q, l, false, from, to, bytes);
}

static ls_status emulated_link_add(void *context)
{
    const ls_combination *c = &((const task *)context)->combination;
    const char *pieces[LS_LINK_PIECES];
    for (int i = 0; i < c->n; i++)
        pieces[i] = (const char *)ls_emulated_host(c->in) + (size_t)i * c->stride;
    const ls_reduce r = { .by = c->by == LS_COMBINE_MAX    ? LS_BY_MAX
                                : c->by == LS_COMBINE_WIDE ? LS_BY_WIDE_SUM
                                                           : LS_BY_SUM,
                          .from = c->from,
                          .via = c->via,
                          .to = c->to,
                          .n = c->n,
                          .in = pieces,
                          .out = ls_emulated_host(c->out),
                          .count = c->count,
                          .threads = 1 };
    ls_reduce_run(&r);
    return LS_OK;
}

static void emulated_link_combine(ls_queue *q, const ls_combination *c)
{
    pthread_mutex_lock(&lock);
    task *t = emulated_link_keep(&combinations, (task){ .combination = *c });
    pthread_mutex_unlock(&lock);
    ls_queue_emulated.host(q, emulated_link_add, t);
}

const ls_link_ops ls_link_emulated = { .find = emulated_link_find,
                                       .invite = emulated_link_invite,
                                       .join = emulated_link_join,
                                       .leave = emulated_link_leave,
                                       .sever = emulated_link_sever,
                                       .ask = emulated_link_ask,
                                       .gather = emulated_link_gather,
                                       .exchange = emulated_link_exchange,
                                       .combine = emulated_link_combine };
