/* simulate_page.c - see simulate_page.h. */
#include "simulate_page.h"

#include <math.h>

#include "base/file.h"
#include "base/str.h"
#include "page.h"

const char *const LS_SIM_NAMES[LS_SIM_KINDS] = { [LS_SIM_COMPUTE] = "computes",
                                                 [LS_SIM_COLLECTIVE] = "collectives",
                                                 [LS_SIM_RECEIVE] = "receives",
                                                 [LS_SIM_SEND] = "sends" };
static const char *const COLORS[LS_SIM_KINDS] = { [LS_SIM_COMPUTE] = "var(--c-blue)",
                                                  [LS_SIM_COLLECTIVE] = "var(--c-amber)",
                                                  [LS_SIM_RECEIVE] = "var(--c-red)",
                                                  [LS_SIM_SEND] = "var(--c-violet)" };

static double share(const ls_sim_result *r, double seconds) { return 100 * seconds / r->seconds; }

/* Shorter spans that follow each other are drawn as one bar, divided as their times are. With many lanes the
 * bars are wider, so that the page stays small. */
static double least(const ls_sim_result *r) { return r->seconds / 1000 * (r->n > 16 ? r->n / 16.0 : 1); }

/* y, height: of 20. Leaves the element <title> open. */
static void rect(ls_str *out, const ls_sim_result *r, double from, double to, ls_sim_kind kind, double y,
                 double height)
{
    char x[32], width[32], top[32], high[32];
    const double left = rint(1e5 * from / r->seconds) / 100,
                 right = rint(1e5 * to / r->seconds) / 100; /* no gaps */
    ls_str_printf(out, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\"><title>",
                  ls_format_number(x, "%.2f", left), ls_format_number(top, "%.3g", y),
                  ls_format_number(width, "%.2f", right - left), ls_format_number(high, "%.3g", height),
                  COLORS[kind]);
}

static void one_span(ls_str *out, const ls_sim_result *r, const ls_sim_span *s, const char *what)
{
    char at[32], time[32];
    rect(out, r, s->from, s->to, s->kind, 0, 20);
    ls_str_add(out, s->kind == LS_SIM_COMPUTE ? LS_SIM_NAMES[s->kind] : "waits");
    ls_str_printf(out, " for %s", ls_format_duration(time, s->to - s->from));
    if (*what) {
        ls_str_add(out, ", for ");
        ls_html_add(out, what);
    }
    ls_str_printf(out, "; from %s on</title></rect>", ls_format_duration(at, s->from));
}

typedef struct short_spans { /* that follow each other */
    int n;
    double from, to, by_kind[LS_SIM_KINDS];
} short_spans;

static void several_spans(ls_str *out, const ls_sim_result *r, short_spans *g)
{
    char at[32];
    double y = 0, all = 0;
    for (int k = 0; k < LS_SIM_KINDS; k++)
        all += g->by_kind[k];
    for (int k = 0; k < LS_SIM_KINDS && g->n; k++) {
        const double height = 20 * g->by_kind[k] / all;
        if (!(height > 0))
            continue;
        rect(out, r, g->from, g->to, (ls_sim_kind)k, y, height);
        ls_str_printf(out, "%s for %.0f %% of %d short parts; from %s on</title></rect>", LS_SIM_NAMES[k],
                      5 * height, g->n, ls_format_duration(at, g->from));
        y += height;
    }
    *g = (short_spans){ 0 };
}

static void lane(ls_str *out, const ls_sim_result *r, int k)
{
    const ls_player *p = &r->players[k];
    ls_str_add(out, "<p class=\"note\">");
    ls_html_add(out, r->lanes[k]);
    ls_str_add(out, "</p>\n<svg viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\" "
                    "style=\"width:100%;height:22px;display:block;shape-rendering:crispEdges;background:var(-"
                    "-line)\" aria-label=\"");
    ls_html_add(out, r->lanes[k]);
    ls_str_printf(out, ": %s %.0f %%\">", LS_SIM_NAMES[LS_SIM_COMPUTE], share(r, p->by_kind[LS_SIM_COMPUTE]));
    short_spans together = { 0 };
    for (int i = 0; i < p->n_spans; i++) {
        const ls_sim_span *s = &p->spans[i];
        const bool is_long = s->to - s->from >= least(r);
        if (is_long || together.to - together.from >= least(r))
            several_spans(out, r, &together);
        if (is_long) {
            one_span(out, r, s, r->what[k][i]);
            continue;
        }
        together.from = together.n++ ? together.from : s->from;
        together.to = s->to;
        together.by_kind[s->kind] += s->to - s->from;
    }
    several_spans(out, r, &together);
    ls_str_add(out, "</svg>\n");
}

