/* step_words.c - see step_words.h. */
#include "step_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "chart.h"
#include "plan/describe.h"

enum { OPS = 14, UNITS = 40 }; /* most rows of a table */

static const char *const PHASES[] = { "forward", "backward", "update" };
static const char *const COLORS[] = { "var(--c-blue)", "var(--c-violet)", "var(--c-teal)" };

static int64_t runs_of(const ls_step_view *v, int program)
{
    return program == LS_MICRO ? ls_compiled_runs(v->compiled) : 1;
}

static ls_phase phase_of(const ls_plan *p, int program, int step)
{
    return program == LS_UPDATE ? LS_PHASE_UPDATE : p->graph->nodes[p->steps[step].node]->phase;
}

static double band_bytes(const ls_memory_bands *m, int program, int step, int band)
{
    return (double)m->fixed[band] + (band < LS_CAT_COUNT ? (double)m->transient[program][step][band] : 0);
}

/* With three digits: kernels take less than a microsecond, too. */
static const char *seconds_text(char out[32], double s)
{
    const char *unit = s >= 1 ? "s" : s >= 1e-3 ? "ms" : "us";
    const double x = s >= 1 ? s : s >= 1e-3 ? 1e3 * s : 1e6 * s;
    ls_snprintf(out, 32, x >= 100 ? "%.0f %s" : x >= 10 ? "%.1f %s" : "%.2f %s", x, unit);
    return out;
}

/* ---- sums */

static const char *kind_of(const ls_step_view *v)
{
    bool measured = v->times != NULL, estimated = true;
    for (int i = LS_MICRO; i <= LS_UPDATE; i++) {
        measured = measured && v->times[i].runs;
        estimated = estimated && v->compiled->plans[i]->seconds > 0;
    }
    return measured ? "measured" : estimated ? "estimated" : NULL;
}

/* Seconds of each step of a program; NULL: not known. */
static const double *program_times(ls_arena *a, const ls_step_view *v, const char *kind, int program)
{
    const ls_plan *p = v->compiled->plans[program];
    if (!kind)
        return NULL;
    if (!strcmp(kind, "measured"))
        return v->times[program].seconds;
    double *seconds = LS_ARENA_ARRAY(a, double, p->n_steps + 1);
    for (int k = 0; seconds && k < p->n_steps; k++)
        seconds[k] = p->steps[k].seconds;
    return seconds;
}

ls_status ls_step_numbers_of(ls_step_numbers *out, ls_arena *a, const ls_step_view *v,
                             const ls_memory_bands *m)
{
    double most = -1;
    *out = (ls_step_numbers){ .name = ls_arena_strdup(a, v->name),
                              .kind = kind_of(v),
                              .total = m->memory.total };
    memcpy(out->band_names, m->names, sizeof out->band_names);
    for (int program = LS_MICRO; program <= LS_UPDATE; program++) {
        const ls_plan *p = v->compiled->plans[program];
        const double runs = (double)runs_of(v, program), *seconds = program_times(a, v, out->kind, program);
        LS_TRY(ls_arena_status(a));
        for (int k = 0; k < p->n_steps; k++) {
            double sum = 0, bands[LS_BANDS];
            for (int b = 0; b < LS_BANDS; b++) {
                bands[b] = band_bytes(m, program, k, b);
                sum += bands[b];
            }
            if (sum > most)
                memcpy(out->at_peak, bands, sizeof bands);
            most = fmax(most, sum);
            out->seconds += seconds ? runs * seconds[k] : 0;
            out->waits += seconds && p->steps[k].part != LS_PART_RUN ? runs * seconds[k] : 0;
        }
        for (int i = 0; i < p->n_collectives; i++)
            out->received += runs * p->collectives[i].bytes;
        out->collectives += (int64_t)runs * p->n_collectives;
    }
    return LS_OK;
}

/* ---- the head */

void ls_step_subtitle(ls_str *out, const ls_step_view *v)
{
    const ls_compiled *c = v->compiled;
    const long long ranks = ls_mesh_ranks(&c->parallel.mesh);
    if (ranks > 1) {
        ls_str_printf(out, "rank %d of %lld · ", c->parallel.rank, ranks);
        ls_html_add(out, v->layout);
        ls_str_add(out, " · ");
    } else {
        ls_str_add(out, "one rank · ");
    }
    ls_str_printf(out, "%lld × %lld samples of this rank · %s, %d thread%s", (long long)c->share.count,
                  (long long)c->micro_batch, c->device.arch->name, c->device.threads,
                  c->device.threads == 1 ? "" : "s");
}

