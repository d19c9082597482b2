/* attention.c - scaled dot-product attention with grouped queries, additive bias, padding and causal masking.
 * The gradient computes the probabilities again from the saved log-sum-exp (Dao et al. 2022, FlashAttention),
 * so no tensor of size Tq x Tk is kept. */
#include "rules.h"
#include "base/argument.h"

enum { Q, K, V, BIAS, IDS, KEY, POSITIONS };

static int64_t heads(const ls_type *t, const ls_attention_attrs *a) { return t->dims[2] / a->head_dim; }

static ls_status check_bias(const ls_infer *i, const ls_type *b, const ls_type *q, const ls_type *k)
{
    const int64_t h = heads(q, i->attrs);
    LS_RULE_CHECK(i, b->dtype == q->dtype, "q and bias have different types");
    if (b->ndim == 2)
        LS_RULE_CHECK(i, b->dims[0] == h && b->dims[1] == q->dims[1] + k->dims[1] - 1,
                      "bias by distance is [heads, Tq + Tk - 1]");
    else
        LS_RULE_CHECK(i,
                      b->ndim == 4 && (b->dims[0] == 1 || b->dims[0] == q->dims[0]) && b->dims[1] == h &&
                          b->dims[2] == q->dims[1] && b->dims[3] == k->dims[1],
                      "bias is [1 or batch, heads, Tq, Tk], or [heads, Tq + Tk - 1]");
    return LS_OK;
}

static bool has(const ls_infer *i, int k) { return i->n_in > k && i->in[k].ndim >= 0; }

/* Positions divide a sample into documents; only what follows from q and k goes on inside them. */
static ls_status check_positions(const ls_infer *i, int first, int ids)
{
    const int positions = ids + POSITIONS - IDS;
    if (!has(i, positions))
        return LS_OK;
    const ls_type *k = &i->in[first + K];
    LS_RULE_CHECK(i, ((const ls_attention_attrs *)i->attrs)->causal, "attention by positions is causal");
    LS_RULE_CHECK(i, !has(i, first + BIAS) && !has(i, ids),
                  "positions have no bias and no padding beside them");
    return ls_infer_expect(i, positions, &LS_TYPE(LS_I32, k->dims[0], k->dims[1]), "positions");
}

static ls_status check_operands(const ls_infer *i, int first, int ids, ls_type *lse)
{
    const ls_attention_attrs *a = i->attrs;
    const ls_type *q = &i->in[first + Q], *k = &i->in[first + K], *v = &i->in[first + V];
    LS_RULE_CHECK(i, q->ndim == 3 && k->ndim == 3 && v->ndim == 3,
                  "q, k and v are [batch, tokens, heads * head_dim]");
    LS_RULE_CHECK(i, ls_dtype_is_float(q->dtype) && q->dtype == k->dtype && q->dtype == v->dtype,
                  "q, k and v have different types");
    LS_TRY(ls_infer_at(i, q));
    LS_RULE_CHECK(i, ls_type_equal(k, v), "k and v have different shapes");
    LS_RULE_CHECK(i, q->dims[0] == k->dims[0], "q and k have different batches");
    LS_RULE_CHECK(i, a->head_dim > 0 && q->dims[2] % a->head_dim == 0 && k->dims[2] % a->head_dim == 0,
                  "head_dim %lld does not divide the features", (long long)a->head_dim);
    LS_RULE_CHECK(i, heads(q, a) % heads(k, a) == 0, "%lld query heads are not a multiple of %lld key heads",
                  (long long)heads(q, a), (long long)heads(k, a));
    LS_RULE_CHECK(i, a->window >= 0 && (a->causal || !a->window), "window %lld is below 0, or not causal",
                  (long long)a->window);
    const ls_type *b = i->n_in > first + BIAS ? &i->in[first + BIAS] : NULL;
    if (b && b->ndim >= 0)
        LS_TRY(check_bias(i, b, q, k));
    if (has(i, ids))
        LS_TRY(ls_infer_expect(i, ids, &LS_TYPE(LS_I32, k->dims[0], k->dims[1]), "ids"));
    LS_TRY(check_positions(i, first, ids));
    const bool keyed = has(i, ids + 1);
    LS_RULE_CHECK(i, a->dropout >= 0 && a->dropout < 1 && keyed == (a->dropout > 0),
                  "dropout %g is not in [0, 1), or has no key", a->dropout);
    if (keyed)
        LS_TRY(ls_infer_expect(i, ids + 1, &LS_TYPE(LS_I64, 3), "key"));
    *lse = LS_TYPE(ls_stat_dtype(q->dtype), q->dims[0], heads(q, a), q->dims[1]);
    return LS_OK;
}

