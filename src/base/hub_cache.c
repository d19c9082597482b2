/* hub_cache.c - see hub_cache.h. */
#include "base/hub_cache.h"
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/sys.h"

static char *below(char *parent, const char *name) /* frees parent */
{
    char *path = parent ? ls_path_join(parent, name) : NULL;
    free(parent);
    return path;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

char *ls_hub_home(void)
{
    const char *home = variable("HF_HOME"), *cache = variable("XDG_CACHE_HOME"), *user = variable("HOME");
    if (home)
        return ls_sys_strdup(home);
    return cache ? ls_path_join(cache, "huggingface")
                 : below(ls_path_join(user ? user : ".", ".cache"), "huggingface");
}

char *ls_hub_cache(void)
{
    const char *hub = variable("HF_HUB_CACHE");
    return hub ? ls_sys_strdup(hub) : below(ls_hub_home(), "hub");
}

static bool word(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", text[i]))
            return false;
    return n > 0 && *text != '.' && n <= 96;
}

/* Behind "datasets/" of a data set's name. */
static const char *owner_of(const char *name)
{
    static const char PREFIX[] = "datasets/";
    return strncmp(name, PREFIX, sizeof PREFIX - 1) ? name : name + sizeof PREFIX - 1;
}

bool ls_hub_name_ok(const char *name)
{
    const char *owner = owner_of(name), *slash = strchr(owner, '/');
    return slash && word(owner, (size_t)(slash - owner)) && word(slash + 1, strlen(slash + 1));
}

char *ls_hub_folder(const char *name)
{
    const char *owner = owner_of(name), *slash = strchr(owner, '/');
    if (!ls_hub_name_ok(name))
        return NULL;
    char *folder = ls_sys_text("%s--%.*s--%s", owner == name ? "models" : "datasets", (int)(slash - owner),
                               owner, slash + 1);
    char *path = folder ? below(ls_hub_cache(), folder) : NULL;
    free(folder);
    return path;
}

/* The commit that refs/REVISION holds, else the revision itself; malloc'ed. */
static char *commit_of(const char *folder, const char *revision)
{
    char *refs = ls_path_join(folder, "refs"), *path = below(refs, revision), *commit = NULL;
    size_t n = 0;
    if (path && ls_file_exists(path) && ls_file_read(&commit, &n, path) == LS_OK)
        commit[strcspn(commit, " \r\n")] = 0;
    free(path);
    return commit ? commit : ls_sys_strdup(revision);
}

char *ls_hub_snapshot(const char *name, const char *revision)
{
    char *folder = ls_hub_folder(name), *commit = folder ? commit_of(folder, revision) : NULL;
    char *path = commit && word(commit, strlen(commit)) ? below(ls_path_join(folder, "snapshots"), commit)
                                                        : NULL;
    free(commit);
    free(folder);
    if (path && !ls_dir_exists(path)) {
        free(path);
        path = NULL;
    }
    return path;
}

char *ls_hub_path(const char *path)
{
    const char *owner = owner_of(path), *name = owner == path ? NULL : strchr(owner, '/'),
               *file = name ? strchr(name + 1, '/') : NULL;
    char *repository = file ? ls_sys_strndup(path, (size_t)(file - path)) : NULL;
    char *found = repository ? below(ls_hub_snapshot(repository, "main"), file + 1) : NULL;
    free(repository);
    return found;
}
