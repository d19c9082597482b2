/* load.c - see load.h. */
#include "recipe/load.h"
#include <string.h>
#include "base/field.h"
#include "recipe/recipe_read.h"

ls_status load(ls_recipe **r, const char *text, int n_sets, const char *const *sets)
{
    return ls_recipe_load_text(r, text, strlen(text), "here.yaml", n_sets, sets);
}

ls_status load_set(ls_recipe **r, const char *text, const char *set)
{
    return load(r, text, set != NULL, &set);
}
