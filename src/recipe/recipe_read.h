/* recipe_read.h - reads texts, files, --set and a config.json into the settings of a recipe. */
#pragma once
#include "recipe_setting.h"

/* recipe_read.c */
ls_status ls_recipe_apply_text(ls_recipe_state *state, const char *text, size_t size, const char *name);
ls_status ls_recipe_apply_file(ls_recipe_state *state, const char *path_or_name);
/* With origin "--set" messages begin with "--set KEY". */
ls_status ls_recipe_apply_value(ls_recipe_state *state, const char *key, const char *yaml,
                                const char *origin);

const char *ls_recipe_bundled_text(const char *name); /* recipe_bundled.c; NULL: no such name */

/* recipe_huggingface.c: if model.init names a folder with a config.json of Hugging Face, sets the keys of the
 * model that are not set. */
ls_status ls_recipe_apply_config(ls_recipe_state *state);

/* recipe_foreign_keys.c: names of other programs for our keys. */
typedef struct ls_foreign_name {
    const char *theirs; /* their names, in lower case, with spaces between them */
    const char *ours;   /* the key with the same meaning */
    const char *how;    /* what to write there, for the message */
} ls_foreign_name;
extern const ls_foreign_name LS_FOREIGN_NAMES[];               /* ended by NULL */
const ls_foreign_name *ls_foreign_name_find(const char *word); /* NULL: none */
