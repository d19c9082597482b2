/* propagate.c - sharding propagation, for tensor parallelism (Shoeybi et al. 2019) and sequence parallelism
 * (Korthikanti et al. 2022). The pass visits the nodes of the forward graph in order. A parameter that the
 * tensor plan splits becomes this rank's block of it. The rule of each op (ops/rule.h) says how the results
 * are sharded, given the loop in which the operands are. An operand with another placement gets a
 * redistribution (redistribute.h), which has a gradient like any op. The pass does not know any layer or op.
 *
 * A split that the pass chose itself (rows, with `sequence`) may be undone; a split of the plan may not.
 * Partial values are summed where they are made. */
#define LS_NO_CALL_SITES /* new nodes keep the call site of the model's line */
#include "propagate_own.h"

#include <string.h>

#include "base/check.h"
#include "base/field.h"
#include "graph/rewrite.h"
#include "ops/rules.h"

static const char *label_of(const ls_propagation *pr, const ls_node *n)
{
    return pr->r.to->scope->path[0] ? pr->r.to->scope->path : n->op->name;
}

/* ---- redistributions */

static ls_value replicate(ls_propagation *pr, ls_value old)
{
    ls_value *copy = &pr->replicate[old.id];
    const ls_spot *s = &pr->at[old.id];
    const ls_value v = ls_rewrite_value(&pr->r, old);
    if (!ls_present(*copy))
        *copy = ls_redistribute(
            pr->r.to, v, ls_prop_whole(pr, old), s->p, (ls_placement){ LS_REPLICATE, 0, 0 }, &pr->axis,
            s->p.kind == LS_SHARD ? label_of(pr, ls_node_of(pr->r.from, old)) : pr->r.to->scope->path);
    return *copy;
}

/* What `sequence` split, whole again. */
static ls_value undo(ls_propagation *pr, ls_value old)
{
    ls_value *copy = &pr->invariant[old.id];
    if (!pr->at[old.id].soft)
        return ls_rewrite_value(&pr->r, old);
    if (!ls_present(*copy))
        *copy = ls_redistribute(pr->r.to, ls_rewrite_value(&pr->r, old), ls_prop_whole(pr, old),
                                pr->at[old.id].p, (ls_placement){ LS_INVARIANT, 0, 0 }, &pr->axis,
                                label_of(pr, ls_node_of(pr->r.from, old)));
    return *copy;
}

static bool moves_rows(const ls_node_split *s)
{
    bool moved = false;
    for (int l = 0; l < s->rule.n; l++)
        moved = moved || s->rule.loop[l].moved;
    return moved;
}

/* Makes s->in[k]: operand k for ranks that each compute a block of loop s->loop. */
static ls_status operand(ls_propagation *pr, ls_node_split *s, int k)
{
    const ls_value old = s->n->in[k];
    const ls_spot *at = &pr->at[old.id];
    const int dim = ls_rule_in_dim(&s->rule, &s->types.infer, k, s->loop);
    const bool may_shard = (s->rule.shard >> ls_rule_operand(k) & 1) ||
                           (!ls_prop_float(pr, old) && !ls_prop_split(pr, old));
    ls_value v = ls_rewrite_value(&pr->r, old);
    if (ls_prop_split(pr, old) && !at->soft) {
        if (at->p.dim != dim)
            return ls_prop_conflict(pr, s, k, s->by);
    } else if (dim < 0) {
        v = ls_prop_float(pr, old) ? replicate(pr, old) : v;
    } else if (may_shard) {
        const ls_type *t = ls_prop_whole(pr, old);
        ls_type mine;
        if (!ls_placed_type(&mine, t, LS_SHARDED(dim), &pr->axis))
            return ls_fail_field(LS_E_USAGE, "mesh",
                                 "dimension %d of operand %d of %s in %s has size %lld, which the "
                                 "%d ranks of axis %s do not divide",
                                 dim, k, s->n->op->name, s->n->scope->path, (long long)t->dims[dim],
                                 pr->axis.ranks, pr->axis.name);
        v = ls_prop_float(pr, old) ? replicate(pr, old) : v;
        v = ls_redistribute(pr->r.to, v, t, (ls_placement){ LS_REPLICATE, 0, 0 }, LS_SHARDED(dim), &pr->axis,
                            "");
    } else {
        return ls_prop_conflict(pr, s, k, s->by);
    }
    int64_t start, count;
    if (ls_rule_slide_of(&s->rule, &s->types.infer, k, s->loop, pr->axis.ranks, pr->axis.position, &start,
                         &count))
        v = ls_slice(pr->r.to, v, s->rule.slide.dim, start, count);
    if (dim >= 0 && (s->rule.heads[ls_rule_operand(k)] >> dim &
                     1)) { /* checked before the op's shape rule reports it in other words */
        const int64_t head = s->rule.head_dim, size = ls_prop_whole(pr, old)->dims[dim];
        if (size / pr->axis.ranks % head)
            return ls_fail_field(LS_E_USAGE, "mesh",
                                 "%s has %lld heads, which the %d ranks of axis %s do not divide",
                                 s->n->scope->path, (long long)(size / head), pr->axis.ranks, pr->axis.name);
    }
    s->in[k] = v;
    return LS_OK;
}

