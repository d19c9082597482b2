/* weighted_set.c - see weighted_set.h. */
#include "weighted_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "data/arrays.h"

static int field_number(const ls_dataset *set, const char *name)
{
    const ls_field *f = ls_dataset_field(set, name);
    return f ? (int)(f - set->fields) : -1;
}

/* Calls `use` with field k of each sample. */
static ls_status each(const ls_dataset *set, int k,
                      ls_status (*use)(void *context, int64_t i, const void *values), void *context)
{
    void **to = ls_sys_calloc((size_t)set->n_fields, sizeof *to);
    void *values = ls_sys_malloc(ls_type_bytes(&set->fields[k].type));
    ls_status s = to && values ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for reading a field of all samples");
    for (int64_t i = 0; i < set->n && s == LS_OK; i++) {
        to[k] = values;
        s = set->read(set, i, to);
        if (s == LS_OK)
            s = use(context, i, values);
    }
    free(values);
    free(to);
    return s;
}

/* ---- classes */

typedef struct counting {
    int64_t entries, classes, *counts;
} counting;

static ls_status count_sample(void *context, int64_t i, const void *values)
{
    const counting *c = context;
    (void)i;
    for (int64_t e = 0; e < c->entries; e++) {
        const int32_t label = ((const int32_t *)values)[e];
        if (label >= 0 && label < c->classes)
            c->counts[label]++;
    }
    return LS_OK;
}

ls_status ls_class_counts(const ls_dataset *set, int k, int64_t classes, int64_t *counts)
{
    counting c = { ls_type_count(&set->fields[k].type), classes, counts };
    return each(set, k, count_sample, &c);
}

void ls_class_balance(int64_t classes, const int64_t *counts, double *weights)
{
    int64_t all = 0, occur = 0;
    for (int64_t c = 0; c < classes; c++) {
        all += counts[c];
        occur += counts[c] > 0;
    }
    for (int64_t c = 0; c < classes; c++)
        weights[c] = counts[c] ? (double)all / ((double)occur * (double)counts[c]) : 0;
}

/* ---- a field of weights */

typedef struct weighted {
    ls_dataset set;
    ls_dataset *inner;
    int target; /* -1: there is no field of weights */
    int64_t entries, classes;
    float *weights;   /* [classes] */
    char *name, *all; /* of their field; of that of all weights */
    double *draws;
    ls_field fields[];
} weighted;

static void fill(const weighted *d, const int32_t *labels, float *to)
{
    for (int64_t e = 0; e < d->entries; e++)
        to[e] = labels[e] >= 0 && labels[e] < d->classes ? d->weights[labels[e]] : 0;
}

/* The target is read, too, when the weights are wanted and it is not. */
static ls_status read_with(const weighted *d, int64_t i, const uint64_t *draw, void *const *to)
{
    const int n = d->inner->n_fields;
    void **at = NULL, *labels = NULL;
    const bool wanted = d->target >= 0 && to[n], own = wanted && !to[d->target];
    if (own) {
        at = ls_sys_malloc(sizeof *at * (size_t)n);
        labels = ls_sys_malloc(sizeof(int32_t) * (size_t)d->entries);
        if (!at || !labels) {
            free(at);
            free(labels);
            return ls_fail(LS_E_MEMORY, "no memory for the targets of a sample");
        }
        memcpy(at, to, sizeof *at * (size_t)n);
        at[d->target] = labels;
    }
    void *const *all = own ? at : to;
    const ls_status s = draw ? d->inner->read_drawn(d->inner, i, *draw, all)
                             : d->inner->read(d->inner, i, all);
    if (s == LS_OK && wanted)
        fill(d, all[d->target], to[n]);
    if (s == LS_OK && d->all && to[n + 1])
        memcpy(to[n + 1], d->weights, sizeof *d->weights * (size_t)d->classes);
    free(labels);
    free(at);
    return s;
}

