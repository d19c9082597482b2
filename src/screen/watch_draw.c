/* watch_draw.c - draws the frame of `lockstep watch`: head, numbers, charts, ranks, events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/sys.h"
#include "text_chart.h"
#include "watch_frame.h"

enum {
    RECENT = 50,      /* steps over which the rate is measured */
    SILENT = 15,      /* seconds without a heartbeat, beside three steps, after which a rank is silent */
    MOST_EVENTS = 64, /* that are kept while the frame is drawn */
};
static const double LATE = 0.1; /* a rank that waits for this much less than another is the late one */

typedef struct frame {
    ls_screen *s;
    const ls_watch *w;
    const ls_watch_look *look;
    int row;
} frame;

/* ---- head and numbers */

static ls_ink state_ink(ls_run_state s)
{
    return s == LS_RUN_FINISHED                            ? LS_INK_GREEN
           : s == LS_RUN_FAILED || s == LS_RUN_DIED        ? LS_INK_RED
           : s == LS_RUN_RESTARTING || s == LS_RUN_STOPPED ? LS_INK_AMBER
                                                           : LS_INK_BLUE;
}

static void watch_draw_head(frame *f)
{
    const ls_watch *w = f->w;
    char ago[32];
    int at = ls_screen_text(f->s, f->row, 0, LS_INK_BOLD, *w->info.name ? w->info.name : w->dir);
    if (!w->begun) {
        ls_screen_text(f->s, f->row++, at + 2, LS_INK_AMBER, "not started: there is no result.json yet");
        return;
    }
    if (*w->broken) {
        f->row++;
        ls_screen_text(f->s, f->row++, 0, LS_INK_RED, w->broken);
        return;
    }
    at = ls_screen_text(f->s, f->row, at + 2, state_ink(w->info.state), ls_run_state_name(w->info.state));
    if (w->info.attempt)
        at = ls_screen_print(f->s, f->row, at + 2, LS_INK_PLAIN, "attempt %lld", (long long)w->info.attempt);
    ls_screen_print(f->s, f->row++, at + 2, LS_INK_DIM, "result.json written %s%s",
                    w->info.seconds_ago < 1 ? "just now" : ls_format_duration(ago, w->info.seconds_ago),
                    w->info.seconds_ago < 1 ? "" : " ago");
    if (*w->info.error)
        ls_screen_text(f->s, f->row++, 0, LS_INK_RED, w->info.error);
    if (w->info.builtin_data)
        ls_screen_text(f->s, f->row++, 0, LS_INK_AMBER, LS_BUILTIN_NOTE);
}

static bool lives(const ls_watch *w) { return w->begun && ls_run_state_lives(w->info.state); }

static int64_t watch_draw_step_of(const ls_watch *w)
{
    const ls_history *h = &w->history;
    return h->n_steps ? h->steps[h->n_steps - 1].row.step : w->info.metrics.step;
}

/* Steps a second of this attempt, pauses for evaluations and checkpoints included; 0: not known. */
static double pace(const ls_watch *w)
{
    const ls_history *h = &w->history;
    if (!w->n_ranks || !w->ranks[0].known || !(w->ranks[0].now.seconds > 0) || !h->n_steps)
        return 0;
    int first = h->n_steps - 1;
    while (first > 0 && h->steps[first - 1].attempt == w->ranks[0].now.attempt)
        first--;
    return h->steps[first].attempt != w->ranks[0].now.attempt
               ? 0
               : (double)(w->ranks[0].now.step - h->steps[first].row.step + 1) / w->ranks[0].now.seconds;
}

static void progress(frame *f)
{
    const ls_watch *w = f->w;
    const ls_history *h = &w->history;
    const int64_t step = watch_draw_step_of(w),
                  steps = w->n_ranks && w->ranks[0].known ? w->ranks[0].now.steps : 0;
    char duration[32];
    int at = 0;
    if (steps > 0) {
        ls_screen_bar(f->s, f->row, 0, 20, (double)step / (double)steps, LS_INK_BLUE);
        at = ls_screen_print(f->s, f->row, 21, LS_INK_PLAIN, "%3.0f%%  step %lld of %lld",
                             100 * (double)step / (double)steps, (long long)step, (long long)steps);
    } else {
        at = ls_screen_print(f->s, f->row, 0, LS_INK_PLAIN, "step %lld", (long long)step);
    }
    const double rate = pace(w);
    if (lives(w) && rate > 0 && steps > step)
        at = ls_screen_print(f->s, f->row, at + 2, LS_INK_BOLD, "%s left",
                             ls_format_duration(duration, (double)(steps - step) / rate));
    at = ls_screen_print(f->s, f->row, at + 2, LS_INK_PLAIN, "epoch %lld", (long long)w->info.metrics.epoch);
    double seconds = 0, samples = 0;
    int n = 0;
    for (int i = h->n_steps - 1; i >= 0 && n < RECENT && h->steps[i].row.seconds > 0; i--, n++) {
        const ls_step_row *r = &h->steps[i].row;
        seconds += r->seconds;
        samples += (double)(r->targets ? r->targets : r->samples);
    }
    if (n) {
        const bool text = h->steps[h->n_steps - 1].row.targets;
        ls_screen_print(f->s, f->row, at + 2, LS_INK_PLAIN, "%.4g steps/s  %.0f %s/s", n / seconds,
                        samples / seconds, text ? "tokens" : "samples");
    }
    f->row++;
}

