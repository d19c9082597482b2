/* find_lr.c - see find_lr.h. The learning-rate range test: Smith, "Cyclical learning rates for training
 * neural networks", arXiv:1506.01186, section 3.3. As in fastai (callback.schedule), the rates are 1e-7 to 10
 * in equal factors, the test ends when the loss is four times its lowest value, and the suggestion is where
 * the loss falls fastest over the logarithm of the rate. */
#include "find_lr.h"

#include <math.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/stop.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "pages/rate_page.h"
#include "recipe/recipe_use.h"
#include "screen/table.h"

static const double LOWEST = 1e-7, HIGHEST = 10, DIVERGED = 4;
static const double FALL = 0.02;             /* of the first loss: less is noise */
enum { WINDOW = 20, RECENT = 3, ROWS = 25 }; /* WINDOW: of the test's steps, on each side, one of so many */

typedef struct range_test {
    int n, wanted;
    double *rate, *loss, *smooth;
    const char *end; /* why the test ended */
} range_test;

/* ---- the rule */

static int width_at(int i, int n)
{
    const int most = n / WINDOW > 1 ? n / WINDOW : 1, edge = i < n - 1 - i ? i : n - 1 - i;
    return edge < most ? edge : most;
}

void ls_rate_smooth(double *smooth, const double *loss, int n)
{
    for (int i = 0; i < n; i++) {
        const int w = width_at(i, n);
        double sum = 0;
        for (int k = i - w; k <= i + w; k++)
            sum += loss[k];
        smooth[i] = sum / (2 * w + 1);
    }
}

ls_rate_choice ls_rate_choose(const double *rate, const double *smooth, int n)
{
    int lowest = 0, best = -1;
    double highest = n ? smooth[0] : 0, steepest = 0;
    for (int i = 1; i < n; i++)
        lowest = smooth[i] < smooth[lowest] ? i : lowest;
    for (int i = 1; i < lowest; i++) {
        const int w = width_at(i, n) > 1 ? width_at(i, n) : 1, from = i - w, to = i + w < n ? i + w : n - 1;
        const double slope = (smooth[to] - smooth[from]) / log(rate[to] / rate[from]);
        best = slope < steepest ? i : best;
        steepest = fmin(steepest, slope);
        highest = fmax(highest, smooth[i]);
    }
    if (best < 0 || highest - smooth[lowest] < FALL * fabs(smooth[0]))
        return (ls_rate_choice){ NAN, NAN, -1, false };
    return (ls_rate_choice){ rate[best], rate[lowest], best, lowest >= n - 2 };
}

/* ---- the test */

/* The mean of the last losses: one wild step does not end the test. */
static double recent(const range_test *t)
{
    const int k = t->n < RECENT ? t->n : RECENT;
    double sum = 0;
    for (int i = t->n - k; i < t->n; i++)
        sum += t->loss[i];
    return sum / k;
}

static void show_test(const ls_ui *ui, const range_test *t)
{
    char note[32];
    ls_snprintf(note, sizeof note, "lr %.2g", t->rate[t->n]);
    if (ui->progress)
        ui->progress(ui->context, &(ls_progress){ .what = "finding a learning rate",
                                                  .done = t->n,
                                                  .total = t->wanted,
                                                  .unit = "steps",
                                                  .note = note });
}

/* A loss that is not finite ends the test as well as one that is too high. */
static ls_status test_step(range_test *t, ls_loop *l, const ls_loader_step *b)
{
    ls_step_result r = { .skip = LS_SKIP_NONE };
    l->trainer->request = ls_stop_asked() ? LS_REQUEST_STOP : 0;
    const ls_status s = ls_trainer_step_from(l->trainer, b, t->rate[t->n], &r);
    if (s != LS_OK && s != LS_E_NUMERIC)
        return s;
    if (l->group ? l->trainer->requested & LS_REQUEST_STOP : l->trainer->request)
        return ls_fail(LS_E_STOPPED, "stopped: no learning rate was found");
    if (s == LS_E_NUMERIC || (r.skip == LS_SKIP_LOSS && !r.count) || !isfinite(r.loss)) {
        t->end = "the loss is not finite";
        return t->n ? LS_OK : s == LS_OK ? ls_fail(LS_E_NUMERIC, "the first loss is not finite") : s;
    }
    t->loss[t->n++] = r.loss;
    return LS_OK;
}

static ls_status run_test(range_test *t, ls_loop *l, ls_loader *loader, const ls_ui *ui)
{
    double best = INFINITY;
    for (int i = 0; i < t->wanted; i++)
        t->rate[i] = LOWEST * pow(HIGHEST / LOWEST, (double)i / (t->wanted - 1));
    while (t->n < t->wanted && !t->end) {
        ls_loader_step b;
        bool done;
        show_test(ui, t);
        LS_TRY(ls_loader_next(loader, &b, &done));
        if (done)
            break;
        LS_TRY(test_step(t, l, &b));
        best = t->n >= RECENT ? fmin(best, recent(t)) : best;
        if (!t->end && best > 0 && t->n > RECENT && recent(t) > DIVERGED * best)
            t->end = "the loss is four times its lowest value";
    }
    t->end = t->end ? t->end : "all rates were tried";
    ls_rate_smooth(t->smooth, t->loss, t->n);
    return LS_OK;
}

