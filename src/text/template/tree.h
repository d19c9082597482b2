/* tree.h - a compiled template: nodes of statements and expressions. Names are interned: the same name is the
 * same pointer. */
#pragma once
#include "value.h"

typedef enum ls_jnode_kind {
    /* expressions */
    LS_JN_CONST,     /* constant */
    LS_JN_NAME,      /* name */
    LS_JN_CHAIN,     /* + - ~ * / // % ** : items, with ops[i] before items[i] */
    LS_JN_COMPARE,   /* the same with == != < <= > >= in, not in */
    LS_JN_AND,       /* items */
    LS_JN_OR,        /* items */
    LS_JN_NOT,       /* a */
    LS_JN_NEGATIVE,  /* a; also unary +, with ops */
    LS_JN_IF_ELSE,   /* a if b else c; c NULL: undefined */
    LS_JN_ATTRIBUTE, /* a.name */
    LS_JN_ITEM,      /* a[b] */
    LS_JN_SLICE,     /* a[items[0]:items[1]:items[2]], each may be NULL */
    LS_JN_CALL,      /* a(items) */
    LS_JN_SPREAD,    /* *a, an item of CALL */
    LS_JN_FILTER,    /* a | filter(items); a NULL: the text of a block */
    LS_JN_TEST,      /* a is test(items) */
    LS_JN_LIST,      /* items */
    LS_JN_TUPLE,     /* items; also a target of an assignment */
    LS_JN_DICT,      /* items: key, value, ... */
    /* statements */
    LS_JN_BODY,       /* items */
    LS_JN_DATA,       /* constant */
    LS_JN_PRINT,      /* a */
    LS_JN_IF,         /* items: condition, body, ...; c: else */
    LS_JN_FOR,        /* for a in b if test: c, else items[0]; test may be NULL; name: "loop" */
    LS_JN_SET,        /* a = b */
    LS_JN_SET_BLOCK,  /* a = c, through filter b (NULL: none) */
    LS_JN_MACRO,      /* name, items: parameters, as names; values: defaults; c */
    LS_JN_FILTERED,   /* c, through filter b */
    LS_JN_GENERATION, /* c */
    LS_JN_BREAK,
    LS_JN_CONTINUE,
} ls_jnode_kind;

typedef enum ls_jop {
    LS_JOP_ADD,
    LS_JOP_SUBTRACT,
    LS_JOP_JOIN, /* ~ */
    LS_JOP_MULTIPLY,
    LS_JOP_DIVIDE,
    LS_JOP_FLOOR_DIVIDE,
    LS_JOP_MODULO,
    LS_JOP_POWER,
    LS_JOP_EQUAL,
    LS_JOP_UNEQUAL,
    LS_JOP_LESS,
    LS_JOP_LESS_EQUAL,
    LS_JOP_GREATER,
    LS_JOP_GREATER_EQUAL,
    LS_JOP_IN,
    LS_JOP_NOT_IN,
} ls_jop;

typedef struct ls_jnode {
    ls_jnode_kind kind;
    int line, height; /* height: 1 + the largest of the nodes below */
    const char *name;
    ls_jvalue constant;
    struct ls_jnode *a, *b, *c, *test;
    struct ls_jnode **items;
    int n;
    ls_jop *ops;
    const char *const *keywords; /* of CALL, FILTER, TEST: names of the last n_keywords items */
    int n_keywords;
    struct ls_jnode **values;            /* MACRO: [n], NULL where a parameter has no default */
    const struct ls_jfunction *function; /* FILTER, TEST */
} ls_jnode;

typedef struct ls_jmacro {
    const ls_jnode *node;
    struct ls_jscope *scope; /* in which it was defined */
} ls_jmacro;

/* A filter, test, function or method. `parameters`: their names, separated by blanks; "*": any arguments. The
 * values of a call stand in this order, LS_JABSENT where none was given; with "*" they are all that were
 * given. */
typedef struct ls_jfunction {
    const char *name, *parameters;
    ls_jvalue (*call)(ls_jrender *r, ls_jvalue of, const ls_jarguments *a);
    ls_jkind of; /* of a method */
} ls_jfunction;

typedef struct ls_jmethod {
    const ls_jfunction *function;
    ls_jvalue of;
} ls_jmethod;

struct ls_template {
    ls_arena arena;
    const char *name;
    ls_jnode *body;
    bool generation; /* has such a block */
};

/* The body of the template (parse.c). LS_E_FORMAT, LS_E_UNSUPPORTED, LS_E_MEMORY. */
ls_status ls_jparse(struct ls_template *t, const char *text, size_t n);
