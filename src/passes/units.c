/* units.c - replaces each parameter by a chain of ops. The chain begins with the local shards that this rank
 * stores, and ends in a view of the unit's flat buffer (docs/ranks.md). The gradient of the chain collects
 * the gradients of a unit's parameters in one flat buffer, and reduces it over the ranks. The types of this
 * chain, and the casts after it, are those of the precision policies (precision.h). */
#define LS_NO_CALL_SITES /* nodes made here keep the model's line */
#include "base/nf4.h"
#include "graph/identity.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

/* The chain from the unit's state to the buffer of which its parameters are views. */
static ls_value use(ls_graph *g, ls_units *u, int k)
{
    const ls_sharding *s = &u->sharding;
    ls_unit *unit = &u->units[k];
    const char *name = unit->state;
    const ls_identity is = { .what = unit->weights ? LS_IS_WEIGHTS : LS_IS_UNIT, .unit = k };
    const ls_type type = LS_TYPE(unit->weights ? unit->param : unit->dtype, unit->slice);
    ls_value v = unit->use = ls_state_of(g, is, name, type, (ls_init){ 0 });
    ls_chain_link links[LS_UNIT_LINKS];
    const int n = ls_unit_chain(links, &(ls_unit_use){ .unit = name,
                                                       .number = k,
                                                       .shard = s->shard,
                                                       .replicate = s->replicate,
                                                       .shards = s->shards,
                                                       .replicas = s->replicas,
                                                       .offload = s->offload,
                                                       .map = s->map,
                                                       .to = (int64_t)unit->param,
                                                       .via = (int64_t)unit->reduce });
    v = ls_chain_use(g, v, n, links);
    if (!s->each) /* without `each` the update program reduces gradients, with the gradient of this chain */
        unit->use = v;
    return s->shards == 1 ? ls_cast(g, v, unit->param) : v;
}

ls_status ls_pass_units(ls_graph **gp, const ls_precision *precision, const ls_parallel *p,
                        const ls_trained *what, ls_units *u)
{
    const ls_graph *g = *gp;
    ls_status s = ls_units_lay_out(u, g, p, what, precision);
    ls_rewrite r;
    if (s == LS_OK)
        s = ls_rewrite_begin(&r, g);
    if (s != LS_OK) {
        ls_units_release(u);
        return s;
    }
    ls_casts casts = ls_casts_begin(&r, &u->policies);
    ls_value *buffer = LS_ARENA_ARRAY(&r.to->arena, ls_value, u->n);
    /* of which parameter a value is a view, counted from 1; 0: of none */
    int *slot_of = LS_ARENA_ARRAY(&r.to->arena, int, g->n_vals);
    ls_graph_room(r.to);
    int k = 0;
    for (int i = 0; i < g->n_nodes && r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        ls_rewrite_like(&r, n);
        if (n->op == &ls_op_param) {
            const ls_slot *slot = &u->slots[k++];
            slot_of[n->out[0].id] = k;
            if (!ls_present(buffer[slot->unit])) {
                /* in the root's scope, so that no block's recomputation repeats the gather */
                const ls_scope *scope = r.to->scope;
                r.to->scope = &r.to->root;
                buffer[slot->unit] = use(r.to, u, slot->unit);
                r.to->scope = scope;
            }
            r.map[n->out[0].id] = ls_flat_view(r.to, buffer[slot->unit], slot->offset, &slot->type);
            continue;
        }
        ls_value *in = ls_rewrite_operands(&r, n);
        if (!in)
            break;
        ls_casts_operands(&casts, &r, n, in);
        const ls_cast_attrs to = { (int64_t)ls_policy_of(&u->policies, n->scope)->param };
        const int slot = (n->op->flags & LS_OP_VIEW) ? slot_of[n->in[0].id] : 0;
        if (slot)
            slot_of[n->out[0].id] = slot;
        const bool fork = n->op == &ls_op_fork && ((const ls_fork_attrs *)n->attrs)->to == LS_TO_REDUCE;
        const ls_fork_attrs reduce = { fork ? (int64_t)u->units[u->slots[slot - 1].unit].reduce : 0 };
        const void *attrs = fork ? &reduce : n->op == &ls_op_dequantize ? (const void *)&to : n->attrs;
        ls_rewrite_copy_with(&r, n, in, attrs);
    }
    if ((s = ls_casts_status(&casts)) == LS_OK)
        s = ls_rewrite_end(&r, gp);
    else
        ls_rewrite_abort(&r);
    if (s != LS_OK)
        ls_units_release(u);
    return s;
}

ls_status ls_pass_precision(ls_graph **gp, const ls_precision *p)
{
    const ls_graph *g = *gp;
    ls_rewrite r;
    ls_policies policies;
    LS_TRY(ls_rewrite_begin(&r, g));
    const ls_status made = ls_policies_make(&policies, &r.to->arena, g, p);
    if (made != LS_OK) {
        ls_rewrite_abort(&r);
        return made;
    }
    ls_casts casts = ls_casts_begin(&r, &policies);
    ls_graph_room(r.to);
    for (int i = 0; i < g->n_nodes && r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        ls_value *in = ls_rewrite_operands(&r, n);
        if (!in)
            break;
        union {
            ls_source_attrs source;
            ls_fill_attrs fill;
            ls_cast_attrs cast;
        } a;
        const void *attrs = n->attrs;
        const ls_dtype param = ls_policy_of(&policies, n->scope)->param,
                       to = n->scope->wide && param != LS_F64 ? LS_F32 : param;
        ls_rewrite_like(&r, n);
        ls_casts_operands(&casts, &r, n, in);
        if ((n->op->flags & LS_OP_SOURCE) && ((const ls_source_attrs *)attrs)->type.dtype == LS_F32 &&
            !(n->op == &ls_op_param && ls_nf4_part(((const ls_source_attrs *)attrs)->name))) {
            a.source = *(const ls_source_attrs *)attrs;
            a.source.type.dtype = to;
            attrs = &a;
        } else if (n->op == &ls_op_fill && ((const ls_fill_attrs *)attrs)->type.dtype == LS_F32) {
            a.fill = *(const ls_fill_attrs *)attrs;
            a.fill.type.dtype = to;
            attrs = &a;
        } else if (n->op == &ls_op_dequantize) {
            a.cast.to = param;
            attrs = &a;
        } else if (n->op == &ls_op_cast && ((const ls_cast_attrs *)attrs)->to == LS_F32) {
            a.cast.to = to;
            attrs = &a;
        }
        ls_rewrite_copy_with(&r, n, in, attrs);
    }
    const ls_status s = ls_casts_status(&casts);
    if (s == LS_OK)
        return ls_rewrite_end(&r, gp);
    ls_rewrite_abort(&r);
    return s;
}

ls_status ls_pass_to_float(ls_graph **g, ls_dtype to)
{
    return ls_pass_precision(g, &(ls_precision){ LS_PRECISION_DEFAULTS, .param = to, .output = to });
}
