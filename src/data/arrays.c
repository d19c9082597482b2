/* arrays.c - arrays in files as a data set: sample i is row i of each array. A row is converted when it is
 * read, and only then is it looked at: an array may be larger than memory. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/c_locale.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/sys.h"
#include "graph/op.h"
#include "data/array_file.h"
#include "data/array_hdf5.h"
#include "data/arrays.h"
#include "data/held_out.h"

typedef struct column {
    ls_array_field as; /* its texts are the fields' */
    ls_array_file file;
    int64_t each; /* elements of a row */
    int field;    /* its field; that of NAME.valid, if it has one, is the next */
} column;

typedef struct array_set {
    ls_dataset set;
    int n;
    column *columns;
    ls_field *fields;
    char **names; /* [fields] */
    ls_dataset_part *parts;
    int64_t *rows; /* [set.n], ascending: of the files, those of this split; NULL: all */
    char *source;  /* of a split of rows, the text for logs */
} array_set;

/* ---- reading */

/* "x.npy row 812: x[3, 1]", of a table "x.csv row 812: x[3] (column "area")", for messages. */
static void place_text(ls_str *out, const column *c, int64_t row, int64_t element)
{
    const ls_type *t = &c->file.type;
    int64_t rest = element, size = c->each;
    const char *names = c->file.text ? ls_array_file_part(c->file.path) : "";
    const int file = (int)(strlen(c->file.path) - strlen(names));
    ls_str_printf(out, "%.*s row %" PRId64 ": %s", file, c->file.path, row, c->as.field);
    for (int d = 1; d < t->ndim; d++) {
        size /= t->dims[d];
        ls_str_printf(out, "%s%" PRId64, d == 1 ? "[" : ", ", rest / size);
        rest %= size;
    }
    ls_str_add(out, t->ndim > 1 ? "]" : "");
    names += *names == ':';
    for (int64_t i = 0; i < element && *names; i++) {
        names += strcspn(names, ",");
        names += *names == ',';
    }
    const size_t n = strcspn(names, ",");
    if (n && (strncmp(names, c->as.field, n) || c->as.field[n]))
        ls_str_printf(out, " (column \"%.*s\")", (int)n, names);
}

static ls_status arrays_refuse(const column *c, int64_t row, int64_t element, const char *why)
{
    ls_str place = { 0 };
    place_text(&place, c, row, element);
    const ls_status s = ls_fail(LS_E_FORMAT, "%s %s", ls_str_text(&place), why);
    ls_str_release(&place);
    return s;
}

static double element(const column *c, const uint8_t *from, int64_t i)
{
    const double x = ls_array_number(from, c->file.type.dtype, i);
    return c->file.has_fill && x == c->file.fill ? (double)NAN : x;
}

static const char *wrong_float(const column *c, double x)
{
    if (isnan(x))
        return "is NaN: replace it, or leave its row out";
    if (isinf(x))
        return "is infinite: replace it, or leave its row out";
    if (c->as.as == LS_F32 && isinf((float)x))
        return "is beyond f32, whose largest number is 3.4e38: scale the data";
    if (c->as.range != LS_ARRAY_ANY && x < 0)
        return c->as.range == LS_ARRAY_FROM_0 ? "is negative: weights are numbers from 0 on"
                                              : "is negative: targets of bce are numbers from 0 to 1";
    return c->as.range == LS_ARRAY_0_TO_1 && x > 1 ? "is above 1: targets of bce are numbers from 0 to 1"
                                                   : NULL;
}

static ls_status read_floats(const column *c, const uint8_t *from, int64_t row, void *to, void *valid)
{
    for (int64_t i = 0; i < c->each; i++) {
        double x = element(c, from, i);
        const bool missing = c->as.missing && isnan(x);
        x = missing ? 0 : x;
        const char *why = wrong_float(c, x);
        if (why)
            return arrays_refuse(c, row, i, why);
        if (c->as.as == LS_F32 && to)
            ((float *)to)[i] = (float)x;
        else if (to)
            ((double *)to)[i] = x;
        if (c->as.as == LS_F32 && valid)
            ((float *)valid)[i] = !missing;
        else if (valid)
            ((double *)valid)[i] = !missing;
    }
    return LS_OK;
}

