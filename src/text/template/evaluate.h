/* evaluate.h - expressions, and the variables that they see. */
#pragma once
#include "functions.h"

/* The variables of a loop, a macro, a block or the template. Names are interned. */
typedef struct ls_jscope {
    struct ls_jscope *outer;
    struct ls_jbinding {
        const char *name;
        ls_jvalue value;
    } * bindings;
    int n, cap;
} ls_jscope;

void ls_jbind_name(ls_jrender *r, const char *name, ls_jvalue value); /* in the innermost scope */
ls_jvalue ls_jlook_up(ls_jrender *r, const char *name);
ls_jvalue ls_jevaluate(ls_jrender *r, const ls_jnode *n);

/* Recursion of evaluation and execution. false: the rendering has failed. In both cases ls_jreturn follows.
 */
bool ls_jdescend(ls_jrender *r, const ls_jnode *n);
void ls_jreturn(ls_jrender *r);
