/* task.c - a multi-layer perceptron from named fields to named outputs, with the losses that a recipe names.
 * A loss divides by all elements that count, as PyTorch's with reduction="mean". */
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "base/str.h"
#include "graph/graph.h"
#include "lockstep/models.h"
#include "mlp_layers.h"
#include "ops/rules.h"
#include "task.h"

/* A field that the graph has as an input, with its scaling. */
typedef struct source {
    const char *name;
    ls_value value;
    ls_scaling scaling;
    bool scaled;
} source;

enum { MOST = 64 }; /* fields */

typedef struct builder {
    ls_graph *g;
    const ls_task_config *c;
    int64_t batch;
    int n;
    source sources[MOST];
} builder;

static bool is_scaled(ls_loss_kind k) { return k == LS_LOSS_MSE || k == LS_LOSS_MAE || k == LS_LOSS_HUBER; }

static ls_type of_batch(int64_t batch, const ls_type *sample)
{
    ls_type t = { .dtype = sample->dtype, .ndim = sample->ndim + 1, .dims = { batch } };
    memcpy(t.dims + 1, sample->dims, sizeof *t.dims * (size_t)sample->ndim);
    return t;
}

/* The input of that name. A field may be several things: an input and, of an autoencoder, the target. */
static source *source_of(builder *b, const char *name, const ls_type *sample)
{
    for (int i = 0; i < b->n; i++)
        if (!strcmp(b->sources[i].name, name)) {
            const ls_type have = ls_value_type(b->g, b->sources[i].value), want = of_batch(b->batch, sample);
            if (!ls_type_equal(&have, &want) && b->sources[i].value.id > 0)
                ls_graph_error(b->g, LS_E_SHAPE, "field \"%s\" is used with two types", name);
            return &b->sources[i];
        }
    if (b->n == MOST) {
        ls_graph_error(b->g, LS_E_UNSUPPORTED, "more than %d fields", MOST);
        return &b->sources[0];
    }
    b->sources[b->n] = (source){ .name = name, .value = ls_input(b->g, name, of_batch(b->batch, sample)) };
    return &b->sources[b->n++];
}

static ls_scaling scaling_of(builder *b, source *s, const ls_type *sample)
{
    if (!s->scaled)
        s->scaling = ls_scaling_of(b->g, s->name, sample->ndim ? sample->dims[sample->ndim - 1] : 1);
    s->scaled = true;
    return s->scaling;
}

static ls_value inputs(builder *b)
{
    ls_value parts[MOST];
    for (int i = 0; i < b->c->n_inputs; i++) {
        const ls_port *p = &b->c->inputs[i];
        source *s = source_of(b, p->name, &p->type);
        ls_value x = s->value;
        if (b->c->scale)
            x = ls_scale(b->g, scaling_of(b, s, &p->type), x);
        parts[i] = ls_reshape(b->g, x, b->batch, -1);
    }
    return b->c->n_inputs == 1 ? parts[0] : ls_concat(b->g, 1, b->c->n_inputs, parts);
}

static const ls_port *port(const ls_port *ports, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(ports[i].name, name))
            return &ports[i];
    return NULL;
}

/* "mse", or of several losses "mse_NAME" */
static const char *term_name(char out[160], const builder *b, const char *what, const char *of)
{
    snprintf(out, 160, b->c->n_losses > 1 ? "%s_%s" : "%s", what, of);
    return out;
}

/* What rows of a loss or a metric are weighed by. With a weight for each sample they become their mean over
 * the sample, so that a sample counts by its weight and not by its size. */
typedef struct weighing {
    ls_weigh how;
    const char *field;
    bool by_sample;
} weighing;

static weighing weighing_of(builder *b, const ls_task_loss *l, const char *target, const ls_type *sample)
{
    ls_type mask = { .dtype = LS_F32, .ndim = sample->ndim };
    memcpy(mask.dims, sample->dims, sizeof mask.dims);
    if (l->class_weight)
        source_of(b, l->class_weight, &mask);
    if (l->weight)
        source_of(b, l->weight, &LS_SCALAR(LS_F32));
    else if (l->mask)
        source_of(b, l->mask, &mask);
    else
        return l->kind == LS_LOSS_CROSS_ENTROPY ? (weighing){ LS_BY_VALID, target, false }
                                                : (weighing){ LS_BY_ELEMENT, NULL, false };
    return (weighing){ LS_BY_FIELD, l->weight ? l->weight : l->mask, l->weight != NULL };
}

