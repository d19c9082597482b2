/* module.c - finds and opens modules with transports. */
#include "module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"

enum { FOLDERS = 3 };

static char *folder_of(char *path)
{
    char *slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        *slash = 0;
    return path;
}

/* Folders that may contain a module; malloc'ed, NULL if there is no such folder. The last one is relative to
 * the executable, because the installation's prefix is not known before installing. */
static void find_folders(char *folders[FOLDERS])
{
    Dl_info info;
    folders[0] = folder_of(realpath("/proc/self/exe", NULL));
    folders[1] = dladdr((const void *)&ls_module_open, &info) && info.dli_fname
                     ? folder_of(realpath(info.dli_fname, NULL))
                     : NULL;
    char *libraries = folders[0] ? ls_path_join(folders[0], LS_LIBDIR_FROM_BINDIR) : NULL;
    folders[2] = libraries ? realpath(libraries, NULL) : NULL;
    free(libraries);
    if (folders[0] && folders[1] && !strcmp(folders[0], folders[1])) {
        free(folders[1]);
        folders[1] = NULL;
    }
}

/* The path of the module, malloc'ed. NULL with a message if there is none. */
static char *module_find(const char *name)
{
    const char *given = getenv("LOCKSTEP_MPI_MODULE");
    if (given && given[0])
        return ls_sys_strdup(given);
    char *folders[FOLDERS], *path = NULL;
    ls_str looked = { 0 };
    find_folders(folders);
    for (int i = 0; i < FOLDERS; i++) {
        if (folders[i] && !path) {
            ls_str_printf(&looked, "%s%s", looked.len ? ", " : "", folders[i]);
            path = ls_path_join(folders[i], name);
            if (!ls_file_exists(path)) {
                free(path);
                path = NULL;
            }
        }
        free(folders[i]);
    }
    if (!path)
        ls_fail(LS_E_UNSUPPORTED,
                "%s is not in %s: build Lockstep with %s installed, or set LOCKSTEP_MPI_MODULE to the "
                "module's path",
                name, ls_str_text(&looked),
                strcmp(name, LS_MODULE_MPICH) ? "openmpi-bin and libopenmpi-dev" : "mpich and libmpich-dev");
    ls_str_release(&looked);
    return path;
}

static ls_status open_at(const ls_transport_ops **out, const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return ls_fail(LS_E_UNSUPPORTED, "the module %s does not load: %s", path, dlerror());
    const ls_transport_ops *ops = dlsym(handle, LS_TRANSPORT_SYMBOL);
    if (!ops || ops->abi != LS_TRANSPORT_ABI)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s is not a module of this version of Lockstep: build and install both together",
                       path);
    *out = ops;
    return LS_OK;
}

ls_status ls_module_open(const ls_transport_ops **out, const char *name)
{
    char *path = module_find(name);
    ls_status s = path ? open_at(out, path) : LS_E_UNSUPPORTED;
    free(path);
    return s;
}

const char *ls_module_of_program(void)
{
    char text[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING of all that there are */
    int length = 0;
    union {
        void *symbol;
        int (*call)(char *, int *);
    } version = { dlsym(RTLD_DEFAULT, "MPI_Get_library_version") };
    if (version.symbol)
        version.call(text, &length);
    return text[0] && !strstr(text, "Open MPI") ? LS_MODULE_MPICH : LS_MODULE_MPI;
}

bool ls_module_describe(ls_str *text, const char *name)
{
    const ls_transport_ops *ops = NULL;
    char *path = module_find(name), version[LS_TRANSPORT_TEXT];
    bool loads = path && open_at(&ops, path) == LS_OK;
    if (loads) {
        ops->describe(version);
        ls_str_printf(text, "%s, %s", version, path);
    } else {
        ls_str_add(text, ls_error_message());
    }
    free(path);
    return loads;
}
