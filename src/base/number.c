/* number.c - numbers as people write them (declared in str.h): sizes, durations, and decimal text that reads
 * back as the same number. Nothing here depends on the program's locale (c_locale.h). */
#include "str.h"
#include "c_locale.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool ls_parse_bytes(const char *text, int64_t *out)
{
    static const char UNITS[] = "kmgtp";
    /* refuses a sign, spaces, "inf" and hexadecimal numbers */
    if (!((*text >= '0' && *text <= '9') || *text == '.'))
        return false;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        return false;
    char *end;
    double value = ls_strtod(text, &end);
    if (end == text)
        return false;
    while (*end == ' ')
        end++;
    double scale = 1;
    if (*end && strcasecmp(end, "b") != 0) {
        const char *unit = strchr(UNITS, *end | 0x20);
        if (!unit)
            return false;
        bool binary = strcasecmp(end + 1, "ib") == 0;
        if (!binary && strcasecmp(end + 1, "b") != 0) /* a bare "M" may mean 10^6 or 2^20 */
            return false;
        for (int power = (int)(unit - UNITS) + 1; power > 0; power--)
            scale *= binary ? 1024 : 1000;
    }
    double bytes = value * scale;
    if (!(bytes < 0x1p63) || bytes != floor(bytes)) /* a fraction of a byte is a mistake */
        return false;
    *out = (int64_t)bytes;
    return true;
}

const char *ls_format_bytes(char buffer[32], uint64_t bytes)
{
    static const char *const UNITS[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    if (bytes < 1024) {
        ls_snprintf(buffer, 32, "%d B", (int)bytes);
        return buffer;
    }
    int unit = 0;
    double value = (double)bytes;
    while (value >= 1023.5 && unit < 6) { /* a number that would print as 1024 takes the next unit */
        value /= 1024;
        unit++;
    }
    ls_snprintf(buffer, 32, value < 99.95 ? "%.1f %s" : "%.0f %s", value, UNITS[unit]);
    return buffer;
}

const char *ls_format_duration(char buffer[32], double seconds)
{
    const char *sign = seconds < 0 ? "-" : "";
    double s = fabs(seconds);
    if (!(s < 1e9))
        ls_snprintf(buffer, 32, "%s", isnan(s) ? "unknown" : "forever");
    else if (s < 0.9995e-3)
        ls_snprintf(buffer, 32, "%s%.0f us", sign, s * 1e6);
    else if (s < 0.9995)
        ls_snprintf(buffer, 32, s < 9.95e-3 ? "%s%.1f ms" : "%s%.0f ms", sign, s * 1e3);
    else if (s < 59.95)
        ls_snprintf(buffer, 32, "%s%.1f s", sign, s);
    else {
        long long whole = llround(s), minutes = llround(s / 60), hours = llround(s / 3600);
        if (whole < 3600)
            ls_snprintf(buffer, 32, "%s%lld min %02lld s", sign, whole / 60, whole % 60);
        else if (minutes < 48 * 60)
            ls_snprintf(buffer, 32, "%s%lld h %02lld min", sign, minutes / 60, minutes % 60);
        else
            ls_snprintf(buffer, 32, "%s%lld d %02lld h", sign, hours / 24, hours % 24);
    }
    return buffer;
}

/* Writes the digits of a number "-d.ddde+xx" (at most 17 digits, the last one not 0): without an exponent
 * from 0.00001 up to `plain` digits before the point, else with one. */
static void layout(char *out, const char *scientific, int plain)
{
    char digits[24] = "";
    int n = 0;
    if (*scientific == '-')
        *out++ = *scientific++;
    for (; *scientific != 'e'; scientific++)
        if (*scientific != '.')
            digits[n++] = *scientific;
    int exponent = atoi(scientific + 1);
    if (exponent < -5 || exponent >= plain) {
        sprintf(out, "%c%s%se%d", digits[0], n > 1 ? "." : "", digits + 1, exponent);
        return;
    }
    if (exponent < 0) {
        sprintf(out, "0.%.*s%s", -exponent - 1, "0000", digits);
        return;
    }
    for (int i = 0; i < n || i <= exponent; i++) {
        if (i == exponent + 1)
            *out++ = '.';
        *out++ = i < n ? digits[i] : '0';
    }
    *out = 0;
}

static bool special(char buffer[32], double x)
{
    if (isfinite(x))
        return false;
    strcpy(buffer, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    return true;
}

const char *ls_format_f32(char buffer[32], float x)
{
    char text[32];
    if (special(buffer, (double)x))
        return buffer;
    for (int precision = 0; precision < 9; precision++) { /* 9 digits are always enough for a float */
        ls_snprintf(text, sizeof text, "%.*e", precision, (double)x);
        if (ls_strtof(text, NULL) == x)
            break;
    }
    layout(buffer, text, 9);
    return buffer;
}

const char *ls_format_f64(char buffer[32], double x)
{
    char text[32];
    if (special(buffer, x))
        return buffer;
    for (int precision = 0; precision < 17; precision++) { /* 17 digits are always enough for a double */
        ls_snprintf(text, sizeof text, "%.*e", precision, x);
        if (ls_strtod(text, NULL) == x)
            break;
    }
    layout(buffer, text, 16);
    return buffer;
}

const char *ls_format_number(char buffer[32], const char *format, double x)
{
    if (fabs(x) >= 1e9 && isfinite(x) && strchr(format, 'f')) /* all digits of it would not fit */
        format = "%.5g";
    ls_snprintf(buffer, 32, format, x); /* formats are the callers' literals */
    char *e = strpbrk(buffer, "eE");
    if (e && (e[1] == '-' || e[1] == '+')) {
        char *digits = e + 2;
        while (*digits == '0' && digits[1] >= '0' && digits[1] <= '9')
            digits++;
        char *to = e + 1 + (e[1] == '-');
        memmove(to, digits, strlen(digits) + 1);
    }
    return buffer;
}
