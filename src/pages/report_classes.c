/* report_classes.c - what the last evaluation predicted for each class: scores, and who was taken for whom.
 */
#include <math.h>

#include "base/c_locale.h"
#include "report_own.h"

enum { MATRIX_MOST = 30, LOWEST = 30, WORST = 20 };

static void add_share(ls_str *out, double x)
{
    char text[32];
    ls_html_cell(out, ls_html_number(text, "%.4f", x));
}

static void add_count(ls_str *out, int64_t n)
{
    char text[32];
    ls_html_cell(out, ls_html_count(text, n));
}

static void add_score(ls_str *out, const char *name, const ls_class_score *s)
{
    ls_str_add(out, "<tr>");
    ls_html_cell(out, name);
    add_count(out, s->rows);
    add_count(out, s->predicted);
    add_share(out, s->precision);
    add_share(out, s->recall);
    add_share(out, s->f1);
    ls_str_add(out, "</tr>\n");
}

static void add_scores(ls_str *out, const ls_confusion *c)
{
    int lowest[LOWEST];
    const bool all = c->classes <= LOWEST;
    const int n = all ? c->classes : ls_confusion_lowest(c, lowest, LOWEST);
    char number[16];
    ls_str_add(out, "<div class=\"scroll\"><table><thead><tr><th>class</th><th>targets</th><th>predicted</th>"
                    "<th>precision</th><th>recall</th><th>F1</th></tr></thead><tbody>\n");
    for (int i = 0; i < n; i++) {
        const int k = all ? i : lowest[i];
        const ls_class_score s = ls_confusion_score(c, k);
        add_score(out, ls_confusion_name(number, c, k), &s);
    }
    const ls_class_score macro = ls_confusion_macro(c);
    add_score(out, "mean (macro)", &macro);
    ls_str_add(out, "</tbody></table></div>\n");
    if (!all)
        ls_str_printf(out, "<p class=\"note\">The %d of %d classes with the lowest F1.</p>\n", n, c->classes);
}

/* A cell is as dark as its share of the true class. */
static void add_cell(ls_str *out, int64_t n, int64_t rows, bool right)
{
    char text[32];
    if (!n) {
        ls_str_add(out, "<td></td>");
        return;
    }
    ls_str_printf(out, "<td style=\"background:rgba(%s,%.2f)\">%s</td>", right ? "66,105,208" : "255,114,92",
                  0.6 * sqrt((double)n / (double)rows), ls_html_count(text, n));
}

static void add_matrix(ls_str *out, const ls_confusion *c)
{
    char number[16];
    ls_str_add(out,
               "<div class=\"scroll\"><table class=\"matrix\"><caption>rows: the true class; columns: the "
               "predicted one</caption><thead><tr><th></th>");
    for (int said = 0; said < c->classes; said++) {
        ls_str_add(out, "<th scope=\"col\">");
        ls_html_add(out, ls_confusion_name(number, c, said));
        ls_str_add(out, "</th>");
    }
    ls_str_add(out, "</tr></thead><tbody>\n");
    for (int is = 0; is < c->classes; is++) {
        const int64_t rows = ls_confusion_score(c, is).rows;
        ls_str_add(out, "<tr><th scope=\"row\">");
        ls_html_add(out, ls_confusion_name(number, c, is));
        ls_str_add(out, "</th>");
        for (int said = 0; said < c->classes; said++)
            add_cell(out, c->counts[is * c->classes + said], rows, is == said);
        ls_str_add(out, "</tr>\n");
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

static void add_worst(ls_str *out, const ls_confusion *c)
{
    ls_class_pair pairs[WORST];
    const int n = ls_confusion_worst(c, pairs, WORST);
    char is[16], said[16], rows[32];
    if (!n)
        return;
    ls_str_add(out, "<h3>Most frequent mistakes</h3>\n<div class=\"scroll\"><table><thead><tr><th>true "
                    "class</th><th>predicted as</th><th>targets</th></tr></thead><tbody>\n");
    for (int i = 0; i < n; i++)
        ls_html_cells(out, 3,
                      (const char *const[]){ ls_confusion_name(is, c, pairs[i].is),
                                             ls_confusion_name(said, c, pairs[i].said),
                                             ls_html_count(rows, pairs[i].rows) });
    ls_str_add(out, "</tbody></table></div>\n");
}

void ls_report_classes(ls_run_page *p)
{
    ls_str *out = &p->out;
    char step[32];
    for (int i = 0; i < p->confusions.n; i++) {
        const ls_confusion *c = &p->confusions.at[i];
        ls_str_add(out, "<h2>Classes");
        if (p->confusions.n > 1) {
            ls_str_add(out, ": ");
            ls_html_add(out, c->metric);
        }
        ls_str_printf(out, "</h2>\n<p class=\"sub\">The evaluation after step %s.</p>\n",
                      ls_html_count(step, p->confusion_step));
        add_scores(out, c);
        if (c->classes <= MATRIX_MOST)
            add_matrix(out, c);
        else
            add_worst(out, c);
    }
}
