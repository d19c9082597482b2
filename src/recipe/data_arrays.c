/* data_arrays.c - data.type arrays: what the model makes of each field. */
#include "data_arrays.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/sys.h"
#include "data/array_file.h"
#include "recipe_setting.h"
#include "shared_model.h"

/* What the model does with a field of numbers or classes. */
typedef struct field_use {
    ls_dtype type;
    int64_t below;
    bool ignorable, missing;
    ls_array_range range;
    int64_t tokens; /* of a text; 0: it is none */
    bool tags;      /* classes of its words */
} field_use;

static bool is(const char *name, const char *field) { return name && !strcmp(name, field); }

/* Of what a loss does not say, a module's own graph says it. */
bool ls_recipe_has_tags(const ls_recipe *r, const ls_task_loss *l)
{
    bool tags = false;
    for (int i = 0; i < r->model.outputs.n && ls_model_has_key(ls_recipe_model(r), "pad_token"); i++)
        tags |= is(r->model.outputs.at[i].name, l->of) && r->model.outputs.at[i].type.ndim == 2;
    return tags;
}

static field_use use_of(const ls_recipe *r, const char *field)
{
    const ls_dtype floats = r->precision.param == LS_F64 ? LS_F64 : LS_F32;
    const ls_module_field read = ls_shared_model_field(r, field);
    field_use use = { .type = ls_dtype_is_float(read.type) ? floats : read.type,
                      .ignorable = read.valid,
                      .range = read.weight ? LS_ARRAY_FROM_0 : LS_ARRAY_ANY };
    for (int i = 0; i < r->model.inputs.n && ls_model_has_key(ls_recipe_model(r), "pad_token"); i++) {
        const ls_port *p = &r->model.inputs.at[i];
        if (is(p->name, field))
            return (field_use){ .type = LS_I32,
                                .below = r->model.vocab_size,
                                .tokens = p->type.dims[p->type.ndim - 1] };
    }
    for (int i = 0; i < r->loss.n; i++) {
        const ls_task_loss *l = &r->loss.at[i];
        const bool target = is(l->target ? l->target : l->of, field),
                   labels = l->kind == LS_LOSS_CROSS_ENTROPY;
        if (is(l->weight, field) || is(l->mask, field))
            use.range = LS_ARRAY_FROM_0;
        else if (target && l->kind == LS_LOSS_BCE)
            use.range = LS_ARRAY_0_TO_1;
        use.missing |= target && !labels && r->data.missing == LS_MISSING_MASK;
        if (target && labels)
            use = (field_use){ .type = LS_I32,
                               .below = ls_recipe_loss_classes(r, l),
                               .ignorable = !l->weight };
        if (target && labels && ls_recipe_has_tags(r, l)) {
            use.tokens = r->model.inputs.at[0].type.dims[0];
            use.tags = true;
        }
    }
    return use;
}

ls_status ls_check_arrays(const ls_recipe *r)
{
    if (!r->data.train.n)
        return ls_fail(LS_E_USAGE, "%s: data.type arrays needs data.train: {FIELD: FILE.npy, ...}",
                       ls_recipe_where(r, "data.type"));
    for (int i = 0; i < r->data.class_names.n; i++) {
        bool label = false;
        for (int k = 0; k < r->loss.n; k++)
            label |= r->loss.at[k].kind == LS_LOSS_CROSS_ENTROPY &&
                     is(r->loss.at[k].target ? r->loss.at[k].target : r->loss.at[k].of,
                        r->data.class_names.at[i].field);
        if (!label)
            return ls_fail(LS_E_USAGE, "%s: no loss of type cross_entropy has the target '%s'",
                           ls_recipe_where(r, "data.class_names"), r->data.class_names.at[i].field);
    }
    return LS_OK;
}

/* The column of `file` that has the model's text; it is the one of `list`. */
static const char *column_of_text(const ls_recipe *r, const ls_file_list *list)
{
    const char *text = r->model.inputs.at[0].name;
    for (int i = 0; i < list->n; i++)
        if (is(list->at[i].field, text) && *ls_array_file_part(list->at[i].file))
            return ls_array_file_part(list->at[i].file) + 1;
    return text;
}

ls_array_field ls_recipe_array_field(const ls_recipe *r, const char *field, const char *file)
{
    const field_use use = use_of(r, field);
    return (ls_array_field){ .field = field,
                             .file = file,
                             .as = use.type,
                             .below = use.below,
                             .ignorable = use.ignorable,
                             .range = use.range,
                             .missing = use.missing,
                             .classes = use.below ? ls_recipe_class_names(r, field) : NULL,
                             .tokenizer = use.tokens ? r->data.tokenizer : NULL,
                             .tokens = use.tokens,
                             .pad = (int32_t)r->model.pad_token,
                             .words = use.tags ? column_of_text(r, &r->data.train) : NULL };
}

