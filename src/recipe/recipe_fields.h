/* recipe_fields.h - the table of recipe keys, and functions that read and print their values. */
#pragma once
#include "base/str.h"
#include "base/variable.h"
#include "recipe_setting.h"

typedef enum ls_key_kind {
    LS_KEY_TEXT,    /* const char * */
    LS_KEY_WORDS,   /* const char *: words with spaces between them; a list of words too */
    LS_KEY_PATHS,   /* const char *: paths with line feeds between them; one, or a list */
    LS_KEY_INT,     /* int64_t */
    LS_KEY_REAL,    /* double */
    LS_KEY_BOOL,    /* bool */
    LS_KEY_CHOICE,  /* an enum (int): index of the word */
    LS_KEY_WORD,    /* const char *: one of the words */
    LS_KEY_DTYPE,   /* ls_dtype */
    LS_KEY_BYTES,   /* int64_t */
    LS_KEY_INTS,    /* ls_int_list */
    LS_KEY_PAIR,    /* double[2] */
    LS_KEY_REALS,   /* ls_real_list: a number or a list of numbers */
    LS_KEY_RANGE,   /* {int64_t min, max}: N or {min: A, max: B} */
    LS_KEY_MESH,    /* ls_mesh */
    LS_KEY_RESHARD, /* int64_t: -1 true, 0 false, N */
    LS_KEY_PORTS,   /* ls_port_list */
    LS_KEY_FILES,   /* ls_file_list */
    LS_KEY_LOSSES,  /* ls_loss_list: one loss, or a list */
    LS_KEY_TREE,    /* const char *: any map, as JSON */
    LS_KEY_MAPS,    /* int64_t n, then an array of LS_RECIPE_LIST structs: a list of maps (ls_maps) */
} ls_key_kind;

struct ls_key;
/* The maps of a list. `members` are their keys, with offsets in the struct of one map; ended by key NULL. One
 * whose fallback is NULL must be there; the others have the values of `init` when they are not. */
typedef struct ls_maps {
    size_t size;      /* of the struct */
    const void *init; /* one of them */
    const struct ls_key *members;
    const char *example;
} ls_maps;
extern const ls_maps LS_GROUP_MAPS, LS_RENAME_MAPS; /* recipe_map_list_keys.c */

typedef struct ls_key {
    const char *key; /* "section.key", "section.group.key" or "key" */
    ls_key_kind kind;
    size_t offset;                /* in ls_recipe */
    const char *fallback;         /* default as YAML; NULL: every recipe must set the key */
    double min, max;              /* range of INT, REAL, REALS, INTS, PAIR, BYTES, RANGE */
    bool above, below;            /* the range excludes min; it excludes max */
    const char *const *words;     /* CHOICE, WORD: ended by NULL; or, if NULL, */
    const char *(*word)(int row); /* the names of the rows of a table, NULL after the last */
    const ls_maps *maps;          /* MAPS */
    /* "NAME value" accepts NAME, in upper or lower case, as that value; ended by NULL */
    const char *const *other;
    /* "model.type": the key belongs to the models whose rows list it (recipe_types.c); NULL: to every recipe
     */
    const char *type;
    /* "data.documents json": a value other than the default has an effect only with one of these values of
     * that key; "KEY !VALUE": with any other than this one; "data.type @data.download": with the types that
     * have the key data.download. Ended by NULL. */
    const char *const *needs;
    const char *now;         /* words that this version accepts; NULL: all that are in range */
    const char *why_refused; /* the others */
    /* Two starts of one run may have different values. So it is for files whose content a run compares. */
    bool may_change;
    bool config; /* a checkpoint's config.json has it, unless `needs` say that it has no effect */
    bool needed; /* though it may change: a record whose variable is not set cannot do without */
    const char *help;
} ls_key;

/* The rows, by number, in the order of a resolved recipe. */
int ls_key_count(void);
const ls_key *ls_key_at(int i);
int ls_key_find(const char *key);            /* number of the row; -1: no such key */
const ls_key *ls_key_named(const char *key); /* NULL: no such key */

typedef struct ls_section {
    const char *name, *help;
} ls_section;
extern const ls_section LS_SECTIONS[];
extern const int LS_SECTION_COUNT;

/* recipe_scalar.c */
bool ls_key_parse_real(const char *text, double *out);  /* a decimal number */
void ls_yaml_print_text(ls_str *out, const char *text); /* a scalar, quoted if it must be */

/* recipe_map_list.c. `where` begins messages ("FILE:LINE: train.epochs"). Strings go to `a`. */
ls_status ls_key_read(const ls_key *k, ls_recipe *r, const ls_yaml *value, ls_arena *a, const char *where);
ls_status ls_key_default(const ls_key *k, ls_recipe *r, ls_arena *a); /* the key has a `fallback` */
void ls_key_print(const ls_key *k, const ls_recipe *r,
                  ls_str *out); /* as YAML that reads back as this value */
/* recipe_print.c: as files get it, without what environment variables may hide */
void ls_key_record(const ls_key *k, const ls_recipe *r, ls_str *out);
/* recipe_value.c: word number i of a CHOICE or WORD; NULL: there are no more. */
const char *ls_key_word(const ls_key *k, int i);
bool ls_key_accepts(const ls_key *k, const char *word);
void ls_key_words(ls_str *out, const ls_key *k); /* appends those that it accepts: "own, tf32" */
/* The same as above for a key of any kind but MAPS */
ls_status ls_value_read(const ls_key *k, ls_recipe *r, const ls_yaml *value, ls_arena *a, const char *where);
void ls_value_print(const ls_key *k, const ls_recipe *r, ls_str *out);
void ls_value_print_tree(ls_str *out, const char *json); /* the JSON of a TREE, as YAML */
#define LS_LOSS_NEEDS "a loss has a `type` and is `of` an output, as {type: mse, of: y}"
/* recipe_named_values.c: the same for maps of names of one's own, PORTS, FILES and LOSSES. json: printed as
 * JSON. */
bool ls_key_is_named(const ls_key *k);
ls_status ls_named_read(const ls_key *k, ls_recipe *r, const ls_yaml *value, ls_arena *a, const char *where);
void ls_named_print(const ls_key *k, const ls_recipe *r, bool json, ls_str *out);

/* recipe_types.c */
/* Whether the row `word` lists the key, which has a `type`. */
bool ls_key_is_of(const ls_key *k, const char *word);
/* Whether the recipe's model (data set, ...) has the key. */
bool ls_key_applies(const ls_key *k, const ls_recipe *r);
/* Whether one of the conditions in `needs` is true. */
bool ls_key_condition(const char *condition, const ls_recipe *r);
/* Appends the names of all rows that list the key, which has a `type`: " vit mlp". */
void ls_key_types(ls_str *out, const ls_key *k);

/* recipe_reference.c: appends one of `needs` in words: "data.documents: json". */
void ls_key_need_text(ls_str *out, const char *need);
