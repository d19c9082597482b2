/* remote.h - groups whose ranks are on several hosts. A group of this host's ranks (threads or processes that
 * share memory) becomes part of a larger one; axes that span hosts work through here, all others as before.
 *
 * Each rank has one communication thread. It alone calls the transport, and it runs the fences, exchanges and
 * collectives of spanning axes one after the other, in the order in which the rank started them: the same
 * order on all ranks, so nothing can cross. The rank computes meanwhile.
 *
 * An axis with the same number of members on each of its hosts is worked on in two levels (its *route*):
 * position p is member l of host h, p = h * L + l; members of the same l exchange messages, members of one
 * host exchange memory. Any other axis takes each member for a host. */
#pragma once
#include <pthread.h>
#include "internal.h"
#include "transport.h"

enum {
    /* bytes of each of the three buffers that messages pass through; two halves: one is filled while the
       other is used */
    LS_REMOTE_REGION = 2 << 20,
    LS_REMOTE_PIECE = 512 << 10,       /* most of one message */
    LS_REMOTE_CONTROL = LS_BLOCK_AXES, /* tag of messages about failures; those of an axis have its slot */
};

typedef struct ls_job {
    struct ls_job *next;
    enum { LS_JOB_FENCE, LS_JOB_EXCHANGE, LS_JOB_COLLECTIVE } kind;
    struct ls_route *route;
    const struct ls_collective *collective;
    const void *mine; /* exchange */
    void *all;
    size_t bytes;
    const char *what;
    enum { LS_JOB_IDLE, LS_JOB_QUEUED, LS_JOB_DONE } state; /* under the lock */
    ls_status status;
} ls_job;

typedef struct ls_route {
    ls_axis axis;    /* a copy for the communication thread, with a ledger of its own */
    int hosts, each; /* H, L */
    int host, local; /* h, l of this rank */
    int *peer;       /* [H] ranks of the same l */
    bool first_here; /* no lower position is on this host */
    ls_job fence, exchange;
} ls_route;

/* Messages under way together. */
typedef struct ls_flight {
    int n;
    ls_message *message; /* [2 * size] */
    int *with;           /* ranks */
} ls_flight;

/* What travels between hosts when something has gone wrong. */
typedef struct ls_word {
    enum { LS_WORD_FAILURE, LS_WORD_QUESTION, LS_WORD_ANSWER } kind;
    int from, rank, code; /* who says it; who failed, or who is asked about */
    char text[1500];
} ls_word;

typedef struct ls_remote {
    ls_group *group;
    const ls_transport_ops *ops;
    ls_transport transport;
    int *place; /* transport's rank of each rank */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    ls_job *first, *last;
    bool running, closing;
    ls_axis *here;    /* this host's ranks */
    ls_window *stage; /* over it: slices that members of a host take from each other */
    char *sent, *received;
    ls_flight flight[2];
    ls_message listening;
    ls_word heard, said, answer;
    bool listens, told, answered;
} ls_remote;

/* `g`, of this host's ranks, becomes host number `host` of a larger group whose hosts have as many ranks
 * each; rank r is at place[r] of the transport. The group owns transport and place from then on, also after
 * an error. Collective. */
ls_status ls_remote_attach(ls_group *g, const ls_transport_ops *ops, const ls_transport *t, int host,
                           int *place);
void ls_remote_detach(ls_group *g);

/* ---- for axes that span hosts */
ls_route *ls_route_create(const ls_axis *a); /* NULL: no memory */
void ls_route_destroy(ls_route **t);
void ls_remote_arrive(ls_axis *a);
ls_status ls_remote_fence(ls_axis *a);
ls_status ls_remote_exchange(ls_axis *a, const void *mine, size_t bytes, void *all, const char *what);
ls_status ls_remote_create(ls_collective *c);
void ls_remote_start(ls_collective *c);
ls_status ls_remote_wait(ls_collective *c);
void ls_remote_destroy(ls_collective *c);

/* ---- in the communication thread */
ls_status ls_remote_move(ls_remote *r, const ls_job *j); /* remote_move.c */
bool ls_flight_drop(ls_remote *r, ls_flight *f);         /* false: a message cannot be taken back */
/* remote_control.c: hears what others say and tells them of a failure here; then whether the group has
 * failed. */
ls_status ls_remote_look(ls_remote *r);
/* Nothing came from `rank` for as long as the deadline is: finds out what it does and makes that the group's
 * failure. */
ls_status ls_remote_blame(ls_remote *r, const ls_route *t, int rank, const char *what);
/* Nothing came from `rank` for a while: finds out what it does and tells of it. */
ls_status ls_remote_lag(ls_remote *r, ls_lagging *l, int rank, const char *what);
ls_status ls_remote_listen(ls_remote *r);
/* A transport's failure is the group's. */
ls_status ls_remote_broken(ls_remote *r);