static ls_status read_plain(const ls_dataset *set, int64_t i, void *const *to)
{
    return read_with((const weighted *)set, i, NULL, to);
}

static ls_status read_drawn(const ls_dataset *set, int64_t i, uint64_t draw, void *const *to)
{
    return read_with((const weighted *)set, i, &draw, to);
}

static void mix(const ls_dataset *set, uint64_t draw, int64_t rows, void *const *to)
{
    const weighted *d = (const weighted *)set;
    d->inner->mix(d->inner, draw, rows, to);
}

static int64_t weighted_count(const ls_dataset *set, int64_t i, int k)
{
    const weighted *d = (const weighted *)set;
    return d->inner->count(d->inner, i, k < d->inner->n_fields ? k : d->target);
}

static char *file(const ls_dataset *set, int64_t i)
{
    const weighted *d = (const weighted *)set;
    return d->inner->file(d->inner, i);
}

static void weighted_close(ls_dataset *set)
{
    weighted *d = (weighted *)set;
    ls_dataset_close(&d->inner);
    free(d->weights);
    free(d->name);
    free(d->all);
    free(d->draws);
    free(d);
}

/* The set itself, with room for two fields more; on failure the inner one is closed. */
static ls_status wrap(weighted **out, ls_dataset **set)
{
    ls_dataset *inner = *set;
    const size_t n = (size_t)inner->n_fields;
    weighted *d = *out = ls_sys_calloc(1, sizeof *d + sizeof(ls_field) * (n + 2));
    if (!d) {
        ls_dataset_close(set);
        return ls_fail(LS_E_MEMORY, "no memory for a data set with weights");
    }
    memcpy(d->fields, inner->fields, sizeof(ls_field) * n);
    d->inner = inner;
    d->target = -1;
    d->set = *inner;
    d->set.fields = d->fields;
    d->set.read = read_plain;
    d->set.read_drawn = inner->read_drawn ? read_drawn : NULL;
    d->set.mix = inner->mix ? mix : NULL;
    d->set.count = inner->count ? weighted_count : NULL;
    d->set.file = inner->file ? file : NULL;
    d->set.close = weighted_close;
    *set = &d->set;
    return LS_OK;
}

ls_status ls_weighted_open(ls_dataset **set, const char *target, const char *field, const char *all,
                           int64_t classes, const double *weights)
{
    const int n = (*set)->n_fields, k = field_number(*set, target);
    weighted *d = NULL;
    LS_TRY(wrap(&d, set));
    ls_status s = LS_OK;
    if (k < 0 || d->fields[k].type.dtype != LS_I32)
        s = ls_fail(LS_E_SHAPE, "%s (%s) has no field \"%s\" of classes to weigh", d->set.name, d->set.source,
                    target);
    else if (!(d->name = ls_sys_strdup(field)) || (all && !(d->all = ls_sys_strdup(all))) ||
             !(d->weights = ls_sys_malloc(sizeof *d->weights * (size_t)classes)))
        s = ls_fail(LS_E_MEMORY, "no memory for the weights of %lld classes", (long long)classes);
    if (s != LS_OK) {
        ls_dataset_close(set);
        return s;
    }
    for (int64_t c = 0; c < classes; c++)
        d->weights[c] = (float)weights[c];
    d->fields[n] = (ls_field){ .name = d->name, .type = d->fields[k].type };
    d->fields[n].type.dtype = LS_F32;
    d->target = k;
    d->entries = ls_type_count(&d->fields[k].type);
    d->classes = classes;
    d->fields[n + 1] = (ls_field){ .name = d->all, .type = LS_TYPE(LS_F32, classes) };
    d->set.n_fields = n + 1 + (all != NULL);
    return LS_OK;
}

/* ---- draws */

typedef struct drawing {
    double *draws, sum;
    const ls_dataset *set;
    const char *name;
    ls_dtype type;
    int64_t classes;
    const double *weights; /* of classes; NULL: the field is the weight */
} drawing;

