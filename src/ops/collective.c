/* collective.c - ops over the ranks of a group, and transfers between host and device memory. A parameter's
 * use becomes a chain of them (docs/ranks.md). Their gradients are each other: all_gather and reduce_scatter,
 * replicate and all_reduce, to_device and to_host. Collectives have no kernels: the session runs them through
 * src/comm. A transfer is a copy by the session's queue, or the kernel `copy` (plan/steps.c). */
#include "base/check.h"
#include "rules.h"

static const char *const FLOATS[] = { [LS_F32] = "f32", [LS_F64] = "f64",      [LS_BF16] = "bf16",
                                      [LS_F16] = "f16", [LS_TO_SAME] = "same", [LS_TO_REDUCE] = "reduce" };
static const char *const HOWS[] = { [LS_HOW_SUM] = "sum",
                                    [LS_HOW_MAX] = "max",
                                    [LS_HOW_WIDE] = "wide",
                                    [LS_HOW_SHARED] = "shared",
                                    [LS_HOW_ONE] = "one" };

static ls_status check_group(const ls_infer *i, int64_t ranks)
{
    LS_RULE_CHECK(i, ranks >= 1, "a group of %lld ranks", (long long)ranks);
    LS_RULE_CHECK(i, i->in[0].ndim >= 1, "needs a dimension along which ranks have slices");
    return LS_OK;
}

static ls_dtype to_type(const ls_infer *i, int64_t to)
{
    return to == LS_TO_SAME ? i->in[0].dtype : (ls_dtype)to;
}

static ls_status infer_all_gather(ls_infer *i)
{
    const ls_gather_attrs *a = i->attrs;
    LS_TRY(check_group(i, a->ranks));
    const ls_dtype to = to_type(i, a->to);
    LS_RULE_CHECK(i, to == i->in[0].dtype || (ls_dtype_is_float(to) && ls_dtype_is_float(i->in[0].dtype)),
                  "gathers floats into a float type, and others as they are");
    i->out[0] = i->in[0];
    i->out[0].dtype = to;
    i->out[0].dims[0] *= a->ranks;
    return LS_OK;
}

ls_value ls_gather_gradient(ls_graph *g, ls_value dy, const ls_gather_attrs *a, ls_dtype to)
{
    return ls_reduce_scatter(
        g, dy,
        &(ls_reduce_attrs){
            .group = a->group, .unit = a->unit, .ranks = a->ranks, .via = a->via, .to = (int64_t)to });
}

static void grad_all_gather(ls_grad *c)
{
    c->din[0] = ls_gather_gradient(c->g, c->dout[0], c->node->attrs, ls_type_of(c->g, c->node->in[0])->dtype);
}

/* Several operands are terms of this rank: passes/virtual_ranks.c adds them before those of other ranks. */
static ls_status check_terms(const ls_infer *i)
{
    for (int k = 1; k < i->n_in; k++)
        LS_TRY(ls_infer_expect(i, k, &i->in[0], "another term"));
    return LS_OK;
}

static ls_status infer_reduce_scatter(ls_infer *i)
{
    const ls_reduce_attrs *a = i->attrs;
    LS_TRY(check_group(i, a->ranks));
    LS_TRY(check_terms(i));
    LS_RULE_CHECK(i, i->in[0].dims[0] % a->ranks == 0, "%lld elements do not divide by %lld ranks",
                  (long long)i->in[0].dims[0], (long long)a->ranks);
    const ls_dtype to = to_type(i, a->to);
    LS_RULE_CHECK(i, ls_dtype_is_float(to) && ls_dtype_is_float(i->in[0].dtype),
                  "reduces floats into a float type");
    i->out[0] = i->in[0];
    i->out[0].dtype = to;
    i->out[0].dims[0] /= a->ranks;
    return LS_OK;
}

static void grad_reduce_scatter(ls_grad *c)
{
    const ls_reduce_attrs *a = c->node->attrs;
    const ls_gather_attrs back = { .group = a->group,
                                   .unit = a->unit,
                                   .ranks = a->ranks,
                                   .via = a->via,
                                   .to = ls_type_of(c->g, c->node->in[0])->dtype };
    c->din[0] = a->ranks > 1 ? ls_all_gather(c->g, c->dout[0], &back) : c->dout[0];
    for (int k = 1; k < c->node->n_in; k++)
        c->din[k] = c->din[0];
}

