/* propagate_tokens.c - sharding propagation over an axis of role context: the ranks have the same samples and
 * a block of their tokens each. Inputs [batch, tokens] are split, and what is computed of them is split in
 * the same loop. Operands that a rule marks with & are gathered, as keys and values of attention. Parameters
 * are Replicate: the chains of their units sum gradients over the axis (passes/layout.c). So a value that
 * depends on parameters only is Replicate too, and what is summed over tokens is Invariant.
 *
 * Under a causal mask the first tokens take less work than the last. Then the tokens are 2 * ranks chunks,
 * and rank r has chunk r and, behind it, chunk r from the end (pr->folds): all have the same work. What asks
 * where a block begins (@) is computed chunk by chunk.
 *
 * Rows that move by data (the mark %) are moved among the rows of a rank: each sorts its own tokens by
 * expert. How many rows each expert then has is Partial, and only what moves rows may read it.
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

/* The number of a rank's first or second chunk, if it has two. */
static int chunk_of(const ls_propagation *pr, int rank, int which)
{
    return which ? 2 * pr->axis.ranks - 1 - rank : rank;
}

/* This rank's tokens of a value that all ranks have. */
static ls_value take(ls_propagation *pr, ls_value v, const ls_type *whole, int dim)
{
    ls_graph *g = pr->r.to;
    ls_value chunks[2];
    if (!pr->folds)
        return ls_redistribute(g, v, whole, REPLICATE, LS_SHARDED(dim), &pr->axis, "");
    const int64_t n = whole->dims[dim] / (2 * pr->axis.ranks);
    for (int k = 0; k < 2; k++)
        chunks[k] = ls_slice(g, v, dim, chunk_of(pr, pr->axis.position, k) * n, n);
    return ls_concat(g, dim, 2, chunks);
}

/* All tokens, in their order. */
static ls_value gather(ls_propagation *pr, ls_value v, const ls_type *whole, int dim, const char *unit)
{
    ls_graph *g = pr->r.to;
    const int ranks = pr->axis.ranks;
    ls_value chunks[LS_PLACED_IN];
    v = ls_redistribute(g, v, whole, LS_SHARDED(dim), REPLICATE, &pr->axis, unit);
    if (!pr->folds)
        return v;
    const int64_t n = whole->dims[dim] / (2 * ranks);
    for (int rank = 0; rank < ranks; rank++)
        for (int k = 0; k < 2; k++)
            chunks[chunk_of(pr, rank, k)] = ls_slice(g, v, dim, (2 * rank + k) * n, n);
    return ls_concat(g, dim, 2 * ranks, chunks);
}

