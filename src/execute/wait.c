/* wait.c - waits for a session's queue, and reports which task failed. */
#include "internal.h"

/* Adds to a failure which step of which program failed. A collective that failed by itself has said so
 * already. */
static ls_status blame_task(const ls_session *s, ls_status status, int64_t number)
{
    const ls_program *g = number < 0 ? NULL : &s->programs[number / LS_STEPS_MOST];
    const int k = (int)(number % LS_STEPS_MOST);
    if (!g || (g->plan->steps[k].part != LS_PART_RUN && status != LS_E_DEVICE))
        return status;
    const ls_node *n = g->plan->graph->nodes[g->plan->steps[k].node];
    char site[LS_SITE_SIZE];
    return ls_fail(status, "device %s: program \"%s\", step %d of %d, %s of %s%s: %s",
                   g->plan->device.ops->name, g->plan->graph->name, k, g->plan->n_steps, n->op->name,
                   n->scope->path[0] ? n->scope->path : "(top level)", ls_site_after(site, n->file, n->line),
                   ls_error_message());
}

ls_status ls_session_wait(ls_session *s)
{
    int64_t failed = -1;
    s->waits++;
    ls_links_wait(s, true);
    const ls_status moved = s->moving ? s->ops->wait(s->moving, &failed) : LS_OK,
                    crossed = ls_links_queue(s) ? s->ops->wait(ls_links_queue(s), &failed) : LS_OK;
    ls_status status = s->ops->wait(s->queue, &failed);
    ls_links_wait(s, false);
    status = status != LS_OK ? status : moved != LS_OK ? moved : crossed;
    if (ls_links_status(s) != LS_OK) { /* a rank is lost; that is not a failure of a task */
        status = LS_E_PEER;
        failed = -1;
    }
    if (s->ops->apart)
        ls_numbers_wait(s, status == LS_OK);
    if (status == LS_OK)
        status = ls_host_calls_wait(s);
    return status == LS_OK ? LS_OK : blame_task(s, status, failed);
}

int64_t ls_session_waits(const ls_session *s) { return s->waits; }
