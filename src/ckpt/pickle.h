/* pickle.h - Python's pickles as data. The machine knows the opcodes that torch.save writes state dicts with,
 * builds values and runs nothing: a global is a name, a call is a name with arguments. Every other opcode,
 * and every global that the caller does not know, is refused by name. Private to src/ckpt. */
#pragma once
#include "base/arena.h"
#include "base/str.h"

typedef enum ls_pickle_kind {
    LS_PICKLE_MARK, /* never inside a value */
    LS_PICKLE_NONE,
    LS_PICKLE_BOOL,
    LS_PICKLE_INT,
    LS_PICKLE_FLOAT,
    LS_PICKLE_OTHER, /* an integer of more than 64 bits */
    LS_PICKLE_TEXT,
    LS_PICKLE_GLOBAL, /* `text` "torch._utils _rebuild_tensor_v2" */
    LS_PICKLE_TUPLE,
    LS_PICKLE_LIST,
    LS_PICKLE_DICT,       /* `items` key, value, key, value, ...; an OrderedDict too */
    LS_PICKLE_CALL,       /* `items` global, tuple of arguments */
    LS_PICKLE_OBJECT,     /* `items` global, tuple of arguments and, where it has some, its state */
    LS_PICKLE_PERSISTENT, /* `items` the id */
} ls_pickle_kind;

typedef struct ls_pickle {
    ls_pickle_kind kind;
    int64_t number; /* BOOL, INT */
    double real;    /* FLOAT */
    /* TEXT: UTF-8 as it stands in the pickle, not ended by NUL; GLOBAL: ended by NUL */
    const char *text;
    size_t length;
    struct ls_pickle **items; /* may lead back to the value itself: a reader bounds its depth */
    size_t n, room;
} ls_pickle;

typedef struct ls_pickle_source {
    const uint8_t *bytes;
    size_t size;
    uint64_t offset; /* of the bytes inside the file, for messages */
    const char *path;
    bool (*known)(const char *global); /* "collections OrderedDict" need not be among them */
    bool objects;                      /* of the known names there are objects (NEWOBJ, BUILD) */
    const char *what, *advice;         /* "a state dict"; what to do with a file that holds something else */
} ls_pickle_source;

typedef struct ls_pickle_result {
    ls_pickle *value;
    ls_pickle persistent; /* a list: every PERSISTENT inside */
    size_t used;          /* bytes of the source: a pickle need not fill it */
} ls_pickle_result;

bool ls_pickle_is(const ls_pickle *text, const char *word);
int ls_pickle_compare(const ls_pickle *a, const ls_pickle *b); /* two texts: an order */
const ls_pickle *ls_pickle_find(const ls_pickle *dict, const char *key); /* NULL: not there, or no dict */

/* Reads one pickle. The values live in `arena` and point into the source. */
ls_status ls_pickle_read(ls_pickle_result *out, ls_arena *arena, const ls_pickle_source *source);

/* pickle_write.c: one value each, to be put together with opcodes between them. */
void ls_pickle_put_int(ls_str *out, int64_t x); /* 0 or more */
void ls_pickle_put_float(ls_str *out, double x);
void ls_pickle_put_text(ls_str *out, const char *text);
void ls_pickle_put_global(ls_str *out, const char *global);          /* "torch FloatStorage" */
void ls_pickle_put_ints(ls_str *out, int n, const int64_t *numbers); /* a tuple */
