/* step_page.c - data of the page of a step: what `explain --json` says, the times and the memory of every
 * step. pages/step.js draws it. */
#include "step_page.h"

#include <stdio.h>

#include "base/file.h"
#include "memory_bands.h"
#include "plan/describe.h"
#include "page.h"

static void seconds_json(ls_json *j, const char *key, int n, const double *seconds)
{
    ls_json_array(j, key);
    for (int k = 0; k < n; k++)
        ls_json_f64(j, NULL, 1e-9 * (double)(int64_t)(seconds[k] * 1e9 + 0.5)); /* whole nanoseconds */
    ls_json_close_array(j);
}

static ls_status program_json(ls_json *j, ls_arena *a, const ls_step_view *v, const ls_memory_bands *m,
                              int program)
{
    const ls_plan *p = v->compiled->plans[program];
    const int n = p->n_steps;
    double *estimated = LS_ARENA_ARRAY(a, double, n + 1);
    LS_TRY(ls_arena_status(a));
    for (int k = 0; k < n; k++)
        estimated[k] = p->steps[k].seconds;
    ls_json_object(j, NULL);
    ls_json_text(j, "name", ls_program_names[program]);
    ls_json_int(j, "runs", program == LS_MICRO ? v->compiled->share.count : 1);
    ls_explain_json(j, "plan", p);
    if (p->seconds > 0)
        seconds_json(j, "estimated", n, estimated);
    if (v->times && v->times[program].runs) {
        seconds_json(j, "measured", n, v->times[program].seconds);
        ls_json_int(j, "measured_runs", v->times[program].runs);
    }
    ls_json_array(j, "alive"); /* [steps][categories]: bytes of the arenas */
    for (int k = 0; k < n; k++) {
        ls_json_array(j, NULL);
        for (int c = 0; c < LS_CAT_COUNT; c++)
            ls_json_int(j, NULL, (int64_t)m->transient[program][k][c]);
        ls_json_close_array(j);
    }
    ls_json_close_array(j);
    ls_json_close_object(j);
    return LS_OK;
}

ls_status ls_step_view_json(ls_json *j, ls_arena *a, const ls_step_view *v)
{
    const ls_compiled *c = v->compiled;
    ls_memory_bands m;
    LS_TRY(ls_memory_bands_make(&m, a, c));
    ls_json_object(j, NULL);
    ls_json_text(j, "name", v->name);
    ls_json_text(j, "layout", v->layout);
    ls_json_int(j, "rank", c->parallel.rank);
    ls_json_int(j, "ranks", ls_mesh_ranks(&c->parallel.mesh));
    ls_json_int(j, "micro_batch", c->micro_batch);
    ls_json_int(j, "micro_batches", c->micro_batches);
    ls_json_text(j, "isa", c->device.arch->name);
    ls_json_int(j, "threads", c->device.threads);
    ls_json_int(j, "total_bytes", (int64_t)m.memory.total);
    ls_json_array(j, "bands");
    for (int b = 0; b < LS_BANDS; b++) {
        ls_json_object(j, NULL);
        ls_json_text(j, "name", m.names[b]);
        ls_json_text(j, "color", m.colors[b]);
        ls_json_int(j, "fixed", (int64_t)m.fixed[b]);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_array(j, "programs");
    LS_TRY(program_json(j, a, v, &m, LS_MICRO));
    LS_TRY(program_json(j, a, v, &m, LS_UPDATE));
    ls_json_close_array(j);
    ls_json_close_object(j);
    return LS_OK;
}

ls_status ls_step_page_write(const char *path, const char *title, ls_json *views)
{
    ls_str out = { 0 };
    ls_page_begin(&out, title, true);
    ls_page_data(&out, "data", views);
    ls_page_end(&out, "charts.js lanes.js step.js");
    const ls_status s = ls_file_write_text(path, &out);
    ls_str_release(&out);
    return s;
}

ls_status ls_step_page(const char *path, const ls_step_view *v)
{
    ls_arena a;
    ls_json j = { 0 };
    ls_arena_init(&a);
    ls_json_array(&j, NULL);
    ls_status s = ls_step_view_json(&j, &a, v);
    ls_json_close_array(&j);
    if (s == LS_OK)
        s = ls_step_page_write(path, v->name, &j);
    ls_str_release(&j.out);
    ls_arena_release(&a);
    return s;
}
