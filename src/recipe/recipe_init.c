/* recipe_init.c - finds and opens the weights that model.init names. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/find.h"
#include "base/log.h"
#include "base/sys.h"
#include "recipe_read.h"
#include "recipe_use.h"

static const char LATEST[] = "checkpoints/latest"; /* of a run, which has a recipe.yaml, too */

ls_status ls_init_find(char **out, const char *name)
{
    LS_TRY(ls_find(out, name, ls_find_any));
    if (!*out || !ls_file_in(*out, "recipe.yaml"))
        return LS_OK;
    char *latest = ls_path_join(*out, LATEST);
    const bool run = latest && ls_dir_exists(latest);
    if (latest && !run) {
        free(latest);
        return LS_OK;
    }
    free(*out);
    *out = latest;
    return ls_sys_have(latest);
}

/* Says which checkpoint `latest` is, unless the recipe names it so itself. */
static void say_latest(const ls_recipe *r, const char *path)
{
    const size_t n = strlen(path), end = sizeof LATEST - 1;
    char *is = n > end && !strcmp(path + n - end, LATEST) && !strstr(r->model.init, LATEST)
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

ls_status ls_recipe_open_init(ls_weights **out, const ls_recipe *r)
{
    char *path = NULL;
    *out = NULL;
    LS_TRY(init_find(&path, r));
    const ls_status s = ls_weights_open(out, path);
    if (s == LS_OK)
        say_latest(r, path);
    free(path);
    return s;
}

static ls_status check_weights(const ls_recipe *r, const char *path)
{
    ls_weights *w = NULL;
    const ls_status s = ls_weights_open(&w, path);
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
