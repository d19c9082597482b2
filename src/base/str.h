/* str.h - a growable string, and string helpers that are used everywhere.
 *
 * A string remembers that memory ran out, as a stream of stdio remembers an error. What is added from then on
 * is left out, and the text stays valid. Code that writes the text to a file, sends it to another rank, uses
 * it as a key or returns it calls ls_str_status or ls_str_take. A message or a label may be cut short: that
 * is better than none. */
#pragma once
#include <stdint.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include "lockstep/status.h"

typedef struct ls_str {
    char *data; /* ends with NUL, also without memory; NULL until something is added */
    size_t len, cap;
    bool no_memory, lent; /* lent: `data` is LS_STR_IN's array */
} ls_str;

/* An empty text that begins in this array, so that short ones need no memory: for those that decide
 * something. */
#define LS_STR_IN(array)                                                  \
    {                                                                     \
        .data = memset((array), 0, 1), .cap = sizeof(array), .lent = true \
    }

void ls_str_release(ls_str *s);
void ls_str_clear(ls_str *s);                 /* what was out of memory remains so until it is released */
void ls_str_cut(ls_str *s, size_t len);       /* to its first `len` bytes, if it has more */
void ls_str_add(ls_str *s, const char *text); /* NULL: there was no memory for it, so s is not whole */
void ls_str_add_n(ls_str *s, const char *text, size_t n);
void ls_str_add_base64(ls_str *s, const uint8_t *bytes, size_t n);
void ls_str_append(ls_str *s, const ls_str *part);
void ls_str_inherit(ls_str *s, const ls_str *part); /* s is made from it: not whole if it is not */
void ls_str_printf(ls_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ls_str_vprintf(ls_str *s, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
const char *ls_str_text(const ls_str *s); /* "" when empty */
ls_status ls_str_status(const ls_str *s); /* LS_E_MEMORY: the text is not whole */
/* Hands the text over, to be freed, and releases s. NULL: it was not whole; ls_error_message says so. */
char *ls_str_take(ls_str *s);

bool ls_ends_with(const char *text, const char *end); /* also if there is nothing before the end */

/* Glob with * and ?, for dot-separated names. Both also match dots (`*.bias` matches every bias), so `**`
 * means `*`. */
bool ls_glob_match(const char *pattern, const char *text);
/* The name with the smallest edit distance, for "did you mean"; NULL if none is near. */
const char *ls_nearest_name(const char *name, const char *const *names, int n);
/* Parses a size in bytes: "512MiB", "1.5GB", "64". A bare "M" is refused, because it may mean 10^6 or
 * 2^20. */
bool ls_parse_bytes(const char *text, int64_t *out);
/* 1536 becomes "1.5 KiB". */
const char *ls_format_bytes(char buffer[32], uint64_t bytes);
const char *ls_format_duration(char buffer[32], double seconds); /* "1 h 02 min", "3.2 s", "12 ms" */
/* The shortest decimal text that reads back as the same float or double ("2.3025851"). */
const char *ls_format_f32(char buffer[32], float x);
const char *ls_format_f64(char buffer[32], double x);
/* A number by a format of printf that is a literal, with exponents as these two write them: 6e-7, not 6e-07.
 * From 1e9 on, %f becomes %.5g. */
const char *ls_format_number(char buffer[32], const char *format, double x);
