/* report_curves.c - the charts of a run: the loss, a chart for each metric of evaluations or reports, and
 * two small ones for the learning rate and the time of a step. */
#include <string.h>

#include "record/metric_text.h"
#include "report_own.h"

bool ls_report_is_common(const char *name)
{
    return !strcmp(name, "loss") || !strcmp(name, "eval_loss") || !strcmp(name, "lr") ||
           !strcmp(name, "seconds");
}

static void heading(ls_str *out, const char *text)
{
    ls_str_add(out, "<h2>");
    ls_html_add(out, text);
    ls_str_add(out, "</h2>\n");
}

/* Few points are drawn as dots, too: one alone has no line. */
static ls_chart_series line(const ls_curve *c, const char *name, const char *color)
{
    return (ls_chart_series){ c, name, color, .dots = c->n < 60 };
}

static ls_chart chart_of(ls_run_page *p, const char *title, int n)
{
    return (ls_chart){
        .title = title, .x_name = "step", .n = n, .low = 1, .high = 0, .height = 240, .marks = &p->marks
    };
}

static void loss(ls_run_page *p)
{
    const ls_curve *each = ls_curve_of(&p->curves, "loss"), *eval = ls_curve_of(&p->curves, "eval_loss");
    ls_chart c = chart_of(p, "loss over steps", 3);
    if (!each->n && !eval->n)
        return;
    c.height = 320;
    c.series[0] = (ls_chart_series){ each, "training", "var(--c-blue)", .faint = true };
    c.series[1] = line(&p->smooth, "training, smoothed", "var(--c-blue)");
    c.series[2] = line(eval, "evaluation", "var(--c-red)");
    c.n = eval->n ? 3 : 2;
    heading(&p->out, "Loss");
    ls_chart_lines(&p->out, &c);
}

/* A metric, and that of evaluations with the same name beside it: accuracy and eval_accuracy. */
static void metric(ls_run_page *p, const ls_curve *first)
{
    char title[LS_METRIC_TITLE], eval[LS_METRIC_TITLE];
    const bool is_eval = ls_curve_is_eval(first->name);
    const char *name = is_eval ? first->name + 5 : first->name;
    snprintf(eval, sizeof eval, "eval_%s", name);
    const ls_curve *both[2] = { ls_curve_of(&p->curves, name), ls_curve_of(&p->curves, eval) };
    snprintf(title, sizeof title, "%s over steps", name);
    ls_chart c = chart_of(p, title, 0);
    if (is_eval && both[0]->n)
        return; /* it is in the chart of the other */
    if (both[0]->n)
        c.series[c.n++] = line(both[0], name, "var(--c-blue)");
    if (both[1]->n)
        c.series[c.n++] = line(both[1], "evaluation", "var(--c-teal)");
    c.percent = ls_metric_is_share(name);
    heading(&p->out, strcmp(name, "accuracy") ? name : "Accuracy");
    ls_chart_lines(&p->out, &c);
}

/* Small ones, side by side. */
static void rates(ls_run_page *p)
{
    static const struct {
        const char *curve, *heading, *title, *name, *color;
    } RATES[] = { { "lr", "Learning rate", "learning rate", "learning rate", "var(--c-violet)" },
                  { "seconds", "Seconds a step", "seconds a step", "seconds", "var(--c-amber)" } };
    const char *begin = "<div class=\"two\">";
    for (size_t i = 0; i < sizeof RATES / sizeof RATES[0]; i++) {
        const ls_curve *curve = ls_curve_of(&p->curves, RATES[i].curve);
        if (!curve->n)
            continue;
        ls_str_printf(&p->out, "%s<div>", begin);
        begin = "";
        heading(&p->out, RATES[i].heading);
        ls_chart_lines(&p->out, &(ls_chart){ .title = RATES[i].title,
                                             .x_name = "step",
                                             .n = 1,
                                             .height = 220,
                                             .series = { line(curve, RATES[i].name, RATES[i].color) } });
        ls_str_add(&p->out, "</div>");
    }
    ls_str_add(&p->out, *begin ? "" : "</div>\n");
}

void ls_report_curves(ls_run_page *p)
{
    if (!p->curves.n)
        ls_str_add(&p->out, "<p class=\"note\">There are no numbers yet.</p>\n");
    loss(p);
    for (int i = 0; i < p->curves.n; i++)
        if (!ls_report_is_common(p->curves.at[i].name))
            metric(p, &p->curves.at[i]);
    rates(p);
}
