/* recipe_columns.c - writes out which columns of tables data.train and data.eval name, and which classes a
 * column of texts has. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sys.h"
#include "data/array_columns.h"
#include "data/array_file.h"
#include "data_row.h"
#include "recipe_setting.h"

static const char *columns_in(const char *file)
{
    const char *part = ls_columns_table(file) ? ls_array_file_part(file) : "";
    return part + (*part == ':');
}

static const char *train_file(const ls_recipe *r, const char *field)
{
    for (int i = 0; i < r->data.train.n; i++)
        if (!strcmp(r->data.train.at[i].field, field))
            return r->data.train.at[i].file;
    return NULL;
}

/* A table without columns has those of the training. The column of the field's name would be another one. */
static ls_status inherit(char **out, const char *field, const char *file, const char *columns)
{
    bool names = false, own;
    const size_t n = strlen(field);
    for (const char *p = columns; p && !names; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        names = !strncmp(p, field, n) && (!p[n] || p[n] == ',');
    LS_TRY(ls_columns_has(&own, field, file));
    if (own && !names)
        return ls_fail(
            LS_E_USAGE,
            "%s: data.train names the columns \"%s\" for field \"%s\", and this table also has a column "
            "\"%s\": write which, as in \"%s:%s\"",
            file, columns, field, field, file, columns);
    *out = ls_sys_strdup(columns);
    return ls_sys_have(*out);
}

/* The names of the columns that the recipe means; NULL: they are as it has them. What a list names is looked
 * up in the table of the training, whose columns may be in another order than those of another table. */
static ls_status names_of(char **out, const ls_recipe *r, const char *field, const char *file, bool eval)
{
    const char *columns = columns_in(file), *train = eval ? train_file(r, field) : NULL;
    *out = NULL;
    if (!ls_columns_table(file))
        return LS_OK;
    if (train && !*columns && *columns_in(train))
        return inherit(out, field, file, columns_in(train));
    if (!ls_columns_pattern(columns))
        return LS_OK;
    bool exact = false;
    if (train && ls_columns_table(train))
        LS_TRY(ls_columns_has(&exact, columns, file));
    else
        train = file;
    return exact ? LS_OK : ls_columns_of(out, columns, train);
}

/* Sets KEY.FIELD to a text. */
static ls_status set_text(ls_recipe *r, const char *key, const char *field, const char *origin,
                          const char *named)
{
    char *inside = ls_sys_text("%s.%s", key, field);
    ls_str text = { 0 };
    for (const char *p = named; p && *p; p++) /* no variable of the environment */
        ls_str_add_n(&text, p[0] == '$' && p[1] == '{' ? "$$" : p, p[0] == '$' && p[1] == '{' ? 2 : 1);
    ls_json j = { 0 };
    ls_json_text(&j, NULL, ls_str_text(&text));
    ls_str_inherit(&j.out, &text);
    ls_status s = ls_sys_have(named ? inside : NULL);
    if (s == LS_OK)
        s = ls_str_status(&j.out);
    if (s == LS_OK)
        s = ls_recipe_set(r, inside, ls_str_text(&j.out), origin);
    ls_str_release(&j.out);
    ls_str_release(&text);
    free(inside);
    return s;
}

static ls_status set_columns(ls_recipe *r, const char *key, const char *field, const char *file,
                             const char *columns)
{
    const size_t length = strlen(file) - strlen(ls_array_file_part(file));
    char *named = ls_sys_text("%.*s:%s", (int)length, file, columns);
    const ls_status s = set_text(r, key, field, ls_recipe_setting(r->state, key)->origin, named);
    free(named);
    return s;
}

/* Labels that are texts: their names, sorted, are the classes. */
static ls_status name_classes(ls_recipe *r)
{
    for (int i = 0; i < r->loss.n; i++) {
        const ls_task_loss *l = &r->loss.at[i];
        const char *field = l->target ? l->target : l->of, *file = train_file(r, field);
        char *classes = NULL;
        if (l->kind != LS_LOSS_CROSS_ENTROPY || !file || !ls_columns_table(file) ||
            ls_recipe_class_names(r, field))
            continue;
        const char *origin = ls_recipe_setting(r->state, "data.train")->origin;
        ls_status s = ls_columns_classes(&classes, file, field, ls_recipe_has_tags(r, l));
        if (s != LS_OK)
            s = ls_fail_in(s == LS_E_UNSUPPORTED ? LS_E_USAGE : s, "%s", ls_recipe_where(r, "data.train"));
        if (s == LS_OK && classes)
            s = set_text(r, "data.class_names", field, origin, classes);
        free(classes);
        LS_TRY(s);
    }
    return LS_OK;
}

ls_status ls_recipe_name_columns(ls_recipe *r)
{
    if (strcmp(r->data.type, "arrays"))
        return LS_OK;
    for (int eval = 0; eval < 2; eval++) {
        const char *key = eval ? "data.eval" : "data.train";
        const int n = eval ? r->data.eval.n : r->data.train.n;
        for (int i = 0; i < n; i++) {
            /* ls_recipe_set moves the values: the list is looked at anew */
            const ls_file_list *l = eval ? &r->data.eval : &r->data.train;
            const char *field = l->at[i].field, *file = l->at[i].file;
            char *columns;
            ls_status s = names_of(&columns, r, field, file, eval);
            if (s != LS_OK)
                s = ls_fail_in(s, "%s", ls_recipe_where(r, key));
            if (s == LS_OK && columns && strcmp(columns, columns_in(file)))
                s = set_columns(r, key, field, file, columns);
            free(columns);
            LS_TRY(s);
        }
    }
    return name_classes(r);
}
