/* match.c - finds the modules and parameters that words of an option name (units, recompute, modules,
 * freeze, groups). */
#include "passes.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

bool ls_path_matches(const char *glob, const char *path)
{
    char a[512], b[512];
    size_t n = strlen(glob), m = strlen(path);
    if (n >= sizeof a || m >= sizeof b)
        return false;
    for (size_t i = 0; i <= n; i++)
        a[i] = glob[i] == '.' ? '/' : glob[i];
    for (size_t i = 0; i <= m; i++)
        b[i] = path[i] == '.' ? '/' : path[i];
    return fnmatch(a, b, FNM_PATHNAME) == 0;
}

static bool word_names(const char *word, const ls_scope *s)
{
    if (!strncmp(word, "class:", 6))
        return !strcmp(s->block, word + 6);
    return !strncmp(word, "pattern:", 8) && ls_path_matches(word + 8, s->path);
}

bool ls_words_name(const char *words, const ls_scope *s)
{
    char word[512];
    bool named = false;
    for (int used; s->path[0] && !named && sscanf(words, "%511s%n", word, &used) == 1; words += used)
        named = word_names(word, s);
    return named;
}

bool ls_word_names_parameter(const char *word, const ls_scope *s, const char *name)
{
    for (; !strncmp(word, "class:", 6) && s; s = s->parent)
        if (!strcmp(s->block, word + 6))
            return true;
    return !strncmp(word, "pattern:", 8) && ls_glob_match(word + 8, name);
}
