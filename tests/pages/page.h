/* page.h - what holds of every page that lockstep writes: it is well-formed, nothing in it comes from
 * outside, its data is JSON, and each chart has a name, data in the format of scripts/charts.js, a note for
 * readers without scripts, and a table. */
#pragma once
#include <jansson.h>
void page_check(const char *page);
/* The data of the page, in the element of that id. Free it with json_decref. */
json_t *page_data(const char *page, const char *id);
/* The data of the chart of that title; fails if there is none. Free it with json_decref. */
json_t *page_chart(const char *page, const char *title);
/* The points of one of its series. */
const json_t *page_points(const json_t *chart, const char *series);
/* Number k of a point: 0 x, 1 mean, 2 least, 3 greatest (of one number the same as the mean). NAN: none. */
double page_number(const json_t *points, size_t point, size_t k);
