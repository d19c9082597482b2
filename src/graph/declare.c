/* declare.c - the losses and metrics that a model declares. */
#define LS_NO_CALL_SITES
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/argument.h"
#include "base/metric_list.h"
#include "graph.h"

enum { MOST_NAME = LS_METRIC_NAME - 6 }; /* a name with the prefix "eval_" must be valid, too */

/* Whether the name is a key of evaluation rows in metrics.jsonl, or of the output of `lockstep eval
 * --json`. */
static bool is_taken(const char *name)
{
    static const char *const KEYS[] = {
        "kind",       "step",   "epoch",        "samples",    "seconds",  "skipped", "texts",
        "rouge1",     "rouge2", "rougeL",       "attempt",    "targets",  "correct", "generate_seconds",
        "checkpoint", "data",   "builtin_data", "other_data", "confusion"
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
        if (!strcmp(name, KEYS[i]))
            return true;
    return false;
}

static bool room(ls_graph *g)
{
    if (g->n_declared < g->cap_declared)
        return true;
    const int cap = g->cap_declared ? 2 * g->cap_declared : 8;
    ls_declared *more = LS_ARENA_ARRAY(&g->arena, ls_declared, cap);
    if (!ls_graph_room(g))
        return false;
    if (g->n_declared)
        memcpy(more, g->declared, sizeof *more * (size_t)g->n_declared);
    g->declared = more;
    g->cap_declared = cap;
    return true;
}

/* The fault of a name, under which the rows of a run's files store the value; NULL: it is valid. */
static const char *wrong_name(const ls_graph *g, const ls_declared *d)
{
    const size_t n = strlen(d->name);
    bool fine = n > 0 && n <= MOST_NAME;
    for (size_t i = 0; i < n && fine; i++)
        fine = isalnum((unsigned char)d->name[i]) || strchr("_-./", d->name[i]);
    if (!fine)
        return "a name has 1 to 95 letters, digits and _-./";
    if (is_taken(d->name))
        return "the rows of metrics.jsonl and of `lockstep eval` have this key; use another name";
    for (int i = 0; i < g->n_declared; i++)
        if (d->loss && g->declared[i].loss &&
            (!strcmp(d->name, "loss") || !strcmp(g->declared[i].name, "loss")))
            return "of several losses none may be \"loss\", which is what their sum is called";
    if (g->n_declared + 1 == LS_MOST_METRICS)
        return "a model has at most 255 losses and metrics; leave some out, or compare whole tensors with "
               "one";
    return !d->loss && !strcmp(d->name, "loss") ? "\"loss\" is what is minimised: a metric needs another name"
                                                : NULL;
}

void ls_graph_declare(ls_graph *g, ls_declared d)
{
    const char *what = d.loss ? "loss" : "metric";
    const bool reads_field = d.weigh >= LS_BY_VALID;
    const char *wrong = wrong_name(g, &d);
    if (wrong) {
        ls_graph_error(g, LS_E_ARG, "%s \"%s\": %s", what, d.name, wrong);
        return;
    }
    if (d.rows.id <= 0 || !ls_graph_has(g, d.rows)) {
        ls_graph_error(g, LS_E_ARG, "%s \"%s\" is of no value of this graph", what, d.name);
        return;
    }
    if (reads_field != (d.field != NULL)) {
        ls_graph_error(
            g, LS_E_ARG, "%s \"%s\": %s", what, d.name,
            d.field ? "LS_BY_SAMPLE and LS_BY_ELEMENT read no field, it must be NULL"
                    : "LS_BY_VALID, LS_BY_FIELD and LS_OVER_FIELD need the name of an input, field is NULL");
        return;
    }
    for (int i = 0; i < g->n_declared; i++)
        if (!strcmp(g->declared[i].name, d.name)) {
            ls_graph_error(g, LS_E_ARG, "%s \"%s\": there is a %s of that name already", what, d.name,
                           g->declared[i].loss ? "loss" : "metric");
            return;
        }
    if (!isfinite(d.factor)) {
        ls_graph_error(g, LS_E_ARG, "%s \"%s\": its factor is %g: a finite number is needed", what, d.name,
                       d.factor);
        return;
    }
    d.name = ls_arena_strdup(&g->arena, d.name);
    d.field = d.field ? ls_arena_strdup(&g->arena, d.field) : NULL;
    d.file = g->file;
    d.line = g->line;
    if (room(g))
        g->declared[g->n_declared++] = d;
}

void ls_loss(ls_graph *g, const char *name, ls_value rows, double factor, ls_weigh weigh, const char *field)
{
    LS_ARG_VOID(g);
    LS_BUILD_ARG(g, name, );
    LS_BUILD_ENUM(g, ls_weigh, weigh, LS_OVER_FIELD, );
    ls_graph_declare(
        g, (ls_declared){
               .name = name, .rows = rows, .factor = factor, .weigh = weigh, .field = field, .loss = true });
}

void ls_loss_scalar(ls_graph *g, const char *name, ls_value value, double factor)
{
    LS_ARG_VOID(g);
    LS_BUILD_ARG(g, name, );
    ls_graph_declare(
        g, (ls_declared){ .name = name, .rows = value, .factor = factor, .loss = true, .scalar = true });
}

void ls_measure(ls_graph *g, const char *name, ls_value rows, ls_how how, ls_weigh weigh, const char *field)
{
    LS_ARG_VOID(g);
    LS_BUILD_ARG(g, name, );
    LS_BUILD_ENUM(g, ls_how, how, LS_COUNT, );
    LS_BUILD_ENUM(g, ls_weigh, weigh, LS_OVER_FIELD, );
    ls_graph_declare(
        g,
        (ls_declared){ .name = name, .rows = rows, .factor = 1, .how = how, .weigh = weigh, .field = field });
}
