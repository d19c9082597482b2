/* arguments.c - finds functions in tables, and binds arguments to their parameters. */
#include "functions.h"

const ls_jfunction *ls_jin_table(const ls_jfunction *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

int ls_jparameters(const ls_jfunction *f)
{
    int n = *f->parameters != 0;
    for (const char *c = f->parameters; *c; c++)
        n += *c == ' ';
    return n;
}

int ls_jparameter(const ls_jfunction *f, const char *name)
{
    const size_t n = strlen(name);
    int i = 0;
    for (const char *c = f->parameters; *c; i++) {
        const size_t length = strcspn(c, " ");
        if (length == n && memcmp(c, name, n) == 0)
            return i;
        c += length + (c[length] == ' ');
    }
    return -1;
}

ls_jvalue ls_japply(ls_jrender *r, const ls_jfunction *f, ls_jvalue of, const ls_jarguments *a)
{
    if (strcmp(f->parameters, "*") == 0)
        return ls_jfailed(r) ? ls_jundefined(NULL) : f->call(r, of, a);
    ls_jvalue values[LS_JPARAMETERS];
    for (int i = 0; i < LS_JPARAMETERS; i++)
        values[i].kind = LS_JABSENT;
    if (a->n_positional > ls_jparameters(f))
        ls_jfail(r, LS_E_FORMAT, "%s() takes at most %d arguments, and not %d", f->name, ls_jparameters(f),
                 a->n_positional);
    for (int i = 0; i < a->n && !ls_jfailed(r); i++) {
        const int at = i < a->n_positional ? i : ls_jparameter(f, a->names[i - a->n_positional]);
        if (at < 0 || values[at].kind != LS_JABSENT)
            ls_jfail(r, LS_E_FORMAT, "%s() has no argument '%s', or it is given twice", f->name,
                     a->names[i - a->n_positional]);
        else
            values[at] = a->values[i];
    }
    const ls_jarguments bound = { .values = values,
                                  .n = ls_jparameters(f),
                                  .n_positional = ls_jparameters(f) };
    return ls_jfailed(r) ? ls_jundefined(NULL) : f->call(r, of, &bound);
}

const ls_jtext *ls_jargument_text(ls_jrender *r, const ls_jarguments *a, int i)
{
    static const ls_jtext EMPTY = { .bytes = "" };
    if (a->values[i].kind == LS_JTEXT)
        return a->values[i].text;
    ls_jfail(r, LS_E_FORMAT, "argument %d has to be a text, and not '%s'", i + 1, ls_jtype(a->values[i]));
    return &EMPTY;
}

int64_t ls_jargument_int(ls_jrender *r, const ls_jarguments *a, int i, int64_t otherwise)
{
    const ls_jvalue v = a->values[i];
    if (v.kind == LS_JINT || v.kind == LS_JBOOL)
        return v.i;
    if (v.kind != LS_JABSENT && v.kind != LS_JNONE)
        ls_jfail(r, LS_E_FORMAT, "argument %d has to be a whole number, and not '%s'", i + 1, ls_jtype(v));
    return otherwise;
}
