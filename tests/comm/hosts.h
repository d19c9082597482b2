/* hosts.h - ranks on several hosts, as threads that exchange messages through a mailbox. */
#pragma once
#include "lockstep/group.h"
#include "mailbox.h"

typedef ls_status (*body_fn)(ls_group *g, int started_as, void *context);

typedef struct runner {
    mailbox *box;
    int rank, expected;
    body_fn fn; /* NULL: it joins and leaves */
    void *context;
    ls_status status;
    char message[4096];
} runner;

void run_all(runner *all, mailbox *box, body_fn fn, void *context);
void assert_all_ok(const runner *all, int n);
