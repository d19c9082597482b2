/* pattern.c - expands braces itself, because glob(3) does not limit how many patterns they make. glob does
 * the rest, through functions that count names. */
#include "base/pattern.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/stop.h"
#include "base/sys.h"
#include "base/str.h"

enum { DEEPEST = 64, LONGEST = 1 << 16 }; /* nesting of braces; bytes of a pattern */

static ls_status pattern_add(ls_paths *p, const char *text)
{
    char *copy = ls_sys_strdup(text);
    /* the array grows when n is a power of two: room for 1, 2, 4, ... */
    if (copy && (p->n & (p->n - 1)) == 0) {
        char **at = ls_sys_realloc(p->at, sizeof *p->at * (p->n ? 2 * p->n : 1));
        if (!at) {
            free(copy);
            copy = NULL;
        } else
            p->at = at;
    }
    if (!copy)
        return ls_fail(LS_E_MEMORY, "%s: no memory for a list of files", text);
    p->at[p->n++] = copy;
    return LS_OK;
}

void ls_paths_release(ls_paths *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->at[i]);
    free(p->at);
    *p = (ls_paths){ 0 };
}

/* ---- braces */

/* Finds the next character of `wanted`, from `at` on, outside of inner braces. Returns the end of the text if
 * there is none. */
static const char *next_outside(const char *at, const char *wanted)
{
    for (int depth = 0; *at; at++) {
        if (depth == 0 && strchr(wanted, *at))
            return at;
        if (*at == '\\' && at[1])
            at++;
        else if (*at == '{')
            depth++;
        else if (*at == '}')
            depth--;
    }
    return at;
}

/* The brace that begins the first choice; NULL if there is none. "{}" is not a choice, nor is a brace that is
 * never closed. */
static const char *first_choice(const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '\\' && p[1])
            p++;
        else if (*p == '{' && p[1] != '}' && *next_outside(p + 1, "}"))
            return p;
    }
    return NULL;
}

static ls_status expand(ls_paths *out, const char *text, const char *pattern, int depth);

/* The text with `choice` in the place of what lies from `open` to `close`, further expanded. */
static ls_status expand_choice(ls_paths *out, const char *text, const char *open, const char *close,
                               const char *choice, size_t n, const char *pattern, int depth)
{
    ls_str one = { 0 };
    ls_str_add_n(&one, text, (size_t)(open - text));
    ls_str_add_n(&one, choice, n);
    ls_str_add(&one, close + 1);
    ls_status s = ls_str_status(&one);
    if (s == LS_OK)
        s = expand(out, ls_str_text(&one), pattern, depth + 1);
    ls_str_release(&one);
    return s;
}

/* {000..127}: numbers, with as many digits as the first one has. *is: it is one. */
static ls_status expand_numbers(ls_paths *out, const char *text, const char *open, const char *close,
                                const char *pattern, int depth, bool *is)
{
    enum { DIGITS = 9 };
    long first = 0, last = 0;
    int digits = 0, used = 0;
    *is = false;
    if (strspn(open + 1, "0123456789") <= DIGITS && close - open <= 2 * DIGITS + 3 &&
        sscanf(open + 1, "%9ld%n", &first, &digits) == 1 && open[1] != '-' && open[1] != '+' &&
        !strncmp(open + 1 + digits, "..", 2) && strspn(open + 3 + digits, "0123456789") &&
        sscanf(open + 3 + digits, "%9ld%n", &last, &used) == 1)
        *is = open + 3 + digits + used == close && first <= last;
    ls_status s = LS_OK;
    for (long v = first; *is && v <= last && s == LS_OK; v++) {
        char choice[16];
        const int n = snprintf(choice, sizeof choice, "%0*ld", digits, v);
        s = expand_choice(out, text, open, close, choice, (size_t)n, pattern, depth);
    }
    return s;
}

static ls_status expand(ls_paths *out, const char *text, const char *pattern, int depth)
{
    const char *open = depth < DEEPEST ? first_choice(text) : NULL,
               *close = open ? next_outside(open + 1, "}") : NULL;
    if (out->n >= LS_PATTERN_BRACES || (depth == DEEPEST && first_choice(text)))
        return ls_fail(LS_E_USAGE,
                       "%s: its braces make more than %d patterns: use *, or name fewer files at a time",
                       pattern, LS_PATTERN_BRACES);
    if (!open)
        return pattern_add(out, text);
    bool numbers;
    LS_TRY(expand_numbers(out, text, open, close, pattern, depth, &numbers));
    for (const char *p = open; p < close && !numbers;) {
        const char *from = p + 1;
        p = next_outside(from, ",}");
        LS_TRY(expand_choice(out, text, open, close, from, (size_t)(p - from), pattern, depth));
    }
    return LS_OK;
}

/* ---- folders */

/* of the pattern that this thread expands; glob passes no context to its functions */
static _Thread_local int64_t looked_at;

static bool enough(void) { return looked_at > LS_PATTERN_NAMES || ls_stop_asked(); }

static void *open_folder(const char *path)
{
    looked_at++;
    errno = EINTR;
    return enough() ? NULL : opendir(path);
}

static struct dirent *next_name(void *folder)
{
    looked_at++;
    return enough() ? NULL : readdir(folder);
}

static void close_folder(void *folder) { closedir(folder); }

static int pattern_look(const char *restrict path, struct stat *restrict st)
{
    looked_at++;
    return enough() ? -1 : stat(path, st);
}

static int look_at_link(const char *restrict path, struct stat *restrict st)
{
    looked_at++;
    return enough() ? -1 : lstat(path, st);
}

/* A folder that cannot be read counts as empty. If the limit is reached, glob ends. */
static int on_error(const char *path, int error)
{
    (void)path, (void)error;
    return enough();
}

static ls_status pattern_find(ls_paths *out, const char *one, const char *pattern)
{
    glob_t found = { .gl_closedir = close_folder,
                     .gl_readdir = next_name,
                     .gl_opendir = open_folder,
                     .gl_lstat = look_at_link,
                     .gl_stat = pattern_look };
    const int result = glob(one, GLOB_NOSORT | GLOB_ALTDIRFUNC, on_error, &found);
    ls_status s = LS_OK;
    for (size_t i = 0; result == 0 && s == LS_OK && i < found.gl_pathc; i++)
        s = pattern_add(out, found.gl_pathv[i]);
    globfree(&found);
    LS_TRY(s);
    LS_TRY(ls_stop_check("looking for %s", pattern));
    if (looked_at > LS_PATTERN_NAMES)
        return ls_fail(LS_E_USAGE,
                       "%s: more than %d names have to be looked at: name the folders more exactly", pattern,
                       LS_PATTERN_NAMES);
    return result == GLOB_NOSPACE ? ls_fail(LS_E_MEMORY, "%s: no memory for all that matches", pattern)
                                  : LS_OK;
}

ls_status ls_pattern_find(ls_paths *out, const char *pattern)
{
    ls_paths all = { 0 };
    *out = (ls_paths){ 0 };
    if (strlen(pattern) > LONGEST)
        return ls_fail(LS_E_USAGE, "a pattern of files has %zu bytes, at most %d are read: %.60s...",
                       strlen(pattern), LONGEST, pattern);
    looked_at = 0;
    ls_status s = expand(&all, pattern, pattern, 0);
    for (size_t i = 0; i < all.n && s == LS_OK; i++)
        s = pattern_find(out, all.at[i], pattern);
    ls_paths_release(&all);
    if (s != LS_OK)
        ls_paths_release(out);
    return s;
}