/* Sums a Partial result: to Invariant or, with `sequence`, to Shard by rows. Not rows that move by data: who
 * reads them needs them all. */
static ls_status sum(ls_propagation *pr, const ls_node_split *s, ls_value old, ls_value part)
{
    const ls_type *t = ls_prop_whole(pr, old);
    ls_placement to = { LS_INVARIANT, 0, 0 };
    ls_type mine;
    const bool moves = moves_rows(s);
    pr->at[old.id] = (ls_spot){ .undone = moves };
    if (pr->p->sequence && t->ndim > 1 && !moves) {
        to = LS_ROWS_SHARDED(t->ndim - 1);
        if (!ls_placed_type(&mine, t, to, &pr->axis))
            return ls_fail_field(LS_E_USAGE, "sequence",
                                 "a micro-batch has %lld tokens, which the %d ranks of axis %s "
                                 "do not divide",
                                 (long long)ls_type_rows(t), pr->axis.ranks, pr->axis.name);
        pr->at[old.id] = (ls_spot){ .p = to, .soft = true };
    }
    pr->r.map[old.id] = ls_redistribute(pr->r.to, part, t, (ls_placement){ LS_PARTIAL, 0, 0 }, to, &pr->axis,
                                        label_of(pr, ls_node_of(pr->r.from, old)));
    return LS_OK;
}

/* ---- nodes */

static ls_status localize(ls_propagation *pr, const ls_node_split *s, void **attrs)
{
    const int dim = ls_rule_out_dim(&s->rule, &s->types.infer, 0, s->loop);
    if (!ls_placed_attrs(attrs, &pr->r.to->arena, &s->types, dim, &pr->axis))
        return ls_prop_cannot_take(pr, s->n, s->by);
    return ls_arena_status(&pr->r.to->arena);
}

/* Sets the box of the operand with @ to this rank's block of what the whole node has. */
static void locate(ls_propagation *pr, const ls_node_split *s)
{
    const int at = s->rule.at, dim = at < 0 ? -1 : ls_rule_in_dim(&s->rule, &s->types.infer, at, s->loop);
    if (dim < 0)
        return;
    ls_box *box = LS_ARENA_NEW(&pr->r.to->arena, ls_box);
    if (!box)
        return; /* the graph says so */
    *box = s->n->at ? *s->n->at : ls_box_of(&s->types.in[at]);
    LS_CHECK(ls_box_split(box, dim, pr->axis.ranks, pr->axis.position), "the ranks do not divide the block");
    pr->r.to->at = box;
}

static ls_status expand(ls_propagation *pr, ls_node_split *s)
{
    const ls_node *n = s->n;
    ls_value out[LS_MAX_OUT];
    if (!n->op->expand)
        return ls_prop_cannot_take(pr, n, s->by);
    for (int k = 0; k < n->n_in; k++) {
        if (ls_prop_split(pr, n->in[k]) &&
            (pr->at[n->in[k].id].soft ||
             pr->at[n->in[k].id].p.dim != ls_rule_in_dim(&s->rule, &s->types.infer, k, s->loop)))
            return ls_prop_conflict(pr, s, k, s->by);
        s->in[k] = ls_rewrite_value(&pr->r, n->in[k]);
    }
    locate(pr, s);
    LS_TRY(n->op->expand(&(ls_expansion){ .g = pr->r.to,
                                          .node = n,
                                          .in = s->in,
                                          .out = out,
                                          .group = pr->axis.name,
                                          .unit = label_of(pr, n),
                                          .ranks = pr->axis.ranks,
                                          .position = pr->axis.position }));
    for (int k = 0; k < n->n_out; k++)
        pr->r.map[n->out[k].id] = out[k];
    return LS_OK;
}

