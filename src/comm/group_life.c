/* group_life.c - makes and ends a group over a control block. */
#include "group_life.h"

#include <stdlib.h>

#include "axis_own.h"
#include "base/sys.h"
#include "cores.h"
#include "fault.h"
#include "host_share.h"
#include "lag.h"
#include "last_words.h"
#include "launched.h"
#include "remote.h"

static const double DEADLINE = 300; /* seconds of a wait (ls_group_set_deadline) */

ls_status ls_group_open(ls_group **out, ls_control_block *c, const ls_sharing *sharing, int fd, int local,
                        int first, int size)
{
    *out = NULL;
    ls_group *g = ls_sys_calloc(1, sizeof *g);
    if (!g)
        return ls_fail(LS_E_MEMORY, "no memory for a process group");
    *g = (ls_group){ .rank = first + local,
                     .size = size,
                     .machines = 1,
                     .first = first,
                     .here = c->ranks,
                     .control = c,
                     .sharing = sharing,
                     .fd = fd,
                     .deadline = ls_launch_stall() > 0 ? ls_launch_stall() : DEADLINE,
                     .lag_threshold = ls_lag_threshold(),
                     .lag_first = ls_lag_threshold() };
    ls_status s = ls_axis_create_world(g);
    if (s != LS_OK) {
        free(g);
        return s;
    }
    ls_rank_publish_cpus(ls_control_record(c, local));
    atomic_store(&ls_control_record(c, local)->state, LS_RANK_JOINED);
    ls_host_share_begin(g);
    *out = g;
    return LS_OK;
}

void ls_group_destroy(ls_group **out)
{
    if (!out)
        return;
    ls_group *g = *out;
    if (!g)
        return;
    ls_last_words_forget(g);
    ls_host_share_end(g);
    ls_remote_detach(g);
    atomic_store(&ls_group_record(g)->state, LS_RANK_LEFT);
    ls_axis_destroy(&g->world);
    ls_fault_release(g);
    g->sharing->leave(g);
    free(g);
    *out = NULL;
}
