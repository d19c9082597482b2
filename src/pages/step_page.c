/* step_page.c - the page of a step, and the data of its drawing: what `explain --json` says, the times and
 * the memory of every step. scripts/step.js draws it. */
#include "step_page.h"

#include <stdio.h>

#include "base/file.h"
#include "ops/rules.h"
#include "plan/describe.h"
#include "step_words.h"

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
    ls_json_int(j, "runs", program == LS_MICRO ? ls_compiled_runs(v->compiled) : 1);
    ls_explain_json(j, "plan", p);
    if (p->seconds > 0)
        seconds_json(j, "estimated", n, estimated);
    if (v->times && v->times[program].runs)
        seconds_json(j, "measured", n, v->times[program].seconds);
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

static bool has(const ls_step_view *v, const ls_op *op)
{
    for (int program = LS_MICRO; program <= LS_UPDATE; program++) {
        const ls_plan *p = v->compiled->plans[program];
        for (int k = 0; k < p->n_steps; k++)
            if (p->graph->nodes[p->steps[k].node]->op == op)
                return true;
    }
    return false;
}

/* {"linear": "Multiplies ...", ...}: a sentence for every op of the step */
static void kinds_json(ls_json *j, const ls_step_view *v)
{
    ls_json_object(j, "kinds");
    for (const ls_op *const *op = ls_ops; *op; op++)
        if (has(v, *op))
            ls_json_text(j, (*op)->name, (*op)->summary);
    ls_json_close_object(j);
}

static ls_status view_json(ls_json *j, ls_arena *a, const ls_step_view *v, const ls_memory_bands *m)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "name", v->name);
    kinds_json(j, v);
    ls_json_array(j, "bands");
    for (int b = 0; b < LS_BANDS; b++) {
        ls_json_object(j, NULL);
        ls_json_text(j, "name", m->names[b]);
        ls_json_text(j, "color", m->colors[b]);
        ls_json_int(j, "fixed", (int64_t)m->fixed[b]);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_array(j, "programs");
    LS_TRY(program_json(j, a, v, m, LS_MICRO));
    LS_TRY(program_json(j, a, v, m, LS_UPDATE));
    ls_json_close_array(j);
    ls_json_close_object(j);
    return LS_OK;
}

void ls_step_page_begin(ls_step_page *p, const char *title)
{
    *p = (ls_step_page){ .title = title };
    ls_arena_init(&p->arena);
    ls_json_array(&p->views, NULL);
    p->numbers = LS_ARENA_ARRAY(&p->arena, ls_step_numbers, LS_STEP_VIEWS);
}

/* What is at the top of a page with this one layout. */
static void head(ls_str *out, const ls_step_view *v, const ls_step_numbers *n)
{
    ls_str_add(out, "<h1>Step of ");
    ls_html_add(out, v->name);
    ls_str_add(out, "</h1>\n<p class=\"sub\">");
    ls_step_subtitle(out, v);
    if (n->kind && v->times)
        ls_str_printf(out, " · times measured: the median of %d runs", v->times[LS_MICRO].runs);
    else if (n->kind)
        ls_str_add(out, " · times estimated from measurements of this machine");
    ls_str_add(out, "</p>\n");
    ls_step_cards(out, n);
}

/* The heading of a panel, which only a page with several layouts shows. */
static void panel_head(ls_str *out, const ls_step_view *v)
{
    ls_str_add(out, "<section class=\"panel\">\n<h2>");
    ls_html_add(out, v->name);
    ls_str_add(out, "</h2>\n<p class=\"sub\">");
    ls_step_subtitle(out, v);
    ls_str_add(out, "</p>\n");
}

/* The sentences again, for readers without scripts, and to read through. */
static void kinds_list(ls_str *out, const ls_step_view *v)
{
    ls_str_add(out, "<h2>What each operation computes</h2>\n<dl class=\"kinds\">\n");
    for (const ls_op *const *op = ls_ops; *op; op++)
        if (has(v, *op)) {
            ls_str_printf(out, "<div><dt>%s</dt><dd>", (*op)->name);
            ls_html_add(out, (*op)->summary);
            ls_str_add(out, "</dd></div>\n");
        }
    ls_str_add(out, "</dl>\n");
}

