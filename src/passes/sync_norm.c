/* sync_norm.c - synchronized batch norm. Each batch_norm of a training step becomes sums per channel, added
 * over the ranks that compute at the same time, and arithmetic on the results. Its gradient follows by the
 * chain rule. */
#define LS_NO_CALL_SITES /* new nodes keep the call site of the model's line */
#include "base/field.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

/* The mean of each channel over the samples of all ranks: [N, C, ..] -> [C, 1, ..]. */
static ls_value mean_over_ranks(ls_graph *g, ls_value x, const ls_type *channel, double count,
                                const ls_reduce_attrs *a)
{
    return ls_div_const(g, ls_all_reduce(g, ls_sum_to(g, x, channel->ndim, channel->dims), a), count);
}

static void synchronize(ls_rewrite *r, const ls_node *n, const ls_reduce_attrs *over)
{
    ls_graph *g = r->to;
    ls_rewrite_like(r, n);
    const ls_value x = ls_rewrite_value(r, n->in[0]);
    const ls_type type = ls_value_type(g, x);
    ls_type channel = { .dtype = ls_stat_dtype(type.dtype), .ndim = type.ndim - 1, .dims = { type.dims[1] } };
    for (int d = 1; d < channel.ndim; d++)
        channel.dims[d] = 1;
    ls_reduce_attrs a = *over;
    a.unit = n->scope->path;
    /* the type of statistics; precision.reduce concerns gradients only */
    a.to = a.via = (int64_t)channel.dtype;
    const double count = (double)a.ranks * (double)ls_type_count(&type) / (double)type.dims[1];
    ls_value wide = ls_cast(g, x, channel.dtype), affine[2];
    for (int k = 0; k < 2; k++) /* gain, bias */
        affine[k] = ls_reshape_dims(g, ls_cast(g, ls_rewrite_value(r, n->in[1 + k]), channel.dtype),
                                    channel.ndim, channel.dims);
    ls_value mean = mean_over_ranks(g, wide, &channel, count, &a), centred = ls_sub(g, wide, mean);
    ls_value variance = mean_over_ranks(g, ls_square(g, centred), &channel, count, &a);
    ls_value deviation = ls_sqrt(g, ls_add_const(g, variance, ((const ls_batch_norm_attrs *)n->attrs)->eps));
    ls_value y = ls_add(g, ls_mul(g, ls_div(g, centred, deviation), affine[0]), affine[1]);
    r->map[n->out[0].id] = ls_cast(g, y, type.dtype);
    /* Outputs 1 and 3 go to the running statistics. Nothing reads output 2 yet: the gradient comes after this
     * pass. */
    const int64_t flat[] = { type.dims[1] };
    r->map[n->out[1].id] = ls_reshape_dims(g, mean, 1, flat);
    r->map[n->out[3].id] = ls_reshape_dims(g, ls_mul_const(g, variance, count / (count - 1)), 1, flat);
}

/* A channel with one value has no unbiased variance, which the running statistics need. As in torch, the
 * values of all ranks count where they are synchronized. */
static ls_status check_values(const ls_graph *g, double ranks)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        char site[LS_SITE_SIZE];
        if (n->op != &ls_op_batch_norm)
            continue;
        const ls_type x = ls_value_type(g, n->in[0]);
        if (ranks * (double)ls_type_count(&x) / (double)x.dims[1] <= 1)
            return ls_fail(LS_E_SHAPE,
                           "%sbatch_norm in %s: one value per channel has no variance; a larger "
                           "micro-batch has, and so has sync_batch_norm over several ranks",
                           ls_site_before(site, n->file, n->line),
                           *n->scope->path ? n->scope->path : g->name);
    }
    return LS_OK;
}

ls_status ls_pass_sync_batch_norm(ls_graph **gp, const ls_parallel *p, ls_units *units)
{
    const ls_graph *g = *gp;
    const char *group = ls_mesh_data_axes(&p->mesh);
    const ls_reduce_attrs over = { .group = group, .ranks = ls_mesh_group_size(&p->mesh, group) };
    int found = 0;
    ls_rewrite r;
    LS_TRY(check_values(g, p->sync_batch_norm ? (double)over.ranks : 1));
    if (!p->sync_batch_norm)
        return LS_OK;
    for (int i = 0; i < g->n_nodes; i++)
        found += g->nodes[i]->op == &ls_op_batch_norm;
    if (!found)
        return ls_fail_field(LS_E_USAGE, "sync_batch_norm",
                             "the model \"%s\" has no batch norm; leave it out", g->name);
    if (over.ranks == 1)
        return LS_OK;
    LS_TRY(ls_rewrite_begin(&r, g));
    for (int i = 0; i < g->n_nodes && r.to->status == LS_OK; i++)
        if (g->nodes[i]->op == &ls_op_batch_norm)
            synchronize(&r, g->nodes[i], &over);
        else
            ls_rewrite_copy(&r, g->nodes[i]);
    for (int i = 0; i < units->n && r.to->status == LS_OK; i++)
        units->units[i].use = ls_rewrite_value(&r, units->units[i].use);
    return ls_rewrite_end(&r, gp);
}
