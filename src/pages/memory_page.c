/* memory_page.c - the memory of one rank over the profiled steps. The plans say what is alive at each op; the
 * profile says when each op ran. */
#include "memory_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph/identity.h"
#include "ops/rules.h"
#include "plan/describe.h"
#include "chart.h"
#include "memory_bands.h"

enum { COLUMNS = 808 }; /* a column is one unit of the drawing */

/* One run of an op; times are in seconds since the first began. */
typedef struct moment {
    int program, step;
    int64_t of; /* optimizer step; 0: not known */
    double from, to;
} moment;

typedef struct page {
    ls_str out;
    ls_arena arena;
    const ls_compiled *compiled;
    ls_memory_bands memory;
    moment *moments;
    int n, peak; /* peak: index of a moment */
    bool measured;
} page;

static int program_of(const page *p, const ls_plan *plan)
{
    int i = 0;
    while (p->compiled->plans[i] != plan)
        i++;
    return i;
}

static void add_run(page *p, int program, int64_t of, double began, const double *times)
{
    const ls_plan *plan = p->compiled->plans[program];
    double planned = 0;
    for (int k = 0; k < plan->n_steps; k++) {
        const double lasts = times                        ? times[plan->n_steps + k]
                             : plan->steps[k].seconds > 0 ? plan->steps[k].seconds
                                                          : 1e-6;
        const double from = began + (times ? times[k] : planned);
        p->moments[p->n++] = (moment){ program, k, of, from, from + lasts };
        planned += lasts;
    }
}

/* The moments of the profile; without a profile, those of a step as planned. */
static void find_moments(page *p, const ls_profile *profile)
{
    const ls_profile_run *first = profile ? ls_profile_first(profile) : NULL;
    const int64_t runs = ls_compiled_runs(p->compiled);
    int64_t most = 1;
    for (const ls_profile_run *r = first; r; r = r->next)
        most += r->plan->n_steps;
    most += first ? 0 : runs * p->compiled->plans[LS_MICRO]->n_steps + p->compiled->plans[LS_UPDATE]->n_steps;
    p->moments = LS_ARENA_ARRAY(&p->arena, moment, most);
    p->measured = first != NULL;
    if (!p->moments)
        return;
    for (const ls_profile_run *r = first; r; r = r->next)
        add_run(p, program_of(p, r->plan), r->step, r->began - first->began, r->times);
    for (int64_t i = 0; !first && i <= runs; i++)
        add_run(p, i < runs ? LS_MICRO : LS_UPDATE, 0, p->n ? p->moments[p->n - 1].to : 0, NULL);
}

static double transient_sum(const page *p, const moment *m)
{
    double sum = 0;
    for (int c = 0; c < LS_CAT_COUNT; c++)
        sum += (double)p->memory.transient[m->program][m->step][c];
    return sum;
}

/* Bytes of all memory that the rank holds at a moment; of a device with memory of its own, those of the
 * device.
 */
static uint64_t held_bytes(const page *p, const moment *m)
{
    const ls_step_memory *all = &p->memory.memory;
    size_t arena = 0;
    for (int i = 0; i < LS_PROGRAMS; i++) {
        const ls_plan *plan = p->compiled->plans[i];
        arena = ls_on_device(all, plan) && plan->arena_bytes > arena ? plan->arena_bytes : arena;
    }
    return (all->apart ? all->device : all->total) - arena - all->plans.symmetric +
           (uint64_t)transient_sum(p, m);
}

/* ---- charts */

/* m NULL: between programs */
static void fill_column(const page *p, const moment *m, double *bands)
{
    for (int b = 0; b < LS_BANDS; b++)
        bands[b] = (double)p->memory.fixed[b] +
                   (m && b < LS_CAT_COUNT ? (double)p->memory.transient[m->program][m->step][b] : 0);
}

/* Draws moments [begin, end). A column shows that moment of its time span which has the most memory. The
 * overview marks the beginning of optimizer steps, the other charts that of programs. */
