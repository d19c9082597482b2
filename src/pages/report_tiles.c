/* report_tiles.c - the tiles at the top of report.html: one number each. A tile is a function that adds it,
 * or nothing where the run has no such number. */
#include <math.h>
#include <string.h>

#include "base/c_locale.h"
#include "record/metric_text.h"
#include "report_own.h"

enum { MOST_METRICS = 12 }; /* a program may report hundreds; their charts have the others */

static void tile(ls_str *out, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void tile(ls_str *out, const char *name, const char *format, ...)
{
    char value[128];
    va_list args;
    va_start(args, format);
    ls_vsnprintf(value, sizeof value, format, args);
    va_end(args);
    ls_str_add(out, "<div class=\"card\"><b>");
    ls_html_add(out, value);
    ls_str_add(out, "</b><span>");
    ls_html_add(out, name);
    ls_str_add(out, "</span></div>\n");
}

/* The last number of a metric and, where its name says what is better, the best with its step. */
static void tile_of_metric(ls_str *out, const char *title, const ls_curve *c, const char *format)
{
    const int direction = ls_metric_direction(c->name);
    const double last = ls_curve_last(c);
    char text[32], count[32];
    int best = -1;
    for (int i = 0; direction && i < c->n; i++)
        if (!isnan(c->y[i]) && (best < 0 || direction * c->y[i] > direction * c->y[best]))
            best = i;
    if (isnan(last))
        return;
    ls_str_printf(out, "<div class=\"card\"><b>%s</b><span>", ls_metric_text(text, c->name, format, last));
    ls_html_add(out, title);
    ls_str_add(out, "</span>");
    if (best >= 0 && c->n > 1)
        ls_str_printf(out, " <small>best %s at step %s</small>",
                      ls_metric_text(text, c->name, format, c->y[best]),
                      ls_html_count(count, (int64_t)c->x[best]));
    ls_str_add(out, "</div>\n");
}

static void metrics(ls_run_page *p)
{
    char title[LS_METRIC_TITLE];
    for (int i = 0, n = 0; i < p->curves.n && n < MOST_METRICS; i++) {
        const ls_curve *c = &p->curves.at[i];
        if (!ls_report_is_common(c->name) && ++n)
            tile_of_metric(&p->out, ls_metric_title(title, c->name, "evaluation "), c, "%.4g");
    }
}

static void losses(ls_run_page *p)
{
    char text[32];
    const double loss = ls_curve_last(&p->smooth);
    const ls_curve *eval = ls_curve_of(&p->curves, "eval_loss");
    if (eval->n)
        tile_of_metric(&p->out, "evaluation loss", eval, "%.4f");
    if (!isnan(loss))
        tile(&p->out, "training loss", "%s", ls_metric_text(text, "loss", "%.4f", loss));
}

/* result.json of a run that was killed may be some steps older than the rows. */
static void steps(ls_run_page *p)
{
    const ls_run_metrics *m = &p->run->metrics;
    double last = (double)m->step;
    char count[32], name[64] = "steps";
    for (int i = 0; i < p->curves.n; i++)
        last = fmax(last, p->curves.at[i].x[p->curves.at[i].n - 1]);
    if (m->epoch && (int64_t)last == m->step)
        snprintf(name, sizeof name, "steps, in epoch %lld", (long long)m->epoch);
    tile(&p->out, name, "%s", ls_html_count(count, (int64_t)last));
}

static void step_time(ls_run_page *p)
{
    char text[32];
    if (p->r->measured_step_seconds > 0)
        tile(&p->out, "median step", "%s", ls_format_duration(text, p->r->measured_step_seconds));
}

static void speed(ls_run_page *p)
{
    const ls_history *h = &p->history;
    double samples = 0, seconds = 0;
    char count[32];
    for (int i = 0; i < h->n_steps; i++) {
        samples += (double)h->steps[i].row.samples;
        seconds += isnan(h->steps[i].row.seconds) ? 0 : h->steps[i].row.seconds;
    }
    if (seconds > 0)
        tile(&p->out, "samples a second", "%s", ls_html_count(count, (int64_t)(samples / seconds)));
}

static void startup(ls_run_page *p)
{
    char text[32];
    if (p->run->startup.total > 0)
        tile(&p->out, "start to first step", "%s", ls_format_duration(text, p->run->startup.total));
}

/* What the last epoch says of its data. */
static void data(ls_run_page *p)
{
    const ls_history *h = &p->history;
    const ls_epoch_row *e = h->n_epochs ? &h->epochs[h->n_epochs - 1].row : NULL;
    if (e && e->replaced)
        tile(&p->out, "broken images replaced", "%lld in epoch %lld", (long long)e->replaced,
             (long long)e->epoch);
    if (e && e->data_seconds > 0.05 * e->seconds)
        tile(&p->out, "waited for data", "%.0f%% of epoch %lld", 100 * e->data_seconds / e->seconds,
             (long long)e->epoch);
}

void ls_report_tiles(ls_run_page *p)
{
    static void (*const TILES[])(ls_run_page *) = { metrics, losses, steps, step_time, speed, startup, data };
    ls_str_add(&p->out, "<div class=\"cards\">\n");
    for (size_t i = 0; i < sizeof TILES / sizeof TILES[0]; i++)
        TILES[i](p);
    ls_str_add(&p->out, "</div>\n");
}
