/* str.h - a growable string for building text, and the few string helpers that everybody needs. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include "lockstep/status.h"

typedef struct ls_str {
    char *data; /* always NUL-terminated once something was added; NULL when empty and untouched */
    size_t len, cap;
} ls_str;

void ls_str_release(ls_str *s);
void ls_str_clear(ls_str *s);
void ls_str_add(ls_str *s, const char *text);
void ls_str_add_n(ls_str *s, const char *text, size_t n);
void ls_str_printf(ls_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ls_str_vprintf(ls_str *s, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
const char *ls_str_text(const ls_str *s); /* "" when empty */

/* Glob with * and ? over dot-separated names; both match dots too (`*.bias` is every bias), so `**` is not
 * special. */
bool ls_glob_match(const char *pattern, const char *text);
/* Nearest of `n` names by edit distance, NULL if none is near: for "did you mean". */
const char *ls_nearest_name(const char *name, const char *const *names, int n);
/* "512MiB", "1.5GB", "64" -> bytes. A bare "M" is refused: it could mean either. */
bool ls_parse_bytes(const char *text, int64_t *out);
/* 1536 -> "1.5 KiB"; into a static-size caller buffer. */
const char *ls_format_bytes(char buffer[32], uint64_t bytes);
const char *ls_format_duration(char buffer[32], double seconds); /* "1 h 02 min", "3.2 s", "12 ms" */
/* Shortest decimal text that reads back as the same float / double ("2.3025851"). */
const char *ls_format_f32(char buffer[32], float x);
const char *ls_format_f64(char buffer[32], double x);