/* Reshapes operand k, so that it broadcasts against result 0 along the loops that both have: a convolution's
 * bias [o] becomes [o, 1, 1]. */
static ls_value aligned(ls_propagation *pr, const ls_node_split *s, int k, ls_value v)
{
    const ls_type *t = &s->types.infer.out[0], have = ls_value_type(pr->r.to, v);
    int64_t dims[LS_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < t->ndim; d++) {
        const int at = ls_rule_in_dim(&s->rule, &s->types.infer, k, s->rule.out[0][d]);
        if (at >= 0 || n)
            dims[n++] = at >= 0 ? have.dims[at] : 1;
    }
    return n == have.ndim ? v : ls_reshape_dims(pr->r.to, v, n, dims);
}

/* Adds an operand with the mark + to result 0, after the sum over the ranks. */
static ls_status add_after_sum(ls_propagation *pr, const ls_node_split *s, int k)
{
    const ls_value old = s->n->in[k], out = s->n->out[0];
    ls_value v = ls_rewrite_value(&pr->r, old);
    if (pr->at[out.id].soft && !pr->at[old.id].soft) {
        if (ls_prop_split(pr, old) || ls_prop_whole(pr, old)->ndim > 1)
            return ls_prop_conflict(pr, s, k, s->by);
        v = replicate(pr, old);
    } else if (ls_prop_split(pr, old) && !pr->at[out.id].soft) {
        return ls_prop_conflict(pr, s, k, s->by);
    }
    pr->r.map[out.id] = ls_add(pr->r.to, ls_rewrite_value(&pr->r, out),
                               pr->at[old.id].soft ? v : aligned(pr, s, k, v));
    return LS_OK;
}

/* Each rank computes its block of loop s->loop. */
static ls_status split_loop(ls_propagation *pr, ls_node_split *s)
{
    const ls_node *n = s->n;
    const ls_infer *types = &s->types.infer;
    void *attrs;
    bool sums = false;
    LS_TRY(ls_prop_check_parts(pr, s));
    if (s->rule.loop[s->loop].join)
        return expand(pr, s);
    for (int k = 0; k < n->n_out; k++)
        sums = sums || ls_rule_out_dim(&s->rule, types, k, s->loop) < 0;
    int n_in = 0;
    for (int k = 0; k < n->n_in; k++) {
        const bool later = sums && (s->rule.added >> ls_rule_operand(k) & 1);
        s->in[k] = LS_NONE;
        if (!ls_present(n->in[k]) || later)
            continue;
        LS_TRY(operand(pr, s, k));
        n_in = k + 1;
    }
    LS_TRY(localize(pr, s, &attrs));
    locate(pr, s);
    const ls_node *made = ls_graph_add(pr->r.to, n->op, sums ? n_in : n->n_in, s->in, attrs);
    for (int k = 0; made && k < n->n_out; k++) {
        const int dim = ls_rule_out_dim(&s->rule, types, k, s->loop);
        pr->r.map[n->out[k].id] = made->out[k];
        if (dim >= 0)
            pr->at[n->out[k].id] = (ls_spot){ .p = LS_SHARDED(dim),
                                              .cause = pr->at[n->in[s->by].id].cause,
                                              .parts = pr->at[n->in[s->by].id].parts };
        else
            LS_TRY(sum(pr, s, n->out[k], made->out[k]));
    }
    for (int k = 0; made && sums && k < n->n_in; k++)
        if (ls_present(n->in[k]) && (s->rule.added >> ls_rule_operand(k) & 1))
            LS_TRY(add_after_sum(pr, s, k));
    return LS_OK;
}

