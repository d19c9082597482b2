/* verify_build.c - see verify_build.h. */
#include "verify_build.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/code_hash.h"
#include "base/file.h"
#include "base/sys.h"
#include "record/step_folder.h"

static void find_checkpoints(ls_verify_build *out, const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        const int64_t step = ls_step_folder_parse(e->d_name);
        if (step > 0 && (!out->oldest || step < out->oldest))
            out->oldest = step;
        if (step > out->newest)
            out->newest = step;
    }
    if (d)
        closedir(d);
}

ls_status ls_verify_build_read(ls_verify_build *out, const char *run_dir)
{
    char name[LS_STEP_FOLDER_ROOM];
    *out = (ls_verify_build){ .step = 0 };
    char *folder = ls_path_join(run_dir, "checkpoints"), *result = ls_path_join(run_dir, "result.json");
    if (folder && result) {
        json_t *j = json_load_file(result, 0, NULL);
        out->builds = json_incref(json_object_get(j, "builds"));
        out->step = json_integer_value(json_object_get(j, "step"));
        json_decref(j);
        find_checkpoints(out, folder);
        if (out->newest > out->step)
            out->step = out->newest;
    }
    ls_str trainer = { 0 };
    ls_str_printf(&trainer, "%s/%s/trainer.json", folder ? folder : "", ls_step_folder(name, out->newest));
    if (out->newest)
        out->trainer = json_load_file(ls_str_text(&trainer), 0, NULL);
    const ls_status s = folder && result ? ls_str_status(&trainer) : ls_sys_have(NULL);
    ls_str_release(&trainer);
    free(folder);
    free(result);
    return s;
}

void ls_verify_build_release(ls_verify_build *b)
{
    json_decref(b->builds);
    json_decref(b->trainer);
    *b = (ls_verify_build){ .step = 0 };
}

static int64_t after(const json_t *entry) { return json_integer_value(json_object_get(entry, "after")); }

const json_t *ls_verify_build_of(const ls_verify_build *b, int64_t step)
{
    for (size_t i = json_array_size(b->builds); i-- > 0;)
        if (after(json_array_get(b->builds, i)) < step)
            return json_array_get(b->builds, i);
    return NULL;
}

static const char *text_of(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text ? text : "";
}

/* The layout that the bits depend on, as words. */
static const char *layout_of(const json_t *entry)
{
    const char *layout = text_of(entry, "layout");
    return *layout ? layout : "a layout whose bits every layout on 1, 2, 4, ... ranks has";
}

/* Entries of older versions do not say. */
static bool is_other_layout(const json_t *a, const json_t *b)
{
    return *text_of(a, "isa") && *text_of(b, "isa") &&
           strcmp(text_of(a, "layout"), text_of(b, "layout")) != 0;
}

ls_status ls_verify_build_check(const ls_verify_build *b, const char *run_dir, int64_t from, int64_t to)
{
    const json_t *last = ls_verify_build_of(b, to);
    int64_t since = after(last);
    while (last && since > from) {
        const json_t *e = ls_verify_build_of(b, since);
        if (is_other_layout(e, last))
            return ls_fail(
                LS_E_USAGE,
                "%s: step %" PRId64 " was trained on %s, and step %" PRId64
                " on %s, and their bits are not the same (docs/ranks.md): verify the steps before or "
                "behind step %" PRId64 ", as with %s %" PRId64,
                run_dir, since, layout_of(e), since + 1, layout_of(last), since,
                b->oldest && b->oldest <= since ? "--from" : "--from 0 --to", since);
        since = e ? after(e) : from;
    }
    return LS_OK;
}

bool ls_verify_build_other(const ls_verify_build *b, int64_t from, int64_t to, char text[200])
{
    char here[17];
    snprintf(here, sizeof here, "%016llx", (unsigned long long)ls_code_hash(NULL));
    const json_t *e;
    for (; to > from && (e = ls_verify_build_of(b, to)); to = after(e)) {
        if (!*text_of(e, "code") || !strcmp(text_of(e, "code"), here))
            continue;
        snprintf(text, 200,
                 "another build trained steps %" PRId64 " to %" PRId64
                 ": lockstep %.20s, code %.16s; this is %s, code %s",
                 (after(e) > from ? after(e) : from) + 1, to,
                 *text_of(e, "version") ? text_of(e, "version") : "?", text_of(e, "code"), LS_VERSION, here);
        return true;
    }
    return false;
}

void ls_verify_build_bits(ls_str *out, const ls_verify_build *run, const ls_verify_build *again, int64_t to)
{
    static const char *const KEYS[][2] = { { "device", "the device" }, { "isa", "the ISA level" } };
    const json_t *was = ls_verify_build_of(run, to), *is = ls_verify_build_of(again, to);
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
        if (*text_of(was, KEYS[i][0]) && strcmp(text_of(was, KEYS[i][0]), text_of(is, KEYS[i][0])) != 0)
            ls_str_printf(out, "%s%s was %s and is %s now (--set %s=%s)", out->len ? "; " : "", KEYS[i][1],
                          text_of(was, KEYS[i][0]), text_of(is, KEYS[i][0]), KEYS[i][0],
                          text_of(was, KEYS[i][0]));
    if (is_other_layout(was, is))
        ls_str_printf(out, "%sthe ranks were %s and are %s now, whose bits are not the same (docs/ranks.md)",
                      out->len ? "; " : "", layout_of(was), layout_of(is));
}
