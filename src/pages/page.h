/* page.h - HTML pages. A page is one file: its style (pages/page.css), scripts of pages/ and its data are
 * inside, and it loads nothing. A script draws what C has not drawn; it reads the data as JSON and shows text
 * through textContent.
 *
 *     ls_page_begin(&out, "memory of rank 0", false);
 *     ls_str_add(&out, "<h1>");  ls_html_add(&out, name);  ls_str_add(&out, "</h1>\n");
 *     ls_page_data(&out, "step", &json);
 *     ls_page_end(&out, "charts.js step.js"); */
#pragma once
#include "base/json.h"
#include "base/str.h"

/* Everything up to the content. `broad`: the content may be wider than a page of text. */
void ls_page_begin(ls_str *out, const char *title, bool broad);
/* Scripts, by the names of files in pages/ with spaces between them ("": none), and the end of the page. */
void ls_page_end(ls_str *out, const char *scripts);
/* An element <script type="application/json"> with the document j. `id` (NULL: none) is the page's own word,
 * not escaped. Takes ownership of the text of j. */
void ls_page_data(ls_str *out, const char *id, ls_json *j);

void ls_html_add(ls_str *out, const char *text);                        /* escaped; NULL as in ls_str_add */
void ls_html_cell(ls_str *out, const char *text);                       /* of a table */
void ls_html_cells(ls_str *out, int n, const char *const *texts);       /* a row of a table */
const char *ls_html_count(char out[32], int64_t n);                     /* 1234567 -> 1,234,567 */
const char *ls_html_number(char out[32], const char *format, double x); /* NAN: a dash */
