/* parser.h - what both halves of the parser share: the tokens, names, and the first failure. After a failure
 * the parser stands at the last token, where every loop ends, and gives nodes that count nothing. */
#pragma once
#include "lexer.h"
#include "tree.h"

struct ls_jname;

typedef struct ls_jparser {
    struct ls_template *t;
    const ls_jtoken *at;
    const ls_jtoken *end; /* LS_JT_END */
    ls_status status;
    struct ls_jname **names; /* [LS_JNAME_BUCKETS] */
    struct ls_jcall *calls;  /* of names, to be checked when all are known that the template assigns */
    ls_jnode none;           /* stands for all nodes after a failure */
    int depth;               /* of the parser's recursion */
    int loops, macros;       /* around what is parsed; loops: of this macro */
} ls_jparser;

/* Remembers the failure at the line of the token, or of the parser's. */
void ls_jparse_fail(ls_jparser *p, const ls_jtoken *at, ls_status s, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool ls_jparse_enter(ls_jparser *p); /* false: nested too deep. In both cases ls_jparse_leave follows */
void ls_jparse_leave(ls_jparser *p);
ls_jnode *ls_jnode_new(ls_jparser *p, ls_jnode_kind kind, int line);
void ls_jnode_add(ls_jparser *p, ls_jnode *node, ls_jnode *item);
ls_jnode *ls_jnode_done(ls_jparser *p, ls_jnode *node); /* all that is below it is there: checks its height */
const char *ls_jname(ls_jparser *p, const char *text, bool assigned);
bool ls_jname_assigned(const char *name); /* of an interned name */
void ls_jskip(ls_jparser *p);             /* one token, if it is not the last */
bool ls_jat_op(const ls_jparser *p, const char *op);
bool ls_jat_name(const ls_jparser *p, const char *name);
bool ls_jskip_op(ls_jparser *p, const char *op); /* whether it stood there */
bool ls_jskip_name(ls_jparser *p, const char *name);
void ls_jexpect_op(ls_jparser *p, const char *op);
const char *ls_jexpect_any_name(ls_jparser *p, bool assigned); /* interned */

/* ---- parse_expression.c */
ls_jnode *ls_jparse_expression(ls_jparser *p);
ls_jnode *ls_jparse_condition(ls_jparser *p);           /* without if ... else */
ls_jnode *ls_jparse_tuple(ls_jparser *p, bool if_else); /* a, b, ... without brackets */
/* no expression begins there, behind a comma */
bool ls_jat_tuple_end(const ls_jparser *p);
ls_jnode *ls_jparse_filter(ls_jparser *p, ls_jnode *of); /* at its name; of NULL: a block's text */
void ls_jcheck_calls(ls_jparser *p);                     /* every function that is called by name is
                                                            known or assigned */
