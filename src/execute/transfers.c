/* transfers.c - copies between host memory and the memory of an apart device. They run beside the kernels,
 * in a queue of their own. Two events for each transfer put the tasks of the two queues in order. */
#include "base/sys.h"
#include "internal.h"

static ls_status transfers_prepare(const ls_program *g, int k)
{
    const ls_plan *p = g->plan;
    const ls_node *n = p->graph->nodes[p->transfers[k].node];
    const ls_location *in = &p->locations[n->in[0].id], *out = &p->locations[n->out[0].id];
    ls_move *m = &g->moves[k];
    *m = (ls_move){ .from = g->where[in->alloc] + in->offset,
                    .to = g->where[out->alloc] + out->offset,
                    .bytes = p->transfers[k].bytes };
    LS_TRY(g->session->ops->event(&m->ready, &p->device));
    LS_TRY(g->session->ops->event(&m->began, &p->device));
    return g->session->ops->event(&m->done, &p->device);
}

ls_status ls_transfers_prepare(ls_session *s, ls_program *g)
{
    const ls_plan *p = g->plan;
    if (!p->n_transfers)
        return LS_OK;
    if (!s->moving) {
        LS_TRY(s->ops->open(&s->moving, &p->device));
        s->ops->number(s->moving, -1);
    }
    g->moves = LS_ARENA_ARRAY(&s->arena, ls_move, p->n_transfers);
    LS_TRY(ls_sys_have(g->moves));
    for (int k = 0; k < p->n_transfers; k++)
        LS_TRY(transfers_prepare(g, k));
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].transfer >= 0)
            g->calls[i].move = &g->moves[p->steps[i].transfer];
    return LS_OK;
}

void ls_transfers_destroy(ls_session *s)
{
    for (int i = 0; i < s->n_programs; i++)
        for (int k = 0; s->programs[i].moves && k < s->programs[i].plan->n_transfers; k++) {
            s->ops->forget(&s->programs[i].moves[k].ready);
            s->ops->forget(&s->programs[i].moves[k].began);
            s->ops->forget(&s->programs[i].moves[k].done);
        }
}

void ls_transfer_half(ls_session *s, const ls_call *c)
{
    const ls_move *m = c->move;
    if (c->part == LS_PART_WAIT) {
        s->ops->await(s->queue, m->done);
        return;
    }
    /* (earlier readers of the result's memory are done then, too) */
    s->ops->record(s->queue, m->ready);
    s->ops->await(s->moving, m->ready);
    if (s->profile)
        s->ops->record(s->moving, m->began);
    s->ops->copy(s->moving, m->to, m->from, m->bytes);
    s->ops->record(s->moving, m->done);
}
