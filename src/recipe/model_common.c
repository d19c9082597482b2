/* model_common.c - functions for the rows of several models. */
#include "model_row.h"

#include <math.h>
#include <stdio.h>

#include <string.h>

#include "base/c_locale.h"
#include "base/str.h"
#include "recipe_fields.h"
#include "recipe_setting.h"

int64_t ls_recipe_head_dim(const ls_recipe *r)
{
    return r->model.head_dim ? r->model.head_dim : r->model.hidden_size / r->model.heads;
}

ls_status ls_recipe_check_heads(const ls_recipe *r, bool has_head_dim)
{
    if (r->model.head_dim || r->model.hidden_size % r->model.heads == 0)
        return LS_OK;
    return ls_fail(LS_E_USAGE, "%s: %lld heads do not divide hidden_size %lld%s",
                   ls_recipe_where_either(r, "model.heads", "model.hidden_size"), (long long)r->model.heads,
                   (long long)r->model.hidden_size, has_head_dim ? "; or set model.head_dim" : "");
}

void ls_config_real(ls_json *j, const char *key, double x)
{
    char text[32];
    ls_snprintf(text, sizeof text, "%.1f", x);
    if (x == floor(x) && x < 1e6)
        ls_json_raw(j, key, text);
    else
        ls_json_f64(j, key, x);
}

bool ls_recipe_weighs_classes(const ls_recipe *r)
{
    for (int i = 0; i < r->loss.n; i++)
        if (r->loss.class_weights[i])
            return true;
    return false;
}

ls_loss_list ls_recipe_losses(const ls_recipe *r, ls_recipe_losses_own *own)
{
    ls_loss_list losses = r->loss;
    for (int i = 0; i < losses.n; i++) {
        ls_task_loss *l = &losses.at[i];
        if (losses.class_weights[i]) {
            snprintf(own->class_weights[i], sizeof own->class_weights[i], "%s" LS_CLASS_WEIGHT,
                     l->target ? l->target : l->of);
            l->class_weight = own->class_weights[i];
        }
        if (l->kind == LS_LOSS_CROSS_ENTROPY)
            l->label_smoothing = r->train.label_smoothing;
        if (l->kind == LS_LOSS_CROSS_ENTROPY || r->data.missing != LS_MISSING_MASK)
            continue;
        snprintf(own->masks[i], sizeof own->masks[i], "%s.valid", l->target ? l->target : l->of);
        l->mask = own->masks[i];
    }
    return losses;
}

static const ls_port *find_port(const ls_port_list *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->at[i].name, name))
            return &l->at[i];
    return NULL;
}

static ls_status no_output(const ls_recipe *r, const char *of)
{
    const char *names[LS_RECIPE_LIST];
    for (int i = 0; i < r->model.outputs.n; i++)
        names[i] = r->model.outputs.at[i].name;
    const char *near = ls_nearest_name(of, names, r->model.outputs.n);
    return ls_fail(LS_E_USAGE, "%s: of: model.outputs has no '%s'; did you mean '%s'?",
                   ls_recipe_where(r, "loss"), of, near ? near : names[0]);
}

/* Two uses of one field must agree, and those of a target are of its output's shape. */
static ls_status check_loss(const ls_recipe *r, const ls_task_loss *l)
{
    const char *where = ls_recipe_where(r, "loss"), *target = l->target ? l->target : l->of;
    const ls_port *p = find_port(&r->model.outputs, l->of), *input = find_port(&r->model.inputs, target);
    const bool labels = l->kind == LS_LOSS_CROSS_ENTROPY;
    if (l->kind == LS_LOSS_IN_BATCH)
        return ls_fail(LS_E_USAGE,
                       "%s: in_batch_negatives is for pairs of texts with model.type bert or roberta", where);
    if (!*l->of)
        return ls_fail(LS_E_USAGE, "%s: " LS_LOSS_NEEDS, where);
    if (!p && r->model.outputs.n)
        return no_output(r, l->of);
    if (p && labels && (!p->type.ndim || p->type.dims[p->type.ndim - 1] < 2))
        return ls_fail(
            LS_E_USAGE,
            "%s: cross_entropy needs at least 2 classes in the last dimension of output %s; for yes or no "
            "use bce",
            where, l->of);
    if (p && input && (labels || !ls_type_equal(&input->type, &p->type)))
        return ls_fail(LS_E_USAGE, "%s: field %s is an input of another shape or type than output %s", where,
                       target, l->of);
    if (l->weight && l->mask)
        return ls_fail(LS_E_USAGE,
                       "%s: weight and mask are both set; multiply them into one field and "
                       "set mask alone",
                       where);
    if (labels && l->mask)
        return ls_fail(LS_E_USAGE,
                       "%s: cross_entropy takes no mask; give the label -100 to what must not "
                       "count",
                       where);
    if ((l->weight && !strcmp(l->weight, target)) || (l->mask && !strcmp(l->mask, target)))
        return ls_fail(LS_E_USAGE, "%s: field %s is both the target and its weight", where, target);
    if (r->data.missing == LS_MISSING_MASK && !labels && (l->weight || l->mask || input))
        return ls_fail(
            LS_E_USAGE,
            "%s: data.missing mask makes the mask of %s itself: leave weight and mask out, and name "
            "a target that is not an input",
            ls_recipe_where_either(r, "data.missing", "loss"), target);
    return LS_OK;
}

