/* report_page.c - from the plans and the loop to report.html. */
#include "report_page.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "setup/compiled_recipe.h"
#include "setup/step_html.h"
#include "base/memory.h"
#include "base/sys.h"
#include "pages/report.h"
#include "step/memory.h"

static const char **labels(const ls_plan *p, ls_arena *a)
{
    const char **text = LS_ARENA_ARRAY(a, const char *, p->n_steps);
    for (int i = 0; text && i < p->n_steps; i++)
        text[i] = ls_plan_step_text(a, p, i);
    return text;
}

ls_status ls_report_page(const ls_loop *l, const ls_calibration *calibration, ls_run_state state)
{
    const ls_compiled *c = &l->trainer->compiled;
    char hardware[64];
    ls_arena a;
    ls_arena_init(&a);
    ls_calibration_hardware(hardware, &c->device);
    ls_report r = { .recipe = l->recipe,
                    .state = state,
                    .data_note = l->run->data_note,
                    .builtin_data = l->run->builtin_data,
                    .hardware = hardware,
                    .isa = c->device.arch->name,
                    .threads = c->device.threads,
                    .plan_step_seconds = ls_compiled_seconds(c),
                    .plan_step_flops = ls_compiled_flops(c),
                    .peak_flops = calibration ? ls_calibration_peak(calibration, l->recipe->precision.param)
                                              : 0,
                    .measured_step_seconds = l->step_median,
                    .first_step_seconds = l->first_step_seconds,
                    .measured_rss = (size_t)ls_anonymous_rss(),
                    .parameters = c->units.parameters };
    for (int i = LS_MICRO; i <= LS_UPDATE; i++) {
        ls_plan *p = c->plans[i];
        ls_report_program *out = &r.programs[r.n_programs++];
        *out = (ls_report_program){ .name = ls_program_names[i],
                                    .n = p->n_steps,
                                    .points = ls_plan_timeline(p),
                                    .labels = labels(p, &a),
                                    .peak = p->peak_step,
                                    .seconds = p->seconds,
                                    .arena_bytes = p->arena_bytes };
        for (int k = 0; k < p->n_allocs; k++)
            if (ls_is_lasting(&p->allocs[k]))
                out->fixed[p->allocs[k].category] += (p->allocs[k].bytes + 63) / 64 *
                                                     64; /* as the timeline counts them */
    }
    ls_str ranks = { 0 };
    if (ls_mesh_ranks(&c->parallel.mesh) > 1) {
        ls_str_printf(&ranks, "%lld ranks: ", (long long)ls_mesh_ranks(&c->parallel.mesh));
        ls_layout_text(&ranks, c);
        r.ranks = ranks.data;
    }
    const ls_step_memory m = ls_compiled_memory(c);
    memcpy(r.state_by_category, m.plans.fixed, sizeof r.state_by_category);
    r.state_by_category[LS_CAT_GRADIENTS] += m.spares.level_bytes;
    r.state_by_category[LS_CAT_PARAMETERS] += m.spares.undo_bytes;
    r.state_by_category[LS_CAT_WORKSPACE] += m.spares.scratch_bytes;
    r.state_by_category[LS_CAT_DATA] = 0; /* shown as inputs and outputs */
    r.state_by_category[LS_CAT_STAGING] = r.plan_staging = m.saves;
    r.plan_state = m.plans.state + m.spares.undo_bytes + m.spares.scratch_bytes;
    r.plan_arena = m.plans.arena + m.plans.symmetric;
    r.plan_io = m.plans.io + m.spares.level_bytes;
    r.plan_device = m.apart ? m.device : 0;
    r.plan_host = m.apart ? m.host : 0;
    ls_status s = ls_arena_status(&a);
    for (int i = 0; i < r.n_programs && s == LS_OK; i++)
        s = ls_sys_have(r.programs[i].points);
    if (s == LS_OK)
        s = ls_str_status(&ranks);
    char *step = ls_path_join(l->run->path, "step.html");
    if (s == LS_OK)
        s = ls_step_html(step, l->recipe->run.name, c, ls_profiler_times(&l->profiler));
    free(step);
    if (s == LS_OK)
        s = ls_report_write(l->run, &r);
    ls_arena_release(&a);
    ls_str_release(&ranks);
    return s;
}
