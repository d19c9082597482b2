/* recipe_near.c - what a name that is neither a recipe nor a run might mean: a file beside it, or a run in
 * runs. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "recipe_use.h"

enum { MOST = 256 };

static bool is_file(const char *path)
{
    struct stat st;
    return path && !stat(path, &st) && S_ISREG(st.st_mode);
}

/* `path` if it is a file, or with `inside` a folder that has such a file; else NULL. Frees path. */
static char *if_there(char *path, const char *inside)
{
    char *file = path && inside ? ls_path_join(path, inside) : NULL;
    const bool there = is_file(inside ? file : path);
    free(file);
    if (!there)
        free(path);
    return there ? path : NULL;
}

static char *nearest_in(const char *folder, const char *name)
{
    char *names[MOST];
    int n = 0;
    struct dirent **entries = NULL;
    const int all = scandir(*folder ? folder : ".", &entries, NULL, alphasort);
    for (int i = 0; i < all; i++) {
        const char *one = entries[i]->d_name;
        const bool recipe = ls_ends_with(one, ".yaml") || ls_ends_with(one, ".yml");
        char *path = *one == '.' || n == MOST ? NULL : ls_sys_text("%s%s", folder, one);
        path = if_there(path, recipe ? NULL : "recipe.yaml");
        if (path)
            names[n++] = path;
        free(entries[i]);
    }
    free(entries);
    const char *near = ls_nearest_name(name, (const char *const *)names, n);
    char *out = near ? ls_sys_strdup(near) : NULL;
    for (int i = 0; i < n; i++)
        free(names[i]);
    return out;
}

char *ls_recipe_near(const char *name)
{
    char *file = if_there(ls_sys_text("%s.yaml", name), NULL),
         *run = strchr(name, '/') ? NULL : if_there(ls_path_join("runs", name), "recipe.yaml"), *out = NULL;
    if (file || run) {
        out = ls_sys_text("%s%s%s", file ? file : "", file && run ? " or " : "", run ? run : "");
        free(file);
        free(run);
        return out;
    }
    const char *slash = strrchr(name, '/');
    char *folder = ls_sys_text("%.*s", slash ? (int)(slash + 1 - name) : 0, name);
    out = folder ? nearest_in(folder, name) : NULL;
    free(folder);
    return out;
}
