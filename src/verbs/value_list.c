/* value_list.c - see value_list.h. */
#include "value_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

static ls_status add_value(ls_value_list *l, const char *option, const char *text, const char *from,
                           const char *to)
{
    if (from == to)
        return ls_fail(LS_E_USAGE, "%s %s: an empty value", option, text);
    char **more = ls_sys_grow(l->values, l->n, &l->cap, sizeof *l->values);
    LS_TRY(ls_sys_have(more));
    l->values = more;
    more[l->n] = ls_sys_strndup(from, (size_t)(to - from));
    return ls_sys_have(more[l->n++]);
}

ls_status ls_value_list_read(ls_value_list *out, const char *option, const char *text, const char *example)
{
    const char *equals = strchr(text, '='), *start = equals + 1;
    *out = (ls_value_list){ 0 };
    if (!equals || equals == text || !equals[1])
        return ls_fail(LS_E_USAGE, "%s %s: write KEY=VALUE,VALUE,... as in %s %s", option, text, option,
                       example);
    out->key = ls_sys_strndup(text, (size_t)(equals - text));
    LS_TRY(ls_sys_have(out->key));
    int depth = 0;
    char quote = 0;
    for (const char *p = start;; p++) {
        if (*p && quote)
            quote = *p == quote ? 0 : quote;
        else if (*p == '"' || *p == '\'')
            quote = *p;
        else if (*p == '[' || *p == '{')
            depth++;
        else if (*p == ']' || *p == '}')
            depth--;
        else if (!*p || (*p == ',' && depth <= 0)) {
            LS_TRY(add_value(out, option, text, start, p));
            start = p + 1;
        }
        if (!*p)
            return LS_OK;
    }
}

void ls_value_list_release(ls_value_list *l)
{
    free(l->key);
    for (int i = 0; i < l->n; i++)
        free(l->values[i]);
    free(l->values);
    *l = (ls_value_list){ 0 };
}