/* ---- results */

static void say(ls_str *out, const range_test *t, const ls_rate_choice *c)
{
    char rate[32], lowest[32];
    if (c->at < 0)
        ls_str_printf(out,
                      "no suggestion: the loss does not fall in these %d steps (%s); try more steps, as "
                      "--find-lr=%d",
                      t->n, t->end, 4 * t->wanted);
    else
        ls_str_printf(out,
                      "suggestion: --set optimizer.lr=%s, where the loss falls fastest; it is lowest at "
                      "%s%s",
                      ls_format_number(rate, "%.2g", c->steepest),
                      ls_format_number(lowest, "%.2g", c->lowest),
                      c->ended ? ", the last rate: a higher one may be better" : "");
}

static ls_status print_table(const range_test *t, const ls_str *words, const ls_ui *ui)
{
    static const ls_column COLUMNS[] = { { "lr", false, 0 }, { "loss", false, 1 }, { "smoothed", false, 0 } };
    ls_table table = { .n_columns = 3, .columns = COLUMNS };
    for (int k = 0; k < ROWS; k++) {
        const int i = (t->n - 1) * k / (ROWS - 1);
        char rate[32], loss[32], smooth[32];
        if (k && i == (t->n - 1) * (k - 1) / (ROWS - 1))
            continue;
        ls_format_number(rate, "%.2e", t->rate[i]);
        ls_snprintf(loss, sizeof loss, "%.4f", t->loss[i]);
        ls_snprintf(smooth, sizeof smooth, "%.4f", t->smooth[i]);
        ls_table_row(&table, (const char *const[]){ rate, loss, smooth }, NULL);
    }
    const ls_status s = ls_table_print(ui->out, &table, ui->width);
    ls_table_release(&table);
    fprintf(ui->out, "%s\n", ls_str_text(words));
    return s;
}

static ls_status print_test_json(const range_test *t, const ls_rate_choice *c, const ls_ui *ui)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_f64(&j, "suggestion", c->steepest);
    ls_json_f64(&j, "lowest", c->lowest);
    ls_json_text(&j, "end", t->end);
    ls_json_array(&j, "steps");
    for (int i = 0; i < t->n; i++) {
        ls_json_object(&j, NULL);
        ls_json_f64(&j, "lr", t->rate[i]);
        ls_json_f32(&j, "loss", (float)t->loss[i]);
        ls_json_f64(&j, "smoothed", t->smooth[i]);
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    return ls_print_result(ui->out, &j.out);
}

static ls_status report_test(const range_test *t, const ls_loop *l, const ls_find_lr_opts *o, const ls_ui *ui)
{
    const ls_rate_choice c = ls_rate_choose(t->rate, t->smooth, t->n);
    ls_str words = { 0 };
    say(&words, t, &c);
    ls_status s = ls_str_status(&words);
    if (s == LS_OK && o->html)
        s = ls_rate_page_write(o->html, &(ls_rate_view){ l->recipe->run.name, ls_str_text(&words), t->n,
                                                         t->rate, t->loss, t->smooth });
    if (s == LS_OK)
        s = o->json ? print_test_json(t, &c, ui) : print_table(t, &words, ui);
    ls_str_release(&words);
    return s;
}

/* What makes the rates of this test mean nothing. */
static ls_status check_recipe(const ls_recipe *r)
{
    if (r->optimizer.type == LS_ADAFACTOR && r->optimizer.relative_step)
        return ls_fail(LS_E_USAGE,
                       "%s: true, so the learning rate is a function of the step and there is none to find; "
                       "--set optimizer.relative_step=false takes optimizer.lr",
                       ls_recipe_where(r, "optimizer.relative_step"));
    return LS_OK;
}

ls_status ls_find_lr(ls_loop *l, const ls_find_lr_opts *o, const ls_ui *ui)
{
    const bool writes = !l->group || ls_group_rank(l->group) == 0;
    const int n = (int)o->steps;
    ls_order order = ls_setup_order(l->recipe, l->train);
    ls_loader *loader = NULL;
    LS_TRY(check_recipe(l->recipe));
    double *room = ls_sys_calloc((size_t)(3 * n + 1), sizeof *room);
    LS_TRY(ls_sys_have(room));
    range_test t = { .wanted = n, .rate = room, .loss = room + n, .smooth = room + 2 * n };
    ls_status s = ls_loader_create(&loader, l->train, &order, .share = l->setup->share,
                                   .deadline = l->recipe->failure.stall_seconds);
    if (s == LS_OK)
        s = run_test(&t, l, loader, ui);
    ls_loader_destroy(&loader);
    if (ui->progress)
        ui->progress(ui->context, NULL);
    if (s == LS_OK && writes)
        s = report_test(&t, l, o, ui);
    free(room);
    return s;
}