ls_status ls_open_arrays(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o)
{
    const bool both = !r->data.eval.n && ls_recipe_held_out(r) > 0, train = split == LS_SPLIT_TRAIN || both;
    const char *key = train ? "data.train" : "data.eval";
    const ls_file_list *files = train ? &r->data.train : &r->data.eval;
    ls_array_field arrays[LS_RECIPE_LIST];
    (void)o;
    for (int i = 0; i < files->n; i++)
        arrays[i] = ls_recipe_array_field(r, files->at[i].field, files->at[i].file);
    if (!files->n)
        return ls_fail(LS_E_USAGE,
                       "%s: it is empty, and eval.every_epochs -1 trains on all rows: name files for "
                       "evaluation",
                       ls_recipe_where(r, key));
    const ls_status s = both ? ls_arrays_split(out, split, ls_recipe_held_out(r), files->n, arrays)
                             : ls_arrays_open(out, split, files->n, arrays);
    return s == LS_E_USAGE || s == LS_E_SHAPE || s == LS_E_UNSUPPORTED
               ? ls_fail_in(LS_E_USAGE, "%s", ls_recipe_where(r, key))
               : s;
}

/* The file of a field in the recipe; NULL: it has none. */
static const char *file_of(const ls_recipe *r, const char *field)
{
    const ls_file_list *lists[] = { &r->data.eval, &r->data.train };
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < lists[k]->n; i++)
            if (!strcmp(lists[k]->at[i].field, field))
                return lists[k]->at[i].file;
    return NULL;
}

/* "FIELD=FILE" of this field, else the word for all fields; NULL: neither is there. */
static const char *word_of(const char *field, int n_fields, const char *const *fields, int n,
                           const char *const *words)
{
    const char *all = NULL;
    for (int i = 0; i < n; i++) {
        bool named = false;
        for (int k = 0; k < n_fields && !named; k++) {
            const size_t length = strlen(fields[k]);
            named = !strncmp(words[i], fields[k], length) && words[i][length] == '=';
            if (named && !strcmp(fields[k], field))
                return words[i] + length + 1;
        }
        all = named ? all : words[i];
    }
    return all;
}

/* The file of a field as ls_arrays_open takes it: what the user gives, with the columns of the recipe. */
static ls_status name_rows(char **out, const ls_recipe *r, const char *field, const char *word)
{
    const char *file = file_of(r, field);
    *out = NULL;
    if (!word)
        return ls_fail(LS_E_USAGE, "field \"%s\" has no file: give one file for all fields, or %s=FILE",
                       field, field);
    *out = ls_sys_text("%s%s", word, *ls_array_file_part(word) || !file ? "" : ls_array_file_part(file));
    return ls_sys_have(*out);
}

ls_status ls_recipe_words(ls_array_words *out, const ls_recipe *r, ls_split split, int n_words,
                          const char *const *words)
{
    const ls_port *text = &r->model.inputs.at[0];
    const bool train = split == LS_SPLIT_TRAIN || !r->data.eval.n;
    const ls_file_list *files = train ? &r->data.train : &r->data.eval;
    char *name = NULL;
    ls_status s = LS_OK;
    for (int i = 0; i < files->n && !n_words; i++)
        if (is(files->at[i].field, text->name))
            s = ls_sys_have(name = ls_sys_strdup(files->at[i].file));
    if (n_words)
        s = name_rows(&name, r, text->name, word_of(text->name, 1, &text->name, n_words, words));
    if (s == LS_OK)
        s = ls_array_words_open(out, name, text->name, r->data.tokenizer, text->type.dims[0]);
    free(name);
    return s;
}

ls_status ls_recipe_rows(ls_dataset **out, const ls_recipe *r, int n_fields, const char *const *fields,
                         int n_words, const char *const *words)
{
    ls_array_field arrays[LS_RECIPE_LIST] = { 0 }; /* a model may read no field */
    char *names[LS_RECIPE_LIST] = { NULL };
    ls_status s = LS_OK;
    int whole = 0;
    for (int i = 0; i < n_words; i++)
        whole += !strchr(words[i], '=');
    if (whole > 1)
        return ls_fail(LS_E_USAGE, "%d files for all fields: give one, or FIELD=FILE for each field", whole);
    for (int k = 0; k < n_fields && s == LS_OK; k++) {
        s = name_rows(&names[k], r, fields[k], word_of(fields[k], n_fields, fields, n_words, words));
        arrays[k] = ls_recipe_array_field(r, fields[k], names[k]);
    }
    if (s == LS_OK)
        s = ls_arrays_open(out, LS_SPLIT_EVAL, n_fields, arrays);
    for (int k = 0; k < n_fields; k++)
        free(names[k]);
    return s == LS_E_SHAPE ? ls_fail_in(LS_E_USAGE, "new rows") : s;
}
