/* redistribute.c - ops that lead from one placement to another (redistribute.h). Gathers and scatters work
 * along the first dimension, so another one is moved to the front before, and back afterwards. */
#define LS_NO_CALL_SITES /* nodes made here keep the model's line */
#include "redistribute.h"

#include <string.h>

#include "ops/rules.h"

/* The type `whole` with the split dimensions merged into one. */
static ls_type merged(const ls_type *whole, ls_placement p)
{
    ls_type t = *whole;
    for (int d = p.dim + 1; d < p.dim + p.dims; d++)
        t.dims[p.dim] *= whole->dims[d];
    for (int d = p.dim + p.dims; d < whole->ndim; d++)
        t.dims[d - p.dims + 1] = whole->dims[d];
    t.ndim = whole->ndim - p.dims + 1;
    return t;
}

bool ls_placed_type(ls_type *out, const ls_type *whole, ls_placement p, const ls_shard_axis *axis)
{
    *out = *whole;
    if (p.kind != LS_SHARD)
        return true;
    *out = merged(whole, p);
    if (out->dims[p.dim] % axis->ranks)
        return false;
    out->dims[p.dim] /= axis->ranks;
    return true;
}

static ls_value reshaped(ls_graph *g, ls_value v, const ls_type *t)
{
    const ls_type have = ls_value_type(g, v);
    bool same = have.ndim == t->ndim;
    for (int d = 0; d < t->ndim && same; d++)
        same = have.dims[d] == t->dims[d];
    return same ? v : ls_reshape_dims(g, v, t->ndim, t->dims);
}

static ls_value flat(ls_graph *g, ls_value v) { return ls_reshape_dims(g, v, 1, (int64_t[]){ -1 }); }

/* Moves dimension `dim` to the front, or back. */
static ls_value turned(ls_graph *g, ls_value v, int dim, bool back)
{
    const int n = ls_value_type(g, v).ndim;
    int64_t perm[LS_MAX_DIMS];
    for (int d = 0; d < n; d++)
        perm[d] = back ? (d < dim ? d + 1 : d == dim ? 0 : d) : (d == 0 ? dim : d <= dim ? d - 1 : d);
    const ls_type t = ls_value_type(g, v);
    bool stays = true; /* the dimensions that it passes have size 1: no element moves */
    ls_type to = t;
    for (int d = 0; d < n; d++) {
        to.dims[d] = t.dims[perm[d]];
        stays = stays && (d >= dim || t.dims[d + back] == 1);
    }
    return dim == 0 ? v : stays ? ls_reshape_dims(g, v, n, to.dims) : ls_permute_dims(g, v, n, perm);
}

static ls_type turned_type(const ls_type *t, int dim)
{
    ls_type r = *t;
    for (int d = 1; d <= dim; d++)
        r.dims[d] = t->dims[d - 1];
    r.dims[0] = t->dims[dim];
    return r;
}

static ls_value redistribute_gather(ls_graph *g, ls_value v, const ls_type *whole, ls_placement from,
                                    const ls_shard_axis *axis, const char *unit, ls_dtype via)
{
    const ls_gather_attrs a = {
        .group = axis->name, .unit = unit, .ranks = axis->ranks, .to = LS_TO_SAME, .via = via
    };
    const ls_type all = from.dim ? turned_type(whole, from.dim) : *whole;
    v = turned(g, v, from.dim, false);
    if (from.dim) /* another axis may split the other dimensions */
        return turned(g, ls_all_gather(g, v, &a), from.dim, true);
    v = ls_all_gather(g, flat(g, v), &a);
    return turned(g, ls_reshape_dims(g, v, all.ndim, all.dims), from.dim, true);
}

static ls_value scatter(ls_graph *g, ls_value v, const ls_type *mine, ls_placement to,
                        const ls_shard_axis *axis, const char *unit, ls_dtype via)
{
    const ls_reduce_attrs a = {
        .group = axis->name, .unit = unit, .ranks = axis->ranks, .to = LS_TO_SAME, .via = via
    };
    ls_type part = to.dim ? turned_type(mine, to.dim) : *mine;
    part.dims[0] = -1;
    v = ls_reduce_scatter(g, flat(g, turned(g, v, to.dim, false)), &a);
    return turned(g, ls_reshape_dims(g, v, part.ndim, part.dims), to.dim, true);
}

static ls_value shard(ls_graph *g, ls_value v, const ls_type *whole, const ls_type *mine, ls_placement to,
                      const ls_shard_axis *axis)
{
    const ls_type one = merged(whole, to);
    return ls_slice(g, reshaped(g, v, &one), to.dim, axis->position * mine->dims[to.dim], mine->dims[to.dim]);
}

