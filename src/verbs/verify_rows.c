/* verify_rows.c - see verify_rows.h. */
#include "verify_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"

static const char *const KINDS[] = { [LS_VERIFY_STEP] = "step",
                                     [LS_VERIFY_EVAL] = "eval",
                                     [LS_VERIFY_CHECKPOINT] = "checkpoint",
                                     [LS_VERIFY_DIGEST] = "digest" };

static void key_of(char key[24], int64_t step) { snprintf(key, 24, "%" PRId64, step); }

/* A row without what may be another number each time; of a checkpoint only the digests count. */
static void keep_values(json_t *row, ls_verify_kind kind)
{
    static const char *const TIMES[] = { "seconds", "attempt", "generate_seconds", "kind" };
    static const char *const OF_SAVING[] = { "path", "bytes", "waited", "epoch" };
    for (size_t i = 0; i < sizeof TIMES / sizeof TIMES[0]; i++)
        json_object_del(row, TIMES[i]);
    for (size_t i = 0; i < sizeof OF_SAVING / sizeof OF_SAVING[0] && kind >= LS_VERIFY_CHECKPOINT; i++)
        json_object_del(row, OF_SAVING[i]);
}

/* A later attempt trains again from this step on: the rows of earlier ones do not count. */
static void drop_from(ls_verify_rows *r, int64_t step)
{
    const char *key;
    json_t *row;
    void *next;
    for (int k = 0; k < LS_VERIFY_KINDS; k++)
        json_object_foreach_safe(r->of[k], next, key, row) if (strtoll(key, NULL, 10) >= step)
            json_object_del(r->of[k], key);
}

static ls_status take(ls_verify_rows *r, json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "kind"));
    const int64_t step = json_integer_value(json_object_get(row, "step")),
                  attempt = json_integer_value(json_object_get(row, "attempt"));
    char key[24];
    if (name && !strcmp(name, "change"))
        r->changed = step;
    if (name && !strcmp(name, KINDS[LS_VERIFY_STEP])) {
        if (attempt > r->attempt)
            drop_from(r, step);
        r->attempt = attempt;
        r->last = step;
        r->most = step > r->most ? step : r->most;
    }
    for (int k = 0; k < LS_VERIFY_KINDS && name; k++) {
        if (strcmp(name, KINDS[k]) != 0 || (k == LS_VERIFY_CHECKPOINT && !json_object_get(row, "model")))
            continue;
        r->first = r->first && r->first < step ? r->first : step;
        keep_values(row, (ls_verify_kind)k);
        key_of(key, step);
        return json_object_set(r->of[k], key, row) ? ls_sys_have(NULL) : LS_OK;
    }
    return LS_OK;
}

/* A line that is not a row was cut off when the machine stopped; the run has written it again. */
static ls_status take_lines(ls_verify_rows *r, const char *text, size_t n)
{
    ls_status s = LS_OK;
    for (const char *line = text, *const all = text + n, *end; line < all && s == LS_OK; line = end + 1) {
        end = memchr(line, '\n', (size_t)(all - line));
        end = end ? end : all;
        json_t *row = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (row)
            s = take(r, row);
        json_decref(row);
    }
    return s;
}

ls_status ls_verify_rows_read(ls_verify_rows *out, const char *run_dir)
{
    char *path = ls_path_join(run_dir, "metrics.jsonl"), *text = NULL;
    size_t n;
    *out = (ls_verify_rows){ .first = 0 };
    ls_status s = ls_sys_have(path);
    for (int k = 0; k < LS_VERIFY_KINDS && s == LS_OK; k++)
        s = ls_sys_have(out->of[k] = json_object());
    if (s == LS_OK)
        s = ls_file_read(&text, &n, path);
    if (s == LS_OK)
        s = take_lines(out, text, n);
    free(text);
    free(path);
    return s;
}

void ls_verify_rows_release(ls_verify_rows *r)
{
    for (int k = 0; k < LS_VERIFY_KINDS; k++)
        json_decref(r->of[k]);
    *r = (ls_verify_rows){ .first = 0 };
}

const json_t *ls_verify_row(const ls_verify_rows *r, ls_verify_kind kind, int64_t step)
{
    char key[24];
    key_of(key, step);
    return json_object_get(r->of[kind], key);
}

const json_t *ls_verify_digests(const ls_verify_rows *r, int64_t step)
{
    const json_t *row = ls_verify_row(r, LS_VERIFY_CHECKPOINT, step);
    return row ? row : ls_verify_row(r, LS_VERIFY_DIGEST, step);
}

/* ---- comparing */

/* A number as metrics.jsonl has it. */
static char *text_of(const json_t *value)
{
    char number[32];
    return json_is_real(value) ? ls_sys_strdup(ls_format_f64(number, json_real_value(value)))
                               : json_dumps(value, JSON_ENCODE_ANY);
}

/* The first key whose values differ, in the order of the run's row. */
static void say_difference(ls_verify_result *out, ls_verify_kind kind, const json_t *run, const json_t *again)
{
    const char *key;
    json_t *value;
    if (!again) {
        snprintf(out->what, sizeof out->what, "there is no %s now", KINDS[kind]);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)run, key, value)
    {
        const json_t *other = json_object_get(again, key);
        char *was = text_of(value), *is = text_of(other);
        const bool same = was && is && !strcmp(was, is);
        if (!same)
            snprintf(out->what, sizeof out->what, "%s%s is %s in the run, and %s now",
                     kind >= LS_VERIFY_CHECKPOINT ? "the digest of the "
                     : kind == LS_VERIFY_EVAL     ? "eval "
                                                  : "",
                     key, was ? was : "?", is ? is : "missing");
        free(was);
        free(is);
        if (!same)
            return;
    }
    snprintf(out->what, sizeof out->what, "the %s has further values now", KINDS[kind]);
}

void ls_verify_rows_compare(ls_verify_result *out, const ls_verify_rows *run, const ls_verify_rows *again,
                            int64_t from, int64_t to)
{
    *out = (ls_verify_result){ .differ = 0 };
    for (int64_t step = from + 1; step <= to && !out->differ; step++)
        for (int k = 0; k < LS_VERIFY_KINDS && !out->differ; k++) {
            const json_t *was = ls_verify_row(run, (ls_verify_kind)k, step),
                         *is = ls_verify_row(again, (ls_verify_kind)k, step);
            if (!was && k == LS_VERIFY_STEP) { /* else a run with fewer losses would pass */
                out->differ = step;
                snprintf(out->what, sizeof out->what, "metrics.jsonl of the run has no loss of this step");
            }
            if (!was || (!is && k >= LS_VERIFY_CHECKPOINT && step < to))
                continue;
            out->n[k]++;
            if (json_equal(was, is))
                continue;
            out->differ = step;
            say_difference(out, (ls_verify_kind)k, was, is);
        }
}