static ls_status add_weight(void *context, int64_t i, const void *values)
{
    drawing *d = context;
    double w = 0;
    if (d->weights) {
        const int32_t label = *(const int32_t *)values;
        w = label >= 0 && label < d->classes ? d->weights[label] : 0;
    } else {
        w = d->type == LS_F64 ? *(const double *)values : (double)*(const float *)values;
    }
    const int64_t row = ls_weighted_row(d->set, i);
    if (!(w >= 0) || isinf(w))
        return ls_fail(LS_E_NUMERIC, "field %s, %s %lld: %g; weights are numbers from 0 on", d->name,
                       row >= 0 ? "row" : "sample", (long long)(row >= 0 ? row : i), w);
    d->draws[i] = d->sum += w;
    return LS_OK;
}

/* The largest label + 1. */
static ls_status largest(void *context, int64_t i, const void *values)
{
    int64_t *classes = context;
    const int32_t label = *(const int32_t *)values;
    (void)i;
    *classes = label >= *classes ? label + 1 : *classes;
    return LS_OK;
}

static ls_status balance_of(double **weights, int64_t *classes, const ls_dataset *set, int k)
{
    *classes = set->fields[k].below;
    if (!*classes)
        LS_TRY(each(set, k, largest, classes));
    const size_t n = (size_t)(*classes > 0 ? *classes : 1);
    int64_t *counts = ls_sys_calloc(n, sizeof *counts);
    *weights = ls_sys_calloc(n, sizeof **weights);
    ls_status s = counts && *weights ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for counting classes");
    if (s == LS_OK)
        s = ls_class_counts(set, k, *classes, counts);
    if (s == LS_OK)
        ls_class_balance(*classes, counts, *weights);
    free(counts);
    return s;
}

static ls_status make_draws(double **draws, const ls_dataset *set, const char *name, bool balance)
{
    const int k = field_number(set, name);
    const ls_field *f = k < 0 ? NULL : &set->fields[k];
    double *weights = NULL;
    *draws = NULL;
    if (!f || f->type.ndim || (balance ? f->type.dtype != LS_I32 : !ls_dtype_is_float(f->type.dtype)))
        return ls_fail(LS_E_SHAPE, "the samples have no field %s with %s for each sample", name,
                       balance ? "a class" : "a number");
    drawing d = { .set = set, .name = name, .type = f->type.dtype };
    ls_status s = balance ? balance_of(&weights, &d.classes, set, k) : LS_OK;
    d.weights = weights;
    if (s == LS_OK)
        s = ls_sys_have(d.draws = ls_sys_malloc(sizeof *d.draws * (size_t)set->n));
    if (s == LS_OK)
        s = each(set, k, add_weight, &d);
    if (s == LS_OK && !(d.sum > 0 && isfinite(d.sum)))
        s = ls_fail(LS_E_NUMERIC, "field %s: the sum of all weights is %g; no sample can be drawn", name,
                    d.sum);
    free(weights);
    if (s == LS_OK)
        *draws = d.draws;
    else
        free(d.draws);
    return s;
}

ls_status ls_draws_open(ls_dataset **set, const char *name, bool balance)
{
    weighted *d = NULL;
    LS_TRY(wrap(&d, set));
    const ls_status s = make_draws(&d->draws, d->inner, name, balance);
    if (s != LS_OK)
        ls_dataset_close(set);
    return s;
}

ls_status ls_draws_give(ls_dataset **set, double *draws)
{
    weighted *d = NULL;
    const ls_status s = wrap(&d, set);
    if (s == LS_OK)
        d->draws = draws;
    else
        free(draws);
    return s;
}

int64_t ls_weighted_row(const ls_dataset *set, int64_t i)
{
    while (set->close == weighted_close)
        set = ((const weighted *)set)->inner;
    return ls_arrays_row(set, i);
}

const double *ls_dataset_draws(const ls_dataset *set)
{
    return set->close == weighted_close ? ((const weighted *)set)->draws : NULL;
}
