/* libraries.c - where NVIDIA's libraries are looked for. Nothing of them is needed to build: they are opened
 * when device cuda is first used. */
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sys.h"
#include "cuda_own.h"

typedef struct search {
    const char *const *names;
    void *library;
    const char *found; /* the name that it has */
    ls_str *places;
    ls_str broken; /* why files that are there could not be opened */
} search;

static void in_folder(search *s, const char *folder)
{
    for (const char *const *name = s->names; *name && !s->library; name++) {
        char *path = ls_path_join(folder, *name);
        s->found = *name;
        if (path && ls_file_exists(path) && !(s->library = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
            ls_str_printf(&s->broken, "; %s", dlerror());
        free(path);
    }
}

/* The folders that fit a pattern, the last one (the newest version) first. */
static void in_folders(search *s, const char *pattern)
{
    glob_t found;
    if (s->library || glob(pattern, 0, NULL, &found))
        return;
    for (size_t i = found.gl_pathc; i-- > 0 && !s->library;)
        in_folder(s, found.gl_pathv[i]);
    globfree(&found);
}

static void add_place(search *s, const char *place)
{
    ls_str_printf(s->places, "%s%s", s->places->len ? ", " : "", place);
}

static void by_loader(search *s)
{
    for (const char *const *name = s->names; *name && !s->library; name++) {
        s->library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        s->found = *name;
    }
    add_place(s, "the loader's folders");
}

static void in_toolkits(search *s)
{
    const char *home = getenv("CUDA_HOME");
    char *folder = home && *home ? ls_path_join(home, "lib64") : NULL;
    if (folder && !s->library)
        in_folder(s, folder);
    add_place(s, folder ? folder : "CUDA_HOME (not set)");
    free(folder);
    in_folders(s, "/usr/local/cuda*/lib64");
    add_place(s, "/usr/local/cuda*/lib64");
}

/* Packages that pip has installed for the python3 on PATH. */
static void in_python(search *s)
{
    static const char *const PACKAGES[] = { "site-packages", "dist-packages" };
    const char *path = getenv("PATH");
    while (path && *path && !s->library) {
        const size_t n = strcspn(path, ":");
        char *prefix = ls_sys_text("%.*s", (int)n, path), *python = ls_path_join(prefix, "python3");
        const bool here = python && ls_file_exists(python);
        for (int i = 0; i < 2 && here; i++) {
            char *pattern = ls_sys_text("%s/../lib/python3*/%s/nvidia/*/lib", prefix, PACKAGES[i]);
            if (pattern)
                in_folders(s, pattern);
            free(pattern);
        }
        free(python);
        free(prefix);
        path += n + (path[n] == ':');
        if (here)
            break;
    }
    const char *home = getenv("HOME");
    char *own = home ? ls_sys_text("%s/.local/lib/python3*/site-packages/nvidia/*/lib", home) : NULL;
    if (own)
        in_folders(s, own);
    free(own);
    in_folders(s, "/usr/local/lib/python3*/dist-packages/nvidia/*/lib");
    add_place(s, "nvidia/*/lib of python3's packages");
}

static void in_list(search *s, const char *list)
{
    add_place(s, list);
    ls_str_add(s->places, " (LOCKSTEP_CUDA_LIBRARIES)");
    while (*list) {
        const size_t n = strcspn(list, ":");
        char *folder = ls_sys_strndup(list, n);
        if (folder && !s->library)
            in_folder(s, folder);
        free(folder);
        list += n + (list[n] == ':');
    }
}

/* Where a library is that was opened. */
static char *libraries_path_of(void *library, const char *name)
{
    char folder[4096];
    if (dlinfo(library, RTLD_DI_ORIGIN, folder))
        return ls_sys_strdup(name);
    return ls_path_join(folder, name);
}

void *ls_cuda_library(const char *const *names, char **path, ls_str *places)
{
    const char *list = getenv("LOCKSTEP_CUDA_LIBRARIES");
    search s = { .names = names, .places = places };
    *path = NULL;
    if (list && *list) {
        in_list(&s, list);
    } else {
        by_loader(&s);
        in_toolkits(&s);
        in_python(&s);
    }
    ls_str_append(places, &s.broken);
    ls_str_release(&s.broken);
    if (s.library)
        *path = libraries_path_of(s.library, s.found);
    return s.library;
}

const char *ls_cuda_symbols(void *library, const ls_cuda_symbol *list)
{
    for (; list->name; list++) {
        void *f = dlsym(library, list->name);
        if (!f)
            return list->name;
        memcpy(list->at, &f, sizeof f);
    }
    return NULL;
}
