/* execute.h - statements. */
#pragma once
#include "tree.h"

/* Runs a compiled template; what it writes goes to r->out. */
void ls_jexecute(ls_jrender *r, const struct ls_template *t);
