/* export_folder.c - see export_folder.h. */
#include "ckpt/export_folder.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/folder.h"

/* Only a model's folder may be deleted. */
static ls_status check_replaced(const char *dir, bool (*may_be_beside)(const char *name))
{
    DIR *d = opendir(dir);
    ls_status s = LS_OK;
    if (!d)
        return LS_OK;
    for (const struct dirent *e; (e = readdir(d)) && s == LS_OK;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            strcmp(e->d_name, "config.json") != 0 && !ls_ends_with(e->d_name, ".safetensors") &&
            !ls_ends_with(e->d_name, ".safetensors.index.json") && !may_be_beside(e->d_name))
            s = ls_fail(LS_E_USAGE,
                        "%s: only a folder that holds a model and nothing else is replaced, and it has %s: "
                        "remove it, "
                        "or write to another one",
                        dir, e->d_name);
    closedir(d);
    return s;
}

static ls_status put_file(const char *dir, const ls_beside *b)
{
    char *path = ls_path_join(dir, b->name);
    ls_mapping m = { .data = (const uint8_t *)b->text, .size = b->text ? strlen(b->text) : 0 };
    ls_status s = b->text ? LS_OK : ls_file_map(&m, b->path);
    if (s == LS_OK) {
        s = ls_file_write(path, m.data, m.size);
        if (!b->text)
            ls_file_unmap(&m);
    }
    free(path);
    return s;
}

static ls_status fill(const ls_weights *w, const char *dir, const char *name, const ls_beside *files, int n,
                      const ls_weights_export_opts *o)
{
    char *file = ls_sys_text("%s.safetensors", name), *path = file ? ls_path_join(dir, file) : NULL;
    ls_status s = ls_sys_have(path);
    if (s == LS_OK)
        s = ls_weights_export_with(w, path, o);
    for (int i = 0; i < n && s == LS_OK; i++)
        s = put_file(dir, &files[i]);
    free(path);
    free(file);
    return s;
}

ls_status ls_weights_export_folder(const ls_weights *w, const char *dir, const char *name,
                                   const ls_beside *files, int n, bool (*may_be_beside)(const char *name),
                                   const ls_weights_export_opts *o)
{
    ls_folder f;
    ls_status s = ls_folder_init(&f, dir);
    f.replace = o->replace;
    if (s == LS_OK)
        s = check_replaced(f.dir, may_be_beside);
    if (s == LS_OK)
        s = ls_folder_begin(&f);
    if (s == LS_OK)
        s = fill(w, f.unfinished, name, files, n, o);
    if (s == LS_OK)
        s = ls_folder_commit(&f);
    ls_folder_release(&f);
    return s;
}
