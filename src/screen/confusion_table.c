/* confusion_table.c - see confusion_table.h. */
#include "confusion_table.h"

#include <math.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/shown.h"
#include "table.h"

enum { MATRIX_MOST = 20, LOWEST = 10, WORST = 10 };

static const char *score_text(char out[32], double x)
{
    if (isnan(x))
        return "-";
    ls_snprintf(out, 32, "%.4f", x);
    return out;
}

static void add_score(ls_table *t, const char *number, const char *name, const ls_class_score *s)
{
    char rows[32], predicted[32], texts[3][32];
    snprintf(rows, sizeof rows, "%lld", (long long)s->rows);
    snprintf(predicted, sizeof predicted, "%lld", (long long)s->predicted);
    ls_table_row(t,
                 (const char *const[]){ number, name, rows, predicted, score_text(texts[0], s->precision),
                                        score_text(texts[1], s->recall), score_text(texts[2], s->f1) },
                 NULL);
}

static ls_status print_scores(FILE *out, const ls_confusion *c, int n, const int *classes, int width)
{
    const ls_class_score all = ls_confusion_macro(c);
    const ls_column columns[] = { { "class", false, 0 },     { c->names ? "name" : "", true, 1 },
                                  { "targets", false, 2 },   { "predicted", false, 4 },
                                  { "precision", false, 0 }, { "recall", false, 0 },
                                  { "F1", false, 0 } };
    ls_table t = { .n_columns = sizeof columns / sizeof *columns, .columns = columns };
    for (int i = 0; i < n; i++) {
        const ls_class_score s = ls_confusion_score(c, classes[i]);
        char number[16];
        snprintf(number, sizeof number, "%d", classes[i]);
        add_score(&t, number, c->names ? c->names[classes[i]] : "", &s);
    }
    add_score(&t, "macro", "", &all);
    const ls_status s = ls_table_print(out, &t, width);
    ls_table_release(&t);
    return s;
}

/* Rows are true classes, columns the predicted ones. */
static ls_status print_matrix(FILE *out, const ls_confusion *c)
{
    char titles[MATRIX_MOST][16], texts[MATRIX_MOST + 1][32];
    ls_column columns[MATRIX_MOST + 1] = { { "true \\ predicted", false, 0 } };
    ls_table t = { .n_columns = c->classes + 1, .columns = columns };
    for (int k = 0; k < c->classes; k++) {
        snprintf(titles[k], sizeof titles[k], "%d", k);
        columns[k + 1] = (ls_column){ titles[k], false, 0 };
    }
    for (int is = 0; is < c->classes; is++) {
        const char *cells[MATRIX_MOST + 1];
        for (int k = 0; k <= c->classes; k++) {
            cells[k] = texts[k];
            snprintf(texts[k], sizeof texts[k], "%lld",
                     k ? (long long)c->counts[is * c->classes + k - 1] : (long long)is);
        }
        ls_table_row(&t, cells, NULL);
    }
    const ls_status s = ls_table_print(out, &t, 0);
    ls_table_release(&t);
    return s;
}

/* The columns that print_matrix takes. */
static int matrix_width(const ls_confusion *c)
{
    int width = (int)strlen("true \\ predicted");
    for (int said = 0; said < c->classes; said++) {
        int column = snprintf(NULL, 0, "%d", said);
        for (int is = 0; is < c->classes; is++) {
            const int cell = snprintf(NULL, 0, "%lld", (long long)c->counts[is * c->classes + said]);
            column = cell > column ? cell : column;
        }
        width += 2 + column;
    }
    return width;
}

static ls_status print_worst(FILE *out, const ls_confusion *c, int width)
{
    ls_class_pair pairs[WORST];
    const int n = ls_confusion_worst(c, pairs, WORST);
    const ls_column columns[] = { { "true class", true, 0 },
                                  { "predicted as", true, 0 },
                                  { "targets", false, 0 } };
    ls_table t = { .n_columns = 3, .columns = columns };
    for (int i = 0; i < n; i++) {
        char is[16], said[16], rows[32];
        snprintf(rows, sizeof rows, "%lld", (long long)pairs[i].rows);
        ls_table_row(&t,
                     (const char *const[]){ ls_confusion_name(is, c, pairs[i].is),
                                            ls_confusion_name(said, c, pairs[i].said), rows },
                     NULL);
    }
    if (n)
        fprintf(out, "\nmost frequent mistakes\n");
    const ls_status s = n ? ls_table_print(out, &t, width) : LS_OK;
    ls_table_release(&t);
    return s;
}

ls_status ls_confusion_print(FILE *out, const ls_confusion *c, bool titled, int width)
{
    const bool whole = c->classes <= MATRIX_MOST && (!width || matrix_width(c) <= width);
    int classes[MATRIX_MOST], n = 0;
    fputs("\n", out);
    if (titled)
        ls_print_line(out, "%s", c->metric);
    if (c->classes <= MATRIX_MOST)
        while (n < c->classes) {
            classes[n] = n;
            n++;
        }
    else {
        n = ls_confusion_lowest(c, classes, LOWEST);
        fprintf(out, "%d of %d classes: those with the lowest F1\n", n, c->classes);
    }
    LS_TRY(print_scores(out, c, n, classes, width));
    if (!whole)
        return print_worst(out, c, width);
    fputs("\n", out);
    return print_matrix(out, c);
}
