/* input_files.c - see input_files.h. */
#include "input_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sys.h"
#include "data/image_list.h"

/* Takes ownership of the name. */
static ls_status input_files_add(ls_paths *out, int *cap, char *name)
{
    char **all = name ? ls_sys_grow(out->at, (int64_t)out->n, cap, sizeof *all) : NULL;
    if (!all) {
        free(name);
        return ls_sys_have(NULL);
    }
    out->at = all;
    out->at[out->n++] = name;
    return LS_OK;
}

static ls_status add_folder(ls_paths *out, int *cap, const char *folder)
{
    const size_t first = out->n;
    ls_status s = LS_OK;
    DIR *d = opendir(folder);
    if (!d)
        return ls_fail(LS_E_IO, "%s: cannot list this folder: %s", folder, strerror(errno));
    for (const struct dirent *e; s == LS_OK && (e = readdir(d));)
        if (*e->d_name != '.' && ls_image_name(e->d_name))
            s = input_files_add(out, cap, ls_path_join(folder, e->d_name));
    closedir(d);
    LS_TRY(s);
    if (out->n == first)
        return ls_fail(LS_E_USAGE,
                       "%s: a folder without images: no file ends in .jpg, .jpeg, .png, .pgm or .ppm",
                       folder);
    ls_sort_texts(out->at + first, out->n - first);
    return LS_OK;
}

ls_status ls_input_files(ls_paths *out, int n, const char *const *names)
{
    int cap = 0;
    *out = (ls_paths){ 0 };
    for (int i = 0; i < n; i++)
        LS_TRY(ls_dir_exists(names[i]) ? add_folder(out, &cap, names[i])
                                       : input_files_add(out, &cap, ls_sys_strdup(names[i])));
    return LS_OK;
}

const char *ls_input_file_shown(const char *path, bool whole)
{
    const char *slash = whole ? NULL : strrchr(path, '/');
    return slash ? slash + 1 : path;
}

ls_status ls_input_files_alike(bool *out, int64_t n, const char *const *paths)
{
    char **names = ls_sys_malloc(sizeof *names * (size_t)(n + 1));
    *out = false;
    LS_TRY(ls_sys_have(names));
    for (int64_t i = 0; i < n; i++)
        names[i] = (char *)(uintptr_t)ls_input_file_shown(paths[i], false);
    ls_sort_texts(names, (size_t)n);
    for (int64_t i = 1; i < n; i++)
        *out |= !strcmp(names[i - 1], names[i]);
    free(names);
    return LS_OK;
}
