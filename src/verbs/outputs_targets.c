/* outputs_targets.c - the targets of samples of the data set, behind their predictions. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/shown.h"
#include "base/sys.h"
#include "outputs_own.h"
#include "recipe/data_row.h"

static int field_of(const ls_dataset *set, const char *name, const char *suffix)
{
    char text[160];
    snprintf(text, sizeof text, "%s%s", name, suffix);
    const ls_field *f = ls_dataset_field(set, text);
    return f ? (int)(f - set->fields) : -1;
}

/* The field that output k is compared with, if it has a number for each of the output's, or one class for
 * all of them. -1: none. */
static int target_field(const ls_outputs *j, int k)
{
    const ls_recipe *r = j->saved.recipe;
    const int64_t count = ls_type_count(&j->outputs[k].tensor.type);
    for (int i = 0; i < r->loss.n; i++) {
        if (strcmp(r->loss.at[i].of, j->outputs[k].name))
            continue;
        const int f = field_of(j->set, r->loss.at[i].target ? r->loss.at[i].target : r->loss.at[i].of, "");
        const ls_type *t = f < 0 ? NULL : &j->set->fields[f].type;
        const bool classes = j->as[k] == LS_AS_CLASSES;
        return t && ls_type_count(t) == (classes ? 1 : count) && classes == (t->dtype == LS_I32) ? f : -1;
    }
    return -1;
}

/* Where field f of a batch is read to: a field may be an input, too, or the target of two outputs. */
static ls_status room(ls_outputs *j, int k, int f, const void **data, void **own)
{
    for (int i = 0; i < j->n_inputs; i++)
        if (!strcmp(j->inputs[i].name, j->set->fields[f].name))
            *data = j->inputs[i].tensor.data;
    for (int i = 0; i < k && !*data; i++) {
        const ls_outputs_target *t = &j->targets[i];
        *data = t->field == f ? t->values.data : t->valid == f ? t->is_valid : NULL;
    }
    if (*data)
        return LS_OK;
    *data = *own = ls_sys_malloc(ls_type_bytes(&j->set->fields[f].type) * (size_t)j->batch);
    return ls_sys_have(*own);
}

ls_status ls_outputs_targets_open(ls_outputs *j)
{
    for (int k = 0; k < j->n_outputs; k++)
        j->targets[k].field = j->targets[k].valid = -1;
    if (j->o->n_inputs || j->o->output || ls_outputs_kind(j, ".npy"))
        return LS_OK;
    for (int k = 0; k < j->n_outputs; k++) {
        ls_outputs_target *t = &j->targets[k];
        const int f = target_field(j, k);
        if (f < 0)
            continue;
        t->field = f;
        t->values.type = j->outputs[k].tensor.type; /* its shape, unless it is a class */
        if (j->as[k] == LS_AS_CLASSES)
            t->values.type = LS_TYPE(LS_I32, 1);
        t->values.type.dtype = j->set->fields[f].type.dtype;
        LS_TRY(room(j, k, f, (const void **)(uintptr_t)&t->values.data, &t->own[0]));
        t->valid = field_of(j->set, j->set->fields[f].name, ".valid");
        if (t->valid >= 0)
            LS_TRY(room(j, k, t->valid, &t->is_valid, &t->own[1]));
        j->n_targets++;
    }
    return LS_OK;
}

void ls_outputs_targets_release(ls_outputs *j)
{
    for (int k = 0; k < LS_OUTPUTS_MOST; k++) {
        free(j->targets[k].own[0]);
        free(j->targets[k].own[1]);
    }
}

void ls_outputs_targets_aim(const ls_outputs *j, int64_t row, void **to)
{
    for (int k = 0; k < j->n_outputs; k++)
        for (int v = 0; v < 2; v++) {
            const int f = v ? j->targets[k].valid : j->targets[k].field;
            char *own = j->targets[k].own[v];
            if (f >= 0 && own)
                to[f] = own + (size_t)row * ls_type_bytes(&j->set->fields[f].type);
        }
}

/* Element i of the row's target is missing: a number that is not there, a class that does not count, or the
 * picture is broken. */
static bool is_missing(const ls_outputs *j, int k, int64_t row, int64_t e)
{
    const ls_outputs_target *t = &j->targets[k];
    const int64_t i = row * ls_type_count(&t->values.type) + e;
    if (j->broken[row])
        return true;
    if (t->valid >= 0)
        return j->set->fields[t->valid].type.dtype == LS_F64 ? ((const double *)t->is_valid)[i] == 0
                                                             : ((const float *)t->is_valid)[i] == 0;
    return t->values.type.dtype == LS_I32 && ((const int32_t *)t->values.data)[i] == LS_IGNORE_LABEL;
}

