/* url.h - addresses as text: how they are written, how messages show them, and which server they are of. */
#pragma once
#include <stdbool.h>
#include "base/str.h"

/* Appends text as a URL has it: other bytes than letters, digits, -_.~ and those in `stays` ("/" in a path,
 * "" in the value of a query) become %XX. */
void ls_url_escape(ls_str *out, const char *text, const char *stays);

/* The address for a message or a log: without the name and password in front of the host, and without what
 * follows a ? or #, because both may be secrets (a signature, a token). A long one is cut. Returns `out`. */
enum { LS_URL_SHOWN = 512 };
const char *ls_url_shown(char out[LS_URL_SHOWN], const char *url);

/* Whether both addresses have the same origin: scheme, host and port, as they are written. */
bool ls_url_same_origin(const char *a, const char *b);

bool ls_url_is_https(const char *url);

/* Whether a redirection from `url` to `target` may be followed: over http or https, and not from https to
 * http. */
bool ls_url_may_lead(const char *url, const char *target);
