/* recipe_setting.h - the settings of a recipe: the last value that was set for each key, and where it was
 * set. The functions work for any key. The headers of this folder have an order, and each includes only those
 * before it:
 *
 *     yaml_tree.h       a text as a tree
 *     recipe_setting.h  settings, and where they were set
 *     *_row.h           models, data sets, optimizers and schedules
 *     recipe_fields.h   the table of keys, their values as text
 *     recipe_read.h     files, includes and --set become settings
 *     recipe_check.h    checks of several keys at once
 *     recipe_use.h      functions for other folders */
#pragma once
#include "base/arena.h"
#include "lockstep/recipe.h"
#include "yaml_tree.h"

enum { LS_KEY_MAX = 256 }; /* room for settings of all keys */

typedef struct ls_setting {
    const char *key;      /* NULL: it is not set and has its default */
    const ls_yaml *value; /* NULL: the same */
    const char *where;    /* "FILE:LINE: KEY" or "--set KEY" */
    const char *origin;   /* "FILE:LINE", "--set", ... */
    bool recorded;        /* a run or a checkpoint has it so: the user did not write it */
    bool needed;          /* of the key: it may not change, or names files of the data */
    const ls_yaml *shown; /* a map of a module's keys: with the defaults; NULL: `value` */
} ls_setting;

typedef struct ls_recipe_state {
    ls_arena arena;
    const char *name;               /* of the recipe, in messages; its stem is the default of run.name */
    bool record;                    /* it was read from a run; older versions accepted keys without effect */
    struct ls_shared_model *module; /* of model.path (shared_model.h); NULL: it is not open */
    ls_setting set[LS_KEY_MAX];     /* by row of the table of keys */
} ls_recipe_state;

/* The setting of a key. If the key is not set, the result has no value. */
const ls_setting *ls_recipe_setting(const ls_recipe_state *state, const char *key);

/* Where the key was set, for messages: "FILE:LINE: KEY", "--set KEY", "NAME: KEY (default)". Of two keys that
 * do not fit each other, `either` takes the one that was set. */
const char *ls_recipe_where(const ls_recipe *r, const char *key);
/* Before a key of a record is used, or all needed keys that begin with `begin`: refuses one whose environment
 * variable is not set. Local. */
ls_status ls_recipe_check_names(const ls_recipe *r, const char *begin);
const char *ls_recipe_where_either(const ls_recipe *r, const char *a, const char *b);

/* The options of lower layers (ls_fail_field) and the keys that set them; ends with NULL. */
typedef struct ls_option_key {
    const char *option, *key;
} ls_option_key;
extern const ls_option_key LS_OPTION_KEYS[];

/* Messages of lower layers begin with the name of an option ("gather: ...", base/field.h). This replaces the
 * name by the key and where it was set. Returns s, or LS_E_USAGE where s says that a value does not fit
 * (LS_E_SHAPE, LS_E_UNSUPPORTED): the recipe can be corrected. */
ls_status ls_recipe_blame(const ls_recipe *r, ls_status s);
