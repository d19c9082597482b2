/* page.c - see page.h. */
#include "page.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "support/support.h"

/* Tags close in the order they were opened, attributes are quoted, '&' only begins the five entities; style
 * and data contain no markup, and scripts lie in CDATA sections. */
static void check_well_formed(const char *p)
{
    char open[64][32];
    int depth = 0;
    assert_int_equal(strncmp(p, "<!DOCTYPE html>\n", 16), 0);
    for (p += 16; *p; p++) {
        if (*p == '&') {
            size_t n = strcspn(p, ";");
            if (strncmp(p, "&amp;", 5) && strncmp(p, "&lt;", 4) && strncmp(p, "&gt;", 4) &&
                strncmp(p, "&quot;", 6))
                fail_msg("a bare '&': %.*s", (int)(n < 40 ? n : 40), p);
        }
        if (*p != '<')
            continue;
        if (!strncmp(p, "<![CDATA[", 9)) {
            p = strstr(p, "]]>");
            assert_non_null(p);
            p += 2;
            continue;
        }
        bool closing = p[1] == '/';
        p += 1 + closing;
        char name[32] = "";
        for (size_t n = 0; isalnum((unsigned char)*p) && n < 31; p++)
            name[n++] = *p;
        if (!*name)
            fail_msg("a bare '<' before %.40s", p);
        while (*p && *p != '>' && *p != '/') { /* attributes */
            p += strspn(p, " \n");
            size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
            if (!n)
                break;
            p += n;
            if (p[0] != '=' || p[1] != '"')
                fail_msg("an attribute without quotes: %.40s", p);
            p = strchr(p + 2, '"') + 1;
        }
        bool single = *p == '/';
        p += single;
        if (*p != '>')
            fail_msg("a broken tag <%s: %.40s", name, p);
        if (closing) {
            if (!depth || strcmp(open[depth - 1], name))
                fail_msg("</%s> closes %s", name, depth ? open[depth - 1] : "nothing");
            depth--;
        } else if (!single) {
            assert_true(depth < 64);
            strcpy(open[depth++], name);
        }
    }
    assert_int_equal(depth, 0);
}

/* ---- data and charts */

#define JSON_BEGIN "<script type=\"application/json\""

static json_t *parse_script(const char *script)
{
    const char *text = strchr(script, '>') + 1;
    json_t *tree;
    ASSERT_OK(ls_json_parse(&tree, text, (size_t)(strstr(text, "</script>") - text), "data of the page"));
    return tree;
}

double page_number(const json_t *points, size_t point, size_t k)
{
    const json_t *p = json_array_get(points, point);
    const json_t *v = json_array_get(p, k < json_array_size(p) ? k : 1);
    return json_is_null(v) ? NAN : json_number_value(v);
}

static void check_points(const json_t *points)
{
    assert_true(json_array_size(points) > 0);
    for (size_t i = 0; i < json_array_size(points); i++) {
        const size_t n = json_array_size(json_array_get(points, i));
        assert_true(n == 2 || n == 4);
        assert_true(!i || page_number(points, i - 1, 0) <= page_number(points, i, 0));
        /* (rounded to f32 each, the mean of equal numbers is that number) */
        assert_true(n == 2 || (page_number(points, i, 2) <= page_number(points, i, 1) &&
                               page_number(points, i, 1) <= page_number(points, i, 3)));
    }
}

static void check_chart(const json_t *chart)
{
    const json_t *all = json_object_get(chart, "series"), *series;
    const json_t *first = json_object_get(json_array_get(all, 0), "points");
    size_t i;
    assert_true(json_is_string(json_object_get(chart, "title")));
    assert_true(json_is_string(json_object_get(chart, "x")));
    assert_true(json_is_integer(json_object_get(chart, "height")));
    assert_true(json_array_size(all) > 0);
    json_array_foreach(all, i, series)
    {
        assert_true(json_is_string(json_object_get(series, "name")));
        assert_true(json_is_string(json_object_get(series, "color")));
        check_points(json_object_get(series, "points"));
        if (json_is_true(json_object_get(chart, "stacked")))
            assert_int_equal(json_array_size(json_object_get(series, "points")), json_array_size(first));
    }
    if (json_is_true(json_object_get(chart, "stacked")))
        assert_int_equal(json_array_size(json_object_get(chart, "labels")), json_array_size(first));
}

static void check_figure(const char *figure)
{
    const char *end = strstr(figure, "</figure>");
    char *text = strndup(figure, (size_t)(end - figure));
    ASSERT_CONTAINS(text, "<noscript>");
    ASSERT_CONTAINS(text, "<table class=\"numbers\"><caption>"); /* named, too */
    ASSERT_CONTAINS(text, "<tr><th scope=\"row\">");
    assert_true(text[strlen("<figure class=\"chart\" aria-label=\"")] != '"'); /* it has a name */
    free(text);
}

static void check_data(const char *page)
{
    for (const char *p = page; (p = strstr(p, JSON_BEGIN)); p++)
        json_decref(parse_script(p));
    for (const char *p = page; (p = strstr(p, "<figure class=\"chart\"")); p++) {
        ASSERT_CONTAINS(p, "<figure class=\"chart\" aria-label=\"");
        check_figure(p);
        const char *script = strstr(p, JSON_BEGIN);
        if (script && script < strstr(p, "</figure>")) {
            json_t *chart = parse_script(script);
            check_chart(chart);
            json_decref(chart);
        }
    }
}

json_t *page_data(const char *page, const char *id)
{
    char begin[96];
    snprintf(begin, sizeof begin, "%s id=\"%s\"", JSON_BEGIN, id);
    const char *script = strstr(page, begin);
    assert_non_null(script);
    return parse_script(script);
}

json_t *page_chart(const char *page, const char *title)
{
    for (const char *p = page; (p = strstr(p, JSON_BEGIN)); p++) {
        json_t *tree = parse_script(p);
        const char *is = json_string_value(json_object_get(tree, "title"));
        if (is && !strcmp(is, title))
            return tree;
        json_decref(tree);
    }
    fail_msg("no chart \"%s\"", title);
    return NULL;
}

const json_t *page_points(const json_t *chart, const char *name)
{
    const json_t *series;
    size_t i;
    json_array_foreach(json_object_get(chart, "series"), i,
                       series) if (!strcmp(json_string_value(json_object_get(series, "name")),
                                           name)) return json_object_get(series, "points");
    fail_msg("no series \"%s\"", name);
    return NULL;
}

void page_check(const char *page)
{
    check_well_formed(page);
    static const char *const OUTSIDE[] = { "http:", "https:", "src=", "href=", "url(", "@import" };
    for (size_t i = 0; i < sizeof OUTSIDE / sizeof OUTSIDE[0]; i++)
        if (strstr(page, OUTSIDE[i]))
            fail_msg("the page reaches outside: %s", OUTSIDE[i]);
    check_data(page);
}
