/* variable.c - see variable.h. */
#include "variable.h"

#include <stdlib.h>
#include <string.h>

bool ls_words_have(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; n && (p = strstr(p, word)); p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

ls_status ls_variable_check(const char *name, const char *words)
{
    const char *value = getenv(name);
    return !value || !*value || ls_words_have(words, value)
               ? LS_OK
               : ls_fail(LS_E_USAGE, "%s=%s: it is one of these words: %s", name, value, words);
}
