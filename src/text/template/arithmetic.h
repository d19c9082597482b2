/* arithmetic.h - operators on values, as in Python. */
#pragma once
#include "tree.h"

ls_jvalue ls_joperate(ls_jrender *r, ls_jop op, ls_jvalue a, ls_jvalue b); /* LS_JOP_ADD to LS_JOP_POWER */
bool ls_jrelate(ls_jrender *r, ls_jop op, ls_jvalue a, ls_jvalue b);       /* LS_JOP_EQUAL to LS_JOP_NOT_IN */
ls_jvalue ls_jnegative(ls_jrender *r, ls_jvalue v);
/* of[start:stop:step]; each LS_JNONE where it is left out */
ls_jvalue ls_jslice(ls_jrender *r, ls_jvalue of, const ls_jvalue bounds[3]);