static void chart(page *p, const char *title, int begin, int end, bool overview)
{
    const double from = p->moments[begin].from, lasts = p->moments[end - 1].to - from;
    double *bytes = LS_ARENA_ARRAY(&p->arena, double, COLUMNS *LS_BANDS);
    const char **labels = LS_ARENA_ARRAY(&p->arena, const char *, COLUMNS);
    const moment **shown = LS_ARENA_ARRAY(&p->arena, const moment *, COLUMNS);
    const bool brief = lasts < 0.01; /* ticks of an axis are whole numbers */
    char peak_text[64], size[32], unit[32];
    if (!shown)
        return; /* ls_memory_page_write says so */
    snprintf(unit, sizeof unit, "%sseconds%s", brief ? "micro" : "milli", p->measured ? "" : ", planned");
    ls_stack s = { .title = title,
                   .x_name = unit,
                   .columns = COLUMNS,
                   .bands = LS_BANDS,
                   .names = p->memory.names,
                   .colors = p->memory.colors,
                   .bytes = bytes,
                   .labels = labels,
                   .x1 = (brief ? 1e6 : 1e3) * lasts,
                   .peak = -1,
                   .peak_text = peak_text };
    for (int i = begin; i < end; i++) {
        const moment *m = &p->moments[i];
        int first = (int)((m->from - from) / lasts * COLUMNS), last = (int)((m->to - from) / lasts * COLUMNS);
        last = last < COLUMNS ? last : COLUMNS - 1;
        for (int k = first; k <= last; k++)
            if (!shown[k] || transient_sum(p, m) > transient_sum(p, shown[k]))
                shown[k] = m;
        if (i == p->peak)
            s.peak = (first + last) / 2;
        const bool begins = m->step == 0 &&
                            (!overview || (m->program == LS_MICRO && (i == 0 || m[-1].program != LS_MICRO)));
        if (begins && s.n_marks < LS_STACK_MARKS) {
            s.marks[s.n_marks].column = first;
            s.marks[s.n_marks++].text = !overview ? ls_program_names[m->program]
                                        : m->of   ? ls_arena_printf(&p->arena, "%lld", (long long)m->of)
                                                  : "";
        }
    }
    for (int k = 0; k < COLUMNS; k++) {
        fill_column(p, shown[k], bytes + k * LS_BANDS);
        labels[k] = shown[k]
                        ? ls_plan_step_text(&p->arena, p->compiled->plans[shown[k]->program], shown[k]->step)
                        : "between programs";
    }
    snprintf(peak_text, sizeof peak_text, "peak %s",
             ls_format_bytes(size, held_bytes(p, &p->moments[p->peak])));
    ls_chart_stack(&p->out, &s);
}

/* The moments of the optimizer step that holds the peak. */
static void step_of_peak(const page *p, int *begin, int *end)
{
    for (*begin = p->peak; *begin > 0; (*begin)--)
        if (p->moments[*begin].program == LS_MICRO && p->moments[*begin].step == 0 &&
            p->moments[*begin - 1].program != LS_MICRO)
            break;
    for (*end = p->peak + 1; *end < p->n; (*end)++)
        if (p->moments[*end].program == LS_MICRO && p->moments[*end - 1].program != LS_MICRO)
            break;
}

/* ---- tables */

static void row(ls_str *out, const char *what, size_t bytes, const char *note)
{
    char text[32];
    if (!bytes)
        return;
    ls_str_add(out, "<tr><td>");
    ls_html_add(out, what);
    ls_str_printf(out, "</td><td>%s</td><td>", ls_format_bytes(text, bytes));
    ls_html_add(out, note);
    ls_str_add(out, "</td></tr>\n");
}

