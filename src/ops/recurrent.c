/* recurrent.c - LSTM (Hochreiter and Schmidhuber 1997) and GRU (Cho et al. 2014) over time, as in PyTorch.
 * These ops compute the part that goes from token to token. Their input x [batch, tokens, gates * hidden] is
 * the product of the layer's input and its weights for all tokens at once, which `linear` computes. The
 * gradient of w [gates * hidden, hidden] is one product over all tokens, too. If the state before the first
 * token is absent, it is 0. */
#include "rules.h"
#include "base/argument.h"
#include "graph/tensor_attrs.h"

enum { X, W, H0, C0 };                            /* lstm */
enum { DY, DCELLS, LW, CELLS, LACTS, LC0 };       /* its gradient */
enum { BIAS = 2, GH0 };                           /* gru: x, w, bias?, h0? */
enum { GDY, GW, GY, GACTS, GGH0 };                /* its gradient */
enum { LSTM_GATES = 4, GRU_GATES = 3, ACTS = 4 }; /* both keep four numbers of each unit */

static bool recurrent_given(const ls_infer *i, int j) { return j < i->n_in && i->in[j].ndim >= 0; }

/* Operand k, if it is given, must be [batch, hidden]. */
static ls_status may_be_state(const ls_infer *i, int k, const ls_type *y, const char *what)
{
    return recurrent_given(i, k) ? ls_infer_expect(i, k, &LS_TYPE(y->dtype, y->dims[0], y->dims[2]), what)
                                 : LS_OK;
}

static ls_type with_last(const ls_type *t, int64_t n)
{
    ls_type r = *t;
    r.dims[r.ndim - 1] = n;
    return r;
}

/* y [batch, tokens, hidden] of x [batch, tokens, gates * hidden] and w. */
static ls_status check_layer(const ls_infer *i, int64_t gates, ls_type *y)
{
    const ls_type *x = &i->in[X], *w = &i->in[W];
    LS_RULE_CHECK(i, x->ndim == 3 && ls_dtype_is_float(x->dtype) && w->ndim == 2 && w->dims[1] > 0,
                  "needs x [batch, tokens, gates * hidden] and w [gates * hidden, hidden]");
    const int64_t hidden = w->dims[1];
    LS_TRY(ls_infer_expect(i, W, &LS_TYPE(x->dtype, gates * hidden, hidden), "w"));
    LS_RULE_CHECK(i, x->dims[2] == gates * hidden, "x has %lld features, w has %lld rows",
                  (long long)x->dims[2], (long long)(gates * hidden));
    *y = with_last(x, hidden);
    return LS_OK;
}

static ls_status infer_lstm(ls_infer *i)
{
    ls_type y;
    LS_TRY(check_layer(i, LSTM_GATES, &y));
    LS_TRY(may_be_state(i, H0, &y, "h0"));
    LS_TRY(may_be_state(i, C0, &y, "c0"));
    i->out[0] = i->out[1] = y;
    i->out[1].dtype = ls_stat_dtype(y.dtype);
    i->out[2] = i->in[X];
    return LS_OK;
}

static ls_status infer_gru(ls_infer *i)
{
    ls_type y;
    LS_TRY(check_layer(i, GRU_GATES, &y));
    if (recurrent_given(i, BIAS))
        LS_TRY(ls_infer_expect(i, BIAS, &LS_TYPE(y.dtype, GRU_GATES * y.dims[2]), "bias"));
    LS_TRY(may_be_state(i, GH0, &y, "h0"));
    i->out[0] = y;
    i->out[1] = with_last(&y, ACTS * y.dims[2]);
    return LS_OK;
}

