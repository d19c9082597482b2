/* mailbox.h - a transport between threads of one process that a test can inspect and break. It tests remote.c
 * without MPI, and under sanitizers. */
#pragma once
#include <pthread.h>
#include "comm/transport.h"

enum { MAILBOX_RANKS = 64, MAILBOX_TAGS = 1000 };

typedef struct mailbox_letter mailbox_letter;
typedef struct mailbox {
    int size;
    int machine_of[MAILBOX_RANKS]; /* the lowest rank of each rank's host */
    pthread_mutex_t lock;
    mailbox_letter *letters, *wishes; /* sent; to be received; in order */
    pthread_barrier_t all;
    char *gathered;
    long sent[MAILBOX_RANKS];                                             /* bytes by sender */
    long sends[MAILBOX_RANKS], least[MAILBOX_RANKS], most[MAILBOX_RANKS]; /* and their number and sizes */
    int broken; /* rank whose sends fail, -1: none */
    bool slow;  /* a send is done when its letter has been received */
} mailbox;

void mailbox_init(mailbox *b, int size, int hosts); /* contiguous ranks on equal hosts */
void mailbox_release(mailbox *b);

typedef struct mailbox_place {
    mailbox *box;
    int rank;
} mailbox_place; /* the "communicator" of a rank */
extern const ls_transport_ops mailbox_transport;