/* Whether the first `rows` dimensions of a value are row-wise loops of the op, those of `first`, and no other
 * dimension is one. */
static bool are_rows(const ls_node_split *s, const int8_t *loops, int ndim, int rows, const int8_t *first)
{
    for (int d = 0; d < ndim; d++) {
        const ls_op_loop *l = loops[d] >= 0 ? &s->rule.loop[loops[d]] : NULL;
        const bool row_wise = l && l->rows;
        if (d >= rows && row_wise)
            return false;
        if (d < rows && (!row_wise || l->fixed || l->join || loops[d] != first[d]))
            return false;
    }
    return true;
}

/* Whether a node needs all rows of tokens that go to experts (as does a sum over tokens): it moves them, or a
 * reshape [tokens, ..] does not keep them. */
static bool needs_all_rows(const ls_propagation *pr, const ls_node_split *s)
{
    return moves_rows(s) ||
           (s->n->op == &ls_op_reshape && !s->rule.regroups && ls_prop_whole(pr, s->n->in[0])->ndim == 2);
}

static ls_status compute_whole(ls_propagation *pr, ls_node_split *s)
{
    for (int k = 0; k < s->n->n_in; k++)
        s->in[k] = ls_present(s->n->in[k]) ? undo(pr, s->n->in[k]) : LS_NONE;
    ls_rewrite_copy_with(&pr->r, s->n, s->in, s->n->attrs);
    for (int k = 0; k < s->n->n_out; k++)
        pr->at[s->n->out[k].id] = (ls_spot){ .undone = true };
    return LS_OK;
}

/* Each rank computes a range of the rows. Operands that all rows share, such as gains and weights, become
 * Replicate: their gradients are summed over the ranks. */
static ls_status split_rows(ls_propagation *pr, ls_node_split *s)
{
    const ls_node *n = s->n;
    const int rows = pr->at[n->in[s->by].id].p.dims;
    const int8_t *first = s->rule.in[ls_rule_operand(s->by)];
    void *attrs;
    if (needs_all_rows(pr, s))
        return compute_whole(pr, s);
    if (s->rule.regroups) {
        const ls_type *t = ls_prop_whole(pr, n->out[0]);
        pr->at[n->out[0].id] = (ls_spot){ .p = LS_ROWS_SHARDED(t->ndim - 1), .soft = true };
        pr->r.map[n->out[0].id] = ls_rewrite_value(&pr->r, n->in[0]); /* a reshape that keeps the rows */
        return LS_OK;
    }
    for (int k = 0; k < n->n_in; k++) {
        const ls_value old = n->in[k];
        s->in[k] = LS_NONE;
        if (!ls_present(old))
            continue;
        const bool has = ls_prop_split(pr, old), takes = pr->at[old.id].undone && ls_prop_float(pr, old);
        if (takes && are_rows(s, s->rule.in[ls_rule_operand(k)], ls_prop_whole(pr, old)->ndim, rows, first)) {
            s->in[k] = ls_redistribute(pr->r.to, ls_rewrite_value(&pr->r, old), ls_prop_whole(pr, old),
                                       (ls_placement){ LS_INVARIANT, 0, 0 }, LS_ROWS_SHARDED(rows), &pr->axis,
                                       label_of(pr, n));
            continue;
        }
        if (!are_rows(s, s->rule.in[ls_rule_operand(k)], ls_prop_whole(pr, old)->ndim, has ? rows : 0, first))
            return has && n->op == &ls_op_sum_to ? compute_whole(pr, s)
                   : has                         ? ls_prop_cannot_take(pr, n, k)
                                                 : ls_prop_conflict(pr, s, k, s->by);
        s->in[k] = has || !ls_prop_float(pr, old) ? ls_rewrite_value(&pr->r, old) : replicate(pr, old);
    }
    if (s->rule.at >= 0 || n->op->local) /* a range of rows, taken as one dimension, is not a box */
        return ls_prop_cannot_take(pr, n, s->by);
    for (int k = 0; k < n->n_out; k++) {
        if (!are_rows(s, s->rule.out[k], ls_prop_whole(pr, n->out[k])->ndim, rows, first))
            return ls_prop_cannot_take(pr, n, s->by);
        pr->at[n->out[k].id] = (ls_spot){ .p = LS_ROWS_SHARDED(rows), .soft = true };
    }
    LS_TRY(localize(pr, s, &attrs));
    ls_rewrite_copy_with(&pr->r, n, s->in, attrs);
    return LS_OK;
}