static ls_value weighed(builder *b, ls_value rows, const weighing *w)
{
    if (!w->by_sample)
        return rows;
    ls_wide_begin(b->g);
    rows = ls_mean(b->g, ls_reshape(b->g, rows, b->batch, -1), 1, false);
    ls_wide_end(b->g);
    return rows;
}

static void measure(builder *b, const ls_task_loss *l, ls_metric_kind kind, const char *what, ls_value there,
                    ls_value target, const weighing *w)
{
    char name[160];
    ls_measure_against(b->g, term_name(name, b, what, l->of), kind, there, target, w->how, w->field);
}

/* The metrics of an output in the data's own units. */
static void measure_all(builder *b, const ls_task_loss *l, ls_value there, ls_value target, const weighing *w)
{
    const ls_type t = ls_value_type(b->g, there);
    if (l->kind == LS_LOSS_CROSS_ENTROPY) {
        there = ls_reshape(b->g, there, -1, t.ndim ? t.dims[t.ndim - 1] : 1);
        measure(b, l, LS_ACCURACY, "accuracy", there, ls_reshape(b->g, target, -1), w);
    } else if (l->kind == LS_LOSS_BCE) {
        measure(b, l, LS_ACCURACY, "accuracy", there, target, w);
    } else {
        measure(b, l, LS_RMSE, "rmse", there, target, w);
        measure(b, l, LS_MAE, "mae", there, target, w);
        measure(b, l, LS_R2, "r2", there, target, w);
    }
}

/* The first loss of an output. Its kind decides the scale of the output and the metrics. */
static const ls_task_loss *loss_of(const ls_task_config *c, const char *output)
{
    for (int i = 0; i < c->n_losses; i++)
        if (!strcmp(c->losses[i].of, output))
            return &c->losses[i];
    return NULL;
}

/* The rows of ls_loss_rows, with label smoothing. */
static ls_value smooth_rows(ls_graph *g, ls_value logits, ls_value labels, double smoothing)
{
    const ls_type t = ls_value_type(g, logits);
    const int64_t classes = t.ndim ? t.dims[t.ndim - 1] : 1;
    ls_wide_begin(g);
    const ls_value rows = ls_cross_entropy_smooth(g, ls_reshape(g, logits, -1, classes),
                                                  ls_reshape(g, labels, -1), smoothing);
    ls_wide_end(g);
    return rows;
}

/* With smoothing e a row is
 *     (1 - e) w[label] (-log p[label]) + e / classes * sum of w[c] (-log p[c])
 * and 0 where the label does not count. The divisor is the sum of w[label]. */
void ls_smooth_weighted_loss(ls_graph *g, const char *name, double factor, ls_value logits, ls_value labels,
                             ls_value rows, ls_value weight, const char *field, double smoothing)
{
    const ls_type t = ls_value_type(g, logits);
    const int64_t classes = t.ndim > 1 ? t.dims[t.ndim - 1] : 1, batch = t.ndim > 1 ? t.dims[0] : 1;
    if (!(smoothing > 0)) {
        ls_loss(g, name, rows, factor, LS_BY_FIELD, field);
        return;
    }
    const ls_value all = ls_input(g, ls_arena_printf(&g->arena, "%ss", field),
                                  LS_TYPE(LS_F32, batch, classes)),
                   flat = ls_reshape(g, labels, -1),
                   own = ls_cross_entropy(g, ls_reshape(g, logits, -1, classes), flat);
    ls_wide_begin(g);
    const ls_value each = ls_log_softmax(g, ls_reshape(g, logits, batch, -1, classes)),
                   spread = ls_sum(g, ls_mul(g, each, ls_reshape(g, all, batch, 1, classes)), 2, false),
                   counts = ls_clamp(g, ls_add_const(g, ls_cast(g, flat, LS_F32), 1), 0, 1),
                   smoothed = ls_sub(
                       g, ls_mul_const(g, ls_mul(g, ls_reshape(g, weight, -1), own), 1 - smoothing),
                       ls_mul_const(g, ls_mul(g, counts, ls_reshape(g, spread, -1)),
                                    smoothing / (double)classes));
    ls_wide_end(g);
    ls_loss(g, name, smoothed, factor, LS_OVER_FIELD, field);
}

