/* over_ranks.c - see over_ranks.h. */
#include "passes/over_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/sys.h"
#include "device/ref/ref.h"
#include "graph/op.h"
#include "plan/plan.h"
#include "execute/session.h"

/* Copies numbers to a value or from it. */
static ls_status move(ls_session *s, const char *name, double *x, bool write)
{
    ls_place p;
    LS_TRY(ls_session_place(s, name, &p));
    const size_t bytes = ls_type_bytes(&p.type);
    const ls_tensor t = ls_tensor_of(ls_sys_malloc(bytes), &p.type);
    LS_TRY(ls_sys_have(t.data));
    for (int64_t i = 0; write && i < ls_type_count(&t.type); i++)
        ls_ref_put(&t, i, x[i]);
    const ls_status status = write ? ls_session_write(&p, t.data, bytes) : ls_session_read(&p, t.data, bytes);
    for (int64_t i = 0; !write && i < ls_type_count(&t.type); i++)
        x[i] = ls_ref_get(&t, i);
    free(t.data);
    return status;
}

static ls_status transfer(ls_session *s, const ls_graph *g, const feed *feeds, double *const *outputs)
{
    LS_TRY(ls_session_enter(s, "filling")); /* other ranks read it */
    for (const feed *f = feeds; f->name; f++)
        LS_TRY(move(s, f->name, (double *)(uintptr_t)f->data, true));
    ls_session_leave(s);
    LS_TRY(ls_session_run(s, 0, false));
    for (int k = 0; k < g->n_outputs; k++)
        LS_TRY(move(s, g->outputs[k].name, outputs[k], false));
    return LS_OK;
}

ls_status run_over_ranks(ls_group *group, const ls_graph *g, const feed *feeds, double *const *outputs)
{
    const ls_parallel p = { LS_PARALLEL_DEFAULTS,
                            .mesh = { .n = 1, .axes = { { "tp", ls_group_size(group) } } },
                            .rank = ls_group_rank(group), .reduce = LS_F64 };
    ls_device d;
    ls_plan *plan = NULL;
    ls_session *s = NULL;
    LS_TRY(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    LS_TRY(ls_plan_create(&plan, g, &d, &(ls_plan_opts){ .parallel = &p }));
    ls_status status = ls_session_create(
        &s, 1, &plan, &(ls_session_opts){ .group = ls_group_size(group) > 1 ? group : NULL, .parallel = &p });
    if (status == LS_OK)
        status = transfer(s, g, feeds, outputs);
    ls_session_destroy(&s);
    ls_plan_destroy(&plan);
    return status;
}

void block_of(double *out, const double *whole, const ls_type *type, ls_placement p,
              const ls_shard_axis *axis)
{
    int64_t outer = 1, middle = 1, inner = 1;
    for (int d = 0; d < type->ndim; d++)
        *(p.kind == LS_SHARD && d >= p.dim ? d < p.dim + p.dims ? &middle : &inner : &outer) *= type->dims[d];
    if (p.kind != LS_SHARD) {
        memcpy(out, whole, sizeof(double) * (size_t)outer);
        return;
    }
    const int64_t run = middle / axis->ranks * inner;
    for (int64_t o = 0; o < outer; o++)
        memcpy(out + o * run, whole + o * middle * inner + axis->position * run,
               sizeof(double) * (size_t)run);
}

void fill_exact(double *out, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)((int64_t)ls_rng_below(ls_rng_key_of(seed, 7), (uint64_t)i, 129) - 64) / 8;
}
