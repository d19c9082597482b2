/* data_view.c - reads samples of an epoch twice: as the model gets them, and as the data set has them. */
#include "data_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/sys.h"
#include "data/augment_mix.h"
#include "data/order.h"
#include "data/tokenize.h"
#include "data/weighted_set.h"
#include "recipe/data_row.h"
#include "recipe/model_row.h"
#include "recipe/recipe_use.h"

static int field_number(const ls_dataset *set, const char *name)
{
    const ls_field *f = ls_dataset_field(set, name);
    return f ? (int)(f - set->fields) : -1;
}

/* A field that is shown as pictures: bytes of channels, rows, columns. */
static int picture_number(const ls_dataset *set, const char *name)
{
    const int k = field_number(set, name);
    return k >= 0 && set->fields[k].type.dtype == LS_U8 && set->fields[k].type.ndim == 3 ? k : -1;
}

static ls_status open_set(ls_data_view *v, ls_split split, const ls_ui *ui)
{
    ls_recipe *r = v->recipe;
    v->augment = ls_recipe_augment(r);
    if (split == LS_SPLIT_TRAIN) {
        LS_TRY(ls_setup_training_data(&v->set, r, &v->setup, split, ui));
        v->order = ls_setup_order(r, v->set);
    } else {
        LS_TRY(ls_setup_data(&v->set, r, &v->setup, split, ui));
        v->order = (ls_order){ .n = v->set->n,
                               .global_batch = r->train.micro_batch,
                               .micro_batch = r->train.micro_batch };
    }
    v->images = picture_number(v->set, "images");
    v->normalised = v->images >= 0 && ls_recipe_samples(r) == LS_SAMPLES_IMAGES;
    int64_t classes = 0;
    const char *of = ls_recipe_classes_field(r, &classes);
    v->labels = field_number(v->set, of ? of : "labels");
    if (v->labels >= 0 && v->set->fields[v->labels].type.ndim) /* classes of pixels */
        v->labels = -1;
    v->mask = -1;
    if (ls_recipe_samples(r) == LS_SAMPLES_FIELDS && !strcmp(r->data.type, "images")) {
        v->images = field_number(v->set, r->model.inputs.at[0].name);
        v->mask = 1 - v->images; /* there are two fields */
    }
    LS_TRY(ls_recipe_blame(r, ls_order_check(&v->order)));
    if (ls_recipe_samples(r) != LS_SAMPLES_TEXT && ls_recipe_samples(r) != LS_SAMPLES_PAIRS)
        return LS_OK;
    char *file = NULL;
    LS_TRY(ls_recipe_check_names(r, "data.tokenizer"));
    LS_TRY(ls_recipe_blame(r, ls_tokenizer_find(&file, r->data.tokenizer)));
    const ls_status s = ls_tokenizer_open(&v->tokenizer, file);
    free(file);
    return s;
}

/* Labels alone are read, of all samples. */
static ls_status count_classes(ls_data_view *v)
{
    const ls_dataset *set = v->set;
    const ls_field *f = v->labels < 0 ? NULL : &set->fields[v->labels];
    if (!f || f->type.dtype != LS_I32 || f->type.ndim || f->below < 1)
        return LS_OK;
    v->counts = ls_sys_calloc((size_t)f->below, sizeof *v->counts);
    LS_TRY(ls_sys_have(v->counts));
    return ls_class_counts(set, v->labels, f->below, v->counts);
}

/* Copies the real rows of a micro-batch behind the samples that are there. */
static void keep(ls_data_view *v, int64_t most, int64_t step, int64_t m, uint8_t *const *drawn,
                 uint8_t *const *plain)
{
    for (int64_t row = 0; row < v->order.micro_batch && v->n < most; row++) {
        const int64_t i = ls_order_sample(&v->order, v->epoch, step, m, row);
        if (i < 0)
            return;
        for (int k = 0; k < v->set->n_fields; k++) {
            const size_t bytes = ls_type_bytes(&v->set->fields[k].type);
            memcpy(v->drawn[k] + (size_t)v->n * bytes, drawn[k] + (size_t)row * bytes, bytes);
            memcpy(v->plain[k] + (size_t)v->n * bytes, plain[k] + (size_t)row * bytes, bytes);
        }
        v->samples[v->n++] = (ls_viewed){ i, step, m, row };
    }
}

