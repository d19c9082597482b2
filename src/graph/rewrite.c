/* rewrite.c - copies a graph node by node, with a map from old values to new ones. */
#include "rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/stop.h"
#include "base/sys.h"
#include "identity.h"
#include "op.h"

static void *zeroed(int n, size_t size) { return ls_sys_calloc(n ? (size_t)n : 1, size); }

ls_status ls_rewrite_begin(ls_rewrite *r, const ls_graph *from)
{
    *r = (ls_rewrite){ .from = from };
    LS_TRY(ls_graph_status(from));
    LS_TRY(ls_stop_check("the program %s of %d operations was compiled", from->name, from->n_nodes));
    LS_TRY(ls_graph_create(&r->to, from->name));
    r->map = zeroed(from->n_vals, sizeof *r->map);
    r->scopes = zeroed(from->n_scopes, sizeof *r->scopes);
    if (!r->map || !r->scopes) {
        ls_rewrite_abort(r);
        return ls_fail(LS_E_MEMORY, "graph \"%s\": out of memory", from->name);
    }
    r->scopes[0] = &r->to->root;
    r->to->n_scopes = from->n_scopes;
    r->to->keeps_sources = from->keeps_sources;
    r->to->tensor_plan = from->tensor_plan ? ls_arena_strdup(&r->to->arena, from->tensor_plan) : NULL;
    return LS_OK;
}

static const ls_scope *scope_of(ls_rewrite *r, const ls_scope *old)
{
    if (!r->scopes[old->id]) {
        ls_scope *s = LS_ARENA_NEW(&r->to->arena, ls_scope);
        if (!s)
            return &r->to->root;
        *s = (ls_scope){ .parent = scope_of(r, old->parent),
                         .path = ls_arena_strdup(&r->to->arena, old->path),
                         .block = ls_arena_strdup(&r->to->arena, old->block),
                         .id = old->id,
                         .wide = old->wide };
        r->scopes[old->id] = s;
    }
    return r->scopes[old->id];
}

ls_value ls_rewrite_value(const ls_rewrite *r, ls_value old)
{
    if (old.id <= 0)
        return old;
    ls_value v = r->map[old.id];
    return (ls_value){ .id = v.id ? v.id : -1 };
}

void ls_rewrite_like(ls_rewrite *r, const ls_node *n)
{
    r->to->scope = scope_of(r, n->scope);
    r->to->phase = n->phase;
    r->to->stage = n->stage;
    r->to->at = n->at;
    r->to->file = n->file ? ls_arena_strdup(&r->to->arena, n->file) : NULL;
    r->to->line = n->line;
}

/* The new value takes over the old one's placement if their shapes are equal. */
static void keep_placement(ls_rewrite *r, ls_value old, ls_value new)
{
    const ls_val *from = ls_val_of(r->from, old);
    ls_val *to = &r->to->vals[new.id];
    bool same = from->placed && !to->placed && from->type.ndim == to->type.ndim;
    for (int d = 0; same && d < to->type.ndim; d++)
        same = from->type.dims[d] == to->type.dims[d];
    if (same)
        to->placed = ls_placed_copy(&r->to->arena, from->placed);
}

/* The id, in the new graph, of the node that n repeats. If that node is gone, the copy's own id. */
static int clone_of(const ls_rewrite *r, const ls_node *n, const ls_node *copy)
{
    if (n->clone_of < 0)
        return -1;
    ls_value repeated = r->map[r->from->nodes[n->clone_of]->out[0].id];
    return repeated.id > 0 ? ls_node_of(r->to, repeated)->id : copy->id;
}

static ls_node *copy_here(ls_rewrite *r, const ls_node *n, const ls_value *in, const void *attrs)
{
    ls_node *copy = ls_graph_add(r->to, n->op, n->n_in, in, attrs);
    if (!copy)
        return NULL;
    copy->clone_of = clone_of(r, n, copy);
    for (int i = 0; i < n->n_out && i < copy->n_out; i++) {
        r->map[n->out[i].id] = copy->out[i];
        keep_placement(r, n->out[i], copy->out[i]);
    }
    return copy;
}

