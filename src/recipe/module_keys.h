/* module_keys.h - the keys that a module declares (lockstep/module.h), as rows like those of the table of
 * keys. */
#pragma once
#include "lockstep/module.h"
#include "recipe_fields.h"

/* One of the two maps of a module: model.config or data.config. */
typedef struct ls_module_map {
    const char *key;    /* "model.config" */
    const char *module; /* "mine 1 (./mine.so)", for messages */
    int n;              /* number of rows */
    const ls_key *rows; /* their `key` is the path in the map; offsets are in the module's struct */
    size_t settings;    /* size of that struct */
} ls_module_map;

/* Makes rows of the module's, in `a`. LS_E_USAGE: a row is wrong, such as a default out of its range; the
 * message begins with `where`. Local. */
ls_status ls_module_map_make(ls_module_map *out, const char *key, const char *module, const char *where,
                             const ls_module_key *rows, size_t settings, ls_arena *a);
/* The rows as Markdown; malloc'ed (recipe_reference.c). NULL: out of memory. */
char *ls_module_reference(const ls_module_map *model, const ls_module_map *data);
/* Fills a struct of settings (malloc'ed; NULL: there are no rows) from the recipe's map and the defaults.
 * *all: the map with the defaults, in the order of the rows, in the recipe's arena. LS_E_USAGE: a value is
 * wrong, is missing or has no row. Local. */
ls_status ls_module_map_read(void **settings, const ls_yaml **all, const ls_module_map *m,
                             const ls_recipe *r);
