/* propagate_tokens.c - sharding propagation over an axis of role context: the ranks have the same samples and
 * a block of their tokens each. Inputs [batch, tokens] are split, and what is computed of them is split in
 * the same loop. Operands that a rule marks with & are gathered, as keys and values of attention. Parameters
 * are Replicate: the chains of their units sum gradients over the axis (passes/layout.c). So a value that
 * depends on parameters only is Replicate too, and what is summed over tokens is Invariant.
 *
 * A reshape [b, t, f] -> [b * t, f] leaves a dimension of b parts, of which each rank has a block
 * (ls_spot.parts).
 */
#define LS_NO_CALL_SITES /* new nodes keep the call site of the model's line */
#include "base/check.h"
#include "base/field.h"
#include "graph/identity.h"
#include "ops/rules.h"
#include "propagate_own.h"

static const ls_placement INVARIANT = { LS_INVARIANT, 0, 0 }, REPLICATE = { LS_REPLICATE, 0, 0 };

static ls_status mixes(const ls_propagation *pr, const ls_node *n)
{
    char site[LS_SITE_SIZE];
    return ls_fail_field(
        LS_E_UNSUPPORTED, "mesh",
        "axis %s splits the tokens of a sample, and %s in %s mixes them%s: give its ranks to "
        "another axis",
        pr->axis.name, n->op->name, n->scope->path[0] ? n->scope->path : "the root",
        ls_site_after(site, n->file, n->line));
}

/* ---- placements */

/* The type with dimension `dim` as two: the parts, and the elements of each. */
static ls_type apart(const ls_type *t, int dim, int64_t parts)
{
    ls_type r = *t;
    for (int d = r.ndim++; d > dim; d--)
        r.dims[d] = r.dims[d - 1];
    r.dims[dim] = parts;
    r.dims[dim + 1] /= parts;
    return r;
}

static ls_value shaped(ls_graph *g, ls_value v, const ls_type *t)
{
    return ls_reshape_dims(g, v, t->ndim, t->dims);
}

/* Between Shard(dim), in blocks of each part, and Replicate. */
static ls_value tokens_move(ls_propagation *pr, ls_value v, const ls_type *whole, int dim, int64_t parts,
                            bool gather, const char *unit)
{
    ls_graph *g = pr->r.to;
    ls_type t = apart(whole, dim, parts), mine = *whole, part;
    if (parts == 1)
        return ls_redistribute(g, v, whole, gather ? LS_SHARDED(dim) : REPLICATE,
                               gather ? REPLICATE : LS_SHARDED(dim), &pr->axis, unit);
    mine.dims[dim] /= pr->axis.ranks;
    part = apart(&mine, dim, parts);
    v = shaped(g, v, gather ? &part : &t);
    v = ls_redistribute(g, v, &t, gather ? LS_SHARDED(dim + 1) : REPLICATE,
                        gather ? REPLICATE : LS_SHARDED(dim + 1), &pr->axis, unit);
    return shaped(g, v, gather ? whole : &mine);
}

/* The whole value on every rank, each of which uses a part of it. */
static ls_value whole_of(ls_propagation *pr, ls_value old)
{
    ls_value *copy = &pr->replicate[old.id];
    const ls_spot *s = &pr->at[old.id];
    const ls_value v = ls_rewrite_value(&pr->r, old);
    const ls_scope *maker = ls_node_of(pr->r.from, old)->scope;
    const char *unit = maker->path[0] ? maker->path : ls_node_of(pr->r.from, old)->op->name;
    if (ls_present(*copy))
        return *copy;
    if (s->p.kind == LS_SHARD)
        *copy = tokens_move(pr, v, ls_prop_whole(pr, old), s->p.dim, ls_prop_parts(pr, old), true, unit);
    else
        *copy = ls_prop_float(pr, old)
                    ? ls_redistribute(pr->r.to, v, ls_prop_whole(pr, old), s->p, REPLICATE, &pr->axis, unit)
                    : v;
    return *copy;
}

static ls_status not_divided(const ls_propagation *pr, const char *what, int64_t tokens)
{
    return ls_fail_field(LS_E_USAGE, "mesh",
                         "%s has %lld tokens, which the %d ranks of axis %s do not divide", what,
                         (long long)tokens, pr->axis.ranks, pr->axis.name);
}

/* ---- nodes */

