/* recipe_init.c - finds and opens the weights that model.init names. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/find.h"
#include "base/log.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "recipe_read.h"
#include "recipe_use.h"

/* Says which checkpoint `latest` is, unless the recipe names it so itself. */
static void say_latest(const ls_recipe *r, const char *path)
{
    const size_t n = strlen(path), end = sizeof LS_INIT_LATEST - 1;
    char *is = n > end && !strcmp(path + n - end, LS_INIT_LATEST) && !strstr(r->model.init, LS_INIT_LATEST)
                   ? realpath(path, NULL)
                   : NULL;
    const char *slash = is ? strrchr(is, '/') : NULL;
    if (slash)
        ls_log_info("init   the newest checkpoint of %s: %s", r->model.init, slash + 1);
    free(is);
}

static ls_status init_missing(const ls_recipe *r)
{
    ls_str places = { 0 };
    ls_find_places(&places, r->model.init);
    ls_status s = ls_fail(
        LS_E_USAGE, "%s: %s: no such file or folder%s%s; name weights that are there, or `random`",
        ls_recipe_where(r, "model.init"), r->model.init, places.len ? ": looked " : "", ls_str_text(&places));
    ls_str_release(&places);
    return s;
}

static ls_status init_find(char **out, const ls_recipe *r)
{
    if (ls_ends_with(r->model.init, ".gguf"))
        return ls_fail(
            LS_E_UNSUPPORTED,
            "%s: %s: a file for llama.cpp, from which nothing is trained: name the folder that it was "
            "made of",
            ls_recipe_where(r, "model.init"), r->model.init);
    LS_TRY(ls_init_find(out, r->model.init));
    return *out ? LS_OK : init_missing(r);
}

ls_status ls_recipe_open_weights(ls_weights **out, const ls_recipe *r, const char *path)
{
    ls_weights *base = NULL;
    char *folder = NULL;
    if (ls_part_is(path))
        return ls_fail(LS_E_USAGE,
                       "%s: holds only what its run trained (checkpoint.frozen: reference); write the whole "
                       "model with lockstep export %s --to FOLDER/, and name that folder",
                       path, path);
    LS_TRY(ls_weights_open(out, path));
    if (!ls_adapter_is(path))
        return LS_OK;
    ls_status s = ls_recipe_find_base(&folder, path, r->checkpoint.base);
    if (s == LS_OK)
        s = ls_weights_open(&base, folder);
    if (s == LS_OK)
        s = ls_weights_join(*out, &base);
    if (s != LS_OK)
        ls_weights_close(out);
    ls_weights_close(&base);
    free(folder);
    return s;
}

ls_status ls_recipe_open_init(ls_weights **out, const ls_recipe *r)
{
    char *path = NULL;
    *out = NULL;
    LS_TRY(init_find(&path, r));
    const ls_status s = ls_recipe_open_weights(out, r, path);
    if (s == LS_OK)
        say_latest(r, path);
    free(path);
    return s;
}

static ls_status check_weights(const ls_recipe *r, const char *path)
{
    ls_weights *w = NULL;
    const ls_status s = ls_recipe_open_weights(&w, r, path);
    ls_weights_close(&w);
    return s == LS_OK || s == LS_E_STOPPED ? s : ls_fail_in(s, "%s", ls_recipe_where(r, "model.init"));
}

ls_status ls_recipe_check_init(const ls_recipe *r, bool to_train)
{
    char *path = NULL;
    if (!strcmp(r->model.init, "random"))
        return LS_OK;
    LS_TRY(init_find(&path, r));
    const ls_status s = !to_train && ls_file_in(path, "config.json") ? LS_OK : check_weights(r, path);
    free(path);
    return s;
}
