/* rules.c - helpers for shape rules. */
#include "rules.h"

ls_status ls_infer_same(ls_infer *i)
{
    i->out[0] = i->in[0];
    return LS_OK;
}

ls_status ls_infer_broadcast(ls_infer *i)
{
    ls_type out = i->in[0];
    for (int k = 1; k < i->n_in; k++) {
        const ls_type *t = &i->in[k];
        LS_RULE_CHECK(i, t->dtype == out.dtype, "operands have different types; cast one");
        ls_type wide = t->ndim > out.ndim ? *t : out;
        for (int d = 1; d <= wide.ndim; d++) {
            int64_t a = d <= out.ndim ? out.dims[out.ndim - d] : 1,
                    b = d <= t->ndim ? t->dims[t->ndim - d] : 1;
            LS_RULE_CHECK(i, a == b || a == 1 || b == 1,
                          "shapes do not broadcast: %lld against %lld, dimension %d from the right",
                          (long long)a, (long long)b, d);
            wide.dims[wide.ndim - d] = a == 1 ? b : a;
        }
        out = wide;
    }
    LS_RULE_CHECK(i, ls_dtype_is_float(out.dtype), "needs a float type");
    i->out[0] = out;
    return LS_OK;
}

ls_status ls_infer_expect(const ls_infer *i, int j, const ls_type *t, const char *what)
{
    char text[128];
    LS_RULE_CHECK(i, ls_type_equal(&i->in[j], t), "%s must be %s", what, ls_type_text(text, t));
    return LS_OK;
}

ls_status ls_infer_at(const ls_infer *i, const ls_type *t)
{
    bool fits = !i->at || (i->at->ndim == t->ndim && ls_box_inside(i->at));
    for (int d = 0; i->at && fits && d < t->ndim; d++)
        fits = i->at->size[d] == t->dims[d];
    LS_RULE_CHECK(i, fits, "its box in the whole tensor has another shape, or leads out of it");
    return LS_OK;
}

ls_dtype ls_stat_dtype(ls_dtype data) { return data == LS_F64 ? LS_F64 : LS_F32; }

ls_type ls_type_drop_last(const ls_type *t, ls_dtype dtype)
{
    ls_type r = *t;
    r.dtype = dtype;
    r.ndim = t->ndim > 0 ? t->ndim - 1 : 0;
    r.dims[r.ndim] = 0;
    return r;
}

ls_cost ls_cost_move(const ls_infer *i)
{
    ls_cost c = { .bytes = (double)ls_type_bytes(&i->out[0]) };
    for (int k = 0; k < i->n_in; k++)
        c.bytes += (double)ls_type_bytes(&i->in[k]);
    return c;
}

void ls_local_dims(ls_arena *a, ls_i64_list *dims, const ls_type *out)
{
    dims->v = ls_arena_dup(a, out->ndim ? out->dims : NULL, sizeof(int64_t) * (size_t)out->ndim);
    dims->n = dims->v ? out->ndim : 0;
}

void ls_grad_norm(ls_grad *c, const ls_op *grad)
{
    const ls_node *n = c->node;
    const ls_value dx = ls_graph_apply(
        c->g, grad, 5, (ls_value[]){ c->dout[0], n->in[0], n->in[1], n->out[1], n->out[2] }, n->attrs);
    c->din[0] = dx;
    c->din[1] = ls_nth(c->g, dx, 1);
    c->din[2] = ls_nth(c->g, dx, 2);
}
