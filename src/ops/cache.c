/* cache.c - caches of keys and values, for generating text one token at a time: ops that write into a cache,
 * and attention to its contents. A cache is a state that is updated in place. Positions say how much of it
 * is filled, and they are data, so one program serves all tokens. */
#include "rules.h"
#include "base/argument.h"

enum { CACHE, X, AT }; /* of cache_write; FROM is X's place in cache_reorder */
enum { FROM = 1 };
enum { Q, K, V, POSITIONS, BIAS }; /* of attention_cached */

static ls_status infer_cache_write(ls_infer *i)
{
    const ls_type *cache = &i->in[CACHE], *x = &i->in[X];
    LS_RULE_CHECK(i,
                  cache->ndim == 3 && x->ndim == 3 && ls_dtype_is_float(x->dtype) &&
                      cache->dtype == x->dtype && cache->dims[0] == x->dims[0] &&
                      cache->dims[2] == x->dims[2],
                  "a cache [batch, places, F] takes rows [batch, tokens, F] of its own type");
    LS_TRY(ls_infer_expect(i, AT, &LS_TYPE(LS_I32, x->dims[0], x->dims[1]), "positions"));
    return ls_infer_same(i);
}

static ls_status infer_cache_reorder(ls_infer *i)
{
    const ls_type *cache = &i->in[CACHE];
    LS_RULE_CHECK(i, cache->ndim == 3 && ls_dtype_is_float(cache->dtype),
                  "a cache is [batch, places, F] of floats");
    LS_TRY(ls_infer_expect(i, FROM, &LS_TYPE(LS_I32, cache->dims[0]), "from"));
    return ls_infer_same(i);
}

static ls_status infer_attention_cached(ls_infer *i)
{
    const ls_attention_attrs *a = i->attrs;
    const ls_type *q = &i->in[Q], *k = &i->in[K];
    LS_RULE_CHECK(i, q->ndim == 3 && k->ndim == 3 && ls_type_equal(k, &i->in[V]),
                  "q, and k and v alike, are [batch, tokens, heads * head_dim]");
    LS_RULE_CHECK(i, ls_dtype_is_float(q->dtype) && q->dtype == k->dtype && q->dims[0] == k->dims[0],
                  "q and the cache differ in type or batch");
    LS_RULE_CHECK(i,
                  a->head_dim > 0 && q->dims[2] % a->head_dim == 0 && k->dims[2] % a->head_dim == 0 &&
                      k->dims[2] > 0 && q->dims[2] % k->dims[2] == 0,
                  "heads of %lld do not divide the features, or key heads the query heads",
                  (long long)a->head_dim);
    LS_RULE_CHECK(i, a->window >= 0, "window %lld is below 0", (long long)a->window);
    LS_TRY(ls_infer_expect(i, POSITIONS, &LS_TYPE(LS_I32, q->dims[0], q->dims[1]), "positions"));
    if (i->n_in > BIAS && i->in[BIAS].ndim >= 0)
        LS_TRY(
            ls_infer_expect(i, BIAS, &LS_TYPE(q->dtype, q->dims[2] / a->head_dim, k->dims[1]), "the bias"));
    return ls_infer_same(i);
}

static ls_cost cost_cache_write(const ls_infer *i)
{
    return (ls_cost){ .bytes = 2.0 * (double)ls_type_bytes(&i->in[X]) };
}

/* counts the work for a full cache */
static ls_cost cost_attention_cached(const ls_infer *i)
{
    const ls_type *q = &i->in[Q], *k = &i->in[K];
    return (ls_cost){ .flops = 4.0 * (double)ls_type_count(q) * (double)k->dims[1],
                      .bytes = 2.0 * ((double)ls_type_bytes(q) + (double)ls_type_bytes(k)) };
}

static const ls_attr_field FIELDS[] = {
    { "head_dim", LS_FIELD_I64, offsetof(ls_attention_attrs, head_dim), NULL },
    { "scale", LS_FIELD_F64, offsetof(ls_attention_attrs, scale), NULL },
    { "window", LS_FIELD_I64, offsetof(ls_attention_attrs, window), NULL },
    { 0 },
};
const ls_op ls_op_cache_write = {
    .name = "cache_write",
    .rule = "b p! f, b t! f, b t -> b p f",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .flags = LS_OP_EFFECT | LS_OP_NO_GRAD,
    .infer = infer_cache_write,
    .cost = cost_cache_write,
    .alias = { 1 },
    .summary = "Writes rows of x into a cache, each at its position.",
};
const ls_op ls_op_cache_reorder = {
    .name = "cache_reorder",
    .rule = "b! p! f, b! -> b p f",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_EFFECT | LS_OP_NO_GRAD,
    .infer = infer_cache_reorder,
    .alias = { 1 },
    .summary = "Replaces each sequence of a cache by the one whose number is given.",
};
const ls_op ls_op_attention_cached = {
    .name = "attention_cached",
    .rule = "b t h*, b p! h*, b p! h*, b t, ~h p! -> b t h",
    .min_in = 4,
    .max_in = 5,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .optional_in = 1 << BIAS,
    .attrs_size = sizeof(ls_attention_attrs),
    .fields = FIELDS,
    .infer = infer_attention_cached,
    .cost = cost_attention_cached,
    .summary = "Computes attention of each new query to the keys of a cache, up to the query's position.",
};

ls_value ls_cache_write(ls_graph *g, ls_value cache, ls_value x, ls_value positions)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_cache_write, 3, (ls_value[]){ cache, x, positions }, NULL);
}

ls_value ls_cache_reorder(ls_graph *g, ls_value cache, ls_value from)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_cache_reorder, 2, (ls_value[]){ cache, from }, NULL);
}

ls_value ls_attention_cached(ls_graph *g, ls_value q, ls_value k, ls_value v, ls_value positions,
                             ls_value bias, int64_t head_dim, double scale)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    const ls_attention_attrs a = { .head_dim = head_dim, .causal = true, .scale = scale };
    return ls_graph_apply(g, &ls_op_attention_cached, bias.id ? 5 : 4,
                          (ls_value[]){ q, k, v, positions, bias }, &a);
}
