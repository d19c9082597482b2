/* functions.h - filters, tests, functions and methods by name. A name that is in none of the tables is
 * refused when a template is compiled. */
#pragma once
#include "tree.h"

enum { LS_JPARAMETERS = 6 };

/* NULL: not known */
const ls_jfunction *ls_jfilter(const char *name);
const ls_jfunction *ls_jtest(const char *name);
const ls_jfunction *ls_jglobal(const char *name);
/* A method of values of this kind. NULL: it has none, or one that would change it, which a template may not.
 */
const ls_jfunction *ls_jmethod_of(ls_jkind kind, const char *name);
bool ls_jany_method(const char *name); /* of any kind, also those that change a value */

/* arguments.c; a table ends with a NULL name */
const ls_jfunction *ls_jin_table(const ls_jfunction *table, const char *name);
int ls_jparameters(const ls_jfunction *f);                  /* how many */
int ls_jparameter(const ls_jfunction *f, const char *name); /* -1: it has none of this name */
ls_jvalue ls_japply(ls_jrender *r, const ls_jfunction *f, ls_jvalue of, const ls_jarguments *a);

/* Attributes and items as jinja2 finds them: `of.name`, `of[key]`. */
ls_jvalue ls_jget_attribute(ls_jrender *r, ls_jvalue of, const char *name);
ls_jvalue ls_jget_item(ls_jrender *r, ls_jvalue of, ls_jvalue key);
int64_t ls_jlength(ls_jrender *r, ls_jvalue of); /* fails where there is none */

/* ---- arguments, for the functions of the tables */

static inline bool ls_jgiven(const ls_jarguments *a, int i) { return a->values[i].kind != LS_JABSENT; }
/* Each fails where the argument is of another kind. */
const ls_jtext *ls_jargument_text(ls_jrender *r, const ls_jarguments *a, int i);
int64_t ls_jargument_int(ls_jrender *r, const ls_jarguments *a, int i, int64_t otherwise);

/* What filters and methods share (texts.c). */
const ls_jtext *ls_jupper(ls_jrender *r, const ls_jtext *text, bool upper);
const ls_jtext *ls_jcapitalize(ls_jrender *r, const ls_jtext *text);
/* from: 1 the begin, 2 the end, 3 both; chars NULL: white space */
const ls_jtext *ls_jstrip(ls_jrender *r, const ls_jtext *text, const ls_jtext *chars, int from);
const ls_jtext *ls_jreplace(ls_jrender *r, const ls_jtext *text, const ls_jtext *old, const ls_jtext *by,
                            int64_t most);
ls_jvalue ls_jlines(ls_jrender *r, const ls_jtext *text, bool ends); /* a list */
const ls_jtext *ls_jjoin(ls_jrender *r, const ls_jlist *items, const ls_jtext *between);
