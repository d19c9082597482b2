/* str.c - growable text. That memory ran out is remembered: see ls_str_status. */
#include "str.h"
#include "c_locale.h"
#include "check.h"
#include "sys.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static char nothing[1]; /* the text of a string for which there was no memory at all: always "" */

void ls_str_release(ls_str *s)
{
    if (s->cap && !s->lent)
        free(s->data);
    *s = (ls_str){ 0 };
}

void ls_str_clear(ls_str *s) { ls_str_cut(s, 0); }

void ls_str_cut(ls_str *s, size_t len)
{
    if (len > s->len)
        return;
    s->len = len;
    if (s->cap)
        s->data[len] = 0;
}

/* Makes room for n more bytes and the NUL. */
static bool reserve(ls_str *s, size_t n)
{
    LS_CHECK(n < SIZE_MAX / 4 && s->len < SIZE_MAX / 4);
    const size_t need = s->len + n + 1;
    if (s->no_memory && !s->data)
        s->data = nothing;
    if (s->no_memory || need <= s->cap)
        return !s->no_memory;
    size_t cap = s->cap ? 2 * s->cap : 64;
    while (cap < need)
        cap *= 2;
    char *data = ls_sys_realloc(s->lent ? NULL : s->data, cap);
    if (data && s->lent)
        memcpy(data, s->data, s->len + 1);
    if (!data) {
        s->no_memory = true;
        s->data = s->cap ? s->data : nothing;
        return false;
    }
    s->data = data;
    s->cap = cap;
    s->lent = false;
    return true;
}

void ls_str_add_n(ls_str *s, const char *text, size_t n)
{
    if (!reserve(s, n))
        return;
    if (n)
        memcpy(s->data + s->len, text, n);
    s->len += n;
    s->data[s->len] = 0;
}

void ls_str_add(ls_str *s, const char *text)
{
    s->no_memory = s->no_memory || !text;
    ls_str_add_n(s, text ? text : "", text ? strlen(text) : 0);
}

void ls_str_append(ls_str *s, const ls_str *part)
{
    ls_str_add_n(s, ls_str_text(part), part->len);
    ls_str_inherit(s, part);
}

void ls_str_inherit(ls_str *s, const ls_str *part) { s->no_memory = s->no_memory || part->no_memory; }

void ls_str_printf(ls_str *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls_str_vprintf(s, format, args);
    va_end(args);
}

void ls_str_vprintf(ls_str *s, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = ls_vsnprintf(NULL, 0, format, args);
    LS_CHECK(n >= 0, "bad format \"%s\"", format);
    if (reserve(s, (size_t)n)) {
        ls_vsnprintf(s->data + s->len, (size_t)n + 1, format, again);
        s->len += (size_t)n;
    }
    va_end(again);
}

const char *ls_str_text(const ls_str *s) { return s->data ? s->data : ""; }

ls_status ls_str_status(const ls_str *s)
{
    return s->no_memory ? ls_fail(LS_E_MEMORY, "out of memory: a text of more than %zu bytes", s->len)
                        : LS_OK;
}

char *ls_str_take(ls_str *s)
{
    ls_str_add(s, "");
    char *text = s->lent ? ls_sys_strdup(s->data) : s->data;
    if (ls_str_status(s) != LS_OK || ls_sys_have(text) != LS_OK)
        text = NULL;
    else if (!s->lent)
        *s = (ls_str){ 0 };
    ls_str_release(s);
    return text;
}

bool ls_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* On a mismatch it goes back to the latest star only. That is enough: a longer match of an earlier star
 * cannot help. */
bool ls_glob_match(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++resume;
        } else
            return false;
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

enum { NAME_MAX_LENGTH = 63 };

/* Edit distance that counts a swap of neighbours as one edit (optimal string alignment). Case is ignored. */
static int distance(const char *a, size_t na, const char *b, size_t nb)
{
    int row[3][NAME_MAX_LENGTH + 1];
    int *before = row[0], *last = row[1], *now = row[2];
    for (size_t j = 0; j <= nb; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int same = strncasecmp(a + i - 1, b + j - 1, 1) == 0;
            int best = last[j - 1] + !same;
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && !strncasecmp(a + i - 1, b + j - 2, 1) &&
                !strncasecmp(a + i - 2, b + j - 1, 1) && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
        int *reuse = before;
        before = last;
        last = now;
        now = reuse;
    }
    return last[nb];
}

static int parts(const char *name)
{
    int n = 1;
    for (; *name; name++)
        n += *name == '_';
    return n;
}

/* How many edits are near: few in a short name; and `device_id` is another name than `device`, for it has
 * another number of parts. */
static int near_edits(const char *a, size_t na, const char *b, size_t nb)
{
    const size_t shorter = na < nb ? na : nb;
    return shorter <= 4 ? 1 : shorter <= 9 || parts(a) != parts(b) ? 2 : 3;
}

const char *ls_nearest_name(const char *name, const char *const *names, int n)
{
    size_t length = strlen(name);
    if (length > NAME_MAX_LENGTH)
        return NULL;
    const char *nearest = NULL;
    int best = NAME_MAX_LENGTH;
    for (int i = 0; i < n; i++) {
        size_t other = strlen(names[i]);
        if (other > NAME_MAX_LENGTH)
            continue;
        int d = distance(name, length, names[i], other);
        /* d = other: nothing in common */
        if (d < best && d < (int)other && d <= near_edits(name, length, names[i], other)) {
            nearest = names[i];
            best = d;
        }
    }
    return nearest;
}

void ls_str_add_base64(ls_str *out, const uint8_t *p, size_t n)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
                     (i + 2 < n ? p[i + 2] : 0u);
        char four[4] = { DIGITS[v >> 18], DIGITS[v >> 12 & 63], i + 1 < n ? DIGITS[v >> 6 & 63] : '=',
                         i + 2 < n ? DIGITS[v & 63] : '=' };
        ls_str_add_n(out, four, 4);
    }
}
