/* str.c - growable text. Running out of memory aborts, as in an arena: texts have kilobytes. */
#include "str.h"
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void ls_str_release(ls_str *s)
{
    free(s->data);
    *s = (ls_str){ 0 };
}

void ls_str_clear(ls_str *s)
{
    s->len = 0;
    if (s->data)
        s->data[0] = 0;
}

/* Makes room for n more bytes and the NUL. */
static void reserve(ls_str *s, size_t n)
{
    LS_CHECK(n < SIZE_MAX / 4 && s->len < SIZE_MAX / 4);
    size_t need = s->len + n + 1;
    if (need <= s->cap)
        return;
    size_t cap = s->cap ? 2 * s->cap : 64;
    while (cap < need)
        cap *= 2;
    char *data = realloc(s->data, cap);
    LS_CHECK(data != NULL, "out of memory: %zu bytes of text", cap);
    s->data = data;
    s->cap = cap;
}

void ls_str_add_n(ls_str *s, const char *text, size_t n)
{
    reserve(s, n);
    if (n)
        memcpy(s->data + s->len, text, n);
    s->len += n;
    s->data[s->len] = 0;
}

void ls_str_add(ls_str *s, const char *text) { ls_str_add_n(s, text, strlen(text)); }

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
    int n = vsnprintf(NULL, 0, format, args);
    LS_CHECK(n >= 0, "bad format \"%s\"", format);
    reserve(s, (size_t)n);
    vsnprintf(s->data + s->len, (size_t)n + 1, format, again);
    va_end(again);
    s->len += (size_t)n;
}

const char *ls_str_text(const ls_str *s) { return s->data ? s->data : ""; }

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

const char *ls_nearest_name(const char *name, const char *const *names, int n)
{
    size_t length = strlen(name);
    if (length > NAME_MAX_LENGTH)
        return NULL;
    /* how many edits are near: one in a short name, two in a medium one, a third of the letters in a long
     * one */
    int limit = length <= 3 ? 1 : length <= 8 ? 2 : (int)length / 3;
    const char *nearest = NULL;
    for (int i = 0; i < n; i++) {
        size_t other = strlen(names[i]);
        if (other > NAME_MAX_LENGTH)
            continue;
        int d = distance(name, length, names[i], other);
        if (d <= limit && d < (int)other) { /* d = other: nothing in common */
            nearest = names[i];
            limit = d - 1;
        }
    }
    return nearest;
}