/* Finds the loop in which to split the node. Operands that depend on parameters decide. If none of them is
 * split, other values decide, and last values that are split by rows. */
static ls_status vote(ls_propagation *pr, ls_node_split *s)
{
    enum { PARAMETERS, VALUES, ROWS, CLASSES };
    s->by = -1;
    for (int class = 0; class < CLASSES && s->by < 0; class ++)
        for (int k = 0; k < s->n->n_in; k++) {
            const ls_spot *at = &pr->at[s->n->in[k].id];
            const int its = at->soft ? ROWS : at->param ? PARAMETERS : VALUES;
            if (!ls_prop_split(pr, s->n->in[k]) || its != class)
                continue;
            const int loop = at->soft ? -1 : ls_rule_in(&s->rule, k, at->p.dim);
            if (!at->soft && (loop < 0 || s->rule.loop[loop].fixed))
                return ls_prop_cannot_take(pr, s->n, k);
            if (s->by >= 0 && loop != s->loop)
                return ls_prop_conflict(pr, s, k, s->by);
            s->loop = loop;
            s->by = s->by < 0 ? k : s->by;
        }
    return LS_OK;
}

/* A virtual rank's block of what a rank stores: of each part, if the source is packed. */
static ls_value block_of(ls_propagation *pr, ls_value v, const ls_seed *seed)
{
    ls_graph *g = pr->r.to;
    ls_type t = ls_value_type(g, v), apart = t;
    const int at = pr->axis.position % pr->axis.each, dim = seed->dim;
    const int64_t size = t.dims[dim] / seed->parts / pr->axis.each;
    if (seed->parts == 1)
        return ls_slice(g, v, dim, at * size, size);
    for (int d = apart.ndim++; d > dim; d--)
        apart.dims[d] = apart.dims[d - 1];
    apart.dims[dim] = seed->parts;
    apart.dims[dim + 1] /= seed->parts;
    v = ls_slice(g, ls_reshape_dims(g, v, apart.ndim, apart.dims), dim + 1, at * size, size);
    t.dims[dim] = seed->parts * size;
    return ls_reshape_dims(g, v, t.ndim, t.dims);
}

/* A parameter; or a state or an input that the plan splits. */
static ls_status source(ls_propagation *pr, const ls_node *n)
{
    const bool param = n->op == &ls_op_param;
    const int each = pr->axis.each, ranks = pr->axis.ranks / each;
    ls_source_attrs a = *(const ls_source_attrs *)n->attrs;
    const ls_value v = n->out[0];
    const ls_seed *seed = &pr->seeds[v.id];
    pr->at[v.id] = (ls_spot){ .param = param };
    if (seed->word) {
        a.type.dims[seed->dim] /= ranks;
        if (ranks > 1)
            a.sharded.dim[pr->axis.number] = (int8_t)(seed->dim + 1);
        pr->at[v.id] = (ls_spot){ .p = LS_SHARDED(seed->dim),
                                  .param = param,
                                  .parts = seed->parts,
                                  .cause = ls_arena_printf(&pr->r.to->arena, "%.*s splits %s",
                                                           (int)strcspn(seed->word, " "), seed->word,
                                                           a.name) };
    }
    ls_node *made = ls_rewrite_copy_with(&pr->r, n, NULL, &a);
    if (made && seed->parts > 1 && ranks > 1)
        made->at = ls_packed_box(pr, n, seed);
    if (made && seed->word && each > 1)
        pr->r.map[v.id] = block_of(pr, made->out[0], seed);
    ls_note_placement(pr->r.to, pr->r.map[v.id], pr->at[v.id].p, &pr->axis);
    return LS_OK;
}

