/* staging.c - collectives of a device whose memory is its own. Ranks read one another's operands in the
 * window, which is host memory then: a start copies the operand there. The host makes the result, too. If it
 * is not made in place, in the window, it is made in pinned memory (LS_MEM_PINNED) and copied to the device
 * at the wait. That memory is live from the start to the wait, and is packed by lifetime as the arena is. */
#include "device/queue.h"
#include "internal.h"

static int operand(const ls_plan *p, const ls_plan_collective *c)
{
    return p->graph->nodes[c->node]->in[0].id;
}

/* The result. *in_place: whether it lies where the operand does. */
static int result_of(const ls_plan *p, const ls_plan_collective *c, bool *in_place)
{
    const ls_node *n = p->graph->nodes[c->node];
    const ls_location *from = &p->locations[n->in[0].id], *to = &p->locations[n->out[0].id];
    *in_place = from->alloc == to->alloc && from->offset == to->offset;
    return n->out[0].id;
}

ls_status ls_planner_stage(ls_planner *planner)
{
    ls_plan *p = planner->plan;
    const bool apart = ls_device_apart(&p->device);
    for (int i = 0; i < p->n_collectives; i++) {
        ls_plan_collective *c = &p->collectives[i];
        bool in_place;
        const int v = result_of(p, c, &in_place);
        c->staging = -1;
        if (!apart)
            continue;
        c->sent = c->settled;
        for (int k = 0; k < i; k++)
            c->sent = c->sent || operand(p, &p->collectives[k]) == operand(p, c);
        if (c->map)
            return ls_fail(LS_E_INTERNAL,
                           "plan %s: %s is mapped, and each process has the memory of device %s "
                           "for itself",
                           p->graph->name, c->unit, p->device.ops->name);
        if (in_place)
            continue;
        c->staging = p->n_allocs;
        p->allocs[p->n_allocs++] = (ls_alloc){ .memory = LS_MEM_PINNED,
                                               .category = LS_CAT_STAGING,
                                               .value = v,
                                               .bytes = ls_type_bytes(&p->graph->vals[v].type),
                                               .first = c->start,
                                               .last = c->wait };
    }
    return LS_OK;
}

ls_status ls_plan_check_staging(const ls_plan *p)
{
    for (int i = 0; i < p->n_collectives; i++) {
        const ls_plan_collective *c = &p->collectives[i];
        bool in_place;
        const int v = result_of(p, c, &in_place);
        const ls_alloc *a = c->staging < 0 ? NULL : &p->allocs[c->staging];
        if ((a != NULL) != (ls_device_apart(&p->device) && !in_place) ||
            (a && (a->memory != LS_MEM_PINNED || a->value != v || a->first > c->start || a->last < c->wait ||
                   a->bytes < ls_type_bytes(&p->graph->vals[v].type))))
            return ls_fail(LS_E_INTERNAL, "plan: the result of collective %d (%s) %s", i, c->unit,
                           a ? "does not fit into its pinned memory from its start to its wait"
                             : "has no pinned memory");
    }
    return LS_OK;
}
