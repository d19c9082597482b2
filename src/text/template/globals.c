/* globals.c - the functions that every template has, and their table. */
#include <time.h>

#include "base/c_locale.h"
#include "functions.h"

enum { LARGEST_RANGE = 100000 }; /* jinja2's sandbox has this bound */

static ls_jvalue raise_exception(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)of;
    const ls_jtext *words = ls_jshow(r, a->values[0]);
    ls_jfail(r, LS_E_FORMAT, "%.*s", (int)(words->n < 900 ? words->n : 900), words->bytes);
    return ls_jundefined(NULL);
}

static ls_jvalue range(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)of;
    const bool one = !ls_jgiven(a, 1);
    const int64_t start = one ? 0 : ls_jargument_int(r, a, 0, 0);
    const int64_t stop = ls_jargument_int(r, a, one ? 0 : 1, 0);
    const int64_t step = ls_jargument_int(r, a, 2, 1);
    if (step == 0)
        ls_jfail(r, LS_E_FORMAT, "range: a step of 0");
    ls_jvalue out = ls_jlist_new(r, LS_JLIST, 0);
    for (int64_t i = start, n = 0; !ls_jfailed(r) && (step > 0 ? i < stop : i > stop); n++) {
        if (n == LARGEST_RANGE)
            ls_jfail(r, LS_E_UNSUPPORTED, "range: more than %d numbers", LARGEST_RANGE);
        ls_jlist_add(r, out, ls_jint(i));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return out;
}

static ls_jvalue make(ls_jrender *r, const ls_jarguments *a, ls_jkind kind)
{
    ls_jvalue out = ls_jdict_new(r, kind);
    for (int i = 0; i < a->n && !ls_jfailed(r); i++) {
        const ls_jvalue v = a->values[i];
        if (i >= a->n_positional) {
            const char *name = a->names[i - a->n_positional];
            ls_jdict_put(r, out, ls_jtext_value(ls_jtext_of(r, name, strlen(name), 0)), v);
        } else if (v.kind != LS_JDICT) {
            ls_jfail(r, LS_E_FORMAT, "%s: a dictionary is needed, and not '%s'",
                     kind == LS_JDICT ? "dict" : "namespace", ls_jtype(v));
        } else {
            for (int64_t k = 0; k < v.dict->n && !ls_jfailed(r); k++)
                ls_jdict_put(r, out, v.dict->entries[k].key, v.dict->entries[k].value);
        }
    }
    return out;
}

static ls_jvalue namespace(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)of;
    return make(r, a, LS_JNAMESPACE);
}

static ls_jvalue dict(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)of;
    return make(r, a, LS_JDICT);
}

/* One directive of strftime, in the locale C. False: not known. */
static bool show_time(char out[32], char directive, const struct tm *t)
{
    static const char *const DAYS[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday" };
    static const char *const MONTHS[] = { "January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December" };
    const int hour = t->tm_hour % 12 ? t->tm_hour % 12 : 12;
    switch (directive) {
    case 'a': return ls_snprintf(out, 32, "%.3s", DAYS[t->tm_wday]);
    case 'A': return ls_snprintf(out, 32, "%s", DAYS[t->tm_wday]);
    case 'b': return ls_snprintf(out, 32, "%.3s", MONTHS[t->tm_mon]);
    case 'B': return ls_snprintf(out, 32, "%s", MONTHS[t->tm_mon]);
    case 'd': return ls_snprintf(out, 32, "%02d", t->tm_mday);
    case 'e': return ls_snprintf(out, 32, "%2d", t->tm_mday);
    case 'F': return ls_snprintf(out, 32, "%d-%02d-%02d", t->tm_year + 1900, t->tm_mon + 1, t->tm_mday);
    case 'H': return ls_snprintf(out, 32, "%02d", t->tm_hour);
    case 'I': return ls_snprintf(out, 32, "%02d", hour);
    case 'j': return ls_snprintf(out, 32, "%03d", t->tm_yday + 1);
    case 'm': return ls_snprintf(out, 32, "%02d", t->tm_mon + 1);
    case 'M': return ls_snprintf(out, 32, "%02d", t->tm_min);
    case 'p': return ls_snprintf(out, 32, "%s", t->tm_hour < 12 ? "AM" : "PM");
    case 'S': return ls_snprintf(out, 32, "%02d", t->tm_sec);
    case 'T': return ls_snprintf(out, 32, "%02d:%02d:%02d", t->tm_hour, t->tm_min, t->tm_sec);
    case 'y': return ls_snprintf(out, 32, "%02d", t->tm_year % 100);
    case 'Y': return ls_snprintf(out, 32, "%d", t->tm_year + 1900);
    case '%': return ls_snprintf(out, 32, "%%");
    default: return false;
    }
}

static ls_jvalue strftime_now(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)of;
    const ls_jtext *format = ls_jargument_text(r, a, 0);
    const time_t now = (time_t)r->clock;
    struct tm t;
    if (!gmtime_r(&now, &t))
        ls_jfail(r, LS_E_ARG, "strftime_now: the clock %lld is not a time", (long long)r->clock);
    ls_jbuilder b = { 0 };
    for (size_t i = 0; i < format->n && ls_jstep(r, 0); i++) {
        char text[32];
        if (format->bytes[i] != '%') {
            ls_jadd_part(r, &b, format, i, i + 1);
        } else if (++i < format->n && show_time(text, format->bytes[i], &t)) {
            ls_jadd(r, &b, text, strlen(text), 0);
        } else {
            ls_jfail(r, LS_E_UNSUPPORTED, "strftime_now: '%%%.1s' is not known here",
                     i < format->n ? format->bytes + i : "");
        }
    }
    return ls_jtext_value(ls_jbuilt(r, &b));
}

static const ls_jfunction TABLE[] = {
    { "dict", "*", dict, 0 },
    { "namespace", "*", namespace, 0 },
    { "raise_exception", "message", raise_exception, 0 },
    { "range", "start stop step", range, 0 },
    { "strftime_now", "format", strftime_now, 0 },
    { NULL, NULL, NULL, 0 },
};

const ls_jfunction *ls_jglobal(const char *name) { return ls_jin_table(TABLE, name); }