static ls_status infer_lstm_grad(ls_infer *i)
{
    const ls_type *acts = &i->in[LACTS];
    const int64_t hidden = i->in[LW].dims[1];
    const ls_type y = with_last(acts, hidden);
    ls_type cells = y;
    cells.dtype = ls_stat_dtype(y.dtype);
    LS_TRY(ls_infer_expect(i, LW, &LS_TYPE(y.dtype, LSTM_GATES * hidden, hidden), "w"));
    LS_RULE_CHECK(i, acts->ndim == 3 && acts->dims[2] == ACTS * hidden, "the gates have another shape");
    LS_TRY(ls_infer_expect(i, CELLS, &cells, "cells"));
    if (recurrent_given(i, DY))
        LS_TRY(ls_infer_expect(i, DY, &y, "dy"));
    if (recurrent_given(i, DCELLS))
        LS_TRY(ls_infer_expect(i, DCELLS, &cells, "dcells"));
    LS_TRY(may_be_state(i, LC0, &y, "c0"));
    i->out[0] = *acts;
    i->out[1] = i->out[2] = LS_TYPE(y.dtype, y.dims[0], hidden);
    return LS_OK;
}

static ls_status infer_gru_grad(ls_infer *i)
{
    const ls_type *y = &i->in[GY];
    const int64_t hidden = i->in[GW].dims[1];
    const ls_type acts = with_last(y, ACTS * hidden);
    LS_TRY(ls_infer_expect(i, GDY, y, "dy"));
    LS_TRY(ls_infer_expect(i, GW, &LS_TYPE(y->dtype, GRU_GATES * hidden, hidden), "w"));
    LS_RULE_CHECK(i, y->ndim == 3 && y->dims[2] == hidden, "y has another shape");
    LS_TRY(ls_infer_expect(i, GACTS, &acts, "the gates"));
    LS_TRY(may_be_state(i, GGH0, y, "h0"));
    i->out[0] = i->out[1] = with_last(y, GRU_GATES * hidden);
    i->out[2] = LS_TYPE(y->dtype, y->dims[0], hidden);
    return LS_OK;
}

/* The state before each token, [batch, tokens, hidden]: h0 or 0, then y without the last token. */
static ls_value states_before(ls_graph *g, ls_value y, ls_value h0, bool reverse)
{
    const ls_type t = *ls_type_of(g, y);
    const int64_t tokens = t.dims[1], first = reverse ? tokens - 1 : 0;
    const bool has = ls_present(h0);
    ls_value state = has ? ls_reshape_dims(g, h0, 3, (int64_t[]){ t.dims[0], 1, t.dims[2] }) : LS_NONE;
    if (tokens == 1)
        return has ? state : ls_fill(g, t, 0);
    ls_value rest = ls_slice(g, y, 1, reverse ? 1 : 0, tokens - 1);
    if (!has)
        return ls_pack(g, 1, &rest, 1, tokens, (int64_t[]){ !reverse });
    const ls_value parts[2] = { first ? rest : state, first ? state : rest };
    return ls_pack(g, 2, parts, 1, tokens, (int64_t[]){ 0, first ? tokens - 1 : 1 });
}

static void grad_lstm(ls_grad *c)
{
    const ls_node *n = c->node;
    const ls_recurrent_attrs *a = n->attrs;
    const ls_value h0 = n->n_in > H0 ? n->in[H0] : LS_NONE, c0 = n->n_in > C0 ? n->in[C0] : LS_NONE;
    if (ls_present(c->dout[2])) {
        ls_graph_error(c->g, LS_E_UNSUPPORTED, "lstm: the gates (output 2) have no gradient");
        return;
    }
    const ls_value dx = ls_graph_apply(
        c->g, &ls_op_lstm_grad, 6, (ls_value[]){ c->dout[0], c->dout[1], n->in[W], n->out[1], n->out[2], c0 },
        a);
    c->din[X] = dx;
    if (c->needs[W])
        c->din[W] = ls_linear_dw(c->g, dx, states_before(c->g, n->out[0], h0, a->reverse), false);
    if (ls_present(h0))
        c->din[H0] = ls_nth(c->g, dx, 1);
    if (ls_present(c0))
        c->din[C0] = ls_nth(c->g, dx, 2);
}

