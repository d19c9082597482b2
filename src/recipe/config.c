/* config.c - what a module asks of a map of the recipe. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/str.h"
#include "base/sys.h"

ls_status ls_config_open(ls_config *c, ls_arena *arena, const char *json, const char *where,
                         const char *module)
{
    *c = (ls_config){ .arena = arena, .where = where, .module = module };
    LS_TRY(ls_json_parse(&c->root, json, strlen(json), where));
    c->asked = json_object();
    return ls_sys_have(c->asked);
}

void ls_config_close(ls_config *c)
{
    json_decref(c->root);
    json_decref(c->asked);
    c->root = c->asked = NULL;
}

static void config_refuse(ls_config *c, ls_status s)
{
    if (c->status != LS_OK)
        return;
    c->status = s;
    snprintf(c->message, sizeof c->message, "%s", ls_error_message());
}

/* The value of a key or a path of keys; NULL: the recipe does not have it. */
static const json_t *config_find(const ls_config *c, const char *key)
{
    const json_t *at = c->root;
    char part[128];
    for (const char *dot; at && (dot = strchr(key, '.')); key = dot + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - key), key);
        at = json_object_get(at, part);
    }
    return json_object_get(at, key);
}

static void config_keep(ls_config *c, const char *key, json_t *value)
{
    if (!value || json_object_set_new(c->asked, key, value))
        config_refuse(c, ls_fail(LS_E_MEMORY, "%s: out of memory", c->where));
}

/* "mine.yaml:3: model.config.hidden: a whole number is needed here, not "many"" */
static void wrong(ls_config *c, const char *key, const char *what, const json_t *is)
{
    char *text = json_dumps(is, JSON_COMPACT | JSON_ENCODE_ANY);
    config_refuse(c, ls_fail(LS_E_USAGE, "%s.%s: %s is needed here, not %s", c->where, key, what,
                             text ? text : "this"));
    free(text);
}

int64_t ls_config_int(ls_config *c, const char *key, int64_t by_default, int64_t least, int64_t most)
{
    LS_ARG_OR(c, by_default);
    LS_ARG_OR(key, by_default);
    const json_t *v = config_find(c, key);
    const double real = json_is_real(v) ? json_real_value(v) : 0.5;
    int64_t x = v ? (int64_t)json_integer_value(v) : by_default;
    if (v && json_is_real(v) && real == floor(real) && fabs(real) < 9e15)
        x = (int64_t)real;
    else if (v && !json_is_integer(v)) {
        wrong(c, key, "a whole number", v);
        x = by_default;
    }
    if (x < least || x > most) {
        config_refuse(c, ls_fail(LS_E_USAGE, "%s.%s: %lld is out of range (from %lld, up to %lld)", c->where,
                                 key, (long long)x, (long long)least, (long long)most));
        x = by_default;
    }
    config_keep(c, key, json_integer(x));
    return x;
}

double ls_config_float(ls_config *c, const char *key, double by_default, double least, double most)
{
    LS_ARG_OR(c, by_default);
    LS_ARG_OR(key, by_default);
    const json_t *v = config_find(c, key);
    double x = v ? json_number_value(v) : by_default;
    if (v && !json_is_number(v)) {
        wrong(c, key, "a number", v);
        x = by_default;
    }
    if (!(x >= least && x <= most)) {
        config_refuse(c, ls_fail(LS_E_USAGE, "%s.%s: %g is out of range (from %g, up to %g)", c->where, key,
                                 x, least, most));
        x = by_default;
    }
    if (isfinite(x))
        config_keep(c, key, json_real(x));
    return x;
}

bool ls_config_bool(ls_config *c, const char *key, bool by_default)
{
    LS_ARG_OR(c, by_default);
    LS_ARG_OR(key, by_default);
    const json_t *v = config_find(c, key);
    if (v && !json_is_boolean(v))
        wrong(c, key, "true or false", v);
    const bool x = json_is_boolean(v) ? json_is_true(v) : by_default;
    config_keep(c, key, json_boolean(x));
    return x;
}

