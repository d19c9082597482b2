/* pickle.h - reads Python's pickles as data. The machine knows the opcodes with which torch.save writes state
 * dicts. It builds values and runs nothing: a global is a name, and a call is a name with arguments. All
 * other opcodes, and globals that the caller does not know, are errors that name them. Private to
 * src/ckpt. */
#pragma once
#include "base/arena.h"
#include "base/str.h"

typedef enum ls_pickle_kind {
    LS_PICKLE_MARK, /* on the machine's stack only, never inside a value */
    LS_PICKLE_NONE,
    LS_PICKLE_BOOL,
    LS_PICKLE_INT,
    LS_PICKLE_FLOAT,
    LS_PICKLE_OTHER, /* an integer of more than 64 bits */
    LS_PICKLE_TEXT,
    LS_PICKLE_GLOBAL, /* `text`: "torch._utils _rebuild_tensor_v2" */
    LS_PICKLE_TUPLE,
    LS_PICKLE_LIST,
    LS_PICKLE_DICT,       /* `items`: key, value, key, value, ...; also an OrderedDict */
    LS_PICKLE_CALL,       /* `items`: global, tuple of arguments */
    LS_PICKLE_OBJECT,     /* `items`: global, tuple of arguments, and its state if it has one */
    LS_PICKLE_PERSISTENT, /* `items`: the id */
} ls_pickle_kind;

typedef struct ls_pickle {
    ls_pickle_kind kind;
    int64_t number; /* BOOL, INT */
    double real;    /* FLOAT */
    /* TEXT: UTF-8 inside the pickle, without a NUL; GLOBAL: with a NUL. */
    const char *text;
    size_t length;
    struct ls_pickle **items; /* may contain the value itself, so readers must limit the depth */
    size_t n, room;
} ls_pickle;

typedef struct ls_pickle_source {
    const uint8_t *bytes;
    size_t size;
    uint64_t offset; /* the pickle's position in the file, for messages */
    const char *path;
    bool (*known)(const char *global); /* which globals are known ("collections OrderedDict" always is) */
    bool objects;                      /* objects of known classes are accepted (NEWOBJ, BUILD) */
    size_t most; /* values: each takes some 70 bytes of memory, and may be one byte of the pickle */
    /* what: "a state dict"; advice: what to do if the file contains something else; advice_for (may be NULL):
     * what to do about an unknown global, or NULL */
    const char *what, *advice;
    const char *(*advice_for)(const char *global);
} ls_pickle_source;

typedef struct ls_pickle_result {
    ls_pickle *value;
    ls_pickle persistent; /* a list: every PERSISTENT inside */
    size_t used;          /* length of the pickle in the source */
} ls_pickle_result;

bool ls_pickle_is(const ls_pickle *text, const char *word);
int ls_pickle_compare(const ls_pickle *a, const ls_pickle *b);           /* two texts: an order */
const ls_pickle *ls_pickle_find(const ls_pickle *dict, const char *key); /* NULL: not found, or not a dict */

/* Reads one pickle. The values live in `arena` and point into the source. */
ls_status ls_pickle_read(ls_pickle_result *out, ls_arena *arena, const ls_pickle_source *source);

/* pickle_names.c: of an opcode, 0 to 255; NULL: it has no name */
const char *ls_pickle_opcode(int opcode);

/* pickle_write.c: each appends the opcodes of one value. */
void ls_pickle_put_int(ls_str *out, int64_t x); /* x >= 0 */
void ls_pickle_put_float(ls_str *out, double x);
void ls_pickle_put_text(ls_str *out, const char *text);
void ls_pickle_put_global(ls_str *out, const char *global);          /* "torch FloatStorage" */
void ls_pickle_put_ints(ls_str *out, int n, const int64_t *numbers); /* a tuple */