/* An input [batch, tokens] of whole numbers. Every rank reads all of it and slices its tokens out. */
static bool has_tokens(const ls_node *n)
{
    const ls_source_attrs *a = n->attrs;
    return n->op == &ls_op_input && ls_source_is(n).what == LS_IS_NAMED && a->type.dtype == LS_I32 &&
           a->type.ndim == 2;
}

ls_status ls_prop_check_tokens(const ls_propagation *pr)
{
    for (int i = 0; i < pr->r.from->n_nodes; i++)
        if (has_tokens(pr->r.from->nodes[i]))
            return LS_OK;
    return ls_fail_field(
        LS_E_USAGE, "mesh",
        "axis %s splits the tokens of a sample, and the model has no input [batch, tokens] of "
        "whole numbers (i32): give its %d ranks to another axis",
        pr->axis.name, pr->axis.ranks);
}

static ls_status tokens_of(ls_propagation *pr, const ls_node *n)
{
    const ls_source_attrs *a = n->attrs;
    const ls_value v = n->out[0];
    ls_rewrite_copy(&pr->r, n);
    if (a->type.dims[1] % pr->axis.ranks)
        return not_divided(pr, a->name, a->type.dims[1]);
    pr->replicate[v.id] = pr->r.map[v.id];
    pr->r.map[v.id] = tokens_move(pr, pr->r.map[v.id], &a->type, 1, 1, false, "");
    pr->at[v.id] = (ls_spot){ .p = LS_SHARDED(1) };
    return LS_OK;
}

/* No operand is split. What follows from Replicate is Replicate. */
static void unsplit(ls_propagation *pr, const ls_node *n)
{
    bool replicates = false;
    for (int k = 0; k < n->n_in; k++)
        replicates = replicates || (ls_present(n->in[k]) && pr->at[n->in[k].id].p.kind == LS_REPLICATE);
    ls_value *in = ls_rewrite_operands(&pr->r, n);
    for (int k = 0; in && replicates && k < n->n_in; k++)
        in[k] = ls_present(n->in[k]) ? whole_of(pr, n->in[k]) : LS_NONE;
    if (in)
        ls_rewrite_copy_with(&pr->r, n, in, n->attrs);
    for (int k = 0; replicates && k < n->n_out; k++)
        if (ls_prop_float(pr, n->out[k]))
            pr->at[n->out[k].id].p = REPLICATE;
}

static int64_t product(const ls_type *t, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= t->dims[d];
    return n;
}

/* Finds the dimension of the result, and its parts, in which the tokens of the operand lie after the reshape.
 */
static ls_status reshape(ls_propagation *pr, const ls_node *n)
{
    const ls_type *a = ls_prop_whole(pr, n->in[0]), *b = ls_prop_whole(pr, n->out[0]);
    const int dim = pr->at[n->in[0].id].p.dim;
    const int64_t parts = ls_prop_parts(pr, n->in[0]), outer = product(a, 0, dim) * parts,
                  size = a->dims[dim] / parts, inner = product(a, dim + 1, a->ndim);
    for (int e = 0; e < b->ndim; e++) {
        const int64_t before = product(b, 0, e), after = product(b, e + 1, b->ndim);
        /* the dimension has some of the outer parts, the tokens, and some of what is inside a token */
        const bool joins = outer % before == 0 && inner % after == 0 &&
                           b->dims[e] == outer / before * size * (inner / after);
        /* or it has the outermost of the tokens' dimensions */
        const bool begins = outer == before && b->dims[e] > 1 && size % b->dims[e] == 0 &&
                            b->dims[e] % pr->axis.ranks == 0;
        if (!joins && !begins)
            continue;
        ls_type mine = *b;
        mine.dims[e] /= pr->axis.ranks;
        pr->r.map[n->out[0].id] = shaped(pr->r.to, ls_rewrite_value(&pr->r, n->in[0]), &mine);
        pr->at[n->out[0].id] = (ls_spot){ .p = LS_SHARDED(e), .parts = joins ? outer / before : 1 };
        return LS_OK;
    }
    return mixes(pr, n);
}

/* Finds the loop that is split. Operands with the tokens in another loop, or in one that must not be split,
 * are gathered: those with & and numbers without a gradient. */
