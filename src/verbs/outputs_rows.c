/* outputs_rows.c - what `lockstep predict --out FILE.csv|.jsonl` writes of a sample: numbers, or the
 * probabilities of classes under their names. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/shown.h"
#include "base/sys.h"
#include "data/weighted_set.h"
#include "outputs_own.h"

/* The probabilities of an image classifier. */
static bool is_probability(const ls_outputs *j, int k)
{
    const ls_type *t = &j->outputs[k].tensor.type;
    return !strcmp(j->outputs[k].name, "probability") && t->ndim == 2 && t->dims[0] == 1 && t->dims[1] > 1;
}

/* The elements of dimension `dim` and those inside it, as JSON; *i: the next element. */
static void add_nested(ls_str *out, const ls_tensor *t, int dim, int64_t *i)
{
    if (dim == t->type.ndim) {
        ls_outputs_number(out, t, (*i)++, "null");
        return;
    }
    ls_str_add(out, "[");
    for (int64_t k = 0; k < t->type.dims[dim]; k++) {
        ls_str_add(out, k ? "," : "");
        add_nested(out, t, dim + 1, i);
    }
    ls_str_add(out, "]");
}

/* The number of the sample and, if it is a file, its name; if rows were held out, its row of the files. */
static ls_status add_sample(const ls_outputs *j, ls_str *out, int64_t sample, bool json)
{
    ls_json line = { 0 };
    const int64_t row = ls_weighted_row(j->set, sample);
    char *name = j->set->file ? j->set->file(j->set, sample) : NULL;
    if (j->set->file)
        LS_TRY(ls_sys_have(name));
    if (json) {
        ls_json_object(&line, NULL);
        ls_json_int(&line, "sample", sample);
        if (name)
            ls_json_text(&line, "file", name);
        if (row >= 0)
            ls_json_int(&line, "row", row);
        ls_str_add(out, ls_str_text(&line.out));
        ls_str_inherit(out, &line.out);
        ls_str_release(&line.out);
    } else {
        ls_str_printf(out, name ? "%lld," : "%lld", (long long)sample);
        ls_str_add_csv(out, name ? name : "");
        if (row >= 0)
            ls_str_printf(out, ",%lld", (long long)row);
    }
    free(name);
    return LS_OK;
}

const char *ls_outputs_column(char out[160], const ls_outputs *j, int k)
{
    snprintf(out, 160, "%s%s", j->outputs[k].name, j->as[k] == LS_AS_NUMBERS ? "" : ".probability");
    return out;
}

/* Before the probabilities of an output: the class with the highest one. */
static void add_class(const ls_outputs *j, ls_str *out, int k, int64_t row, bool json)
{
    const bool classes = j->as[k] == LS_AS_CLASSES;
    if (!classes && !is_probability(j, k))
        return;
    ls_str name = { 0 };
    ls_outputs_add_class(&name, j, k, ls_outputs_class(j, k, row));
    if (json && classes && !ls_outputs_texts(j, k)) {
        ls_str_printf(out, ",\"%s\":%s", j->outputs[k].name, ls_str_text(&name));
    } else if (json) {
        ls_json text = { 0 };
        ls_json_text(&text, NULL, ls_str_text(&name));
        ls_str_printf(out, ",\"%s\":%s", classes ? j->outputs[k].name : "class", ls_str_text(&text.out));
        ls_str_inherit(out, &text.out);
        ls_str_release(&text.out);
    } else {
        ls_str_add(out, ",");
        ls_str_add_csv(out, ls_str_text(&name));
    }
    ls_str_inherit(out, &name);
    ls_str_release(&name);
}

/* The probabilities by the names of their classes. */
static void add_named(const ls_outputs *j, ls_str *out, int k, int64_t i)
{
    const ls_tensor *t = &j->outputs[k].tensor;
    ls_json all = { 0 };
    ls_str name = { 0 };
    char number[32], column[160];
    ls_json_object(&all, NULL);
    for (int64_t c = 0; c < ls_type_count(&t->type); c++) {
        ls_str_clear(&name);
        ls_outputs_add_class(&name, j, k, c);
        ls_json_raw(&all, ls_str_text(&name), ls_format_f32(number, ((const float *)t->data)[i + c]));
    }
    ls_json_close_object(&all);
    ls_str_inherit(out, &name);
    ls_str_release(&name);
    ls_str_printf(out, ",\"%s\":%s", ls_outputs_column(column, j, k), ls_str_text(&all.out));
    ls_str_inherit(out, &all.out);
    ls_str_release(&all.out);
}

