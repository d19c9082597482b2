/* recipe_value.c - a value of each kind: from YAML with a message that says what was expected, and back to
 * YAML. */
#include "recipe_fields.h"
#include "base/check.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_WORDS = 64 };
#define MEMBER(type, r, k) ((type *)((char *)(r) + (k)->offset))
#define CONST_MEMBER(type, r, k) ((const type *)((const char *)(r) + (k)->offset))

const char *ls_key_word(const ls_key *k, int i) { return k->words ? k->words[i] : k->word(i); }

bool ls_key_accepts(const ls_key *k, const char *word) { return !k->now || ls_words_have(k->now, word); }

void ls_key_words(ls_str *out, const ls_key *k)
{
    const char *word, *between = "";
    for (int i = 0; (word = ls_key_word(k, i)); i++)
        if (ls_key_accepts(k, word)) {
            ls_str_printf(out, "%s%s", between, word);
            between = ", ";
        }
}

/* Whole numbers, also as 1e6. A double is exact only up to 2^53, so plain digits are read as an integer. */
static bool parse_int(const char *text, int64_t *out)
{
    double x;
    if (!ls_key_parse_real(text, &x) || x != floor(x) || fabs(x) > 9e18)
        return false;
    *out = strpbrk(text, ".eE") ? (int64_t)x : strtoll(text, NULL, 10);
    return true;
}

static const char *range_text(const ls_key *k, char buffer[96])
{
    char low[32], high[32];
    ls_format_f64(low, k->min);
    ls_format_f64(high, k->max);
    const char *above = k->above ? "above " : "from ", *below = k->below ? "below " : "up to ";
    snprintf(buffer, 96, "%s%s, %s%s", above, low, below, high);
    return buffer;
}

static bool in_range(const ls_key *k, double x)
{
    return (k->above ? x > k->min : x >= k->min) && (k->below ? x < k->max : x <= k->max);
}

static ls_status wants(const char *where, const char *what, const char *got)
{
    return ls_fail(LS_E_USAGE, "%s: %s is needed here, not '%s'", where, what, got);
}

static const char *shape_name(const ls_yaml *n)
{
    return n->kind == LS_YAML_LIST ? "[...]" : n->kind == LS_YAML_MAP ? "{...}" : n->text;
}

static ls_status read_int(const ls_key *k, const ls_yaml *v, const char *where, int64_t *out)
{
    char range[96];
    if (v->kind != LS_YAML_SCALAR || !parse_int(v->text, out))
        return wants(where, "a whole number", shape_name(v));
    if (!in_range(k, (double)*out))
        return ls_fail(LS_E_USAGE, "%s: %s is out of range (%s)", where, v->text, range_text(k, range));
    return LS_OK;
}

/* 0,25 and 25% are 0.25. */
static ls_status wants_number(const ls_yaml *v, const char *where)
{
    char text[40], number[32];
    double x;
    snprintf(text, sizeof text, "%s", shape_name(v));
    const size_t last = strlen(text) - (*text != 0);
    const bool percent = text[last] == '%';
    char *comma = strchr(text, ',');
    if (percent)
        text[last] = 0;
    else if (comma)
        *comma = '.';
    if ((!percent && !comma) || !ls_key_parse_real(text, &x))
        return wants(where, "a number", shape_name(v));
    return ls_fail(LS_E_USAGE, "%s: a number is needed here, not '%s': write %s", where, shape_name(v),
                   ls_format_f64(number, percent ? x / 100 : x));
}

static ls_status read_real(const ls_key *k, const ls_yaml *v, const char *where, double *out)
{
    char range[96];
    if (v->kind != LS_YAML_SCALAR || !ls_key_parse_real(v->text, out))
        return wants_number(v, where);
    if (!in_range(k, *out))
        return ls_fail(LS_E_USAGE, "%s: %s is out of range (%s)", where, v->text, range_text(k, range));
    return LS_OK;
}

