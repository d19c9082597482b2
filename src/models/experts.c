/* experts.c - see experts.h. A token's weight multiplies what goes into the last layer of its expert, which
 * is linear: that layer's rows are then added up as they are. */
#include <stdio.h>

#include "experts.h"
#include "graph/graph.h"
#include "graph/tensor_attrs.h"
#include "lockstep/nn.h"
#include "nn/nf4.h"
#include "ops/rules.h"

/* What goes to which expert. */
typedef struct route {
    ls_value order, place, offsets, weights; /* weights: of the rows in their order, [rows, 1] */
} route;

ls_value ls_router(ls_graph *g, const char *name, ls_value x, int64_t out, ls_init weight)
{
    const ls_type t = ls_value_type(g, x);
    LS_SCOPE(g, name, "Router");
    const ls_type type = LS_TYPE(LS_F32, out, t.ndim > 0 ? t.dims[t.ndim - 1] : 1);
    return ls_matmul_wt(g, x, ls_param(g, "weight", type, weight), LS_NONE);
}

/* numbers i32 [tokens of all samples, k], probabilities [.., experts] */
static void add_to_balance(ls_graph *g, ls_experts_balance *b, ls_value numbers, ls_value probabilities,
                           int64_t batch)
{
    const ls_type t = ls_value_type(g, numbers), p = ls_value_type(g, probabilities);
    if (t.ndim != 2 || p.ndim != 2) /* an earlier call failed */
        return;
    const int64_t tokens = t.dims[0] / batch, rows = tokens * t.dims[1], experts = p.dims[1];
    const ls_value chosen = ls_graph_apply(g, &ls_op_scatter_add, 2,
                                           (ls_value[]){ ls_fill(g, LS_TYPE(LS_F32, batch, rows), 1),
                                                         ls_reshape(g, numbers, batch, rows) },
                                           &(ls_index_attrs){ .dim = 1, .size = experts }),
                   probable = ls_sum(g, ls_reshape(g, probabilities, batch, tokens, experts), 1, false);
    b->chosen = b->routed ? ls_add(g, b->chosen, chosen) : chosen;
    b->probable = b->routed ? ls_add(g, b->probable, probable) : probable;
    b->routed += tokens;
    b->per_token = t.dims[1];
}

static route route_tokens(ls_graph *g, ls_value x, const ls_experts_config *c, ls_experts_balance *balance,
                          int64_t batch)
{
    route r;
    const ls_value logits = ls_router(g, "gate", x, c->experts, c->weight);
    ls_wide_begin(g); /* 16 bits do not tell probabilities apart */
    const ls_value all = ls_softmax(g, logits), top = ls_top_k(g, all, c->per_token);
    const ls_value weights = c->normalize ? ls_div(g, top, ls_sum(g, top, -1, true)) : top;
    add_to_balance(g, balance, ls_nth(g, top, 1), all, batch);
    ls_wide_end(g);
    r.order = ls_group_order(g, ls_nth(g, top, 1), c->experts);
    r.place = ls_nth(g, r.order, 1);
    r.offsets = ls_nth(g, r.order, 2);
    r.weights = ls_reshape(g, ls_dispatch(g, ls_reshape(g, weights, -1), r.order, r.place), -1, 1);
    return r;
}

/* A layer `name` of all experts: rows x [rows, in] in the order of the experts -> [rows, out]. */
static ls_value layer_of_experts(ls_graph *g, const char *name, ls_value x, int64_t out, const route *r,
                                 const ls_experts_config *c)
{
    ls_value *in = LS_ARENA_ARRAY(&g->arena, ls_value, 2 + c->experts);
    const ls_type t = ls_value_type(g, x);
    const int64_t width = t.ndim > 1 ? t.dims[1] : 1;
    if (!ls_graph_room(g))
        return x;
    in[0] = x;
    in[1] = r->offsets;
    for (int64_t e = 0; e < c->experts; e++) {
        char path[64];
        snprintf(path, sizeof path, "experts.%lld.%s", (long long)e, name);
        LS_SCOPE(g, path, "Linear");
        in[2 + e] = g->nf4 ? ls_nf4_weight(g, out, width, c->weight)
                           : ls_param(g, "weight", LS_TYPE(LS_F32, out, width), c->weight);
    }
    return ls_graph_apply(g, &ls_op_grouped_linear, (int)(2 + c->experts), in, &(ls_group_attrs){ 0 });
}

ls_value ls_experts(ls_graph *g, ls_value x, const ls_experts_config *c, ls_experts_balance *balance)
{
    const ls_type t = ls_value_type(g, x);
    if (t.ndim != 3) /* an earlier call failed */
        return x;
    const int64_t hidden = t.dims[2], tokens = t.dims[0] * t.dims[1];
    const ls_value rows = ls_reshape(g, x, tokens, hidden);
    const route r = route_tokens(g, rows, c, balance, t.dims[0]);
    const ls_value sent = ls_dispatch(g, rows, r.order, r.place);
    ls_value h = ls_swiglu(g, layer_of_experts(g, c->gate, sent, c->size, &r, c),
                           layer_of_experts(g, c->up, sent, c->size, &r, c));
    h = layer_of_experts(g, c->down, ls_mul(g, h, r.weights), hidden, &r, c);
    return ls_reshape_dims(g, ls_combine(g, h, r.order, r.place, tokens), t.ndim, t.dims);
}

static double number_of_experts(const ls_graph *g, const ls_experts_balance *b)
{
    const ls_type t = ls_value_type(g, b->chosen);
    return t.ndim > 1 ? (double)t.dims[1] : 1;
}

ls_value ls_experts_balance_rows(ls_graph *g, const ls_experts_balance *b)
{
    const double routed = (double)b->routed, experts = number_of_experts(g, b);
    ls_wide_begin(g);
    const ls_value rows = ls_mul_const(g, ls_sum(g, ls_mul(g, b->chosen, b->probable), 1, false),
                                       experts / (routed * routed));
    ls_wide_end(g);
    return rows;
}

ls_value ls_experts_busiest_rows(ls_graph *g, const ls_experts_balance *b)
{
    const double even = (double)(b->routed * b->per_token) / number_of_experts(g, b);
    ls_wide_begin(g);
    const ls_value rows = ls_div_const(g, ls_amax(g, b->chosen, 1, false), even);
    ls_wide_end(g);
    return rows;
}