static ls_status infer_attention(ls_infer *i)
{
    ls_type lse;
    LS_TRY(check_operands(i, 0, IDS, &lse));
    i->out[0] = i->in[Q];
    i->out[1] = lse;
    return LS_OK;
}

static ls_status infer_attention_grad(ls_infer *i) /* dy, q, k, v, bias?, y, lse, ids?, key?, positions? */
{
    ls_type lse;
    LS_TRY(check_operands(i, 1, 7, &lse));
    LS_TRY(ls_infer_expect(i, 0, &i->in[1], "dy"));
    LS_TRY(ls_infer_expect(i, 5, &i->in[1], "y"));
    LS_TRY(ls_infer_expect(i, 6, &lse, "lse"));
    i->out[0] = i->in[1];
    i->out[1] = i->in[2];
    i->out[2] = i->in[3];
    i->n_out = 3;
    if (i->in[4].ndim >= 0)
        i->out[i->n_out++] = i->in[4];
    return LS_OK;
}

/* Where documents begin is known from the data alone: their attention takes less. */
static ls_cost cost(const ls_infer *i, int first, double products)
{
    const ls_type *q = &i->in[first + Q], *k = &i->in[first + K];
    double pairs = (double)q->dims[0] * (double)q->dims[1] * (double)k->dims[1] * (double)q->dims[2];
    double bytes = 0;
    for (int j = 0; j < i->n_in; j++)
        bytes += i->in[j].ndim >= 0 ? (double)ls_type_bytes(&i->in[j]) : 0;
    for (int j = 0; j < i->n_out; j++)
        bytes += (double)ls_type_bytes(&i->out[j]);
    const ls_attention_attrs *a = i->attrs;
    if (a->window && a->window < k->dims[1])
        products *= (double)a->window / (double)k->dims[1];
    else if (a->causal)
        products *= 0.5;
    return (ls_cost){ .flops = 2.0 * products * pairs, .bytes = bytes };
}

static ls_cost cost_attention(const ls_infer *i) { return cost(i, 0, 2); }
static ls_cost cost_attention_grad(const ls_infer *i) { return cost(i, 1, 5); }

static void grad_attention(ls_grad *c)
{
    const ls_node *n = c->node;
    ls_value more[POSITIONS + 1] = { { 0 } };
    for (int j = BIAS; j < n->n_in; j++)
        more[j] = n->in[j];
    const ls_value bias = more[BIAS], in[] = { c->dout[0], n->in[Q],  n->in[K],  n->in[V],  bias,
                                               n->out[0],  n->out[1], more[IDS], more[KEY], more[POSITIONS] };
    int n_in = sizeof in / sizeof *in;
    while (n_in > 7 && !ls_present(in[n_in - 1]))
        n_in--;
    ls_value dq = ls_graph_apply(c->g, &ls_op_attention_grad, n_in, in, n->attrs);
    for (int j = 0; j < 3; j++)
        c->din[j] = ls_nth(c->g, dq, j);
    if (ls_present(bias))
        c->din[BIAS] = ls_nth(c->g, dq, 3);
}

/* Masks and dropout ask the box of the queries for their numbers. */
static ls_status dims_attention(ls_rule *r, const ls_infer *i)
{
    const ls_type *bias = i->n_in > BIAS && i->in[BIAS].ndim >= 0 ? &i->in[BIAS] : NULL;
    if (bias && bias->ndim == 2)
        ls_rule_slide(r, BIAS, 1, 't');
    if (((const ls_attention_attrs *)i->attrs)->causal)
        ls_rule_uneven(r, 't');
    if (bias && bias->ndim == 4 && bias->dims[0] != i->in[Q].dims[0])
        r->in[BIAS][0] = -1; /* the bias is shared by all samples */
    return LS_OK;
}