static ls_status infer_all_reduce(ls_infer *i)
{
    const ls_reduce_attrs *a = i->attrs;
    const ls_type *t = &i->in[0];
    LS_TRY(check_terms(i));
    LS_RULE_CHECK(i,
                  a->how == LS_HOW_WIDE ? t->dtype == LS_I64 && ls_type_count(t) % 2 == 0
                                        : ls_dtype_is_float(t->dtype),
                  "sums and maxima are of floats, wide sums of pairs of i64");
    i->out[0] = *t;
    return LS_OK;
}

/* Every rank's result contains this rank's operand, so its gradient is the sum of all ranks' gradients. With
 * LS_HOW_SHARED, all ranks use the result alike, as one value: its gradient is complete on each rank. With
 * LS_HOW_ONE each operand stands for the whole value. */
static void grad_all_reduce(ls_grad *c)
{
    const int64_t how = ((const ls_reduce_attrs *)c->node->attrs)->how;
    const bool complete = how == LS_HOW_SHARED || how == LS_HOW_ONE;
    LS_CHECK(complete || (how == LS_HOW_SUM && c->node->n_in == 1), "only a sum over ranks has a gradient");
    for (int k = 0; k < c->node->n_in; k++)
        c->din[k] = complete ? c->dout[0] : ls_all_reduce(c->g, c->dout[0], c->node->attrs);
}

ls_value ls_replicate_gradient(ls_graph *g, ls_value dy, const ls_replicate_attrs *a)
{
    return ls_all_reduce(g, dy,
                         &(ls_reduce_attrs){ .group = a->group,
                                             .unit = a->unit,
                                             .ranks = a->ranks,
                                             .via = a->via,
                                             .to = (int64_t)ls_value_type(g, dy).dtype });
}

static void grad_replicate(ls_grad *c)
{
    c->din[0] = ls_replicate_gradient(c->g, c->dout[0], c->node->attrs);
}

static bool view_replicate(const ls_infer *i, const ls_tensor *in, ls_tensor *out, int64_t *offset)
{
    (void)i;
    *out = *in;
    *offset = 0;
    return true;
}

static void grad_fork(ls_grad *c)
{
    const ls_fork_attrs *a = c->node->attrs;
    c->din[0] = ls_cast(c->g, c->dout[0],
                        a->to == LS_TO_SAME ? ls_type_of(c->g, c->node->in[0])->dtype : (ls_dtype)a->to);
}

static void grad_to_device(ls_grad *c) { c->din[0] = ls_graph_apply(c->g, &ls_op_to_host, 1, c->dout, NULL); }
static void grad_to_host(ls_grad *c) { c->din[0] = ls_graph_apply(c->g, &ls_op_to_device, 1, c->dout, NULL); }

static ls_cost cost_collective(const ls_infer *i)
{
    return (ls_cost){ .bytes = (double)ls_type_bytes(&i->in[0]) + (double)ls_type_bytes(&i->out[0]) };
}

#define GROUP(T)                                             \
    { "group", LS_FIELD_TEXT, offsetof(T, group), NULL },    \
        { "unit", LS_FIELD_TEXT, offsetof(T, unit), NULL },  \
        { "ranks", LS_FIELD_I64, offsetof(T, ranks), NULL }, \
    {                                                        \
        "via", LS_FIELD_I64, offsetof(T, via), FLOATS        \
    }
static const ls_attr_field GATHER_FIELDS[] = { GROUP(ls_gather_attrs),
                                               { "to", LS_FIELD_I64, offsetof(ls_gather_attrs, to), FLOATS },
                                               { "map", LS_FIELD_I64, offsetof(ls_gather_attrs, map), NULL },
                                               { 0 } };
static const ls_attr_field REDUCE_FIELDS[] = { GROUP(ls_reduce_attrs),
                                               { "to", LS_FIELD_I64, offsetof(ls_reduce_attrs, to), FLOATS },
                                               { "how", LS_FIELD_I64, offsetof(ls_reduce_attrs, how), HOWS },
                                               { 0 } };
static const ls_attr_field REPLICATE_FIELDS[] = { GROUP(ls_replicate_attrs), { 0 } };
static const ls_attr_field FORK_FIELDS[] = { { "to", LS_FIELD_I64, offsetof(ls_fork_attrs, to), FLOATS },
                                             { 0 } };