const char *ls_outputs_target_column(char out[160], const ls_outputs *j, int k)
{
    const bool alone = j->n_targets == 1 && j->as[k] != LS_AS_NUMBERS;
    bool taken = false;
    for (int i = 0; i < j->n_outputs; i++)
        taken |= !strcmp(j->outputs[i].name, "target");
    snprintf(out, 160, alone && !taken ? "target" : "target.%s", j->outputs[k].name);
    return out;
}

void ls_outputs_add_target(ls_str *out, const ls_outputs *j, int k, int64_t row, int64_t e,
                           const char *missing)
{
    const ls_tensor *t = &j->targets[k].values;
    if (is_missing(j, k, row, e))
        ls_str_add(out, missing);
    else if (j->as[k] == LS_AS_CLASSES)
        ls_outputs_add_class(out, j, k, ((const int32_t *)t->data)[row]);
    else
        ls_outputs_number(out, t, row * ls_type_count(&t->type) + e, *missing ? missing : NULL);
}

void ls_outputs_targets_json(const ls_outputs *j, ls_json *json, int64_t row)
{
    char name[160];
    for (int k = 0; k < j->n_outputs; k++) {
        if (j->targets[k].field < 0)
            continue;
        const int64_t n = ls_type_count(&j->targets[k].values.type);
        const bool list = ls_type_count(&j->outputs[k].tensor.type) > 1 && j->as[k] != LS_AS_CLASSES,
                   text = j->as[k] == LS_AS_CLASSES && ls_outputs_texts(j, k) && !is_missing(j, k, row, 0);
        ls_str value = { 0 };
        for (int64_t e = 0; e < n; e++) {
            ls_str_add(&value, e ? "," : list ? "[" : "");
            ls_outputs_add_target(&value, j, k, row, e, "null");
        }
        ls_str_add(&value, list ? "]" : "");
        ls_outputs_target_column(name, j, k);
        text ? ls_json_text(json, name, ls_str_text(&value)) : ls_json_raw(json, name, ls_str_text(&value));
        ls_str_inherit(&json->out, &value);
        ls_str_release(&value);
    }
}

void ls_outputs_targets_csv(const ls_outputs *j, ls_str *out, int64_t row)
{
    ls_str value = { 0 };
    for (int k = 0; k < j->n_outputs; k++) {
        const int64_t n = j->targets[k].field < 0 ? 0 : ls_type_count(&j->targets[k].values.type);
        for (int64_t e = 0; e < n; e++) {
            ls_str_clear(&value);
            ls_outputs_add_target(&value, j, k, row, e, "");
            ls_str_add(out, ",");
            ls_str_add_csv(out, ls_str_text(&value));
        }
    }
    ls_str_inherit(out, &value);
    ls_str_release(&value);
}

void ls_outputs_targets_header(const ls_outputs *j, ls_str *out)
{
    char name[160];
    for (int k = 0; k < j->n_outputs; k++) {
        const int64_t n = j->targets[k].field < 0 ? 0 : ls_type_count(&j->targets[k].values.type);
        ls_outputs_target_column(name, j, k);
        for (int64_t e = 0; e < n; e++)
            n == 1 ? ls_str_printf(out, ",%s", name) : ls_str_printf(out, ",%s.%lld", name, (long long)e);
    }
}

/* ---- mistakes */

int ls_outputs_judged(const ls_outputs *j)
{
    for (int k = 0; k < j->n_outputs; k++)
        if (j->targets[k].field >= 0 &&
            (j->as[k] == LS_AS_CLASSES ||
             (j->as[k] == LS_AS_SCORE && ls_type_count(&j->outputs[k].tensor.type) == 1)))
            return k;
    return -1;
}

bool ls_outputs_mistake(const ls_outputs *j, int k, int64_t row, bool *counts, float *of_true)
{
    const ls_tensor *p = &j->outputs[k].tensor, *t = &j->targets[k].values;
    const float *at = (const float *)p->data + row * ls_type_count(&p->type);
    *counts = !is_missing(j, k, row, 0);
    if (!*counts)
        return false;
    if (j->as[k] == LS_AS_CLASSES) {
        const int32_t is = ((const int32_t *)t->data)[row];
        *of_true = at[is];
        return ls_outputs_class(j, k, row) != is;
    }
    const bool is = t->type.dtype == LS_F64 ? ((const double *)t->data)[row] >= 0.5
                                            : ((const float *)t->data)[row] >= 0.5F;
    *of_true = is ? *at : 1 - *at;
    return (*at >= 0.5F) != is;
}
