/* text_chart.h - curves on a screen. In UTF-8 a cell has 2 x 4 dots (braille), else one. */
#pragma once
#include "record/curves.h"
#include "screen.h"

typedef struct ls_text_series {
    const ls_curve *curve;
    const char *name;
    ls_ink ink;
} ls_text_series;

/* Row 0 has the title and the names of the curves, the last row the ends of the axis of steps. Where two
 * curves share a cell, the later one gives its colour. */
typedef struct ls_text_chart {
    const char *title;
    int row, column, width, height; /* in cells of the screen, title and axes included */
    int n;
    ls_text_series series[3];
    bool percent, log; /* log: where all numbers are positive */
} ls_text_chart;
void ls_text_chart_draw(ls_screen *s, const ls_text_chart *c);