static ls_status tokens_choose(ls_propagation *pr, ls_node_split *s, uint32_t *gathered)
{
    const ls_node *n = s->n;
    s->by = -1;
    *gathered = 0;
    for (int k = 0; k < n->n_in; k++) {
        if (!ls_prop_split(pr, n->in[k]))
            continue;
        const int loop = ls_rule_in(&s->rule, k, pr->at[n->in[k].id].p.dim);
        if (loop >= 0 && !s->rule.loop[loop].fixed && (s->by < 0 || loop == s->loop)) {
            s->loop = loop;
            s->by = s->by < 0 ? k : s->by;
        } else if (!(s->rule.gather >> ls_rule_operand(k) & 1) && ls_prop_float(pr, n->in[k])) {
            return mixes(pr, n);
        } else {
            *gathered |= 1u << k;
        }
    }
    return LS_OK;
}

/* Whole numbers that are computed of gathered ones: each rank takes its tokens of the result again. */
static void take_back(ls_propagation *pr, const ls_node_split *s)
{
    const ls_node *n = s->n;
    for (int k = 0; k < n->n_in; k++) {
        const int loop = ls_prop_split(pr, n->in[k]) ? ls_rule_in(&s->rule, k, pr->at[n->in[k].id].p.dim)
                                                     : -1;
        for (int o = 0; o < n->n_out && loop >= 0; o++) {
            const int dim = ls_rule_out_dim(&s->rule, &s->types.infer, o, loop);
            const ls_value v = n->out[o];
            if (dim < 0 || ls_prop_float(pr, v) || ls_prop_split(pr, v))
                continue;
            pr->replicate[v.id] = pr->r.map[v.id];
            pr->at[v.id] = (ls_spot){ .p = LS_SHARDED(dim), .parts = pr->at[n->in[k].id].parts };
            pr->r.map[v.id] = tokens_move(pr, pr->r.map[v.id], ls_prop_whole(pr, v), dim,
                                          ls_prop_parts(pr, v), false, "");
        }
    }
}

/* Makes s->in[k] for ranks that each compute a block of loop s->loop. */
static ls_status tokens_operand(ls_propagation *pr, ls_node_split *s, int k, bool gathered)
{
    const ls_value old = s->n->in[k];
    const int dim = ls_rule_in_dim(&s->rule, &s->types.infer, k, s->loop);
    const int64_t parts = ls_prop_parts(pr, s->n->in[s->by]);
    const ls_type *whole = ls_prop_whole(pr, old);
    if (ls_prop_split(pr, old) && !gathered) {
        s->in[k] = ls_rewrite_value(&pr->r, old);
        return ls_prop_parts(pr, old) == parts ? LS_OK : mixes(pr, s->n);
    }
    s->in[k] = whole_of(pr, old);
    if (dim < 0)
        return LS_OK;
    if (whole->dims[dim] % (parts * pr->axis.ranks))
        return not_divided(pr, s->n->op->name, whole->dims[dim]);
    s->in[k] = tokens_move(pr, s->in[k], whole, dim, parts, false, "");
    return LS_OK;
}

/* The box of the operand with @. Blocks of several parts are no box, so only a kernel that does not ask where
 * they begin can have them. */
static ls_status locate_tokens(ls_propagation *pr, const ls_node_split *s)
{
    const int at = s->rule.at, dim = at < 0 ? -1 : ls_rule_in_dim(&s->rule, &s->types.infer, at, s->loop);
    const bool in_parts = ls_prop_parts(pr, s->n->in[s->by]) > 1;
    if (dim < 0 || (in_parts && s->rule.loop[s->loop].anywhere && !s->n->at))
        return LS_OK;
    if (in_parts && !s->rule.loop[s->loop].anywhere)
        return mixes(pr, s->n);
    ls_box *box = LS_ARENA_NEW(&pr->r.to->arena, ls_box);
    if (!box)
        return LS_OK; /* the graph says so */
    *box = s->n->at ? *s->n->at : ls_box_of(&s->types.in[at]);
    if (in_parts)
        box->whole[dim] = box->size[dim] = s->types.in[at].dims[dim] / pr->axis.ranks;
    else
        LS_CHECK(ls_box_split(box, dim, pr->axis.ranks, pr->axis.position),
                 "the ranks do not divide the block");
    box->start[dim] = in_parts ? 0 : box->start[dim];
    pr->r.to->at = box;
    return LS_OK;
}

