/* array_file.c - finds a file of arrays and opens the array of a field in it. */
#include "data/array_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/find.h"
#include "base/sys.h"
#include "data/npy.h"
#include "data/source_hash.h"

static ls_status find_file(char **out, const char *file)
{
    LS_TRY(ls_find(out, file, ls_find_any));
    if (*out && !ls_dir_exists(*out))
        return LS_OK;
    ls_str places = { 0 };
    ls_find_places(&places, file);
    const ls_status s = *out ? ls_fail(LS_E_USAGE, "%s: a folder, not a file", *out)
                             : ls_fail(LS_E_USAGE, "%s: no such file%s%s", file, places.len ? " " : "",
                                       ls_str_text(&places));
    ls_str_release(&places);
    free(*out);
    *out = NULL;
    return s;
}

/* The hash of the file's content: known from an earlier start, or computed. */
static ls_status hash(uint64_t *out, const char *path)
{
    char *cache = ls_cache_dir(), *dir = ls_path_join(cache, "inflated"), *known = ls_path_join(dir, "known");
    const ls_status s = ls_source_hash(out, path, known);
    free(known);
    free(dir);
    free(cache);
    return s;
}

static ls_status open_npy(ls_array_file *f)
{
    ls_npy array;
    LS_TRY(ls_file_map(&f->map, f->path));
    LS_TRY(ls_npy_parse(&array, f->map.data, f->map.size, f->path));
    f->type = array.type;
    f->data = array.data;
    return hash(&f->digest, f->path);
}

ls_status ls_array_file_open(ls_array_file *out, const char *file, const char *field)
{
    *out = (ls_array_file){ 0 };
    const char *dot = strrchr(file, '.');
    if (!dot || strcmp(dot, ".npy") != 0)
        return ls_fail(LS_E_USAGE,
                       "%s: field \"%s\" needs a file that numpy.save writes, with a name in .npy", file,
                       field);
    LS_TRY(find_file(&out->path, file));
    const ls_status s = open_npy(out);
    if (s != LS_OK)
        ls_array_file_close(out);
    return s;
}

void ls_array_file_close(ls_array_file *f)
{
    ls_file_unmap(&f->map);
    free(f->path);
    *f = (ls_array_file){ 0 };
}
