/* option_text.c - finds rows by name, and puts one in words: its range, the options that it needs. */
#include <math.h>
#include <string.h>

#include "option.h"
#include "recipe/recipe_fields.h"

const ls_option_row *ls_option_find(const ls_option_row *rows, const char *name, size_t n)
{
    for (; rows && rows->name; rows++)
        if (strlen(rows->name) == n && !strncmp(rows->name, name, n))
            return rows;
    return NULL;
}

static const ls_key *option_key(const ls_option_row *o)
{
    return o->key && *o->key ? ls_key_named(o->key) : NULL;
}

static const char *option_word(const ls_option_row *o, const ls_key *k, int i)
{
    return k ? ls_key_word(k, i) : o->words[i];
}

void ls_option_words(ls_str *out, const ls_option_row *o, const char *between, const char *last)
{
    const ls_key *k = option_key(o);
    const bool choice = k ? k->kind == LS_KEY_CHOICE || k->kind == LS_KEY_WORD : o->words != NULL;
    const char *word = NULL, *next = NULL;
    for (int i = 0; choice && (word = i ? next : option_word(o, k, 0)); i++) {
        next = option_word(o, k, i + 1);
        ls_str_printf(out, "%s%s", !i ? "" : next ? between : last, word);
    }
}

void ls_option_range(ls_str *out, const ls_option_row *o, bool high)
{
    const ls_key *k = option_key(o);
    const double min = k ? k->min : o->min, max = k ? k->max : o->max;
    const bool above = k ? k->above : o->above;
    if (!(max > min))
        return;
    ls_str_printf(out, " %s %.12g", above ? "above" : "from", min);
    if (isinf(max) || (!high && max > 1e5))
        ls_str_add(out, above ? "" : " up");
    else
        ls_str_printf(out, " %s %.12g", above ? "up to" : "to", max);
}

void ls_option_usage(ls_str *out, const ls_option_row *o)
{
    const bool optional = o->value && *o->value == '[';
    ls_str_add(out, o->name);
    if (o->kind == LS_OPTION_FLAG)
        return;
    ls_str_add(out, optional ? "[=" : " ");
    if (!o->value || o->kind == LS_OPTION_FOLDER)
        ls_option_words(out, o, "|", "|");
    if (o->value)
        ls_str_printf(out, "%s%s", o->words && o->kind == LS_OPTION_FOLDER ? "|" : "", o->value + optional);
}

/* "--beams N"; "--out FILE.npy or FILE.csv": the patterns, with the name of the value for a leading *. */
static void add_option_condition(ls_str *out, const ls_option_row *o, const char *condition, bool value)
{
    const char *pattern = condition + strlen(o->name);
    const bool names = *pattern && pattern[1] != '!';
    ls_str_add(out, o->name);
    if (!names && value && o->value)
        ls_str_printf(out, " %s", o->value);
    if (!names)
        return;
    ls_str_add(out, " ");
    while (*pattern) {
        const size_t n = strcspn(++pattern, " ");
        const bool any = *pattern == '*';
        ls_str_printf(out, "%s%.*s", any ? o->value : "", (int)n - any, pattern + any);
        pattern += n;
        if (*pattern)
            ls_str_add(out, strchr(pattern + 1, ' ') ? ", " : " or ");
    }
}

void ls_option_conditions(ls_str *out, const ls_option_row *rows, const char *const *list, bool value)
{
    for (int i = 0; list[i]; i++) {
        const ls_option_row *o = ls_option_find(rows, list[i], strcspn(list[i], " "));
        ls_str_add(out, !i ? "" : list[i + 1] ? ", " : " or ");
        add_option_condition(out, o, list[i], value);
    }
}

void ls_option_help(ls_str *out, const ls_option_row *rows, const ls_option_row *o)
{
    char limits[512];
    ls_str in = LS_STR_IN(limits);
    if (o->needs) {
        ls_str_add(out, "with ");
        ls_option_conditions(out, rows, o->needs, false);
        ls_str_add(out, ": ");
    }
    ls_str_add(out, o->help);
    if (o->key && *o->key)
        ls_str_printf(out, "; short for --set %s=%s", o->key, o->value);
    if (o->value && o->kind != LS_OPTION_FOLDER) /* else the value shows them */
        ls_option_words(&in, o, ", ", " or ");
    ls_option_range(&in, o, false);
    if (o->fallback || o->otherwise)
        ls_str_printf(&in, "%sdefault%s %s", in.len ? "; " : "", o->fallback ? "" : ":",
                      o->fallback ? o->fallback : o->otherwise);
    if (o->excludes) {
        ls_str_add(&in, in.len ? "; not with " : "not with ");
        ls_option_conditions(&in, rows, o->excludes, false);
    }
    const char *text = ls_str_text(&in);
    if (*text)
        ls_str_printf(out, " (%s)", text + (*text == ' '));
    ls_str_inherit(out, &in);
    ls_str_release(&in);
}
