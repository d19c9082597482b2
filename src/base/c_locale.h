/* c_locale.h - the functions of the C library that follow the program's locale, as they are in the locale C.
 * A host program may have called setlocale, and a decimal comma would break every number that we read and
 * every file that we write. So `src` reads and writes numbers only with these (tools/check_locale). */
#pragma once
#include <stdarg.h>
#include <stddef.h>

double ls_strtod(const char *text, char **end);
float ls_strtof(const char *text, char **end);
int ls_snprintf(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int ls_vsnprintf(char *out, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