/* The sum of what each rank puts between zeros: so the gradient of all of it, which every rank has, gives
 * each rank that of its part. The zeros are products, because the programs of all ranks have the same nodes
 * and memory. */
static ls_value summed_parts(ls_graph *g, ls_value v, const ls_type *whole, ls_placement from,
                             const ls_shard_axis *axis, const char *unit, ls_dtype via)
{
    ls_value *parts = LS_ARENA_ARRAY(&g->arena, ls_value, axis->ranks);
    if (!ls_graph_room(g))
        return (ls_value){ .id = -1 };
    for (int i = 0; i < axis->ranks; i++)
        parts[i] = ls_mul_const(g, v, i == axis->position);
    const ls_value all = ls_concat(g, from.dim, axis->ranks, parts);
    return ls_all_reduce(g, ls_reshape_dims(g, all, whole->ndim, whole->dims),
                         &(ls_reduce_attrs){ .group = axis->name,
                                             .unit = unit,
                                             .ranks = axis->ranks,
                                             .to = (int64_t)ls_value_type(g, v).dtype,
                                             .via = via,
                                             .how = LS_HOW_SHARED });
}

static ls_value change(ls_graph *g, ls_value v, const ls_type *whole, ls_placement from, ls_placement to,
                       const ls_shard_axis *axis, const char *unit)
{
    char a[32], b[32], t[128];
    ls_type mine;
    if (v.id <= 0 ||
        (from.kind == to.kind && (from.kind != LS_SHARD || (from.dim == to.dim && from.dims == to.dims))))
        return v;
    const ls_type have = ls_value_type(g, v);
    const ls_dtype via = have.dtype == LS_F64 ? LS_F64 : LS_F32;
    if (!ls_placed_type(&mine, whole, to, axis)) {
        ls_graph_error(g, LS_E_USAGE, "%s cannot become %s: the %d ranks of axis %s do not divide it",
                       ls_type_text(t, whole), ls_placement_text(b, to), axis->ranks, axis->name);
        return (ls_value){ .id = -1 };
    }
    if (from.kind == LS_INVARIANT && to.kind != LS_PARTIAL) {
        v = ls_replicate(
            g, v,
            &(ls_replicate_attrs){ .group = axis->name, .unit = unit, .ranks = axis->ranks, .via = via });
        return to.kind == LS_SHARD ? shard(g, v, whole, &mine, to, axis) : v;
    }
    if (from.kind == LS_REPLICATE && to.kind == LS_SHARD)
        return shard(g, v, whole, &mine, to, axis);
    if (from.kind == LS_SHARD && to.kind == LS_INVARIANT && ls_dtype_is_float(have.dtype))
        return summed_parts(g, v, whole, from, axis, unit, via);
    if (from.kind == LS_SHARD && (to.kind == LS_REPLICATE || to.kind == LS_INVARIANT))
        return redistribute_gather(g, v, whole, from, axis, unit, via);
    if (from.kind == LS_PARTIAL && to.kind == LS_SHARD)
        return scatter(g, v, &mine, to, axis, unit, via);
    if (from.kind == LS_PARTIAL)
        return ls_all_reduce(
            g, v,
            &(ls_reduce_attrs){ .group = axis->name,
                                .unit = unit,
                                .ranks = axis->ranks,
                                .to = (int64_t)have.dtype,
                                .via = via,
                                .how = to.kind == LS_INVARIANT ? LS_HOW_SHARED : LS_HOW_SUM });
    ls_graph_error(g, LS_E_UNSUPPORTED, "there is no way from %s to %s", ls_placement_text(a, from),
                   ls_placement_text(b, to));
    return (ls_value){ .id = -1 };
}

void ls_note_placement(ls_graph *g, ls_value v, ls_placement p, const ls_shard_axis *axis)
{
    if (v.id <= 0)
        return;
    const ls_placed *had = ls_val_of(g, v)->placed;
    for (const ls_placed *at = had; at; at = at->next)
        if (!strcmp(at->axis, axis->name))
            return;
    const ls_placed placed = { ls_arena_strdup(&g->arena, axis->name), p, had };
    const ls_placed *kept = ls_arena_dup(&g->arena, &placed, sizeof placed);
    g->vals[v.id].placed = kept ? kept : had;
}

ls_value ls_redistribute(ls_graph *g, ls_value v, const ls_type *whole, ls_placement from, ls_placement to,
                         const ls_shard_axis *axis, const char *unit)
{
    ls_note_placement(g, v, from, axis);
    v = change(g, v, whole, from, to, axis, unit);
    ls_note_placement(g, v, to, axis);
    return v;
}
