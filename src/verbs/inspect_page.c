/* inspect_page.c - see inspect_page.h. C writes the words and tables; scripts/model.js draws the tree and the
 * forward pass. */
#include "inspect_page.h"

#include <stdio.h>

#include "base/file.h"
#include "base/log.h"
#include "graph/op.h"
#include "inspect_graph.h"
#include "pages/page.h"

void ls_inspect_page_begin(ls_inspect_page *p, const char *title, const char *about, const char *holder,
                           int holders)
{
    *p = (ls_inspect_page){ .title = title, .about = about, .holder = holder };
    ls_arena_init(&p->arena);
    p->held = LS_ARENA_ARRAY(&p->arena, uint64_t, holders + 1);
    ls_json_object(&p->j, NULL);
    ls_json_text(&p->j, "title", title);
    ls_json_text(&p->j, "holder", holder);
    ls_json_array(&p->j, "tensors");
}

/* Adds a type to the list of those that occur. */
static void add_dtype(ls_inspect_page *p, const char *dtype)
{
    for (const char *at = ls_str_text(&p->dtypes); *at; at += strspn(at, ", ")) {
        const size_t n = strcspn(at, ",");
        if (n == strlen(dtype) && !strncmp(at, dtype, n))
            return;
        at += n;
    }
    ls_str_printf(&p->dtypes, "%s%s", p->dtypes.len ? ", " : "", dtype);
}

void ls_inspect_page_tensor(ls_inspect_page *p, const char *name, const char *dtype, const ls_type *type,
                            uint64_t bytes, const char *where, bool buffer)
{
    ls_json *j = &p->j;
    char count[32], text[128];
    const char *shape = strchr(ls_type_text(text, type), '[');
    p->elements = ls_type_count(type);
    p->tensor_bytes = bytes;
    p->several = false;
    p->tensors++;
    p->bytes += bytes;
    *(buffer ? &p->buffers : &p->parameters) += p->elements;
    add_dtype(p, dtype);
    ls_json_object(j, NULL);
    ls_json_text(j, "name", name);
    ls_json_text(j, "dtype", dtype);
    ls_json_array(j, "shape");
    for (int d = 0; d < type->ndim; d++)
        ls_json_int(j, NULL, type->dims[d]);
    ls_json_close_array(j);
    ls_json_int(j, "elements", p->elements);
    ls_json_int(j, "bytes", (int64_t)bytes);
    ls_json_bool(j, "buffer", buffer);
    ls_json_text(j, "where", where);
    ls_json_array(j, "held");
    ls_str_add(&p->rows, "<tr><td>");
    ls_html_add(&p->rows, name);
    ls_str_printf(&p->rows, "</td><td>%s%s%s</td><td>%s</td><td>", dtype, shape ? " " : "",
                  shape ? shape : "", ls_html_count(count, p->elements));
}

void ls_inspect_page_held(ls_inspect_page *p, int holder, int64_t count, const char *text)
{
    ls_json *j = &p->j;
    ls_json_object(j, NULL);
    ls_json_int(j, "by", holder);
    ls_json_int(j, "count", count);
    ls_json_text(j, "what", text);
    ls_json_close_object(j);
    if (p->held && p->elements)
        p->held[holder] += (uint64_t)((double)p->tensor_bytes * (double)count / (double)p->elements + 0.5);
    ls_str_printf(&p->rows, "%s%d: ", p->several ? "; " : "", holder);
    ls_html_add(&p->rows, text);
    p->several = true;
}

void ls_inspect_page_tensor_end(ls_inspect_page *p)
{
    ls_json_close_array(&p->j);
    ls_json_close_object(&p->j);
    ls_str_add(&p->rows, "</td></tr>\n");
}

/* ---- the page */

static void card(ls_str *out, const char *value, const char *what)
{
    ls_str_printf(out, "<div class=\"card\"><b>%s</b><span>%s</span></div>\n", value, what);
}

