/* avoid_copies.c - decides which values are computed where they are needed later, so that they are never
 * copied. It runs before lowering, because the place of a value fixes its strides.
 *
 * A part of a `pack` is computed in its range of the pack's output on two conditions. Its kernel can write
 * with the strides that follow. And the value is needed nowhere else: it is not a source, aliases nothing,
 * is not a graph output, and is in no other pack. Reshapes between the kernel and the pack do not matter. If
 * that kernel may overwrite an operand that nothing reads afterwards, the operand is computed there too: so
 * both gradients of a tied table use the same memory. Packs are visited last to first, so that an outer pack
 * has its memory before inner packs look for theirs.
 *
 * An output with the identity of a source replaces the source's content. It is computed in the source's
 * memory if nothing reads the old content later, and if its op does not read it or may work in place. (Else
 * lower.c ends the program with a copy.) If that op is a `pack`, the range of a part is free after the last
 * read of this range: so gradients take the place of the weights that they are gradients of. */
#include "internal.h"
#include "ops/rules.h"

#include <string.h>

static ls_tensor layout(const ls_planner *p, int v)
{
    ls_tensor t = { .type = p->old->vals[v].type };
    if (p->computed_in[v].inside)
        memcpy(t.strides, p->computed_in[v].strides, sizeof t.strides);
    else
        ls_strides_contiguous(t.strides, &t.type);
    return t;
}

static bool has_alias(const ls_graph *g, int v)
{
    return g->nodes[g->vals[v].node]->op->alias[g->vals[v].out] != 0;
}

/* The result of a kernel of which v is a reshape, or v itself; 0: none. */
static int behind_reshapes(const ls_graph *g, int v)
{
    const int64_t count = ls_type_count(&g->vals[v].type);
    for (const ls_node *n = g->nodes[g->vals[v].node]; ls_is_view(n); n = g->nodes[g->vals[v].node]) {
        v = n->in[0].id;
        if (ls_type_count(&g->vals[v].type) != count)
            return 0;
    }
    return ls_is_source(g->nodes[g->vals[v].node]) ? 0 : v;
}

/* A read of memory that an output replaces: its position in `order`, and the range of bytes that it may
 * read. */
typedef struct old_read {
    int source, when;
    int64_t begin, end;
} old_read;

typedef struct old_reads {
    int n;
    old_read *list;
} old_reads;

/* The range of bytes of its root that a view covers, or a larger one. */
static void range_in_root(const ls_graph *g, int v, int64_t *begin, int64_t *end)
{
    const ls_node *n = g->nodes[g->vals[v].node];
    *begin = 0;
    *end = (int64_t)ls_type_bytes(&g->vals[v].type);
    if (!ls_is_view(n))
        return;
    range_in_root(g, n->in[0].id, begin, end);
    if (n->op == &ls_op_flat_view) {
        *begin += ((const ls_flat_view_attrs *)n->attrs)->offset *
                  (int64_t)ls_dtype_size(g->vals[v].type.dtype);
        *end = *begin + (int64_t)ls_type_bytes(&g->vals[v].type);
    }
}

static ls_status list_old_reads(ls_planner *p, old_reads *r)
{
    const ls_graph *g = p->old;
    bool *replaced = LS_ARENA_ARRAY(&p->scratch, bool, g->n_vals);
    int most = 0;
    LS_TRY(ls_arena_status(&p->scratch));
    for (int i = 0; i < g->n_outputs; i++)
        replaced[p->replaces[i]] = p->replaces[i] > 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < p->n_order; i++) {
            const ls_node *n = g->nodes[p->order[i]];
            for (int j = 0; !ls_is_view(n) && j < n->n_in; j++) {
                if (!ls_present(n->in[j]) || !replaced[p->root[n->in[j].id]])
                    continue;
                if (pass == 0) {
                    most++;
                    continue;
                }
                old_read *x = &r->list[r->n++];
                *x = (old_read){ .source = p->root[n->in[j].id], .when = i };
                range_in_root(g, n->in[j].id, &x->begin, &x->end);
            }
        }
        if (pass == 0)
            r->list = LS_ARENA_ARRAY(&p->scratch, old_read, most + 1);
        LS_TRY(ls_arena_status(&p->scratch));
    }
    return LS_OK;
}

