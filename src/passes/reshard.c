/* reshard.c - reshard_after_forward: gathers a unit a second time, before its first reader in the backward
 * pass, which then reads this second copy. With a number N the forward pass keeps this rank's 1/N slice of
 * the gathered buffer, and the second gather is over blocks of N neighbouring ranks, such as those of one
 * machine (ZeRO++'s hpZ; FSDP2's reshard_after_forward=int). */
#define LS_NO_CALL_SITES
#include <stdio.h>
#include <string.h>

#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

typedef struct state {
    ls_rewrite r;
    const ls_parallel *p;
    const ls_units *units;
    int64_t n;      /* see ls_parallel_reshards */
    bool *shared;   /* [old nodes], for gathers: nodes of another stage read their results, too */
    ls_value *kept; /* [old values], for results of forward gathers: the slice that is kept; {0}: none */
    /* [old values], for results of gathers and views of them: the value for the backward pass */
    ls_value *again;
} state;

static const ls_node *gather_under(const ls_graph *g, ls_value v)
{
    while (ls_present(v)) {
        const ls_node *n = ls_node_of(g, v);
        if (n->op == &ls_op_all_gather)
            return n;
        if (!(n->op->flags & LS_OP_VIEW))
            return NULL;
        v = n->in[0];
    }
    return NULL;
}

static void find_shared(const state *t)
{
    const ls_graph *g = t->r.from;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            const ls_node *gather = gather_under(g, g->nodes[i]->in[k]);
            if (gather && gather->stage != g->nodes[i]->stage)
                t->shared[gather->id] = true;
        }
}

/* Whether a gather's result is freed after the forward pass. The root is kept, because the backward pass
 * needs it at once; mappings are kept, because they are not copies; and what other stages have been sent. */
static bool dropped(const state *t, const ls_node *gather)
{
    const ls_gather_attrs *a = gather->attrs;
    return gather->phase == LS_PHASE_FORWARD && !a->map && !t->shared[gather->id] &&
           !(a->is.what == LS_IS_UNIT && t->units->units[a->is.unit].root);
}

/* Only units keep a slice. Activations that an axis of the model gathers (passes/propagate.c) have this
 * rank's slice as operand. Of experts, fewer ranks may have slices. */
static bool keeps_slice(const state *t, const ls_node *gather)
{
    const ls_gather_attrs *a = gather->attrs;
    return t->n > 1 && a->is.what == LS_IS_UNIT && a->ranks > t->n && a->ranks % t->n == 0;
}

static void block_group(const state *t, const ls_gather_attrs *of, ls_gather_attrs *out, char name[64])
{
    *out = *of;
    out->ranks = t->n;
    snprintf(name, 64, "%s/%lld", of->group, (long long)out->ranks);
    out->group = name;
}

static void keep_slice(state *t, const ls_node *gather)
{
    ls_graph *g = t->r.to;
    const ls_gather_attrs *a = gather->attrs;
    ls_gather_attrs block;
    char name[64];
    block_group(t, a, &block, name);
    const int position = ls_mesh_position(&t->p->mesh, t->p->rank, name);
    ls_value whole = t->r.map[gather->out[0].id];
    ls_type slice = ls_value_type(g, whole);
    slice.dims[0] /= block.ranks;
    ls_value part = ls_flat_view(g, whole, position * slice.dims[0], &slice);
    t->kept[gather->out[0].id] = ls_graph_apply(g, &ls_op_copy, 1, &part, NULL);
}

/* The backward pass's twin of v: a gather, or a view of one. */
static ls_value twin(state *t, ls_value v)
{
    if (t->again[v.id].id)
        return t->again[v.id];
    ls_graph *g = t->r.to;
    const ls_node *n = ls_node_of(t->r.from, v);
    const bool view = n->op != &ls_op_all_gather;
    ls_gather_attrs block;
    char name[64];
    const void *attrs = n->attrs;
    ls_value in = view ? twin(t, n->in[0]) : ls_rewrite_value(&t->r, n->in[0]);
    ls_rewrite_like(&t->r, n);
    g->phase = LS_PHASE_BACKWARD;
    if (!view && ls_present(t->kept[v.id])) {
        block_group(t, n->attrs, &block, name);
        attrs = &block;
        in = t->kept[v.id];
    } else if (!view && ls_node_of(t->r.from, n->in[0])->op == &ls_op_to_device) {
        /* offload: the slice is copied from host memory again, too */
        ls_value slice = ls_rewrite_value(&t->r, ls_node_of(t->r.from, n->in[0])->in[0]);
        ls_node *copy = ls_graph_add(g, &ls_op_to_device, 1, &slice, NULL);
        if (!copy)
            return (ls_value){ .id = -1 };
        copy->clone_of = ls_node_of(g, ls_rewrite_value(&t->r, n->in[0]))->id;
        in = copy->out[0];
    }
    ls_node *copy = ls_graph_add(g, n->op, 1, &in, attrs);
    if (!copy)
        return (ls_value){ .id = -1 };
    copy->clone_of = ls_node_of(g, t->r.map[v.id])->id;
    return t->again[v.id] = copy->out[0];
}

ls_status ls_pass_reshard(ls_graph **gp, const ls_parallel *p, const ls_units *units)
{
    const ls_graph *g = *gp;
    state t = { .p = p, .units = units, .n = p ? ls_parallel_reshards(p) : 0 };
    if (t.n == 0)
        return LS_OK;
    LS_TRY(ls_rewrite_begin(&t.r, g));
    t.kept = LS_ARENA_ARRAY(&t.r.to->arena, ls_value, g->n_vals);
    t.again = LS_ARENA_ARRAY(&t.r.to->arena, ls_value, g->n_vals);
    t.shared = LS_ARENA_ARRAY(&t.r.to->arena, bool, g->n_nodes + 1);
    if (ls_graph_room(t.r.to))
        find_shared(&t);
    for (int i = 0; i < g->n_nodes && t.r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        ls_value *in = ls_rewrite_operands(&t.r, n);
        for (int k = 0; in && k < n->n_in; k++) {
            const ls_node *gather = n->phase == LS_PHASE_BACKWARD ? gather_under(g, n->in[k]) : NULL;
            in[k] = gather && dropped(&t, gather) ? twin(&t, n->in[k]) : in[k];
        }
        if (!in || !ls_rewrite_copy_with(&t.r, n, in, n->attrs))
            break;
        if (n->op == &ls_op_all_gather && dropped(&t, n) && keeps_slice(&t, n))
            keep_slice(&t, n);
    }
    return ls_rewrite_end(&t.r, gp);
}
