/* args_take.c - the options of a command line as a struct, checked as their rows say. */
#include <string.h>

#include "cli.h"

static const ls_option_row *rows_of_option(const ls_args *a, const ls_option_row *o)
{
    const ls_option_row *const lists[] = { a->verb->options, LS_RECIPE_OPTIONS, LS_COMMON_OPTIONS };
    for (int l = 0; l < 2; l++)
        if (ls_option_find(lists[l], o->name, strlen(o->name)) == o)
            return lists[l];
    return lists[2];
}

static const ls_given *find_given(const ls_args *a, const ls_option_row *o)
{
    const ls_given *last = NULL;
    for (int i = 0; i < a->n_given; i++)
        if (a->given[i].option == o)
            last = &a->given[i];
    return last;
}

static const ls_given *find_named(const ls_args *a, const ls_option_row *rows, const char *condition)
{
    return find_given(a, ls_option_find(rows, condition, strcspn(condition, " ")));
}

static bool condition_is_met(const ls_args *a, const ls_option_row *rows, const char *condition)
{
    const ls_given *g = find_named(a, rows, condition);
    return g && ls_option_meets(g->option, condition, g->value);
}

static void add_why(ls_str *text, const ls_option_row *o)
{
    if (o->why)
        ls_str_printf(text, ": %s", o->why);
}

static ls_status refuse_options(ls_str *text)
{
    const ls_status s = ls_fail(LS_E_USAGE, "%s", ls_str_text(text));
    ls_str_release(text);
    return s;
}

/* "--top-k needs --temperature T, not --temperature 0" */
static ls_status check_needs(const ls_args *a, const ls_option_row *rows, const ls_option_row *o)
{
    ls_str text = { 0 };
    for (int i = 0; o->needs[i]; i++)
        if (condition_is_met(a, rows, o->needs[i]))
            return LS_OK;
    ls_str_printf(&text, "%s needs ", o->name);
    ls_option_conditions(&text, rows, o->needs, true);
    for (int i = 0; o->needs[i]; i++) {
        const ls_given *g = find_named(a, rows, o->needs[i]);
        if (g && g->value)
            ls_str_printf(&text, ", not %s %s", g->option->name, g->value);
    }
    add_why(&text, o);
    return refuse_options(&text);
}

static ls_status check_excludes(const ls_args *a, const ls_option_row *rows, const ls_given *g)
{
    const ls_option_row *o = g->option;
    if (!ls_option_meets(o, o->name, g->value)) /* it has its default */
        return LS_OK;
    for (int i = 0; o->excludes[i]; i++) {
        const ls_given *other = find_named(a, rows, o->excludes[i]);
        if (!other || !ls_option_meets(other->option, o->excludes[i], other->value))
            continue;
        ls_str text = { 0 };
        const bool value = strchr(o->excludes[i], ' ') != NULL;
        ls_str_printf(&text, "%s and %s%s%s: give one of them", o->name, other->option->name,
                      value ? " " : "", value ? other->value : "");
        add_why(&text, o);
        return refuse_options(&text);
    }
    return LS_OK;
}

ls_status ls_args_check(const ls_args *a)
{
    for (int i = 0; i < a->n_given; i++)
        LS_TRY(ls_option_read(a->given[i].option, a->given[i].value, NULL));
    for (int i = 0; i < a->n_given; i++) {
        const ls_option_row *o = a->given[i].option, *rows = rows_of_option(a, o);
        if (o->needs)
            LS_TRY(check_needs(a, rows, o));
        if (o->excludes)
            LS_TRY(check_excludes(a, rows, find_given(a, o)));
    }
    return LS_OK;
}

ls_status ls_args_take(const ls_args *a, const ls_option_row *rows, void *out)
{
    for (const ls_option_row *o = rows; o->name; o++)
        if (o->fallback)
            LS_TRY(ls_option_read(o, o->fallback, out));
    for (int i = 0; i < a->n_given; i++)
        if (rows_of_option(a, a->given[i].option) == rows)
            LS_TRY(ls_option_read(a->given[i].option, a->given[i].value, out));
    return LS_OK;
}