/* "NAME VALUE", in a new row if this one is full. */
static void watch_draw_number(frame *f, int *at, const char *name, double value)
{
    char text[LS_METRIC_NAME + 40];
    const bool percent = strstr(name, "accuracy") != NULL;
    if (isnan(value))
        return;
    const int n = ls_snprintf(text, sizeof text, percent ? "%s %.2f%%" : "%s %.5g", name,
                              percent ? 100 * value : value);
    if (*at > 0 && *at + 2 + n > f->s->width) {
        f->row++;
        *at = 0;
    }
    *at = ls_screen_text(f->s, f->row, *at ? *at + 2 : 0, LS_INK_PLAIN, text);
}

static void numbers(frame *f)
{
    const ls_history *h = &f->w->history;
    const ls_run_info *i = &f->w->info;
    int at = 0;
    if (h->n_steps) {
        const ls_step_row *r = &h->steps[h->n_steps - 1].row;
        watch_draw_number(f, &at, "loss", isnan(r->loss) ? NAN : (double)r->loss);
        watch_draw_number(f, &at, "lr", r->lr);
        watch_draw_number(f, &at, "grad_norm", r->grad_norm < 0 ? NAN : r->grad_norm);
        watch_draw_number(f, &at, "loss_scale", r->loss_scale > 0 ? r->loss_scale : NAN);
    }
    for (int k = 0; k < i->reported.n; k++)
        watch_draw_number(f, &at, i->reported.at[k].name, i->reported.at[k].value);
    f->row += at > 0;
    at = 0;
    if (h->n_evals) {
        const ls_eval_row *e = &h->evals[h->n_evals - 1].row;
        at = ls_screen_print(f->s, f->row, 0, LS_INK_DIM, "evaluation at step %lld:", (long long)e->step);
        for (int k = 0; k < e->eval.n; k++)
            watch_draw_number(f, &at, e->eval.at[k].name, e->eval.at[k].value);
        f->row++;
        at = 0;
    }
    if (!isnan(i->metrics.best_value) && *i->best_metric) {
        char text[LS_METRIC_NAME + 8];
        snprintf(text, sizeof text, "best %s", i->best_metric);
        watch_draw_number(f, &at, text, i->metrics.best_value);
        ls_screen_print(f->s, f->row++, at + 1, LS_INK_DIM, "at step %lld", (long long)i->metrics.best_step);
    }
}

/* ---- charts */

static ls_status report_curve(ls_curve *out, const ls_history *h, const char *name)
{
    *out = (ls_curve){ 0, ls_sys_malloc(sizeof(double) * (size_t)(h->n_reports + 1)),
                       ls_sys_malloc(sizeof(double) * (size_t)(h->n_reports + 1)) };
    LS_TRY(ls_sys_have(out->x && out->y ? out->x : NULL));
    for (int i = 0; i < h->n_reports; i++) {
        const double v = ls_metric_list_find(&h->reports[i].metrics, name);
        if (!isnan(v)) {
            out->x[out->n] = (double)h->reports[i].step;
            out->y[out->n++] = v;
        }
    }
    return LS_OK;
}

/* The first two metrics of the last report. */
static ls_status report_charts(frame *f, const ls_text_chart place[2], int n)
{
    const ls_metric_list *last = &f->w->history.reports[f->w->history.n_reports - 1].metrics;
    for (int k = 0; k < n && k < last->n; k++) {
        ls_curve curve;
        ls_status s = report_curve(&curve, &f->w->history, last->at[k].name);
        ls_text_chart c = place[k];
        c.title = last->at[k].name;
        c.n = 1;
        c.series[0] = (ls_text_series){ &curve, "", LS_INK_BLUE };
        if (s == LS_OK)
            ls_text_chart_draw(f->s, &c);
        free(curve.x);
        free(curve.y);
        LS_TRY(s);
    }
    return LS_OK;
}