/* Whether v may be computed in bytes [begin, end) of `out`. If `out` lies in a source, the old content of
 * these bytes must have been read before. */
static bool is_free(const ls_planner *p, const old_reads *r, int out, int v, int64_t begin, int64_t end)
{
    const int when = p->when[p->old->vals[v].node];
    int source = out;
    for (; p->computed_in[source].inside; source = p->computed_in[source].inside) {
        begin += p->computed_in[source].offset;
        end += p->computed_in[source].offset;
    }
    for (int i = 0; i < r->n; i++)
        if (r->list[i].source == source && r->list[i].when >= when && r->list[i].begin < end &&
            begin < r->list[i].end)
            return false;
    return true;
}

/* The operand that v, which is computed inside a buffer, may overwrite; 0: none. */
static int overwritten(const ls_planner *p, int v, const int *last_use)
{
    const ls_graph *g = p->old;
    const ls_node *n = g->nodes[g->vals[v].node];
    for (int j = 0; j < n->n_in && j < 32 && g->vals[v].out == 0; j++) {
        const int u = n->in[j].id;
        bool once = true; /* whether no other operand is in the same memory */
        for (int k = 0; k < n->n_in; k++)
            once = once && (k == j || !ls_present(n->in[k]) || p->root[n->in[k].id] != u);
        if ((n->op->inplace >> j & 1) && ls_present(n->in[j]) && once && p->root[u] == u &&
            last_use[u] == p->when[n->id] && !p->computed_in[u].inside && !p->named[u] && !has_alias(g, u) &&
            p->kernel[g->vals[u].node] && ls_type_equal(&g->vals[u].type, &g->vals[v].type))
            return u;
    }
    return 0;
}

static void compute_in_pack(ls_planner *p, const ls_node *pack, const int *last_use, const old_reads *reads)
{
    const ls_graph *g = p->old;
    const ls_pack_attrs *a = pack->attrs;
    const int out = pack->out[0].id;
    const ls_tensor whole = layout(p, out);
    const int64_t size = (int64_t)ls_dtype_size(whole.type.dtype);
    for (int j = 0; j < pack->n_in; j++) {
        const int v = behind_reshapes(g, pack->in[j].id);
        if (!v || p->computed_in[v].inside || p->named[v] || has_alias(g, v))
            continue;
        ls_tensor part = { .type = g->vals[pack->in[j].id].type };
        memcpy(part.strides, whole.strides, sizeof part.strides);
        ls_strides_canonical(&part);
        ls_tensor inside = { .type = g->vals[v].type };
        if (!ls_strides_reshape(&part, &inside.type, inside.strides))
            continue;
        const ls_kernel *k = p->kernel[g->vals[v].node];
        if (!ls_strides_are_contiguous(&inside) &&
            !(k && ls_strides_are_rows(&inside) && ls_mask_has(k->rows_out, g->vals[v].out)))
            continue;
        const int64_t offset = a->starts.v[j] * whole.strides[a->dim] * size,
                      end = offset + ls_strides_extent(&part) * size;
        if (!is_free(p, reads, out, v, offset, end))
            continue;
        p->computed_in[v].inside = out;
        p->computed_in[v].offset = offset;
        p->computed_in[v].part = j;
        memcpy(p->computed_in[v].strides, inside.strides, sizeof inside.strides);
        for (int u, at = v; ls_strides_are_contiguous(&inside) && (u = overwritten(p, at, last_use)) &&
                            is_free(p, reads, out, u, offset, end);
             at = u)
            p->computed_in[u] = p->computed_in[v];
    }
}

int ls_computed_in_place(const ls_planner *p, const ls_node *pack, int j)
{
    const int v = behind_reshapes(p->old, pack->in[j].id);
    return v && p->computed_in[v].inside == pack->out[0].id && p->computed_in[v].part == j ? v : 0;
}

