/* yaml_env.c - replaces ${NAME} and ${NAME:-default} in the scalars of a tree. Each node is visited once, so
 * aliases share the result. Records also have ${NAME#SEAL}: a hash of the value that was used, by which
 * another value is noticed when a run continues. */
#include <stdlib.h>
#include <string.h>

#include "base/sha.h"
#include "base/str.h"
#include "base/sys.h"
#include "yaml_tree.h"

enum { SEAL = 16 }; /* digits */

static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool letter = (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= 'a' && s[i] <= 'z') || s[i] == '_';
        if (!letter && !(i && s[i] >= '0' && s[i] <= '9'))
            return false;
    }
    return n > 0;
}

/* What a scalar becomes: its text, and what records have in place of that (yaml_tree.h). */
typedef struct expansion {
    ls_str text, names, sealed;
} expansion;

/* Sixteen digits that tell whether a variable has this value, and not what it is. */
static void seal(char out[SEAL + 1], const char *name, const char *value, size_t n)
{
    char hex[LS_SHA256_HEX];
    ls_sha sha;
    ls_sha256_init(&sha);
    ls_sha_add(&sha, name, strlen(name) + 1);
    ls_sha_add(&sha, value, n);
    ls_sha_hex(&sha, hex);
    memcpy(out, hex, SEAL);
    out[SEAL] = 0;
}

/* *p points after "${"; on success it then points after the "}". */
static ls_status expand_one(ls_yaml *n, ls_arena *a, const char *file, bool record, const char **p,
                            expansion *out)
{
    const char *begin = *p, *end = strchr(begin, '}');
    if (!end)
        return ls_fail(LS_E_USAGE, "%s:%d: '${' without '}' (a plain ${ is written $${)", file, n->line);
    const char *rest = end, *fallback = NULL; /* `rest`: ":-default", or nothing */
    for (const char *q = begin; q + 1 < end && !fallback; q++)
        if (q[0] == ':' && q[1] == '-') {
            rest = q;
            fallback = q + 2;
        }
    size_t length = (size_t)(rest - begin);
    const char *mark = memchr(begin, '#', length), *sealed = NULL;
    if (mark && rest - mark == 1 + SEAL && strspn(mark + 1, "0123456789abcdef") >= SEAL) {
        sealed = mark + 1;
        length = (size_t)(mark - begin);
    }
    if (!is_name(begin, length))
        return ls_fail(LS_E_USAGE, "%s:%d: '${%.*s}': write ${NAME} or ${NAME:-default}", file, n->line,
                       (int)(end - begin), begin);
    char *name = ls_arena_alloc(a, length + 1), now[SEAL + 1];
    LS_TRY(ls_sys_have(name));
    memcpy(name, begin, length);
    const char *value = getenv(name);
    size_t size = value ? strlen(value) : 0;
    /* as in the shell, :- also replaces an empty variable */
    const bool given = value && (*value || !fallback);
    if (!given && fallback) {
        value = fallback;
        size = (size_t)(end - fallback);
    }
    if (!value && !record)
        return ls_fail(LS_E_USAGE,
                       "%s:%d: environment variable %s is not set; set it or write ${%s:-default}", file,
                       n->line, name, name);
    if (value) {
        seal(now, name, value, size);
        ls_str_add_n(&out->text, value, size);
    } else {
        ls_str_printf(&out->text, "${%s}", name);
        n->unset = name;
    }
    n->env = given || !value ? name : n->env;
    n->differs = n->differs || (record && sealed && (!value || memcmp(now, sealed, SEAL)));
    ls_str_printf(&out->names, "${%s%.*s}", name, (int)(end - rest), rest);
    ls_str_printf(&out->sealed, "${%s", name);
    if (value || sealed)
        ls_str_printf(&out->sealed, "#%.*s", SEAL, record && sealed ? sealed : now);
    ls_str_printf(&out->sealed, "%.*s}", (int)(end - rest), rest);
    *p = end + 1;
    return LS_OK;
}

static ls_status expand_text(ls_yaml *n, ls_arena *a, const char *file, bool record)
{
    if (!strstr(n->text, "${"))
        return LS_OK;
    expansion out = { 0 };
    ls_status s = LS_OK;
    for (const char *p = n->text; *p && s == LS_OK;) {
        if (!strncmp(p, "$${", 3)) {
            ls_str_add(&out.text, "${");
            ls_str_add(&out.names, "$${");
            ls_str_add(&out.sealed, "$${");
            p += 3;
        } else if (!strncmp(p, "${", 2)) {
            p += 2;
            s = expand_one(n, a, file, record, &p, &out);
        } else {
            ls_str_add_n(&out.text, p, 1);
            ls_str_add_n(&out.names, p, 1);
            ls_str_add_n(&out.sealed, p++, 1);
        }
    }
    n->text = ls_arena_strdup(a, ls_str_text(&out.text));
    n->source = n->env ? ls_arena_strdup(a, ls_str_text(&out.names)) : NULL;
    n->sealed = n->env ? ls_arena_strdup(a, ls_str_text(&out.sealed)) : NULL;
    ls_str_inherit(&out.text, &out.names);
    ls_str_inherit(&out.text, &out.sealed);
    const ls_status whole = ls_str_status(&out.text);
    ls_str_release(&out.text);
    ls_str_release(&out.names);
    ls_str_release(&out.sealed);
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
