/* recipe_balance.c - the keys train.class_weights, train.label_smoothing and data.sampler. */
#include <stdio.h>
#include <string.h>

#include "data_row.h"
#include "model_row.h"
#include "recipe_fields.h"
#include "recipe_setting.h"

const char *ls_recipe_classes_field(const ls_recipe *r, int64_t *classes)
{
    const ls_task_loss *of = NULL;
    *classes = 0;
    if (ls_recipe_samples(r) == LS_SAMPLES_IMAGES && !r->model.outputs.n) {
        *classes = r->model.classes;
        return "labels";
    }
    for (int i = 0; i < r->loss.n; i++)
        if (r->loss.at[i].kind == LS_LOSS_CROSS_ENTROPY) {
            if (of)
                return NULL;
            of = &r->loss.at[i];
        }
    for (int i = 0; of && i < r->model.outputs.n; i++) {
        const ls_port *p = &r->model.outputs.at[i];
        if (!strcmp(p->name, of->of) && p->type.ndim)
            *classes = p->type.dims[p->type.ndim - 1];
    }
    return !*classes ? NULL : of->target ? of->target : of->of;
}

const char *ls_recipe_draw_field(const ls_recipe *r)
{
    static const char WEIGHTS[] = "weights:";
    return strncmp(r->data.sampler, WEIGHTS, sizeof WEIGHTS - 1) ? NULL
                                                                 : r->data.sampler + sizeof WEIGHTS - 1;
}

bool ls_recipe_class_weights(const ls_recipe *r, double *weights)
{
    if (!strcmp(r->train.class_weights, "balanced"))
        return false;
    int64_t n = 0;
    char word[64];
    int used = 0;
    for (const char *at = r->train.class_weights; sscanf(at, "%63s%n", word, &used) == 1; at += used)
        ls_key_parse_real(word, &weights[n++]);
    return true;
}

/* Each word is a number from 0 on, and there are `classes`, not all 0. */
static ls_status check_numbers(const ls_recipe *r, int64_t classes)
{
    const char *where = ls_recipe_where(r, "train.class_weights");
    int64_t n = 0;
    char word[64];
    int used = 0;
    double sum = 0;
    for (const char *at = r->train.class_weights; sscanf(at, "%63s%n", word, &used) == 1; at += used, n++) {
        double x = 0;
        if (!ls_key_parse_real(word, &x) || !(x >= 0) || x > 1e30)
            return ls_fail(LS_E_USAGE, "%s: '%s': none, balanced, or a number from 0 on for each class",
                           where, word);
        sum += x;
    }
    if (n != classes)
        return ls_fail(LS_E_USAGE, "%s: %lld numbers for %lld classes: give one for each", where,
                       (long long)n, (long long)classes);
    return sum > 0 ? LS_OK : ls_fail(LS_E_USAGE, "%s: all are 0, so nothing would be learnt", where);
}

static ls_status check_class_weights(const ls_recipe *r)
{
    const char *key = "train.class_weights", *where = ls_recipe_where(r, key);
    int64_t classes = 0;
    if (!ls_recipe_classes_field(r, &classes))
        return ls_fail(
            LS_E_USAGE,
            "%s: weights of classes need one loss of type cross_entropy, of an output with classes", where);
    if (r->train.label_smoothing > 0)
        return ls_fail(
            LS_E_USAGE,
            "%s: with label_smoothing a target has parts of all classes, each with a weight of its own, "
            "and this version has one weight for a target: leave one of the two out",
            ls_recipe_where_either(r, key, "train.label_smoothing"));
    if (ls_recipe_mixes(r))
        return ls_fail(
            LS_E_USAGE,
            "%s: mixup and cutmix mix two classes in a sample, so it has no class whose weight it could "
            "have: leave one of the two out",
            where);
    for (int i = 0; i < r->loss.n; i++)
        if (r->loss.at[i].kind == LS_LOSS_CROSS_ENTROPY && r->loss.at[i].weight)
            return ls_fail(
                LS_E_USAGE,
                "%s: the loss has a `weight` of samples, too: multiply the weights of classes into that "
                "field, and leave this out",
                ls_recipe_where_either(r, key, "loss"));
    return strcmp(r->train.class_weights, "balanced") ? check_numbers(r, classes) : LS_OK;
}

static ls_status check_sampler(const ls_recipe *r)
{
    const char *where = ls_recipe_where(r, "data.sampler"), *field = ls_recipe_draw_field(r), *of;
    int64_t classes = 0;
    if (!field && strcmp(r->data.sampler, "balanced") != 0)
        return ls_fail(LS_E_USAGE, "%s: '%s': it is uniform, balanced or weights:FIELD", where,
                       r->data.sampler);
    if (field) {
        for (int i = 0; i < r->data.train.n; i++)
            if (!strcmp(r->data.train.at[i].field, field))
                return LS_OK;
        return ls_fail(
            LS_E_USAGE,
            "%s: data.train has no field '%s': weights of samples are a field of data.type arrays, as in "
            "`data: {train: {%s: weights.npy}}`",
            where, field, *field ? field : "w");
    }
    of = ls_recipe_classes_field(r, &classes);
    for (int i = 0; of && i < r->loss.n; i++) /* classes of pixels or of places are not of a sample */
        for (int k = 0; k < r->model.outputs.n; k++)
            if (r->loss.at[i].kind == LS_LOSS_CROSS_ENTROPY &&
                !strcmp(r->loss.at[i].of, r->model.outputs.at[k].name) &&
                r->model.outputs.at[k].type.ndim > 1)
                of = NULL;
    return of ? LS_OK
              : ls_fail(
                    LS_E_USAGE,
                    "%s: balanced needs one class for each sample: labels of pictures, or one loss of type "
                    "cross_entropy of an output [classes]; by a field of your own: weights:FIELD",
                    where);
}

static ls_status check_smoothing(const ls_recipe *r)
{
    const char *where = ls_recipe_where(r, "train.label_smoothing");
    bool any = ls_recipe_samples(r) == LS_SAMPLES_IMAGES && !r->model.outputs.n;
    for (int i = 0; i < r->loss.n; i++)
        any |= r->loss.at[i].kind == LS_LOSS_CROSS_ENTROPY;
    if (!any && !r->loss.n)
        return ls_fail(
            LS_E_USAGE,
            "%s: the module declares its loss itself: call ls_cross_entropy_smooth in its builder, "
            "or leave the loss to the recipe, as in `loss: {type: cross_entropy, of: logits, target: "
            "labels}`",
            where);
    return any ? LS_OK : ls_fail(LS_E_USAGE, "%s: no effect: no loss is of type cross_entropy", where);
}

ls_status ls_recipe_check_balance(const ls_recipe *r)
{
    if (r->train.label_smoothing > 0)
        LS_TRY(check_smoothing(r));
    if (ls_recipe_weighs_classes(r))
        LS_TRY(check_class_weights(r));
    return strcmp(r->data.sampler, "uniform") ? check_sampler(r) : LS_OK;
}
