/* remote.c - joins the groups of several machines into one, and takes them apart again. */
#include "remote.h"

#include <stdlib.h>

#include "base/sys.h"
#include "remote_control.h"
#include "remote_flight.h"
#include "remote_jobs.h"
#include "remote_reduce.h"
#include "remote_share.h"

size_t ls_message_bytes(int ranks)
{
    return ls_share_bytes() + ls_reduce_sent_bytes() + ls_reduce_received_bytes(ranks);
}

/* (Zeroed: what is sent after the end of a short slice is not somebody's data.) */
static ls_status make_buffers(ls_remote_group *r)
{
    r->sent = ls_sys_calloc(1, ls_reduce_sent_bytes());
    r->received = ls_sys_calloc(1, ls_reduce_received_bytes(r->group->size));
    return r->sent && r->received ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for messages to other hosts");
}

/* Staging memory in which the ranks of this machine take each other's slices. It is made while the group has
 * only this machine's ranks. */
static ls_status make_staging(ls_remote_group *r)
{
    ls_group *g = r->group;
    int *members = ls_sys_calloc((size_t)g->here, sizeof *members);
    for (int i = 0; members && i < g->here; i++)
        members[i] = i;
    ls_status s = members ? ls_axis_create(&r->here, g, "host", g->here, members)
                          : ls_fail(LS_E_MEMORY, "no memory for %d ranks", g->here);
    free(members);
    LS_TRY(s);
    return ls_window_create(&r->staging, r->here, ls_share_bytes(), 0);
}

/* The ranks of this machine get their numbers in the larger group. */
static ls_status move_group(ls_group *g, int machine, int machines)
{
    ls_axis_destroy(&g->world);
    g->rank += machine * g->here;
    g->first = machine * g->here;
    g->size = machines * g->here;
    g->machines = machines;
    for (int i = 0; i < g->here; i++)
        g->remote->here->members[i] += g->first;
    return ls_axis_create_world(g);
}

ls_status ls_remote_attach(ls_group *g, const ls_transport_ops *ops, const ls_transport *t, int machine,
                           int *transport_rank)
{
    ls_remote_group *r = ls_sys_calloc(1, sizeof *r);
    if (!r) {
        free(transport_rank);
        return ls_fail(LS_E_MEMORY, "no memory for a group on several hosts");
    }
    *r = (ls_remote_group){ .group = g, .ops = ops, .transport = *t, .transport_rank = transport_rank };
    g->remote = r;
    LS_TRY(make_staging(r));
    LS_TRY(move_group(g, machine, t->size / g->here));
    LS_TRY(make_buffers(r));
    LS_TRY(ls_remote_listen(r));
    return ls_remote_start_thread(r);
}

/* Gives up the messages that a failure left under way. false: the transport may still use the memory of one.
 */
static bool drop_messages(ls_remote_group *r)
{
    ls_flight_give_up(r);
    return !r->deaf && (!r->listens || r->ops->cancel(&r->transport, &r->listening));
}

void ls_remote_detach(ls_group *g)
{
    ls_remote_group *r = g->remote;
    if (!r)
        return;
    ls_remote_stop_thread(r);
    if (drop_messages(r)) {
        free(r->sent);
        free(r->received);
        ls_window_destroy(&r->staging);
    }
    ls_axis_destroy(&r->here);
    r->ops->close(&r->transport, r->running && !ls_control_failed(g->control));
    free(r->transport_rank);
    free(r);
    g->remote = NULL;
}
