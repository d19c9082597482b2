/* recipe_read.h - reads texts, files, --set and a config.json into the settings of a recipe. */
#pragma once
#include "recipe_fields.h"

/* recipe_read.c */
ls_status ls_recipe_apply_text(ls_recipe_state *state, const char *text, size_t size, const char *name);
ls_status ls_recipe_apply_file(ls_recipe_state *state, const char *path_or_name);
/* With origin "--set" messages begin with "--set KEY". */
ls_status ls_recipe_apply_value(ls_recipe_state *state, const char *key, const char *yaml,
                                const char *origin);

const char *ls_recipe_bundled_text(const char *name); /* recipe_bundled.c; NULL: no such name */

#define LS_INIT_LATEST "checkpoints/latest" /* of a run, which has a recipe.yaml, too */
/* recipe_find_init.c: finds what model.init names; of a run that is its newest checkpoint. *out: NULL:
 * nothing is there. */
ls_status ls_init_find(char **out, const char *name);
/* recipe_adapter.c: sets the keys of train.lora that are not set to what the adapter in folder `dir` says.
 * LS_E_USAGE: it has another rank than the recipe. */
ls_status ls_recipe_apply_adapter(ls_recipe_state *state, const char *dir);
/* recipe_huggingface.c: if model.init names a folder with a config.json of Hugging Face, sets the keys of the
 * model that are not set. */
ls_status ls_recipe_apply_config(ls_recipe_state *state);

/* What to write in place of a key or a value that there is not. Both members NULL: nothing is known. */
typedef struct ls_hint {
    const char
        *ours; /* "train.epochs", a section, "precision.param: bf16"; NULL: nothing, and `how` says why */
    const char *how; /* more about it; may be NULL */
} ls_hint;

/* recipe_hint.c. Texts go to `a`. */
bool ls_hint_is_their_section(const char *name); /* of another program: trainer, dataset */
/* `value`: the scalar that the key was given, or NULL. */
ls_hint ls_hint_key(const char *key, const char *value, ls_arena *a);
/* The same without guesses: the key's last name is a name of another program, or of one key alone. */
ls_hint ls_hint_known_key(const char *key, const char *value, ls_arena *a);
/* Adds to the refusal `s` of a value what to write in its place. */
ls_status ls_hint_value(const ls_key *k, const char *value, const char *where, ls_status s);
/* The same of `loss`, a map or a list of maps, whose types and keys may be other programs'. */
ls_status ls_hint_loss(const ls_yaml *value, const char *where, ls_status s, ls_arena *a);
/* How the value of a section is written: "optimizer: {type: adamw}" for `optimizer: adamw`. */
const char *ls_hint_section(const char *section, const char *value, ls_arena *a);
bool ls_key_is_section(const char *name); /* whether keys begin with "NAME." */

/* recipe_foreign_keys.c: names of other programs for our keys; ended by NULL */
typedef struct ls_foreign_name {
    const char *theirs;     /* names in lower case, with spaces between them: "seed", or "training.seed" */
    const char *ours, *how; /* as in ls_hint */
} ls_foreign_name;
extern const ls_foreign_name LS_FOREIGN_NAMES[];
const ls_foreign_name *ls_foreign_name_find(const char *word); /* NULL: none */

/* recipe_foreign_values.c: their values of our keys; ended by NULL */
typedef struct ls_foreign_value {
    const char *of;         /* our keys, with spaces between them */
    const char *theirs;     /* as above */
    const char *ours, *how; /* a value of these keys, or "KEY: VALUE" */
} ls_foreign_value;
extern const ls_foreign_value LS_FOREIGN_VALUES[];
const ls_foreign_value *ls_foreign_value_find(const ls_key *k, const char *word);
