/* nf4.c - weights of linear layers in 4 bits (base/nf4.h), under the names of a checkpoint (ckpt/nf4.h). */
#define LS_NO_CALL_SITES
#include "nf4.h"

#include "base/argument.h"
#include "base/nf4.h"
#include "graph/graph.h"
#include "ops/rules.h"

ls_status ls_base_nf4(ls_graph *g)
{
    LS_ARG(g);
    g->nf4 = true;
    return LS_OK;
}

/* The codes are declared with the initial values of the numbers that they stand for. */
ls_value ls_nf4_weight(ls_graph *g, int64_t out, int64_t in, ls_init init)
{
    const int64_t blocks = in / LS_NF4_BLOCK;
    const ls_init zero = { .kind = LS_INIT_ZERO };
    if (in % LS_NF4_BLOCK) {
        ls_graph_error(
            g, LS_E_SHAPE,
            "layer %s has %lld inputs: a weight of 4 bits has blocks of %d numbers, which must divide "
            "them",
            g->scope->path, (long long)in, LS_NF4_BLOCK);
        return (ls_value){ .id = -1 };
    }
    const ls_value codes = ls_param(g, "weight", LS_TYPE(LS_U8, out, in / 2), init),
                   bytes = ls_param(g, "weight.absmax", LS_TYPE(LS_U8, out, blocks), zero),
                   nested = ls_param(g, "weight.nested_absmax", LS_TYPE(LS_F32, ls_nf4_nested(out * blocks)),
                                     zero),
                   offset = ls_param(g, "weight.nested_offset", LS_TYPE(LS_F32, 1), zero);
    return ls_dequantize(g, codes, bytes, nested, offset);
}
