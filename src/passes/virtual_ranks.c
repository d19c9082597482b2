/* virtual_ranks.c - parallel.slices: S. Tokens and layers are split as over S ranks, whatever number of ranks
 * the axis has. A rank of an axis of n ranks computes S / n of these virtual ranks, one after the other in
 * one program. So every sum has the same S terms, added in the same balanced tree, and n changes no bit.
 *
 * Sharding propagation makes the program of each virtual rank by itself. They have the same nodes. Here they
 * are merged, node by node:
 *
 *   - A node that is the same for all virtual ranks, with the same operands, is computed once. Any other node
 *     stands once for each of them.
 *   - A collective of the axis gets the terms of the rank's virtual ranks as its operands. ls_pass_add_terms
 *     adds them once types are known. With one rank nothing else is left of it.
 *   - What virtual ranks share and each uses a part of (Replicate) gets a fork for each of them: their
 *     gradients are added in the tree, too, in the type in which ranks would add them.
 *   - An Invariant value that each virtual rank computes for itself is one value. */
#define LS_NO_CALL_SITES /* new nodes keep the call site of the model's line */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/field.h"
#include "base/sys.h"
#include "comm/axes.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "propagate.h"

typedef struct merging {
    ls_rewrite r;  /* from the program of the first virtual rank */
    ls_graph **of; /* the programs, all with the same nodes and values */
    int n;         /* how many virtual ranks this rank computes */
    int ranks;     /* of the axis */
    const char *axis;
    ls_value *map; /* [values][n]: in the new graph */
} merging;

static ls_value *places(merging *m, ls_value v) { return &m->map[(size_t)v.id * (size_t)m->n]; }

static void set_all(merging *m, ls_value v, ls_value to)
{
    for (int j = 0; j < m->n; j++)
        places(m, v)[j] = to;
}

static bool is_float(const merging *m, ls_value v)
{
    return ls_dtype_is_float(ls_type_of(m->r.from, v)->dtype);
}

/* How the value lies over the axis; absent in the middle of a redistribution or an expansion. */
static bool lies_as(const merging *m, ls_value v, ls_placement_kind kind)
{
    const ls_placed *p = ls_val_of(m->r.from, v)->placed;
    while (p && strcmp(p->axis, m->axis))
        p = p->next;
    return p && p->p.kind == kind;
}

static ls_value *operands(merging *m, const ls_node *n, int j)
{
    ls_value *in = LS_ARENA_ARRAY(&m->r.to->arena, ls_value, n->n_in + 1);
    for (int k = 0; in && k < n->n_in; k++)
        in[k] = ls_present(n->in[k]) ? places(m, n->in[k])[j] : LS_NONE;
    return in;
}

/* Whether virtual rank j computes exactly what the first one does. */
static bool virtual_alike(merging *m, int i, int j)
{
    const ls_node *a = m->of[0]->nodes[i], *b = m->of[j]->nodes[i];
    bool same = ls_attrs_equal(a->op, a->attrs, b->attrs) && !a->at == !b->at &&
                (!a->at || !memcmp(a->at, b->at, sizeof *a->at));
    for (int k = 0; k < a->n_in && same; k++)
        same = !ls_present(a->in[k]) || places(m, a->in[k])[0].id == places(m, a->in[k])[j].id;
    return same;
}

/* ---- collectives of the axis */

static void shared_by_all(merging *m, ls_value old, ls_value v, int64_t via)
{
    if (is_float(m, old))
        ls_fork_tree(m->r.to, v, via, m->n, places(m, old), 1);
    else
        set_all(m, old, v);
}

/* The sum over the fork trees' gradients is rounded once, like that over ranks: behind the last collective.
 */
static ls_value rounded(merging *m, ls_value old, ls_value v)
{
    return is_float(m, old) ? ls_fork(m->r.to, v, LS_TO_SAME) : v;
}

static void merge_replicate(merging *m, const ls_node *n)
{
    ls_replicate_attrs a = *(const ls_replicate_attrs *)n->attrs;
    ls_value v = rounded(m, n->in[0], places(m, n->in[0])[0]);
    for (int j = 1; j < m->n; j++)
        LS_CHECK(places(m, n->in[0])[j].id == places(m, n->in[0])[0].id,
                 "virtual ranks share what is Invariant");
    a.ranks = m->ranks;
    if (m->ranks > 1)
        v = ls_replicate(m->r.to, v, &a);
    shared_by_all(m, n->out[0], v, a.via);
}