static ls_status read_bool(const ls_yaml *v, const char *where, bool *out)
{
    if (v->kind != LS_YAML_SCALAR || (strcmp(v->text, "true") && strcmp(v->text, "false")))
        return wants(where, "true or false", shape_name(v));
    *out = v->text[0] == 't';
    return LS_OK;
}

static ls_status read_word(const ls_key *k, const ls_yaml *v, const char *where, int *out)
{
    const char *words[MOST_WORDS], *word; /* the first ones, for a guess at what was meant */
    int n = 0;
    for (int i = 0; (word = ls_key_word(k, i)); i++) {
        if (v->kind == LS_YAML_SCALAR && !strcmp(word, v->text)) {
            *out = i;
            return LS_OK;
        }
        if (n < MOST_WORDS)
            words[n++] = word;
    }
    ls_str all = { 0 };
    ls_key_words(&all, k);
    const char *near = v->kind == LS_YAML_SCALAR ? ls_nearest_name(v->text, words, n) : NULL;
    if (near && !ls_key_accepts(k, near))
        near = NULL;
    ls_status s = near ? ls_fail(LS_E_USAGE, "%s: there is no '%s'; did you mean '%s'? (one of: %s)", where,
                                 shape_name(v), near, ls_str_text(&all))
                       : ls_fail(LS_E_USAGE, "%s: one of %s is needed here, not '%s'", where,
                                 ls_str_text(&all), shape_name(v));
    ls_str_release(&all);
    return s;
}

/* The value that another name stands for: with "NO_SHARD ddp" in the list, ddp for no_shard. NULL: the list
 * lacks the name. */
static const char *other_name(const char *const *other, const char *text)
{
    for (int i = 0; other && other[i]; i++) {
        size_t n = strcspn(other[i], " ");
        if (strlen(text) == n && !strncasecmp(other[i], text, n))
            return other[i] + n + 1;
    }
    return NULL;
}

static ls_status read_bytes(const ls_key *k, const ls_yaml *v, const char *where, int64_t *out)
{
    char range[96];
    if (v->kind != LS_YAML_SCALAR || !ls_parse_bytes(v->text, out))
        return wants(where, "a size such as 512MiB", shape_name(v));
    if (!in_range(k, (double)*out))
        return ls_fail(LS_E_USAGE, "%s: %s is out of range (%s bytes)", where, v->text, range_text(k, range));
    return LS_OK;
}

static ls_status read_ints(const ls_key *k, const ls_yaml *v, const char *where, ls_int_list *out)
{
    if (v->kind != LS_YAML_LIST)
        return wants(where, "a list such as [128, 64]", shape_name(v));
    *out = (ls_int_list){ 0 };
    for (const ls_yaml *c = v->child; c; c = c->next) {
        if (out->n == LS_RECIPE_LIST)
            return ls_fail(LS_E_USAGE, "%s: more than %d entries", where, LS_RECIPE_LIST);
        LS_TRY(read_int(k, ls_yaml_real(c), where, &out->at[out->n++]));
    }
    return LS_OK;
}

static ls_status read_pair(const ls_key *k, const ls_yaml *v, const char *where, double out[2])
{
    int n = 0;
    for (const ls_yaml *c = v->kind == LS_YAML_LIST ? v->child : NULL; c; c = c->next)
        n++;
    if (n != 2)
        return wants(where, "a list of two numbers such as [0.9, 0.999]", shape_name(v));
    LS_TRY(read_real(k, ls_yaml_real(v->child), where, &out[0]));
    return read_real(k, ls_yaml_real(v->child->next), where, &out[1]);
}