ls_node *ls_rewrite_copy_with(ls_rewrite *r, const ls_node *n, const ls_value *in, const void *attrs)
{
    ls_rewrite_like(r, n);
    return copy_here(r, n, in, attrs);
}

ls_node *ls_rewrite_copy_at(ls_rewrite *r, const ls_node *n, const ls_value *in, const ls_box *at)
{
    ls_rewrite_like(r, n);
    r->to->at = at;
    return copy_here(r, n, in, n->attrs);
}

ls_node *ls_rewrite_copy(ls_rewrite *r, const ls_node *n)
{
    ls_value few[16] = { { 0 } }, *in = n->n_in <= 16 ? few : ls_rewrite_operands(r, n);
    for (int i = 0; in == few && i < n->n_in; i++)
        in[i] = ls_rewrite_value(r, n->in[i]);
    return in ? ls_rewrite_copy_with(r, n, in, n->attrs) : NULL;
}

ls_value *ls_rewrite_operands(ls_rewrite *r, const ls_node *n)
{
    ls_value *in = LS_ARENA_ARRAY(&r->to->arena, ls_value, n->n_in + 1);
    for (int k = 0; ls_graph_room(r->to) && k < n->n_in; k++)
        in[k] = ls_rewrite_value(r, n->in[k]);
    return ls_graph_room(r->to) ? in : NULL;
}

void ls_rewrite_abort(ls_rewrite *r)
{
    free(r->map);
    free(r->scopes);
    ls_graph_destroy(&r->to);
}

ls_status ls_rewrite_end(ls_rewrite *r, ls_graph **g)
{
    for (int i = 0; i < r->from->n_outputs; i++)
        ls_output_like(r->to, &r->from->outputs[i], ls_rewrite_value(r, r->from->outputs[i].value));
    ls_status s = ls_graph_status(r->to);
    if (s != LS_OK) {
        ls_rewrite_abort(r);
        return s;
    }
    for (int i = 1; i < r->from->n_vals; i++)
        if (ls_present(r->map[i]))
            keep_placement(r, (ls_value){ .id = i }, r->map[i]);
    s = ls_graph_status(r->to);
    if (s != LS_OK) {
        ls_rewrite_abort(r);
        return s;
    }
    r->to->scope = &r->to->root;
    r->to->phase = r->from->phase;
    r->to->stage = 0;
    r->to->at = NULL;
    free(r->map);
    free(r->scopes);
    ls_graph_destroy(g);
    *g = r->to;
    return LS_OK;
}

ls_status ls_rewrite_clone(ls_graph **out, const ls_graph *g)
{
    ls_rewrite r;
    *out = NULL;
    LS_TRY(ls_rewrite_begin(&r, g));
    for (int i = 0; i < g->n_nodes && r.to->status == LS_OK; i++)
        ls_rewrite_copy(&r, g->nodes[i]);
    return ls_rewrite_end(&r, out);
}

ls_status ls_uses_init(ls_uses *u, const ls_graph *g)
{
    u->count = zeroed(g->n_vals, sizeof *u->count);
    u->user = zeroed(g->n_vals, sizeof *u->user);
    LS_TRY(ls_sys_have(u->count ? u->user : NULL));
    memset(u->user, 0xff, sizeof(int) * (size_t)g->n_vals); /* -1 */
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            u->count[g->nodes[i]->in[k].id]++;
            u->user[g->nodes[i]->in[k].id] = i;
        }
    for (int i = 0; i < g->n_outputs; i++)
        u->count[g->outputs[i].value.id]++;
    return LS_OK;
}

void ls_uses_release(ls_uses *u)
{
    free(u->count);
    free(u->user);
}
