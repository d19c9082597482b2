/* simulate_page.c - see simulate_page.h. */
#include "simulate_page.h"

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

/* What is shorter than this is drawn with what is before it. */
static double least(const ls_sim_result *r) { return r->seconds / 2000; }

static void rect(ls_str *out, const ls_sim_result *r, const ls_sim_span *s)
{
    char from[32], width[32], at[32], time[32];
    ls_str_printf(out,
                  "<rect x=\"%s\" y=\"0\" width=\"%s\" height=\"20\" fill=\"%s\"><title>%s for %s, from %s "
                  "on</title></rect>",
                  ls_format_number(from, "%.2f", 1000 * s->from / r->seconds),
                  ls_format_number(width, "%.2f", 1000 * (s->to - s->from) / r->seconds), COLORS[s->kind],
                  LS_SIM_NAMES[s->kind], ls_format_duration(time, s->to - s->from),
                  ls_format_duration(at, s->from));
}

static void lane(ls_str *out, const ls_sim_result *r, int k)
{
    const ls_player *p = &r->players[k];
    ls_str_add(out, "<p class=\"note\">");
    ls_html_add(out, r->lanes[k]);
    ls_str_add(out, "</p>\n<svg viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\" "
                    "style=\"width:100%;height:22px;display:block;background:var(--line)\" aria-label=\"");
    ls_html_add(out, r->lanes[k]);
    ls_str_printf(out, ": %s %.0f %%\">", LS_SIM_NAMES[LS_SIM_COMPUTE], share(r, p->by_kind[LS_SIM_COMPUTE]));
    ls_sim_span drawn = { 0 };
    for (int i = 0; i < p->n_spans; i++) {
        const ls_sim_span *s = &p->spans[i];
        if (i && (s->kind == drawn.kind || s->to - s->from < least(r))) {
            drawn.to = s->to;
            continue;
        }
        if (i)
            rect(out, r, &drawn);
        drawn = *s;
    }
    if (p->n_spans)
        rect(out, r, &drawn);
    ls_str_add(out, "</svg>\n");
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
                    "class=\"scroll\"><table>\n<thead><tr><th>ranks</th><th>for</th><th>times</th>"
                    "<th>together</th><th>longest</th><th>at</th></tr></thead>\n<tbody>\n");
    for (int i = 0; i < r->n_waits; i++) {
        const ls_sim_wait *w = &r->waits[i];
        ls_str_add(out, "<tr>");
        ls_html_cell(out, r->lanes[w->player]);
        ls_html_cell(out, w->what);
        ls_str_printf(out, "<td>%d</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", w->times,
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
    ls_html_add(&out, r->layout);
    ls_str_printf(&out, "%s%s a step, estimated</p>\n", *r->layout ? " · " : "",
                  ls_format_duration(time, r->seconds));
    legend(&out);
    for (int i = 0; i < r->n; i++)
        lane(&out, r, i);
    ls_str_printf(
        &out,
        "<p class=\"note\">Time goes from 0 to %s. A lane is for all ranks that run the same program.</p>\n",
        ls_format_duration(time, r->seconds));
    players_table(&out, r);
    waits_table(&out, r);
    ls_page_end(&out, "");
    const ls_status s = ls_file_write_text(path, &out);
    ls_str_release(&out);
    return s;
}