/* Element i, if it is a whole number. A text is read as f64, in which whole numbers beyond 2^53 are not
 * exact. */
static bool whole_number(const column *c, const uint8_t *from, int64_t i, int64_t *out)
{
    const double x = element(c, from, i);
    if (c->file.type.dtype == LS_I64 && !isnan(x)) {
        memcpy(out, from + (size_t)i * sizeof *out, sizeof *out);
        return true;
    }
    *out = fabs(x) <= 0x1p53 ? (int64_t)x : 0;
    return x == (double)*out;
}

static const struct {
    int64_t least, most;
    const char *what, *numpy;
} INTEGERS[] = { [LS_I32] = { INT32_MIN, INT32_MAX, "of 32 bits", "int32" },
                 [LS_I64] = { INT64_MIN, INT64_MAX, "that is known exactly", "int64" },
                 [LS_U8] = { 0, UINT8_MAX, "from 0 to 255", "uint8" } };

static ls_status read_integers(const column *c, const uint8_t *from, int64_t row, void *to)
{
    char why[96];
    for (int64_t i = 0; i < c->each; i++) {
        int64_t x;
        const bool whole = whole_number(c, from, i, &x), ignored = c->as.ignorable && x == LS_IGNORE_LABEL,
                   fits = whole && x >= INTEGERS[c->as.as].least && x <= INTEGERS[c->as.as].most,
                   below = !c->as.below || (x >= 0 && x < c->as.below);
        if (!whole && c->file.text && isnan(element(c, from, i)))
            return arrays_refuse(c, row, i, LS_ARRAY_MISSING);
        if (!fits || (!below && !ignored)) {
            if (fits)
                snprintf(why, sizeof why, "is %" PRId64 ": it must be 0 to %" PRId64 "%s", x, c->as.below - 1,
                         c->as.ignorable ? ", or -100 for none" : "");
            else if (whole)
                snprintf(why, sizeof why, "is %" PRId64 ", which is not an integer %s", x,
                         INTEGERS[c->as.as].what);
            else
                ls_snprintf(why, sizeof why, "is %.17g, which is not an integer %s", element(c, from, i),
                            INTEGERS[c->as.as].what);
            return arrays_refuse(c, row, i, why);
        }
        switch (to ? c->as.as : LS_F32) {
        case LS_I32: ((int32_t *)to)[i] = (int32_t)x; break;
        case LS_I64: ((int64_t *)to)[i] = x; break;
        case LS_U8: ((uint8_t *)to)[i] = (uint8_t)x; break;
        default: break;
        }
    }
    return LS_OK;
}

static ls_status read_row(const column *c, const uint8_t *from, int64_t row, void *to, void *valid)
{
    return ls_dtype_is_float(c->as.as) ? read_floats(c, from, row, to, valid)
                                       : read_integers(c, from, row, to);
}

/* A row that is not in memory. */
static ls_status fetch_row(const column *c, int64_t row, void *to, void *valid)
{
    uint8_t *from = ls_sys_malloc((size_t)c->each * ls_dtype_size(c->file.type.dtype));
    ls_status s = ls_sys_have(from);
    if (s == LS_OK)
        s = ls_hdf5_read(c->file.rows, row, 1, from);
    if (s == LS_OK)
        s = read_row(c, from, row, to, valid);
    free(from);
    return s;
}

static ls_status arrays_read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    const array_set *d = (const array_set *)set;
    i = d->rows ? d->rows[i] : i;
    for (int k = 0; k < d->n; k++) {
        const column *c = &d->columns[k];
        void *valid = c->as.missing ? to[c->field + 1] : NULL;
        if (!to[c->field] && !valid)
            continue;
        const size_t bytes = (size_t)c->each * ls_dtype_size(c->file.type.dtype);
        LS_TRY(c->file.data ? read_row(c, c->file.data + (size_t)i * bytes, i, to[c->field], valid)
                            : fetch_row(c, i, to[c->field], valid));
    }
    return LS_OK;
}

