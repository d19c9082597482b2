/* rate_page.c - see rate_page.h. */
#include "rate_page.h"

#include <math.h>

#include "base/arena.h"
#include "base/file.h"
#include "chart.h"

static void add_rate_chart(ls_str *out, const ls_rate_view *v, double *x)
{
    ls_curve loss = { .n = v->n, .x = x, .y = (double *)v->loss, .name = "loss" }, smooth = loss;
    double low = INFINITY, high = -INFINITY;
    smooth.y = (double *)v->smooth;
    for (int i = 0; i < v->n; i++) {
        x[i] = log10(v->rate[i]);
        low = fmin(low, v->smooth[i]);
        high = fmax(high, i < v->n / 2 ? v->smooth[i] : low); /* not the losses that end the test */
    }
    ls_chart_lines(
        out, &(ls_chart){
                 .title = "loss over the learning rate",
                 .x_name = "log10 of the learning rate",
                 .n = 2,
                 .series = { { .curve = &loss, .name = "each step", .color = "var(--c-sky)", .faint = true },
                             { .curve = &smooth, .name = "smoothed", .color = "var(--c-blue)" } },
                 .low = low,
                 .high = high,
                 .height = 360 });
}

static void add_rate_table(ls_str *out, const ls_rate_view *v)
{
    char rate[32], loss[32], smooth[32];
    ls_str_add(out,
               "<h2>Steps</h2>\n<div class=\"scroll\"><table><thead><tr><th>learning rate</th><th>loss</th>"
               "<th>smoothed</th></tr></thead><tbody>\n");
    for (int i = 0; i < v->n; i++)
        ls_html_cells(out, 3,
                      (const char *const[]){ ls_format_number(rate, "%.3e", v->rate[i]),
                                             ls_html_number(loss, "%.5g", v->loss[i]),
                                             ls_html_number(smooth, "%.5g", v->smooth[i]) });
    ls_str_add(out, "</tbody></table></div>\n");
}

ls_status ls_rate_page_write(const char *path, const ls_rate_view *v)
{
    ls_arena a;
    ls_str out = { 0 };
    ls_arena_init(&a);
    double *x = LS_ARENA_ARRAY(&a, double, v->n + 1);
    ls_status s = ls_arena_status(&a);
    if (s == LS_OK) {
        ls_page_begin(&out, v->name, false);
        ls_str_add(&out, "<h1>Learning rate of ");
        ls_html_add(&out, v->name);
        ls_str_add(&out, "</h1>\n<p class=\"sub\">");
        ls_html_add(&out, v->words);
        ls_str_add(&out, "</p>\n");
        add_rate_chart(&out, v, x);
        add_rate_table(&out, v);
        ls_page_end(&out, "charts.js");
        s = ls_make_parent(path);
        s = s == LS_OK ? ls_file_write_text(path, &out) : s;
    }
    ls_str_release(&out);
    ls_arena_release(&a);
    return s;
}
