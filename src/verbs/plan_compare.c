/* plan_compare.c - the step of one recipe under several settings, a column each: the cross product of all
 * --compare options. A refused setting has a column, too; the reason stands below the table. */
#include "base/c_locale.h"
#include "base/shown.h"
#include "plan_compare.h"
#include "plan_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/sys.h"
#include "pages/step_page.h"
#include "plan_stages.h"
#include "recipe/machine_file.h"
#include "step_cost.h"
#include "value_list.h"

enum { COLUMNS = LS_STEP_VIEWS, KEYS = 8, LABEL = 34 };

typedef struct column {
    int choice[KEYS]; /* of each axis: which value */
    bool refused;
    char why[1024];
    int ranks;
    int64_t samples; /* of a step */
    ls_step_cost cost;
    const char *lacks; /* ls_plan_host_lacks */
    bool placed;       /* on a machine that was given */
    char host[32];     /* "8 x 16": hosts, ranks of each */
} column;
typedef struct table {
    int n_axes;
    ls_value_list axes[KEYS]; /* one for each --compare */
    int n;
    column *columns;
    const char **sets; /* room for the settings of one column */
    ls_step_page page; /* --html */
} table;

static ls_status read_table(table *t, const ls_plan_command_opts *o)
{
    if (o->n_compare > KEYS)
        return ls_fail(LS_E_USAGE, "--compare: more than %d keys", KEYS);
    t->n = 1;
    for (int i = 0; i < o->n_compare; i++) {
        LS_TRY(ls_value_list_read(&t->axes[t->n_axes++], "--compare", o->compare[i],
                                  "parallel.reshard_after_forward=true,false"));
        if (t->axes[i].n > COLUMNS)
            return ls_fail(LS_E_USAGE, "--compare %s: more than %d values", o->compare[i], COLUMNS);
        t->n *= t->axes[i].n;
        if (t->n > COLUMNS)
            return ls_fail(
                LS_E_USAGE,
                "--compare: these settings have %d or more combinations; up to %d fit side by side", t->n,
                COLUMNS);
    }
    t->columns = ls_sys_calloc((size_t)t->n, sizeof *t->columns);
    t->sets = ls_sys_calloc((size_t)(o->recipe.n_sets + t->n_axes), sizeof *t->sets);
    if (!t->columns || !t->sets)
        return ls_fail(LS_E_MEMORY, "--compare: no memory for a table of %d columns", t->n);
    for (int k = 0; k < t->n; k++) /* the last key varies fastest */
        for (int i = t->n_axes - 1, rest = k; i >= 0; rest /= t->axes[i--].n)
            t->columns[k].choice[i] = rest % t->axes[i].n;
    return LS_OK;
}

static const char *value_of(const table *t, int k, int key)
{
    return t->axes[key].values[t->columns[k].choice[key]];
}

/* Adds the column to the page: its step, or why it was refused. */
static ls_status add_view(table *t, int k, const ls_compiled_recipe *step)
{
    ls_str name = { 0 }, layout = { 0 };
    ls_status s = LS_OK;
    for (int i = 0; i < t->n_axes; i++)
        ls_str_printf(&name, "%s%s=%s", i ? " " : "", t->axes[i].key, value_of(t, k, i));
    if (step && step->ranks > 1)
        ls_layout_text(&layout, &step->step);
    ls_str_inherit(&name, &layout);
    if (step && (s = ls_str_status(&name)) == LS_OK)
        s = ls_step_page_add(&t->page, &(ls_step_view){ .name = ls_str_text(&name),
                                                        .layout = ls_str_text(&layout),
                                                        .compiled = &step->step });
    if (!step)
        ls_step_page_refuse(&t->page, ls_str_text(&name), t->columns[k].why);
    ls_str_release(&name);
    ls_str_release(&layout);
    return s;
}

