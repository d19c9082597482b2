/* export_dcp_optimizer.c - from one DCP directory to another, with the optimizer's state: for other ranks, or
 * with names where the state dict had numbers. */
#include "export_optimizer.h"

#include <string.h>

#include "ckpt/dcp_state.h"

typedef struct groups {
    const ls_dcp_state *state;
    int64_t n;
    const char **names;
    ls_dcp_settings *settings;
} groups;

static int64_t number_of_group(const groups *g, const char *name)
{
    for (int64_t i = 0; i < g->n; i++)
        if (!strcmp(g->names[i], name))
            return i;
    return -1;
}

static bool same_setting(const ls_dcp_setting *a, const ls_dcp_setting *b)
{
    return !strcmp(a->name, b->name) && a->kind == b->kind && a->a == b->a && a->b == b->b;
}

/* The group with these settings; with flatten_optimizer_state_dict each parameter has a group of its own. */
static int64_t alike(const groups *g, int64_t of)
{
    for (int64_t i = 0; i < of; i++) {
        const ls_dcp_settings *a = &g->settings[i], *b = &g->settings[of];
        int k = 0;
        while (a->n == b->n && k < a->n && same_setting(&a->at[k], &b->at[k]))
            k++;
        if (a->n == b->n && k == a->n)
            return i;
    }
    return of;
}

static int64_t group_of(const void *context, const char *name)
{
    const groups *g = context;
    const ls_dcp_state *s = g->state;
    for (int64_t i = 0; i < s->n_members; i++)
        if (!strcmp(s->members[i].parameter, name))
            return number_of_group(g, s->members[i].group);
    const int64_t own = number_of_group(g, name); /* flat */
    return own >= 0 ? alike(g, own) : 0;
}

static void list_groups(groups *g, ls_arena *a)
{
    const ls_dcp_state *s = g->state;
    g->names = LS_ARENA_ARRAY(a, const char *, s->n + 1);
    g->settings = LS_ARENA_ARRAY(a, ls_dcp_settings, s->n + 1);
    for (int64_t i = 0; g->names && g->settings && i < s->n; i++) {
        const int64_t at = number_of_group(g, s->settings[i].group);
        if (at < 0)
            g->names[g->n++] = s->settings[i].group;
        g->settings[at < 0 ? g->n - 1 : at].n++;
    }
    for (int64_t k = 0; k < g->n; k++) {
        ls_dcp_setting *all = LS_ARENA_ARRAY(a, ls_dcp_setting, g->settings[k].n);
        int n = 0;
        for (int64_t i = 0; all && i < s->n; i++)
            if (!strcmp(s->settings[i].group, g->names[k]))
                all[n++] = s->settings[i].is;
        g->settings[k].at = all;
    }
}

static ls_status export_state(ls_dcp_state *s, const ls_weights *w, const ls_export_target *to)
{
    ls_arena a;
    groups g = { .state = s };
    ls_dcp_optimizer o = { .group_of = group_of, .context = &g };
    const int64_t n = ls_weights_count(s->model);
    ls_arena_init(&a);
    const char **names = LS_ARENA_ARRAY(&a, const char *, n + 1);
    for (int64_t i = 0; names && i < n; i++)
        names[i] = ls_weights_at(s->model, i)->name;
    ls_status status = ls_arena_status(&a);
    if (status == LS_OK)
        status = ls_dcp_state_optimizer(s, n, names);
    if (status == LS_OK)
        status = ls_dcp_ended(&o.epoch, &o.last_step, s->dir);
    if (status == LS_OK) {
        list_groups(&g, &a);
        status = ls_arena_status(&a);
        o.state = s->optimizer;
        o.steps = s->steps;
        o.n = g.n;
        o.groups = g.settings;
    }
    if (status == LS_OK)
        status = ls_dcp_export(w, &o, to->prefix, to->dir, to->opts);
    ls_arena_release(&a);
    return status;
}

ls_status ls_export_dcp_optimizer(const ls_weights *w, const char *from, const char *prefix,
                                  const ls_export_target *to)
{
    ls_dcp_state s;
    LS_TRY(ls_dcp_state_open(&s, from, prefix));
    const ls_status status = export_state(&s, w, to);
    ls_dcp_state_release(&s);
    return status;
}
