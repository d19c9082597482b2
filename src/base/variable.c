/* variable.c - see variable.h. */
#include "variable.h"

#include <stdlib.h>
#include <string.h>

ls_status ls_variable_check(const char *name, const char *words)
{
    const char *value = getenv(name);
    const size_t n = value ? strlen(value) : 0;
    for (const char *word = words; n && *word;) {
        const size_t length = strcspn(word, " ");
        if (length == n && !memcmp(word, value, n))
            return LS_OK;
        word += length + (word[length] != 0);
    }
    return n ? ls_fail(LS_E_USAGE, "%s=%s: it is one of these words: %s", name, value, words) : LS_OK;
}
