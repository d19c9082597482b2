/* find.c - finds models and tokenizers that a recipe names by relative paths (find.h). */
#include "find.h"
#include <stdlib.h>
#include <string.h>
#include "file.h"
#include "hub_cache.h"
#include "sys.h"

ls_status ls_find_any(char **out, const char *path)
{
    *out = NULL;
    if (!ls_file_exists(path) && !ls_dir_exists(path))
        return LS_OK;
    *out = ls_sys_strdup(path);
    return ls_sys_have(*out);
}

static char *cached_data(void)
{
    char *cache = ls_cache_dir(), *data = ls_path_join(cache, "data");
    free(cache);
    return data;
}

static ls_status probe_in(char **out, const char *folder, const char *name, ls_probe probe)
{
    char *path = ls_path_join(folder, name);
    ls_status s = ls_sys_have(path);
    if (s == LS_OK)
        s = probe(out, path);
    free(path);
    return s;
}

/* OWNER/NAME: the folder NAME in LOCKSTEP_DATA, or what the hub's cache has of it. */
static ls_status in_hub(char **out, const char *name, const char *data, ls_probe probe)
{
    if (!ls_hub_name_ok(name))
        return LS_OK;
    if (data && *data)
        LS_TRY(probe_in(out, data, strrchr(name, '/') + 1, probe));
    char *snapshot = *out ? NULL : ls_hub_snapshot(name, "main");
    const ls_status s = snapshot ? probe(out, snapshot) : LS_OK;
    free(snapshot);
    return s;
}

ls_status ls_find(char **out, const char *name, ls_probe probe)
{
    const char *data = getenv("LOCKSTEP_DATA");
    LS_TRY(probe(out, name));
    if (!*out && *name != '/' && data && *data)
        LS_TRY(probe_in(out, data, name, probe));
    if (*out || *name == '/')
        return LS_OK;
    char *cached = cached_data();
    const ls_status s = probe_in(out, cached, name, probe);
    free(cached);
    LS_TRY(s);
    return *out ? LS_OK : in_hub(out, name, data, probe);
}

void ls_find_places(ls_str *out, const char *name)
{
    const char *data = getenv("LOCKSTEP_DATA");
    if (*name == '/')
        return;
    char *cached = cached_data();
    ls_str_printf(out, "in this folder, in LOCKSTEP_DATA (%s) and in %s", data && *data ? data : "not set",
                  cached ? cached : "the cache");
    free(cached);
    char *hub = ls_hub_name_ok(name) ? ls_hub_cache() : NULL;
    if (hub)
        ls_str_printf(out, ", and in Hugging Face's cache %s, into which `lockstep get %s` loads it", hub,
                      name);
    free(hub);
}
