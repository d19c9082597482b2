/* recipe_find_init.c - finds what model.init names. */
#include <stdlib.h>
#include "base/file.h"
#include "base/find.h"
#include "base/sys.h"
#include "recipe_read.h"

ls_status ls_init_find(char **out, const char *name)
{
    LS_TRY(ls_find(out, name, ls_find_any));
    if (!*out || !ls_file_in(*out, "recipe.yaml"))
        return LS_OK;
    char *latest = ls_path_join(*out, LS_INIT_LATEST);
    const bool run = latest && ls_dir_exists(latest);
    if (latest && !run) {
        free(latest);
        return LS_OK;
    }
    free(*out);
    *out = latest;
    return ls_sys_have(latest);
}
