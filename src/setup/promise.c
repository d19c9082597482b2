/* promise.c - whether a step has the same bits on other numbers of ranks (docs/ranks.md, "The same bits"). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/axes.h"
#include "recipe/recipe_use.h"
#include "setup.h"

static bool power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

/* NULL: no reason, unless an axis splits layers. */
static const char *reason(const ls_recipe *r, const ls_compiled *c)
{
    const int64_t ranks = ls_mesh_data_ranks(&c->parallel.mesh);
    if (r->kernels == LS_KERNELS_CUBLASLT)
        return "library kernels (cuBLASLt) choose by the shapes on a rank, and by their own version";
    if (c->accumulation == LS_SUM_RUNNING && c->micro_batches > 1)
        return "train.accumulate: running adds micro-batches in the order in which they come";
    if (!power_of_two(ranks))
        return "the sum over ranks is the tree of one process only when their number is a power of two";
    if (!power_of_two(c->micro_batches))
        return "the sum over micro-batches is one tree for any ranks only when their number is a power of "
               "two";
    if (c->parallel.sync_batch_norm) /* on one rank too: its bits are not those of two */
        return "parallel.sync_batch_norm: what is normalized together depends on the number of ranks";
    if (ls_dtype_size(c->parallel.reduce) < 4)
        return "precision.reduce: sums over ranks are rounded to a 16-bit type";
    return NULL;
}

/* The axis with more than one rank that splits layers or tokens, without virtual ranks; NULL: there is none.
 */
static const char *splitting_axis(const ls_compiled *c)
{
    const ls_mesh *m = &c->parallel.mesh;
    const char *layers = ls_mesh_axis(m, LS_ROLE_TENSOR), *tokens = ls_mesh_axis(m, LS_ROLE_CONTEXT);
    const char *axis = ls_mesh_group_size(m, layers) > 1 ? layers : tokens;
    return !c->parallel.slices && ls_mesh_group_size(m, axis) > 1 ? axis : NULL;
}

void ls_setup_bits_layout(char text[LS_LAYOUT_BYTES], const ls_recipe *r, const ls_compiled *c)
{
    char mesh[128];
    *text = 0;
    if (!reason(r, c) && !splitting_axis(c))
        return;
    char *how = ls_recipe_value(r, "parallel.data");
    snprintf(text, LS_LAYOUT_BYTES, "%s %s", ls_mesh_text(mesh, &c->parallel.mesh), how ? how : "");
    free(how);
}

bool ls_setup_same_bits(char why[LS_WHY_BYTES], const ls_recipe *r, const ls_compiled *c)
{
    const char *text = reason(r, c), *axis = splitting_axis(c),
               *micro = ls_recipe_origin(r, "train.micro_batch");
    *why = 0;
    if (text)
        snprintf(why, LS_WHY_BYTES, "%s", text);
    else if (axis)
        snprintf(why, LS_WHY_BYTES,
                 "axis %s: another number of ranks on it rounds sums over a layer's inputs or over tokens in "
                 "other places (the number of data ranks does not matter); parallel.slices keeps them",
                 axis);
    else if (!strncmp(micro, LS_ORIGIN_PER_RANK, strlen(LS_ORIGIN_PER_RANK)))
        snprintf(why, LS_WHY_BYTES,
                 "train.micro_batch is not set, so it is global_batch / data ranks, %lld here; a number in "
                 "the recipe, as %lld, keeps them",
                 (long long)c->micro_batch,
                 (long long)(r->train.global_batch % 4 ? c->micro_batch : r->train.global_batch / 4));
    return !*why;
}
