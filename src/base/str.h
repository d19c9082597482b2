/* str.h - a growable string, and string helpers that are used everywhere. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include "lockstep/status.h"

typedef struct ls_str {
    char *data; /* ends with NUL; NULL until something is added */
    size_t len, cap;
} ls_str;

void ls_str_release(ls_str *s);
void ls_str_clear(ls_str *s);
void ls_str_add(ls_str *s, const char *text);
void ls_str_add_n(ls_str *s, const char *text, size_t n);
void ls_str_printf(ls_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ls_str_vprintf(ls_str *s, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
const char *ls_str_text(const ls_str *s); /* "" when empty */

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
