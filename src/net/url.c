/* url.c - see url.h. */
#include "net/url.h"
#include <stdio.h>
#include <strings.h>

void ls_url_escape(ls_str *out, const char *text, const char *stays)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
    for (const char *p = text; *p; p++)
        if (strchr(PLAIN, *p) || strchr(stays, *p))
            ls_str_add_n(out, p, 1);
        else
            ls_str_printf(out, "%%%02X", (unsigned char)*p);
}

typedef struct origin {
    const char *host; /* with the port */
    size_t scheme;    /* bytes of "https://" */
    size_t n;         /* of `host` */
} origin;

static origin find_origin(const char *url)
{
    const char *mark = strstr(url, "://");
    const size_t scheme = mark ? (size_t)(mark - url) + 3 : 0, all = strcspn(url + scheme, "/?#");
    origin o = { .host = url + scheme, .scheme = scheme, .n = all };
    for (size_t i = 0; i < all; i++) /* behind the last @ */
        if (url[scheme + i] == '@') {
            o.host = url + scheme + i + 1;
            o.n = all - i - 1;
        }
    return o;
}

const char *ls_url_shown(char out[LS_URL_SHOWN], const char *url)
{
    const origin o = find_origin(url);
    const size_t rest = strcspn(o.host, "?#");
    const int n = snprintf(out, LS_URL_SHOWN, "%.*s%.*s", (int)o.scheme, url, (int)rest, o.host);
    if (n >= LS_URL_SHOWN)
        snprintf(out + LS_URL_SHOWN - 4, 4, "...");
    return out;
}

bool ls_url_same_origin(const char *a, const char *b)
{
    const origin x = find_origin(a), y = find_origin(b);
    return x.scheme == y.scheme && !strncasecmp(a, b, x.scheme) && x.n == y.n &&
           !strncasecmp(x.host, y.host, x.n);
}

bool ls_url_is_https(const char *url) { return !strncasecmp(url, "https://", 8); }

bool ls_url_may_lead(const char *url, const char *target)
{
    return ls_url_is_https(target) || (!strncasecmp(target, "http://", 7) && !ls_url_is_https(url));
}