/* Between Shard(dim), in blocks of each part, and Replicate. */
static ls_value tokens_move(ls_propagation *pr, ls_value v, const ls_type *whole, int dim, int64_t parts,
                            bool gathers, const char *unit)
{
    ls_graph *g = pr->r.to;
    if (parts == 1)
        return gathers ? gather(pr, v, whole, dim, unit) : take(pr, v, whole, dim);
    if (whole->ndim == LS_MAX_DIMS) {
        ls_graph_error(g, LS_E_UNSUPPORTED, "axis %s cannot split tokens of a value of %d dimensions",
                       pr->axis.name, whole->ndim);
        return (ls_value){ .id = -1 };
    }
    ls_type t = apart(whole, dim, parts), mine = *whole, part;
    mine.dims[dim] /= pr->axis.ranks;
    part = apart(&mine, dim, parts);
    v = shaped(g, v, gathers ? &part : &t);
    v = gathers ? gather(pr, v, &t, dim + 1, unit) : take(pr, v, &t, dim + 1);
    return shaped(g, v, gathers ? whole : &mine);
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

bool ls_has_tokens(const ls_graph *g)
{
    bool any = false;
    for (int i = 0; i < g->n_nodes; i++)
        any = any || has_tokens(g->nodes[i]);
    return any;
}

ls_status ls_prop_check_tokens(const ls_propagation *pr)
{
    if (ls_has_tokens(pr->r.from))
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
        const bool begins = !pr->folds && outer == before && b->dims[e] > 1 && size % b->dims[e] == 0 &&
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
static ls_status tokens_choose(ls_propagation *pr, ls_node_split *s, uint64_t *gathered)
{
    const ls_node *n = s->n;
    s->by = -1;
    *gathered = 0;
    for (int k = 0; k < n->n_in; k++) {
        if (!ls_prop_split(pr, n->in[k]))
            continue;
        const int loop = ls_rule_in(&s->rule, k, pr->at[n->in[k].id].p.dim);
        if (loop >= 0 && (!s->rule.loop[loop].fixed || s->rule.loop[loop].moved) &&
            (s->by < 0 || loop == s->loop)) {
            s->loop = loop;
            s->by = s->by < 0 ? k : s->by;
        } else if (!(s->rule.gather >> ls_rule_operand(k) & 1) && ls_prop_float(pr, n->in[k])) {
            return mixes(pr, n);
        } else {
            *gathered |= UINT64_C(1) << k;
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
    if (pr->at[old.id].p.kind == LS_PARTIAL) {
        s->in[k] = ls_rewrite_value(&pr->r, old);
        return s->rule.loop[s->loop].moved ? LS_OK : mixes(pr, s->n);
    }
    s->in[k] = whole_of(pr, old);
    if (dim < 0)
        return LS_OK;
    if (whole->dims[dim] % (parts * pr->axis.ranks))
        return not_divided(pr, s->n->op->name, whole->dims[dim]);
    s->in[k] = tokens_move(pr, s->in[k], whole, dim, parts, false, "");
    return LS_OK;
}

/* Whether the kernel asks where the split dimension begins. */
static bool numbers(const ls_node_split *s)
{
    return s->rule.at >= 0 && !s->rule.loop[s->loop].anywhere &&
           ls_rule_in_dim(&s->rule, &s->types.infer, s->rule.at, s->loop) >= 0;
}

/* Narrows the box of the operand with @ to block `at` of `n`. Tokens that are not a block of it (of several
 * samples, or two chunks) count as whole. */
static void narrow(ls_propagation *pr, const ls_node_split *s, int n, int at, ls_box *box)
{
    const int k = s->rule.at, dim = k < 0 ? -1 : ls_rule_in_dim(&s->rule, &s->types.infer, k, s->loop);
    if (dim < 0)
        return;
    const bool whole = !s->n->at;
    *box = whole ? ls_box_of(&s->types.in[k]) : *s->n->at;
    if (numbers(s)) {
        LS_CHECK(ls_box_split(box, dim, n, at), "the ranks do not divide the block");
    } else {
        box->whole[dim] = box->size[dim] = s->types.in[k].dims[dim] / n;
        box->start[dim] = 0;
    }
    pr->r.to->at = box;
}

/* Computes block `at` of `n` of the loop. `half`: of the two chunks that the operands have here; -1: all. */
static const ls_node *compute(ls_propagation *pr, const ls_node_split *s, int n, int at, int half)
{
    const ls_shard_axis blocks = { pr->axis.name, n, at, pr->axis.number, 1 };
    const int out = ls_rule_out_dim(&s->rule, &s->types.infer, 0, s->loop);
    ls_graph *g = pr->r.to;
    ls_value *in = LS_ARENA_ARRAY(&g->arena, ls_value, s->n->n_in);
    ls_box box;
    void *attrs;
    if (!ls_graph_room(g) || !ls_placed_attrs(&attrs, &g->arena, &s->types, out, &blocks))
        return NULL;
    for (int k = 0; k < s->n->n_in; k++) {
        int64_t start, count;
        if (ls_present(s->in[k]) &&
            ls_rule_slide_of(&s->rule, &s->types.infer, k, s->loop, n, at, &start, &count)) {
            in[k] = ls_slice(g, s->in[k], s->rule.slide.dim, start, count);
            continue;
        }
        const int dim = ls_present(s->in[k]) ? ls_rule_in_dim(&s->rule, &s->types.infer, k, s->loop) : -1;
        const int64_t tokens = dim < 0 ? 0 : ls_prop_whole(pr, s->n->in[k])->dims[dim] / n;
        in[k] = dim < 0 || half < 0 ? s->in[k] : ls_slice(g, s->in[k], dim, half * tokens, tokens);
    }
    narrow(pr, s, n, at, &box);
    const ls_node *made = ls_graph_add(g, s->n->op, s->n->n_in, in, attrs);
    g->at = NULL;
    return made;
}

static ls_status split(ls_propagation *pr, ls_node_split *s, uint64_t gathered)
{
    const ls_node *n = s->n;
    ls_graph *g = pr->r.to;
    const int64_t parts = ls_prop_parts(pr, n->in[s->by]);
    const bool twice = pr->folds && numbers(s);
    const int ranks = pr->axis.ranks, rank = pr->axis.position;
    if (s->rule.loop[s->loop].join || (parts > 1 && numbers(s)))
        return mixes(pr, n);
    for (int k = 0; k < n->n_in; k++) {
        s->in[k] = LS_NONE;
        if (ls_present(n->in[k]))
            LS_TRY(tokens_operand(pr, s, k, gathered >> k & 1));
    }
    const ls_node *made[2] = { NULL, NULL };
    for (int h = 0; h <= twice; h++)
        made[h] = compute(pr, s, twice ? 2 * ranks : ranks, twice ? chunk_of(pr, rank, h) : rank,
                          twice ? h : -1);
    if (!made[twice])
        return ls_graph_status(g) == LS_OK ? mixes(pr, n) : ls_graph_status(g);
    for (int k = 0; k < n->n_out; k++) {
        const ls_value old = n->out[k], both[] = { made[0]->out[k], made[twice]->out[k] };
        const int dim = ls_rule_out_dim(&s->rule, &s->types.infer, k, s->loop);
        if (dim >= 0) {
            pr->r.map[old.id] = twice ? ls_concat(g, dim, 2, both) : both[0];
            pr->at[old.id] = (ls_spot){ .p = LS_SHARDED(dim), .parts = parts };
            continue;
        }
        if (!ls_prop_float(pr, old) && s->rule.loop[s->loop].moved) {
            pr->r.map[old.id] = both[0];
            pr->at[old.id] = (ls_spot){ .p = { LS_PARTIAL, 0, 0 } };
            continue;
        }
        if (!ls_prop_float(pr, old) || s->rule.added)
            return mixes(pr, n);
        pr->r.map[old.id] = ls_redistribute(g, twice ? ls_add(g, both[0], both[1]) : both[0],
                                            ls_prop_whole(pr, old), (ls_placement){ LS_PARTIAL, 0, 0 },
                                            INVARIANT, &pr->axis,
                                            n->scope->path[0] ? n->scope->path : n->op->name);
    }
    return LS_OK;
}

/* Whether a loop of some node has more to do the later it is, and the chunks of all inputs are equal. */
ls_status ls_prop_folds(ls_propagation *pr)
{
    bool uneven = false, even = 2 * pr->axis.ranks <= LS_PLACED_IN;
    for (int i = 0; i < pr->r.from->n_nodes; i++) {
        const ls_node *n = pr->r.from->nodes[i];
        const ls_source_attrs *a = n->attrs;
        ls_placed_node types;
        ls_rule rule;
        if (has_tokens(n))
            even = even && a->type.dims[1] % (2 * pr->axis.ranks) == 0;
        if (!n->n_in || !(n->op->flags & LS_OP_AT))
            continue;
        LS_TRY(ls_placed_node_of(&types, pr->r.from, n));
        LS_TRY(ls_rule_of(&rule, &types.infer));
        for (int l = 0; l < rule.n; l++)
            uneven = uneven || rule.loop[l].uneven;
    }
    pr->folds = uneven && even;
    return LS_OK;
}

ls_status ls_prop_tokens(ls_propagation *pr, const ls_node *n)
{
    ls_node_split s = { .n = n };
    uint64_t gathered;
    bool any = false, partial = false;
    ls_rewrite_like(&pr->r, n);
    for (int k = 0; k < n->n_in; k++) {
        any = any || ls_prop_split(pr, n->in[k]);
        partial = partial || (ls_present(n->in[k]) && pr->at[n->in[k].id].p.kind == LS_PARTIAL);
    }
    if (partial && (!any || n->op == &ls_op_reshape))
        return mixes(pr, n);
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
        if (s.by < 0 && partial)
            return mixes(pr, n);
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