static void head(const ls_inspect_page *p, ls_str *out, int n)
{
    char text[32], what[96];
    uint64_t most = 0, least = UINT64_MAX;
    for (int i = 0; p->held && i < n; i++) {
        most = p->held[i] > most ? p->held[i] : most;
        least = p->held[i] < least ? p->held[i] : least;
    }
    ls_str_add(out, "<h1>");
    ls_html_add(out, p->title);
    ls_str_add(out, "</h1>\n<p class=\"sub\">");
    ls_html_add(out, p->about);
    ls_str_add(out, "</p>\n<div class=\"cards\">\n");
    card(out, ls_html_count(text, p->parameters), "parameters");
    if (p->buffers)
        card(out, ls_html_count(text, p->buffers), "elements of buffers");
    card(out, ls_html_count(text, p->tensors), "tensors");
    card(out, ls_format_bytes(text, p->bytes), ls_str_text(&p->dtypes));
    if (n > 1) {
        snprintf(what, sizeof what, "%s of %d %ss", most == least ? "in each" : "the most in one", n,
                 p->holder);
        card(out, ls_format_bytes(text, most), what);
    }
    ls_str_add(out, "</div>\n");
}

/* All tensors, and who holds what of each. */
static void tensors(const ls_inspect_page *p, ls_str *out, int n, const char *const *names)
{
    ls_str_printf(out, "<details><summary>every tensor, and which %s has what of it</summary>", p->holder);
    if (strcmp(p->holder, "rank")) { /* numbers stand for names */
        ls_str_add(out, "<p class=\"note\">");
        for (int i = 0; i < n; i++) {
            ls_str_printf(out, "%s%d: ", i ? "; " : "", i);
            ls_html_add(out, names[i]);
        }
        ls_str_add(out, "</p>\n");
    }
    ls_str_printf(out,
                  "<div class=\"scroll\"><table class=\"plan\"><thead><tr><th>tensor</th><th>type</th>"
                  "<th>elements</th><th>%s: part</th></tr></thead><tbody>\n",
                  p->holder);
    ls_str_append(out, &p->rows);
    ls_str_add(out, "</tbody></table></div></details>\n");
}

ls_status ls_inspect_page_write(ls_inspect_page *p, const char *path, int n, const char *const *names,
                                const ls_str *printed, const ls_graph *graph)
{
    ls_str out = { 0 };
    ls_json *j = &p->j;
    ls_json_close_array(j);
    ls_json_array(j, "holders");
    for (int i = 0; i < n; i++)
        ls_json_text(j, NULL, names[i]);
    ls_json_close_array(j);
    ls_page_begin(&out, p->title, true);
    head(p, &out, n);
    ls_str_add(&out, "<h2>Modules</h2>\n<div id=\"tree\"><noscript><p class=\"note\">The tree needs scripts. "
                     "Its numbers stand below.</p></noscript></div>\n<details><summary>what <code>lockstep "
                     "inspect</code> prints</summary><pre>");
    ls_html_add(&out, ls_str_text(printed));
    ls_str_inherit(&out, printed);
    ls_str_add(&out, "</pre></details>\n");
    if (n > 1)
        tensors(p, &out, n, names);
    ls_status s = graph ? ls_inspect_graph(j, &out, graph) : LS_OK;
    ls_json_close_object(j);
    ls_page_data(&out, "data", j);
    ls_page_end(&out, "charts.js model.js");
    ls_str_inherit(&out, &p->dtypes);
    if (s == LS_OK)
        s = ls_arena_status(&p->arena);
    if (s == LS_OK)
        s = ls_file_write_text(path, &out);
    ls_str_release(&out);
    if (s == LS_OK)
        ls_log_info("the tensors are in %s: open it in a browser", path);
    return s;
}

void ls_inspect_page_release(ls_inspect_page *p)
{
    ls_str_release(&p->j.out);
    ls_str_release(&p->rows);
    ls_str_release(&p->dtypes);
    ls_arena_release(&p->arena);
}
