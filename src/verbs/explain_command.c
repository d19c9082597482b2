/* explain_command.c - `lockstep explain`: the compiled step as one rank runs it, or the life of one
 * parameter. */
#include <string.h>

#include "commands.h"
#include "base/shown.h"
#include "base/str.h"
#include "plan/describe.h"
#include "setup/compiled_recipe.h"
#include "setup/step_html.h"

static void head_text(ls_str *out, const ls_compiled_recipe *c, int64_t rank)
{
    const ls_compiled *s = &c->step;
    ls_str_printf(out, "step of %s", c->recipe->run.name);
    if (c->ranks > 1) {
        ls_str_printf(out, " as rank %lld of %d runs it: ", (long long)rank, c->ranks);
        ls_layout_text(out, s);
    }
    ls_str_printf(out, "\n%lld x program micro (%lld samples each", (long long)ls_compiled_runs(s),
                  (long long)(s->unrolled * s->micro_batch));
    if (c->ranks > 1) {
        ls_str_add(out, "; micro-batch");
        for (int64_t i = 0; i < s->share.count && i < 4; i++)
            ls_str_printf(out, "%s %lld",
                          i                    ? ","
                          : s->share.count > 1 ? "es"
                                               : "",
                          (long long)(s->share.first + i * s->share.stride));
        ls_str_printf(out, "%s of %lld", s->share.count > 4 ? ", ..." : "", (long long)s->micro_batches);
    }
    ls_str_printf(out, "), 1 x program update\n");
    ls_explain_legend(out);
}

static ls_status step_text(const ls_ui *ui, const ls_explain_opts *o, const ls_compiled_recipe *c)
{
    ls_str s = { 0 };
    head_text(&s, c, o->rank);
    for (int i = 0; i < LS_PROGRAMS; i++) {
        ls_str_add(&s, "\n");
        ls_explain_text(&s, c->step.plans[i], o->full);
    }
    return ls_print_result(ui->out, &s);
}

static ls_status step_json(const ls_ui *ui, const ls_explain_opts *o, const ls_compiled_recipe *c)
{
    ls_json j = { 0 };
    ls_str layout = { 0 };
    ls_layout_text(&layout, &c->step);
    ls_json_object(&j, NULL);
    ls_json_int(&j, "rank", o->rank);
    ls_json_int(&j, "ranks", c->ranks);
    ls_json_text(&j, "layout", ls_str_text(&layout));
    ls_json_int(&j, "micro_batches", c->step.share.count);
    for (int i = 0; i < LS_PROGRAMS; i++)
        ls_explain_json(&j, ls_program_names[i], c->step.plans[i]);
    ls_json_close_object(&j);
    ls_str_inherit(&j.out, &layout);
    ls_str_release(&layout);
    return ls_print_result(ui->out, &j.out);
}

/* ---- one parameter */

static void parts_text(ls_str *out, const ls_compiled_recipe *c, int slot)
{
    const ls_units *u = &c->step.units;
    for (int r = 0; r < c->ranks && !ls_slot_everywhere(u, slot); r++) {
        const ls_local_shard h = ls_slot_local_shard(u, &c->step.parallel.mesh, slot, r);
        ls_str_printf(out, "  rank %-3d holds ", r);
        ls_local_shard_text(out, &h);
        ls_str_add(out, "\n");
    }
}

static ls_status param(const ls_ui *ui, const ls_explain_opts *o, const ls_compiled_recipe *c, int slot)
{
    const ls_stored_at at = ls_stored_of(&c->step.units, &c->step.parallel, slot);
    ls_json j = { 0 };
    ls_str s = { 0 };
    if (o->json) {
        ls_json_object(&j, NULL);
        ls_explain_param_json(&j, &at, LS_PROGRAMS, c->step.plans);
        ls_stored_parts_json(&j, "parts", &c->step.units, &c->step.parallel, slot);
        ls_json_close_object(&j);
        ls_str_add(&j.out, "\n");
    } else {
        ls_explain_param_text(&s, &at, LS_PROGRAMS, c->step.plans);
        parts_text(&s, c, slot);
    }
    return ls_print_result(ui->out, o->json ? &j.out : &s);
}

static ls_status find_param(const ls_ui *ui, const ls_explain_opts *o, const ls_compiled_recipe *c)
{
    const ls_units *u = &c->step.units;
    for (int i = 0; i < u->n_slots; i++)
        if (!strcmp(u->slots[i].name, o->param))
            return param(ui, o, c, i);
    const char *names[4096];
    int n = u->n_slots < 4096 ? u->n_slots : 4096;
    for (int i = 0; i < n; i++)
        names[i] = u->slots[i].name;
    const char *near = ls_nearest_name(o->param, names, n);
    return ls_fail(LS_E_USAGE,
                   "--param %s: the model has no such parameter%s%s (lockstep inspect %s lists them)",
                   o->param, near ? "; did you mean " : "", near ? near : "", o->recipe.name);
}

/* ---- the page */

static ls_status write_page(const ls_explain_opts *o, const ls_compiled_recipe *c)
{
    ls_arena a;
    ls_step_times times[LS_EVAL];
    ls_status s = LS_OK;
    ls_arena_init(&a);
    if (o->profile)
        s = ls_trace_times(times, &a, o->profile, LS_EVAL, c->step.plans);
    if (s == LS_OK)
        s = ls_step_html(o->html, c->recipe->run.name, &c->step, o->profile ? times : NULL);
    if (s == LS_OK)
        ls_log_info("the step is in %s: open it in a browser", o->html);
    ls_arena_release(&a);
    return s;
}

ls_status ls_explain_command(const ls_explain_opts *o, const ls_ui *ui)
{
    ls_compiled_recipe c;
    LS_TRY(ls_compiled_recipe_make(&c, &o->recipe, o->rank,
                                   &(ls_elsewhere){ .ranks_per_host = o->ranks_per_host }));
    ls_status status = o->measure ? ls_compiled_recipe_measure(&c) : LS_OK;
    if (status != LS_OK)
        ;
    else if (o->html)
        status = write_page(o, &c);
    else if (o->param)
        status = find_param(ui, o, &c);
    else
        status = (o->json ? step_json : step_text)(ui, o, &c);
    ls_compiled_recipe_release(&c);
    return status;
}