static int64_t count_valid(const ls_dataset *set, int64_t i, int k)
{
    const array_set *d = (const array_set *)set;
    const column *c = d->columns;
    i = d->rows ? d->rows[i] : i;
    while (c->field != k)
        c++;
    const uint8_t *from = c->file.data + (size_t)(i * c->each) * ls_dtype_size(c->file.type.dtype);
    int64_t n = 0;
    for (int64_t e = 0; e < c->each; e++)
        n += ls_array_number(from, c->file.type.dtype, e) != LS_IGNORE_LABEL;
    return n;
}

/* ---- opening */

static void arrays_close(ls_dataset *set)
{
    array_set *d = (array_set *)set;
    for (int k = 0; k < d->n && d->columns; k++)
        ls_array_file_close(&d->columns[k].file);
    for (int k = 0; k < d->set.n_fields && d->names; k++) {
        free(d->names[k]);
        free((void *)(uintptr_t)d->fields[k].names);
    }
    free(d->columns);
    free(d->fields);
    free(d->names);
    free(d->parts);
    free(d->rows);
    free(d->source);
    free(d);
}

static bool is_name(const char *name)
{
    const char *p = name;
    while (isalnum((unsigned char)*p) || *p == '_')
        p++;
    return p > name && !*p;
}

static ls_status check_array(const ls_array_field *all, int k)
{
    const ls_array_field *a = &all[k];
    if (!a->field || !is_name(a->field))
        return ls_fail(LS_E_USAGE, "\"%s\" is not a name of a field: letters, digits and _",
                       a->field ? a->field : "");
    for (int i = 0; i < k; i++)
        if (!strcmp(all[i].field, a->field))
            return ls_fail(LS_E_USAGE, "field \"%s\" is there twice", a->field);
    if (a->as == LS_BF16 || a->as == LS_F16)
        return ls_fail(LS_E_USAGE, "field \"%s\": samples have f32, f64, i32, i64 or u8, not %s", a->field,
                       ls_dtype_name(a->as));
    if (a->missing && !ls_dtype_is_float(a->as))
        return ls_fail(LS_E_USAGE, "field \"%s\": only fields of f32 or f64 can have missing numbers, not %s",
                       a->field, ls_dtype_name(a->as));
    return LS_OK;
}

/* Opens column k and checks that it belongs to column 0. */
static ls_status open_column(array_set *d, int k)
{
    column *c = &d->columns[k];
    char text[128];
    const ls_array_tokens tokens = { c->as.tokenizer, c->as.tokens, c->as.words ? 0 : c->as.below, c->as.pad,
                                     c->as.words };
    LS_TRY(ls_array_labels_open(&c->file, c->as.file, c->as.field, c->as.classes, &tokens));
    const ls_type *t = &c->file.type;
    if (t->ndim < 1 || t->dims[0] < 1)
        return ls_fail(LS_E_SHAPE, "%s: it is %s, and an array of samples is [samples, ..]: there are none",
                       c->file.path, ls_type_text(text, t));
    if (t->dims[0] != d->columns[0].file.type.dims[0])
        return ls_fail(LS_E_USAGE,
                       "%s has %" PRId64 " rows, and %s %" PRId64
                       ": the first dimension is the samples, of which all fields have the same number",
                       c->file.path, t->dims[0], d->columns[0].file.path, d->columns[0].file.type.dims[0]);
    c->each = ls_type_count(t) / t->dims[0];
    if (c->each < 1)
        return ls_fail(LS_E_SHAPE, "%s: it is %s: its samples have no elements", c->file.path,
                       ls_type_text(text, t));
    if (!ls_dtype_is_float(c->as.as) && ls_dtype_is_float(t->dtype) && !c->file.text)
        return ls_fail(LS_E_SHAPE,
                       "%s: it is %s, and \"%s\" must be integers: save array.astype('%s'), if its "
                       "numbers are whole",
                       c->file.path, ls_type_text(text, t), c->as.field, INTEGERS[c->as.as].numpy);
    return LS_OK;
}

