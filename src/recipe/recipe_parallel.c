/* recipe_parallel.c - the `parallel` section (with device_memory and precision.reduce) as a layout, for any
 * number of ranks. */
#include <string.h>
#include <strings.h>
#include "recipe_check.h"
#include "recipe_use.h"

/* The word that the recipe sets for parallel.data; "": none. */
static const char *written_data(const ls_recipe *r)
{
    const ls_yaml *value = ls_recipe_setting(r->state, "parallel.data")->value;
    return value && value->kind == LS_YAML_SCALAR ? value->text : "";
}

bool ls_recipe_resharding_is_implied(const ls_recipe *r)
{
    return !strcasecmp(written_data(r), "SHARD_GRAD_OP") &&
           !ls_recipe_setting(r->state, "parallel.reshard_after_forward")->value;
}

/* FULL_SHARD means fsdp with reshard_after_forward true, SHARD_GRAD_OP fsdp with false. */
static ls_status apply_fsdp1_name(ls_recipe *r)
{
    const char *name = written_data(r), *key = "parallel.reshard_after_forward";
    bool full = !strcasecmp(name, "FULL_SHARD"), grad_op = !strcasecmp(name, "SHARD_GRAD_OP");
    if (!full && !grad_op)
        return LS_OK;
    int64_t means = full ? -1 : 0, *value = &r->parallel.reshard_after_forward;
    if (ls_recipe_setting(r->state, key)->value && *value != means)
        return ls_fail(LS_E_USAGE,
                       "%s: contradicts parallel.data: %s, which means %s; leave one of them out, or write "
                       "parallel.data: fsdp",
                       ls_recipe_where(r, key), name, full ? "true" : "false");
    *value = means;
    return LS_OK;
}

static ls_status parallel_lay_out(ls_parallel *p, const ls_recipe *r, int64_t ranks)
{
    *p = (ls_parallel){ .data = r->parallel.data,
                        .units = r->parallel.units,
                        .reshard_after_forward = r->parallel.reshard_after_forward,
                        .gather = r->parallel.gather,
                        .prefetch_forward = r->parallel.prefetch.forward,
                        .prefetch_backward = r->parallel.prefetch.backward,
                        .prefetch_memory = r->parallel.prefetch.memory,
                        .offload = r->parallel.offload,
                        .device_memory = r->device_memory,
                        .synchronize = r->parallel.synchronize,
                        .reduce = r->precision.param == LS_F64 ? LS_F64 : r->precision.reduce,
                        .bucket_bytes = r->parallel.bucket,
                        .sync_batch_norm = r->parallel.sync_batch_norm,
                        .tensor = r->parallel.tensor,
                        .sequence = r->parallel.sequence,
                        .slices = r->parallel.slices,
                        .schedule = r->parallel.schedule,
                        .stages = r->parallel.stages,
                        .chunks = r->parallel.chunks };
    if (r->state->record && !p->slices && !*ls_mesh_axis(&r->parallel.mesh, LS_ROLE_TENSOR)) {
        /* an older version accepted parallel.tensor and parallel.sequence without such an axis */
        p->tensor = "auto";
        p->sequence = false;
    }
    const ls_status s = ls_mesh_resolve(&p->mesh, &r->parallel.mesh, ranks);
    return s == LS_OK ? LS_OK : ls_fail_in(s, "%s", ls_recipe_where(r, "parallel.mesh"));
}

ls_status ls_recipe_parallel(ls_parallel *out, const ls_recipe *r, int64_t ranks, int rank,
                             int ranks_per_host)
{
    LS_TRY(parallel_lay_out(out, r, ranks));
    out->rank = rank;
    out->ranks_per_host = ranks_per_host;
    return ls_parallel_check(out);
}

/* Checks the layout with the fewest ranks that the mesh allows. */
ls_status ls_recipe_check_parallel(ls_recipe *r)
{
    LS_TRY(apply_fsdp1_name(r));
    ls_parallel p;
    ls_mesh least = r->parallel.mesh;
    bool automatic = false;
    for (int i = 0; i < least.n; i++)
        if (!least.axes[i].size) {
            automatic = true;
            least.axes[i].size = 1;
        }
    ls_status s = parallel_lay_out(&p, r, ls_mesh_ranks(&least));
    if (automatic && p.data == LS_DATA_FSDP && p.reshard_after_forward > 1)
        p.reshard_after_forward = -1; /* more ranks may divide by it */
    return s == LS_OK ? ls_parallel_check(&p) : s;
}
