/* normalize.c - normalizers: they bring a text to its normal form. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/stop.h"
#include "text.h"

/* ---- Unicode */

static ls_status compose(ls_normal kind, const char *text, size_t n, ls_str *out)
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

/* A grapheme of up to 5 bytes is looked up as a whole first, then character by character. */
static void map_grapheme(const ls_normalizer *z, const char *text, size_t n, ls_str *out)
{
    const char *to = n < 6 ? mapped(z, text, n) : NULL;
    if (to) {
        ls_str_add(out, to);
        return;
    }
    uint32_t c;
    for (size_t i = 0, bytes; i < n; i += bytes) {
        bytes = ls_utf8_next(text + i, &c);
        to = mapped(z, text + i, bytes);
        ls_str_add_n(out, to ? to : text + i, to ? strlen(to) : bytes);
    }
}

static ls_status map_all(const ls_normalizer *z, const char *text, size_t n, ls_str *out)
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
            map_grapheme(z, text + begin, i - begin, out);
            begin = i;
        }
        before = c;
    }
    map_grapheme(z, text + begin, n - begin, out);
    return LS_OK;
}

static void replace(const ls_normalizer *z, const char *text, size_t n, ls_str *out)
{
    const size_t length = strlen(z->from);
    for (size_t i = 0; i < n;) {
        const char *at = memmem(text + i, n - i, z->from, length);
        const size_t keep = at ? (size_t)(at - text) - i : n - i;
        ls_str_add_n(out, text + i, keep);
        if (at)
            ls_str_add(out, z->to);
        i += keep + (at ? length : 0);
    }
}

ls_status ls_normalize(const ls_normalizer *z, const char *text, size_t n, ls_str *out)
{
    if (n == 0)
        return LS_OK;
    switch (z->kind) {
    case LS_NORMAL_CHARSMAP: return map_all(z, text, n, out);
    case LS_NORMAL_REPLACE: replace(z, text, n, out); return LS_OK;
    case LS_NORMAL_PREPEND:
        ls_str_add(out, z->to);
        ls_str_add_n(out, text, n);
        return LS_OK;
    case LS_NORMAL_BERT: return ls_bert_normalize(z, text, n, out);
    default: return compose(z->kind, text, n, out);
    }
}
