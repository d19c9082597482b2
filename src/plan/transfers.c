/* transfers.c - counts the bytes that move between host memory and the memory of a device that has its
 * own. */
#include "describe.h"
#include "device/queue.h"
#include "graph/identity.h"
#include "linked.h"
#include "node.h"
#include "ops/rules.h"

static double bytes_of(const ls_plan *p, ls_value v)
{
    return (double)ls_type_bytes(ls_type_of(p->graph, v));
}

static bool same(const ls_alloc *a, ls_identity is, const char *name)
{
    return !ls_identity_order(a->is, a->name, is, name);
}

/* Whether programs pass the value to each other: one makes it, and one (perhaps the same) has it as input.
 * (Sources have memory that is not packed.) */
static bool stays(int n, ls_plan *const *plans, const ls_alloc *a)
{
    bool made = false, read = false;
    for (int i = 0; i < n; i++) {
        const ls_graph *g = plans[i]->graph;
        for (int k = 0; k < g->n_outputs; k++)
            made = made || same(a, g->outputs[k].is, g->outputs[k].name);
        for (int k = 0; k < plans[i]->n_unpacked && !read; k++) {
            const ls_node *of = g->nodes[g->vals[plans[i]->allocs[plans[i]->unpacked[k]].value].node];
            read = ls_is_source(of) && same(a, ls_source_is(of), ls_source_name(of));
        }
    }
    return made && read;
}

/* Inputs that the caller fills, and outputs that it reads. */
static void add_io(ls_transfers *t, int n, ls_plan *const *plans, const ls_plan *p, double runs)
{
    for (int i = 0; i < p->n_unpacked; i++) {
        const ls_alloc *a = &p->allocs[p->unpacked[i]];
        if (a->memory != LS_MEM_IO || a->host || stays(n, plans, a))
            continue;
        const bool input = ls_is_source(p->graph->nodes[p->graph->vals[a->value].node]);
        *(input ? &t->inputs : &t->outputs) += runs * (double)a->bytes;
    }
}

/* The start of a collective copies the operand to the window, and its wait copies the result to the device.
 * An all_to_all also copies its offsets. A send has the first of these copies, a receive the second. State is
 * in the window already: it is copied after the program that changes it. */
static void add_collectives(ls_transfers *t, const ls_plan *p, double runs)
{
    for (int i = 0; i < p->n_collectives; i++) {
        const ls_plan_collective *c = &p->collectives[i];
        const ls_node *n = p->graph->nodes[c->node];
        if (ls_goes_linked(p, c))
            continue;
        t->operands += c->sent || c->kind == LS_RECEIVE ? 0 : runs * bytes_of(p, n->in[0]);
        t->operands += c->kind == LS_ALL_TO_ALL ? runs * bytes_of(p, n->in[1]) : 0;
        t->results += c->kind == LS_SEND ? 0 : runs * bytes_of(p, n->out[0]);
    }
}

static bool writes(const ls_plan *p, const ls_alloc *a)
{
    for (int i = 0; i < p->n_steps; i++) {
        const ls_node *n = p->graph->nodes[p->steps[i].node];
        for (int k = 0; k < n->n_out; k++)
            if (&p->allocs[p->locations[n->out[k].id].alloc] == a)
                return true;
    }
    return false;
}

/* Whether other ranks read the state, in any of the programs. */
static bool is_shared(int n, ls_plan *const *plans, const ls_alloc *a)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < plans[i]->n_unpacked; k++) {
            const ls_alloc *b = &plans[i]->allocs[plans[i]->unpacked[k]];
            if (b->shared && b->memory == LS_MEM_STATE && same(a, b->is, b->name))
                return true;
        }
    return false;
}

static void add_states(ls_transfers *t, int n, ls_plan *const *plans, const ls_plan *p, double runs)
{
    for (int i = 0; i < p->n_unpacked; i++) {
        const ls_alloc *a = &p->allocs[p->unpacked[i]];
        if (a->memory == LS_MEM_STATE && !a->host && is_shared(n, plans, a) && writes(p, a))
            t->states += runs * (double)a->bytes;
    }
}

static void add_offload(ls_transfers *t, const ls_plan *p, double runs)
{
    for (int i = 0; i < p->n_steps; i++) {
        const ls_node *n = p->graph->nodes[p->steps[i].node];
        if (n->op == &ls_op_to_device && p->steps[i].part != LS_PART_WAIT)
            t->fetched += runs * bytes_of(p, n->out[0]);
        if (n->op == &ls_op_to_host && p->steps[i].part != LS_PART_WAIT)
            t->rested += runs * bytes_of(p, n->out[0]);
    }
}

void ls_plans_transfers(ls_transfers *out, int n, ls_plan *const *plans, const int64_t *runs)
{
    *out = (ls_transfers){ 0 };
    for (int i = 0; i < n; i++) {
        if (!ls_device_apart(&plans[i]->device))
            continue;
        const double times = (double)runs[i];
        add_io(out, n, plans, plans[i], times);
        add_collectives(out, plans[i], times);
        add_states(out, n, plans, plans[i], times);
        add_offload(out, plans[i], times);
    }
    out->to_device = out->inputs + out->results + out->fetched;
    out->to_host = out->outputs + out->operands + out->states + out->rested;
}
