/* find.c - finds models and tokenizers that a recipe names by relative paths (find.h). */
#include "find.h"
#include <stdlib.h>
#include <string.h>
#include "file.h"

char *ls_find_any(const char *path)
{
    return ls_file_exists(path) || ls_dir_exists(path) ? strdup(path) : NULL;
}

static char *cached_data(void)
{
    char *cache = ls_cache_dir(), *data = ls_path_join(cache, "data");
    free(cache);
    return data;
}

static char *probe_in(const char *folder, const char *name, char *(*probe)(const char *path))
{
    char *path = ls_path_join(folder, name), *found = probe(path);
    free(path);
    return found;
}

char *ls_find(const char *name, char *(*probe)(const char *path))
{
    const char *data = getenv("LOCKSTEP_DATA");
    char *found = probe(name);
    if (found || *name == '/')
        return found;
    if (data && *data && (found = probe_in(data, name, probe)))
        return found;
    char *cached = cached_data();
    found = probe_in(cached, name, probe);
    free(cached);
    return found;
}

void ls_find_places(ls_str *out, const char *name)
{
    const char *data = getenv("LOCKSTEP_DATA");
    if (*name == '/')
        return;
    char *cached = cached_data();
    ls_str_printf(out, "in this folder, in LOCKSTEP_DATA (%s) and in %s", data && *data ? data : "not set",
                  cached);
    free(cached);
}