static ls_status node(ls_propagation *pr, const ls_node *n)
{
    bool any = false, undone = false, params = n->n_in > 0;
    ls_rewrite_like(&pr->r, n);
    if (n->op == &ls_op_param || (n->n_in == 0 && n->n_out == 1 && pr->seeds[n->out[0].id].word))
        return source(pr, n);
    for (int k = 0; k < n->n_in; k++) {
        any = any || ls_prop_split(pr, n->in[k]);
        undone = undone || (ls_present(n->in[k]) && pr->at[n->in[k].id].undone);
        params = params && (!ls_present(n->in[k]) || pr->at[n->in[k].id].param);
    }
    bool done = !any;
    if (!any)
        ls_rewrite_copy(&pr->r, n);
    else
        LS_TRY(ls_prop_slice(&done, pr, n));
    if (!done) {
        ls_node_split s = { .n = n, .in = LS_ARENA_ARRAY(&pr->r.to->arena, ls_value, n->n_in) };
        LS_TRY(ls_arena_status(&pr->r.to->arena));
        LS_TRY(ls_placed_node_of(&s.types, pr->r.from, n));
        LS_TRY(ls_rule_of(&s.rule, &s.types.infer));
        LS_TRY(vote(pr, &s));
        LS_TRY(s.loop < 0 ? split_rows(pr, &s) : split_loop(pr, &s));
    }
    for (int k = 0; k < n->n_out; k++) {
        pr->at[n->out[k].id].param = params;
        pr->at[n->out[k].id].undone |= undone && !ls_prop_split(pr, n->out[k]);
        ls_note_placement(pr->r.to, pr->r.map[n->out[k].id], pr->at[n->out[k].id].p, &pr->axis);
    }
    return LS_OK;
}

static ls_status all_nodes(ls_propagation *pr, ls_placement *outputs)
{
    const ls_graph *g = pr->r.from;
    if (!pr->seeds) {
        LS_TRY(ls_prop_check_tokens(pr));
        LS_TRY(ls_prop_folds(pr));
    }
    for (int i = 0; i < g->n_nodes && pr->r.to->status == LS_OK; i++)
        LS_TRY(pr->seeds ? node(pr, g->nodes[i]) : ls_prop_tokens(pr, g->nodes[i]));
    for (int i = 0; i < g->n_outputs; i++) {
        if (!pr->seeds)
            ls_prop_tokens_output(pr, &g->outputs[i]);
        else if (outputs)
            outputs[i] = pr->at[g->outputs[i].value.id].p;
        else if (ls_prop_split(pr, g->outputs[i].value))
            return ls_fail_field(LS_E_USAGE, "tensor",
                                 "output \"%s\" of the model would be split over axis %s", g->outputs[i].name,
                                 pr->axis.name);
    }
    return LS_OK;
}

ls_status ls_propagate(ls_graph **gp, const ls_parallel *p, const ls_seed *seeds, const ls_shard_axis *axis,
                       ls_placement *outputs)
{
    ls_propagation pr = { .p = p, .axis = *axis, .seeds = seeds };
    LS_TRY(ls_rewrite_begin(&pr.r, *gp));
    ls_arena *arena = &pr.r.to->arena;
    pr.at = LS_ARENA_ARRAY(arena, ls_spot, (*gp)->n_vals + 1);
    pr.replicate = LS_ARENA_ARRAY(arena, ls_value, (*gp)->n_vals + 1);
    pr.invariant = LS_ARENA_ARRAY(arena, ls_value, (*gp)->n_vals + 1);
    ls_status s = ls_arena_status(arena);
    if (s == LS_OK)
        s = all_nodes(&pr, outputs);
    if (s == LS_OK)
        return ls_rewrite_end(&pr.r, gp);
    ls_rewrite_abort(&pr.r);
    return s;
}

ls_status ls_propagate_axis(ls_graph **gp, const ls_parallel *p, ls_axis_role role, const ls_shard_axis *axis,
                            ls_placement *outputs)
{
    if (role == LS_ROLE_CONTEXT)
        return axis->ranks == 1 ? LS_OK : ls_propagate(gp, p, NULL, axis, NULL);
    ls_seed *seeds = LS_ARENA_ARRAY(&(*gp)->arena, ls_seed, (*gp)->n_vals + 1);
    LS_TRY(ls_arena_status(&(*gp)->arena));
    LS_TRY(ls_seeds(seeds, *gp, p, axis));
    return axis->ranks == 1 ? LS_OK : ls_propagate(gp, p, seeds, axis, outputs);
}
