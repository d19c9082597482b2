/* recipe_arg.h - a recipe on a command line: the arguments of ls_recipe_load. */
#pragma once
#include <stdbool.h>

/* `name` is a file or a bundled recipe; `sets` are the texts "key=value" of --set. */
typedef struct ls_recipe_arg {
    const char *name;
    int n_sets;
    const char *const *sets;
    bool best; /* --best: of a run's checkpoints the best one (record/run_choice.h) */
} ls_recipe_arg;
