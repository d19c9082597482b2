/* page.c - see page.h. */
#include "page.h"

#include <ctype.h>
#include <string.h>

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

void page_check(const char *page)
{
    check_well_formed(page);
    static const char *const OUTSIDE[] = { "http:", "https:", "src=", "href=", "url(", "@import" };
    for (size_t i = 0; i < sizeof OUTSIDE / sizeof OUTSIDE[0]; i++)
        if (strstr(page, OUTSIDE[i]))
            fail_msg("the page reaches outside: %s", OUTSIDE[i]);
}
