/* spares.c - see spares.h. */
#include "spares.h"

#include "compile.h"
#include "graph/identity.h"
#include "ops/rules.h"
#include "plan/node.h"
#include "plan/strides.h"

enum { SCRATCH = 1 << 20 }; /* elements: the exchange goes through it piece by piece */

/* The source in whose memory output k of a node lies; NULL: it has memory of its own. */
static const ls_node *changed(const ls_graph *g, const ls_node *n, int k)
{
    if (!(n->op->flags & LS_OP_EFFECT) || !n->op->alias[k])
        return NULL;
    const ls_node *source = ls_node_of(g, n->in[n->op->alias[k] - 1]);
    while (ls_is_view(source))
        source = ls_node_of(g, source->in[0]);
    return ls_is_source(source) ? source : NULL;
}

static ls_status list_changed(ls_spares *s, ls_arena *a, const ls_graph *g)
{
    bool *listed = LS_ARENA_ARRAY(a, bool, g->n_nodes + 1);
    LS_TRY(ls_arena_status(a));
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_out; k++) {
            const ls_node *source = changed(g, g->nodes[i], k);
            if (!source || listed[source->id])
                continue;
            listed[source->id] = true;
            s->changed[s->n_undo++] = source;
        }
    return LS_OK;
}

/* Adds the loss scale of f16 and the number of steps since it was lowered: `update` lowers the scale after
 * every bad step, but a loss that is not finite is not a reason to lower it. */
static void list_scale(ls_spares *s, const ls_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (n->op == &ls_op_state &&
            (ls_source_is(n).what == LS_IS_LOSS_SCALE || ls_source_is(n).what == LS_IS_GOOD_STEPS))
            s->changed[s->n_undo++] = n;
    }
}

static ls_status list_undo(ls_spares *s, ls_arena *a, const ls_graph *micro, const ls_graph *update)
{
    s->changed = LS_ARENA_ARRAY(a, const ls_node *, micro->n_nodes + update->n_nodes + 1);
    LS_TRY(ls_arena_status(a));
    LS_TRY(list_changed(s, a, micro));
    s->n_undo_micro = s->n_undo;
    list_scale(s, update);
    return LS_OK;
}

/* Adds a spare. Returns its bytes, as a session counts them. */
static size_t spares_add(ls_spares *s, ls_type type, bool on_host)
{
    s->on_host[s->n] = on_host;
    s->types[s->n++] = type;
    return ls_align_up(ls_type_bytes(&type));
}

ls_status ls_spares_list(ls_spares *out, ls_arena *a, const ls_compiled *c)
{
    const ls_plan *micro = c->plans[LS_MICRO], *update = c->plans[LS_UPDATE];
    const ls_units *u = &c->units;
    *out = (ls_spares){ .levels = micro ? c->tree_buffers : 0, .scratch = -1 };
    if (micro)
        LS_TRY(list_undo(out, a, micro->graph, update->graph));
    const int most = out->levels * u->trained + out->n_undo + 1;
    const bool host = ls_updates_on_host(c);
    out->types = LS_ARENA_ARRAY(a, ls_type, most);
    out->on_host = LS_ARENA_ARRAY(a, bool, most);
    LS_TRY(ls_arena_status(a));
    for (int i = 0; i < u->trained; i++) /* of slices, or of whole units if `update` reduces them */
        for (int k = 0; k < out->levels; k++)
            out->level_bytes += spares_add(
                out, LS_TYPE(u->dtype, u->sharding.each ? u->units[i].slice : u->units[i].elements), host);
    out->undo = out->n;
    for (int k = 0; k < out->n_undo; k++) {
        const ls_graph *g = k < out->n_undo_micro ? micro->graph : update->graph;
        out->undo_bytes += spares_add(out, *ls_type_of(g, out->changed[k]->out[0]), false);
    }
    if (c->averaging) {
        out->scratch = out->n;
        out->scratch_bytes = spares_add(out, LS_TYPE(LS_F32, SCRATCH), host);
    }
    return LS_OK;
}