static ls_status fill(table *t, int k, const ls_plan_command_opts *o)
{
    column *c = &t->columns[k];
    const int n = o->recipe.n_sets;
    const char **sets = t->sets;
    ls_str made[KEYS] = { 0 };
    for (int i = 0; i < n; i++)
        sets[i] = o->recipe.sets[i];
    int n_sets = n;
    const char *name = NULL;
    for (int i = 0; i < t->n_axes; i++) {
        if (!strcmp(t->axes[i].key, "machine")) { /* no key of a recipe, as --machine */
            name = value_of(t, k, i);
            continue;
        }
        ls_str_printf(&made[i], "%s=%s", t->axes[i].key, value_of(t, k, i));
        sets[n_sets++] = made[i].data;
    }
    ls_elsewhere where = o->where;
    ls_machine machine;
    ls_arena arena;
    ls_arena_init(&arena);
    where.machine = name ? &machine : where.machine;
    ls_compiled_recipe step;
    ls_status s = LS_OK;
    for (int i = 0; i < t->n_axes && s == LS_OK; i++)
        s = ls_str_status(&made[i]);
    const ls_recipe_arg recipe = { .name = o->recipe.name, .n_sets = n_sets, .sets = sets };
    if (s == LS_OK && name)
        s = ls_machine_load(&machine, &arena, name);
    if (s == LS_OK)
        s = ls_compiled_recipe_make(&step, &recipe, 0, &where);
    if (s == LS_OK) {
        ls_plan_host host;
        c->ranks = step.ranks;
        c->samples = step.recipe->train.global_batch;
        ls_step_cost_of(&c->cost, &step);
        ls_plan_stages stages;
        s = ls_plan_stages_make(&stages, &c->cost, &step, &recipe, &where, false);
        c->cost.memory = stages.memory;
        ls_plan_stages_release(&stages);
        ls_plan_host_of(&host, &step, &c->cost);
        c->lacks = step.step.device.here || step.machine || host.ranks > host.most ? ls_plan_host_lacks(&host)
                                                                                   : NULL;
        c->placed = step.machine != NULL;
        if (c->placed)
            snprintf(c->host, sizeof c->host, "%d x %d", host.hosts, host.ranks);
        if (o->html && s == LS_OK)
            s = add_view(t, k, &step);
        ls_compiled_recipe_release(&step);
    }
    if (s != LS_OK) {
        c->refused = true;
        snprintf(c->why, sizeof c->why, "%s", ls_error_message());
        if (o->html)
            add_view(t, k, NULL);
    }
    for (int i = 0; i < t->n_axes; i++)
        ls_str_release(&made[i]);
    ls_arena_release(&arena);
    return s;
}

/* ---- text */

typedef struct printer {
    const table *t;
    ls_str out;
    int width;
} printer;

/* Writes the text of one cell. A row whose cells are all "" is left out. */
typedef void (*cell)(char out[48], const column *c, int what);

static void row(printer *p, const char *label, cell text, int what)
{
    char cells[COLUMNS][48];
    bool any = false;
    for (int k = 0; k < p->t->n; k++) {
        cells[k][0] = 0;
        if (!p->t->columns[k].refused)
            text(cells[k], &p->t->columns[k], what);
        any = any || cells[k][0];
    }
    if (!any)
        return;
    ls_str_printf(&p->out, "%-*s", LABEL, label);
    for (int k = 0; k < p->t->n; k++)
        ls_str_printf(&p->out, " %*s", p->width,
                      p->t->columns[k].refused ? "refused"
                      : cells[k][0]            ? cells[k]
                                               : "-");
    ls_str_add(&p->out, "\n");
}

static void bytes_cell(char out[48], size_t bytes)
{
    char b[32];
    if (bytes)
        snprintf(out, 48, "%s", ls_format_bytes(b, bytes));
}

static void ranks_cell(char out[48], const column *c, int what)
{
    (void)what;
    snprintf(out, 48, "%d", c->ranks);
}
static void hosts_cell(char out[48], const column *c, int what)
{
    (void)what;
    snprintf(out, 48, "%s", c->host);
}
static void fits_cell(char out[48], const column *c, int what)
{
    (void)what;
    if (c->placed || c->lacks)
        snprintf(out, 48, "%s%s", c->lacks ? "NO: " : "yes", c->lacks ? c->lacks : "");
}
static void micro_cell(char out[48], const column *c, int what)
{
    (void)what;
    snprintf(out, 48, "%lld x %lld", (long long)c->cost.runs, (long long)c->cost.micro_batch);
}
static void category_cell(char out[48], const column *c, int what)
{
    bytes_cell(out, c->cost.memory.by_category[what]);
}