static ls_status split(ls_propagation *pr, ls_node_split *s, uint32_t gathered)
{
    const ls_node *n = s->n;
    const int64_t parts = ls_prop_parts(pr, n->in[s->by]);
    void *attrs;
    if (s->rule.loop[s->loop].join)
        return mixes(pr, n);
    for (int k = 0; k < n->n_in; k++) {
        s->in[k] = LS_NONE;
        if (ls_present(n->in[k]))
            LS_TRY(tokens_operand(pr, s, k, gathered >> k & 1));
    }
    if (!ls_placed_attrs(&attrs, &pr->r.to->arena, &s->types,
                         ls_rule_out_dim(&s->rule, &s->types.infer, 0, s->loop), &pr->axis))
        return mixes(pr, n);
    LS_TRY(locate_tokens(pr, s));
    const ls_node *made = ls_graph_add(pr->r.to, n->op, n->n_in, s->in, attrs);
    for (int k = 0; made && k < n->n_out; k++) {
        const ls_value old = n->out[k];
        const int dim = ls_rule_out_dim(&s->rule, &s->types.infer, k, s->loop);
        pr->r.map[old.id] = made->out[k];
        if (dim >= 0) {
            pr->at[old.id] = (ls_spot){ .p = LS_SHARDED(dim), .parts = parts };
            continue;
        }
        if (!ls_prop_float(pr, old) || s->rule.added)
            return mixes(pr, n);
        pr->r.map[old.id] = ls_redistribute(pr->r.to, made->out[k], ls_prop_whole(pr, old),
                                            (ls_placement){ LS_PARTIAL, 0, 0 }, INVARIANT, &pr->axis,
                                            n->scope->path[0] ? n->scope->path : n->op->name);
    }
    return LS_OK;
}

ls_status ls_prop_tokens(ls_propagation *pr, const ls_node *n)
{
    ls_node_split s = { .n = n };
    uint32_t gathered;
    bool any = false;
    ls_rewrite_like(&pr->r, n);
    for (int k = 0; k < n->n_in; k++)
        any = any || ls_prop_split(pr, n->in[k]);
    if (has_tokens(n))
        LS_TRY(tokens_of(pr, n));
    else if (!any)
        unsplit(pr, n);
    else if (n->op == &ls_op_reshape)
        LS_TRY(reshape(pr, n));
    else {
        s.in = LS_ARENA_ARRAY(&pr->r.to->arena, ls_value, n->n_in);
        LS_TRY(ls_arena_status(&pr->r.to->arena));
        LS_TRY(ls_placed_node_of(&s.types, pr->r.from, n));
        LS_TRY(ls_rule_of(&s.rule, &s.types.infer));
        LS_TRY(tokens_choose(pr, &s, &gathered));
        if (s.by < 0) {
            for (int k = 0; k < n->n_in; k++)
                s.in[k] = ls_present(n->in[k]) ? whole_of(pr, n->in[k]) : LS_NONE;
            ls_rewrite_copy_with(&pr->r, n, s.in, n->attrs);
            for (int k = 0; k < n->n_out; k++)
                if (ls_prop_float(pr, n->out[k]))
                    pr->at[n->out[k].id].p = REPLICATE;
            take_back(pr, &s);
        } else {
            LS_TRY(split(pr, &s, gathered));
        }
    }
    if (n->op == &ls_op_param)
        pr->at[n->out[0].id].p = REPLICATE;
    for (int k = 0; k < n->n_out; k++)
        ls_note_placement(pr->r.to, pr->r.map[n->out[k].id], pr->at[n->out[k].id].p, &pr->axis);
    return LS_OK;
}

/* Every rank has all rows of an output. A loss that each rank computed whole, as a penalty on parameters,
 * becomes Invariant: the ranks sum equal shares of it. */
void ls_prop_tokens_output(ls_propagation *pr, const ls_output_entry *o)
{
    const ls_value old = o->value;
    const ls_spot *at = &pr->at[old.id];
    ls_graph *g = pr->r.to;
    if (at->p.kind == LS_SHARD)
        pr->r.map[old.id] = whole_of(pr, old);
    if (at->p.kind == LS_REPLICATE && o->is.what == LS_IS_LOSS)
        pr->r.map[old.id] = ls_redistribute(
            g, ls_mul_const(g, ls_rewrite_value(&pr->r, old), 1.0 / pr->axis.ranks), ls_prop_whole(pr, old),
            (ls_placement){ LS_PARTIAL, 0, 0 }, INVARIANT, &pr->axis, o->name);
}
