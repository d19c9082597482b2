/* plan_search_text.c - what `plan --search` prints: the fastest layouts that fit, why the first one has what
 * it has, and what was refused. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/shown.h"
#include "base/str.h"
#include "base/ui.h"
#include "plan_search_own.h"
#include "setup/compiled_recipe.h"

const char *const ls_plan_search_keys[KEYS] = { "parallel.mesh",     "parallel.schedule",
                                                "parallel.data",     "parallel.reshard_after_forward",
                                                "parallel.sequence", "parallel.recompute",
                                                "train.micro_batch" };

static void settings_text(ls_str *out, const candidate *c, const char *before)
{
    for (int k = 0; k < KEYS; k++)
        if (c->value[k][0])
            ls_str_printf(out, "%s%s=%s%s%s", before, ls_plan_search_keys[k], k == MESH ? "'" : "",
                          c->value[k], k == MESH ? "'" : "");
}

static void short_text(ls_str *out, const candidate *c)
{
    static const char *const SHORT[KEYS] = { "mesh ", "", "", "reshard ", "sequence ", "recompute ", "" };
    for (int k = 0; k < MICRO; k++)
        if (c->value[k][0])
            ls_str_printf(out, "  %s%s", SHORT[k], c->value[k]);
}

/* Whether a candidate differs from the best in one key alone. Another mesh may bring another schedule. */
static bool differs_in(const search *s, const candidate *c, int key)
{
    const candidate *best = &s->c[0];
    bool other = strcmp(c->value[key], best->value[key]) != 0;
    for (int k = 0; k < KEYS; k++)
        other = other && (k == key || (key == MESH && k == SCHEDULE) || !strcmp(c->value[k], best->value[k]));
    return other;
}

static void reasons_text(ls_str *out, const search *s)
{
    char memory[32];
    const candidate *best = &s->c[0];
    for (int key = 0; key < KEYS; key++)
        for (int i = 1; i < s->n; i++) {
            const candidate *c = &s->c[i];
            bool again = false; /* the same value, with a slower schedule */
            for (int k = 1; k < i; k++)
                again = again || (differs_in(s, &s->c[k], key) && !strcmp(s->c[k].value[key], c->value[key]));
            if (again || !differs_in(s, c, key))
                continue;
            ls_str_printf(out, "  %s %s, not %s: that ", ls_plan_search_keys[key], best->value[key],
                          c->value[key]);
            if (c->outcome == REFUSED)
                ls_str_add(out, "is refused\n");
            else if (c->outcome == TOO_LARGE)
                ls_str_printf(out, "needs %s\n", ls_format_bytes(memory, c->memory));
            else
                ls_str_printf(out, "takes %.2f times as long, in %s\n", c->seconds / best->seconds,
                              ls_format_bytes(memory, c->memory));
        }
}

static void refusals_text(ls_str *out, const search *s)
{
    for (int i = 0; i < s->n; i++) {
        const candidate *c = &s->c[i];
        int same = 0, before = 0;
        for (int k = 0; k < s->n && c->outcome == REFUSED; k++)
            if (s->c[k].outcome == REFUSED && !strcmp(s->c[k].why, c->why)) {
                same++;
                before += k < i;
            }
        if (same && !before)
            ls_str_printf(out, "refused, %d: %s\n", same, c->why);
    }
}

ls_status ls_plan_search_text(const search *s, const ls_ui *ui)
{
    char a[32];
    ls_str out = { 0 };
    ls_str_printf(&out, "%d layouts of %d rank%s: ", s->n, s->ranks, s->ranks == 1 ? "" : "s");
    if (s->memory)
        ls_str_printf(&out, "%d fit into %s a rank, %d do not", s->count[FITS],
                      ls_format_bytes(a, (uint64_t)s->memory), s->count[TOO_LARGE]);
    else
        ls_str_printf(&out, "%d planned, of any size (--memory says what fits)", s->count[FITS]);
    ls_str_printf(&out, ", %d refused\n", s->count[REFUSED]);
    if (s->o->where.machine)
        ls_str_printf(&out, "times are not measured, but by the figures of machine %s\n",
                      s->o->where.machine->name);
    if (s->more)
        ls_str_printf(&out,
                      "there are more than these %d: --set fixes what need not be tried, as parallel.mesh\n",
                      MOST);
    ls_str_printf(&out, "%10s %10s %10s %10s %10s %6s\n", "step, ms", "compute", "update", "collective",
                  "memory", "micro");
    for (int i = 0; i < s->count[FITS] && i < SHOWN; i++) {
        const candidate *c = &s->c[i];
        ls_str_printf(&out, "%10.2f %10.2f %10.2f %10.2f %10s %6s", 1e3 * c->seconds,
                      1e3 * (c->seconds - c->update - c->communication), 1e3 * c->update,
                      1e3 * c->communication, ls_format_bytes(a, c->memory), c->value[MICRO]);
        short_text(&out, c);
        ls_str_add(&out, c->exact || s->o->where.machine ? "\n" : "  (in part from near shapes)\n");
    }
    if (s->count[FITS]) {
        ls_str_add(&out, "fastest:");
        settings_text(&out, &s->c[0], " --set ");
        ls_str_add(&out, "\n");
        reasons_text(&out, s);
    }
    refusals_text(&out, s);
    return ls_print_result(ui->out, &out);
}

ls_status ls_plan_search_json(const search *s, const ls_ui *ui)
{
    static const char *const OUTCOMES[] = { "fits", "too large", "refused" };
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_int(&j, "ranks", s->ranks);
    ls_json_array(&j, "layouts");
    for (int i = 0; i < s->n; i++) {
        const candidate *c = &s->c[i];
        ls_json_object(&j, NULL);
        ls_json_object(&j, "settings");
        for (int k = 0; k < KEYS; k++)
            if (c->value[k][0])
                ls_json_text(&j, ls_plan_search_keys[k], c->value[k]);
        ls_json_close_object(&j);
        ls_json_text(&j, "outcome", OUTCOMES[c->outcome]);
        if (c->outcome == REFUSED) {
            ls_json_text(&j, "why", c->why);
        } else {
            ls_json_f64(&j, "seconds", c->seconds);
            ls_json_f64(&j, "communication_seconds", c->communication);
            ls_json_f64(&j, "update_seconds", c->update);
            ls_json_int(&j, "memory", (int64_t)c->memory);
            ls_json_bool(&j, "measured", c->exact);
        }
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    return ls_print_result(ui->out, &j.out);
}