static void merge_gather(merging *m, const ls_node *n)
{
    ls_gather_attrs a = *(const ls_gather_attrs *)n->attrs;
    ls_value v = rounded(m, n->in[0], ls_concat(m->r.to, 0, m->n, places(m, n->in[0])));
    a.ranks = m->ranks;
    if (m->ranks > 1)
        v = ls_all_gather(m->r.to, v, &a);
    shared_by_all(m, n->out[0], v, a.via);
}

static void merge_sum(merging *m, const ls_node *n)
{
    ls_reduce_attrs a = *(const ls_reduce_attrs *)n->attrs;
    ls_graph *g = m->r.to;
    a.ranks = m->ranks;
    LS_CHECK(n->op == &ls_op_reduce_scatter || a.how == LS_HOW_SHARED, "a sum over an axis is shared");
    const ls_value v = ls_graph_apply(g, n->op, m->n, places(m, n->in[0]), &a);
    set_all(m, n->out[0], v);
    if (n->op == &ls_op_all_reduce || v.id <= 0)
        return;
    const int64_t each = ls_value_type(g, v).dims[0] / m->n;
    for (int j = 0; j < m->n; j++)
        places(m, n->out[0])[j] = ls_slice(g, v, 0, j * each, each);
}

/* Whether n is a collective of the axis; then merges it. */
static bool merge_collective(merging *m, const ls_node *n)
{
    const bool is = n->op == &ls_op_replicate || (n->op->flags & LS_OP_COLLECTIVE);
    /* the attributes of all of them begin with the group */
    if (!is || strcmp(((const ls_replicate_attrs *)n->attrs)->group, m->axis))
        return false;
    if (n->op == &ls_op_replicate)
        merge_replicate(m, n);
    else if (n->op == &ls_op_all_gather)
        merge_gather(m, n);
    else
        merge_sum(m, n);
    return true;
}

/* ---- nodes */

static void settle(merging *m, const ls_node *n, ls_value old, bool once)
{
    ls_value *v = places(m, old);
    if (once && is_float(m, old) && lies_as(m, old, LS_REPLICATE)) {
        LS_CHECK(n->op == &ls_op_param, "only a parameter is Replicate without a collective");
        ls_fork_tree(m->r.to, v[0], LS_TO_REDUCE, m->n, v, 1);
    } else if (!once && lies_as(m, old, LS_INVARIANT)) {
        set_all(m, old,
                is_float(m, old)
                    ? ls_graph_apply(m->r.to, &ls_op_all_reduce, m->n, v,
                                     &(ls_reduce_attrs){ .group = m->axis,
                                                         .unit = n->op->name,
                                                         .ranks = 1,
                                                         .to = LS_TO_SAME,
                                                         .via = ls_type_of(m->r.from, old)->dtype,
                                                         .how = LS_HOW_ONE })
                    : v[0]);
    }
}

static void merge_node(merging *m, int i)
{
    const ls_node *first = m->of[0]->nodes[i];
    ls_graph *g = m->r.to;
    bool once = true;
    ls_rewrite_like(&m->r, first);
    if (merge_collective(m, first))
        return;
    for (int j = 1; j < m->n; j++)
        once = once && virtual_alike(m, i, j);
    for (int j = 0; j < (once ? 1 : m->n); j++) {
        const ls_node *n = m->of[j]->nodes[i];
        g->at = n->at;
        const ls_node *made = ls_graph_add(g, n->op, n->n_in, operands(m, n, j), n->attrs);
        for (int k = 0; made && k < n->n_out; k++)
            if (once)
                set_all(m, n->out[k], made->out[k]);
            else
                places(m, n->out[k])[j] = made->out[k];
    }
    g->at = NULL;
    for (int k = 0; k < first->n_out && g->status == LS_OK; k++)
        settle(m, first, first->out[k], once);
}

static void check_same(const merging *m)
{
    for (int j = 1; j < m->n; j++) {
        bool same = m->of[j]->n_nodes == m->of[0]->n_nodes && m->of[j]->n_vals == m->of[0]->n_vals;
        for (int i = 0; i < m->of[0]->n_nodes && same; i++)
            same = m->of[j]->nodes[i]->op == m->of[0]->nodes[i]->op;
        LS_CHECK(same, "the programs of virtual ranks have the same nodes");
    }
}

/* Replaces the first program by that of all of them. */
static ls_status merge(merging *m)
{
    check_same(m);
    LS_TRY(ls_rewrite_begin(&m->r, m->of[0]));
    m->map = LS_ARENA_ARRAY(&m->r.to->arena, ls_value, (size_t)m->of[0]->n_vals * (size_t)m->n);
    for (int i = 0; ls_graph_room(m->r.to) && i < m->of[0]->n_nodes && m->r.to->status == LS_OK; i++)
        merge_node(m, i);
    for (int v = 1; m->map && v < m->of[0]->n_vals; v++)
        m->r.map[v] = places(m, (ls_value){ .id = v })[0];
    return ls_rewrite_end(&m->r, &m->of[0]);
}

