/* report_curves.c - metrics.jsonl into curves. Reads a mapped file line by line; a line that is no JSON is counted and passed over. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "report_own.h"

static void *grown(void *array, int n, int *cap, size_t size)
{
    if (n < *cap)
        return array;
    *cap = *cap ? 2 * *cap : 256;
    array = realloc(array, size * (size_t)*cap);
    LS_CHECK(array, "out of memory");
    return array;
}

/* A run that was continued from a checkpoint repeats steps: what it does then counts, not what it did before. */
static void add_point(ls_curve *c, double x, double y)
{
    int cap = c->cap;
    while (c->n > 0 && c->x[c->n - 1] >= x)
        c->n--;
    c->x = grown(c->x, c->n, &cap, sizeof *c->x);
    c->y = grown(c->y, c->n, &c->cap, sizeof *c->y);
    c->x[c->n] = x;
    c->y[c->n++] = y;
}

static double number(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static void add_epoch(ls_curves *c, const json_t *row)
{
    while (c->n_epochs > 0 && c->epochs[c->n_epochs - 1].epoch >= number(row, "epoch"))
        c->n_epochs--;
    c->epochs = grown(c->epochs, c->n_epochs, &c->cap_epochs, sizeof *c->epochs);
    c->epochs[c->n_epochs++] = (ls_epoch_line){ number(row, "epoch"), number(row, "step"), number(row, "samples"), number(row, "loss"), number(row, "eval_loss"),
                                                number(row, "eval_accuracy"), number(row, "seconds") };
}

static void add_row(ls_curves *c, const json_t *row)
{
    const char *kind = json_string_value(json_object_get(row, "kind"));
    double step = number(row, "step");
    if (!kind || isnan(step))
        return;
    if (!strcmp(kind, "step")) {
        double seconds = number(row, "seconds"), samples = number(row, "samples");
        add_point(&c->loss, step, number(row, "loss"));
        add_point(&c->lr, step, number(row, "lr"));
        add_point(&c->seconds, step, seconds);
        c->step_seconds += isnan(seconds) ? 0 : seconds;
        c->samples += isnan(samples) ? 0 : (int64_t)samples;
    } else if (!strcmp(kind, "eval")) {
        add_point(&c->eval_loss, step, number(row, "loss"));
        add_point(&c->eval_accuracy, step, number(row, "accuracy"));
    } else if (!strcmp(kind, "epoch")) {
        add_epoch(c, row);
    }
}

/* Mean over the steps around each one, a thirtieth of the run wide: centred, so that it does not lag behind a falling loss. */
static void smooth(ls_curves *c)
{
    int n = c->loss.n, reach = n / 60 + 1, begin = 0, end = 0, count = 0;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        for (; end < n && end <= i + reach; end++)
            if (!isnan(c->loss.y[end])) {
                sum += c->loss.y[end];
                count++;
            }
        for (; begin < i - reach; begin++)
            if (!isnan(c->loss.y[begin])) {
                sum -= c->loss.y[begin];
                count--;
            }
        add_point(&c->smooth, c->loss.x[i], count ? sum / count : NAN);
    }
}

ls_status ls_curves_read(ls_curves *out, const char *path)
{
    ls_mapping m;
    *out = (ls_curves){ 0 };
    LS_TRY(ls_file_map(&m, path));
    const char *p = (const char *)m.data, *end = p + m.size;
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((newline ? newline : end) - p);
        json_t *row = json_loadb(p, n, 0, NULL);
        if (row)
            add_row(out, row);
        else
            out->bad_lines += n > 0;
        json_decref(row);
        p += n + 1;
    }
    ls_file_unmap(&m);
    smooth(out);
    return LS_OK;
}

void ls_curves_release(ls_curves *c)
{
    ls_curve *const all[] = { &c->loss, &c->smooth, &c->lr, &c->seconds, &c->eval_loss, &c->eval_accuracy };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]->x);
        free(all[i]->y);
    }
    free(c->epochs);
    *c = (ls_curves){ 0 };
}
