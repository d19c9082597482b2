/* objective.c - losses and metrics as operations. The library divides, not the model: the divisor of a step
 * is known only after all ranks have exchanged their counts, and 16-bit gradients must not be divided after
 * they are summed. */
#define LS_NO_CALL_SITES /* nodes made here keep the model's line */
#include "objective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "graph/identity.h"
#include "ops/rules.h"

static const char *word(const ls_declared *d) { return d->loss ? "loss" : "metric"; }

static const ls_node *field_of(const ls_graph *g, const char *name)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_input && ls_source_is(g->nodes[i]).what == LS_IS_NAMED &&
            !strcmp(((const ls_source_attrs *)g->nodes[i]->attrs)->name, name))
            return g->nodes[i];
    return NULL;
}

/* Fills the term of a declaration and checks that its rows and its field are of `batch` samples. */
static void objective_check(ls_graph *g, const ls_declared *d, int64_t batch, ls_term *t)
{
    const ls_type rows = ls_value_type(g, d->rows);
    const int64_t n = ls_type_count(&rows);
    char text[2][128];
    *t = (ls_term){ .factor = d->factor,
                    .weigh = d->weigh,
                    .how = d->how,
                    .kind = d->kind,
                    .classes = d->classes,
                    .loss = d->loss,
                    .scalar = d->scalar,
                    .among = d->among,
                    .columns = rows.ndim > 1 ? rows.dims[1] : 1,
                    .inner = 1,
                    .each = n / batch,
                    .field_each = n / batch };
    for (int i = 2; i < rows.ndim; i++)
        t->inner *= rows.dims[i];
    snprintf(t->name, sizeof t->name, "%s", d->name);
    snprintf(t->field, sizeof t->field, "%s", d->field ? d->field : "");
    if (!ls_dtype_is_float(rows.dtype) || (d->scalar && n != 1)) {
        ls_graph_error(g, LS_E_SHAPE, "%s \"%s\" is %s: it must be %s of a float type", word(d), d->name,
                       ls_type_text(text[0], &rows), d->scalar ? "one number" : "rows");
        return;
    }
    if (d->scalar)
        return;
    if (rows.ndim < 1 || rows.dims[0] % batch) {
        ls_graph_error(
            g, LS_E_SHAPE,
            "%s \"%s\": rows are %s, but their first dimension must be a multiple of the batch, %lld",
            word(d), d->name, ls_type_text(text[0], &rows), (long long)batch);
        return;
    }
    if (!d->field)
        return;
    const ls_node *field = field_of(g, d->field);
    if (!field) {
        ls_graph_error(g, LS_E_ARG, "%s \"%s\": the model has no input \"%s\"", word(d), d->name, d->field);
        return;
    }
    const ls_type *f = ls_type_of(g, field->out[0]);
    const bool valid = d->weigh == LS_BY_VALID, fits = ls_type_count(f) == n && f->dims[0] == rows.dims[0];
    const bool by_sample = !valid && f->ndim == 1 && f->dims[0] == batch,
               same = f->ndim >= 1 && f->dims[0] == batch && ls_type_count(f) == n;
    if ((valid ? f->dtype != LS_I32 : !ls_dtype_is_float(f->dtype)) || !(fits || by_sample || same)) {
        ls_graph_error(g, LS_E_SHAPE, "%s \"%s\": input \"%s\" is %s: it must be %s for the rows %s", word(d),
                       d->name, d->field, ls_type_text(text[0], f),
                       valid ? "i32, an entry for each row," : "float, [batch] or an entry for each row,",
                       ls_type_text(text[1], &rows));
        return;
    }
    t->field_each = ls_type_count(f) / batch;
}

/* The field, reshaped to weights of the rows. */
static ls_value weights(ls_graph *g, const ls_term *t, const ls_type *rows, int64_t batch)
{
    if (!t->field[0] || t->weigh == LS_OVER_FIELD)
        return LS_NONE;
    ls_value w = field_of(g, t->field)->out[0];
    if (t->field_each != t->each) { /* one for each sample */
        w = ls_reshape_dims(g, w, 2, (int64_t[]){ batch, 1 });
        w = ls_broadcast_dims(g, w, 2, (int64_t[]){ batch, t->each });
    }
    return ls_reshape_dims(g, w, rows->ndim, rows->dims);
}

/* One input for all losses. */
ls_value ls_objective_real(ls_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_input && ls_source_is(g->nodes[i]).what == LS_IS_REAL)
            return g->nodes[i]->out[0];
    return ls_input_of(g, (ls_identity){ .what = LS_IS_REAL }, "", LS_SCALAR(LS_I32));
}

