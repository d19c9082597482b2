/* yaml_tree.h - reads a YAML document as a tree with line numbers. Recipes are a few kilobytes, and may be
 * hostile.
 *
 * Limits bound the cost of any input: 1 MiB of text, 32 levels, 5,000 nodes. An alias refers to its node and
 * never copies it. An alias to a node that contains it is refused, so the tree has no cycles. Keys are plain
 * words; a duplicate key is an error that names both lines. In scalars ${NAME} and ${NAME:-default} stand for
 * environment variables; $${ is a plain ${. */
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "lockstep/status.h"

#define LS_YAML_MAX_BYTES (1 << 20)
#define LS_YAML_MAX_DEPTH 32
#define LS_YAML_MAX_NODES 5000

typedef enum ls_yaml_kind { LS_YAML_SCALAR, LS_YAML_LIST, LS_YAML_MAP } ls_yaml_kind;

typedef struct ls_yaml {
    ls_yaml_kind kind;
    int line;              /* from 1 */
    const char *text;      /* scalar */
    bool quoted;           /* scalar: 'x' or "x" */
    const char *env;       /* scalar: environment variable that its text used; NULL: none */
    const char *source;    /* then: the text with ${NAME} in it */
    const char *sealed;    /* then: with ${NAME#SEAL} in it, as yaml_env.c says */
    const char *unset;     /* scalar of a record: a variable of it that is not set; its name is in the text */
    bool differs;          /* scalar of a record: a variable has not the value that was used there */
    struct ls_yaml *child; /* list items, or values of a map in order */
    struct ls_yaml *next;  /* sibling */
    const char *key;       /* of a value in a map */
    int key_line;
    /* in a map of any keys: where it was set, "FILE:LINE: " or "--set ", in front of the key in messages; and
     * its origin, "FILE:LINE (environment NAME)" or "--set". NULL elsewhere. */
    const char *place, *origin;
    struct ls_yaml *same; /* of an alias: the node that it names, never an alias */
} ls_yaml;

/* *out is NULL for an empty text. `name` is the file in messages. The tree lives in `a`. */
ls_status ls_yaml_parse(ls_yaml **out, ls_arena *a, const char *text, size_t size, const char *name);
const ls_yaml *ls_yaml_real(const ls_yaml *n); /* the node that an alias names; else n itself */
/* yaml_named_values.c: the tree as JSON, appended to `out`. Plain numbers, true and false stay what they are;
 * the rest is text. */
void ls_yaml_json(ls_str *out, const ls_yaml *n);
/* The tree as files get it, as JSON that reads as the same YAML: a text that an environment variable gave is
 * ${NAME} again, because it may be a secret. Its value stands there if it is a number, true, false, or a path
 * at which something is. With `sealed` it is ${NAME#SEAL}. And whether the tree has such a text. */
void ls_yaml_record(ls_str *out, const ls_yaml *n, bool sealed);
bool ls_yaml_has_names(const ls_yaml *n);
/* Of a record: whether a variable has another value than it had there; one that is not set (NULL: none). */
bool ls_yaml_differs(const ls_yaml *n);
const char *ls_yaml_unset(const ls_yaml *n);
/* Texts of `n` that are the same as in `before`, at the same place, have the names that they had there. */
void ls_yaml_keep_names(ls_yaml *n, const ls_yaml *before);
/* The value at a path of keys in `map`, "encoder.layers"; NULL: there is none. It may be an alias. */
const ls_yaml *ls_yaml_at(const ls_yaml *map, const char *path);
/* A copy of `map` (NULL: {}) with `value` at a path of keys, "encoder.layers". NULL: out of memory. */
ls_yaml *ls_yaml_with(ls_arena *a, const ls_yaml *map, const char *path, const ls_yaml *value);
/* yaml_env.c: replaces environment variables in the scalars. With `record`, one that is not set and has no
 * default stays as it is. */
ls_status ls_yaml_expand(ls_yaml *n, ls_arena *a, const char *name, bool record);