const ls_op ls_op_all_gather = {
    .name = "all_gather",
    .rule = "a! b.. -> c! b..",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_COLLECTIVE,
    .attrs_size = sizeof(ls_gather_attrs),
    .fields = GATHER_FIELDS,
    .infer = infer_all_gather,
    .grad = grad_all_gather,
    .cost = cost_collective,
    .summary = "Collects the slices of all ranks of a group along the first dimension, in their order.",
};
const ls_op ls_op_reduce_scatter = {
    .name = "reduce_scatter",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = -1,
    .n_out = 1,
    .flags = LS_OP_COLLECTIVE,
    .attrs_size = sizeof(ls_reduce_attrs),
    .fields = REDUCE_FIELDS,
    .infer = infer_reduce_scatter,
    .grad = grad_reduce_scatter,
    .cost = cost_collective,
    .summary = "Sums over the ranks of a group, and gives each rank its slice of the sum.",
};
const ls_op ls_op_all_reduce = {
    .name = "all_reduce",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = -1,
    .n_out = 1,
    .flags = LS_OP_COLLECTIVE,
    .attrs_size = sizeof(ls_reduce_attrs),
    .fields = REDUCE_FIELDS,
    .infer = infer_all_reduce,
    .inplace = 1,
    .grad = grad_all_reduce,
    .cost = cost_collective,
    .summary = "Sums over the ranks of a group, or finds the maximum, and gives all of it to each rank.",
};
const ls_op ls_op_replicate = {
    .name = "replicate",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_VIEW,
    .attrs_size = sizeof(ls_replicate_attrs),
    .fields = REPLICATE_FIELDS,
    .infer = ls_infer_same,
    .grad = grad_replicate,
    .view = view_replicate,
    .summary =
        "Marks a value that is the same on every rank of a group; its gradients are summed over the group.",
};
const ls_op ls_op_fork = {
    .name = "fork",
    .rule = "r.. -> r..",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_VIEW,
    .attrs_size = sizeof(ls_fork_attrs),
    .fields = FORK_FIELDS,
    .infer = ls_infer_same,
    .grad = grad_fork,
    .view = view_replicate,
    .summary = "Marks the readers of a value whose gradients are summed first.",
};
const ls_op ls_op_to_device = {
    .name = "to_device",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_TRANSFER,
    .infer = ls_infer_same,
    .grad = grad_to_device,
    .cost = cost_collective,
    .summary = "Copies from host memory to the device's memory.",
};
const ls_op ls_op_to_host = {
    .name = "to_host",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_TRANSFER,
    .infer = ls_infer_same,
    .grad = grad_to_host,
    .cost = cost_collective,
    .summary = "Copies from the device's memory to host memory.",
};

ls_value ls_all_gather(ls_graph *g, ls_value slice, const ls_gather_attrs *a)
{
    return ls_graph_apply(g, &ls_op_all_gather, 1, &slice, a);
}
ls_value ls_reduce_scatter(ls_graph *g, ls_value flat, const ls_reduce_attrs *a)
{
    return ls_graph_apply(g, &ls_op_reduce_scatter, 1, &flat, a);
}
ls_value ls_all_reduce(ls_graph *g, ls_value v, const ls_reduce_attrs *a)
{
    return ls_graph_apply(g, &ls_op_all_reduce, 1, &v, a);
}
ls_value ls_replicate(ls_graph *g, ls_value v, const ls_replicate_attrs *a)
{
    return ls_graph_apply(g, &ls_op_replicate, 1, &v, a);
}
ls_value ls_fork(ls_graph *g, ls_value v, int64_t to)
{
    return ls_graph_apply(g, &ls_op_fork, 1, &v, &(ls_fork_attrs){ to });
}

void ls_fork_tree(ls_graph *g, ls_value v, int64_t to, int n, ls_value *out, int stride)
{
    int left = 1;
    if (n == 1 || g->status != LS_OK) {
        *out = v;
        return;
    }
    while (2 * left < n)
        left *= 2;
    ls_fork_tree(g, ls_fork(g, v, to), to, left, out, stride);
    ls_fork_tree(g, ls_fork(g, v, to), to, n - left, out + left * stride, stride);
}
