/* module_data.c - the samples of a module's model: those that the module makes, and the types of the fields
 * that its model reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "ops/rules.h"
#include "recipe_setting.h"
#include "shared_model.h"

/* ---- fields */

ls_module_field ls_shared_model_field(const ls_recipe *r, const char *name)
{
    const ls_shared_model *m = r->state->module;
    const ls_graph *g = m ? m->built : NULL;
    ls_module_field f = { .type = LS_F32 };
    for (int i = 0; g && i < g->n_nodes && !f.read; i++)
        if (g->nodes[i]->op == &ls_op_input &&
            !strcmp(((const ls_source_attrs *)g->nodes[i]->attrs)->name, name)) {
            f.read = true;
            f.type = ls_type_of(g, g->nodes[i]->out[0])->dtype;
        }
    for (int i = 0; f.read && i < g->n_declared; i++)
        if (g->declared[i].field && !strcmp(g->declared[i].field, name)) {
            f.valid |= g->declared[i].weigh == LS_BY_VALID;
            f.weight |= g->declared[i].weigh >= LS_BY_FIELD;
        }
    return f;
}

const ls_type *ls_shared_model_output(const ls_recipe *r, const char *name, ls_type *room)
{
    const ls_shared_model *m = r->state->module;
    const ls_graph *g = m ? m->built : NULL;
    for (int i = 0; g && i < g->n_outputs; i++) {
        const ls_type *t = ls_type_of(g, g->outputs[i].value);
        if (strcmp(g->outputs[i].name, name) || t->ndim < 1 || t->dims[0] != m->samples)
            continue;
        *room = (ls_type){ .dtype = t->dtype, .ndim = t->ndim - 1 };
        memcpy(room->dims, t->dims + 1, sizeof *t->dims * (size_t)room->ndim);
        return room;
    }
    return NULL;
}

/* ---- the module's own data */

/* A data set of a module, with a note around each call into it. Each function gets the module's own set. */
typedef struct guarded_set {
    ls_dataset set;
    ls_dataset *theirs;
    char reading[512], changing[512], mixing[512], counting[512], naming[512], closing[512];
} guarded_set;

static ls_status read_theirs(const ls_dataset *set, int64_t i, void *const *to)
{
    const guarded_set *g = (const guarded_set *)set;
    ls_shared_model_inside(g->reading);
    const ls_status s = g->theirs->read(g->theirs, i, to);
    ls_shared_model_inside(NULL);
    return s;
}

static ls_status read_theirs_drawn(const ls_dataset *set, int64_t i, uint64_t draw, void *const *to)
{
    const guarded_set *g = (const guarded_set *)set;
    ls_shared_model_inside(g->changing);
    const ls_status s = g->theirs->read_drawn(g->theirs, i, draw, to);
    ls_shared_model_inside(NULL);
    return s;
}

static void mix_theirs(const ls_dataset *set, uint64_t draw, int64_t rows, void *const *to)
{
    const guarded_set *g = (const guarded_set *)set;
    ls_shared_model_inside(g->mixing);
    g->theirs->mix(g->theirs, draw, rows, to);
    ls_shared_model_inside(NULL);
}

static char *file_of_theirs(const ls_dataset *set, int64_t i)
{
    const guarded_set *g = (const guarded_set *)set;
    ls_shared_model_inside(g->naming);
    char *name = g->theirs->file(g->theirs, i);
    ls_shared_model_inside(NULL);
    return name;
}

static int64_t count_theirs(const ls_dataset *set, int64_t i, int k)
{
    const guarded_set *g = (const guarded_set *)set;
    ls_shared_model_inside(g->counting);
    const int64_t n = g->theirs->count(g->theirs, i, k);
    ls_shared_model_inside(NULL);
    return n;
}

static void close_theirs(ls_dataset *set)
{
    guarded_set *g = (guarded_set *)set;
    ls_shared_model_inside(g->closing);
    if (g->theirs->close)
        g->theirs->close(g->theirs);
    ls_shared_model_inside(NULL);
    free(g);
}

/* *set, the module's, becomes one that calls it. */
static ls_status guard(ls_dataset **set, const char *label)
{
    guarded_set *g = ls_sys_calloc(1, sizeof *g);
    LS_TRY(ls_sys_have(g));
    g->set = **set;
    g->set.read = read_theirs;
    g->set.read_drawn = (*set)->read_drawn ? read_theirs_drawn : NULL;
    g->set.mix = (*set)->mix ? mix_theirs : NULL;
    g->set.count = (*set)->count ? count_theirs : NULL;
    g->set.file = (*set)->file ? file_of_theirs : NULL;
    g->set.close = close_theirs;
    g->theirs = *set;
    snprintf(g->reading, sizeof g->reading, "%s: read", label);
    snprintf(g->changing, sizeof g->changing, "%s: read_drawn", label);
    snprintf(g->mixing, sizeof g->mixing, "%s: mix", label);
    snprintf(g->naming, sizeof g->naming, "%s: file", label);
    snprintf(g->counting, sizeof g->counting, "%s: count", label);
    snprintf(g->closing, sizeof g->closing, "%s: close of its data", label);
    *set = &g->set;
    return LS_OK;
}

static ls_status check_set(const ls_recipe *r, const ls_shared_model *m, const ls_dataset *d, ls_split split)
{
    const char *wrong = !d                              ? "gives no data set"
                        : !d->name || !d->source        ? "name and source must be set"
                        : d->n < 1                      ? "n must be at least 1"
                        : d->n_fields < 1 || !d->fields ? "it has no fields"
                        : !d->read                      ? "read must be set"
                        : d->split != split             ? "it is not the split that was requested"
                                                        : NULL;
    for (int i = 0; !wrong && i < d->n_fields; i++)
        wrong = !d->fields[i].name || !*d->fields[i].name ? "a field has no name" : NULL;
    return wrong ? ls_fail(LS_E_USAGE, "%s: %s: data: %s", ls_recipe_where(r, "data.type"), m->label, wrong)
                 : LS_OK;
}

ls_status ls_shared_model_data(ls_dataset **out, const ls_recipe *r, ls_split split)
{
    ls_shared_model *m = r->state->module;
    char what[512];
    *out = NULL;
    if (!m || !m->table->data)
        return ls_fail(LS_E_USAGE, "%s: %s has no data: name another data.type",
                       ls_recipe_where(r, "data.type"), m ? m->label : r->model.path);
    LS_TRY(ls_shared_model_read_data_keys(m, r));
    snprintf(what, sizeof what, "%s: data", m->label);
    ls_shared_model_inside(what);
    ls_status s = m->table->data(out, m->self, split, m->data_settings);
    ls_shared_model_inside(NULL);
    s = s == LS_OK ? check_set(r, m, *out, split)
                   : ls_fail_in(s, "%s: %s", ls_recipe_where(r, "data.type"), m->label);
    if (s == LS_OK)
        s = guard(out, m->label);
    if (s != LS_OK && *out && (*out)->close)
        ls_dataset_close(out);
    return s;
}