/* The one loss of a classifier of pictures. */
static ls_status check_classifier(const ls_recipe *r, const ls_task_loss *l)
{
    if (!*l->of && !l->target && !l->weight && !l->mask && l->factor == 1)
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "%s: the cross_entropy of a classifier of pictures is of its classes: it takes "
                   "`class_weights` and nothing else, as in {type: cross_entropy, class_weights: balanced}",
                   ls_recipe_where(r, "loss"));
}

ls_status ls_recipe_check_numbers(const ls_recipe *r)
{
    const ls_port_list *outputs = &r->model.outputs;
    if (!outputs->n && !r->loss.n)
        return LS_OK;
    if (!outputs->n && r->loss.n == 1 && r->loss.at[0].kind == LS_LOSS_CROSS_ENTROPY)
        return check_classifier(r, &r->loss.at[0]);
    if (!outputs->n || !r->loss.n)
        return ls_fail(LS_E_USAGE,
                       "%s: numbers of pictures need both model.outputs and loss, as in `model: {outputs: "
                       "{age: []}}`, `loss: {type: mse, of: age}`; %s is missing",
                       ls_recipe_where(r, outputs->n ? "model.outputs" : "loss"),
                       outputs->n ? "loss" : "model.outputs");
    for (int i = 0; i < outputs->n; i++)
        if (outputs->at[i].type.ndim)
            return ls_fail(LS_E_USAGE,
                           "%s: %s: an output of %s is one number, []; name several outputs for several "
                           "numbers",
                           ls_recipe_where(r, "model.outputs"), outputs->at[i].name, r->model.type);
    if (strcmp(r->data.type, "images"))
        return ls_fail(LS_E_USAGE,
                       "%s: numbers of pictures are columns of a CSV file: they need data.type images, and "
                       "data.type %s has classes",
                       ls_recipe_where_either(r, "model.outputs", "data.type"), r->data.type);
    if (ls_recipe_mixes(r))
        return ls_fail(LS_E_USAGE,
                       "%s: mixup and cutmix mix the labels of classes, and this model has outputs",
                       ls_recipe_where_either(r, "data.augment.mixup", "data.augment.cutmix"));
    return ls_recipe_check_losses(r);
}

ls_status ls_recipe_check_losses(const ls_recipe *r)
{
    bool floats = false;
    for (int i = 0; i < r->loss.n; i++) {
        LS_TRY(check_loss(r, &r->loss.at[i]));
        floats |= r->loss.at[i].kind != LS_LOSS_CROSS_ENTROPY;
    }
    for (int i = 0; i < r->model.outputs.n && r->loss.n; i++) {
        const char *name = r->model.outputs.at[i].name;
        int k = 0;
        while (k < r->loss.n && strcmp(r->loss.at[k].of, name))
            k++;
        if (k == r->loss.n)
            return ls_fail(LS_E_USAGE,
                           "%s: no loss is of output %s, so it would not be trained: add one, such as {type: "
                           "mse, of: %s}, or leave the output out",
                           ls_recipe_where_either(r, "loss", "model.outputs"), name, name);
    }
    if (r->data.missing == LS_MISSING_MASK && !floats)
        return ls_fail(LS_E_USAGE, "%s: mask has no effect: no loss has a target of floats",
                       ls_recipe_where(r, "data.missing"));
    return LS_OK;
}
