/* units.c - how a parameter is used becomes a chain of ops on what is stored: flat state -> (cast) -> view -> use. The gradient of that
 * chain puts every parameter's gradient into one flat buffer. Also the precision policy, which is a matter of the same chain. */
#define LS_NO_CALL_SITES /* nodes made here keep the model's line */
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

void ls_units_release(ls_units *u)
{
    ls_arena_release(&u->arena);
    *u = (ls_units){ 0 };
}

static int64_t padded(int64_t elements, ls_dtype t)
{
    int64_t step = 64 / (int64_t)ls_dtype_size(t);
    return (elements + step - 1) / step * step;
}

static ls_status lay_out(const ls_graph *g, ls_units *u)
{
    ls_arena_init(&u->arena);
    u->state = "unit root";
    for (int i = 0; i < g->n_nodes; i++)
        u->n_slots += g->nodes[i]->op == &ls_op_param;
    if (!u->n_slots)
        return ls_fail(LS_E_ARG, "model \"%s\" has no parameters", g->name);
    u->slots = LS_ARENA_ARRAY(&u->arena, ls_slot, u->n_slots);
    int k = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->op != &ls_op_param)
            continue;
        const ls_source_attrs *a = g->nodes[i]->attrs;
        if (k == 0)
            u->dtype = a->type.dtype;
        if (a->type.dtype != u->dtype)
            return ls_fail(LS_E_UNSUPPORTED, "parameter %s is %s, the others of its unit are %s", a->name, ls_dtype_name(a->type.dtype),
                           ls_dtype_name(u->dtype));
        u->slots[k++] = (ls_slot){ .name = ls_arena_strdup(&u->arena, a->name), .type = a->type, .offset = u->elements,
                                   .init = { (ls_init_kind)a->init, a->init_a, a->init_b } };
        u->elements += padded(ls_type_count(&a->type), u->dtype);
        u->parameters += ls_type_count(&a->type);
    }
    return LS_OK;
}

static bool is_float(const ls_rewrite *r, ls_value v) { return ls_present(v) && ls_dtype_is_float(ls_value_type(r->to, v).dtype); }

/* Operands of different float types meet in the compute type; scalars of the loss are left alone. */
static void agree(ls_rewrite *r, const ls_node *n, ls_value *in, ls_dtype param, ls_dtype output)
{
    if (n->op == &ls_op_cross_entropy) {
        if (is_float(r, in[0]) && ls_value_type(r->to, in[0]).dtype != LS_F64)
            in[0] = ls_cast(r->to, in[0], output);
        return;
    }
    bool mixed = false;
    int first = -1;
    for (int k = 0; k < n->n_in; k++)
        if (is_float(r, in[k])) {
            first = first < 0 ? k : first;
            mixed |= ls_value_type(r->to, in[k]).dtype != ls_value_type(r->to, in[first]).dtype;
        }
    for (int k = 0; k < n->n_in && mixed; k++)
        if (is_float(r, in[k]))
            in[k] = ls_cast(r->to, in[k], param);
}

ls_status ls_pass_units(ls_graph **gp, ls_dtype param, ls_dtype output, ls_units *u)
{
    const ls_graph *g = *gp;
    *u = (ls_units){ 0 };
    ls_status s = lay_out(g, u);
    ls_rewrite r;
    if (s == LS_OK)
        s = ls_rewrite_begin(&r, g);
    if (s != LS_OK) {
        ls_units_release(u);
        return s;
    }
    ls_value flat = ls_state(r.to, u->state, LS_TYPE(u->dtype, u->elements), (ls_init){ 0 });
    ls_value gathered = ls_cast(r.to, flat, u->dtype == LS_F64 ? LS_F64 : param);
    int k = 0;
    for (int i = 0; i < g->n_nodes && r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        ls_rewrite_like(&r, n);
        if (n->op == &ls_op_param) {
            r.map[n->out[0].id] = ls_flat_view(r.to, gathered, u->slots[k].offset, &u->slots[k].type);
            k++;
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

ls_status ls_pass_to_f64(ls_graph **gp)
{
    const ls_graph *g = *gp;
    ls_rewrite r;
    LS_TRY(ls_rewrite_begin(&r, g));
    for (int i = 0; i < g->n_nodes && r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        ls_value *in = LS_ARENA_ARRAY(&r.to->arena, ls_value, n->n_in + 1);
        for (int k = 0; k < n->n_in; k++)
            in[k] = ls_rewrite_value(&r, n->in[k]);
        union { ls_source_attrs source; ls_fill_attrs fill; ls_cast_attrs cast; } a;
        const void *attrs = n->attrs;
        if ((n->op->flags & LS_OP_SOURCE) && ((const ls_source_attrs *)attrs)->type.dtype == LS_F32) {
            a.source = *(const ls_source_attrs *)attrs;
            a.source.type.dtype = LS_F64;
            attrs = &a;
        } else if (n->op == &ls_op_fill && ((const ls_fill_attrs *)attrs)->type.dtype == LS_F32) {
            a.fill = *(const ls_fill_attrs *)attrs;
            a.fill.type.dtype = LS_F64;
            attrs = &a;
        } else if (n->op == &ls_op_cast && ((const ls_cast_attrs *)attrs)->to == LS_F32) {
            a.cast.to = LS_F64;
            attrs = &a;
        }
        ls_rewrite_copy_with(&r, n, in, attrs);
    }
    return ls_rewrite_end(&r, gp);
}
