/* hosts.c - see hosts.h. */
#include "hosts.h"

#include <pthread.h>
#include <stdio.h>

#include "comm/machines.h"
#include "comm/comm.h"
#include "support/support.h"

static void *run(void *argument)
{
    runner *r = argument;
    ls_group *g = NULL;
    r->status = ls_machines_join(&g, &mailbox_transport, &(mailbox_place){ r->box, r->rank }, r->expected);
    if (r->status == LS_OK && r->fn)
        r->status = r->fn(g, r->rank, r->context);
    snprintf(r->message, sizeof r->message, "%s", r->status == LS_OK ? "" : ls_error_message());
    if (r->status != LS_OK && g)
        ls_group_fail(g, r->status, r->message);
    ls_group_destroy(&g);
    return NULL;
}

void run_all(runner *all, mailbox *box, body_fn fn, void *context)
{
    pthread_t thread[MAILBOX_RANKS];
    for (int r = 0; r < box->size; r++) {
        all[r] = (runner){ .box = box, .rank = r, .expected = box->size, .fn = fn, .context = context };
        pthread_create(&thread[r], NULL, run, &all[r]);
    }
    for (int r = 0; r < box->size; r++)
        pthread_join(thread[r], NULL);
}

void assert_all_ok(const runner *all, int n)
{
    for (int r = 0; r < n; r++)
        if (all[r].status != LS_OK)
            fail_msg("rank %d: %s", r, all[r].message);
}