enum { ALL, WINDOW, HOST, COLLECTIVES, DEVICE, NODE };
static void total_cell(char out[48], const column *c, int what)
{
    const ls_step_memory *m = &c->cost.memory;
    const size_t of[] = { [ALL] = m->total,
                          [WINDOW] = m->plans.window,
                          [HOST] = m->host,
                          [COLLECTIVES] = m->pinned,
                          [DEVICE] = m->host || m->apart ? m->device : 0,
                          [NODE] = m->plans.node };
    bytes_cell(out, of[what]);
}

enum { FLOPS, STEP, IDLE, COMMUNICATION, RATE, MOVED, TO_DEVICE, TO_HOST };
static void number_cell(char out[48], const column *c, int what)
{
    const ls_step_cost *s = &c->cost;
    if (what == FLOPS)
        ls_snprintf(out, 48, "%.2f GFLOP", 1e-9 * s->flops);
    else if (what == MOVED && s->collectives)
        bytes_cell(out, (size_t)s->bytes);
    else if (what == TO_DEVICE || what == TO_HOST)
        bytes_cell(out, (size_t)(what == TO_HOST ? s->transfers.to_host : s->transfers.to_device));
    else if (what == STEP && s->seconds > 0)
        ls_snprintf(out, 48, "%.2f ms", 1e3 * s->seconds);
    else if (what == IDLE && s->idle > 0)
        ls_snprintf(out, 48, "%.0f %%", 100 * s->idle);
    else if (what == COMMUNICATION && s->communication > 0)
        ls_snprintf(out, 48, "%.2f ms", 1e3 * s->communication);
    else if (what == RATE && s->seconds > 0)
        ls_snprintf(out, 48, "%.*f", (double)c->samples < 10 * s->seconds ? 3 : 0,
                    (double)c->samples / s->seconds);
}
static void bits_cell(char out[48], const column *c, int what)
{
    (void)what;
    snprintf(out, 48, "%s", c->cost.same_bits ? "yes" : "no");
}

static bool same_traffic(const ls_traffic *a, const ls_traffic *b)
{
    return a->kind == b->kind && a->map == b->map && !strcmp(a->group, b->group);
}

static const ls_traffic *traffic_of(const column *c, const ls_traffic *like)
{
    for (int i = 0; i < c->cost.n_traffic; i++)
        if (same_traffic(&c->cost.traffic[i], like))
            return &c->cost.traffic[i];
    return NULL;
}

/* A row for each kind of collective that any column has. */
static void traffic_rows(printer *p)
{
    for (int k = 0; k < p->t->n; k++)
        for (int i = 0; i < p->t->columns[k].cost.n_traffic; i++) {
            const ls_traffic *t = &p->t->columns[k].cost.traffic[i];
            bool before = false;
            for (int b = 0; b < k; b++)
                before = before || traffic_of(&p->t->columns[b], t);
            if (before)
                continue;
            ls_str label = { 0 };
            ls_str_add(&label, "  ");
            ls_traffic_text(&label, t);
            ls_str_printf(&p->out, "%-*s", LABEL, label.data);
            ls_str_release(&label);
            for (int b = 0; b < p->t->n; b++) {
                const ls_traffic *x = traffic_of(&p->t->columns[b], t);
                char text[64], bytes[32];
                snprintf(text, sizeof text, p->t->columns[b].refused ? "refused" : "-");
                if (x)
                    snprintf(text, sizeof text, "%lld, %s", (long long)x->calls,
                             ls_format_bytes(bytes, (uint64_t)x->bytes));
                ls_str_printf(&p->out, " %*s", p->width, text);
            }
            ls_str_add(&p->out, "\n");
        }
}