/* Times below the lanes. */
static void axis(ls_str *out, const ls_sim_result *r)
{
    char time[32];
    ls_str_add(out, "<p class=\"note\" style=\"display:flex;justify-content:space-between\">");
    for (int i = 0; i <= 4; i++)
        ls_str_printf(out, "<span>%s</span>", i ? ls_format_duration(time, r->seconds * i / 4) : "0");
    ls_str_add(out, "</p>\n");
}

static void legend(ls_str *out)
{
    ls_str_add(out, "<p class=\"legend\">");
    for (int k = 0; k < LS_SIM_KINDS; k++)
        ls_str_printf(out,
                      "<svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" "
                      "fill=\"%s\"/></svg> %s%s",
                      COLORS[k], LS_SIM_NAMES[k], k + 1 < LS_SIM_KINDS ? " &nbsp; " : "");
    ls_str_add(out, "</p>\n");
}

static void players_table(ls_str *out, const ls_sim_result *r)
{
    ls_str_add(out, "<h2>What each rank does</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>ranks</th>");
    for (int k = 0; k < LS_SIM_KINDS; k++)
        ls_str_printf(out, "<th>%s</th>", LS_SIM_NAMES[k]);
    ls_str_add(out, "<th>done before the last</th></tr></thead>\n<tbody>\n");
    for (int i = 0; i < r->n; i++) {
        const ls_player *p = &r->players[i];
        ls_str_add(out, "<tr>");
        ls_html_cell(out, r->lanes[i]);
        for (int k = 0; k < LS_SIM_KINDS; k++)
            ls_str_printf(out, "<td>%.1f %%</td>", share(r, p->by_kind[k]));
        ls_str_printf(out, "<td>%.1f %%</td></tr>\n", share(r, r->seconds - p->seconds));
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

static void waits_table(ls_str *out, const ls_sim_result *r)
{
    char total[32], longest[32], at[32];
    if (!r->n_waits)
        return;
    ls_str_add(out, "<h2>Where it waits</h2>\n<div "
                    "class=\"scroll\"><table>\n<thead><tr><th>ranks</th><th "
                    "style=\"text-align:left\">for</th><th>times</th>"
                    "<th>together</th><th>longest</th><th>at</th></tr></thead>\n<tbody>\n");
    for (int i = 0; i < r->n_waits; i++) {
        const ls_sim_wait *w = &r->waits[i];
        ls_str_add(out, "<tr>");
        ls_html_cell(out, r->lanes[w->player]);
        ls_str_add(out, "<td style=\"text-align:left\">");
        ls_html_add(out, w->what);
        ls_str_printf(out, "</td><td>%d</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", w->times,
                      ls_format_duration(total, w->seconds), ls_format_duration(longest, w->longest),
                      ls_format_duration(at, w->at));
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

ls_status ls_simulate_page(const char *path, const ls_sim_result *r)
{
    char time[32];
    ls_str out = { 0 };
    ls_page_begin(&out, r->name, true);
    ls_str_add(&out, "<h1>Simulated step of ");
    ls_html_add(&out, r->name);
    ls_str_add(&out, "</h1>\n<p class=\"sub\">");
    ls_html_add(&out, r->place);
    ls_str_add(&out, *r->layout ? " · " : "");
    ls_html_add(&out, r->layout);
    ls_str_printf(&out, " · %s a step, estimated</p>\n", ls_format_duration(time, r->seconds));
    legend(&out);
    for (int i = 0; i < r->n; i++)
        lane(&out, r, i);
    axis(&out, r);
    ls_str_add(
        &out, "<p class=\"note\">A lane is for all ranks that run the same program. Parts that are too short "
              "to draw share a bar, as high as their shares of its time. Point at a bar to see what it waits "
              "for.</p>\n");
    players_table(&out, r);
    waits_table(&out, r);
    ls_page_end(&out, "");
    const ls_status s = ls_file_write_text(path, &out);
    ls_str_release(&out);
    return s;
}