/* Declares the loss l of `output`, which is scaled if `scale`, and its metrics. */
static void declare(builder *b, const ls_task_loss *l, ls_value output, bool scale)
{
    /* "mae" is the metric, in the data's own units */
    static const char *const NAMES[] = { [LS_LOSS_MSE] = "mse",
                                         [LS_LOSS_MAE] = "l1",
                                         [LS_LOSS_HUBER] = "huber",
                                         [LS_LOSS_BCE] = "bce",
                                         [LS_LOSS_CROSS_ENTROPY] = "cross_entropy" };
    ls_graph *g = b->g;
    const ls_port *p = port(b->c->outputs, b->c->n_outputs, l->of);
    const bool labels = l->kind == LS_LOSS_CROSS_ENTROPY;
    ls_type sample = p->type;
    sample.dtype = labels ? LS_I32 : LS_F32;
    sample.ndim -= labels && sample.ndim;
    source *target = source_of(b, l->target ? l->target : l->of, &sample);
    const weighing w = weighing_of(b, l, target->name, &sample);
    const ls_scaling s = scale ? scaling_of(b, target, &p->type) : (ls_scaling){ LS_NONE, LS_NONE };
    const ls_value t = scale ? ls_scale(g, s, target->value) : target->value,
                   rows = l->label_smoothing > 0 ? smooth_rows(g, output, t, l->label_smoothing)
                                                 : ls_loss_rows(g, l->kind, output, t, l->delta);
    char name[160];
    term_name(name, b, NAMES[l->kind], l->of);
    if (l->class_weight) {
        sample.dtype = LS_F32;
        const source *class_weight = source_of(b, l->class_weight, &sample);
        ls_smooth_weighted_loss(g, name, l->factor, output, t, rows, class_weight->value, l->class_weight,
                                l->label_smoothing);
        ls_measure(g, term_name(name, b, "cross_entropy_unweighted", l->of), rows, LS_MEAN, w.how, w.field);
    } else {
        ls_loss(g, name, weighed(b, rows, &w), l->factor, w.how, w.field);
    }
    if (loss_of(b->c, l->of) == l) /* else the metrics of this output are there */
        measure_all(b, l, scale ? ls_unscale(g, s, output) : output, target->value, &w);
}

static ls_status task_check(const ls_task_config *c)
{
    if (c->n_inputs < 1 || c->n_outputs < 1 || c->n_losses < 1 || c->n_inputs > MOST)
        return ls_fail(LS_E_SHAPE, "%d inputs, %d outputs and %d losses: at least one of each", c->n_inputs,
                       c->n_outputs, c->n_losses);
    for (int i = 0; i < c->n_losses; i++) {
        const ls_task_loss *l = &c->losses[i];
        if (!l->of || !port(c->outputs, c->n_outputs, l->of))
            return ls_fail(LS_E_SHAPE, "a loss is of \"%s\", which is not an output", l->of ? l->of : "");
        if (l->weight && l->mask)
            return ls_fail(LS_E_UNSUPPORTED, "the loss of \"%s\" has a weight and a mask: one of them",
                           l->of);
        if (l->class_weight && (l->kind != LS_LOSS_CROSS_ENTROPY || l->weight || l->mask))
            return ls_fail(LS_E_UNSUPPORTED,
                           "the loss of \"%s\" has weights of classes: they are of cross_entropy, without "
                           "another weight or mask",
                           l->of);
        if (l->label_smoothing > 0 && l->kind != LS_LOSS_CROSS_ENTROPY)
            return ls_fail(LS_E_UNSUPPORTED, "the loss of \"%s\" has label smoothing: it is of cross_entropy",
                           l->of);
    }
    return LS_OK;
}

