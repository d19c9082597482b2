/* declare.c - the losses and metrics that a model declares. */
#define LS_NO_CALL_SITES
#include <math.h>
#include <string.h>

#include "base/argument.h"
#include "graph.h"

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

static void declare(ls_graph *g, const char *what, ls_declared d)
{
    const bool reads_field = d.weigh == LS_BY_VALID || d.weigh == LS_BY_FIELD;
    if (!d.name[0] || strlen(d.name) > 63 || strpbrk(d.name, " \t\n\",=")) {
        ls_graph_error(g, LS_E_ARG, "%s \"%s\": a name has 1 to 63 letters, digits and _-./", what, d.name);
        return;
    }
    if (d.rows.id <= 0 || !ls_graph_has(g, d.rows)) {
        ls_graph_error(g, LS_E_ARG, "%s \"%s\" is of no value of this graph", what, d.name);
        return;
    }
    if (reads_field != (d.field != NULL)) {
        ls_graph_error(g, LS_E_ARG, "%s \"%s\": %s", what, d.name,
                       d.field ? "LS_BY_SAMPLE and LS_BY_ELEMENT read no field, it must be NULL"
                               : "LS_BY_VALID and LS_BY_FIELD need the name of an input, field is NULL");
        return;
    }
    for (int i = 0; i < g->n_declared; i++)
        if (!strcmp(g->declared[i].name, d.name)) {
            ls_graph_error(g, LS_E_ARG, "%s \"%s\": there is a %s of that name already", what, d.name,
                           g->declared[i].loss ? "loss" : "metric");
            return;
        }
    if (!isfinite(d.factor)) {
        ls_graph_error(g, LS_E_ARG, "%s \"%s\": its factor is %g", what, d.name, d.factor);
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
    declare(g, "loss",
            (ls_declared){
                .name = name, .rows = rows, .factor = factor, .weigh = weigh, .field = field, .loss = true });
}

void ls_loss_scalar(ls_graph *g, const char *name, ls_value value, double factor)
{
    LS_ARG_VOID(g);
    LS_BUILD_ARG(g, name, );
    declare(g, "loss",
            (ls_declared){ .name = name, .rows = value, .factor = factor, .loss = true, .scalar = true });
}

void ls_measure(ls_graph *g, const char *name, ls_value rows, ls_how how, ls_weigh weigh, const char *field)
{
    LS_ARG_VOID(g);
    LS_BUILD_ARG(g, name, );
    declare(
        g, "metric",
        (ls_declared){ .name = name, .rows = rows, .factor = 1, .how = how, .weigh = weigh, .field = field });
}