static ls_status step_charts(frame *f, const ls_text_chart place[2], int n)
{
    ls_curves all;
    ls_status s = ls_curves_make(&all, &f->w->history);
    if (s == LS_OK) {
        ls_text_chart c = place[0];
        c.title = "loss";
        c.n = 3;
        c.series[0] = (ls_text_series){ &all.loss, "each step", LS_INK_DIM };
        c.series[1] = (ls_text_series){ &all.smooth, "smoothed", LS_INK_BLUE };
        c.series[2] = (ls_text_series){ &all.eval_loss, "evaluation", LS_INK_AMBER };
        if (!f->look->utf8) { /* one dot in a cell: the smoothed curve alone can be read */
            c.series[0] = c.series[1];
            c.series[1] = c.series[2];
            c.n = 2;
        }
        ls_text_chart_draw(f->s, &c);
        const bool metric = all.metrics.n && all.eval[0].n && isfinite(all.eval[0].y[all.eval[0].n - 1]);
        c = place[1];
        c.title = metric ? all.metrics.at[0].name : "lr";
        c.percent = metric && strstr(c.title, "accuracy");
        c.n = 1;
        c.series[0] = (ls_text_series){ metric ? &all.eval[0] : &all.lr, metric ? "evaluation" : "",
                                        LS_INK_GREEN };
        if (n > 1)
            ls_text_chart_draw(f->s, &c);
    }
    ls_curves_release(&all);
    return s;
}

/* Charts take the rows that the other parts leave free. */
static ls_status charts(frame *f, int height)
{
    const int n = f->s->width >= 70 ? 2 : 1, width = (f->s->width - (n - 1) * 2) / n;
    const ls_text_chart place[2] = {
        { .row = f->row, .column = 0, .width = width, .height = height, .log = f->look->log },
        { .row = f->row, .column = width + 2, .width = width, .height = height }
    };
    f->row += height;
    if (f->w->history.n_reports)
        return report_charts(f, place, n);
    return f->w->history.n_steps ? step_charts(f, place, n) : LS_OK;
}

/* ---- ranks */

static int by_share(const void *a, const void *b)
{
    const ls_watch_rank *x = *(const ls_watch_rank *const *)a, *y = *(const ls_watch_rank *const *)b;
    return x->share != y->share ? (x->share > y->share) - (x->share < y->share) : x->now.rank - y->now.rank;
}

static int by_rank(const void *a, const void *b)
{
    return (*(const ls_watch_rank *const *)a)->now.rank - (*(const ls_watch_rank *const *)b)->now.rank;
}

static double last_step_seconds(const ls_watch *w)
{
    const ls_history *h = &w->history;
    return h->n_steps && h->steps[h->n_steps - 1].row.seconds > 0 ? h->steps[h->n_steps - 1].row.seconds : 0;
}

static void rank_row(frame *f, const ls_watch_rank *r, bool late)
{
    char memory[32], planned[32], age[32];
    const ls_heartbeat *h = &r->now;
    int at = ls_screen_print(
        f->s, f->row, 0, LS_INK_PLAIN, "%4d  %-10.10s  %9lld  %10s %1s %-10s ", h->rank, h->doing,
        (long long)h->step, h->memory ? ls_format_bytes(memory, (uint64_t)h->memory) : "",
        h->planned ? "/" : "", h->planned ? ls_format_bytes(planned, (uint64_t)h->planned) : "");
    if (h->seconds > 0) { /* else its waits are not measured */
        at = ls_screen_print(f->s, f->row, at, LS_INK_PLAIN, "%4.0f%% ", 100 * r->share);
        ls_screen_bar(f->s, f->row, at, 10, r->share, LS_INK_AMBER);
        at += 12;
    } else {
        at += 18;
    }
    at = ls_screen_print(f->s, f->row, at, LS_INK_DIM, "%s  ", h->host);
    if (lives(f->w) && !strcmp(h->doing, "training") && h->age > SILENT + 3 * last_step_seconds(f->w))
        ls_screen_print(f->s, f->row, at, LS_INK_RED, "silent for %s", ls_format_duration(age, h->age));
    else if (late)
        ls_screen_text(f->s, f->row, at, LS_INK_RED, "late: the others wait for it");
    f->row++;
}

/* Rows that the ranks need, of at most `most`. */
static int rank_rows(const ls_watch *w, int most)
{
    return w->n_ranks ? (w->n_ranks + 1 < most ? w->n_ranks + 1 : most) : 0;
}

