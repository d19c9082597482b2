/* confusion.c - see confusion.h. */
#include "confusion.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sys.h"

static void release(ls_confusion *c)
{
    for (int i = 0; c->names && i < c->classes; i++)
        free(c->names[i]);
    free(c->names);
    free(c->counts);
    free(c->metric);
}

void ls_confusions_release(ls_confusions *c)
{
    for (int i = 0; i < c->n; i++)
        release(&c->at[i]);
    free(c->at);
    *c = (ls_confusions){ 0 };
}

ls_status ls_confusions_add(ls_confusions *c, const char *metric, int classes, const char *const *names)
{
    const size_t n = (size_t)classes;
    ls_confusion *all = ls_sys_realloc(c->at, sizeof *all * (size_t)(c->n + 1));
    LS_TRY(ls_sys_have(all));
    c->at = all;
    ls_confusion *m = &all[c->n++];
    *m = (ls_confusion){ .metric = ls_sys_strdup(metric),
                         .classes = classes,
                         .names = names ? ls_sys_calloc(n, sizeof *m->names) : NULL,
                         .counts = ls_sys_calloc(n * n, sizeof *m->counts) };
    LS_TRY(ls_sys_have(m->metric && (m->names || !names) ? m->counts : NULL));
    for (int i = 0; names && i < classes; i++)
        LS_TRY(ls_sys_have(m->names[i] = ls_sys_strdup(names[i])));
    return LS_OK;
}

int64_t ls_confusion_rows(const ls_confusion *c)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < (int64_t)c->classes * c->classes; i++)
        rows += c->counts[i];
    return rows;
}

static double share(int64_t part, int64_t all) { return all ? (double)part / (double)all : NAN; }

ls_class_score ls_confusion_score(const ls_confusion *c, int class)
{
    ls_class_score s = { .right = c->counts[class * c->classes + class] };
    for (int k = 0; k < c->classes; k++) {
        s.rows += c->counts[class * c->classes + k];
        s.predicted += c->counts[k * c->classes + class];
    }
    s.precision = share(s.right, s.predicted);
    s.recall = share(s.right, s.rows);
    s.f1 = share(2 * s.right, s.rows + s.predicted);
    return s;
}

ls_class_score ls_confusion_macro(const ls_confusion *c)
{
    ls_class_score all = { 0 };
    int occur = 0;
    for (int k = 0; k < c->classes; k++) {
        const ls_class_score s = ls_confusion_score(c, k);
        if (isnan(s.f1))
            continue;
        occur++;
        all.rows += s.rows;
        all.predicted += s.predicted;
        all.right += s.right;
        all.precision += isnan(s.precision) ? 0 : s.precision;
        all.recall += isnan(s.recall) ? 0 : s.recall;
        all.f1 += s.f1;
    }
    all.precision = occur ? all.precision / occur : NAN;
    all.recall = occur ? all.recall / occur : NAN;
    all.f1 = occur ? all.f1 / occur : NAN;
    return all;
}

int ls_confusion_worst(const ls_confusion *c, ls_class_pair *out, int most)
{
    int n = 0;
    for (int is = 0; is < c->classes; is++)
        for (int said = 0; said < c->classes; said++) {
            const int64_t rows = c->counts[is * c->classes + said];
            int at = n;
            if (is == said || !rows)
                continue;
            while (at > 0 && out[at - 1].rows < rows)
                at--;
            if (at == most)
                continue;
            n += n < most;
            memmove(out + at + 1, out + at, sizeof *out * (size_t)(n - 1 - at));
            out[at] = (ls_class_pair){ is, said, rows };
        }
    return n;
}

int ls_confusion_lowest(const ls_confusion *c, int *out, int most)
{
    double f1[LS_CONFUSION_MOST];
    int n = 0;
    for (int k = 0; k < c->classes; k++) {
        int at = n;
        f1[k] = ls_confusion_score(c, k).f1;
        while (at > 0 && f1[out[at - 1]] > f1[k])
            at--;
        if (isnan(f1[k]) || at == most)
            continue;
        n += n < most;
        memmove(out + at + 1, out + at, sizeof *out * (size_t)(n - 1 - at));
        out[at] = k;
    }
    return n;
}

const char *ls_confusion_name(char out[16], const ls_confusion *c, int class)
{
    snprintf(out, 16, "%d", class);
    return c->names ? c->names[class] : out;
}

/* ---- as JSON */

static void write_score(ls_json *j, const ls_class_score *s)
{
    ls_json_f64(j, "precision", s->precision);
    ls_json_f64(j, "recall", s->recall);
    ls_json_f64(j, "f1", s->f1);
}

static void write_one(ls_json *j, const ls_confusion *c)
{
    char number[16];
    ls_json_object(j, c->metric);
    ls_json_bool(j, "named", c->names != NULL);
    ls_json_array(j, "classes");
    for (int k = 0; k < c->classes; k++) {
        const ls_class_score s = ls_confusion_score(c, k);
        ls_json_object(j, NULL);
        ls_json_text(j, "class", ls_confusion_name(number, c, k));
        write_score(j, &s);
        ls_json_int(j, "targets", s.rows);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    const ls_class_score macro = ls_confusion_macro(c);
    ls_json_object(j, "macro");
    write_score(j, &macro);
    ls_json_close_object(j);
    ls_json_array(j, "matrix");
    for (int is = 0; is < c->classes; is++) {
        ls_json_array(j, NULL);
        for (int said = 0; said < c->classes; said++)
            ls_json_int(j, NULL, c->counts[is * c->classes + said]);
        ls_json_close_array(j);
    }
    ls_json_close_array(j);
    ls_json_close_object(j);
}

void ls_confusions_write(ls_json *j, const ls_confusions *c)
{
    if (!c->n)
        return;
    ls_json_object(j, "confusion");
    for (int i = 0; i < c->n; i++)
        write_one(j, &c->at[i]);
    ls_json_close_object(j);
}

static ls_status read_one(ls_confusions *out, const char *metric, const json_t *one, const char *what)
{
    const json_t *classes = json_object_get(one, "classes"), *matrix = json_object_get(one, "matrix");
    const size_t n = json_array_size(classes);
    const char *names[LS_CONFUSION_MOST];
    bool whole = n >= 2 && n <= LS_CONFUSION_MOST && json_array_size(matrix) == n;
    for (size_t i = 0; i < n && whole; i++) {
        names[i] = json_string_value(json_object_get(json_array_get(classes, i), "class"));
        whole = names[i] && json_array_size(json_array_get(matrix, i)) == n;
    }
    if (!whole)
        return ls_fail(LS_E_FORMAT, "%s: \"%s\" is not a confusion matrix: classes and a row for each", what,
                       metric);
    LS_TRY(
        ls_confusions_add(out, metric, (int)n, json_is_true(json_object_get(one, "named")) ? names : NULL));
    int64_t *counts = out->at[out->n - 1].counts;
    for (size_t is = 0; is < n; is++)
        for (size_t said = 0; said < n; said++)
            counts[is * n + said] = json_integer_value(json_array_get(json_array_get(matrix, is), said));
    return LS_OK;
}

ls_status ls_confusions_read(ls_confusions *out, const json_t *object, const char *what)
{
    const char *metric;
    json_t *one;
    *out = (ls_confusions){ 0 };
    json_object_foreach((json_t *)(uintptr_t)object, metric, one)
    {
        const ls_status s = read_one(out, metric, one, what);
        if (s != LS_OK) {
            ls_confusions_release(out);
            return s;
        }
    }
    return LS_OK;
}
