/* option.c - reads the value of an option as its row says, and decides the conditions of rows. */
#include "option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "lockstep/types.h"

static bool option_in_range(const ls_option_row *o, double x)
{
    return (o->above ? x > o->min : x >= o->min) && x <= o->max;
}

static ls_status option_wants(const ls_option_row *o, const char *text, const char *what)
{
    char room[256];
    ls_str range = LS_STR_IN(room);
    ls_option_range(&range, o, true);
    const ls_status s = ls_fail(LS_E_USAGE, "%s %s: %s%s is needed", o->name, text, what,
                                ls_str_text(&range));
    ls_str_release(&range);
    return s;
}

/* The number of the word; -1: it is none of them. */
static int option_find_word(const ls_option_row *o, const char *text)
{
    for (int i = 0; o->words && o->words[i]; i++)
        if (!strcmp(o->words[i], text))
            return i;
    return -1;
}

static ls_status option_wants_word(const ls_option_row *o, const char *text)
{
    char room[256];
    ls_str words = LS_STR_IN(room);
    ls_option_words(&words, o, ", ", " or ");
    const ls_status s = ls_fail(LS_E_USAGE, "%s %s: %s is needed", o->name, text, ls_str_text(&words));
    ls_str_release(&words);
    return s;
}

static void option_store(const ls_option_row *o, void *out, const void *value)
{
    if (out && o->size)
        memcpy((char *)out + o->offset, value, o->size);
}

/* A whole number, for a member of 1, 4 or 8 bytes. */
static void option_store_int(const ls_option_row *o, void *out, int64_t n)
{
    const int narrow = (int)n;
    const bool flag = n != 0;
    option_store(o, out,
                 o->size == sizeof n        ? (const void *)&n
                 : o->size == sizeof narrow ? (const void *)&narrow
                                            : (const void *)&flag);
}

static ls_status option_int(const ls_option_row *o, const char *text, void *out)
{
    char *end;
    errno = 0;
    const long long n = strtoll(text, &end, 10);
    if (end == text || *end || errno || !option_in_range(o, (double)n))
        return option_wants(o, text, "a whole number");
    option_store_int(o, out, n);
    return LS_OK;
}

static ls_status option_real(const ls_option_row *o, const char *text, void *out)
{
    char *end;
    const double x = ls_strtod(text, &end);
    if (end == text || *end || !option_in_range(o, x))
        return option_wants(o, text, "a number");
    option_store(o, out, &x);
    return LS_OK;
}

static ls_status option_bytes(const ls_option_row *o, const char *text, void *out)
{
    int64_t n;
    if (!ls_parse_bytes(text, &n) || n < 1)
        return ls_fail(LS_E_USAGE, "%s %s: write a size, as 8GiB", o->name, text);
    option_store(o, out, &n);
    return LS_OK;
}

static ls_status option_word(const ls_option_row *o, const char *text, void *out)
{
    const int word = option_find_word(o, text);
    ls_dtype type = LS_F32;
    if (word < 0 || (o->kind == LS_OPTION_DTYPE && !ls_dtype_parse(text, &type)))
        return option_wants_word(o, text);
    if (o->kind == LS_OPTION_DTYPE)
        option_store(o, out, &type);
    else
        option_store_int(o, out, word);
    return LS_OK;
}

ls_status ls_option_read(const ls_option_row *o, const char *text, void *out)
{
    if (o->kind == LS_OPTION_FLAG) {
        option_store(o, out, &(bool){ true });
        return LS_OK;
    }
    if (!text)
        return LS_OK;
    switch (o->kind) {
    case LS_OPTION_INT: return option_int(o, text, out);
    case LS_OPTION_REAL: return option_real(o, text, out);
    case LS_OPTION_BYTES: return option_bytes(o, text, out);
    case LS_OPTION_CHOICE:
    case LS_OPTION_DTYPE: return option_word(o, text, out);
    case LS_OPTION_FILE:
        if (o->page && !ls_ends_with(text, ".html") && strncmp(text, "/dev/", 5))
            return ls_fail(LS_E_USAGE, "%s %s: the name of a page ends in .html", o->name, text);
        LS_TRY(ls_path_check(o->name, text));
        break;
    case LS_OPTION_FOLDER: LS_TRY(ls_path_check(o->name, text)); break;
    default: break;
    }
    option_store(o, out, &text);
    return LS_OK;
}

static bool option_is_default(const ls_option_row *o, const char *text)
{
    if (!text || !o->fallback)
        return false;
    if (o->kind != LS_OPTION_INT && o->kind != LS_OPTION_REAL)
        return !strcmp(text, o->fallback);
    char *end;
    return ls_strtod(text, &end) == ls_strtod(o->fallback, &end); /* 0.0 is 0 */
}

bool ls_option_meets(const ls_option_row *o, const char *condition, const char *text)
{
    const char *pattern = condition + strlen(o->name);
    bool met = !*pattern || pattern[1] == '!';
    while (*pattern) {
        char one[64];
        const bool other = *++pattern == '!';
        const size_t n = strcspn(pattern, " ");
        snprintf(one, sizeof one, "%.*s", (int)n - other, pattern + other);
        if (text && ls_glob_match(one, text))
            met = !other;
        pattern += n;
    }
    return met && !option_is_default(o, text);
}