/* The source with the output's identity; 0: none. */
static int source_of(const ls_graph *g, const ls_output_entry *o)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (ls_is_source(g->nodes[i]) &&
            !ls_identity_order(ls_source_is(g->nodes[i]), ls_source_name(g->nodes[i]), o->is, o->name))
            return g->nodes[i]->out[0].id;
    return 0;
}

static void compute_in_source(ls_planner *p, int v, int source, const int *last_use)
{
    const ls_graph *g = p->old;
    const ls_node *n = g->nodes[g->vals[v].node];
    if (p->root[v] != v || g->vals[v].out != 0 || ls_is_source(n) || p->computed_in[v].inside ||
        p->named[v] || last_use[source] > p->when[n->id])
        return;
    for (int j = 0; j < n->n_in; j++) {
        if (!ls_present(n->in[j]) || p->root[n->in[j].id] != source)
            continue;
        if (j > 30 || !(n->op->inplace >> j & 1) ||
            ls_type_bytes(&g->vals[n->in[j].id].type) != ls_type_bytes(&g->vals[v].type))
            return;
    }
    p->computed_in[v].inside = source;
    ls_strides_contiguous(p->computed_in[v].strides, &g->vals[v].type);
}

ls_status ls_planner_avoid_copies(ls_planner *p)
{
    const ls_graph *g = p->old;
    p->computed_in = LS_ARENA_ARRAY(&p->scratch, ls_computed_in, g->n_vals);
    p->named = LS_ARENA_ARRAY(&p->scratch, bool, g->n_vals);
    p->replaces = LS_ARENA_ARRAY(&p->scratch, int, g->n_outputs + 1);
    LS_TRY(ls_arena_status(&p->scratch));

    for (int i = 0; i < g->n_outputs; i++) {
        const ls_output_entry *o = &g->outputs[i];
        const int v = o->value.id, r = p->root[v], source = source_of(g, o);
        if (source && source != r) {
            if (!ls_type_equal(&g->vals[v].type, &g->vals[source].type)) {
                char a[128], b[128];
                return ls_fail(LS_E_SHAPE,
                               "graph \"%s\": output \"%s\" is %s, but the source of that name is %s",
                               g->name, o->name, ls_type_text(a, &g->vals[v].type),
                               ls_type_text(b, &g->vals[source].type));
            }
            for (int k = 0; k < g->n_outputs; k++)
                if (p->root[g->outputs[k].value.id] == source)
                    return ls_fail(
                        LS_E_UNSUPPORTED,
                        "graph \"%s\": output \"%s\" replaces the source of that name, whose old content "
                        "is output \"%s\"; give one of them another name",
                        g->name, o->name, g->outputs[k].name);
            p->replaces[i] = source;
        } else if (!ls_is_source(g->nodes[g->vals[r].node]) && !p->named[r] &&
                   ls_type_bytes(&g->vals[v].type) == ls_type_bytes(&g->vals[r].type)) {
            p->named[r] = true;
        }
    }

    /* [roots]: position in `order` of the last node that reads it; n_order: an output shows it, or a part of
     * it, which lower.c copies at the end */
    int *last_use = LS_ARENA_ARRAY(&p->scratch, int, g->n_vals);
    LS_TRY(ls_arena_status(&p->scratch));
    for (int i = 0; i < p->n_order; i++) {
        const ls_node *n = g->nodes[p->order[i]];
        for (int j = 0; !ls_is_view(n) && j < n->n_in; j++)
            if (ls_present(n->in[j]))
                last_use[p->root[n->in[j].id]] = i;
    }
    for (int i = 0; i < g->n_outputs; i++)
        last_use[p->root[g->outputs[i].value.id]] = p->n_order;
    for (int i = 0; i < g->n_outputs; i++)
        if (p->replaces[i])
            compute_in_source(p, g->outputs[i].value.id, p->replaces[i], last_use);

    old_reads reads = { 0 };
    LS_TRY(list_old_reads(p, &reads));
    for (int i = p->n_order - 1; i >= 0; i--)
        if (g->nodes[p->order[i]]->op == &ls_op_pack)
            compute_in_pack(p, g->nodes[p->order[i]], last_use, &reads);
    return LS_OK;
}
