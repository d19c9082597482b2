/* unpack.c - a matrix product takes a weight of 4 bits as it is, if the device has a kernel for that: its
 * codes and scales become operands in place of the numbers that `dequantize` makes of them. */
#define LS_NO_CALL_SITES
#include "device/device.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

enum { WEIGHT = 1, SCALES = 4, OPERANDS };

/* The node that makes the weight of this product of its codes; NULL: none. */
static const ls_node *codes_of(const ls_graph *g, const ls_node *n)
{
    const bool product = n->op == &ls_op_linear || n->op == &ls_op_linear_dx;
    const ls_node *w = product && n->n_in <= SCALES ? ls_node_of(g, n->in[WEIGHT]) : NULL;
    return w && w->op == &ls_op_dequantize ? w : NULL;
}

static bool supported(const ls_device *d, const ls_graph *g, const ls_node *n, const ls_value *in)
{
    ls_tensor operands[OPERANDS], results[LS_MAX_OUT];
    const char *why;
    for (int k = 0; k < OPERANDS; k++)
        operands[k] = ls_present(in[k]) ? ls_tensor_of(NULL, ls_type_of(g, in[k]))
                                        : (ls_tensor){ .type.ndim = -1 };
    for (int k = 0; k < n->n_out; k++)
        results[k] = ls_tensor_of(NULL, ls_type_of(g, n->out[k]));
    return ls_device_find(d, n->op->name,
                          &(ls_kernel_args){ .n_in = OPERANDS,
                                             .n_out = n->n_out,
                                             .in = operands,
                                             .out = results,
                                             .attrs = n->attrs,
                                             .arch = d->arch,
                                             .threads = d->threads },
                          &why) != NULL;
}

ls_status ls_pass_take_codes(ls_graph **gp, const ls_device *d)
{
    const ls_graph *g = *gp;
    ls_rewrite r;
    bool any = false;
    for (int i = 0; i < g->n_nodes && !any; i++)
        any = g->nodes[i]->op == &ls_op_dequantize;
    if (!any)
        return LS_OK;
    LS_TRY(ls_rewrite_begin(&r, g));
    for (int i = 0; i < g->n_nodes && r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i], *w = codes_of(g, n);
        ls_value in[OPERANDS] = { { 0 } };
        for (int k = 0; w && k < n->n_in; k++)
            in[k] = n->in[k];
        if (w) {
            in[WEIGHT] = w->in[0];
            in[SCALES] = w->in[1];
        }
        if (!w || !supported(d, g, n, in)) {
            ls_rewrite_copy(&r, n);
            continue;
        }
        for (int k = 0; k < OPERANDS; k++)
            in[k] = ls_present(in[k]) ? ls_rewrite_value(&r, in[k]) : LS_NONE;
        ls_rewrite_like(&r, n);
        ls_node *product = ls_graph_add(r.to, n->op, OPERANDS, in, n->attrs);
        if (!product)
            break;
        product->clone_of = n->clone_of < 0 ? -1 : product->id;
        for (int k = 0; k < n->n_out; k++)
            r.map[n->out[k].id] = product->out[k];
    }
    return ls_rewrite_end(&r, gp);
}