/* Gives a field the names of its classes: an array and its texts in one block. */
static ls_status name_classes(const column *c, ls_field *f)
{
    const char *list = c->as.classes;
    int64_t n = 1;
    for (const char *p = list; *p; p++)
        n += *p == ',';
    if (n != c->as.below)
        return ls_fail(LS_E_SHAPE, "%s has %" PRId64 " classes (%.256s), and the model has %" PRId64,
                       c->file.path, n, list, c->as.below);
    const size_t pointers = sizeof(char *) * (size_t)n, bytes = strlen(list) + 1;
    char **names = ls_sys_malloc(pointers + bytes);
    LS_TRY(ls_sys_have(names));
    char *text = memcpy((char *)names + pointers, list, bytes);
    for (int64_t i = 0; i < n; i++) {
        names[i] = text;
        text += strcspn(text, ",");
        *text++ = 0;
    }
    f->names = (const char *const *)names;
    return LS_OK;
}

static ls_status add_field(array_set *d, const column *c, const char *suffix)
{
    const int k = d->set.n_fields;
    ls_type t = { .dtype = c->as.as, .ndim = c->file.type.ndim - 1 };
    memcpy(t.dims, c->file.type.dims + 1, sizeof *t.dims * (size_t)t.ndim);
    d->names[k] = ls_sys_text("%s%s", c->as.field, suffix);
    LS_TRY(ls_sys_have(d->names[k]));
    d->fields[k] = (ls_field){ .name = d->names[k],
                               .type = t,
                               .below = c->as.below,
                               .ignorable = !ls_dtype_is_float(c->as.as) && c->as.ignorable };
    d->set.n_fields++;
    return c->as.classes ? name_classes(c, &d->fields[k]) : LS_OK;
}

/* The file of the first field, with its columns where they are few. */
static ls_status name_source(array_set *d)
{
    enum { MANY = 5, LONG = 60 };
    const column *c = &d->columns[0];
    const char *path = c->file.path, *names = ls_array_file_part(path);
    d->set.source = path;
    for (int k = 0; k < d->n; k++)
        if (d->columns[k].file.cut) {
            c = &d->columns[k];
            d->source = ls_sys_text("%s (%" PRId64 " of %" PRId64 " %s cut to %" PRId64 " tokens)",
                                    c->file.path, c->file.cut, c->file.type.dims[0],
                                    c->file.type.ndim > 2 ? "pairs of texts" : "texts", c->as.tokens);
            return ls_sys_have(d->set.source = d->source);
        }
    if (!c->file.text || c->each < MANY || strlen(path) <= LONG)
        return LS_OK;
    d->set.source = d->source = ls_sys_text("%.*s, %" PRId64 " columns", (int)(strlen(path) - strlen(names)),
                                            path, c->each);
    return ls_sys_have(d->source);
}

static ls_status open_all(array_set *d, const ls_array_field *arrays)
{
    d->set.digest = 0;
    for (int k = 0; k < d->n; k++) {
        column *c = &d->columns[k];
        LS_TRY(check_array(arrays, k));
        c->as = arrays[k];
        LS_TRY(open_column(d, k));
        c->field = d->set.n_fields;
        LS_TRY(add_field(d, c, ""));
        c->as.field = d->names[c->field];
        if (c->as.missing)
            LS_TRY(add_field(d, c, ".valid"));
        if (!c->file.data) /* counting would read every row twice */
            d->set.count = NULL;
        d->parts[k] = (ls_dataset_part){ c->as.field, c->file.path, c->file.digest };
        d->set.digest = ls_hash64_more(d->set.digest, c->as.field, strlen(c->as.field));
        d->set.digest = ls_hash64_more(d->set.digest, &c->file.digest, sizeof c->file.digest);
    }
    d->set.n = d->columns[0].file.type.dims[0];
    return name_source(d);
}

