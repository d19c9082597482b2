/* report_plan.c - what was planned before the first step, and what was measured: memory over a step, times,
 * bytes, the start. */
#include <math.h>

#include "base/c_locale.h"
#include "report_own.h"

void ls_report_memory(ls_run_page *p)
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

/* Model FLOPs utilisation. */
static void mfu(ls_str *out, const ls_report *r)
{
    char share[32], by[96], note[224];
    if (!(r->peak_flops > 0) || !(r->measured_step_seconds > 0)) {
        row(out, "MFU", "–", "–", "the peak of this machine is not known: run `lockstep doctor`");
        return;
    }
    ls_snprintf(share, sizeof share, "%.1f %%",
                100 * r->model_flops / r->measured_step_seconds / r->peak_flops);
    if (r->plan_device) /* threads are not those of a device with memory of its own */
        snprintf(by, sizeof by, "the peak of %.64s", r->hardware);
    else
        snprintf(by, sizeof by, "which `lockstep doctor` measured as the peak of %d thread%s", r->threads,
                 r->threads == 1 ? "" : "s");
    ls_snprintf(note, sizeof note, "of %.4g GFLOP/s in %s, %s", r->peak_flops * 1e-9,
                ls_dtype_name(r->recipe->precision.param), by);
    row(out, "MFU", "–", share, note);
}

void ls_report_plan(ls_run_page *p)
{
    const ls_report *r = p->r;
    ls_str *out = &p->out;
    char a[32], b[32], c[160];
    if (!r->plan_arena)
        return;
    ls_str_add(
        out,
        "<h2>Planned and measured</h2>\n<div class=\"scroll\"><table "
        "class=\"plan\"><thead><tr><th></th><th>plan</th><th>measured</th><th></th></tr></thead><tbody>\n");
    double planned = r->plan_step_seconds, measured = r->measured_step_seconds;
    *c = 0;
    if (!(planned > 0))
        ls_snprintf(c, sizeof c, "no estimate: run `lockstep doctor`");
    else if (measured > 0)
        ls_snprintf(c, sizeof c, "measured / plan %.2f", measured / planned);
    row(out, "time of a step", planned > 0 ? ls_format_duration(a, planned) : "–",
        measured > 0 ? ls_format_duration(b, measured) : "–", c);
    if (r->first_step_seconds > 0) {
        *c = 0;
        if (measured > 0)
            ls_snprintf(c, sizeof c, "%.2f of the median", r->first_step_seconds / measured);
        row(out, "first step", "–", ls_format_duration(b, r->first_step_seconds), c);
    }
    if (r->plan_step_flops > 0) {
        const double rate = measured > 0 ? r->plan_step_flops / measured : 0;
        ls_snprintf(a, sizeof a, "%.2f GFLOP", r->plan_step_flops * 1e-9);
        ls_snprintf(b, sizeof b, "%.1f GFLOP/s", rate * 1e-9);
        row(out, "arithmetic of a step", a, measured > 0 ? b : "–", "");
        mfu(out, r);
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

void ls_report_startup(ls_run_page *p)
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