static void lasting_table(page *p)
{
    const ls_step_memory *m = &p->memory.memory;
    const ls_footprint *f = &m->plans;
    ls_str_add(&p->out,
               "<h2>There all the time</h2>\n<div class=\"scroll\"><table "
               "class=\"plan\"><thead><tr><th>what</th><th>bytes</th><th></th></tr></thead><tbody>\n");
    for (int c = 0; c < LS_CAT_COUNT; c++)
        row(&p->out, ls_category_name((ls_category)c), f->fixed[c],
            c == LS_CAT_GRADIENTS ? "from one program to the next"
            : c == LS_CAT_DATA    ? "inputs and outputs"
                                  : "between steps");
    row(&p->out, "staging", m->saves, "a checkpoint is written from it");
    row(&p->out, "sums of micro-batches", m->spares.level_bytes, "gradients of finished micro-batches");
    row(&p->out, "copies of buffers", m->spares.undo_bytes, "a step that is skipped puts them back");
    row(&p->out, "scratch", m->spares.scratch_bytes,
        "parameters and their averages change places through it");
    row(&p->out, "arena", f->arena, "activations, workspace: packed by lifetime");
    row(&p->out, "arena in the window", f->symmetric,
        "what the other ranks read while a step runs: packed by lifetime");
    row(&p->out, "staging of collectives", m->pinned, "results pass through it to the device");
    row(&p->out, "all of it", m->total, "of this rank");
    row(&p->out, "of it, window", f->window, "the other ranks of the host read it");
    row(&p->out, "of it, host", m->host,
        m->apart ? "window, staging, and what is offloaded" : "rests off the device (offload)");
    row(&p->out, "beside it, node", f->node, "gathered units, one copy for the ranks of a host");
    ls_str_add(&p->out, "</tbody></table></div>\n");
}

/* Lists what is alive at a moment, without what is in the host's memory beside a device's own. */
static int held_at(page *p, const moment *m, ls_alive **out)
{
    const ls_step_memory *all = &p->memory.memory;
    const int n = ls_plans_alive(&p->arena, LS_PROGRAMS, p->compiled->plans, m->program, m->step, out);
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (ls_on_device(all, (*out)[i].plan) && !(all->apart && (*out)[i].alloc->host))
            (*out)[kept++] = (*out)[i];
    return kept;
}

static void largest_table(page *p)
{
    ls_alive *all;
    const int n = held_at(p, &p->moments[p->peak], &all);
    char bytes[32];
    ls_str_add(&p->out, "<h2>The largest of what is alive at the peak</h2>\n<div class=\"scroll\"><table "
                        "class=\"plan\"><thead><tr><th>what</th><th>category</th><th>bytes</th>"
                        "<th>lives</th></tr></thead><tbody>\n");
    for (int i = 0; i < n && i < 15; i++) {
        const ls_alloc *a = all[i].alloc;
        ls_str text = { 0 };
        ls_alloc_text(&text, all[i].plan, a);
        ls_str_add(&p->out, "<tr><td>");
        ls_html_add(&p->out, text.data);
        ls_str_printf(&p->out, "</td><td>%s</td><td>%s</td><td>", ls_category_name(a->category),
                      ls_format_bytes(bytes, a->bytes));
        if (ls_is_transient(a))
            ls_str_printf(&p->out, "steps %d to %d of %d", a->first, a->last, all[i].plan->n_steps);
        else
            ls_str_add(&p->out, a->memory == LS_MEM_STATE ? "between steps" : "as long as the session");
        ls_str_add(&p->out, "</td></tr>\n");
        ls_str_release(&text);
    }
    ls_str_add(&p->out, "</tbody></table></div>\n");
}

/* ---- whose the memory is at the peak */

/* What is alive at the peak, of each unit and category. Units are those of the plan; where there is one
 * alone, the blocks that repeat. */
typedef struct share {
    const char *unit;
    size_t bytes[LS_CAT_COUNT], all;
} share;

/* "encoder.layers.encoder_layer_3" of "unit encoder.layers.encoder_layer_3 frozen" */
static const char *unit_name(page *p, int64_t unit)
{
    const char *name = p->compiled->units.units[unit].state + strlen("unit ");
    return ls_arena_printf(&p->arena, "%.*s", (int)strcspn(name, " "), name);
}

static bool is_unit(const page *p, const ls_scope *s)
{
    const ls_units *u = &p->compiled->units;
    const size_t n = strlen(s->path);
    for (int i = 0; i < u->n; i++) {
        const char *name = u->units[i].state + strlen("unit ");
        if (!strncmp(name, s->path, n) && (!name[n] || name[n] == ' '))
            return true;
    }
    const char last = n ? s->path[n - 1] : 0;
    return u->sharding.shards == 1 && s->block[0] && last >= '0' && last <= '9' && s->parent &&
           !strchr(s->path + strlen(s->parent->path) + (s->parent->path[0] != 0), '.');
}