static void grad_gru(ls_grad *c)
{
    const ls_node *n = c->node;
    const ls_recurrent_attrs *a = n->attrs;
    const ls_value bias = n->n_in > BIAS ? n->in[BIAS] : LS_NONE, h0 = n->n_in > GH0 ? n->in[GH0] : LS_NONE;
    if (!ls_present(c->dout[0]) || ls_present(c->dout[1])) {
        ls_graph_error(c->g, LS_E_UNSUPPORTED, "gru: the gates (output 1) have no gradient");
        return;
    }
    const ls_value dx = ls_graph_apply(c->g, &ls_op_gru_grad, 5,
                                       (ls_value[]){ c->dout[0], n->in[W], n->out[0], n->out[1], h0 }, a);
    const bool biased = ls_present(bias) && c->needs[BIAS];
    c->din[X] = dx;
    if (c->needs[W] || biased) {
        const ls_value dw = ls_linear_dw(c->g, ls_nth(c->g, dx, 1),
                                         states_before(c->g, n->out[0], h0, a->reverse), biased);
        c->din[W] = dw;
        if (biased)
            c->din[BIAS] = ls_nth(c->g, dw, 1);
    }
    if (ls_present(h0))
        c->din[GH0] = ls_nth(c->g, dx, 2);
}

/* Each token's state meets all of w; a few operations for each gate. */
static ls_cost cost_recurrent(const ls_infer *i)
{
    ls_cost c = { 0 };
    const ls_type *y = &i->out[0];
    const double rows = (double)(y->dims[0] * y->dims[1]);
    int w = 0;
    for (int k = 0; k < i->n_in; k++) {
        if (i->in[k].ndim < 0)
            continue;
        c.bytes += (double)ls_type_bytes(&i->in[k]);
        w = i->in[k].ndim == 2 && i->in[k].dims[0] > i->in[k].dims[1] && !w ? k : w;
    }
    for (int k = 0; k < i->n_out; k++)
        c.bytes += (double)ls_type_bytes(&i->out[k]);
    c.flops = rows * (2.0 * (double)ls_type_count(&i->in[w]) + 30.0 * (double)i->in[w].dims[1]);
    return c;
}

static const ls_attr_field FIELDS[] = {
    { "reverse", LS_FIELD_I64, offsetof(ls_recurrent_attrs, reverse), NULL }, { 0 }
};
const ls_op ls_op_lstm = {
    .name = "lstm",
    .rule = "b t! g!, g! h!, b h!, b h! -> b t! h!, b t! h!, b t! g!",
    .min_in = 2,
    .max_in = 4,
    .n_out = 3,
    .optional_in = 1 << H0 | 1 << C0,
    .attrs_size = sizeof(ls_recurrent_attrs),
    .fields = FIELDS,
    .infer = infer_lstm,
    .grad = grad_lstm,
    .cost = cost_recurrent,
    .summary = "Runs an LSTM over time, from its input's part of the gates; it keeps all cells and gates.",
};
const ls_op ls_op_lstm_grad = {
    .name = "lstm_grad",
    .rule = LS_RULE_LATER,
    .min_in = 5,
    .max_in = 6,
    .n_out = 3,
    .optional_in = 1 << DY | 1 << DCELLS | 1 << LC0,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_recurrent_attrs),
    .fields = FIELDS,
    .infer = infer_lstm_grad,
    .cost = cost_recurrent,
    .summary = "Computes the gradients of lstm: dx, dh0 and dc0.",
};
const ls_op ls_op_gru = {
    .name = "gru",
    .rule = "b t! g!, g! h!, g!, b h! -> b t! h!, b t! a!",
    .min_in = 2,
    .max_in = 4,
    .n_out = 2,
    .optional_in = 1 << BIAS | 1 << GH0,
    .attrs_size = sizeof(ls_recurrent_attrs),
    .fields = FIELDS,
    .infer = infer_gru,
    .grad = grad_gru,
    .cost = cost_recurrent,
    .summary = "Runs a GRU over time, from its input's part of the gates; it keeps the gates of all tokens.",
};
const ls_op ls_op_gru_grad = {
    .name = "gru_grad",
    .rule = LS_RULE_LATER,
    .min_in = 4,
    .max_in = 5,
    .n_out = 3,
    .optional_in = 1 << GGH0,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_recurrent_attrs),
    .fields = FIELDS,
    .infer = infer_gru_grad,
    .cost = cost_recurrent,
    .summary = "Computes the gradients of gru: dx, that of what w makes of the states, and dh0.",
};
