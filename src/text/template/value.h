/* value.h - the values that a template computes with: Python's, as far as templates see them. A value that
 * came from a conversation carries its origin; a text carries one for every byte. Lists and dictionaries are
 * never changed once the template has them (transformers renders in an immutable sandbox), so they are
 * shared, and none contains itself. Everything lies in the rendering's arena or belongs to the caller's JSON.
 */
#pragma once
#include "base/arena.h"
#include "text/template.h"

/* Where bytes came from: ls_from, message + 1, and whether a {% generation %} block wrote them. 0: the
 * template. */
typedef uint32_t ls_jorigin;
#define LS_JORIGIN_GENERATION 0x80000000u
#define LS_JORIGIN(from, message) ((ls_jorigin)(from) | (ls_jorigin)((message) + 1) << 3)

typedef struct ls_jpiece {
    size_t end; /* in the text; the piece begins where the one before it ends */
    ls_jorigin origin;
} ls_jpiece;

typedef struct ls_jtext {
    const char *bytes; /* valid UTF-8 */
    size_t n;
    const ls_jpiece *pieces; /* the last one ends at n; none of an empty text */
    size_t n_pieces;
    bool markup; /* came from `safe` or `escape`: what is added to it is escaped */
} ls_jtext;

typedef enum ls_jkind {
    LS_JUNDEFINED,
    LS_JNONE,
    LS_JBOOL,
    LS_JINT,
    LS_JFLOAT,
    LS_JTEXT,
    LS_JLIST,
    LS_JTUPLE,
    LS_JVIEW,     /* dict.items() and the like: has a length, but no items by number */
    LS_JITERATOR, /* what `map` and the like give: true, without a length, empty once it was read */
    LS_JDICT,
    LS_JNAMESPACE,
    LS_JLOOP,
    LS_JMACRO,
    LS_JFUNCTION,
    LS_JMETHOD,
    LS_JABSENT, /* an argument that was not given; templates never see it */
} ls_jkind;

typedef struct ls_jvalue {
    ls_jkind kind;
    ls_jorigin origin; /* of a value that is not a text: of its printed form */
    union {
        int64_t i; /* also of LS_JBOOL */
        double f;
        const ls_jtext *text;
        struct ls_jlist *list; /* LS_JLIST to LS_JITERATOR */
        struct ls_jdict *dict; /* also of LS_JNAMESPACE */
        struct ls_jloop *loop;
        const struct ls_jmacro *macro;
        const struct ls_jfunction *function;
        const struct ls_jmethod *method;
        const char *name; /* LS_JUNDEFINED: what it is that is not defined */
    };
} ls_jvalue;

typedef struct ls_jlist {
    ls_jvalue *items;
    int64_t n, cap;
    int depth; /* 1 + the largest depth of an item */
} ls_jlist;

typedef struct ls_jdict {
    struct ls_jentry {
        ls_jvalue key, value;
    } * entries; /* in the order in which they were put */
    int64_t n, cap;
    int depth;
} ls_jdict;

/* What a loop knows of itself. */
typedef struct ls_jloop {
    const ls_jlist *items;
    int64_t index;     /* from 0 */
    ls_jvalue changed; /* the last argument of loop.changed; LS_JABSENT at first */
} ls_jloop;

typedef struct ls_jarguments {
    const ls_jvalue *values; /* first those by position */
    int n, n_positional;
    const char *const *names; /* [n - n_positional] of those behind them */
} ls_jarguments;

/* A rendering. A failure is remembered in `status`: what is computed from then on counts nothing, and loops
 * end. */
typedef struct ls_jrender {
    const char *name; /* of the template */
    int line;         /* of what is being computed */
    ls_status status;
    ls_arena arena;
    int64_t steps;
    int depth, calls; /* of the interpreter's recursion; of macros */
    int64_t clock;
    struct ls_jbuilder *out;
    ls_jorigin generation; /* LS_JORIGIN_GENERATION inside such a block */
    struct ls_jscope *scope;
    ls_jvalue variables; /* a dictionary: those that the caller gives */
    ls_jvalue block;     /* the text that the filters of a block begin with */
    /* execute.c's, which stands above the files that call it */
    ls_jvalue (*call_macro)(struct ls_jrender *r, const struct ls_jmacro *m, const ls_jarguments *a);
} ls_jrender;

