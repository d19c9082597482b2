/* collectives.c - what a plan says of a node that communicates: its group, its sizes and its bytes. */
#include "internal.h"
#include "ops/rules.h"

int ls_planner_base(const ls_planner *p, int v, int64_t *offset)
{
    int64_t at = 0;
    while (p->home[v].base != v) {
        at += p->home[v].offset;
        v = p->home[v].base;
    }
    if (offset)
        *offset = at;
    return v;
}

bool ls_is_alias_gather(const ls_graph *g, const ls_node *n)
{
    return n->op == &ls_op_all_gather && ((const ls_gather_attrs *)n->attrs)->map &&
           ls_type_of(g, n->in[0])->dtype == ls_type_of(g, n->out[0])->dtype;
}

static ls_plan_collective describe_message(ls_planner *p, const ls_node *n)
{
    const ls_message_attrs *a = n->attrs;
    ls_plan_collective c = { .node = n->id,
                             .kind = n->op == &ls_op_send ? LS_SEND : LS_RECEIVE,
                             .group = a->group,
                             .unit = a->unit,
                             .n = (int)a->ranks,
                             .peer = (int)a->peer,
                             .offset = (size_t)a->offset,
                             .mailbox = (int)a->number,
                             .count = ls_type_count(&a->type),
                             .from = a->type.dtype,
                             .to = a->type.dtype,
                             .via = a->type.dtype };
    c.bytes = ls_collective_bytes(c.kind, c.n, c.count, c.from);
    if (p->plan->mailbox_bytes < (size_t)a->room)
        p->plan->mailbox_bytes = (size_t)a->room;
    return c;
}

static void describe_exchange(const ls_graph *g, const ls_node *n, ls_plan_collective *c)
{
    const ls_exchange_attrs *a = n->attrs;
    const ls_type *in = ls_type_of(g, n->in[0]), *out = ls_type_of(g, n->out[0]);
    c->kind = LS_ALL_TO_ALL;
    c->group = a->group;
    c->unit = a->unit;
    c->n = (int)a->ranks;
    c->count = ls_type_count(in);
    c->via = in->dtype;
    c->row = c->count / in->dims[0];
    c->groups = ls_type_of(g, n->in[1])->dims[0] / a->ranks - 1;
    c->room = out->dims[0];
    c->back = a->back;
    c->bytes = ls_collective_bytes(c->kind, c->n, a->back ? ls_type_count(out) : c->count, c->from);
}

ls_plan_collective ls_planner_collective(ls_planner *p, const ls_node *n)
{
    const ls_graph *g = p->plan->graph;
    if (n->op == &ls_op_send || n->op == &ls_op_receive)
        return describe_message(p, n);
    const ls_type *in = ls_type_of(g, n->in[0]), *out = ls_type_of(g, n->out[0]);
    const bool gather = n->op == &ls_op_all_gather, scatter = n->op == &ls_op_reduce_scatter;
    ls_plan_collective c = { .node = n->id, .from = in->dtype, .to = out->dtype };
    if (n->op == &ls_op_all_to_all) {
        describe_exchange(g, n, &c);
        return c;
    }
    if (gather) {
        const ls_gather_attrs *a = n->attrs;
        c.kind = LS_ALL_GATHER;
        c.group = a->group;
        c.unit = a->unit;
        c.is = a->is;
        c.n = (int)a->ranks;
        c.map = a->map;
        c.count = ls_type_count(in);
        c.via = out->dtype;
        /* (not an input: gradients change between two programs, when those of micro-batches are added) */
        const ls_node *from = ls_node_of(g, (ls_value){ .id = ls_planner_base(p, n->in[0].id, NULL) });
        c.settled = ls_is_source(from) && from->op != &ls_op_input;
    } else {
        const ls_reduce_attrs *a = n->attrs;
        c.kind = scatter                 ? LS_REDUCE_SCATTER
                 : a->how == LS_HOW_MAX  ? LS_ALL_REDUCE_MAX
                 : a->how == LS_HOW_WIDE ? LS_ALL_REDUCE_WIDE
                                         : LS_ALL_REDUCE;
        c.group = a->group;
        c.unit = a->unit;
        c.n = (int)a->ranks;
        c.count = ls_type_count(out);
        c.via = (ls_dtype)a->via;
    }
    /* comm.h says which type travels */
    const bool sums = c.kind == LS_REDUCE_SCATTER || c.kind == LS_ALL_REDUCE;
    const ls_dtype travels = sums                                                             ? c.via
                             : gather && ls_dtype_size(out->dtype) < ls_dtype_size(in->dtype) ? out->dtype
                                                                                              : in->dtype;
    c.bytes = ls_is_alias_gather(g, n) ? 0 : ls_collective_bytes(c.kind, c.n, c.count, travels);
    return c;
}
