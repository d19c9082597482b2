/* recipe_init.c - finds the weights that model.init names. */
#include <stdlib.h>
#include <string.h>
#include "base/find.h"
#include "recipe_use.h"

static bool is_random(const ls_recipe *r) { return !strcmp(r->model.init, "random"); }

static ls_status missing(const ls_recipe *r)
{
    ls_str places = { 0 };
    ls_find_places(&places, r->model.init);
    ls_status s = ls_fail(
        LS_E_USAGE, "%s: %s: no such file or folder%s%s; name weights that are there, or `random`",
        ls_recipe_where(r, "model.init"), r->model.init, places.len ? ": looked " : "", ls_str_text(&places));
    ls_str_release(&places);
    return s;
}

ls_status ls_recipe_init_path(char **out, const ls_recipe *r)
{
    LS_TRY(ls_find(out, r->model.init, ls_find_any));
    return *out ? LS_OK : missing(r);
}

ls_status ls_recipe_check_init(const ls_recipe *r)
{
    char *path = NULL;
    if (is_random(r))
        return LS_OK;
    const ls_status s = ls_recipe_init_path(&path, r);
    free(path);
    return s;
}