void ls_jfail(ls_jrender *r, ls_status s, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool ls_jfailed(const ls_jrender *r);
/* Counts work on `n` bytes or items. False: the rendering has failed, perhaps just now. */
bool ls_jstep(ls_jrender *r, size_t n);
void *ls_jalloc(ls_jrender *r, size_t bytes); /* zeroed; NULL: the rendering has failed */

/* ---- making values */

ls_jvalue ls_jundefined(const char *name);
ls_jvalue ls_jnone(void);
ls_jvalue ls_jbool(bool b);
ls_jvalue ls_jint(int64_t i);
ls_jvalue ls_jfloat(double f);
ls_jvalue ls_jtext_value(const ls_jtext *text); /* NULL, after a failure: undefined */
/* A list of `kind` with room for n items; LS_JUNDEFINED after a failure, which ls_jlist_add ignores. */
ls_jvalue ls_jlist_new(ls_jrender *r, ls_jkind kind, int64_t n);
void ls_jlist_add(ls_jrender *r, ls_jvalue list, ls_jvalue item);
ls_jvalue ls_jdict_new(ls_jrender *r, ls_jkind kind);
void ls_jdict_put(ls_jrender *r, ls_jvalue dict, ls_jvalue key, ls_jvalue value);
const ls_jvalue *ls_jdict_find(ls_jrender *r, const ls_jdict *d, ls_jvalue key);
const ls_jvalue *ls_jdict_name(ls_jrender *r, const ls_jdict *d, const char *name);
ls_jvalue ls_jpair(ls_jrender *r, ls_jvalue a, ls_jvalue b); /* a tuple */
/* JSON as values. `origin` is that of everything in it. copy: its texts, too; otherwise the JSON has to last.
 */
ls_jvalue ls_jfrom_json(ls_jrender *r, const json_t *json, ls_jorigin origin, int depth, bool copy);

/* ---- asking values */

bool ls_jis_list(ls_jvalue v); /* LS_JLIST to LS_JITERATOR */
bool ls_jis_number(ls_jvalue v);
double ls_jnumber(ls_jvalue v);
bool ls_jtruth(ls_jvalue v);
const char *ls_jtype(ls_jvalue v); /* Python's name of its type, for messages */
bool ls_jequal(ls_jrender *r, ls_jvalue a, ls_jvalue b);
int ls_jcompare(ls_jrender *r, ls_jvalue a, ls_jvalue b); /* <0, 0, >0; fails where Python has no order */
bool ls_jcontains(ls_jrender *r, ls_jvalue all, ls_jvalue item);
/* The items of what can be looped over: characters of a text, keys of a dictionary. An iterator is empty
 * afterwards. NULL: the rendering has failed. */
const ls_jlist *ls_jitems(ls_jrender *r, ls_jvalue v);

/* ---- texts with origins (text.c) */

typedef struct ls_jbuilder {
    char *bytes;
    size_t n, cap, limit; /* limit 0: LS_TEMPLATE_OUTPUT */
    ls_jpiece *pieces;
    size_t n_pieces, cap_pieces;
} ls_jbuilder;
void ls_jadd(ls_jrender *r, ls_jbuilder *b, const char *bytes, size_t n, ls_jorigin origin);
void ls_jadd_text(ls_jrender *r, ls_jbuilder *b, const ls_jtext *text);
void ls_jadd_part(ls_jrender *r, ls_jbuilder *b, const ls_jtext *text, size_t from, size_t to);
const ls_jtext *ls_jbuilt(ls_jrender *r, ls_jbuilder *b);                                   /* never NULL */
const ls_jtext *ls_jtext_of(ls_jrender *r, const char *bytes, size_t n, ls_jorigin origin); /* not copied */
const ls_jtext *ls_jpart(ls_jrender *r, const ls_jtext *text, size_t from, size_t to);
ls_jorigin ls_jorigin_at(const ls_jtext *text, size_t at); /* of the byte */
/* Of a text as a whole: of its first byte that is not the template's. */
ls_jorigin ls_jorigin_text(const ls_jtext *text);
size_t ls_jcharacters(ls_jrender *r, const ls_jtext *text);
size_t ls_joffset(const ls_jtext *text, size_t from, int64_t characters); /* bytes from `from` on */
/* Python's white space: Unicode's, and U+001C to U+001F. */
bool ls_jis_white(uint32_t c);
size_t ls_jstrip_end(const char *s, size_t from, size_t to);   /* the end without white space before it */
size_t ls_jstrip_begin(const char *s, size_t from, size_t to); /* the begin without white space */
/* The offset of `part` from `from` on; SIZE_MAX: not there. */
size_t ls_jfind(const ls_jtext *text, const ls_jtext *part, size_t from);

/* ---- as text (show.c, tojson.c) */

const ls_jtext *ls_jshow(ls_jrender *r, ls_jvalue v); /* Python's str() */
void ls_jshow_to(ls_jrender *r, ls_jbuilder *b, ls_jvalue v);
void ls_jadd_float(ls_jrender *r, ls_jbuilder *b, double f, ls_jorigin origin); /* Python's repr() */
const ls_jtext *ls_jescape(ls_jrender *r, const ls_jtext *text); /* for HTML; the result is markup */
typedef struct ls_jjson {
    bool ascii, sorted;
    const ls_jtext *indent;       /* of one level; NULL: one line */
    const ls_jtext *item, *colon; /* separators */
} ls_jjson;
const ls_jtext *ls_jto_json(ls_jrender *r, ls_jvalue v, const ls_jjson *how);