static const char *unit_of_scope(page *p, const ls_scope *scope)
{
    const char *unit = "root";
    for (const ls_scope *s = scope; s && s->path[0]; s = s->parent)
        if (is_unit(p, s))
            unit = s->path; /* the outermost, where blocks lie in blocks */
    return unit;
}

static const char *unit_of(page *p, const ls_plan *plan, const ls_alloc *a)
{
    const ls_node *n =
        plan->graph->nodes[a->value < 0 ? plan->steps[a->first].node : plan->graph->vals[a->value].node];
    if (ls_is_parameters(a->is) || a->is.what == LS_IS_MOMENT || a->is.what == LS_IS_GRADIENT ||
        a->is.what == LS_IS_GATHERED)
        return unit_name(p, a->is.unit);
    if (n->op == &ls_op_all_gather && ((const ls_gather_attrs *)n->attrs)->is.what == LS_IS_UNIT)
        return unit_name(p, ((const ls_gather_attrs *)n->attrs)->is.unit);
    return unit_of_scope(p, n->scope);
}

static int by_bytes(const void *a, const void *b)
{
    const share *x = a, *y = b;
    return x->all != y->all ? (x->all < y->all) - (x->all > y->all) : strcmp(x->unit, y->unit);
}

static int shares_at(page *p, const moment *m, share **out)
{
    ls_alive *all;
    const int n = held_at(p, m, &all);
    share *shares = *out = LS_ARENA_ARRAY(&p->arena, share, n + 1);
    int count = 0;
    for (int i = 0; shares && i < n; i++) {
        const char *unit = unit_of(p, all[i].plan, all[i].alloc);
        int k = 0;
        while (k < count && strcmp(shares[k].unit, unit))
            k++;
        count += k == count;
        shares[k].unit = unit;
        shares[k].bytes[all[i].alloc->category] += (all[i].alloc->bytes + 63) / 64 * 64;
        shares[k].all += (all[i].alloc->bytes + 63) / 64 * 64;
    }
    if (count)
        qsort(shares, (size_t)count, sizeof *shares, by_bytes);
    return count;
}

/* "kernel call 312 of 600 of program micro, in unit encoder.layers.encoder_layer_9: 62.2 MiB, of which
 * activations are 51.4 MiB" */
static void peak_line(page *p, ls_str *out)
{
    const moment *m = &p->moments[p->peak];
    const ls_plan *plan = p->compiled->plans[m->program];
    const ls_scope *scope = plan->graph->nodes[plan->steps[m->step].node]->scope;
    share *shares;
    const int n = shares_at(p, m, &shares);
    size_t by[LS_CAT_COUNT] = { 0 };
    int most = 0;
    char a[32], b[32];
    for (int i = 0; i < n; i++)
        for (int c = 0; c < LS_CAT_COUNT; c++)
            by[c] += shares[i].bytes[c];
    for (int c = 1; c < LS_CAT_COUNT; c++)
        most = by[c] > by[most] ? c : most;
    ls_str_printf(out, "peak %s%s in unit %s (kernel call %d of %d of program %s), of it %s of %s",
                  ls_format_bytes(a, held_bytes(p, m)), p->memory.memory.apart ? " on the device" : "",
                  unit_of_scope(p, scope), m->step, plan->n_steps, plan->graph->name,
                  ls_format_bytes(b, by[most]), ls_category_name((ls_category)most));
    if (n)
        ls_str_printf(out, "; unit %s holds the most, %s", shares[0].unit, ls_format_bytes(a, shares[0].all));
}

