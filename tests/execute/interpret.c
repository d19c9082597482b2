/* interpret.c - see interpret.h. */
#include "interpret.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "graph/op.h"
#include "support/support.h"

static ls_tensor tensor(const ls_graph *g, void **values, ls_value v)
{
    ls_tensor t = ls_tensor_of(NULL, ls_type_of(g, v));
    t.data = ls_present(v) ? values[v.id] : NULL;
    return t;
}

static void copy_view(const ls_graph *g, const ls_node *n, void **values)
{
    const ls_type *in_type = ls_type_of(g, n->in[0]), *type = ls_type_of(g, n->out[0]);
    ls_infer infer = {
        .op = n->op, .n_in = 1, .in = in_type, .attrs = n->attrs, .n_out = 1, .out = { *type }
    };
    ls_tensor in = tensor(g, values, n->in[0]), out = { .type = *type };
    int64_t offset = 0;
    assert_true(n->op->view(&infer, &in, &out, &offset));
    const size_t size = ls_dtype_size(type->dtype);
    const int64_t count = ls_type_count(type);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = offset, left = i;
        for (int d = type->ndim - 1; d >= 0; d--) {
            at += left % type->dims[d] * out.strides[d];
            left /= type->dims[d];
        }
        memcpy((char *)values[n->out[0].id] + (size_t)i * size, (char *)in.data + (size_t)at * size, size);
    }
}

void interpret(const ls_graph *g, void **values)
{
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (n->op->flags & LS_OP_SOURCE)
            continue;
        ls_tensor operands[40] = { 0 };
        assert_true(n->n_in + n->n_out <= 40);
        for (int k = 0; k < n->n_out; k++) {
            values[n->out[k].id] = calloc(1, ls_type_bytes(ls_type_of(g, n->out[k])) + 1);
            if (n->op->alias[k]) /* an update in place: on a copy of what it updates */
                memcpy(values[n->out[k].id], values[n->in[n->op->alias[k] - 1].id],
                       ls_type_bytes(ls_type_of(g, n->out[k])));
        }
        if (n->op->flags & LS_OP_VIEW) {
            copy_view(g, n, values);
            continue;
        }
        for (int j = 0; j < n->n_in; j++)
            operands[j] = tensor(g, values, n->in[j]);
        for (int k = 0; k < n->n_out; k++) {
            operands[n->n_in + k] = tensor(g, values, n->out[k]);
            if (n->op->alias[k])
                operands[n->op->alias[k] - 1].data = values[n->out[k].id];
        }
        ls_kernel_args a = { .n_in = n->n_in,
                             .n_out = n->n_out,
                             .in = operands,
                             .out = operands + n->n_in,
                             .attrs = n->attrs,
                             .at = n->at,
                             .threads = 1 };
        const char *why, *name = n->op->flags & LS_OP_TRANSFER ? "copy" : n->op->name;
        const ls_kernel *kernel = ls_device_find(&d, name, &a, &why);
        assert_non_null(kernel);
        a.workspace = kernel->workspace ? aligned_alloc(64, (kernel->workspace(&a) + 127) / 64 * 64) : NULL;
        kernel->run(&a);
        free(a.workspace);
    }
}

void interpret_release(const ls_graph *g, void **values)
{
    for (int v = 1; v < g->n_vals; v++)
        free(values[v]);
}
