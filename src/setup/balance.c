/* balance.c - the samples of a training: changed at random, with weights of classes, drawn by weights, as the
 * recipe says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "data/augment_set.h"
#include "data/weighted_set.h"
#include "recipe/data_row.h"
#include "recipe/model_row.h"
#include "recipe/recipe_use.h"
#include "setup.h"

/* A class that does not occur has no balanced weight, and so none of its samples counts in an evaluation. */
static ls_status balance(double *weights, int64_t classes, const ls_dataset *train, const char *field)
{
    const ls_field *f = ls_dataset_field(train, field);
    if (!f || f->type.dtype != LS_I32)
        return ls_fail(LS_E_SHAPE, "%s (%s) has no field \"%s\" of classes", train->name, train->source,
                       field);
    int64_t *counts = ls_sys_calloc((size_t)classes, sizeof *counts), absent = 0, first = 0;
    LS_TRY(ls_sys_have(counts));
    const ls_status s = ls_class_counts(train, (int)(f - train->fields), classes, counts);
    if (s == LS_OK)
        ls_class_balance(classes, counts, weights);
    for (int64_t c = classes - 1; c >= 0; c--)
        if (!counts[c]) {
            absent++;
            first = c;
        }
    free(counts);
    if (s == LS_OK && absent == classes)
        return ls_fail(LS_E_NUMERIC, "no target of %s counts, so its classes cannot be balanced",
                       train->source);
    if (s == LS_OK && absent)
        ls_log_warn(
            "loss: class_weights balanced: class %lld%s not occur in the training split and ha%s weight "
            "0: evaluations do not count %s in the loss",
            (long long)first, absent > 1 ? " and others do" : " does", absent > 1 ? "ve" : "s",
            absent > 1 ? "them" : "it");
    return s;
}

/* The weights of loss i. */
static ls_status weigh_classes(ls_dataset **set, int i, const ls_recipe *r, const ls_setup *s, ls_split split,
                               const ls_ui *ui)
{
    const int64_t classes = ls_recipe_loss_classes(r, &r->loss.at[i]);
    const char *field = ls_recipe_loss_field(r, &r->loss.at[i]);
    char name[80 + sizeof LS_CLASS_WEIGHT], all[80 + sizeof LS_CLASS_WEIGHTS];
    double *weights = ls_sys_calloc((size_t)classes, sizeof *weights);
    ls_dataset *train = NULL;
    ls_status status = ls_sys_have(weights);
    if (status == LS_OK && !ls_recipe_class_weights(r, i, weights)) {
        if (split != LS_SPLIT_TRAIN)
            status = ls_setup_data(&train, r, s, LS_SPLIT_TRAIN, ui);
        if (status != LS_OK)
            status = ls_fail_in(status, "loss: class_weights balanced counts the training split");
        else
            status = balance(weights, classes, train ? train : *set, field);
        ls_dataset_close(&train);
    }
    snprintf(name, sizeof name, "%s" LS_CLASS_WEIGHT, field);
    snprintf(all, sizeof all, "%s" LS_CLASS_WEIGHTS, field);
    if (status == LS_OK)
        status = ls_weighted_open(set, field, name, r->train.label_smoothing > 0 ? all : NULL, classes,
                                  weights);
    free(weights);
    return status;
}

ls_status ls_setup_balance(ls_dataset **set, const ls_recipe *r, const ls_setup *s, ls_split split,
                           const ls_ui *ui)
{
    int64_t classes = 0;
    ls_status status = LS_OK;
    for (int i = 0; i < r->loss.n && status == LS_OK; i++)
        if (r->loss.class_weights[i])
            status = weigh_classes(set, i, r, s, split, ui);
    if (status == LS_OK && split == LS_SPLIT_TRAIN && strcmp(r->data.sampler, "uniform") != 0) {
        const char *field = ls_recipe_draw_field(r);
        status = ls_draws_open(set, field ? field : ls_recipe_classes_field(r, &classes), !field);
        if (status != LS_OK)
            status = ls_fail_in(status, "%s", ls_recipe_where(r, "data.sampler"));
    }
    if (status != LS_OK)
        ls_dataset_close(set);
    return status;
}

ls_status ls_setup_training_data(ls_dataset **out, const ls_recipe *r, const ls_setup *s, ls_split split,
                                 const ls_ui *ui)
{
    const ls_augment a = ls_recipe_augment(r);
    LS_TRY(ls_setup_data(out, r, s, split, ui));
    const bool changes = split == LS_SPLIT_TRAIN && ls_augment_changes(&a) && !(*out)->read_drawn;
    if (changes || ls_recipe_mixes(r))
        LS_TRY(ls_augment_open(out, &a));
    return ls_setup_balance(out, r, s, split, ui);
}