static ls_status table_text(const table *t, const ls_ui *ui)
{
    printer p = { .t = t, .width = 14 };
    for (int i = 0; i < t->n_axes; i++)
        for (int k = 0; k < t->axes[i].n; k++)
            p.width = (int)strlen(t->axes[i].values[k]) > p.width ? (int)strlen(t->axes[i].values[k])
                                                                  : p.width;
    for (int i = 0; i < t->n_axes; i++) {
        ls_str_printf(&p.out, "%-*s", LABEL, t->axes[i].key);
        for (int k = 0; k < t->n; k++)
            ls_str_printf(&p.out, " %*s", p.width, value_of(t, k, i));
        ls_str_add(&p.out, "\n");
    }
    row(&p, "ranks", ranks_cell, 0);
    row(&p, "hosts x ranks of each", hosts_cell, 0);
    row(&p, "micro-batches of a rank", micro_cell, 0);
    ls_str_add(&p.out, "memory of a rank, worst moment\n");
    for (int i = 0; i < LS_CAT_COUNT; i++) {
        char label[40];
        snprintf(label, sizeof label, "  %s", ls_category_name((ls_category)i));
        row(&p, label, category_cell, i);
    }
    row(&p, "  in all, as packed", total_cell, ALL);
    row(&p, "  of it others read (window)", total_cell, WINDOW);
    row(&p, "  of it on the host", total_cell, HOST);
    row(&p, "  of it results of collectives", total_cell, COLLECTIVES);
    row(&p, "  of it on the device", total_cell, DEVICE);
    row(&p, "beside it, once for a host's ranks", total_cell, NODE);
    row(&p, "fits", fits_cell, 0);
    const size_t before = p.out.len;
    ls_str_add(&p.out, "collectives of a step\n");
    const size_t head = p.out.len;
    traffic_rows(&p);
    row(&p, "  received by a rank", number_cell, MOVED);
    if (p.out.len == head)
        ls_str_cut(&p.out, before);
    row(&p, "copied to the device", number_cell, TO_DEVICE);
    row(&p, "copied from the device", number_cell, TO_HOST);
    row(&p, "arithmetic of a rank", number_cell, FLOPS);
    row(&p, "time of a step, about", number_cell, STEP);
    row(&p, "of it, ranks wait for stages", number_cell, IDLE);
    row(&p, "  of it collectives", number_cell, COMMUNICATION);
    row(&p, "samples a second", number_cell, RATE);
    row(&p, "same bits as other layouts", bits_cell, 0);
    for (int k = 0; k < t->n; k++) {
        if (!t->columns[k].refused)
            continue;
        ls_str_add(&p.out, "refused, ");
        for (int i = 0; i < t->n_axes; i++)
            ls_str_printf(&p.out, "%s%s=%s", i ? " " : "", t->axes[i].key, value_of(t, k, i));
        ls_str_printf(&p.out, ": %s\n", t->columns[k].why);
    }
    return ls_print_result(ui->out, &p.out);
}

static ls_status table_json(const table *t, const ls_ui *ui)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_array(&j, "columns");
    for (int k = 0; k < t->n; k++) {
        const column *c = &t->columns[k];
        ls_json_object(&j, NULL);
        ls_json_object(&j, "settings");
        for (int i = 0; i < t->n_axes; i++)
            ls_json_text(&j, t->axes[i].key, value_of(t, k, i));
        ls_json_close_object(&j);
        if (c->refused) {
            ls_json_text(&j, "refused", c->why);
        } else {
            ls_json_int(&j, "ranks", c->ranks);
            ls_json_bool(&j, "fits", !c->lacks);
            ls_step_cost_json(&j, "rank", &c->cost);
        }
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    return ls_print_result(ui->out, &j.out);
}

static ls_status compare(table *t, const ls_plan_command_opts *o, const ls_ui *ui)
{
    LS_TRY(read_table(t, o));
    ls_status s = LS_OK;
    int refused = 0;
    char title[256];
    snprintf(title, sizeof title, "%s: %d layouts", o->recipe.name, t->n);
    ls_step_page_begin(&t->page, title);
    for (int k = 0; k < t->n; k++) {
        const ls_status one = fill(t, k, o);
        s = one == LS_OK ? s : one;
        refused += one != LS_OK;
    }
    if (refused == t->n)
        return ls_fail(s, "--compare: every setting was refused: %s", t->columns[0].why);
    if (o->html) {
        LS_TRY(ls_step_page_write(&t->page, o->html));
        ls_log_info("the steps are in %s: open it in a browser", o->html);
    }
    return (o->json ? table_json : table_text)(t, ui);
}

ls_status ls_plan_compare(const ls_plan_command_opts *o, const ls_ui *ui)
{
    table t = { 0 };
    const ls_status s = compare(&t, o, ui);
    ls_step_page_release(&t.page);
    for (int i = 0; i < t.n_axes; i++)
        ls_value_list_release(&t.axes[i]);
    free(t.columns);
    free(t.sets);
    return s;
}
