/* report_memory.c - the chart of memory over the step of a run. */
#include <math.h>

#include "base/arena.h"
#include "memory_bands.h"
#include "report_own.h"

#define BANDS (LS_CAT_COUNT + 1) /* inputs and outputs, then the categories */

size_t ls_report_transient(const ls_report_program *p, int position, int category)
{
    size_t all = p->points[position].bytes[category], fixed = p->fixed[category];
    return all > fixed ? all - fixed : 0;
}

/* State and io are there whichever program runs, so they come from the whole session, not from the points of
 * a program. */
static double band_bytes(const ls_report *r, const ls_report_program *p, int position, int band)
{
    if (!band)
        return fmax(0, (double)r->plan_io - (double)r->state_by_category[LS_CAT_GRADIENTS]);
    return (double)(r->state_by_category[band - 1] + ls_report_transient(p, position, band - 1));
}

void ls_chart_memory(ls_str *out, const ls_report *r)
{
    const char *names[BANDS] = { "inputs and outputs" }, *colors[BANDS] = { "var(--c-gray)" };
    for (int b = 1; b < BANDS; b++) {
        names[b] = ls_category_name((ls_category)(b - 1));
        colors[b] = ls_category_color((ls_category)(b - 1));
    }
    ls_stack s = { .title = "memory over the step",
                   .x_name = "kernel calls of a step",
                   .bands = BANDS,
                   .names = names,
                   .colors = colors,
                   .peak = -1 };
    for (int k = 0; k < r->n_programs; k++)
        s.columns += r->programs[k].n;
    ls_arena scratch;
    ls_arena_init(&scratch);
    double *bytes = LS_ARENA_ARRAY(&scratch, double, s.columns *BANDS + 1);
    const char **labels = LS_ARENA_ARRAY(&scratch, const char *, s.columns + 1);
    ls_str_add(out, labels ? "" : NULL);
    for (int k = 0, column = 0; labels && k < r->n_programs; k++) {
        const ls_report_program *p = &r->programs[k];
        s.marks[s.n_marks].column = column;
        s.marks[s.n_marks++].text = p->name;
        for (int i = 0; i < p->n; i++, column++) {
            labels[column] = p->labels ? p->labels[i] : p->name;
            for (int b = 0; b < BANDS; b++)
                bytes[column * BANDS + b] = band_bytes(r, p, i, b);
        }
    }
    s.bytes = bytes;
    s.labels = labels;
    s.x1 = s.columns;
    if (labels)
        ls_chart_stack(out, &s);
    ls_arena_release(&scratch);
}
