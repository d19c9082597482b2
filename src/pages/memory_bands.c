/* memory_bands.c - see memory_bands.h. */
#include "memory_bands.h"

const char *ls_category_color(ls_category c)
{
    static const char *const COLORS[LS_CAT_COUNT] = {
        [LS_CAT_PARAMETERS] = "var(--c-blue)",  [LS_CAT_GRADIENTS] = "var(--c-amber)",
        [LS_CAT_OPTIMIZER] = "var(--c-red)",    [LS_CAT_GATHERED] = "var(--c-sky)",
        [LS_CAT_ACTIVATIONS] = "var(--c-teal)", [LS_CAT_WORKSPACE] = "var(--c-violet)",
        [LS_CAT_DATA] = "var(--c-brown)",       [LS_CAT_STAGING] = "var(--c-moss)"
    };
    return COLORS[c];
}

/* Zeros of a program whose arena is not on the device. */
static const size_t (*transient_of(ls_arena *a, ls_plan *plan, bool on_device))[LS_CAT_COUNT]
{
    size_t(*bytes)[LS_CAT_COUNT] = ls_arena_alloc(a, sizeof *bytes * (size_t)(plan->n_steps + 1));
    const ls_timeline_point *all = ls_plan_timeline(plan);
    size_t lasting[LS_CAT_COUNT] = { 0 };
    for (int i = 0; i < plan->n_allocs; i++)
        if (ls_is_lasting(&plan->allocs[i]))
            lasting[plan->allocs[i].category] += (plan->allocs[i].bytes + 63) / 64 *
                                                 64; /* as the timeline counts them */
    a->no_memory = a->no_memory || !all;
    for (int k = 0; !a->no_memory && k < plan->n_steps; k++)
        for (int c = 0; c < LS_CAT_COUNT; c++)
            bytes[k][c] = on_device ? all[k].bytes[c] - lasting[c] : 0;
    return (const size_t(*)[LS_CAT_COUNT])bytes;
}

ls_status ls_memory_bands_make(ls_memory_bands *out, ls_arena *a, const ls_compiled *c)
{
    *out = (ls_memory_bands){ .memory = ls_compiled_memory(c) };
    const ls_step_memory *m = &out->memory;
    for (int i = 0; i < LS_PROGRAMS; i++)
        out->transient[i] = transient_of(a, c->plans[i], ls_on_device(m, c->plans[i]));
    for (int b = 0; b < LS_CAT_COUNT; b++) {
        out->names[b] = ls_category_name((ls_category)b);
        out->colors[b] = ls_category_color((ls_category)b);
        out->fixed[b] = m->fixed[b];
    }
    out->names[LS_BAND_HOST] = m->apart ? "in host memory" : "resting on the host (offload)";
    out->colors[LS_BAND_HOST] = "var(--line)";
    out->fixed[LS_BAND_HOST] = m->host;
    out->names[LS_BAND_NODE] = "gathered, one copy for the host's ranks";
    out->colors[LS_BAND_NODE] = "var(--c-gray)";
    out->fixed[LS_BAND_NODE] = m->plans.node;
    return ls_arena_status(a);
}
