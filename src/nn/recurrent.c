/* recurrent.c - layers of LSTM and GRU (nn.h). The product of the layer's input with its weights is one of
 * all tokens; the ops lstm and gru (ops/recurrent.c) go from token to token. */
#define LS_NO_CALL_SITES
#include "lockstep/nn.h"

#include <math.h>
#include <stdio.h>

#include "base/argument.h"
#include "graph/tensor_attrs.h"
#include "graph/graph.h"
#include "ops/rules.h"

ls_recurrent_opts ls_recurrent_opts_default(void) { return (ls_recurrent_opts){ LS_RECURRENT_DEFAULTS }; }

static const ls_recurrent FAILED = { { .id = -1 }, { .id = -1 }, { .id = -1 } };

enum { MAX_STATES = 64 }; /* layers * directions */

typedef struct recurrence {
    ls_graph *g;
    const ls_recurrent_opts *o;
    bool lstm;
    int64_t batch, tokens, hidden;
    int n; /* layers and directions so far */
    ls_value h[MAX_STATES], c[MAX_STATES];
} recurrence;

/* Parameter "weight_ih_l0", "bias_hh_l1_reverse", .. of layer r->n. */
static ls_value parameter(const recurrence *r, const char *what, ls_type type)
{
    const int directions = r->o->bidirectional ? 2 : 1;
    char name[64];
    snprintf(name, sizeof name, "%s_l%d%s", what, r->n / directions, r->n % directions ? "_reverse" : "");
    return ls_param(r->g, name, type, ls_init_fan_in(r->hidden));
}

/* State number r->n of [batch, layers * directions, hidden], if it is there. */
static ls_value state_of(const recurrence *r, ls_value states)
{
    if (!ls_present(states))
        return LS_NONE;
    return ls_reshape_dims(r->g, ls_slice(r->g, states, 1, r->n, 1), 2, (int64_t[]){ r->batch, r->hidden });
}

/* The last token that was read: [batch, 1, hidden]. */
static ls_value last_of(const recurrence *r, ls_value v, bool reverse)
{
    return ls_slice(r->g, v, 1, reverse ? 0 : r->tokens - 1, 1);
}

/* One direction of one layer: x [batch, tokens, in] -> [batch, tokens, hidden]. */
static ls_value direction(recurrence *r, ls_value x, bool reverse)
{
    ls_graph *g = r->g;
    const ls_type t = ls_value_type(g, x);
    const int64_t rows = (r->lstm ? 4 : 3) * r->hidden;
    const ls_recurrent_attrs a = { .reverse = reverse };
    const ls_value w_in = parameter(r, "weight_ih", LS_TYPE(LS_F32, rows, t.dims[2])),
                   w = parameter(r, "weight_hh", LS_TYPE(LS_F32, rows, r->hidden));
    ls_value b_in = LS_NONE, b = LS_NONE;
    if (r->o->bias) {
        b_in = parameter(r, "bias_ih", LS_TYPE(LS_F32, rows));
        b = parameter(r, "bias_hh", LS_TYPE(LS_F32, rows));
    }
    const ls_value h0 = state_of(r, r->o->h0), c0 = state_of(r, r->o->c0);
    ls_value y;
    if (r->lstm) {
        x = ls_matmul_wt(g, x, w_in, r->o->bias ? ls_add(g, b_in, b) : LS_NONE);
        y = ls_graph_apply(g, &ls_op_lstm, 4, (ls_value[]){ x, w, h0, c0 }, &a);
        r->c[r->n] = last_of(r, ls_nth(g, y, 1), reverse);
    } else { /* its gate r multiplies a part of the bias of w */
        x = ls_matmul_wt(g, x, w_in, b_in);
        y = ls_graph_apply(g, &ls_op_gru, 4, (ls_value[]){ x, w, b, h0 }, &a);
    }
    r->h[r->n++] = last_of(r, y, reverse);
    return y;
}

static ls_recurrent recurrent_build(ls_graph *g, const char *name, ls_value x, int64_t hidden,
                                    const ls_recurrent_opts *o, bool lstm)
{
    const ls_type t = ls_value_type(g, x);
    const int directions = o->bidirectional ? 2 : 1;
    LS_SCOPE(g, name, lstm ? "LSTM" : "GRU");
    if (x.id <= 0)
        return FAILED;
    if (t.ndim != 3 || hidden < 1 || o->layers < 1 || o->layers * directions > MAX_STATES) {
        ls_graph_error(
            g, LS_E_SHAPE,
            "%s: %lld layers of %lld units over x with %d dimensions: needs x [batch, tokens, in], 1 "
            "to %d layers and one unit or more",
            lstm ? "lstm" : "gru", (long long)o->layers, (long long)hidden, t.ndim, MAX_STATES / directions);
        return FAILED;
    }
    recurrence r = {
        .g = g, .o = o, .lstm = lstm, .batch = t.dims[0], .tokens = t.dims[1], .hidden = hidden
    };
    for (int64_t layer = 0; layer < o->layers; layer++) {
        char dropout[32];
        ls_value y[2];
        snprintf(dropout, sizeof dropout, "dropout_l%d", (int)layer);
        for (int d = 0; d < directions; d++)
            y[d] = direction(&r, x, d == 1);
        x = directions == 2 ? ls_concat(g, 2, 2, y) : y[0];
        if (layer + 1 < o->layers)
            x = ls_dropout(g, dropout, x, o->dropout);
    }
    return (ls_recurrent){ x, ls_concat(g, 1, r.n, r.h), lstm ? ls_concat(g, 1, r.n, r.c) : LS_NONE };
}

ls_recurrent ls_lstm_with(ls_graph *g, const char *name, ls_value x, int64_t hidden,
                          const ls_recurrent_opts *o)
{
    LS_ARG_OR(g, FAILED);
    LS_BUILD_ARG(g, name, FAILED);
    return recurrent_build(g, name, x, hidden, o ? o : &(const ls_recurrent_opts){ LS_RECURRENT_DEFAULTS },
                           true);
}

ls_recurrent ls_gru_with(ls_graph *g, const char *name, ls_value x, int64_t hidden,
                         const ls_recurrent_opts *o)
{
    LS_ARG_OR(g, FAILED);
    LS_BUILD_ARG(g, name, FAILED);
    o = o ? o : &(const ls_recurrent_opts){ LS_RECURRENT_DEFAULTS };
    if (ls_present(o->c0)) {
        ls_graph_error(g, LS_E_USAGE, "gru: c0 is a state of LSTM");
        return FAILED;
    }
    return recurrent_build(g, name, x, hidden, o, false);
}