ls_status ls_arrays_open(ls_dataset **out, ls_split split, int n, const ls_array_field *arrays)
{
    LS_ARG(out);
    LS_ARG(arrays);
    LS_ARG_ENUM(ls_split, split, LS_SPLIT_EVAL);
    *out = NULL;
    for (int i = 0; i < n; i++) {
        LS_ARG_DTYPE(arrays[i].as);
        LS_ARG_ENUM(ls_array_range, arrays[i].range, LS_ARRAY_0_TO_1);
    }
    if (n < 1)
        return ls_fail(LS_E_USAGE, "a data set of %d arrays: at least one is needed", n);
    array_set *d = ls_sys_calloc(1, sizeof *d);
    LS_TRY(ls_sys_have(d));
    d->n = n;
    d->columns = ls_sys_calloc((size_t)n, sizeof *d->columns);
    d->fields = ls_sys_calloc(2 * (size_t)n, sizeof *d->fields);
    d->names = ls_sys_calloc(2 * (size_t)n, sizeof *d->names);
    d->parts = ls_sys_calloc((size_t)n, sizeof *d->parts);
    d->set = (ls_dataset){ .name = "arrays",
                           .split = split,
                           .fields = d->fields,
                           .read = arrays_read_sample,
                           .count = count_valid,
                           .close = arrays_close,
                           .parts = d->parts,
                           .n_parts = n };
    const ls_status s = d->columns && d->fields && d->names && d->parts
                            ? open_all(d, arrays)
                            : ls_fail(LS_E_MEMORY, "no memory for a data set of %d arrays", n);
    if (s == LS_OK)
        *out = &d->set;
    else
        arrays_close(&d->set);
    return s;
}

/* ---- a split of the rows */

int64_t ls_arrays_row(const ls_dataset *set, int64_t i)
{
    const array_set *d = (const array_set *)set;
    return set->read == arrays_read_sample && d->rows ? d->rows[i] : -1;
}

ls_status ls_arrays_keep(ls_dataset *set, const int64_t *rows, int64_t n)
{
    array_set *d = (array_set *)set;
    d->rows = ls_sys_malloc(sizeof *rows * (size_t)n);
    LS_TRY(ls_sys_have(d->rows));
    char *source = ls_sys_text("%s (%" PRId64 " of %" PRId64 " rows)", d->set.source, n, d->set.n);
    LS_TRY(ls_sys_have(source));
    memcpy(d->rows, rows, sizeof *rows * (size_t)n);
    free(d->source);
    d->set.source = d->source = source;
    d->set.n = n;
    d->set.digest = ls_hash64_more(d->set.digest, rows, sizeof *rows * (size_t)n);
    return LS_OK;
}

/* The first field of classes, one for each row: rows are divided by it. NULL: all are of one class. */
static const column *classes_of(const array_set *d)
{
    for (int k = 0; k < d->n; k++)
        if (d->columns[k].as.below && d->columns[k].as.as == LS_I32 &&
            d->fields[d->columns[k].field].type.ndim == 0)
            return &d->columns[k];
    return NULL;
}

ls_status ls_arrays_split(ls_dataset **out, ls_split split, double eval_fraction, int n,
                          const ls_array_field *arrays)
{
    LS_TRY(ls_arrays_open(out, split, n, arrays));
    array_set *d = (array_set *)*out;
    const column *c = classes_of(d);
    const int64_t total = d->set.n;
    int64_t *rows = NULL, kept = 0;
    void **to = ls_sys_calloc((size_t)d->set.n_fields, sizeof *to);
    ls_candidate *all = ls_sys_malloc(sizeof *all * (size_t)total);
    ls_status s = eval_fraction > 0 && eval_fraction < 1
                      ? ls_sys_have(to ? all : NULL)
                      : ls_fail(LS_E_ARG, "eval_fraction: %g is not between 0 and 1", eval_fraction);
    for (int64_t i = 0; i < total && s == LS_OK; i++) {
        all[i] = (ls_candidate){ .key = ls_hash64(&i, sizeof i), .sample = i };
        if (c) {
            to[c->field] = &all[i].class;
            s = arrays_read_sample(&d->set, i, to);
        }
    }
    if (s == LS_OK)
        s = ls_held_out(&rows, &kept, split, eval_fraction, all, total, d->set.source);
    if (s == LS_OK)
        s = ls_arrays_keep(&d->set, rows, kept);
    free(rows);
    free(all);
    free(to);
    if (s != LS_OK) {
        arrays_close(&d->set);
        *out = NULL;
    }
    return s;
}
