/* interpret.c - see interpret.h. A view is resolved through its op's `view`; where the strides cannot express
 * it, the input is copied. */
#include "interpret.h"

#include <stdlib.h>

#include "cases.h"
#include "support/support.h"

struct interpreter {
    const ls_graph *g;
    ls_device ref;
    ls_tensor *values; /* by value id */
    void **owned;      /* memory of value id, NULL if another value's */
    ls_tensor *copies; /* by node id: contiguous copy of a view's input, data NULL if there is none */
};

static void gather(const interpreter *it, const ls_node *n, ls_tensor in[n->n_in + 1])
{
    for (int j = 0; j < n->n_in; j++)
        in[j] = it->values[n->in[j].id];
}

static void resolve_view(interpreter *it, const ls_node *n)
{
    ls_tensor in = it->values[n->in[0].id], *out = &it->values[n->out[0].id];
    int64_t offset = 0;
    ls_infer i = { .op = n->op, .n_in = 1, .in = &in.type, .attrs = n->attrs, .n_out = 1 };
    ASSERT_OK(n->op->infer(&i));
    if (!n->op->view(&i, &in, out, &offset)) {
        it->copies[n->id] = in = ls_tensor_of(exact_alloc(ls_type_bytes(&in.type)), &in.type);
        assert_true(n->op->view(&i, &in, out, &offset));
    }
    out->data = (char *)in.data + offset * (int64_t)ls_dtype_size(in.type.dtype);
}

interpreter *interpret_create(const ls_graph *g)
{
    interpreter *it = calloc(1, sizeof *it);
    assert_non_null(it);
    *it = (interpreter){ .g = g,
                         .ref = { .ops = &ls_device_ref, .threads = 1 },
                         .values = calloc((size_t)g->n_vals, sizeof *it->values),
                         .owned = calloc((size_t)g->n_vals, sizeof *it->owned),
                         .copies = calloc((size_t)g->n_nodes + 1, sizeof *it->copies) };
    it->values[0].type.ndim = -1; /* the absent value */
    for (int k = 0; k < g->n_nodes; k++) {
        const ls_node *n = g->nodes[k];
        if (n->op->flags & LS_OP_VIEW) {
            resolve_view(it, n);
            continue;
        }
        for (int o = 0; o < n->n_out; o++) {
            const int v = n->out[o].id;
            if (n->op->alias[o]) {
                it->values[v] = it->values[n->in[n->op->alias[o] - 1].id];
                continue;
            }
            it->owned[v] = exact_alloc(ls_type_bytes(&g->vals[v].type));
            it->values[v] = ls_tensor_of(it->owned[v], &g->vals[v].type);
        }
    }
    return it;
}

void interpret_destroy(interpreter *it)
{
    for (int v = 0; v < it->g->n_vals; v++)
        free(it->owned[v]);
    for (int k = 0; k < it->g->n_nodes; k++)
        free(it->copies[k].data);
    free(it->values);
    free(it->owned);
    free(it->copies);
    free(it);
}

ls_tensor interpret_tensor(const interpreter *it, ls_value v) { return it->values[v.id]; }

void interpret_run(interpreter *it, int n_nodes)
{
    for (int k = 0; k < n_nodes; k++) {
        const ls_node *n = it->g->nodes[k];
        if (n->op->flags & LS_OP_SOURCE)
            continue;
        ls_tensor in[n->n_in + 1], out[LS_MAX_OUT];
        gather(it, n, in);
        if (n->op->flags & LS_OP_VIEW) {
            if (it->copies[k].data)
                run_op(&it->ref, "copy", NULL, 1, in, 1, &it->copies[k]);
            continue;
        }
        for (int o = 0; o < n->n_out; o++)
            out[o] = it->values[n->out[o].id];
        run_op_at(&it->ref, n->op->name, n->attrs, n->at, n->n_in, in, n->n_out, out);
    }
}