static ls_status read_reals(const ls_key *k, const ls_yaml *v, const char *where, ls_real_list *out)
{
    *out = (ls_real_list){ .n = 1 };
    if (v->kind == LS_YAML_SCALAR)
        return read_real(k, v, where, &out->at[0]);
    out->n = 0;
    for (const ls_yaml *c = v->kind == LS_YAML_LIST ? v->child : NULL; c; c = c->next) {
        if (out->n == LS_RECIPE_LIST)
            return ls_fail(LS_E_USAGE, "%s: more than %d entries", where, LS_RECIPE_LIST);
        LS_TRY(read_real(k, ls_yaml_real(c), where, &out->at[out->n++]));
    }
    return out->n ? LS_OK : wants(where, "a number, or a list such as [0.5, 0.4, 0.4]", shape_name(v));
}

static ls_status read_range(const ls_key *k, const ls_yaml *v, const char *where, int64_t out[2])
{
    if (v->kind == LS_YAML_SCALAR) {
        LS_TRY(read_int(k, v, where, &out[0]));
        out[1] = out[0];
        return LS_OK;
    }
    bool seen[2] = { false, false };
    for (const ls_yaml *c = v->kind == LS_YAML_MAP ? v->child : NULL; c; c = c->next) {
        int i = !strcmp(c->key, "min") ? 0 : !strcmp(c->key, "max") ? 1 : -1;
        if (i < 0)
            return ls_fail(LS_E_USAGE, "%s: no key '%s' here, only min and max", where, c->key);
        seen[i] = true;
        LS_TRY(read_int(k, ls_yaml_real(c), where, &out[i]));
    }
    if (!seen[0] || !seen[1])
        return wants(where, "a whole number or {min: A, max: B}", shape_name(v));
    if (out[0] > out[1])
        return ls_fail(LS_E_USAGE, "%s: min %lld is above max %lld", where, (long long)out[0],
                       (long long)out[1]);
    return LS_OK;
}

static const char *const ROLES[] = {
    [LS_ROLE_OF_NAME] = "",      [LS_ROLE_REPLICATE] = "replicate", [LS_ROLE_SHARD] = "shard",
    [LS_ROLE_TENSOR] = "tensor", [LS_ROLE_CONTEXT] = "context",     [LS_ROLE_PIPELINE] = "pipeline",
    [LS_ROLE_EXPERT] = "expert"
};
enum { N_ROLES = sizeof ROLES / sizeof *ROLES };
static const char AXIS_MAP[] = "{size: N, role: replicate | shard | tensor | context | pipeline | expert}";

/* {size: 2, role: tensor} */
static ls_status read_axis_map(const ls_yaml *v, const char *where, const char *axis, const ls_yaml **size,
                               ls_axis_role *role)
{
    *size = NULL;
    for (const ls_yaml *c = v->child; c; c = c->next) {
        const ls_yaml *x = ls_yaml_real(c);
        const bool is_size = !strcmp(c->key, "size");
        if ((!is_size && strcmp(c->key, "role")) || x->kind != LS_YAML_SCALAR)
            return ls_fail(LS_E_USAGE, "%s: axis %s: %s is needed", where, axis, AXIS_MAP);
        for (int k = 1; k < N_ROLES && !is_size; k++)
            if (!strcmp(x->text, ROLES[k]))
                *role = (ls_axis_role)k;
        *size = is_size ? x : *size;
    }
    return *size && *role ? LS_OK : ls_fail(LS_E_USAGE, "%s: axis %s: %s is needed", where, axis, AXIS_MAP);
}

