/* report.c - report.html: its sections in order, each a function that adds its HTML, or nothing if it has no
 * data. */
#include "report.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/c_locale.h"
#include "base/file.h"
#include "report_own.h"

typedef struct page {
    ls_str out;
    const ls_rundir *run;
    const ls_report *r;
    ls_history history;
    ls_curves curves;
    ls_marks marks;
    ls_run_info info; /* state and times from result.json */
} page;

/* ---- small pieces */

static void card(ls_str *out, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void card(ls_str *out, const char *name, const char *format, ...)
{
    char value[128];
    va_list args;
    va_start(args, format);
    ls_vsnprintf(value, sizeof value, format, args);
    va_end(args);
    ls_str_add(out, "<div class=\"card\"><b>");
    ls_html_add(out, value);
    ls_str_add(out, "</b><span>");
    ls_html_add(out, name);
    ls_str_add(out, "</span></div>\n");
}

/* ---- sections */

static void report_head(page *p)
{
    const ls_report *r = p->r;
    char count[32];
    ls_str *out = &p->out;
    ls_page_begin(out, r->recipe->run.name, false);
    ls_str_add(out, "<h1>");
    ls_html_add(out, r->recipe->run.name);
    ls_str_printf(out, "<span class=\"state %s\">%s</span></h1>\n<p class=\"sub\">",
                  ls_run_state_name(p->info.state), ls_run_state_name(p->info.state));
    ls_html_count(count, r->parameters);
    ls_str_printf(out, "%s, %s parameters · ", r->recipe->model.type, count);
    ls_html_add(out, r->data_note ? r->data_note : r->recipe->data.type);
    ls_str_add(out, "</p>\n<p class=\"sub\">");
    ls_html_add(out, r->hardware);
    ls_str_printf(out, " · %s · %d thread%s · precision %s", r->isa ? r->isa : "", r->threads,
                  r->threads == 1 ? "" : "s", ls_dtype_name(r->recipe->precision.param));
    if (*r->recipe->precision.modules) {
        ls_str_add(out, ", ");
        ls_html_add(out, r->recipe->precision.modules);
    }
    ls_str_add(out, " · lockstep " LS_VERSION "</p>\n");
    if (r->ranks) {
        ls_str_add(out, "<p class=\"sub\">");
        ls_html_add(out, r->ranks);
        ls_str_add(out, "; times and bytes of a step are those of rank 0</p>\n");
    }
    if (r->builtin_data && !strcmp(r->recipe->data.type, "shapes"))
        ls_str_add(out, "<p class=\"warn\">The recipe trains on the <b>built-in drawn shapes</b>. These "
                        "numbers say nothing about a real data set.</p>\n");
    else if (r->builtin_data)
        ls_str_add(out, "<p class=\"warn\">The data set was not found. These numbers come from the "
                        "<b>built-in drawn shapes</b> and say nothing about the data set.</p>\n");
    if (*p->info.error) {
        ls_str_add(out, "<p class=\"warn\">");
        ls_html_add(out, p->info.error);
        ls_str_add(out, "</p>\n");
    }
    if (p->history.bad_lines)
        ls_str_printf(out, "<p class=\"warn\">metrics.jsonl has %d damaged line%s.</p>\n",
                      p->history.bad_lines, p->history.bad_lines == 1 ? "" : "s");
}

/* What the last epoch says of its data. */
static void data_cards(ls_str *out, const ls_history *h)
{
    const ls_epoch_row *e = h->n_epochs ? &h->epochs[h->n_epochs - 1].row : NULL;
    if (e && e->replaced)
        card(out, "broken images replaced", "%lld in epoch %lld", (long long)e->replaced,
             (long long)e->epoch);
    if (e && e->data_seconds > 0.05 * e->seconds)
        card(out, "waited for data", "%.0f%% of epoch %lld", 100 * e->data_seconds / e->seconds,
             (long long)e->epoch);
}

static void summary(page *p)
{
    const ls_run_metrics *m = &p->run->metrics;
    char a[32], step[32];
    ls_str *out = &p->out;
    ls_str_add(out, "<div class=\"cards\">\n");
    for (int i = 0; i < m->eval.n; i++) {
        const char *name = m->eval.at[i].name;
        const double value = m->eval.at[i].value;
        char what[32 + LS_METRIC_NAME];
        snprintf(what, sizeof what, "evaluation %s", name);
        if (!strcmp(name, "accuracy") && !isnan(value))
            card(out, what, "%.2f%%", 100 * value);
        else if (strcmp(name, "loss") && !isnan(value))
            card(out, what, "%.4g", value);
    }
    if (m->eval_rouge.texts)
        card(out, "ROUGE-1, -2, -L", "%.4f, %.4f, %.4f", m->eval_rouge.mean.rouge1, m->eval_rouge.mean.rouge2,
             m->eval_rouge.mean.rougeL);
    if (!isnan(ls_evaluation_get(&m->eval, "loss")))
        card(out, "evaluation loss", "%.4f", ls_evaluation_get(&m->eval, "loss"));
    if (p->curves.smooth.n && !isnan(p->curves.smooth.y[p->curves.smooth.n - 1]))
        card(out, "training loss", "%.4f", p->curves.smooth.y[p->curves.smooth.n - 1]);
    ls_html_count(step, m->step);
    card(out, "optimizer steps", "%s", step);
    if (p->r->measured_step_seconds > 0)
        card(out, "median step", "%s", ls_format_duration(a, p->r->measured_step_seconds));
    if (p->curves.step_seconds > 0)
        card(out, "samples a second", "%s",
             ls_html_count(step, (int64_t)((double)p->curves.samples / p->curves.step_seconds)));
    if (p->run->startup.total > 0)
        card(out, "start to first step", "%s", ls_format_duration(a, p->run->startup.total));
    data_cards(out, &p->history);
    ls_str_add(out, "</div>\n");
}

static void curves(page *p)
{
    const ls_curves *c = &p->curves;
    ls_str *out = &p->out;
    if (!c->loss.n) {
        ls_str_add(out, "<p class=\"note\">No step has been finished yet.</p>\n");
        return;
    }
    ls_str_add(out, "<h2>Loss</h2>\n");
    ls_chart_lines(
        out, &(ls_chart){ .title = "loss over optimizer steps",
                          .x_name = "step",
                          .n = c->eval_loss.n ? 3 : 2,
                          .low = 1,
                          .high = 0,
                          .width = 880,
                          .height = 320,
                          .marks = &p->marks,
                          .series = { { &c->loss, "training, each step", "var(--c-blue)", false, true },
                                      { &c->smooth, "training, smoothed", "var(--c-blue)", false, false },
                                      { &c->eval_loss, "evaluation", "var(--c-red)", true, false } } });
    for (int k = 0; k < c->metrics.n && c->eval[k].n; k++) {
        const bool accuracy = !strcmp(c->metrics.at[k].name, "accuracy");
        char title[32 + LS_METRIC_NAME];
        snprintf(title, sizeof title, "evaluation %s", c->metrics.at[k].name);
        ls_str_add(out, "<h2>");
        ls_html_add(out, accuracy ? "Accuracy" : c->metrics.at[k].name);
        ls_str_add(out, "</h2>\n");
        ls_chart_lines(
            out, &(ls_chart){ .title = title,
                              .x_name = "step",
                              .n = 1,
                              .low = 1,
                              .high = 0,
                              .width = 880,
                              .height = 240,
                              .marks = &p->marks,
                              .percent = accuracy,
                              .series = { { &c->eval[k], "evaluation", "var(--c-teal)", true, false } } });
    }
    if (c->eval_rouge[0].n) {
        ls_str_add(out, "<h2>ROUGE</h2>\n");
        ls_chart_lines(
            out, &(ls_chart){ .title = "ROUGE of generated texts",
                              .x_name = "step",
                              .n = 3,
                              .low = 1,
                              .high = 0,
                              .width = 880,
                              .height = 240,
                              .marks = &p->marks,
                              .series = { { &c->eval_rouge[0], "ROUGE-1", "var(--c-blue)", true, false },
                                          { &c->eval_rouge[1], "ROUGE-2", "var(--c-amber)", true, false },
                                          { &c->eval_rouge[2], "ROUGE-L", "var(--c-teal)", true, false } } });
    }
    ls_str_add(out, "<div class=\"two\"><div><h2>Learning rate</h2>\n");
    ls_chart_lines(out,
                   &(ls_chart){ .title = "learning rate",
                                .x_name = "step",
                                .n = 1,
                                .low = 0,
                                .high = 0,
                                .width = 430,
                                .height = 220,
                                .series = { { &c->lr, "learning rate", "var(--c-violet)", false, false } } });
    ls_str_add(out, "</div><div><h2>Seconds a step</h2>\n");
    ls_chart_lines(out,
                   &(ls_chart){ .title = "seconds a step",
                                .x_name = "step",
                                .n = 1,
                                .low = 0,
                                .high = 0,
                                .width = 430,
                                .height = 220,
                                .series = { { &c->seconds, "seconds", "var(--c-amber)", false, false } } });
    ls_str_add(out, "</div></div>\n");
}

static void epochs(page *p)
{
    ls_str *out = &p->out;
    if (!p->history.n_epochs)
        return;
    ls_str_add(
        out,
        "<h2>Epochs</h2>\n<div class=\"scroll\"><table><thead><tr><th>epoch</th><th>step</th><th>training "
        "loss</th><th>evaluation loss</th>");
    ls_report_metric_names(out, &p->curves.metrics);
    ls_str_add(out, "<th>time</th><th>samples / s</th></tr></thead><tbody>\n");
    for (int i = 0; i < p->history.n_epochs; i++) {
        const ls_epoch_row *e = &p->history.epochs[i].row;
        char b[4][32], epoch[32], step[32], metrics[LS_MOST_METRICS][32];
        const char *cells[6 + LS_MOST_METRICS];
        int n = 0;
        snprintf(epoch, sizeof epoch, "%lld", (long long)e->epoch);
        cells[n++] = epoch;
        cells[n++] = ls_html_count(step, e->step);
        cells[n++] = ls_html_number(b[0], "%.4f", e->train_loss);
        cells[n++] = ls_html_number(b[1], "%.4f", ls_evaluation_get(&e->eval, "loss"));
        n += ls_report_metric_cells(cells + n, metrics, &p->curves.metrics, &e->eval);
        cells[n++] = ls_format_duration(b[2], isnan(e->seconds) ? 0 : e->seconds);
        cells[n++] = e->seconds > 0 ? ls_html_count(b[3], (int64_t)((double)e->samples / e->seconds)) : "–";
        ls_html_cells(out, n, cells);
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

/* Pages beside this one, in the run directory. */
static void links(page *p)
{
    static const char *const PAGES[][2] = { { "step.html", "the step over time, operation by operation" },
                                            { "log/rank-0.step.html",
                                              "the same with the times of the profile" },
                                            { "log/rank-0.memory.html", "memory over the profiled steps" } };
    const char *between = "<p class=\"sub\">See also ";
    for (size_t i = 0; i < sizeof PAGES / sizeof *PAGES; i++)
        if (ls_file_in(p->run->path, PAGES[i][0])) {
            ls_str_printf(&p->out, "%s<a href=\"%s\">%s</a>", between, PAGES[i][0], PAGES[i][1]);
            between = ", ";
        }
    if (*between == ',')
        ls_str_add(&p->out, ".</p>\n");
}

static void restarts(page *p) { ls_report_restarts(&p->out, &p->history); }

static void checkpoints(page *p) { ls_report_checkpoints(&p->out, &p->history, p->run->path); }

static void memory(page *p)
{
    const ls_report *r = p->r;
    ls_str *out = &p->out;
    if (!r->n_programs)
        return;
    ls_str_add(out, "<h2>Memory over a step (MiB, as planned before the first one)</h2>\n");
    ls_chart_memory(out, r);
    for (int k = 0; k < r->n_programs; k++) {
        const ls_report_program *g = &r->programs[k];
        char bytes[32];
        size_t live = 0;
        if (!g->n || g->peak < 0 || g->peak >= g->n)
            continue;
        for (int c = 0; c < LS_CAT_COUNT; c++)
            live += ls_report_transient(g, g->peak, c);
        ls_str_add(out, "<p class=\"note\"><b>");
        ls_html_add(out, g->name);
        ls_str_printf(out, "</b>: %d kernel calls, most transient memory %s at call %d", g->n,
                      ls_format_bytes(bytes, live), g->peak);
        if (g->labels) {
            ls_str_add(out, ": ");
            ls_html_add(out, g->labels[g->peak]);
        }
        ls_str_add(out, "</p>\n");
    }
}

static void row(ls_str *out, const char *what, const char *planned, const char *measured, const char *note)
{
    ls_html_cells(out, 4, (const char *const[]){ what, planned, measured, note });
}

static void plan(page *p)
{
    const ls_report *r = p->r;
    ls_str *out = &p->out;
    char a[32], b[32], c[160];
    ls_str_add(
        out,
        "<h2>Planned and measured</h2>\n<div class=\"scroll\"><table "
        "class=\"plan\"><thead><tr><th></th><th>plan</th><th>measured</th><th></th></tr></thead><tbody>\n");
    double planned = r->plan_step_seconds, measured = r->measured_step_seconds;
    *c = 0;
    if (planned > 0 && measured > 0)
        ls_snprintf(c, sizeof c, "measured / plan %.2f", measured / planned);
    row(out, "time of a step",
        planned > 0 ? ls_format_duration(a, planned) : "no calibration: run `lockstep doctor`",
        measured > 0 ? ls_format_duration(b, measured) : "–", c);
    if (r->first_step_seconds > 0) {
        *c = 0;
        if (measured > 0)
            ls_snprintf(c, sizeof c, "%.2f of the median", r->first_step_seconds / measured);
        row(out, "first step", "–", ls_format_duration(b, r->first_step_seconds), c);
    }
    if (r->plan_step_flops > 0) {
        const double rate = measured > 0 ? r->plan_step_flops / measured : 0;
        *c = 0;
        if (rate > 0 && r->peak_flops > 0)
            ls_snprintf(c, sizeof c, "%.1f %% of %.4g GFLOP/s", 100 * rate / r->peak_flops,
                        r->peak_flops * 1e-9);
        ls_snprintf(a, sizeof a, "%.2f GFLOP", r->plan_step_flops * 1e-9);
        ls_snprintf(b, sizeof b, "%.1f GFLOP/s", rate * 1e-9);
        row(out, "arithmetic of a step", a, measured > 0 ? b : "–", c);
    }
    row(out, "transient memory (one arena)", ls_format_bytes(a, r->plan_arena), "", "packed by lifetime");
    row(out, "state (parameters, moments)", ls_format_bytes(a, r->plan_state), "", "lives between steps");
    row(out, "inputs and outputs", ls_format_bytes(a, r->plan_io), "", "");
    if (r->plan_staging)
        row(out, "staging", ls_format_bytes(a, r->plan_staging), "",
            "a checkpoint is written from it while training goes on");
    if (r->plan_device) { /* apart: the process does not have the device's memory */
        row(out, "all of it, on the device", ls_format_bytes(a, r->plan_device), "–",
            "taken when the run starts");
        row(out, "all of it, on the host", ls_format_bytes(a, r->plan_host),
            r->measured_rss ? ls_format_bytes(b, r->measured_rss) : "–",
            "measured: peak anonymous memory of the process, also of the driver and the data");
        ls_str_add(out, "</tbody></table></div>\n");
        return;
    }
    const size_t all = r->plan_arena + r->plan_state + r->plan_io + r->plan_staging;
    if (r->measured_rss)
        row(out, "all of it", ls_format_bytes(a, all), ls_format_bytes(b, r->measured_rss),
            "measured: peak anonymous memory of the process");
    else
        row(out, "all of it", ls_format_bytes(a, all), "–", "");
    ls_str_add(out, "</tbody></table></div>\n");
}

static void startup(page *p)
{
    const ls_startup *s = &p->run->startup;
    ls_str *out = &p->out;
    char text[32];
    if (!s->n || !(s->total > 0))
        return;
    ls_str_printf(out, "<h2>From exec to the first step: %s</h2>\n<div class=\"scroll\"><table><tbody>\n",
                  ls_format_duration(text, s->total));
    for (int i = 0; i < s->n; i++) {
        ls_str_add(out, "<tr><td>");
        ls_html_add(out, s->parts[i].name);
        ls_str_printf(out,
                      "</td><td>%.2f ms</td><td style=\"text-align:left;width:60%%\"><span class=\"bar\" "
                      "style=\"width:%.1f%%\"></span></td></tr>\n",
                      1e3 * s->parts[i].seconds, fmax(0, fmin(100, 100 * s->parts[i].seconds / s->total)));
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

static void recipe(page *p)
{
    char *yaml = ls_recipe_yaml(p->r->recipe, true);
    ls_str_add(&p->out, "<h2>Recipe</h2>\n<details><summary>every key, and who set it</summary><pre>");
    ls_html_add(&p->out, yaml);
    ls_str_add(&p->out, "</pre></details>\n");
    free(yaml);
}

ls_status ls_report_write(const ls_rundir *d, const ls_report *r)
{
    static void (*const SECTIONS[])(page *) = { report_head, links,  summary, curves,  epochs, restarts,
                                                checkpoints, memory, plan,    startup, recipe };
    page p = { .run = d, .r = r };
    char *path = ls_path_join(d->path, "report.html");
    ls_status s;
    LS_TRY_TO(s, ls_run_info_read(&p.info, d->path), done);
    p.info.state = r->state;
    LS_TRY_TO(s, ls_history_read(&p.history, d->path), done);
    LS_TRY_TO(s, ls_curves_make(&p.curves, &p.history), done);
    LS_TRY_TO(s, ls_marks_make(&p.marks, &p.history, d->path), done);
    for (size_t i = 0; i < sizeof SECTIONS / sizeof SECTIONS[0]; i++)
        SECTIONS[i](&p);
    ls_page_end(&p.out, "charts.js");
    LS_TRY_TO(s, ls_file_write_text(path, &p.out), done);
done:
    free(p.marks.at);
    ls_curves_release(&p.curves);
    ls_history_release(&p.history);
    ls_str_release(&p.out);
    free(path);
    return s;
}
