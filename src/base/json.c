/* json.c - a streaming JSON writer, and jansson's parser with our messages. first[d]: nothing has been
 * written at depth d yet, so no comma is needed. Depth 0 never takes commas, so several documents can follow
 * one another. */
#include "json.h"
#include "check.h"
#include "file.h"
#include <math.h>

enum { MAX_VALUES = 10000000 }; /* the header of a weight file has about 10 for a tensor */

/* Length in bytes of the valid UTF-8 character at p (RFC 3629: no overlong forms, no surrogates, at most
 * U+10FFFF); 0 if it is invalid. */
static size_t utf8_length(const unsigned char *p)
{
    static const struct {
        unsigned char first, last, low, high;
        size_t length;
    } FORMS[] = {
        { 0x00, 0x7f, 0x80, 0xbf, 1 }, { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
        { 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
        { 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
    };
    for (size_t f = 0; f < sizeof FORMS / sizeof *FORMS; f++) {
        if (p[0] < FORMS[f].first || p[0] > FORMS[f].last)
            continue;
        for (size_t i = 1; i < FORMS[f].length; i++)
            if (p[i] < (i == 1 ? FORMS[f].low : 0x80) || p[i] > (i == 1 ? FORMS[f].high : 0xbf))
                return 0; /* also rejects a terminating NUL */
        return FORMS[f].length;
    }
    return 0;
}

static void add_quoted(ls_str *out, const char *text)
{
    ls_str_add_n(out, "\"", 1);
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t n = utf8_length(p);
        if (n == 0) {
            /* An invalid byte (from a path, for example) becomes U+FFFD, so that the document stays valid. */
            ls_str_add(out, "\xef\xbf\xbd");
            n = 1;
        } else if (*p == '"' || *p == '\\')
            ls_str_printf(out, "\\%c", *p);
        else if (*p == '\n')
            ls_str_add(out, "\\n");
        else if (*p == '\t')
            ls_str_add(out, "\\t");
        else if (*p < 0x20 || *p == 0x7f || *p == '<') /* '<' is escaped because reports embed JSON in HTML */
            ls_str_printf(out, "\\u%04x", *p);
        else if (*p == 0xc2 && p[1] < 0xa0) /* C1 control characters */
            ls_str_printf(out, "\\u%04x", p[1]);
        else
            ls_str_add_n(out, (const char *)p, n);
        p += n;
    }
    ls_str_add_n(out, "\"", 1);
}

static void json_begin(ls_json *j, const char *key)
{
    if (j->depth > 0 && !j->first[j->depth])
        ls_str_add_n(&j->out, ",", 1);
    j->first[j->depth] = false;
    if (key) {
        add_quoted(&j->out, key);
        ls_str_add_n(&j->out, ":", 1);
    }
}

static void open_with(ls_json *j, const char *key, const char *bracket)
{
    json_begin(j, key);
    ls_str_add(&j->out, bracket);
    LS_CHECK(j->depth + 1 < (int)(sizeof j->first / sizeof *j->first), "JSON nested too deeply");
    j->first[++j->depth] = true;
}

static void close_with(ls_json *j, const char *bracket)
{
    LS_CHECK(j->depth > 0, "JSON closed more often than opened");
    j->depth--;
    ls_str_add(&j->out, bracket);
}

void ls_json_object(ls_json *j, const char *key) { open_with(j, key, "{"); }
void ls_json_array(ls_json *j, const char *key) { open_with(j, key, "["); }
void ls_json_close_object(ls_json *j) { close_with(j, "}"); }
void ls_json_close_array(ls_json *j) { close_with(j, "]"); }

void ls_json_raw(ls_json *j, const char *key, const char *json)
{
    json_begin(j, key);
    ls_str_add(&j->out, json);
}

void ls_json_text(ls_json *j, const char *key, const char *value)
{
    json_begin(j, key);
    if (value)
        add_quoted(&j->out, value);
    else
        ls_str_add(&j->out, "null");
}

void ls_json_int(ls_json *j, const char *key, int64_t value)
{
    json_begin(j, key);
    ls_str_printf(&j->out, "%lld", (long long)value);
}

void ls_json_f32(ls_json *j, const char *key, float value)
{
    char text[32];
    ls_json_raw(j, key, isfinite(value) ? ls_format_f32(text, value) : "null");
}

void ls_json_f64(ls_json *j, const char *key, double value)
{
    char text[32];
    ls_json_raw(j, key, isfinite(value) ? ls_format_f64(text, value) : "null");
}

void ls_json_bool(ls_json *j, const char *key, bool value) { ls_json_raw(j, key, value ? "true" : "false"); }

ls_status ls_json_write(ls_json *j, const char *path)
{
    ls_str_add(&j->out, "\n");
    ls_status s = ls_make_parent(path);
    if (s == LS_OK)
        s = ls_file_write_text(path, &j->out);
    ls_str_release(&j->out);
    return s;
}

/* Whether a JSON text has more lists, objects and elements than memory
 * should hold: counted before it is parsed, because in memory a value takes some 100 bytes. */
static bool has_too_many_values(const char *text, size_t n)
{
    int64_t values = 0;
    bool inside = false; /* a string */
    for (size_t i = 0; i < n; i++) {
        if (inside && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            inside = !inside;
        else if (!inside)
            values += text[i] == '[' || text[i] == '{' || text[i] == ',';
    }
    return values > MAX_VALUES;
}

ls_status ls_json_parse(json_t **out, const char *text, size_t n, const char *what)
{
    json_error_t error;
    if (has_too_many_values(text, n))
        return ls_fail(LS_E_UNSUPPORTED, "%s: its JSON has more than %d values, as no model has", what,
                       MAX_VALUES);
    json_t *tree = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (!tree && json_error_code(&error) == json_error_out_of_memory)
        return ls_fail(LS_E_MEMORY, "%s: no memory for what is in it", what);
    if (!tree)
        return ls_fail(LS_E_FORMAT, "%s:%d:%d: not valid JSON: %s", what, error.line, error.column,
                       error.text);
    *out = tree;
    return LS_OK;
}