/* If not all fit, those that wait least are shown: the others wait for them. */
static ls_status ranks(frame *f, int rows)
{
    const ls_watch *w = f->w;
    if (rows < 2)
        return LS_OK;
    const ls_watch_rank **order = ls_sys_malloc(sizeof *order * (size_t)w->n_ranks);
    LS_TRY(ls_sys_have(order));
    int n = 0;
    for (int i = 0; i < w->n_ranks; i++)
        if (w->ranks[i].known)
            order[n++] = &w->ranks[i];
    qsort(order, (size_t)n, sizeof *order, by_share);
    const int shown = n > rows - 1 ? rows - 2 : n;
    const ls_watch_rank *late = n > 1 && order[n - 1]->share - order[0]->share > LATE ? order[0] : NULL;
    ls_screen_print(f->s, f->row++, 0, LS_INK_DIM, "%4s  %-10s  %9s  %10s / %-10s %-18s%s", "rank", "doing",
                    "step", "memory", "planned", "waits for others", "host");
    const double least = shown < n ? order[shown]->share : 0, most = n ? order[n - 1]->share : 0;
    qsort(order, (size_t)shown, sizeof *order, by_rank);
    for (int i = 0; i < shown; i++)
        rank_row(f, order[i], order[i] == late);
    if (shown < n)
        ls_screen_print(f->s, f->row++, 0, LS_INK_DIM, "%d more ranks wait %.0f%% to %.0f%% of their time",
                        n - shown, 100 * least, 100 * most);
    free(order);
    return LS_OK;
}

/* ---- events */

typedef struct event {
    int64_t attempt, step;
    ls_ink ink;
    char text[200];
} event;

static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;
    return x->attempt != y->attempt ? (x->attempt > y->attempt) - (x->attempt < y->attempt)
                                    : (x->step > y->step) - (x->step < y->step);
}

/* The last events, in their order; returns how many. */
static int list_events(event out[MOST_EVENTS], const ls_history *h)
{
    int n = 0;
    for (int i = h->n_checkpoints - 1; i >= 0 && n < MOST_EVENTS / 2; i--) {
        const ls_past_checkpoint *c = &h->checkpoints[i];
        char bytes[32];
        out[n] = (event){ c->attempt, c->step, LS_INK_PLAIN, "" };
        snprintf(out[n++].text, sizeof out->text, "step %-8lld checkpoint written, %s", (long long)c->step,
                 ls_format_bytes(bytes, (uint64_t)c->bytes));
    }
    for (int i = h->n_starts - 1; i >= 0 && n < MOST_EVENTS; i--) {
        const ls_past_start *s = &h->starts[i];
        out[n] = (event){ s->attempt, s->step, s->cause ? LS_INK_RED : LS_INK_AMBER, "" };
        snprintf(out[n++].text, sizeof out->text,
                 "step %-8lld attempt %lld continues, %lld step%s repeated: %s", (long long)s->step,
                 (long long)s->attempt, (long long)s->lost, s->lost == 1 ? "" : "s",
                 s->cause ? s->cause : "the run was started again");
    }
    qsort(out, (size_t)n, sizeof *out, by_time);
    return n;
}

static int count_warnings(const ls_watch *w)
{
    int n = 0;
    while (n < LS_WATCH_WARNINGS && w->warnings[n])
        n++;
    return n;
}

static void events(frame *f, int rows)
{
    event *list = ls_sys_malloc(sizeof *list * MOST_EVENTS);
    const int warnings = count_warnings(f->w), n = list ? list_events(list, &f->w->history) : 0;
    const int of_log = warnings < rows ? warnings : rows, of_list = n < rows - of_log ? n : rows - of_log;
    for (int i = n - of_list; i < n; i++)
        ls_screen_text(f->s, f->row++, 0, list[i].ink, list[i].text);
    for (int i = warnings - of_log; i < warnings; i++)
        ls_screen_text(f->s, f->row++, 0, LS_INK_AMBER, f->w->warnings[i]);
    free(list);
}

/* ---- all of it */

static int most(int a, int b) { return a > b ? a : b; }

ls_status ls_watch_draw(ls_screen *out, int *rows, const ls_watch *w, const ls_watch_look *look)
{
    const int for_ranks = rank_rows(w, look->height ? most(3, look->height / 4) : w->n_ranks + 1),
              for_events = look->height ? most(2, look->height / 6) : 12;
    ls_status s = ls_screen_make(out, look->width, look->height ? look->height : 200 + for_ranks, look->utf8);
    frame f = { out, w, look, 0 };
    LS_TRY_TO(s, s, done);
    watch_draw_head(&f);
    if (w->begun && !*w->broken) {
        progress(&f);
        numbers(&f);
    }
    const int room = look->height - f.row - for_ranks - for_events - (look->foot ? 1 : 0) - 2;
    if (look->height && room >= 4) {
        f.row++;
        LS_TRY_TO(s, charts(&f, room), done);
    }
    f.row += for_ranks > 0;
    LS_TRY_TO(s, ranks(&f, for_ranks), done);
    events(&f, look->height ? look->height - f.row - (look->foot ? 1 : 0) : for_events);
    if (look->foot)
        ls_screen_text(out, look->height - 1, 0, LS_INK_DIM, look->foot);
    *rows = look->height ? look->height : f.row;
done:
    if (s != LS_OK)
        ls_screen_release(out);
    return s;
}