static const ls_attr_field FIELDS[] = {
    { "head_dim", LS_FIELD_I64, offsetof(ls_attention_attrs, head_dim), NULL },
    { "causal", LS_FIELD_I64, offsetof(ls_attention_attrs, causal), NULL },
    { "scale", LS_FIELD_F64, offsetof(ls_attention_attrs, scale), NULL },
    { "pad", LS_FIELD_I64, offsetof(ls_attention_attrs, pad), NULL },
    { "dropout", LS_FIELD_F64, offsetof(ls_attention_attrs, dropout), NULL },
    { "purpose", LS_FIELD_I64, offsetof(ls_attention_attrs, purpose), NULL },
    { "window", LS_FIELD_I64, offsetof(ls_attention_attrs, window), NULL },
    { 0 },
};
const ls_op ls_op_attention = {
    .name = "attention",
    .rule = "@b t h*, &b s! h*, &b s! h*, ~b h t s | h d!, &b s, k!, &b s -> b t h, b h t",
    .dims = dims_attention,
    .min_in = 3,
    .max_in = 7,
    .n_out = 2,
    .flags = LS_OP_AT,
    .optional_in = 1 << BIAS | 1 << IDS | 1 << KEY | 1 << POSITIONS,
    .attrs_size = sizeof(ls_attention_attrs),
    .fields = FIELDS,
    .infer = infer_attention,
    .grad = grad_attention,
    .cost = cost_attention,
    .summary = "Computes attention, softmax(scale * q * k^T + bias) * v for each head, and keeps each row's "
               "log-sum-exp.",
};
const ls_op ls_op_attention_grad = {
    .name = "attention_grad",
    .rule = LS_RULE_LATER,
    .min_in = 7,
    .max_in = 10,
    .n_out = 3,
    .optional_in = 1 << 4 | 1 << 7 | 1 << 8 | 1 << 9,
    .flags = LS_OP_NO_GRAD | LS_OP_AT,
    .attrs_size = sizeof(ls_attention_attrs),
    .fields = FIELDS,
    .infer = infer_attention_grad,
    .cost = cost_attention_grad,
    .summary = "Computes the gradients of attention: dq, dk and dv, and dbias if there is a bias.",
};

ls_value ls_attention(ls_graph *g, ls_value q, ls_value k, ls_value v, ls_value bias, int64_t head_dim,
                      double scale, bool causal)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_attention_attrs a = { .head_dim = head_dim, .causal = causal, .scale = scale };
    return ls_graph_apply(g, &ls_op_attention, bias.id ? 4 : 3, (ls_value[]){ q, k, v, bias }, &a);
}

ls_value ls_padded_attention(ls_graph *g, ls_value q, ls_value k, ls_value v, ls_value bias, ls_value ids,
                             int64_t pad, int64_t head_dim, double scale)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_attention_attrs a = { .head_dim = head_dim, .scale = scale, .pad = pad };
    return ls_graph_apply(g, &ls_op_attention, 5, (ls_value[]){ q, k, v, bias, ids }, &a);
}

ls_value ls_attention_window(ls_graph *g, ls_value y, int64_t window)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    if (!window || y.id <= 0)
        return y;
    const ls_node *n = ls_node_of(g, y);
    if (n->op != &ls_op_attention && n->op != &ls_op_attention_cached) {
        ls_graph_error(g, LS_E_ARG,
                       "%s has no window; give what ls_attention or ls_attention_cached returned",
                       n->op->name);
        return (ls_value){ .id = -1 };
    }
    ls_attention_attrs a = *(const ls_attention_attrs *)n->attrs;
    ls_value in[7] = { { 0 } };
    for (int k = 0; k < n->n_in; k++)
        in[k] = n->in[k];
    a.window = window;
    return ls_graph_apply(g, n->op, n->n_in, in, &a);
}

ls_value ls_packed_attention(ls_graph *g, ls_value q, ls_value k, ls_value v, ls_value positions,
                             int64_t head_dim, double scale)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_attention_attrs a = { .head_dim = head_dim, .causal = true, .scale = scale };
    const ls_value in[] = { q, k, v, LS_NONE, LS_NONE, LS_NONE, positions };
    return ls_graph_apply(g, &ls_op_attention, positions.id ? 7 : 3, in, &a);
}
