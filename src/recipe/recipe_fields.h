/* recipe_fields.h - the one table of recipe keys, and how a value of each kind is read and printed. Private
 * to the recipe_*.c files. */
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "lockstep/recipe.h"
#include "yaml_tree.h"

typedef enum ls_key_kind {
    LS_KEY_TEXT,    /* const char * */
    LS_KEY_INT,     /* int64_t */
    LS_KEY_REAL,    /* double */
    LS_KEY_BOOL,    /* bool */
    LS_KEY_CHOICE,  /* an enum (int): index of the word */
    LS_KEY_WORD,    /* const char *: one of the words */
    LS_KEY_DTYPE,   /* ls_dtype */
    LS_KEY_BYTES,   /* int64_t */
    LS_KEY_INTS,    /* ls_int_list */
    LS_KEY_PAIR,    /* double[2] */
    LS_KEY_RANGE,   /* {int64_t min, max}: N or {min: A, max: B} */
    LS_KEY_MESH,    /* ls_mesh */
    LS_KEY_RESHARD, /* int64_t: -1 true, 0 false, N */
} ls_key_kind;

typedef struct ls_key {
    const char *key; /* "section.key", "section.group.key" or "key" */
    ls_key_kind kind;
    size_t offset;            /* in ls_recipe */
    const char *fallback;     /* default as YAML; NULL: every recipe must say it */
    double min, max;          /* INT, REAL, INTS, PAIR, BYTES, RANGE: both ends allowed, except: */
    bool above, below;        /* min itself is not allowed; max itself is not allowed */
    const char *const *words; /* CHOICE, WORD; ended by NULL */
    /* CHOICE: other names of words, "NAME word", in any case of letters; ended by NULL */
    const char *const *other;
    /* "model.type": the key belongs to the models whose rows list it (recipe_types.c); NULL: to every recipe
     */
    const char *type;
    /* "data.documents json": a value that is not the default takes effect only with one of these values of
     * that key, or, "KEY !VALUE", with another than this; ended by NULL */
    const char *const *needs;
    const char *now;   /* words that this version accepts; NULL: all in range */
    const char *later; /* why the others are refused */
    bool may_change;   /* two starts of one run may differ here */
    const char *help;
} ls_key;

enum { LS_KEY_MAX = 192 }; /* room for settings of all keys */
extern const ls_key LS_KEYS[];
extern const int LS_KEY_COUNT;
typedef struct ls_section {
    const char *name, *help;
} ls_section;
extern const ls_section LS_SECTIONS[];
extern const int LS_SECTION_COUNT;

/* What a recipe was made from: for each key the value that was set last (NULL: its default), and who did. */
typedef struct ls_setting {
    const ls_yaml *value;
    const char *where, *origin;
} ls_setting;
typedef struct ls_recipe_state {
    ls_arena arena;
    const char *name; /* of the recipe, in messages; its stem is the default of run.name */
    bool record;      /* of what was trained: older versions accepted what is without effect */
    ls_setting set[LS_KEY_MAX];
} ls_recipe_state;

/* recipe_read.c: what a text or a --set says goes into state->set. */
ls_status ls_recipe_apply_text(ls_recipe_state *state, const char *text, size_t size, const char *name);
ls_status ls_recipe_apply_file(ls_recipe_state *state, const char *path_or_name);
/* where = "ORIGIN KEY" */
ls_status ls_recipe_apply_value(ls_recipe_state *state, const char *key, const char *yaml,
                                const char *origin);
int ls_key_find(const char *key);                     /* row, -1 none */
const char *ls_recipe_bundled_text(const char *name); /* recipe_bundled.c; NULL: no such name */

/* recipe_names.c: what other programs call our keys. */
typedef struct ls_foreign_name {
    const char *theirs /* "NAME NAME", lower case */, *ours /* a key of the table */,
        *how /* that key differs */;
} ls_foreign_name;
extern const ls_foreign_name LS_FOREIGN_NAMES[];               /* ended by NULL */
const ls_foreign_name *ls_foreign_name_find(const char *word); /* NULL: none */

/* recipe_init.c: the weights of model.init, looked for where base/find.h looks. */
/* malloc'ed; NULL: model.init is random, or nothing is there */
char *ls_recipe_init_path(const ls_recipe *r);
/* LS_E_USAGE: the key's place, and where it was looked for */
ls_status ls_recipe_init_missing(const ls_recipe *r);
ls_status ls_recipe_check_init(const ls_recipe *r); /* the same where it is missing */
/* recipe.c: ls_recipe_load for a run that may have a checkpoint, and then needs model.init no more. Local. */
ls_status ls_recipe_load_to_continue(ls_recipe **out, const char *path_or_name, int n_sets,
                                     const char *const *sets);

/* recipe_huggingface.c */
/* Keys of the model that nobody set, from config.json of the folder that model.init names, if it is one of
 * Hugging Face's. */
ls_status ls_recipe_apply_config(ls_recipe_state *state);

/* recipe_value.c. `where` begins messages ("FILE:LINE: train.epochs"). Strings go to `a`. */
ls_status ls_key_read(const ls_key *k, ls_recipe *r, const ls_yaml *value, ls_arena *a, const char *where);
ls_status ls_key_default(const ls_key *k, ls_recipe *r, ls_arena *a); /* recipe.c; the key has a `fallback` */
void ls_key_print(const ls_key *k, const ls_recipe *r, ls_str *out);  /* as YAML that reads back the same */
void ls_yaml_print_text(ls_str *out, const char *text);               /* a scalar, quoted if it must be */
bool ls_words_have(const char *words, const char *word);              /* "a b c" has "b" */
bool ls_key_applies(const ls_key *k, const ls_recipe *r);         /* it belongs to what the recipe is of */
bool ls_key_condition(const char *condition, const ls_recipe *r); /* one of `needs`: it holds */

/* recipe_types.c: the keys of one model, data set, optimizer or schedule. The key has a `type`. */
bool ls_key_is_of(const ls_key *k, const char *word); /* of the type that this word names */
void ls_key_types(ls_str *out, const ls_key *k);      /* " vit mlp": the words of all types that have it */

/* recipe_reference.c: one of `needs` for people, "data.documents: json" */
void ls_key_need_text(ls_str *out, const char *need);

/* recipe_check.c: what no single key can know. Also fills in run.name. */
ls_status ls_recipe_check(ls_recipe *r);
/* The place that set the key: "FILE:LINE: KEY", "--set KEY", "NAME: KEY (default)"; or, of two that do not
 * fit, the place of the one that somebody set. */
const char *ls_recipe_where(const ls_recipe *r, const char *key);
const char *ls_recipe_where_either(const ls_recipe *r, const char *a, const char *b);
/* A message of the layers below that begins with the name of an option ("gather: ...", base/field.h) gets the
 * place of the key that fills it instead. Returns s. */
ls_status ls_recipe_blame(const ls_recipe *r, ls_status s);

/* recipe_parallel.c */
/* The layout for rank `rank` of `ranks`, `ranks_per_host` of them on each host (0: all on one), resolved and
 * checked. Its strings are the recipe's. */
ls_status ls_recipe_parallel(ls_parallel *out, const ls_recipe *r, int64_t ranks, int rank,
                             int ranks_per_host);
/* Called when all keys are read: what parallel.data means when it is a name of FSDP1, and what no number of
 * ranks would make right. */
ls_status ls_recipe_check_parallel(ls_recipe *r);
bool ls_recipe_resharding_is_implied(const ls_recipe *r); /* parallel.data: SHARD_GRAD_OP says it */
