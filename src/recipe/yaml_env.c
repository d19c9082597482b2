/* yaml_env.c - replaces ${NAME} and ${NAME:-default} in the scalars of a tree. Each node is visited once, so
 * aliases share the result. */
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/sys.h"
#include "yaml_tree.h"

static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool letter = (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= 'a' && s[i] <= 'z') || s[i] == '_';
        if (!letter && !(i && s[i] >= '0' && s[i] <= '9'))
            return false;
    }
    return n > 0;
}

/* *p points after "${"; on success it then points after the "}". */
static ls_status expand_one(ls_yaml *n, ls_arena *a, const char *file, bool record, const char **p,
                            ls_str *out)
{
    const char *begin = *p, *end = strchr(begin, '}');
    if (!end)
        return ls_fail(LS_E_USAGE, "%s:%d: '${' without '}' (a plain ${ is written $${)", file, n->line);
    size_t length = (size_t)(end - begin);
    const char *fallback = NULL;
    for (const char *q = begin; q + 1 < end && !fallback; q++)
        if (q[0] == ':' && q[1] == '-') {
            length = (size_t)(q - begin);
            fallback = q + 2;
        }
    if (!is_name(begin, length))
        return ls_fail(LS_E_USAGE, "%s:%d: '${%.*s}': write ${NAME} or ${NAME:-default}", file, n->line,
                       (int)(end - begin), begin);
    char *name = ls_arena_alloc(a, length + 1);
    LS_TRY(ls_sys_have(name));
    memcpy(name, begin, length);
    const char *value = getenv(name);
    if (value && (*value || !fallback)) { /* as in the shell, :- also replaces an empty variable */
        ls_str_add(out, value);
        n->env = name;
    } else if (fallback) {
        ls_str_add_n(out, fallback, (size_t)(end - fallback));
    } else if (record) {
        ls_str_add_n(out, begin - 2, (size_t)(end + 1 - (begin - 2)));
        n->env = name;
    } else {
        return ls_fail(LS_E_USAGE,
                       "%s:%d: environment variable %s is not set; set it or write ${%s:-default}", file,
                       n->line, name, name);
    }
    *p = end + 1;
    return LS_OK;
}

static ls_status expand_text(ls_yaml *n, ls_arena *a, const char *file, bool record)
{
    if (!strstr(n->text, "${"))
        return LS_OK;
    ls_str out = { 0 };
    ls_status s = LS_OK;
    for (const char *p = n->text; *p && s == LS_OK;) {
        if (!strncmp(p, "$${", 3)) {
            ls_str_add(&out, "${");
            p += 3;
        } else if (!strncmp(p, "${", 2)) {
            p += 2;
            s = expand_one(n, a, file, record, &p, &out);
        } else {
            ls_str_add_n(&out, p++, 1);
        }
    }
    const ls_status whole = ls_str_status(&out);
    n->source = n->env ? n->text : NULL;
    n->text = ls_arena_strdup(a, ls_str_text(&out));
    ls_str_release(&out);
    return ls_arena_outcome(a, s == LS_OK ? whole : s);
}

ls_status ls_yaml_expand(ls_yaml *n, ls_arena *a, const char *file, bool record)
{
    if (!n || n->same)
        return LS_OK;
    if (n->kind == LS_YAML_SCALAR)
        return expand_text(n, a, file, record);
    for (ls_yaml *c = n->child; c; c = c->next)
        LS_TRY(ls_yaml_expand(c, a, file, record));
    return LS_OK;
}