/* Sum of the loss's rows / its divisor. */
static ls_value part(ls_graph *g, const ls_declared *d, const ls_term *t, int number, int64_t batch)
{
    const ls_type rows = ls_value_type(g, d->rows);
    const ls_node *made = ls_node_of(g, d->rows);
    const ls_value divisor = ls_input_of(g, (ls_identity){ .what = LS_IS_DIVISOR, .unit = number }, d->name,
                                         LS_SCALAR(LS_F32));
    if (d->scalar) {
        ls_wide_begin(g);
        const ls_value one = ls_div(g, ls_reshape_dims(g, d->rows, 0, NULL), divisor);
        ls_wide_end(g);
        return one;
    }
    /* cross-entropy adds its own rows, where its own labels say which ones count */
    if (made->op == &ls_op_cross_entropy && ls_val_of(g, d->rows)->out == 2 && t->weigh == LS_BY_VALID) {
        const ls_node *labels = ls_node_of(g, made->in[1]);
        while (labels->op == &ls_op_reshape)
            labels = ls_node_of(g, labels->in[0]);
        if (labels == field_of(g, t->field))
            return ls_cross_entropy_sum(g, made->in[0], made->in[1], divisor, made->attrs);
    }
    return ls_row_sum(g, d->rows, weights(g, t, &rows, batch), ls_objective_real(g), divisor,
                      rows.dims[0] / batch);
}

static void train(ls_graph *g, const ls_objective *o, const ls_declared *const *from, int64_t batch)
{
    ls_value total = LS_NONE;
    ls_value *parts = LS_ARENA_ARRAY(&g->arena, ls_value, o->n_losses);
    if (!ls_graph_room(g))
        return;
    for (int i = 0; i < o->n_losses; i++) {
        const ls_term *t = &o->terms[i];
        g->file = from[i]->file;
        g->line = from[i]->line;
        parts[i] = part(g, from[i], t, i, batch);
        ls_wide_begin(g);
        const ls_value scaled = t->factor == 1 ? parts[i] : ls_mul_const(g, parts[i], t->factor);
        total = i ? ls_add(g, total, scaled) : scaled;
        ls_wide_end(g);
    }
    ls_output_of(g, (ls_identity){ .what = LS_IS_LOSS }, "loss", total);
    for (int i = 0; i < o->n_losses && o->n_losses > 1; i++)
        ls_output_of(g, (ls_identity){ .what = LS_IS_LOSS, .unit = 1 + i }, o->terms[i].name, parts[i]);
}

ls_status ls_objective_lower(ls_objective *out, ls_graph *g, int64_t batch, bool training)
{
    *out = (ls_objective){ 0 };
    const ls_declared **from = LS_ARENA_ARRAY(&g->arena, const ls_declared *, g->n_declared + 1);
    LS_TRY(ls_graph_status(g));
    for (int i = 0; i < g->n_declared; i++)
        out->n_losses += g->declared[i].loss;
    if (!out->n_losses)
        return ls_fail(LS_E_ARG, "the model declares no loss: it must call ls_loss, or ls_loss_scalar");
    out->terms = ls_sys_calloc((size_t)g->n_declared, sizeof *out->terms);
    LS_TRY(ls_sys_have(out->terms));
    for (int losses = 1; losses >= 0; losses--)
        for (int i = 0; i < g->n_declared; i++)
            if (g->declared[i].loss == losses) {
                from[out->n] = &g->declared[i];
                g->file = from[out->n]->file;
                g->line = from[out->n]->line;
                objective_check(g, from[out->n], batch, &out->terms[out->n]);
                out->n++;
            }
    if (training && g->status == LS_OK)
        train(g, out, from, batch);
    for (int i = 0; i < out->n && !training && g->status == LS_OK; i++) {
        const ls_term *t = &out->terms[i];
        if (ls_term_has_rows(t))
            ls_output_of(g, (ls_identity){ .what = LS_IS_ROWS, .unit = i }, t->name, from[i]->rows);
        if (ls_term_has_targets(t))
            ls_output_of(g, (ls_identity){ .what = LS_IS_TARGETS, .unit = i }, t->name, from[i]->targets);
    }
    g->file = NULL;
    const ls_status s = ls_graph_status(g);
    if (s != LS_OK)
        ls_objective_release(out);
    return s;
}

int ls_term_direction(const ls_term *t)
{
    switch (t->kind) {
    case LS_ACCURACY:
    case LS_F1:
    case LS_R2:
    case LS_AUC: return 1;
    case LS_RMSE:
    case LS_MAE:
    case LS_PERPLEXITY:
    case LS_AUC_BOUND: return -1;
    default: return t->loss ? -1 : 0;
    }
}

void ls_objective_release(ls_objective *o)
{
    free(o->terms);
    *o = (ls_objective){ 0 };
}
