/* cost.c - FLOPs, bytes and seconds of each step. Bytes are the least that must be moved: each operand once,
 * except what is in place already. Seconds follow from the machine's calibration: the longer of arithmetic
 * and moving, plus the cost of a call. A collective's time is counted in its wait, at the speed of memory:
 * what a rank reads of other ranks' windows is not in its caches. */

#include "internal.h"
#include "ops/rules.h"

static bool same_place(const ls_plan *p, const ls_node *pack, int j)
{
    const ls_pack_attrs *a = pack->attrs;
    const ls_location *out = &p->locations[pack->out[0].id], *part = &p->locations[pack->in[j].id];
    const size_t size = ls_dtype_size(ls_type_of(p->graph, pack->out[0])->dtype);
    return part->alloc == out->alloc &&
           part->offset == out->offset + (size_t)(a->starts.v[j] * out->strides[a->dim]) * size;
}

static ls_cost cost_of(const ls_plan *p, const ls_node *n, ls_type *types)
{
    const ls_graph *g = p->graph;
    ls_cost c = { 0 };
    for (int j = 0; j < n->n_in; j++) {
        types[j] = *ls_type_of(g, n->in[j]);
        c.bytes += ls_present(n->in[j]) ? (double)ls_type_bytes(&types[j]) : 0;
    }
    ls_infer i = { .op = n->op, .n_in = n->n_in, .in = types, .attrs = n->attrs, .n_out = n->n_out };
    for (int k = 0; k < n->n_out; k++) {
        i.out[k] = *ls_type_of(g, n->out[k]);
        c.bytes += (double)ls_type_bytes(&i.out[k]);
    }
    if (n->op == &ls_op_pack) {
        for (int j = 0; j < n->n_in; j++)
            if (same_place(p, n, j))
                c.bytes -= 2.0 * (double)ls_type_bytes(&types[j]);
        return c;
    }
    return n->op->cost ? n->op->cost(&i) : c;
}

/* Bytes that one rank of a machine reads and writes. An all_reduce has two halves: each rank sums a part, and
 * then copies the others' parts. */
static double collective_traffic(const ls_plan_collective *c)
{
    const double count = (double)c->count, n = c->n, from = count * (double)ls_dtype_size(c->from),
                 to = count * (double)ls_dtype_size(c->to);
    if (c->kind == LS_ALL_GATHER)
        return c->map ? (c->from == c->to ? 0 : from + to)
                      : n * (from + to); /* a mapping: this rank's slice is converted, or nothing is moved */
    return c->kind == LS_REDUCE_SCATTER ? n * from + to : from + to / n + 2 * to;
}

static void collective_cost(ls_plan *p, ls_step *s, const ls_calibration *c)
{
    ls_plan_collective *x = &p->collectives[s->collective];
    s->cost = (ls_cost){ .bytes = s->part == LS_PART_WAIT ? collective_traffic(x) : 0 };
    s->seconds = c ? s->cost.bytes / c->bytes_memory + c->op_overhead : 0;
    x->seconds += s->seconds;
}

static void kernel_cost(ls_plan *p, ls_step *s, ls_type *types, const ls_calibration *c)
{
    const double cached = 1 << 20; /* a size that fits into L2 of nearly all processors */
    s->cost = cost_of(p, p->graph->nodes[s->node], types);
    if (c) {
        const double arithmetic = s->cost.flops / (c->flops * c->gemm_efficiency);
        const double traffic = s->cost.bytes / (s->cost.bytes <= cached ? c->bytes_cache : c->bytes_memory);
        s->seconds = (arithmetic > traffic ? arithmetic : traffic) + c->op_overhead;
    }
}

ls_status ls_planner_cost(ls_plan *p, const ls_calibration *c)
{
    int most = 1;
    for (int i = 0; i < p->n_steps; i++)
        most = p->graph->nodes[p->steps[i].node]->n_in > most ? p->graph->nodes[p->steps[i].node]->n_in
                                                              : most;
    ls_arena scratch;
    ls_arena_init(&scratch);
    ls_type *types = LS_ARENA_ARRAY(&scratch, ls_type, most);
    LS_TRY(ls_arena_status(&scratch));
    for (int i = 0; i < p->n_steps; i++) {
        ls_step *s = &p->steps[i];
        if (s->part == LS_PART_RUN)
            kernel_cost(p, s, types, c);
        else
            collective_cost(p, s, c);
        p->flops += s->cost.flops;
        p->bytes += s->cost.bytes;
        p->seconds += s->seconds;
    }
    ls_arena_release(&scratch);
    return LS_OK;
}