/* ---- the pass */

bool ls_has_virtual_ranks(const ls_graph *g, const ls_parallel *p, ls_axis_role role, int ranks)
{
    if (p->slices <= ranks)
        return false;
    /* with one rank, what cannot be split over more needs no slices */
    const char *words = strcmp(p->tensor, "auto") ? p->tensor : g->tensor_plan;
    return ranks > 1 || (role == LS_ROLE_CONTEXT ? ls_has_tokens(g) : words && *words);
}

/* Puts the key and the reason for virtual ranks in front of what propagation refused. */
static ls_status refuse(ls_status code, int ranks, const char *axis)
{
    char why[700];
    const char *field = ls_error_field(), *text = ls_error_message();
    snprintf(why, sizeof why, "%s", text + (field ? strlen(field) + strlen(": ") : 0));
    return ls_fail_field(code, "slices", "%d split sums as %d ranks of axis %s would, and %s", ranks, ranks,
                         axis, why);
}

ls_status ls_propagate_virtual(ls_graph **g, const ls_parallel *p, ls_axis_role role,
                               const ls_shard_axis *axis)
{
    const int ranks = (int)p->slices, each = ranks / axis->ranks;
    merging m = { .of = ls_sys_calloc((size_t)each, sizeof *m.of),
                  .n = each,
                  .ranks = axis->ranks,
                  .axis = *axis->name ? axis->name : ls_mesh_name(role) };
    ls_status s = ls_sys_have(m.of);
    for (int j = 0; j < each && s == LS_OK; j++) {
        const ls_shard_axis one = {
            m.axis, ranks, axis->position * each + j, axis->number, each,
        };
        s = ls_rewrite_clone(&m.of[j], *g);
        if (s == LS_OK)
            s = ls_propagate_axis(&m.of[j], p, role, &one, NULL);
    }
    if (s == LS_OK)
        s = merge(&m);
    else if (s == LS_E_USAGE || s == LS_E_UNSUPPORTED)
        s = refuse(s, ranks, m.axis);
    if (s == LS_OK) {
        ls_graph_destroy(g);
        *g = m.of[0];
        m.of[0] = NULL;
    }
    for (int j = 0; m.of && j < each; j++)
        ls_graph_destroy(&m.of[j]);
    free(m.of);
    return s;
}

/* ---- terms */

static ls_value tree(ls_graph *g, int n, const ls_value *terms, ls_dtype via)
{
    return n == 1 ? ls_cast(g, terms[0], via)
                  : ls_add(g, tree(g, n / 2, terms, via), tree(g, n - n / 2, terms + n / 2, via));
}

/* The sum over this rank's terms and over ranks is rounded to the terms' type once. */
static ls_value added(ls_rewrite *r, const ls_node *n)
{
    ls_reduce_attrs a = *(const ls_reduce_attrs *)n->attrs;
    const ls_value *in = ls_rewrite_operands(r, n);
    if (!in || a.how == LS_HOW_ONE)
        return in ? in[0] : LS_NONE;
    const ls_dtype is = ls_value_type(r->to, in[0]).dtype;
    const ls_value sum = tree(r->to, n->n_in, in, (ls_dtype)a.via);
    a.to = (int64_t)is;
    return ls_cast(r->to, a.ranks > 1 ? ls_graph_apply(r->to, n->op, 1, &sum, &a) : sum, is);
}

ls_status ls_pass_add_terms(ls_graph **gp)
{
    ls_rewrite r;
    bool any = false;
    for (int i = 0; i < (*gp)->n_nodes; i++)
        any = any || (*gp)->nodes[i]->op == &ls_op_fork ||
              ((*gp)->nodes[i]->op->flags & LS_OP_COLLECTIVE &&
               (*gp)->nodes[i]->n_in > (*gp)->nodes[i]->op->min_in);
    if (!any)
        return LS_OK;
    LS_TRY(ls_rewrite_begin(&r, *gp));
    for (int i = 0; i < (*gp)->n_nodes && r.to->status == LS_OK; i++) {
        const ls_node *n = (*gp)->nodes[i];
        ls_rewrite_like(&r, n);
        if (n->op == &ls_op_fork)
            r.map[n->out[0].id] = ls_rewrite_value(&r, n->in[0]);
        else if ((n->op->flags & LS_OP_COLLECTIVE) && n->n_in > n->op->min_in)
            r.map[n->out[0].id] = added(&r, n);
        else
            ls_rewrite_copy(&r, n);
    }
    return ls_rewrite_end(&r, gp);
}
