/* recipe_print.c - a loaded recipe as text: all of it as YAML, one value, where a value comes from, and how
 * two recipes differ. */
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "recipe_check.h"
#include "recipe_fields.h"

/* Appends the value as files get it: of a text from an environment variable they get its name, `sealed` if a
 * run may not continue with another value. Only a text can be a secret; other values are numbers and known
 * words. The names of the run and of its storage are the names of folders, for all to see. */
static void record(const ls_key *k, const ls_recipe *r, bool sealed, ls_str *out)
{
    const bool text = k->kind == LS_KEY_TEXT || k->kind == LS_KEY_PATHS || k->kind == LS_KEY_FILES ||
                      k->kind == LS_KEY_TREE;
    const ls_yaml *v = ls_recipe_setting(r->state, k->key)->value;
    if (v && text && strncmp(k->key, "run.", 4) && ls_yaml_has_names(v))
        ls_yaml_record(out, v, sealed);
    else
        ls_key_print(k, r, out);
}

void ls_key_record(const ls_key *k, const ls_recipe *r, ls_str *out) { record(k, r, !k->may_change, out); }

/* A value in a map of any keys, as JSON. */
static void print_inside(ls_str *out, const ls_yaml *v, bool sealed)
{
    ls_str json = { 0 };
    if (ls_yaml_has_names(v)) {
        ls_yaml_record(out, v, sealed);
        return;
    }
    ls_yaml_json(&json, v);
    ls_value_print_tree(out, ls_str_text(&json));
    ls_str_inherit(out, &json);
    ls_str_release(&json);
}

static void end_line(ls_str *out, size_t begin, const char *origin)
{
    const int pad = 44 - (int)(out->len - begin);
    if (origin)
        ls_str_printf(out, "%*s  # %s", pad > 0 ? pad : 0, "", origin);
    ls_str_add(out, "\n");
}

/* The values of a map of any keys, each with its origin. */
static void print_map_lines(ls_str *out, const ls_yaml *map, int indent, bool sealed)
{
    for (const ls_yaml *c = ls_yaml_real(map)->child; c; c = c->next) {
        const ls_yaml *v = ls_yaml_real(c);
        const size_t begin = out->len;
        ls_str_printf(out, "%*s", indent, "");
        ls_yaml_print_text(out, c->key);
        if (v->kind == LS_YAML_MAP && v->child) {
            ls_str_add(out, ":\n");
            print_map_lines(out, v, indent + 2, sealed);
        } else {
            ls_str_add(out, ": ");
            print_inside(out, v, sealed);
            end_line(out, begin, c->origin ? c->origin : "");
        }
    }
}

/* The table has the keys in the order of this text: those of a section follow each other, and so do those of
 * a group in it ("parallel.prefetch"). */
char *ls_recipe_yaml(const ls_recipe *r, bool origins)
{
    LS_ARG_OR(r, NULL);
    ls_str out = { 0 };
    char open[64] = "";
    for (int i = 0; i < ls_key_count(); i++) {
        const ls_key *k = ls_key_at(i);
        if (!ls_key_applies(k, r))
            continue;
        const char *rest = k->key;
        int indent = 0;
        for (const char *dot; (dot = strchr(rest, '.')); rest = dot + 1, indent += 2) {
            int length = (int)(dot + 1 - k->key); /* "parallel.prefetch." */
            if (strncmp(open, k->key, (size_t)length))
                ls_str_printf(&out, "%*s%.*s:\n", indent, "", (int)(dot - rest), rest);
        }
        snprintf(open, sizeof open, "%.*s", (int)(rest - k->key), k->key);
        size_t begin = out.len;
        const ls_setting *set = &r->state->set[i];
        const ls_yaml *map = set->shown ? set->shown : set->value;
        if (origins && k->kind == LS_KEY_TREE && map && ls_yaml_real(map)->child) {
            ls_str_printf(&out, "%*s%s:\n", indent, "", rest);
            print_map_lines(&out, map, indent + 2, !k->may_change);
            continue;
        }
        ls_str_printf(&out, "%*s%s: ", indent, "", rest);
        ls_key_record(k, r, &out);
        end_line(&out, begin, origins ? ls_recipe_origin(r, k->key) : NULL);
    }
    return ls_str_take(&out);
}

/* The value of "model.config.hidden"; NULL: the recipe does not have it. */
static const ls_yaml *inside(const ls_recipe *r, const char *key)
{
    for (int i = 0; i < ls_key_count(); i++) {
        const ls_key *k = ls_key_at(i);
        const size_t n = strlen(k->key);
        const ls_setting *set = &r->state->set[i];
        if (k->kind == LS_KEY_TREE && !strncmp(k->key, key, n) && key[n] == '.' && (set->shown || set->value))
            return ls_yaml_at(set->shown ? set->shown : set->value, key + n + 1);
    }
    return NULL;
}

char *ls_recipe_value(const ls_recipe *r, const char *key)
{
    LS_ARG_OR(r, NULL);
    LS_ARG_OR(key, NULL);
    int row = ls_key_find(key);
    const ls_yaml *v = row < 0 ? inside(r, key) : NULL;
    ls_str out = { 0 };
    if (v) {
        ls_yaml_json(&out, v);
        return ls_str_take(&out);
    }
    if (row < 0)
        return NULL;
    ls_key_print(ls_key_at(row), r, &out);
    return ls_str_take(&out);
}

const char *ls_recipe_origin(const ls_recipe *r, const char *key)
{
    LS_ARG_OR(r, NULL);
    LS_ARG_OR(key, NULL);
    int row = ls_key_find(key);
    const ls_yaml *v = row < 0 ? inside(r, key) : NULL;
    if (row < 0)
        return v ? v->origin : NULL;
    if (!strcmp(key, "parallel.reshard_after_forward") && ls_recipe_resharding_is_implied(r))
        row = ls_key_find("parallel.data");
    return r->state->set[row].value ? r->state->set[row].origin : "default";
}

/* Whether two starts of one run must have the same value of the key. */
static bool is_identity(const ls_key *k, const ls_recipe *r)
{
    return !k->may_change && ls_key_applies(k, r);
}

char *ls_recipe_difference(const ls_recipe *here, const ls_recipe *there)
{
    LS_ARG_OR(here, NULL);
    LS_ARG_OR(there, NULL);
    ls_str out = { 0 };
    for (int i = 0; i < ls_key_count(); i++) {
        const ls_key *k = ls_key_at(i);
        const ls_yaml *v = ls_recipe_setting(there->state, k->key)->value;
        const bool differs = is_identity(k, there) && v && ls_yaml_differs(v);
        ls_str a = { 0 }, b = { 0 };
        if (is_identity(k, here))
            ls_key_print(k, here, &a);
        if (is_identity(k, there))
            ls_key_print(k, there, &b);
        if (differs || strcmp(ls_str_text(&a), ls_str_text(&b))) {
            ls_str_clear(&a);
            ls_str_clear(&b);
            if (is_identity(k, here))
                record(k, here, false, &a);
            if (is_identity(k, there))
                record(k, there, false, &b);
            ls_str_printf(&out, "%s%s: %s here, %s%s there", out.len ? "; " : "", k->key,
                          a.len ? a.data : "(none)", differs ? "another value of " : "",
                          b.len ? b.data : "(none)");
        }
        ls_str_inherit(&out, &a);
        ls_str_inherit(&out, &b);
        ls_str_release(&a);
        ls_str_release(&b);
    }
    return ls_str_take(&out);
}
