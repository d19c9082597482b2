/* recipe_balance.c - the keys class_weights of a loss, train.label_smoothing and data.sampler. */
#include <stdio.h>
#include <string.h>

#include "data_row.h"
#include "model_row.h"
#include "recipe_fields.h"
#include "recipe_setting.h"
#include "shared_model.h"

static bool is_classifier(const ls_recipe *r)
{
    return ls_recipe_samples(r) == LS_SAMPLES_IMAGES && !r->model.outputs.n;
}

/* The model is a module's that is not built yet. */
static bool unknown_model(const ls_recipe *r)
{
    const ls_shared_model *m = ls_recipe_shared_model(r);
    return !strcmp(r->model.type, "module") && !(m && m->built);
}

/* The output that a loss is of, of one sample; NULL: it is not known. */
static const ls_type *output_of(const ls_recipe *r, const ls_task_loss *l, ls_type *room)
{
    for (int i = 0; i < r->model.outputs.n; i++)
        if (!strcmp(r->model.outputs.at[i].name, l->of))
            return &r->model.outputs.at[i].type;
    return ls_shared_model_output(r, l->of, room);
}

const char *ls_recipe_loss_field(const ls_recipe *r, const ls_task_loss *l)
{
    return is_classifier(r) ? "labels" : l->target ? l->target : l->of;
}

int64_t ls_recipe_loss_classes(const ls_recipe *r, const ls_task_loss *l)
{
    ls_type room;
    const ls_type *t = is_classifier(r) ? NULL : output_of(r, l, &room);
    return is_classifier(r) ? r->model.classes : t && t->ndim ? t->dims[t->ndim - 1] : 0;
}

/* The one loss of cross-entropy; NULL: there is none, or there are several. */
static const ls_task_loss *one_of_classes(const ls_recipe *r)
{
    const ls_task_loss *of = NULL;
    for (int i = 0; i < r->loss.n; i++)
        if (r->loss.at[i].kind == LS_LOSS_CROSS_ENTROPY) {
            if (of)
                return NULL;
            of = &r->loss.at[i];
        }
    return of;
}

const char *ls_recipe_classes_field(const ls_recipe *r, int64_t *classes)
{
    const ls_task_loss *of = is_classifier(r) ? &r->loss.at[0] : one_of_classes(r);
    *classes = of ? ls_recipe_loss_classes(r, of) : 0;
    return *classes ? ls_recipe_loss_field(r, of) : NULL;
}

const char *ls_recipe_draw_field(const ls_recipe *r)
{
    static const char WEIGHTS[] = "weights:";
    return strncmp(r->data.sampler, WEIGHTS, sizeof WEIGHTS - 1) ? NULL
                                                                 : r->data.sampler + sizeof WEIGHTS - 1;
}

static int64_t count_words(const char *words)
{
    int64_t n = *words != 0;
    for (const char *p = words; *p; p++)
        n += *p == ' ';
    return n;
}

bool ls_recipe_class_weights(const ls_recipe *r, int i, double *weights)
{
    if (!strcmp(r->loss.class_weights[i], "balanced"))
        return false;
    char word[64];
    int used = 0;
    for (const char *at = r->loss.class_weights[i]; sscanf(at, "%63s%n", word, &used) == 1; at += used)
        ls_key_parse_real(word, weights++);
    return true;
}

static ls_status check_class_weights(const ls_recipe *r, int i)
{
    const char *where = ls_recipe_where(r, "loss"), *words = r->loss.class_weights[i];
    const ls_task_loss *l = &r->loss.at[i];
    const int64_t classes = ls_recipe_loss_classes(r, l);
    if (ls_recipe_mixes(r))
        return ls_fail(
            LS_E_USAGE,
            "%s: class_weights: mixup and cutmix mix two classes in a sample, so it has no class whose "
            "weight it could have: leave one of the two out",
            where);
    if (l->weight)
        return ls_fail(
            LS_E_USAGE,
            "%s: class_weights: the loss has a `weight` of samples, too: multiply the weights of classes "
            "into that field, and leave class_weights out",
            where);
    for (int k = 0; k < i; k++)
        if (r->loss.class_weights[k] &&
            !strcmp(ls_recipe_loss_field(r, l), ls_recipe_loss_field(r, &r->loss.at[k])))
            return ls_fail(LS_E_USAGE,
                           "%s: two losses have class_weights for the field %s: a target has one weight; "
                           "leave out one of the two",
                           where, ls_recipe_loss_field(r, l));
    if (!classes)
        return unknown_model(r)
                   ? LS_OK
                   : ls_fail(LS_E_USAGE, "%s: class_weights: output %s has no classes", where, l->of);
    if (strcmp(words, "balanced") && count_words(words) != classes)
        return ls_fail(LS_E_USAGE, "%s: class_weights: %lld numbers for %lld classes: give one for each",
                       where, (long long)count_words(words), (long long)classes);
    return LS_OK;
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
    if (unknown_model(r))
        return LS_OK;
    const ls_task_loss *l = one_of_classes(r);
    ls_type room;
    const ls_type *t = l && !is_classifier(r) ? output_of(r, l, &room) : NULL;
    of = t && t->ndim > 1 ? NULL : ls_recipe_classes_field(r, &classes); /* pixels are not of a sample */
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
    for (int i = 0; i < r->loss.n; i++)
        if (r->loss.class_weights[i])
            LS_TRY(check_class_weights(r, i));
    return strcmp(r->data.sampler, "uniform") ? check_sampler(r) : LS_OK;
}
