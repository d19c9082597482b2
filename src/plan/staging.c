/* staging.c - memory for collectives of a device whose memory is its own. Ranks read one another's operands
 * in the window, which is in host memory: the start of a collective copies the operand there. The host
 * computes the result. If the result is not made in place, in the window, it is made in pinned memory
 * (LS_MEM_PINNED) and copied to the device at the wait. That memory is live from the start to the wait, and
 * is packed by lifetime as the arena is. A message between stages passes through such memory, too: it is
 * copied there at the start of a send, and from there at the wait of a receive. Of an all_to_all the host
 * reads how many rows go where: these offsets are copied behind the result, at the start.
 *
 * Over a link no data leaves the devices: scratch memory of a collective is in the arena. */
#include "device/queue.h"
#include "internal.h"
#include "linked.h"

/* The result, of a send what it sends. *in_place: whether it lies where the operand lies. */
static int result_of(const ls_plan *p, const ls_plan_collective *c, bool *in_place)
{
    const ls_node *n = p->graph->nodes[c->node];
    *in_place = false;
    if (ls_is_message(c))
        return c->kind == LS_SEND ? n->in[0].id : n->out[0].id;
    const ls_location *from = &p->locations[n->in[0].id], *to = &p->locations[n->out[0].id];
    *in_place = from->alloc == to->alloc && from->offset == to->offset;
    return n->out[0].id;
}

size_t ls_staged_begins(const ls_plan *p, const ls_plan_collective *c)
{
    return (ls_type_bytes(ls_type_of(p->graph, p->graph->nodes[c->node]->out[0])) + 63) / 64 * 64;
}

/* The memory that a collective needs in addition to operand and result; bytes 0: none. */
static ls_alloc staging_of(const ls_plan *p, const ls_plan_collective *c)
{
    bool in_place;
    const int v = result_of(p, c, &in_place);
    const bool linked = ls_goes_linked(p, c);
    ls_alloc a = { .memory = linked ? LS_MEM_ARENA : LS_MEM_PINNED,
                   .category = LS_CAT_STAGING,
                   .value = v,
                   .first = c->start,
                   .last = c->wait };
    if (linked)
        a.bytes = ls_linked_of(c).bytes;
    else if (ls_device_apart(&p->device) && c->kind == LS_ALL_TO_ALL)
        a.bytes = ls_staged_begins(p, c) +
                  ls_type_bytes(ls_type_of(p->graph, p->graph->nodes[c->node]->in[1]));
    else if (ls_device_apart(&p->device) && !in_place)
        a.bytes = ls_type_bytes(&p->graph->vals[v].type);
    return a;
}

ls_status ls_planner_stage(ls_planner *planner)
{
    ls_plan *p = planner->plan;
    const bool apart = ls_device_apart(&p->device);
    bool *in_window = LS_ARENA_ARRAY(&planner->scratch, bool, p->graph->n_vals); /* operands */
    LS_TRY(ls_arena_status(&planner->scratch));
    for (int i = 0; i < p->n_collectives; i++) {
        ls_plan_collective *c = &p->collectives[i];
        c->staging = -1;
        if (!apart)
            continue;
        c->sent = c->settled;
        if (!ls_is_message(c)) {
            bool *there = &in_window[p->graph->nodes[c->node]->in[0].id];
            c->sent = c->sent || *there;
            *there = true;
        }
        if (c->map)
            return ls_fail(LS_E_INTERNAL,
                           "plan %s: %s is mapped, and each process has the memory of device %s "
                           "for itself",
                           p->graph->name, c->unit, p->device.ops->name);
        const ls_alloc a = staging_of(p, c);
        if (!a.bytes)
            continue;
        c->staging = p->n_allocs;
        p->allocs[p->n_allocs++] = a;
    }
    return LS_OK;
}

ls_status ls_plan_check_staging(const ls_plan *p)
{
    for (int i = 0; i < p->n_collectives; i++) {
        const ls_plan_collective *c = &p->collectives[i];
        const ls_alloc needs = staging_of(p, c), *a = c->staging < 0 ? NULL : &p->allocs[c->staging];
        if ((a != NULL) != (needs.bytes > 0) ||
            (a && (a->memory != needs.memory || a->value != needs.value || a->first > c->start ||
                   a->last < c->wait || a->bytes < needs.bytes)))
            return ls_fail(LS_E_INTERNAL, "plan: the result of collective %d (%s) %s", i, c->unit,
                           a ? "does not fit into its staging memory from its start to its wait"
                             : "has no staging memory");
    }
    return LS_OK;
}
