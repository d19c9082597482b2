/* reductions.c - max_to, the largest over what broadcasting would expand; and sums, means, variances, largest
 * elements and their places over one dimension or all, as builder calls. */
#include "rules.h"
#include "base/argument.h"

static ls_status infer_max_to(ls_infer *i)
{
    LS_RULE_CHECK(i, ls_type_count(&i->in[0]) > 0, "needs at least one element");
    return ls_infer_sum_to(i);
}

static ls_value spread(ls_graph *g, ls_value v, ls_value shape)
{
    const ls_type t = *ls_type_of(g, shape);
    return ls_broadcast_dims(g, v, t.ndim, t.dims);
}

/* Each of n equal largest elements gets 1/n, as PyTorch's amax gives them. */
static void grad_max_to(ls_grad *c)
{
    const ls_value x = c->node->in[0], y = c->node->out[0];
    ls_value largest = ls_eq(c->g, x, spread(c->g, y, x));
    ls_value share = ls_div(c->g, c->dout[0], ls_sum_like(c->g, largest, y));
    c->din[0] = ls_mul(c->g, largest, spread(c->g, share, x));
}

/* The loops of sum_to, but a reduced dimension must not be split, because the results of ranks would be
 * added. */
static ls_status dims_max_to(ls_rule *r, const ls_infer *i)
{
    LS_TRY(ls_dims_sum_to(r, i));
    for (int d = 0; d < i->in[0].ndim; d++) {
        const int at = d - (i->in[0].ndim - i->out[0].ndim), l = r->in[0][d];
        if (l >= 0)
            r->loop[l].fixed = at < 0 || r->out[0][at] != l;
    }
    return LS_OK;
}

const ls_op ls_op_max_to = {
    .name = "max_to",
    .dims = dims_max_to,
    .local = ls_local_broadcast,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attrs_size = sizeof(ls_broadcast_attrs),
    .fields = ls_broadcast_fields,
    .infer = infer_max_to,
    .grad = grad_max_to,
    .cost = ls_cost_move,
    .summary = "Finds the largest element over the dimensions that broadcasting would expand.",
};

static const ls_value FAILED = { .id = -1 };

/* Finds the dimension that `dim` means; false: there is none. */
static bool dimension(ls_graph *g, const char *what, const ls_type *t, int dim, int *at)
{
    *at = dim < 0 ? dim + t->ndim : dim;
    if (*at >= 0 && *at < t->ndim)
        return true;
    ls_graph_error(g, LS_E_SHAPE, "%s: there is no dimension %d: the value has %d dimensions", what, dim,
                   t->ndim);
    return false;
}

/* Applies sum_to or max_to. *n: how many elements made one of the result. */
static ls_value reductions_reduce(ls_graph *g, const ls_op *op, ls_value a, int dim, bool keep, int64_t *n)
{
    if (a.id <= 0)
        return FAILED;
    const ls_type t = ls_value_type(g, a);
    const bool all = dim == LS_ALL_DIMS;
    int at = -1;
    if (!all && !dimension(g, op->name, &t, dim, &at))
        return FAILED;
    int64_t ones[LS_MAX_DIMS], left[LS_MAX_DIMS];
    int n_left = 0;
    *n = 1;
    for (int d = 0; d < t.ndim; d++) {
        const bool reduced = all || d == at;
        *n *= reduced ? t.dims[d] : 1;
        ones[d] = reduced ? 1 : t.dims[d];
        if (!reduced)
            left[n_left++] = t.dims[d];
    }
    ls_value r = ls_graph_apply(g, op, 1, &a, &(ls_broadcast_attrs){ .dims = { t.ndim, ones } });
    return keep ? r : ls_reshape_dims(g, r, n_left, left);
}

ls_value ls_sum(ls_graph *g, ls_value a, int dim, bool keep)
{
    LS_ARG_OR(g, FAILED);
    int64_t n;
    return reductions_reduce(g, &ls_op_sum_to, a, dim, keep, &n);
}

ls_value ls_amax(ls_graph *g, ls_value a, int dim, bool keep)
{
    LS_ARG_OR(g, FAILED);
    int64_t n;
    return reductions_reduce(g, &ls_op_max_to, a, dim, keep, &n);
}

ls_value ls_mean(ls_graph *g, ls_value a, int dim, bool keep)
{
    LS_ARG_OR(g, FAILED);
    int64_t n;
    ls_value sum = reductions_reduce(g, &ls_op_sum_to, a, dim, keep, &n);
    return sum.id > 0 ? ls_div_const(g, sum, (double)n) : sum;
}

ls_value ls_variance(ls_graph *g, ls_value a, int dim, bool keep, double correction)
{
    LS_ARG_OR(g, FAILED);
    int64_t n;
    ls_value mean = ls_mean(g, a, dim, true);
    if (mean.id <= 0)
        return mean;
    ls_value sum = reductions_reduce(g, &ls_op_sum_to, ls_square(g, ls_sub(g, a, mean)), dim, keep, &n);
    return sum.id > 0 ? ls_div_const(g, sum, (double)n - correction) : sum;
}

/* Moves the dimension to the end, or makes one of all, and takes argmax of the last. */
ls_value ls_argmax_over(ls_graph *g, ls_value a, int dim, bool keep)
{
    LS_ARG_OR(g, FAILED);
    if (a.id <= 0)
        return FAILED;
    const ls_type t = ls_value_type(g, a);
    const bool all = dim == LS_ALL_DIMS;
    int at = -1;
    if (!all && !dimension(g, "argmax", &t, dim, &at))
        return FAILED;
    int64_t perm[LS_MAX_DIMS], left[LS_MAX_DIMS];
    int n = 0, kept = 0;
    for (int d = 0; d < t.ndim; d++) {
        const bool reduced = all || d == at;
        if (!reduced)
            perm[n++] = d;
        if (keep || !reduced)
            left[kept++] = reduced ? 1 : t.dims[d];
    }
    if (all) {
        a = ls_reshape_dims(g, a, 1, (int64_t[]){ -1 });
    } else if (at < t.ndim - 1) {
        perm[n] = at;
        a = ls_permute_dims(g, a, t.ndim, perm);
    }
    a = ls_argmax(g, a);
    return keep ? ls_reshape_dims(g, a, kept, left) : a;
}
