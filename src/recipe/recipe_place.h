/* recipe_place.h - what a recipe was made from: the value that each key was given last, and the place that
 * gave it. Knows no key. The headers of this folder are in order, and each includes only those before it:
 *
 *     yaml_tree.h       a text as a tree
 *     recipe_place.h    settings and their places
 *     *_row.h           models, data sets, optimizers and schedules
 *     recipe_fields.h   the table of keys, their values as text
 *     recipe_read.h     files, includes and --set become settings
 *     recipe_check.h    checks of several keys at once
 *     recipe_use.h      what other folders ask of a recipe */
#pragma once
#include "base/arena.h"
#include "lockstep/recipe.h"
#include "yaml_tree.h"

enum { LS_KEY_MAX = 192 }; /* room for settings of all keys */

typedef struct ls_setting {
    const char *key;      /* NULL: nobody set it, it has its default */
    const ls_yaml *value; /* NULL likewise */
    const char *where;    /* "FILE:LINE: KEY" or "--set KEY" */
    const char *origin;   /* "FILE:LINE", "--set", ... */
} ls_setting;

typedef struct ls_recipe_state {
    ls_arena arena;
    const char *name;           /* of the recipe, in messages; its stem is the default of run.name */
    bool record;                /* of what was trained: older versions accepted what is without effect */
    ls_setting set[LS_KEY_MAX]; /* by row of the table of keys */
} ls_recipe_state;

/* Of a key that nobody set: a setting without value. */
const ls_setting *ls_recipe_setting(const ls_recipe_state *state, const char *key);

/* The place that set the key: "FILE:LINE: KEY", "--set KEY", "NAME: KEY (default)"; or, of two that do not
 * fit, the place of the one that somebody set. */
const char *ls_recipe_where(const ls_recipe *r, const char *key);
const char *ls_recipe_where_either(const ls_recipe *r, const char *a, const char *b);

/* A message of the layers below that begins with the name of an option ("gather: ...", base/field.h) gets the
 * place of the key that fills it instead. Returns s. */
ls_status ls_recipe_blame(const ls_recipe *r, ls_status s);