static void units_table(page *p)
{
    enum { MOST = 40 };
    share *shares;
    const int n = shares_at(p, &p->moments[p->peak], &shares);
    size_t by[LS_CAT_COUNT] = { 0 };
    char bytes[32];
    for (int i = 0; i < n; i++)
        for (int c = 0; c < LS_CAT_COUNT; c++)
            by[c] += shares[i].bytes[c];
    ls_str_add(&p->out, "<h2>The peak by unit and category</h2>\n<div class=\"scroll\"><table class=\"plan\">"
                        "<thead><tr><th>unit</th>");
    for (int c = 0; c < LS_CAT_COUNT; c++)
        if (by[c])
            ls_str_printf(&p->out, "<th>%s</th>", ls_category_name((ls_category)c));
    ls_str_add(&p->out, "<th>all</th></tr></thead><tbody>\n");
    for (int i = 0; i < n && i < MOST; i++) {
        ls_str_add(&p->out, "<tr><td>");
        ls_html_add(&p->out, shares[i].unit);
        ls_str_add(&p->out, "</td>");
        for (int c = 0; c < LS_CAT_COUNT; c++)
            if (by[c])
                ls_str_printf(&p->out, "<td>%s</td>",
                              shares[i].bytes[c] ? ls_format_bytes(bytes, shares[i].bytes[c]) : "");
        ls_str_printf(&p->out, "<td>%s</td></tr>\n", ls_format_bytes(bytes, shares[i].all));
    }
    ls_str_add(&p->out, "</tbody></table></div>\n");
    if (n > MOST)
        ls_str_printf(&p->out, "<p class=\"sub\">and %d units that hold less</p>\n", n - MOST);
}

/* ---- the page */

static void memory_page_head(page *p, int rank)
{
    const ls_parallel *parallel = &p->compiled->parallel;
    const moment *m = &p->moments[p->peak];
    const ls_plan *plan = p->compiled->plans[m->program];
    char mesh[128];
    char title[48];
    snprintf(title, sizeof title, "memory of rank %d", rank);
    ls_page_begin(&p->out, title, false);
    ls_str_printf(&p->out, "<h1>Memory of rank %d</h1>\n", rank);
    ls_str_printf(&p->out, "<p class=\"sub\">%lld rank%s, %s · %lld × %lld samples a step on this rank · ",
                  (long long)ls_mesh_ranks(&parallel->mesh), ls_mesh_ranks(&parallel->mesh) == 1 ? "" : "s",
                  ls_mesh_text(mesh, &parallel->mesh), (long long)p->compiled->share.count,
                  (long long)p->compiled->micro_batch);
    ls_str_add(&p->out, p->measured ? "times as measured</p>\n" : "times as planned</p>\n");
    ls_str peak = { 0 };
    peak_line(p, &peak);
    ls_str_add(&p->out, "<p>");
    ls_html_add(&p->out, ls_str_text(&peak));
    ls_str_release(&peak);
    ls_str_add(&p->out, ": ");
    ls_html_add(&p->out, ls_plan_step_text(&p->arena, plan, m->step));
    ls_str_add(&p->out, ".</p>\n");
}

static void contents(page *p, int rank)
{
    for (int i = 0; i < p->n; i++)
        if (transient_sum(p, &p->moments[i]) > transient_sum(p, &p->moments[p->peak]))
            p->peak = i;
    int begin, end;
    step_of_peak(p, &begin, &end);
    memory_page_head(p, rank);
    if (begin > 0 || end < p->n) {
        ls_str_add(&p->out, "<h2>The profiled steps (MiB)</h2>\n");
        chart(p, "memory over the profiled steps", 0, p->n, true);
    }
    ls_str_add(&p->out, "<h2>One step (MiB)</h2>\n");
    chart(p, "memory over the step with the peak", begin, end, false);
    units_table(p);
    largest_table(p);
    lasting_table(p);
    ls_page_end(&p->out, "charts.js");
}

ls_status ls_memory_page_write(const char *path, const ls_trainer *t, const ls_profile *profile, int rank,
                               ls_str *peak)
{
    page p = { .compiled = &t->compiled };
    ls_arena_init(&p.arena);
    ls_status s = ls_memory_bands_make(&p.memory, &p.arena, &t->compiled);
    if (s == LS_OK) {
        find_moments(&p, profile);
        s = ls_arena_status(&p.arena);
    }
    if (s == LS_OK && p.n) {
        contents(&p, rank);
        if (peak)
            peak_line(&p, peak);
        s = ls_arena_status(&p.arena);
    } else if (s == LS_OK)
        s = ls_fail(LS_E_ARG, "%s: no step was profiled", path);
    if (s == LS_OK)
        s = ls_file_write_text(path, &p.out);
    ls_str_release(&p.out);
    ls_arena_release(&p.arena);
    return s;
}
