/* watch_draw.c - draws the frame of `lockstep watch`: head, numbers, charts, ranks, events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "record/metric_text.h"
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
    ls_curves curves;
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
static void watch_draw_number(frame *f, int *at, const char *title, const char *name, double value)
{
    char number[32];
    const char *shown = ls_metric_text(number, name, "%.5g", value);
    const int n = (int)strlen(title) + 1 + (int)strlen(shown);
    if (!*shown)
        return;
    if (*at > 0 && *at + 2 + n > f->s->width) {
        f->row++;
        *at = 0;
    }
    *at = ls_screen_print(f->s, f->row, *at ? *at + 2 : 0, LS_INK_PLAIN, "%s %s", title, shown);
}

/* The last number of each curve; the last evaluation. */
static void numbers(frame *f)
{
    const ls_run_info *i = &f->w->info;
    double evaluated = -1; /* at this step */
    int at = 0;
    for (int k = 0; k < f->curves.n; k++) {
        const ls_curve *c = &f->curves.at[k];
        if (ls_curve_is_eval(c->name))
            evaluated = fmax(evaluated, c->x[c->n - 1]);
        else if (strcmp(c->name, "seconds"))
            watch_draw_number(f, &at, c->name, c->name, ls_curve_last(c));
    }
    f->row += at > 0;
    at = 0;
    if (evaluated >= 0) {
        at = ls_screen_print(f->s, f->row, 0, LS_INK_DIM, "evaluation at step %.0f:", evaluated);
        for (int k = 0; k < f->curves.n; k++) {
            const ls_curve *c = &f->curves.at[k];
            if (ls_curve_is_eval(c->name))
                watch_draw_number(f, &at, c->name + strlen("eval_"), c->name,
                                  ls_curve_at(c, (int64_t)evaluated));
        }
        f->row++;
        at = 0;
    }
    if (!isnan(i->metrics.best_value) && *i->best_metric) {
        char text[LS_METRIC_NAME + 8];
        snprintf(text, sizeof text, "best %s", i->best_metric);
        watch_draw_number(f, &at, text, text, i->metrics.best_value);
        ls_screen_print(f->s, f->row++, at + 1, LS_INK_DIM, "at step %lld", (long long)i->metrics.best_step);
    }
}

/* ---- charts: the loss, or what comes first; a metric of evaluations, or what comes next */

static const ls_curve *first_curve(const ls_curves *all)
{
    const ls_curve *loss = ls_curve_of(all, "loss");
    return loss->n || !all->n ? loss : &all->at[0];
}

static const ls_curve *second_curve(const ls_curves *all, const ls_curve *first)
{
    const ls_curve *next = NULL;
    for (int k = 0; k < all->n; k++) {
        const ls_curve *c = &all->at[k];
        if (c == first || !strcmp(c->name, "eval_loss"))
            continue;
        if (ls_curve_is_eval(c->name) && !isnan(ls_curve_last(c)))
            return c;
        next = next ? next : c;
    }
    return next;
}

static ls_status loss_chart(frame *f, ls_text_chart c, const ls_curve *loss)
{
    ls_curve smooth;
    LS_TRY(ls_curve_smooth(&smooth, &f->curves, loss));
    c.title = "loss";
    if (f->look->utf8) /* else there is one dot in a cell, and only the smoothed curve can be read */
        c.series[c.n++] = (ls_text_series){ loss, "each step", LS_INK_DIM };
    c.series[c.n++] = (ls_text_series){ &smooth, "smoothed", LS_INK_BLUE };
    c.series[c.n++] = (ls_text_series){ ls_curve_of(&f->curves, "eval_loss"), "evaluation", LS_INK_AMBER };
    ls_text_chart_draw(f->s, &c);
    return LS_OK;
}

static void metric_chart(frame *f, ls_text_chart c, const ls_curve *curve)
{
    const bool eval = ls_curve_is_eval(curve->name);
    c.title = eval ? curve->name + strlen("eval_") : curve->name;
    c.percent = ls_metric_is_share(curve->name);
    c.series[c.n++] = (ls_text_series){ curve, eval ? "evaluation" : "", LS_INK_GREEN };
    ls_text_chart_draw(f->s, &c);
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
    const ls_curve *first = first_curve(&f->curves), *second = second_curve(&f->curves, first);
    if (!strcmp(first->name, "loss"))
        LS_TRY(loss_chart(f, place[0], first));
    else if (first->n)
        metric_chart(f, place[0], first);
    if (second && n > 1)
        metric_chart(f, place[1], second);
    return LS_OK;
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
    frame f = { .s = out, .w = w, .look = look };
    LS_TRY_TO(s, s, done);
    LS_TRY_TO(s, ls_curves_make(&f.curves, &w->history), done);
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
    ls_curves_release(&f.curves);
    if (s != LS_OK)
        ls_screen_release(out);
    return s;
}