const char *ls_config_text(ls_config *c, const char *key, const char *by_default)
{
    LS_ARG_OR(c, by_default);
    LS_ARG_OR(key, by_default);
    const json_t *v = config_find(c, key);
    const char *x = by_default;
    if (json_is_string(v))
        x = ls_arena_strdup(c->arena, json_string_value(v));
    else if (v)
        wrong(c, key, "a text", v);
    else if (!x)
        config_refuse(c, ls_fail(LS_E_USAGE, "%s.%s: %s needs this key", c->where, key, c->module));
    if (x)
        config_keep(c, key, json_string(x));
    return x;
}

/* ---- keys that nobody asked for */

static bool is_asked(const ls_config *c, const char *path)
{
    const size_t n = strlen(path);
    const char *key;
    json_t *value;
    json_object_foreach(c->asked, key, value)
    {
        if (!strcmp(key, path) || (!strncmp(key, path, n) && key[n] == '.'))
            return true;
    }
    return false;
}

static ls_status unknown(const ls_config *c, const char *path)
{
    const char *names[256], *key;
    json_t *value;
    int n = 0;
    ls_str all = { 0 };
    json_object_foreach(c->asked, key, value)
    {
        if (n < 256)
            names[n++] = key;
        ls_str_printf(&all, "%s%s", all.len ? ", " : "", key);
    }
    const char *near = ls_nearest_name(path, names, n);
    const ls_status s = ls_fail(LS_E_USAGE, "%s.%s: %s has no such key%s%s%s (%s%s)", c->where, path,
                                c->module, near ? "; did you mean " : "", near ? near : "", near ? "?" : "",
                                all.len ? "it has " : "it has none", ls_str_text(&all));
    ls_str_release(&all);
    return s;
}

static ls_status check_asked(const ls_config *c, const json_t *map, const char *prefix)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        char path[512];
        snprintf(path, sizeof path, "%s%s", prefix, key);
        if (!is_asked(c, path))
            return unknown(c, path);
        if (json_is_object(value)) {
            strncat(path, ".", sizeof path - strlen(path) - 1);
            LS_TRY(check_asked(c, value, path));
        }
    }
    return LS_OK;
}

ls_status ls_config_status(ls_config *c)
{
    return c->status != LS_OK ? ls_fail(c->status, "%s", c->message) : check_asked(c, c->root, "");
}

/* "a.b": 1 becomes {"a": {"b": 1}}. */
static int place(json_t *map, const char *key, json_t *value)
{
    const char *dot = strchr(key, '.');
    char part[128];
    if (!dot)
        return json_object_set(map, key, value);
    snprintf(part, sizeof part, "%.*s", (int)(dot - key), key);
    json_t *inner = json_object_get(map, part);
    if (!inner && json_object_set_new(map, part, inner = json_object()))
        return -1;
    return json_is_object(inner) ? place(inner, dot + 1, value) : 0;
}

static void add_value(ls_json *j, const char *key, const json_t *v)
{
    const char *name;
    json_t *value;
    if (json_is_object(v)) {
        ls_json_object(j, key);
        json_object_foreach((json_t *)(uintptr_t)v, name, value) { add_value(j, name, value); }
        ls_json_close_object(j);
    } else if (json_is_integer(v)) {
        ls_json_int(j, key, json_integer_value(v));
    } else if (json_is_real(v)) {
        ls_json_f64(j, key, json_real_value(v));
    } else if (json_is_boolean(v)) {
        ls_json_bool(j, key, json_is_true(v));
    } else {
        ls_json_text(j, key, json_string_value(v));
    }
}

char *ls_config_resolved(const ls_config *c)
{
    json_t *all = json_object(), *value;
    const char *key;
    ls_json j = { 0 };
    bool whole = all != NULL;
    json_object_foreach(c->asked, key, value) { whole = whole && place(all, key, value) == 0; }
    add_value(&j, NULL, all);
    json_decref(all);
    if (!whole)
        ls_str_release(&j.out);
    return whole ? ls_str_take(&j.out) : NULL;
}
