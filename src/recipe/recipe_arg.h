/* recipe_arg.h - a recipe on a command line: the arguments of ls_recipe_load. */
#pragma once

/* `name` is a file or a bundled recipe; `sets` are the texts "key=value" of --set. */
typedef struct ls_recipe_arg {
    const char *name;
    int n_sets;
    const char *const *sets;
} ls_recipe_arg;