static ls_status read_samples(ls_data_view *v, int64_t most)
{
    const ls_dataset *set = v->set;
    const size_t fields = (size_t)set->n_fields;
    const int64_t micro_batches = v->order.global_batch / v->order.micro_batch,
                  steps = ls_order_steps(&v->order);
    most = most < set->n ? most : set->n;
    uint8_t **batch = ls_sys_calloc(2 * fields, sizeof *batch);
    v->samples = ls_sys_calloc((size_t)most, sizeof *v->samples);
    v->drawn = ls_sys_calloc(2 * fields, sizeof *v->drawn);
    v->plain = v->drawn ? v->drawn + fields : NULL;
    bool have = batch && v->samples && v->drawn;
    for (size_t k = 0; have && k < 2 * fields; k++) {
        const size_t bytes = ls_type_bytes(&set->fields[k % fields].type);
        batch[k] = ls_sys_malloc(bytes * (size_t)v->order.micro_batch);
        v->drawn[k] = ls_sys_malloc(bytes * (size_t)most);
        have = batch[k] && v->drawn[k];
    }
    ls_status s = have ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for %lld samples", (long long)most);
    ls_order still = v->order;
    still.augment = false;
    for (int64_t i = 0; s == LS_OK && v->n < most && i < steps * micro_batches; i++) {
        const int64_t step = i / micro_batches, m = i % micro_batches;
        s = ls_order_fill(&v->order, set, v->epoch, step, m, (void *const *)batch);
        if (s == LS_OK)
            s = ls_order_fill(&still, set, v->epoch, step, m, (void *const *)(batch + fields));
        if (s == LS_OK)
            keep(v, most, step, m, batch, batch + fields);
    }
    for (size_t k = 0; batch && k < 2 * fields; k++)
        free(batch[k]);
    free(batch);
    return s;
}

ls_status ls_data_view_open(ls_data_view *v, const ls_recipe_arg *arg, ls_split split, int64_t epoch,
                            int64_t n, const ls_ui *ui)
{
    *v = (ls_data_view){ .epoch = epoch };
    ls_status s = ls_recipe_load(&v->recipe, arg->name, arg->n_sets, arg->sets);
    LS_TRY_TO(s, s, fail);
    LS_TRY_TO(s, ls_setup_make(&v->setup, v->recipe, 1, 0, 1), fail);
    LS_TRY_TO(s, open_set(v, split, ui), fail);
    LS_TRY_TO(s, count_classes(v), fail);
    LS_TRY_TO(s, read_samples(v, n), fail);
    return LS_OK;
fail:
    ls_data_view_release(v);
    return s;
}

void ls_data_view_release(ls_data_view *v)
{
    for (int k = 0; v->drawn && k < 2 * v->set->n_fields; k++)
        free(v->drawn[k]);
    free(v->drawn);
    free(v->samples);
    free(v->counts);
    ls_tokenizer_close(&v->tokenizer);
    ls_dataset_close(&v->set);
    ls_recipe_destroy(&v->recipe);
    *v = (ls_data_view){ 0 };
}

double ls_data_view_at(const ls_data_view *v, int field, const uint8_t *values, int64_t k)
{
    switch (v->set->fields[field].type.dtype) {
    case LS_F32: return ((const float *)(const void *)values)[k];
    case LS_F64: return ((const double *)(const void *)values)[k];
    case LS_I32: return ((const int32_t *)(const void *)values)[k];
    case LS_I64: return (double)((const int64_t *)(const void *)values)[k];
    case LS_U8: return values[k];
    default: return NAN;
    }
}

void ls_data_view_scale(const ls_data_view *v, int64_t channel, double *mean, double *std)
{
    const ls_real_list *means = &v->recipe->data.mean, *stds = &v->recipe->data.std;
    *mean = !v->normalised ? 0 : means->at[channel < means->n ? channel : 0];
    *std = !v->normalised ? 1 : stds->at[channel < stds->n ? channel : 0];
}

ls_view_stats ls_data_view_stats(const ls_data_view *v, int field, const uint8_t *values, int64_t inner,
                                 int64_t groups, int64_t group)
{
    const ls_field *f = &v->set->fields[field];
    const int64_t all = v->n * ls_type_count(&f->type);
    ls_view_stats s = { .least = INFINITY, .most = -INFINITY };
    double n = 0, squares = 0;
    for (int64_t k = 0; k < all; k++) {
        if (k / inner % groups != group)
            continue;
        const double x = ls_data_view_at(v, field, values, k);
        if (f->ignorable && x == LS_IGNORE_LABEL) {
            s.missing++;
            continue;
        }
        s.least = fmin(s.least, x);
        s.most = fmax(s.most, x);
        const double d = x - s.mean; /* Welford's update: no cancellation */
        s.mean += d / ++n;
        squares += d * (x - s.mean);
    }
    s.deviation = n > 0 ? sqrt(squares / n) : NAN;
    if (n == 0)
        s.least = s.most = s.mean = NAN;
    return s;
}