static void card(ls_str *out, const char *value, const char *what)
{
    ls_str_printf(out, "<div class=\"card\"><b>%s</b><span>%s</span></div>\n", value, what);
}

static const char *share_text(char out[32], double share)
{
    ls_snprintf(out, 32, share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
    return out;
}

void ls_step_cards(ls_str *out, const ls_step_numbers *n)
{
    char a[32], share[32], text[96];
    ls_str_add(out, "<div class=\"cards\">\n");
    snprintf(text, sizeof text, "a step, %s", n->kind ? n->kind : "");
    card(out, n->kind ? seconds_text(a, n->seconds) : "not known", n->kind ? text : "time of a step");
    if (n->collectives && n->kind) {
        snprintf(text, sizeof text, "in collectives, %s",
                 share_text(share, n->seconds > 0 ? n->waits / n->seconds : 0));
        card(out, seconds_text(a, n->waits), text);
    } else if (n->collectives) {
        card(out, ls_html_count(a, n->collectives), "collectives");
    }
    if (n->collectives) {
        snprintf(text, sizeof text, "received in %s collectives", ls_html_count(share, n->collectives));
        card(out, ls_format_bytes(a, (uint64_t)n->received), text);
    }
    card(out, ls_format_bytes(a, n->total), "memory of this rank, as packed");
    if (n->at_peak[LS_BAND_NODE] > 0)
        card(out, ls_format_bytes(a, (uint64_t)n->at_peak[LS_BAND_NODE]), n->band_names[LS_BAND_NODE]);
    ls_str_add(out, "</div>\n");
}

/* ---- rows that are sums: a key and what was added under it */

typedef struct sums {
    const char *name, *kind, *group;
    ls_phase phase;
    int64_t calls;
    double seconds, overlapped, flops, bytes;
} sums;

typedef struct sum_list {
    int n, cap;
    sums *at;
    ls_arena *arena;
} sum_list;

static bool is_equal(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

/* The row with the key of `like`; NULL: no memory. */
static sums *sum_of(sum_list *l, const sums *like)
{
    for (int i = 0; i < l->n; i++)
        if (l->at[i].phase == like->phase && is_equal(l->at[i].name, like->name) &&
            is_equal(l->at[i].kind, like->kind) && is_equal(l->at[i].group, like->group))
            return &l->at[i];
    if (l->n == l->cap) {
        sums *more = LS_ARENA_ARRAY(l->arena, sums, 2 * l->cap + 32);
        if (!more)
            return NULL;
        if (l->n)
            memcpy(more, l->at, sizeof *more * (size_t)l->n);
        l->at = more;
        l->cap = 2 * l->cap + 32;
    }
    l->at[l->n] = *like;
    return &l->at[l->n++];
}

static void add(sum_list *l, const sums *like, double runs, double seconds, double flops, double bytes)
{
    sums *s = sum_of(l, like);
    if (!s)
        return;
    s->calls += (int64_t)runs;
    s->seconds += runs * seconds;
    s->flops += runs * flops;
    s->bytes += runs * bytes;
}

static int by_seconds(const void *a, const void *b)
{
    const sums *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static int by_seconds_then_bytes(const void *a, const void *b)
{
    const sums *x = a, *y = b;
    const int order = by_seconds(a, b);
    return order ? order : (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static int by_bytes(const void *a, const void *b)
{
    const sums *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void sort(sum_list *l, int (*order)(const void *, const void *))
{
    if (l->n)
        qsort(l->at, (size_t)l->n, sizeof *l->at, order);
}

/* ---- the figure */

/* The lanes of the drawing: collectives by kind and group, then the phases. */
static ls_status find_lanes(sum_list *l, const ls_step_view *v, const char *kind)
{
    for (int program = LS_MICRO; program <= LS_UPDATE; program++) {
        const ls_plan *p = v->compiled->plans[program];
        const double *seconds = program_times(l->arena, v, kind, program);
        for (int i = 0; i < p->n_collectives && !l->arena->no_memory; i++) {
            const ls_plan_collective *c = &p->collectives[i];
            add(l, &(sums){ .kind = ls_collective_name(c->kind), .group = c->group },
                (double)runs_of(v, program), seconds ? seconds[c->start] + seconds[c->wait] : 0, 0, c->bytes);
        }
        for (int i = 0; i < p->n_transfers && !l->arena->no_memory; i++) {
            const ls_plan_transfer *t = &p->transfers[i];
            add(l, &(sums){ .kind = p->graph->nodes[t->node]->op->name }, (double)runs_of(v, program),
                seconds ? seconds[t->start] + seconds[t->wait] : 0, 0, (double)t->bytes);
        }
    }
    for (int phase = LS_PHASE_FORWARD; phase <= LS_PHASE_UPDATE; phase++)
        for (int program = LS_MICRO; program <= LS_UPDATE; program++) {
            const ls_plan *p = v->compiled->plans[program];
            const double *seconds = program_times(l->arena, v, kind, program);
            for (int k = 0; k < p->n_steps && !l->arena->no_memory; k++)
                if (p->steps[k].part == LS_PART_RUN && phase_of(p, program, k) == (ls_phase)phase)
                    add(l, &(sums){ .name = PHASES[phase] }, (double)runs_of(v, program),
                        seconds ? seconds[k] : 0, p->steps[k].cost.flops, p->steps[k].cost.bytes);
        }
    return ls_arena_status(l->arena);
}

static void lanes_table(ls_str *out, const sum_list *l, const ls_step_numbers *n)
{
    char calls[32], time[32], share[32], flops[32], bytes[32];
    ls_str_printf(
        out,
        "<div class=\"scroll\"><table class=\"numbers\"><caption>lanes of the drawing</caption>\n"
        "<thead><tr><th>lane</th><th>calls</th>%s<th>moved</th><th>GFLOP</th></tr></thead><tbody>\n",
        n->kind ? "<th>time</th><th>share</th>" : "");
    for (int i = 0; i < l->n; i++) {
        const sums *s = &l->at[i];
        ls_str_printf(out, "<tr><th scope=\"row\">%s%s%s</th><td>%s</td>", s->kind ? s->kind : s->name,
                      s->group ? " over " : "", s->group ? s->group : "", ls_html_count(calls, s->calls));
        if (n->kind)
            ls_str_printf(out, "<td>%s</td><td>%s</td>", seconds_text(time, s->seconds),
                          share_text(share, n->seconds > 0 ? s->seconds / n->seconds : 0));
        ls_snprintf(flops, sizeof flops, "%.3g", 1e-9 * s->flops);
        ls_str_printf(out, "<td>%s</td><td>%s</td></tr>\n", ls_format_bytes(bytes, (uint64_t)s->bytes),
                      s->flops > 0 ? flops : "");
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

/* Memory over the kernel calls of one run of each program: all of it, then the bands from the top down. */
static ls_status memory_table(ls_str *out, ls_arena *a, const ls_step_view *v, const ls_memory_bands *m)
{
    ls_plan *const *plans = v->compiled->plans;
    const int n = plans[LS_MICRO]->n_steps + plans[LS_UPDATE]->n_steps;
    ls_curve c = { .n = n, .x = LS_ARENA_ARRAY(a, double, n + 1), .y = LS_ARENA_ARRAY(a, double, n + 1) };
    LS_TRY(ls_arena_status(a));
    ls_figure_table(out, "memory over the step", "kernel call", LS_UNIT_MIB, n);
    for (int b = LS_BANDS; b >= 0; b--) {
        double most = 0;
        for (int program = LS_MICRO, i = 0; program <= LS_UPDATE; program++)
            for (int k = 0; k < plans[program]->n_steps; k++, i++) {
                double bytes = 0;
                for (int band = b == LS_BANDS ? 0 : b; band < LS_BANDS && (b == LS_BANDS || band == b);
                     band++)
                    bytes += band_bytes(m, program, k, band);
                c.x[i] = i;
                c.y[i] = bytes / (1 << 20);
                most = fmax(most, bytes);
            }
        if (most > 0)
            ls_figure_row(out, &c, b == LS_BANDS ? "all" : m->names[b], LS_UNIT_MIB, n);
    }
    ls_str_add(out, "</tbody></table></div>\n");
    return LS_OK;
}

ls_status ls_step_figure(ls_str *out, ls_arena *a, const ls_step_view *v, const ls_step_numbers *n,
                         const ls_memory_bands *m)
{
    sum_list lanes = { .arena = a };
    LS_TRY(find_lanes(&lanes, v, n->kind));
    ls_str_add(out, "<figure class=\"chart\" aria-label=\"the step of ");
    ls_html_add(out, v->name);
    ls_str_add(out,
               " over time\">\n<noscript><p class=\"note\">The drawing needs scripts. Its numbers are in "
               "the tables.</p></noscript>\n");
    lanes_table(out, &lanes, n);
    LS_TRY(memory_table(out, a, v, m));
    ls_str_add(out, "</figure>\n");
    return LS_OK;
}

/* ---- tables of the page */

/* Calls of an operation in a phase count together. */
static ls_status ops_table(ls_str *out, ls_arena *a, const ls_step_view *v, const ls_step_numbers *n)
{
    sum_list ops = { .arena = a };
    double all = 0;
    char calls[32], amount[32], share[32], flops[32];
    for (int program = LS_MICRO; program <= LS_UPDATE; program++) {
        const ls_plan *p = v->compiled->plans[program];
        const double *seconds = program_times(a, v, n->kind, program);
        for (int k = 0; k < p->n_steps && !a->no_memory; k++)
            if (p->steps[k].part == LS_PART_RUN)
                add(&ops,
                    &(sums){ .name = p->graph->nodes[p->steps[k].node]->op->name,
                             .phase = phase_of(p, program, k) },
                    (double)runs_of(v, program), seconds ? seconds[k] : 0, p->steps[k].cost.flops,
                    p->steps[k].cost.bytes);
    }
    LS_TRY(ls_arena_status(a));
    sort(&ops, n->kind ? by_seconds : by_bytes);
    for (int i = 0; i < ops.n; i++)
        all += n->kind ? ops.at[i].seconds : ops.at[i].bytes;
    all = n->kind ? n->seconds : all;
    ls_str_printf(out,
                  "<div id=\"ops\"><h2>%s</h2>\n<div class=\"scroll\"><table><thead><tr><th>operation</th>"
                  "<th>phase</th><th>calls</th><th>%s</th><th>share</th><th>GFLOP</th><th></th></tr></thead>"
                  "<tbody>\n",
                  n->kind ? "Where the time goes" : "What the kernels move", n->kind ? "time" : "moved");
    for (int i = 0; i < ops.n && i < OPS; i++) {
        const sums *s = &ops.at[i];
        const double x = n->kind ? s->seconds : s->bytes,
                     most = n->kind ? ops.at[0].seconds : ops.at[0].bytes;
        ls_snprintf(flops, sizeof flops, "%.3g", 1e-9 * s->flops);
        ls_str_printf(out,
                      "<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td><span "
                      "class=\"bar\" style=\"width:%.0fpx;background:%s\"></span></td></tr>\n",
                      s->name, PHASES[s->phase], ls_html_count(calls, s->calls),
                      n->kind ? seconds_text(amount, x) : ls_format_bytes(amount, (uint64_t)x),
                      share_text(share, all > 0 ? x / all : 0), s->flops > 0 ? flops : "",
                      most > 0 ? fmax(2, 90 * x / most) : 2, COLORS[s->phase]);
    }
    ls_str_add(out, "</tbody></table></div>\n");
    if (ops.n > OPS)
        ls_str_printf(out, "<p class=\"note\">and %d more</p>\n", ops.n - OPS);
    ls_str_add(out, "</div>\n");
    return LS_OK;
}

/* A row for each unit and kind of collective, the longest waits first. */
static ls_status units_table(ls_str *out, ls_arena *a, const ls_step_view *v, const ls_step_numbers *n)
{
    sum_list units = { .arena = a };
    char calls[32], bytes[32], over[32], wait[32];
    for (int program = LS_MICRO; program <= LS_UPDATE; program++) {
        const ls_plan *p = v->compiled->plans[program];
        const double runs = (double)runs_of(v, program), *seconds = program_times(a, v, n->kind, program);
        for (int i = 0; i < p->n_collectives && !a->no_memory; i++) {
            const ls_plan_collective *c = &p->collectives[i];
            const bool unit = !strncmp(c->unit, "unit ", 5);
            const sums like = { .name = unit ? c->unit + 5 : "activations",
                                .kind = ls_collective_name(c->kind),
                                .group = c->group };
            add(&units, &like, runs, seconds ? seconds[c->wait] : 0, 0, c->bytes);
            sums *s = sum_of(&units, &like);
            for (int k = c->start + 1; s && seconds && k < c->wait; k++)
                s->overlapped += runs * seconds[k];
        }
    }
    LS_TRY(ls_arena_status(a));
    if (!units.n)
        return LS_OK;
    sort(&units, by_seconds_then_bytes);
    ls_str_printf(out,
                  "<div id=\"units\"><h2>Collectives by unit</h2>\n<div class=\"scroll\"><table><thead><tr>"
                  "<th>unit</th><th>collective</th><th>over</th><th>calls</th><th>received</th>%s</tr>"
                  "</thead><tbody>\n",
                  n->kind ? "<th>overlapped</th><th>wait</th>" : "");
    for (int i = 0; i < units.n && i < UNITS; i++) {
        const sums *s = &units.at[i];
        ls_str_add(out, "<tr><td>");
        ls_html_add(out, s->name);
        ls_str_printf(out, "</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>", s->kind, s->group,
                      ls_html_count(calls, s->calls), ls_format_bytes(bytes, (uint64_t)s->bytes));
        if (n->kind)
            ls_str_printf(out, "<td>%s</td><td>%s</td>", seconds_text(over, s->overlapped),
                          seconds_text(wait, s->seconds));
        ls_str_add(out, "</tr>\n");
    }
    ls_str_add(out, "</tbody></table></div>\n");
    if (units.n > UNITS)
        ls_str_printf(out, "<p class=\"note\">and %d more</p>\n", units.n - UNITS);
    ls_str_add(out, "</div>\n");
    return LS_OK;
}

static void explained(ls_str *out, const ls_step_view *v)
{
    ls_str text = { 0 };
    ls_explain_legend(&text);
    for (int program = LS_MICRO; program <= LS_UPDATE; program++) {
        ls_str_add(&text, "\n");
        ls_explain_text(&text, v->compiled->plans[program], false);
    }
    ls_str_add(out, "<h2>Operation by operation</h2>\n<details><summary>what <code>lockstep explain</code> "
                    "prints</summary><pre>");
    ls_html_add(out, ls_str_text(&text));
    ls_str_add(out, "</pre></details>\n");
    ls_str_inherit(out, &text);
    ls_str_release(&text);
}

ls_status ls_step_tables(ls_str *out, ls_arena *a, const ls_step_view *v, const ls_step_numbers *n)
{
    LS_TRY(ops_table(out, a, v, n));
    LS_TRY(units_table(out, a, v, n));
    explained(out, v);
    return LS_OK;
}

/* ---- side by side */

typedef const char *(*text_of)(char out[32], double x);
static const char *bytes_of(char out[32], double x) { return ls_format_bytes(out, (uint64_t)x); }
static const char *count_of(char out[32], double x) { return ls_html_count(out, (int64_t)x); }

/* A row without numbers is left out. */
static void compare_row(ls_str *out, const char *before, const char *what, int n, const double *x,
                        text_of text)
{
    char room[32], share[32];
    bool any = false;
    for (int i = 0; i < n; i++)
        any = any || x[i] != 0;
    if (!any)
        return;
    ls_str_printf(out, "<tr><td>%s%s</td>", before, what);
    for (int i = 0; i < n; i++) {
        ls_str_printf(out, "<td>%s", text(room, x[i]));
        if (i && x[0] != 0 && x[i] != x[0])
            ls_str_printf(out, " (%s%s)", x[i] > x[0] ? "+" : "−", share_text(share, fabs(x[i] / x[0] - 1)));
        ls_str_add(out, "</td>");
    }
    ls_str_add(out, "</tr>\n");
}

void ls_step_compare(ls_str *out, int n, const ls_step_numbers *all)
{
    static const struct {
        const char *what;
        text_of text;
    } ROWS[] = { { "time of a step", seconds_text },
                 { "in collectives", seconds_text },
                 { "collectives", count_of },
                 { "received", bytes_of },
                 { "memory, as packed", bytes_of } };
    enum { TIMED = 2 }; /* so many rows are left out if a time is not known */
    double x[LS_STEP_VIEWS] = { 0 };
    bool timed = true;
    ls_str_add(out, "<h2>Side by side</h2>\n<div class=\"scroll\"><table><thead><tr><th></th>");
    for (int i = 0; i < n; i++) {
        ls_str_add(out, "<th>");
        ls_html_add(out, all[i].name);
        ls_str_add(out, "</th>");
        timed = timed && all[i].kind;
    }
    ls_str_add(out, "</tr></thead><tbody>\n");
    for (size_t r = timed ? 0 : TIMED; r < sizeof ROWS / sizeof ROWS[0]; r++) {
        for (int i = 0; i < n; i++)
            x[i] = (const double[]){ all[i].seconds, all[i].waits, (double)all[i].collectives,
                                     all[i].received, (double)all[i].total }[r];
        compare_row(out, "", ROWS[r].what, n, x, ROWS[r].text);
    }
    for (int b = 0; b < LS_BANDS; b++) {
        for (int i = 0; i < n; i++)
            x[i] = all[i].at_peak[b];
        compare_row(out, "at the peak: ", all[0].band_names[b], n, x, bytes_of);
    }
    ls_str_add(out, "</tbody></table></div>\n");
}
