/* curves.c - makes curves of the history of a run. */
#include "curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

/* Makes room for one more point. */
static bool curve_grow(ls_arena *a, ls_curve *c)
{
    if (c->n < c->room)
        return true;
    const int room = c->room ? 2 * c->room : 64;
    double *x = LS_ARENA_ARRAY(a, double, room), *y = LS_ARENA_ARRAY(a, double, room);
    if (!x || !y)
        return false;
    if (c->n) {
        memcpy(x, c->x, sizeof *x * (size_t)c->n);
        memcpy(y, c->y, sizeof *y * (size_t)c->n);
    }
    c->x = x;
    c->y = y;
    c->room = room;
    return true;
}

static void add_point(ls_arena *a, ls_curve *c, double x, double y)
{
    if (!curve_grow(a, c))
        return;
    c->x[c->n] = x;
    c->y[c->n++] = isfinite(y) ? y : NAN;
}

/* The curve of this name, which may be new; NULL: no memory. Rows name their numbers in nearly the same
 * order, so the search begins at `guess`. */
static ls_curve *curve_named(ls_curves *all, int guess, const char *name)
{
    for (int i = 0; i < all->n; i++) {
        ls_curve *c = &all->at[(guess + i) % all->n];
        if (!strcmp(c->name, name))
            return c;
    }
    ls_curve *more = ls_sys_grow(all->at, all->n, &all->cap, sizeof *more);
    all->memory.no_memory = all->memory.no_memory || !more;
    if (!more)
        return NULL;
    all->at = more;
    more[all->n] = (ls_curve){ .name = ls_arena_strdup(&all->memory, name) };
    return &more[all->n++];
}

/* A row calls it for each of its numbers, with one `next`, at first 0. */
static void add_number(ls_curves *all, int *next, const char *name, int64_t step, double y)
{
    ls_curve *c = all->memory.no_memory ? NULL : curve_named(all, *next, name);
    if (!c)
        return;
    add_point(&all->memory, c, (double)step, y);
    *next = (int)(c - all->at) + 1;
}

/* Numbers that a row has by name, with `prefix` before each name. */
static void add_list(ls_curves *all, const char *prefix, int64_t step, const ls_metric_list *numbers)
{
    char name[LS_METRIC_NAME + 8];
    int next = 0;
    for (int k = 0; k < numbers->n; k++) {
        snprintf(name, sizeof name, "%s%s", prefix, numbers->at[k].name);
        add_number(all, &next, name, step, numbers->at[k].value);
    }
}

bool ls_curve_is_of_steps(const char *name)
{
    for (int k = 0; k < LS_STEP_ROW.n; k++)
        if (LS_STEP_ROW.columns[k].curve && !strcmp(LS_STEP_ROW.columns[k].curve, name))
            return true;
    return false;
}

static int64_t step_of(const ls_row_kind *k, const void *row)
{
    int i = 0;
    while (strcmp(k->columns[i].key, "step"))
        i++;
    return (int64_t)ls_row_number(&k->columns[i], row);
}

static void add_row(ls_curves *all, const ls_row_kind *kind, const void *row)
{
    const int64_t step = step_of(kind, row);
    int next = 0;
    for (int k = 0; k < kind->n; k++) {
        const ls_row_column *c = &kind->columns[k];
        if (c->curve && c->type == LS_CELL_NAMED)
            add_list(all, c->curve, step, ls_row_list(c, row));
        else if (c->curve && ls_row_has(c, row))
            add_number(all, &next, c->curve, step, ls_row_number(c, row));
    }
}

/* Removes the curves of numbers that were never defined. */
static void remove_undefined(ls_curves *all)
{
    int n = 0;
    for (int i = 0; i < all->n; i++) {
        const ls_curve c = all->at[i];
        bool defined = false;
        for (int k = 0; k < c.n && !defined; k++)
            defined = !isnan(c.y[k]);
        if (defined)
            all->at[n++] = c;
    }
    all->n = n;
}

ls_status ls_curves_make(ls_curves *out, const ls_history *h)
{
    static const ls_row_kind *const KINDS[] = { &LS_STEP_ROW, &LS_EVAL_ROW, &LS_REPORT_ROW };
    *out = (ls_curves){ .n = 0 };
    for (size_t k = 0; k < sizeof KINDS / sizeof KINDS[0]; k++) {
        const ls_past_rows rows = ls_history_rows(h, KINDS[k]);
        for (int i = 0; i < rows.n; i++)
            add_row(out, rows.kind, ls_past_row(&rows, i));
    }
    remove_undefined(out);
    return ls_arena_status(&out->memory);
}

void ls_curves_release(ls_curves *c)
{
    free(c->at);
    ls_arena_release(&c->memory);
    *c = (ls_curves){ .n = 0 };
}

const ls_curve *ls_curve_of(const ls_curves *all, const char *name)
{
    static const ls_curve NONE = { .name = "" };
    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->at[i].name, name))
            return &all->at[i];
    return &NONE;
}

double ls_curve_at(const ls_curve *c, int64_t step)
{
    for (int i = c->n - 1; i >= 0 && c->x[i] >= (double)step; i--)
        if (c->x[i] == (double)step)
            return c->y[i];
    return NAN;
}

double ls_curve_last(const ls_curve *c) { return c->n ? c->y[c->n - 1] : NAN; }

bool ls_curve_is_eval(const char *name) { return !strncmp(name, "eval_", 5); }

ls_status ls_curve_smooth(ls_curve *out, ls_curves *all, const ls_curve *c)
{
    int n = c->n, reach = n / 60 + 1, begin = 0, end = 0, count = 0;
    double sum = 0;
    *out = (ls_curve){ .name = c->name };
    for (int i = 0; i < n; i++) {
        for (; end < n && end <= i + reach; end++)
            if (!isnan(c->y[end])) {
                sum += c->y[end];
                count++;
            }
        for (; begin < i - reach; begin++)
            if (!isnan(c->y[begin])) {
                sum -= c->y[begin];
                count--;
            }
        add_point(&all->memory, out, c->x[i], count ? sum / count : NAN);
    }
    return ls_arena_status(&all->memory);
}

static int curve_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void ls_curve_range(const ls_curve *c, double *low, double *high)
{
    double *sorted = ls_sys_malloc(sizeof *sorted * (size_t)(c->n + 1));
    int n = 0;
    for (int i = 0; sorted && i < c->n; i++)
        if (isfinite(c->y[i]))
            sorted[n++] = c->y[i];
    if (n) {
        qsort(sorted, (size_t)n, sizeof *sorted, curve_compare);
        *low = fmin(*low, sorted[n / 200]);
        *high = fmax(*high, sorted[n - 1 - n / 200]);
    }
    free(sorted);
}
