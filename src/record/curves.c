/* curves.c - makes curves of the history of a run. */
#include "curves.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/sys.h"

static ls_curve curve_room(int n)
{
    ls_curve c = { 0, ls_sys_malloc(sizeof *c.x * (size_t)(n + 1)),
                   ls_sys_malloc(sizeof *c.y * (size_t)(n + 1)) };
    return c;
}

static void add_point(ls_curve *c, double x, double y)
{
    c->x[c->n] = x;
    c->y[c->n++] = y;
}

/* The mean over a window of steps, a thirtieth of the run wide, around each step. A centred window does not
 * lag behind a falling loss. */
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

#define ALL(c)                                                             \
    {                                                                      \
        &(c)->loss, &(c)->smooth, &(c)->lr, &(c)->seconds, &(c)->eval_loss \
    }

ls_status ls_curves_make(ls_curves *out, const ls_history *h)
{
    *out = (ls_curves){ .loss = curve_room(h->n_steps),
                        .smooth = curve_room(h->n_steps),
                        .lr = curve_room(h->n_steps),
                        .seconds = curve_room(h->n_steps),
                        .eval_loss = curve_room(h->n_evals),
                        .metrics = ls_history_metrics(h) };
    const ls_curve *const all[] = ALL(out);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        LS_TRY(ls_sys_have(all[i]->x && all[i]->y ? all[i]->x : NULL));
    LS_TRY(ls_metric_list_status(&out->metrics));
    out->eval = ls_sys_calloc((size_t)out->metrics.n + 1, sizeof *out->eval);
    LS_TRY(ls_sys_have(out->eval));
    for (int k = 0; k < out->metrics.n; k++) {
        out->eval[k] = curve_room(h->n_evals);
        LS_TRY(ls_sys_have(out->eval[k].x && out->eval[k].y ? out->eval[k].x : NULL));
    }
    for (int i = 0; i < h->n_steps; i++) {
        const ls_step_row *r = &h->steps[i].row;
        const double step = (double)r->step;
        add_point(&out->loss, step, (double)r->loss);
        add_point(&out->lr, step, r->lr);
        add_point(&out->seconds, step, r->seconds);
        out->samples += r->samples;
        out->step_seconds += isnan(r->seconds) ? 0 : r->seconds;
    }
    for (int i = 0; i < h->n_evals; i++) {
        const ls_eval_row *r = &h->evals[i].row;
        const double step = (double)r->step;
        add_point(&out->eval_loss, step, ls_metric_list_find(&r->eval, "loss"));
        for (int k = 0; k < out->metrics.n; k++)
            add_point(&out->eval[k], step, ls_metric_list_find(&r->eval, out->metrics.at[k].name));
    }
    smooth(out);
    return LS_OK;
}

void ls_curves_release(ls_curves *c)
{
    ls_curve *const all[] = ALL(c);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]->x);
        free(all[i]->y);
    }
    for (int k = 0; c->eval && k < c->metrics.n; k++) {
        free(c->eval[k].x);
        free(c->eval[k].y);
    }
    free(c->eval);
    ls_metric_list_release(&c->metrics);
    *c = (ls_curves){ 0 };
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
