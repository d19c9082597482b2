/* recipe_scalar.c - single values in YAML: a number read, a text written. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "recipe_fields.h"

/* Decimal numbers only: strtod alone would also take 0x10, inf and nan. */
bool ls_key_parse_real(const char *text, double *out)
{
    if (!*text || strspn(text, "0123456789+-.eE") != strlen(text))
        return false;
    char *end;
    *out = ls_strtod(text, &end);
    return !*end && isfinite(*out);
}

/* Writes the text without quotes if YAML reads it back as the same text, else with double quotes. `$` is
 * doubled, because ${NAME} is a variable (yaml_env.c). */
void ls_yaml_print_text(ls_str *out, const char *text)
{
    static const char PLAIN[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+-";
    bool plain = *text && text[0] != '-' && strspn(text, PLAIN) == strlen(text) && strcmp(text, "null");
    if (plain) {
        ls_str_add(out, text);
        return;
    }
    ls_str_add(out, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            ls_str_printf(out, "\\%c", *p);
        else if (*p == '$' && p[1] == '{')
            ls_str_add(out, "$$");
        else if (*p < 0x20 || *p == 0x7f)
            ls_str_printf(out, "\\x%02x", *p);
        else
            ls_str_add_n(out, (const char *)p, 1);
    }
    ls_str_add(out, "\"");
}
