/* remote_types.h - a group whose ranks are on several machines: its parts.
 *
 * A group of one machine's ranks (threads or processes that share memory) becomes part of a larger group.
 * Axes that span machines work as below, all others as before.
 *
 * Each rank has one communication thread. Only that thread calls the transport. It runs the fences, exchanges
 * and collectives of spanning axes as *jobs*, one after the other, in the order in which the rank started
 * them. That order is the same on all ranks, so messages of two jobs cannot be mixed up. The rank computes
 * meanwhile. A send is no such job: its message is posted as soon as the thread looks, so it never waits for
 * another rank, and its tag is the mailbox's own.
 *
 * An axis with the same number of members on each of its machines works in two levels; its *route* describes
 * them. Position p is member l of machine m, p = m * L + l. Members with the same l exchange messages,
 * members of one machine exchange memory. Any other axis treats each member as a machine of its own. */
#pragma once
#include <pthread.h>
#include "axis_own.h"
#include "collective_own.h"
#include "transport.h"

enum {
    LS_REMOTE_CONTROL = LS_CONTROL_AXES, /* tag of notices; the tag of an axis's messages is its number */
    LS_REMOTE_FLIGHTS = 3,               /* turns whose memory is in use: two are under way, one is used */
    LS_REMOTE_MAILBOX = LS_REMOTE_CONTROL + 1, /* tag of what leaves mailbox 0; the next ones follow */
};

typedef struct ls_job {
    struct ls_job *next;
    enum { LS_JOB_FENCE, LS_JOB_EXCHANGE, LS_JOB_COLLECTIVE, LS_JOB_ROOM } kind;
    struct ls_route *route;
    const ls_collective *collective;
    const void *mine; /* exchange */
    void *all;
    size_t bytes;
    const char *what;                                       /* for messages */
    ls_counters *box;                                       /* of a send: its mailbox */
    int to, from, tag;                                      /* of a send or a receive: the other rank */
    ls_message message;                                     /* under way */
    enum { LS_JOB_IDLE, LS_JOB_QUEUED, LS_JOB_DONE } state; /* under the lock */
    ls_status status;
} ls_job;

typedef struct ls_route {
    ls_axis axis;       /* a copy for the communication thread, with a ledger of its own */
    int machines, each; /* M machines, L members on each */
    int machine, local; /* m, l of this rank */
    int *peer;          /* [M] ranks with the same l */
    char *present;      /* [n] a byte of every member: what a fence shares */
    bool first_here;    /* no lower position is on this machine */
    ls_job fence, exchange, room;
} ls_route;

/* Messages that are under way together, and waited for together. */
typedef struct ls_flight {
    int n;
    ls_message message[2];
    int with[2]; /* ranks */
} ls_flight;

/* A notice between machines, after a failure. */
typedef struct ls_notice {
    enum { LS_NOTICE_FAILURE, LS_NOTICE_QUESTION, LS_NOTICE_ANSWER } kind;
    int from;               /* its sender */
    int about;              /* the rank of a question and its answer */
    int rank, code, missed; /* who failed and how; of an answer, for whom that rank waits in the end */
    int waits_for;          /* of an answer: the rank on another machine for which `rank` waits; -1: none */
    int reporter;           /* the rank that tells the user of the failure */
    char text[1500];
} ls_notice;

typedef struct ls_remote_group {
    ls_group *group;
    const ls_transport_ops *ops;
    ls_transport transport;
    int *transport_rank; /* [size] the transport's number of each rank */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    ls_job *first, *last;      /* the queue */
    ls_job *posts, *last_post; /* sends that are not under way yet */
    _Atomic bool posted;       /* there are some */
    ls_job *leaving;           /* sends that are under way; the communication thread's */
    _Atomic int senders;       /* collectives that send */
    bool running, closing;
    ls_axis *here;      /* this machine's ranks */
    ls_window *staging; /* over it: slices that the members of a machine take from each other */
    char *sent, *received;
    ls_flight flight[LS_REMOTE_FLIGHTS]; /* by the number of the turn */
    ls_message listening;
    ls_notice heard, said, answer;
    bool listens;  /* `listening` is under way */
    bool told;     /* the other machines know of the failure */
    bool deaf;     /* the transport is not called any more: it may still use memory of the rank */
    int about;     /* the rank that the latest question was about */
    bool answered; /* `answer` has come */
} ls_remote_group;
