/* units.c - replaces each parameter by a chain of ops on what this rank stores, which ends in a view of the
 * unit's flat buffer (docs/ranks.md). The gradient of the chain collects the gradients of a unit's parameters
 * in one flat buffer, and reduces it over the ranks. The types of precision are part of the same chain. */
#define LS_NO_CALL_SITES /* nodes made here keep the model's line */
#include "graph/identity.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

static bool is_float(const ls_rewrite *r, ls_value v)
{
    return ls_present(v) && ls_dtype_is_float(ls_value_type(r->to, v).dtype);
}

/* FSDP's MixedPrecisionPolicy(output_dtype=...): the model's logits get this type for all their readers:
 * loss, predictions, probabilities. These compute in f32 from logits of any type, so 16-bit logits need no
 * wider copy. */
ls_value ls_pass_output(ls_graph *g, ls_value logits, ls_dtype output)
{
    const ls_dtype is = ls_value_type(g, logits).dtype;
    return ls_dtype_is_float(is) && is != LS_F64 && ls_dtype_size(is) >= ls_dtype_size(output)
               ? ls_cast(g, logits, output)
               : logits;
}

static bool reads_logits(const ls_node *n)
{
    return n->op == &ls_op_cross_entropy || n->op == &ls_op_cross_entropy_part || n->op == &ls_op_argmax ||
           n->op == &ls_op_argmax_part;
}

/* Casts operands of different float types to the compute type. Scalars of the loss and running statistics
 * stay as they are. */
static void agree(ls_rewrite *r, const ls_node *n, ls_value *in, ls_dtype param, ls_dtype output)
{
    if (reads_logits(n)) {
        in[0] = ls_pass_output(r->to, in[0], output);
        return;
    }
    const int n_in = n->op == &ls_op_batch_norm_eval ? 3 : n->n_in;
    bool mixed = false;
    int first = -1;
    for (int k = 0; k < n_in; k++)
        if (is_float(r, in[k])) {
            first = first < 0 ? k : first;
            mixed |= ls_value_type(r->to, in[k]).dtype != ls_value_type(r->to, in[first]).dtype;
        }
    for (int k = 0; k < n_in && mixed; k++)
        if (is_float(r, in[k]))
            in[k] = ls_cast(r->to, in[k], param);
}

/* The chain from the unit's state to the buffer of which its parameters are views. */
static ls_value use(ls_graph *g, ls_units *u, int k, ls_dtype param, const ls_parallel *p)
{
    const ls_sharding *s = &u->sharding;
    ls_unit *unit = &u->units[k];
    const char *name = unit->state;
    const int64_t via = p ? (int64_t)(u->dtype == LS_F64 ? LS_F64 : p->reduce) : LS_F32;
    ls_value v = unit->use = ls_state_of(g, (ls_identity){ .what = LS_IS_UNIT, .unit = k }, name,
                                         LS_TYPE(unit->dtype, unit->slice), (ls_init){ 0 });
    ls_link links[LS_UNIT_LINKS];
    const int n = ls_unit_chain(links, &(ls_unit_use){ .unit = name,
                                                       .number = k,
                                                       .shard = s->shard,
                                                       .replicate = s->replicate,
                                                       .shards = s->shards,
                                                       .replicas = s->replicas,
                                                       .offload = s->offload,
                                                       .map = s->map,
                                                       .to = (int64_t)param,
                                                       .via = via });
    v = ls_chain_use(g, v, n, links);
    if (!s->each) /* without `each` the update program reduces gradients, with the gradient of this chain */
        unit->use = v;
    return s->shards == 1 ? ls_cast(g, v, param) : v;
}

ls_status ls_pass_units(ls_graph **gp, ls_dtype param, ls_dtype output, const ls_parallel *p,
                        const char *freeze, ls_units *u)
{
    const ls_graph *g = *gp;
    ls_status s = ls_units_lay_out(u, g, p, freeze, param);
    ls_rewrite r;
    if (s == LS_OK)
        s = ls_rewrite_begin(&r, g);
    if (s != LS_OK) {
        ls_units_release(u);
        return s;
    }
    if (u->dtype == LS_F64)
        param = LS_F64;
    ls_value *buffer = LS_ARENA_ARRAY(&r.to->arena, ls_value, u->n);
    int k = 0;
    for (int i = 0; i < g->n_nodes && r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        ls_rewrite_like(&r, n);
        if (n->op == &ls_op_param) {
            const ls_slot *slot = &u->slots[k++];
            if (!ls_present(buffer[slot->unit])) {
                /* in the root's scope, so that no block's recomputation repeats the gather */
                const ls_scope *scope = r.to->scope;
                r.to->scope = &r.to->root;
                buffer[slot->unit] = use(r.to, u, slot->unit, param, p);
                r.to->scope = scope;
            }
            r.map[n->out[0].id] = ls_flat_view(r.to, buffer[slot->unit], slot->offset, &slot->type);
            continue;
        }
        ls_value *in = LS_ARENA_ARRAY(&r.to->arena, ls_value, n->n_in + 1);
        for (int j = 0; j < n->n_in; j++)
            in[j] = ls_rewrite_value(&r, n->in[j]);
        agree(&r, n, in, param, output);
        ls_rewrite_copy_with(&r, n, in, n->attrs);
    }
    s = ls_rewrite_end(&r, gp);
    if (s != LS_OK)
        ls_units_release(u);
    return s;
}

ls_status ls_pass_to_float(ls_graph **gp, ls_dtype to)
{
    const ls_graph *g = *gp;
    ls_rewrite r;
    LS_TRY(ls_rewrite_begin(&r, g));
    for (int i = 0; i < g->n_nodes && r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        ls_value *in = LS_ARENA_ARRAY(&r.to->arena, ls_value, n->n_in + 1);
        for (int k = 0; k < n->n_in; k++)
            in[k] = ls_rewrite_value(&r, n->in[k]);
        union {
            ls_source_attrs source;
            ls_fill_attrs fill;
            ls_cast_attrs cast;
        } a;
        const void *attrs = n->attrs;
        if ((n->op->flags & LS_OP_SOURCE) && ((const ls_source_attrs *)attrs)->type.dtype == LS_F32) {
            a.source = *(const ls_source_attrs *)attrs;
            a.source.type.dtype = to;
            attrs = &a;
        } else if (n->op == &ls_op_fill && ((const ls_fill_attrs *)attrs)->type.dtype == LS_F32) {
            a.fill = *(const ls_fill_attrs *)attrs;
            a.fill.type.dtype = to;
            attrs = &a;
        } else if (n->op == &ls_op_cast && ((const ls_cast_attrs *)attrs)->to == LS_F32) {
            a.cast.to = to;
            attrs = &a;
        }
        ls_rewrite_copy_with(&r, n, in, attrs);
    }
    return ls_rewrite_end(&r, gp);
}