static void add(ls_str *out, size_t begin, const char *text)
{
    ls_str_printf(out, "%s%s", out->len > begin ? ", " : "", text);
}

/* The label of sample k in a field of classes: its name, or its number. */
static void view_label(const ls_data_view *v, int field, int64_t k, ls_str *out)
{
    const ls_field *f = &v->set->fields[field];
    const int64_t label = (int64_t)ls_data_view_at(v, field, v->drawn[field], k);
    if (f->names && label >= 0 && label < f->below)
        ls_str_add(out, f->names[label]);
    else
        ls_str_printf(out, "%lld", (long long)label);
}

static void mixing(const ls_data_view *v, const ls_viewed *at, int64_t k, ls_str *out, size_t begin)
{
    const int64_t *dims = v->set->fields[v->images].type.dims;
    const ls_mix m = ls_mix_draw(&v->augment, ls_order_mix(&v->order, v->epoch, at->step, at->micro_batch),
                                 (int)dims[1], (int)dims[2]);
    char text[96];
    if (m.paste)
        snprintf(text, sizeof text, "cutmix %d x %d at %d, %d with ", m.width, m.height, m.x, m.y);
    else
        snprintf(text, sizeof text, "mixup %.3f with ", (double)m.own);
    add(out, begin, text);
    view_label(v, field_number(v->set, "labels.mixed"), k, out);
}

void ls_data_view_steps(const ls_data_view *v, int64_t k, ls_str *out)
{
    const ls_viewed *at = &v->samples[k];
    const size_t begin = out->len;
    if (v->images < 0 || !v->order.augment || !v->set->read_drawn)
        return;
    const int64_t *dims = v->set->fields[v->images].type.dims;
    const uint64_t draw = ls_order_draw(&v->order, v->epoch, at->sample, at->step, at->micro_batch, at->row);
    ls_augment_step steps[LS_AUGMENT_STEPS];
    const int n = ls_augment_draw(&v->augment, draw, (int)dims[1], (int)dims[2], steps);
    if (v->augment.crop == LS_CROP_RESIZED)
        add(out, begin, "crop");
    for (int i = 0; i < n; i++) {
        char text[LS_AUGMENT_TEXT];
        ls_augment_text(&steps[i], text);
        add(out, begin, text);
    }
    if (v->set->mix)
        mixing(v, at, k, out, begin);
}

void ls_data_view_target(const ls_data_view *v, int64_t k, ls_str *out)
{
    if (v->labels >= 0)
        view_label(v, v->labels, k, out);
    for (int f = 0; v->labels < 0 && v->images >= 0 && f < v->set->n_fields; f++)
        if (!v->set->fields[f].type.ndim)
            ls_str_printf(out, "%s%s %.5g", out->len ? ", " : "", v->set->fields[f].name,
                          ls_data_view_at(v, f, v->drawn[f], k));
}

/* Adds tokens as text, without ids below 0. */
static ls_status decode(const ls_data_view *v, const int32_t *from, int64_t n, ls_str *out)
{
    int32_t *ids = ls_sys_malloc(sizeof *ids * (size_t)n);
    LS_TRY(ls_sys_have(ids));
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (from[i] >= 0)
            ids[count++] = from[i];
    char *text = NULL;
    size_t bytes = 0;
    const ls_status s = ls_tokenizer_decode(v->tokenizer, ids, count, false, &text, &bytes);
    if (s == LS_OK)
        ls_str_add_n(out, text, bytes);
    free(text);
    free(ids);
    return s;
}

ls_status ls_data_view_text(const ls_data_view *v, int field, int64_t k, ls_str *out)
{
    const int64_t n = ls_type_count(&v->set->fields[field].type);
    const int32_t *ids = (const int32_t *)(const void *)v->drawn[field] + k * n;
    const int packed = field_number(v->set, "positions");
    const int32_t *positions = packed < 0 ? NULL : (const int32_t *)(const void *)v->drawn[packed] + k * n;
    for (int64_t begin = 0, end; begin < n; begin = end) {
        end = positions ? begin + 1 : n;
        while (end < n && positions[end] != 0)
            end++;
        if (begin)
            ls_str_add(out, " | ");
        LS_TRY(decode(v, ids + begin, end - begin, out));
    }
    return LS_OK;
}
