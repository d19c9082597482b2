/* fuzz_recipe.c - any bytes as a recipe: refused with a message, or loaded into something whose printed form
 * loads to the same recipe. */
#include <stdlib.h>
#include <string.h>
#include "lockstep/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_recipe *r, *again;
    if (ls_recipe_load_text(&r, (const char *)data, size, "fuzz.yaml", 0, NULL) != LS_OK)
        return *ls_error_message() ? 0 : (abort(), 0);
    char *yaml = ls_recipe_yaml(r, true);
    if (ls_recipe_load_text(&again, yaml, strlen(yaml), "again.yaml", 0, NULL) != LS_OK)
        abort();
    char *difference = ls_recipe_difference(r, again);
    if (!difference || *difference)
        abort();
    free(difference);
    free(yaml);
    ls_recipe_destroy(&r);
    ls_recipe_destroy(&again);
    return 0;
}
