/* outputs_values.c - what is shown of an output: its numbers, or a class and the probabilities of all. */
#include <math.h>
#include <string.h>

#include "base/shown.h"
#include "outputs_own.h"
#include "recipe/data_row.h"

bool ls_outputs_kind(const ls_outputs *j, const char *end)
{
    const char *dot = j->o->out ? strrchr(j->o->out, '.') : NULL;
    return dot && !strcmp(dot, end);
}

const char *ls_outputs_texts(const ls_outputs *j, int k)
{
    const ls_recipe *r = j->saved.recipe;
    for (int i = 0; i < r->loss.n && (j->as[k] == LS_AS_CLASSES || j->as[k] == LS_AS_WORDS); i++)
        if (!strcmp(r->loss.at[i].of, j->outputs[k].name))
            return ls_recipe_class_names(r, r->loss.at[i].target ? r->loss.at[i].target : r->loss.at[i].of);
    return NULL;
}

void ls_outputs_add_class(ls_str *out, const ls_outputs *j, int k, int64_t class)
{
    const ls_field *labels = j->named ? ls_dataset_field(j->named, "labels") : NULL;
    const char *texts = ls_outputs_texts(j, k);
    if (!texts && labels && labels->names && class < labels->below) {
        ls_str_add(out, labels->names[class]);
        return;
    }
    for (int64_t i = 0; texts && i < class; i++)
        texts += strcspn(texts, ",") + 1;
    texts ? ls_str_add_n(out, texts, strcspn(texts, ",")) : ls_str_printf(out, "%lld", (long long)class);
}

static int64_t highest(const float *x, int64_t n)
{
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        at = x[i] > x[at] ? i : at;
    return at;
}

int64_t ls_outputs_class(const ls_outputs *j, int k, int64_t row)
{
    const ls_tensor *t = &j->outputs[k].tensor;
    const int64_t count = ls_type_count(&t->type);
    return highest((const float *)t->data + row * count, count);
}

/* e^x / the sum of these; the largest x gives 1 before the division, so nothing overflows. */
static void to_probabilities(float *x, int64_t n)
{
    const double top = (double)x[highest(x, n)];
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(exp((double)x[i] - top) / sum);
}

ls_shown_as ls_outputs_shown_as(const ls_outputs *j, int k)
{
    const ls_recipe *r = j->saved.recipe;
    const ls_type *t = &j->outputs[k].tensor.type;
    const int64_t count = ls_type_count(t);
    if (j->o->output || ls_outputs_kind(j, ".npy") || t->dtype != LS_F32)
        return LS_AS_NUMBERS;
    for (int i = 0; i < r->loss.n; i++)
        if (!strcmp(r->loss.at[i].of, j->outputs[k].name))
            return r->loss.at[i].kind == LS_LOSS_BCE             ? LS_AS_SCORE
                   : r->loss.at[i].kind != LS_LOSS_CROSS_ENTROPY ? LS_AS_NUMBERS
                   : count == t->dims[t->ndim - 1]               ? LS_AS_CLASSES
                   : r->model.outputs.n == 1 && ls_recipe_has_tags(r, &r->loss.at[i]) &&
                           !strcmp(r->data.type, "arrays")
                       ? LS_AS_WORDS
                       : LS_AS_NUMBERS;
    return LS_AS_NUMBERS;
}

/* Makes probabilities of n samples. */
void ls_outputs_probabilities(ls_outputs *j, int64_t n)
{
    for (int k = 0; k < j->n_outputs; k++) {
        const int64_t count = ls_type_count(&j->outputs[k].tensor.type);
        float *x = j->outputs[k].tensor.data;
        for (int64_t r = 0; r < n && j->as[k] == LS_AS_CLASSES; r++)
            to_probabilities(x + r * count, count);
        for (int64_t i = 0; i < n * count && j->as[k] == LS_AS_SCORE; i++)
            x[i] = (float)(1 / (1 + exp(-(double)x[i])));
    }
}

void ls_outputs_clear_broken(ls_outputs *j, int64_t n)
{
    for (int k = 0; k < j->n_outputs; k++) {
        const ls_tensor *t = &j->outputs[k].tensor;
        const int64_t count = ls_type_count(&t->type);
        for (int64_t i = 0; i < n * count; i++)
            if (!j->broken[i / count])
                continue;
            else if (t->type.dtype == LS_F32)
                ((float *)t->data)[i] = NAN;
            else if (t->type.dtype == LS_F64)
                ((double *)t->data)[i] = NAN;
            else if (t->type.dtype == LS_I64)
                ((int64_t *)t->data)[i] = LS_IGNORE_LABEL;
            else if (t->type.dtype == LS_I32)
                ((int32_t *)t->data)[i] = LS_IGNORE_LABEL;
    }
}

void ls_outputs_number(ls_str *out, const ls_tensor *t, int64_t i, const char *nan)
{
    char text[32];
    switch (t->type.dtype) {
    case LS_F32: {
        const float x = ((const float *)t->data)[i];
        ls_str_add(out, nan && !isfinite(x) ? nan : ls_format_f32(text, x));
        return;
    }
    case LS_F64: {
        const double x = ((const double *)t->data)[i];
        ls_str_add(out, nan && !isfinite(x) ? nan : ls_format_f64(text, x));
        return;
    }
    case LS_I64: ls_str_printf(out, "%lld", (long long)((const int64_t *)t->data)[i]); return;
    case LS_I32: ls_str_printf(out, "%d", ((const int32_t *)t->data)[i]); return;
    default: ls_str_printf(out, "%d", ((const uint8_t *)t->data)[i]);
    }
}
