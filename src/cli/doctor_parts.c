/* doctor_parts.c - the optional parts: whether this build has them (cmake/parts.cmake wrote the table), and
 * whether what they open at run time is here. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "base/sys.h"
#include "comm/module.h"
#include "doctor.h"

typedef struct part {
    const char *name;
    bool built;
    const char *files;        /* libraries that it opens, one of which must be here; "": none */
    const char *remedy, *use; /* "install libhdf5-dev", "arrays from HDF5 and NetCDF-4" */
} part;
static const part PARTS[] = {
#include "parts.inc"
};
enum { N_PARTS = sizeof PARTS / sizeof *PARTS };

/* Opens one of the libraries; it stays open, because it may have made threads or handlers. */
static bool opens(ls_str *text, const char *files)
{
    char name[64];
    for (const char *p = files; *p; p += strspn(p, " ")) {
        const int n = (int)strcspn(p, " ");
        snprintf(name, sizeof name, "%.*s", n, p);
        if (dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
            ls_str_add(text, name);
            return true;
        }
        ls_str_printf(text, "%s%s", text->len ? "; " : "", dlerror());
        p += n;
    }
    return false;
}

/* Whether the part can be used here; *text says what was found, or what is missing and what to do. */
static bool usable(ls_str *text, const part *p)
{
    if (!p->built) {
        ls_str_printf(text, "left out of this build (%s): %s", p->use, p->remedy);
        if (strstr(p->remedy, "install"))
            ls_str_add(text, " and build again");
        return false;
    }
    ls_str found = { 0 };
    const char *module = !strcmp(p->name, "mpi")     ? LS_MODULE_MPI
                         : !strcmp(p->name, "mpich") ? LS_MODULE_MPICH
                                                     : NULL;
    const bool here = module ? ls_module_describe(&found, module) : !*p->files || opens(&found, p->files);
    if (here)
        ls_str_printf(text, "in%s%s", found.len ? ": " : "", ls_str_text(&found));
    else
        ls_str_printf(text, "not usable (%s): %s; %s", p->use, ls_str_text(&found), p->remedy);
    ls_str_release(&found);
    return here;
}

void ls_doctor_parts(ls_doctor *d)
{
    ls_doctor_section(d, "Parts");
    for (int i = 0; i < N_PARTS; i++) {
        ls_str text = { 0 };
        const bool here = usable(&text, &PARTS[i]);
        if (!here)
            ls_str_printf(&d->unusable, "%s%s", d->unusable.len ? ", " : "", PARTS[i].name);
        if (d->as_json) {
            ls_json_object(&d->json, PARTS[i].name);
            ls_json_bool(&d->json, "built", PARTS[i].built);
            ls_json_bool(&d->json, "usable", here);
            ls_json_text(&d->json, "text", ls_str_text(&text));
            ls_json_close_object(&d->json);
        } else {
            ls_doctor_line(d, PARTS[i].name, "%s", ls_str_text(&text));
        }
        ls_str_release(&text);
    }
}

/* ---- --need */

static const part *find(const char *name, int n)
{
    for (int i = 0; i < N_PARTS; i++)
        if ((int)strlen(PARTS[i].name) == n && !strncmp(PARTS[i].name, name, (size_t)n))
            return &PARTS[i];
    return NULL;
}

ls_status ls_doctor_check_names(const char *names)
{
    const char *words[N_PARTS];
    ls_str all = { 0 };
    ls_status s = LS_OK;
    for (int i = 0; i < N_PARTS; i++) {
        words[i] = PARTS[i].name;
        ls_str_printf(&all, "%s%s", i ? ", " : "", PARTS[i].name);
    }
    for (const char *p = names; s == LS_OK; p++) {
        const int n = (int)strcspn(p, ",");
        if (!find(p, n)) {
            char word[64];
            snprintf(word, sizeof word, "%.*s", n, p);
            const char *near = ls_nearest_name(word, words, N_PARTS);
            s = ls_fail(LS_E_USAGE, "--need: there is no part \"%s\"%s%s%s; parts are %s", word,
                        near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", ls_str_text(&all));
        }
        p += n;
        if (!*p)
            break;
    }
    ls_str_release(&all);
    return s;
}

ls_status ls_doctor_need(const char *names)
{
    ls_str missing = { 0 };
    for (const char *p = names;; p++) {
        const int n = (int)strcspn(p, ",");
        const part *one = find(p, n);
        ls_str text = { 0 };
        if (one && !usable(&text, one))
            ls_str_printf(&missing, "%s%s: %s", missing.len ? "\n" : "", one->name, ls_str_text(&text));
        ls_str_release(&text);
        p += n;
        if (!*p)
            break;
    }
    const ls_status s = missing.len ? ls_fail(LS_E_UNSUPPORTED, "--need %s: %s", names, ls_str_text(&missing))
                                    : LS_OK;
    ls_str_release(&missing);
    return s;
}
