/* c_locale.c - see c_locale.h. Each call switches this thread to the locale C and back; other threads and the
 * program's own locale do not notice. */
#include "c_locale.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "check.h"

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    LS_CHECK(c_locale != (locale_t)0);
}

static locale_t locale_enter(void)
{
    pthread_once(&c_locale_once, make_c_locale);
    return uselocale(c_locale);
}

double ls_strtod(const char *text, char **end)
{
    const locale_t old = locale_enter();
    const double x = strtod(text, end);
    uselocale(old);
    return x;
}

float ls_strtof(const char *text, char **end)
{
    const locale_t old = locale_enter();
    const float x = strtof(text, end);
    uselocale(old);
    return x;
}

int ls_vsnprintf(char *out, size_t size, const char *format, va_list args)
{
    const locale_t old = locale_enter();
    const int n = vsnprintf(out, size, format, args);
    uselocale(old);
    return n;
}

int ls_snprintf(char *out, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = ls_vsnprintf(out, size, format, args);
    va_end(args);
    return n;
}