static ls_status read_mesh(const ls_yaml *v, const char *where, ls_mesh *out)
{
    bool automatic = false;
    *out = (ls_mesh){ 0 };
    if (v->kind != LS_YAML_MAP || !v->child)
        return wants(where, "axes such as {dp: auto}", shape_name(v));
    for (const ls_yaml *c = v->child; c; c = c->next) {
        const ls_yaml *size = ls_yaml_real(c);
        if (out->n == LS_MESH_AXES)
            return ls_fail(LS_E_USAGE, "%s: more than %d axes", where, LS_MESH_AXES);
        size_t length = strspn(c->key, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (c->key[length] || !length || length >= sizeof out->axes[0].name ||
            !islower((unsigned char)c->key[0]))
            return ls_fail(LS_E_USAGE, "%s: '%s' is not a name for an axis (small letters, digits, _)%s",
                           where, c->key,
                           strchr(c->key, ':') ? "; YAML needs a space behind the colon: {dp: 2}" : "");
        memcpy(out->axes[out->n].name, c->key, length + 1);
        if (size->kind == LS_YAML_MAP)
            LS_TRY(read_axis_map(size, where, c->key, &size, &out->roles[out->n]));
        int64_t *n = &out->axes[out->n++].size;
        if (size->kind == LS_YAML_SCALAR && !strcmp(size->text, "auto")) {
            if (automatic)
                return ls_fail(LS_E_USAGE, "%s: only one axis may be auto", where);
            automatic = true;
            *n = 0;
        } else if (size->kind != LS_YAML_SCALAR || !parse_int(size->text, n) || *n < 1 || *n > 1000000) {
            return ls_fail(LS_E_USAGE, "%s: axis %s: a number of ranks or auto is needed, not '%s'", where,
                           c->key, shape_name(size));
        }
    }
    return LS_OK;
}

static ls_status read_reshard(const ls_yaml *v, const char *where, int64_t *out)
{
    bool on;
    if (v->kind == LS_YAML_SCALAR && parse_int(v->text, out) && *out >= 1 && *out <= 1000000) {
        *out = *out == 1 ? 0 : *out; /* 1/1 of a unit is all of it: the same as false */
        return LS_OK;
    }
    if (v->kind != LS_YAML_SCALAR || (strcmp(v->text, "true") && strcmp(v->text, "false")))
        return wants(where, "true, false or a number of slices", shape_name(v));
    LS_TRY(read_bool(v, where, &on));
    *out = on ? -1 : 0;
    return LS_OK;
}

/* [class:A, class:B] -> "class:A class:B", or with line feeds between paths */
static ls_status read_words(const ls_yaml *v, ls_arena *a, const char *where, const char *between,
                            const char **out)
{
    const char *words = "";
    for (const ls_yaml *c = v->child; c; c = c->next) {
        const ls_yaml *word = ls_yaml_real(c);
        if (word->kind != LS_YAML_SCALAR)
            return wants(where, "a list of words", shape_name(word));
        words = ls_arena_printf(a, "%s%s%s", words, *words ? between : "", word->text);
    }
    *out = words;
    return ls_arena_status(a);
}

static ls_status read_tree(const ls_yaml *v, ls_arena *a, const char *where, const char **out)
{
    ls_str json = { 0 };
    if (v->kind != LS_YAML_MAP)
        return wants(where, "keys such as {hidden: 64}", shape_name(v));
    ls_yaml_json(&json, v);
    const ls_status s = ls_str_status(&json);
    *out = ls_arena_strdup(a, ls_str_text(&json));
    ls_str_release(&json);
    return s == LS_OK ? ls_arena_status(a) : s;
}

/* JSON is YAML, but for variables: ${NAME}. */
void ls_value_print_tree(ls_str *out, const char *json)
{
    for (const char *p; (p = strstr(json, "${")); json = p + 2) {
        ls_str_add_n(out, json, (size_t)(p - json));
        ls_str_add(out, "$${");
    }
    ls_str_add(out, json);
}

ls_status ls_value_read(const ls_key *k, ls_recipe *r, const ls_yaml *v, ls_arena *a, const char *where)
{
    const char *other = v->kind == LS_YAML_SCALAR ? other_name(k->other, v->text) : NULL;
    const ls_yaml meant = { .kind = LS_YAML_SCALAR, .text = other };
    if (other)
        v = &meant;
    switch (k->kind) {
    case LS_KEY_WORDS:
    case LS_KEY_PATHS:
        if (v->kind == LS_YAML_LIST)
            return read_words(v, a, where, k->kind == LS_KEY_PATHS ? "\n" : " ", MEMBER(const char *, r, k));
        /* fall through */
    case LS_KEY_TEXT:
        if (v->kind != LS_YAML_SCALAR)
            return wants(where, "a text", shape_name(v));
        *MEMBER(const char *, r, k) = !v->quoted && (!strcmp(v->text, "~") || !strcmp(v->text, "null"))
                                          ? ""
                                          : ls_arena_strdup(a, v->text);
        return LS_OK;
    case LS_KEY_INT: return read_int(k, v, where, MEMBER(int64_t, r, k));
    case LS_KEY_REAL: return read_real(k, v, where, MEMBER(double, r, k));
    case LS_KEY_BOOL: return read_bool(v, where, MEMBER(bool, r, k));
    case LS_KEY_CHOICE: {
        int i = 0;
        LS_TRY(read_word(k, v, where, &i));
        *MEMBER(int, r, k) = i; /* every ls_..._choice enum is an int: the index of its word */
        return LS_OK;
    }
    case LS_KEY_WORD: {
        int i = 0;
        LS_TRY(read_word(k, v, where, &i));
        *MEMBER(const char *, r, k) = ls_key_word(k, i);
        return LS_OK;
    }
    case LS_KEY_DTYPE:
        if (v->kind != LS_YAML_SCALAR || !ls_dtype_parse(v->text, MEMBER(ls_dtype, r, k)))
            return wants(where, "an element type (f32, bf16, f16, f64)", shape_name(v));
        return LS_OK;
    case LS_KEY_BYTES: return read_bytes(k, v, where, MEMBER(int64_t, r, k));
    case LS_KEY_INTS: return read_ints(k, v, where, MEMBER(ls_int_list, r, k));
    case LS_KEY_PAIR: return read_pair(k, v, where, MEMBER(double, r, k));
    case LS_KEY_REALS: return read_reals(k, v, where, MEMBER(ls_real_list, r, k));
    case LS_KEY_RANGE: return read_range(k, v, where, MEMBER(int64_t, r, k));
    case LS_KEY_MESH: return read_mesh(v, where, MEMBER(ls_mesh, r, k));
    case LS_KEY_RESHARD: return read_reshard(v, where, MEMBER(int64_t, r, k));
    case LS_KEY_PORTS:
    case LS_KEY_FILES:
    case LS_KEY_LOSSES: return ls_named_read(k, r, v, a, where);
    case LS_KEY_TREE: return read_tree(v, a, where, MEMBER(const char *, r, k));
    case LS_KEY_MAPS: break; /* recipe_map_list.c */
    }
    return ls_fail(LS_E_INTERNAL, "%s: a key of unknown kind", where);
}

static void print_bytes(ls_str *out, int64_t n)
{
    static const char *const UNITS[] = { "", "KiB", "MiB", "GiB", "TiB" };
    int u = 0;
    while (u < 4 && n && n % 1024 == 0) {
        n /= 1024;
        u++;
    }
    ls_str_printf(out, "%lld%s", (long long)n, UNITS[u]);
}

static void print_real(ls_str *out, double x)
{
    char buffer[32];
    ls_str_add(out, ls_format_f64(buffer, x));
}

/* A path, or a list of them. */
static void print_paths(ls_str *out, const char *paths)
{
    const bool list = strchr(paths, '\n');
    ls_str_add(out, list ? "[" : "");
    for (const char *at = paths, *end; at; at = end ? end + 1 : NULL) {
        ls_str one = { 0 };
        end = strchr(at, '\n');
        ls_str_add_n(&one, at, end ? (size_t)(end - at) : strlen(at));
        ls_str_add(out, at == paths ? "" : ", ");
        ls_yaml_print_text(out, ls_str_text(&one));
        ls_str_inherit(out, &one);
        ls_str_release(&one);
    }
    ls_str_add(out, list ? "]" : "");
}

void ls_value_print(const ls_key *k, const ls_recipe *r, ls_str *out)
{
    switch (k->kind) {
    case LS_KEY_TEXT:
    case LS_KEY_WORDS:
    case LS_KEY_WORD: ls_yaml_print_text(out, *CONST_MEMBER(char *, r, k)); break;
    case LS_KEY_PATHS: print_paths(out, *CONST_MEMBER(char *, r, k)); break;
    case LS_KEY_INT: ls_str_printf(out, "%lld", (long long)*CONST_MEMBER(int64_t, r, k)); break;
    case LS_KEY_REAL: print_real(out, *CONST_MEMBER(double, r, k)); break;
    case LS_KEY_BOOL: ls_str_add(out, *CONST_MEMBER(bool, r, k) ? "true" : "false"); break;
    case LS_KEY_CHOICE: ls_str_add(out, ls_key_word(k, *CONST_MEMBER(int, r, k))); break;
    case LS_KEY_DTYPE: ls_str_add(out, ls_dtype_name(*CONST_MEMBER(ls_dtype, r, k))); break;
    case LS_KEY_BYTES: print_bytes(out, *CONST_MEMBER(int64_t, r, k)); break;
    case LS_KEY_INTS: {
        const ls_int_list *l = CONST_MEMBER(ls_int_list, r, k);
        ls_str_add(out, "[");
        for (int i = 0; i < l->n; i++)
            ls_str_printf(out, "%s%lld", i ? ", " : "", (long long)l->at[i]);
        ls_str_add(out, "]");
        break;
    }
    case LS_KEY_PAIR: {
        const double *p = CONST_MEMBER(double, r, k);
        ls_str_add(out, "[");
        print_real(out, p[0]);
        ls_str_add(out, ", ");
        print_real(out, p[1]);
        ls_str_add(out, "]");
        break;
    }
    case LS_KEY_REALS: {
        const ls_real_list *l = CONST_MEMBER(ls_real_list, r, k);
        ls_str_add(out, l->n > 1 ? "[" : "");
        for (int i = 0; i < l->n; i++) {
            ls_str_add(out, i ? ", " : "");
            print_real(out, l->at[i]);
        }
        ls_str_add(out, l->n > 1 ? "]" : "");
        break;
    }
    case LS_KEY_RANGE: {
        const int64_t *p = CONST_MEMBER(int64_t, r, k);
        if (p[0] == p[1])
            ls_str_printf(out, "%lld", (long long)p[0]);
        else
            ls_str_printf(out, "{min: %lld, max: %lld}", (long long)p[0], (long long)p[1]);
        break;
    }
    case LS_KEY_MESH: {
        const ls_mesh *m = CONST_MEMBER(ls_mesh, r, k);
        ls_str_add(out, "{");
        for (int i = 0; i < m->n; i++) {
            ls_str_printf(out, m->roles[i] ? "%s%s: {size: " : "%s%s: ", i ? ", " : "", m->axes[i].name);
            if (m->axes[i].size)
                ls_str_printf(out, "%lld", (long long)m->axes[i].size);
            else
                ls_str_add(out, "auto");
            if (m->roles[i])
                ls_str_printf(out, ", role: %s}", ROLES[m->roles[i]]);
        }
        ls_str_add(out, "}");
        break;
    }
    case LS_KEY_RESHARD: {
        int64_t n = *CONST_MEMBER(int64_t, r, k);
        if (n > 1)
            ls_str_printf(out, "%lld", (long long)n);
        else
            ls_str_add(out, n ? "true" : "false");
        break;
    }
    case LS_KEY_PORTS:
    case LS_KEY_FILES:
    case LS_KEY_LOSSES: ls_named_print(k, r, false, out); break;
    case LS_KEY_TREE: ls_value_print_tree(out, *CONST_MEMBER(char *, r, k)); break;
    case LS_KEY_MAPS: break;
    }
}