ls_status ls_task_build(ls_graph *g, const ls_task_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_ARG_ENUM(ls_mlp_activation, c->act, LS_MLP_ACT_ELU);
    for (int i = 0; i < c->n_inputs; i++)
        LS_ARG_DTYPE(c->inputs[i].type.dtype);
    for (int i = 0; i < c->n_outputs; i++)
        LS_ARG_DTYPE(c->outputs[i].type.dtype);
    for (int i = 0; i < c->n_losses; i++)
        LS_ARG_ENUM(ls_loss_kind, c->losses[i].kind, LS_LOSS_CROSS_ENTROPY);
    LS_TRY(task_check(c));
    builder b = { .g = g, .c = c, .batch = batch };
    const ls_value x = ls_mlp_layers(g, inputs(&b), c->n_hidden, c->hidden, c->act, c->dropout);
    for (int i = 0; i < c->n_outputs; i++) {
        const ls_port *p = &c->outputs[i];
        const ls_task_loss *first = loss_of(c, p->name);
        const bool scale = c->scale && first && is_scaled(first->kind);
        char name[128];
        snprintf(name, sizeof name, "head.%s", p->name);
        ls_type type = of_batch(batch, &p->type);
        ls_value y = ls_linear(g, name, x, ls_type_count(&p->type));
        y = ls_reshape_dims(g, y, type.ndim, type.dims);
        for (int k = 0; k < c->n_losses; k++)
            if (!strcmp(c->losses[k].of, p->name))
                declare(&b, &c->losses[k], y, scale && is_scaled(c->losses[k].kind));
        if (scale) {
            type = p->type;
            source *target = source_of(&b, first->target ? first->target : first->of, &type);
            y = ls_unscale(g, scaling_of(&b, target, &type), y);
        }
        ls_output(g, p->name, y);
    }
    return ls_graph_finish(g);
}

/* ---- the losses of a model that has none */

static ls_status no_output(const ls_port *ports, int n, const char *of)
{
    const char *names[MOST];
    ls_str all = { 0 };
    for (int i = 0; i < n; i++) {
        names[i] = ports[i].name;
        ls_str_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = ls_nearest_name(of, names, n);
    const ls_status s = ls_fail(LS_E_USAGE, "of: the model has no output \"%s\"%s%s%s; it has %s", of,
                                near ? ", is it \"" : "", near ? near : "", near ? "\"?" : "",
                                all.len ? ls_str_text(&all) : "none for each sample");
    ls_str_release(&all);
    return s;
}

ls_status ls_task_declare(ls_graph *g, int n, const ls_task_loss *losses, int64_t batch)
{
    ls_port ports[MOST];
    ls_value values[MOST];
    ls_task_config c = { .outputs = ports, .n_losses = n, .losses = losses };
    builder b = { .g = g, .c = &c, .batch = batch };
    LS_TRY(ls_graph_status(g)); /* a model that is not whole lacks outputs */
    for (int i = 0; i < g->n_outputs && c.n_outputs < MOST; i++) {
        const ls_type *t = ls_type_of(g, g->outputs[i].value);
        if (t->ndim < 1 || t->dims[0] != batch)
            continue;
        ls_port *p = &ports[c.n_outputs];
        values[c.n_outputs++] = g->outputs[i].value;
        *p = (ls_port){ .name = g->outputs[i].name, .type = { .dtype = LS_F32, .ndim = t->ndim - 1 } };
        memcpy(p->type.dims, t->dims + 1, sizeof *t->dims * (size_t)p->type.ndim);
    }
    for (int i = 0; i < g->n_nodes && b.n < MOST; i++)
        if (g->nodes[i]->op == &ls_op_input)
            b.sources[b.n++] = (source){ .name = ((const ls_source_attrs *)g->nodes[i]->attrs)->name,
                                         .value = g->nodes[i]->out[0] };
    for (int i = 0; i < n; i++) {
        const ls_port *p = port(ports, c.n_outputs, losses[i].of);
        if (!p)
            return no_output(ports, c.n_outputs, losses[i].of);
        declare(&b, &losses[i], values[p - ports], false);
    }
    return ls_graph_finish(g);
}
