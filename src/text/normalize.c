/* normalize.c - normalizers: they bring a text to its normal form. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/stop.h"
#include "text.h"

/* ---- Unicode */

static ls_status compose_all(ls_normal kind, const char *text, size_t n, ls_str *out)
{
    static const utf8proc_option_t FORM[] = { [LS_NORMAL_NFC] = UTF8PROC_COMPOSE,
                                              [LS_NORMAL_NFD] = UTF8PROC_DECOMPOSE,
                                              [LS_NORMAL_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                              [LS_NORMAL_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT };
    size_t plain = 0;
    while (plain < n && (uint8_t)text[plain] < 0x80)
        plain++;
    if (plain == n) { /* all forms leave ASCII unchanged */
        ls_str_add_n(out, text, n);
        return LS_OK;
    }
    utf8proc_uint8_t *made = NULL;
    const utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &made,
                                                FORM[kind] | UTF8PROC_STABLE);
    if (bytes < 0)
        return ls_fail(LS_E_FORMAT, "normalizing %zu bytes of text: %s", n, utf8proc_errmsg(bytes));
    ls_str_add_n(out, (const char *)made, (size_t)bytes);
    free(made);
    return LS_OK;
}

/* A text that is normalized grapheme by grapheme. */
typedef struct normal_job {
    const ls_normalizer *z;
    ls_str *out;
    ls_origin *trace;
} normal_job;
typedef ls_status (*grapheme_fn)(normal_job *j, const char *text, size_t n, const ls_text_range *from);

static ls_status each_grapheme(normal_job *j, const char *text, size_t n, const ls_text_range *from,
                               grapheme_fn one)
{
    utf8proc_int32_t state = 0;
    uint32_t c, before = 0, turn = 0;
    size_t begin = 0;
    for (size_t i = 0, bytes; i < n; i += bytes) {
        if (++turn % (1 << 16) == 0)
            LS_TRY(ls_stop_check("normalizing a text of %zu bytes", n));
        bytes = ls_utf8_next(text + i, &c);
        if (i > 0 &&
            utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &state)) {
            LS_TRY(one(j, text + begin, i - begin, ls_range_at(from, begin)));
            begin = i;
        }
        before = c;
    }
    return one(j, text + begin, n - begin, ls_range_at(from, begin));
}

static ls_status compose_grapheme(normal_job *j, const char *text, size_t n, const ls_text_range *from)
{
    const size_t before = j->out->len;
    LS_TRY(compose_all(j->z->kind, text, n, j->out));
    const size_t made = j->out->len - before;
    if (made == n && !memcmp(j->out->data + before, text, n))
        ls_origin_copy(j->trace, from, n);
    else
        ls_origin_fill(j->trace, ls_range_of(from, 0, n), made);
    return LS_OK;
}

/* A character is composed with others of its grapheme only, so the graphemes' normal forms, joined, are that
 * of the text. Were they not, each byte would come from the whole text. */
static ls_status compose_traced(normal_job *j, const char *text, size_t n, const ls_text_range *from)
{
    const size_t before = j->out->len, traced = j->trace->n;
    ls_str whole = { 0 };
    ls_status s = compose_all(j->z->kind, text, n, &whole);
    if (s == LS_OK)
        s = each_grapheme(j, text, n, from, compose_grapheme);
    if (s == LS_OK)
        s = ls_str_status(&whole);
    if (s == LS_OK)
        s = ls_str_status(j->out);
    if (s == LS_OK &&
        (j->out->len - before != whole.len || memcmp(j->out->data + before, whole.data, whole.len) != 0)) {
        j->out->len = before;
        ls_str_append(j->out, &whole);
        j->trace->n = traced;
        ls_origin_fill(j->trace, ls_range_of(from, 0, n), whole.len);
    }
    ls_str_release(&whole);
    return s;
}

/* ---- sentencepiece's character map: a double array (trie) of units with leaf, label and offset; its keys
 * lead to positions among the replacements */

static bool is_leaf(uint32_t unit) { return unit >> 8 & 1; }
static uint32_t label(uint32_t unit) { return unit & 0x800000ffu; }
static uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

/* The replacement of the shortest key that the text begins with, as Hugging Face takes it; NULL: there is
 * none. */
static const char *mapped(const ls_normalizer *z, const char *text, size_t n)
{
    uint32_t at = offset(z->trie[0]);
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = (uint8_t)text[i];
        at ^= c;
        if (!c || at >= z->units || label(z->trie[at]) != c)
            return NULL;
        const uint32_t unit = z->trie[at];
        at ^= offset(unit);
        if (at >= z->units)
            return NULL;
        const uint32_t value = z->trie[at] & 0x7fffffffu;
        if (is_leaf(unit))
            return value < z->replacement_bytes ? z->replacements + value : NULL;
    }
    return NULL;
}

static void map_to(normal_job *j, const char *to, const char *text, size_t n, const ls_text_range *from)
{
    ls_str_add_n(j->out, to ? to : text, to ? strlen(to) : n);
    if (!to)
        ls_origin_copy(j->trace, from, n);
    else
        ls_origin_fill(j->trace, ls_range_of(from, 0, n), strlen(to));
}

/* A grapheme of up to 5 bytes is looked up as a whole first, then character by character. */
static ls_status map_grapheme(normal_job *j, const char *text, size_t n, const ls_text_range *from)
{
    const char *to = n < 6 ? mapped(j->z, text, n) : NULL;
    uint32_t c;
    if (to)
        map_to(j, to, text, n, from);
    for (size_t i = 0, bytes; i < n && !to; i += bytes) {
        bytes = ls_utf8_next(text + i, &c);
        map_to(j, mapped(j->z, text + i, bytes), text + i, bytes, ls_range_at(from, i));
    }
    return LS_OK;
}

static void replace(normal_job *j, const char *text, size_t n, const ls_text_range *from)
{
    const size_t length = strlen(j->z->from);
    for (size_t i = 0; i < n;) {
        const char *at = memmem(text + i, n - i, j->z->from, length);
        const size_t keep = at ? (size_t)(at - text) - i : n - i;
        map_to(j, NULL, text + i, keep, ls_range_at(from, i));
        if (at)
            map_to(j, j->z->to, text + i + keep, length, ls_range_at(from, i + keep));
        i += keep + (at ? length : 0);
    }
}

ls_status ls_normalize(const ls_normalizer *z, const char *text, size_t n, const ls_text_range *from,
                       ls_str *out, ls_origin *trace)
{
    normal_job j = { z, out, trace };
    if (n == 0)
        return LS_OK;
    switch (z->kind) {
    case LS_NORMAL_CHARSMAP: return each_grapheme(&j, text, n, from, map_grapheme);
    case LS_NORMAL_REPLACE: replace(&j, text, n, from); return LS_OK;
    case LS_NORMAL_PREPEND:
        map_to(&j, z->to, text, 1, from); /* it belongs to the first character */
        map_to(&j, NULL, text, n, from);
        return LS_OK;
    case LS_NORMAL_BERT: ls_bert_normalize(z, text, n, from, out, trace); return LS_OK;
    default: return trace->on ? compose_traced(&j, text, n, from) : compose_all(z->kind, text, n, out);
    }
}