/* A broken image has its name and no numbers. */
static void add_nothing(const ls_outputs *j, ls_str *out, bool json)
{
    char name[160];
    for (int k = 0; k < j->n_outputs; k++) {
        const int64_t count = ls_type_count(&j->outputs[k].tensor.type);
        const int classes = is_probability(j, k) || j->as[k] == LS_AS_CLASSES;
        if (json && classes)
            ls_str_printf(out, ",\"%s\":null", is_probability(j, k) ? "class" : j->outputs[k].name);
        if (json)
            ls_str_printf(out, ",\"%s\":null", ls_outputs_column(name, j, k));
        for (int64_t c = 0; c < count + classes && !json; c++)
            ls_str_add(out, ",");
    }
}

/* The targets of a sample, and the end of its line. */
static void add_targets(const ls_outputs *j, ls_str *out, int64_t row, bool json)
{
    ls_json all = { 0 };
    if (!json) {
        ls_outputs_targets_csv(j, out, row);
        ls_str_add(out, "\n");
        return;
    }
    ls_json_object(&all, NULL);
    ls_outputs_targets_json(j, &all, row);
    ls_json_close_object(&all);
    ls_str_printf(out, "%s%s\n", j->n_targets ? "," : "", ls_str_text(&all.out) + 1);
    ls_str_inherit(out, &all.out);
    ls_str_release(&all.out);
}

ls_status ls_outputs_line(const ls_outputs *j, ls_str *out, int64_t sample, int64_t row, bool json)
{
    char name[160];
    if (ls_outputs_has_words(j))
        return ls_outputs_words_line(j, out, sample, row, json);
    LS_TRY(add_sample(j, out, sample, json));
    if (j->broken[row]) {
        add_nothing(j, out, json);
        add_targets(j, out, row, json);
        return LS_OK;
    }
    for (int k = 0; k < j->n_outputs; k++) {
        const ls_tensor *t = &j->outputs[k].tensor;
        const int64_t count = ls_type_count(&t->type);
        int64_t i = row * count;
        add_class(j, out, k, row, json);
        if (json && (is_probability(j, k) || ls_outputs_texts(j, k)))
            add_named(j, out, k, i);
        else if (json) {
            ls_str_printf(out, ",\"%s\":", ls_outputs_column(name, j, k));
            add_nested(out, t, t->type.dims[0] == 1, &i);
        }
        for (int64_t c = 0; c < count && !json; c++) {
            ls_str_add(out, ",");
            ls_outputs_number(out, t, i + c, NULL);
        }
    }
    add_targets(j, out, row, json);
    return LS_OK;
}

void ls_outputs_header(const ls_outputs *j, ls_str *out)
{
    ls_str column = { 0 };
    char name[160];
    if (ls_outputs_has_words(j)) {
        ls_outputs_words_header(j, out);
        return;
    }
    ls_str_add(out, j->set->file ? "sample,file" : ls_weighted_row(j->set, 0) >= 0 ? "sample,row" : "sample");
    for (int k = 0; k < j->n_outputs; k++) {
        const int64_t count = ls_type_count(&j->outputs[k].tensor.type);
        ls_outputs_column(name, j, k);
        if (is_probability(j, k))
            ls_str_add(out, ",class");
        if (j->as[k] == LS_AS_CLASSES)
            ls_str_printf(out, ",%s", j->outputs[k].name);
        for (int64_t c = 0; c < count; c++)
            if (is_probability(j, k) || ls_outputs_texts(j, k)) {
                ls_str_clear(&column);
                ls_str_printf(&column, "%s.", name);
                ls_outputs_add_class(&column, j, k, c);
                ls_str_add(out, ",");
                ls_str_add_csv(out, ls_str_text(&column));
            } else
                count == 1 ? ls_str_printf(out, ",%s", name)
                           : ls_str_printf(out, ",%s.%lld", name, (long long)c);
    }
    ls_outputs_targets_header(j, out);
    ls_str_add(out, "\n");
    ls_str_inherit(out, &column);
    ls_str_release(&column);
}
