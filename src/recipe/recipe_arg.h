/* recipe_arg.h - a recipe as a command line names it: what ls_recipe_load takes. */
#pragma once

/* a file or the name of a bundled recipe, and texts "key=value" of --set */
typedef struct ls_recipe_arg {
    const char *name;
    int n_sets;
    const char *const *sets;
} ls_recipe_arg;