static void note(ls_str *out, const ls_step_view *v, const ls_step_numbers *n)
{
    ls_str_add(out, "<p class=\"note\">");
    if (v->compiled->share.count > 1)
        ls_str_printf(out, "The drawing shows one of %lld micro-batches, then the update. ",
                      (long long)v->compiled->share.count);
    if (!n->kind)
        ls_str_add(out, "Times are not known here, so every kernel call is equally wide: <code>lockstep "
                        "doctor</code>, or --measure, measures them. ");
    ls_str_add(out, "Drag over a part to zoom in.</p>\n");
}

ls_status ls_step_page_add(ls_step_page *p, const ls_step_view *v)
{
    ls_memory_bands m;
    ls_step_numbers *n = &p->numbers[p->n];
    LS_TRY(ls_arena_status(&p->arena));
    LS_TRY(ls_memory_bands_make(&m, &p->arena, v->compiled));
    LS_TRY(ls_step_numbers_of(n, &p->arena, v, &m));
    LS_TRY(view_json(&p->views, &p->arena, v, &m));
    if (!p->n++) {
        head(&p->head, v, n);
        note(&p->head, v, n);
        LS_TRY(ls_step_tables(&p->tables, &p->arena, v, n));
        kinds_list(&p->tables, v);
    }
    panel_head(&p->panels, v);
    p->first = p->n == 1 ? p->panels.len : p->first;
    LS_TRY(ls_step_figure(&p->panels, &p->arena, v, n, &m));
    ls_str_add(&p->panels, "</section>\n");
    return LS_OK;
}

void ls_step_page_refuse(ls_step_page *p, const char *name, const char *why)
{
    p->n_refused++;
    ls_str_add(&p->refused, "<p class=\"warn\">");
    ls_html_add(&p->refused, name);
    ls_str_add(&p->refused, " is refused: ");
    ls_html_add(&p->refused, why);
    ls_str_add(&p->refused, "</p>\n");
}

ls_status ls_step_page_write(ls_step_page *p, const char *path)
{
    const bool several = p->n + p->n_refused > 1;
    ls_str out = { 0 };
    ls_page_begin(&out, several || !p->n ? p->title : p->numbers[0].name, true);
    if (several) {
        ls_str_add(&out, "<h1>");
        ls_html_add(&out, p->title);
        ls_str_add(&out, "</h1>\n<p class=\"sub\">All drawings have the same axes: time to the right, memory "
                         "upwards.</p>\n");
        ls_str_add(&out, ls_str_text(&p->refused));
    } else {
        ls_str_add(&out, ls_str_text(&p->head));
    }
    ls_str_add(&out, several ? "<div class=\"panels\">\n" : "<div>\n<section class=\"panel\">\n");
    ls_str_add(&out, ls_str_text(&p->panels) + (several || !p->n ? 0 : p->first));
    ls_str_add(&out, "</div>\n");
    if (several)
        ls_step_compare(&out, p->n, p->numbers);
    else
        ls_str_add(&out, ls_str_text(&p->tables));
    ls_json_close_array(&p->views);
    ls_page_data(&out, "data", &p->views);
    ls_page_end(&out, "charts.js lanes.js step.js");
    const ls_str *const parts[] = { &p->head, &p->refused, &p->panels, &p->tables };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        ls_str_inherit(&out, parts[i]);
    ls_status s = ls_arena_status(&p->arena);
    if (s == LS_OK)
        s = ls_file_write_text(path, &out);
    ls_str_release(&out);
    return s;
}

void ls_step_page_release(ls_step_page *p)
{
    ls_str_release(&p->views.out);
    ls_str_release(&p->head);
    ls_str_release(&p->refused);
    ls_str_release(&p->panels);
    ls_str_release(&p->tables);
    ls_arena_release(&p->arena);
}

ls_status ls_step_page_one(const char *path, const ls_step_view *v)
{
    ls_step_page p;
    ls_step_page_begin(&p, v->name);
    ls_status s = ls_step_page_add(&p, v);
    if (s == LS_OK)
        s = ls_step_page_write(&p, path);
    ls_step_page_release(&p);
    return s;
}
