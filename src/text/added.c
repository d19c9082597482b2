/* added.c - finds the tokens that a file adds to its model: the leftmost one, and of those that begin at the
 * same place, the longest. */
#include <string.h>
#include <utf8proc.h>

#include "text.h"

/* Whether c is a letter, a digit, a mark or an underscore. */
static bool is_word(uint32_t c)
{
    const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return c == '_' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_ND) || k == UTF8PROC_CATEGORY_PC;
}

static size_t character_before(const char *text, size_t at)
{
    do
        at--;
    while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80);
    return at;
}

static bool stands_alone(const char *text, size_t n, size_t begin, size_t end)
{
    uint32_t c;
    if (begin > 0) {
        ls_utf8_next(text + character_before(text, begin), &c);
        if (is_word(c))
            return false;
    }
    if (end < n) {
        ls_utf8_next(text + end, &c);
        if (is_word(c))
            return false;
    }
    return true;
}

static const ls_added *longest_at(const ls_tokenizer *t, const ls_encoding *e, bool normalized,
                                  const char *text, size_t n, const ls_text_range *from, size_t at)
{
    const ls_added *best = NULL;
    for (int i = 0; i < t->n_added; i++) {
        const ls_added *a = &t->added[i];
        if (a->normalized == normalized && a->length > 0 && a->text[0] == text[at] && a->length <= n - at &&
            (!best || a->length > best->length) && !memcmp(a->text, text + at, a->length) &&
            ls_encoding_may(e, a->id, ls_range_of(from, at, at + a->length)))
            best = a;
    }
    return best;
}

const ls_added *ls_added_find(const ls_tokenizer *t, const ls_encoding *e, bool normalized, const char *text,
                              size_t n, const ls_text_range *from, size_t begins, size_t *begin, size_t *end)
{
    bool starts[256] = { false };
    uint32_t c;
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].normalized == normalized)
            starts[(uint8_t)t->added[i].text[0]] = true;
    for (size_t at = begins; at < n; at++) {
        const ls_added *a = starts[(uint8_t)text[at]] ? longest_at(t, e, normalized, text, n, from, at)
                                                      : NULL;
        if (!a)
            continue;
        *begin = at;
        *end = at + a->length;
        if (a->single_word && !stands_alone(text, n, *begin, *end)) {
            at = *end - 1; /* what it covers is ordinary text */
            continue;
        }
        while (a->lstrip && *begin > begins) {
            const size_t before = character_before(text, *begin);
            ls_utf8_next(text + before, &c);
            if (!ls_is_white(c))
                break;
            *begin = before;
        }
        while (a->rstrip && *end < n) {
            const size_t bytes = ls_utf8_next(text + *end, &c);
            if (!ls_is_white(c))
                break;
            *end += bytes;
        }
        return a;
    }
    return NULL;
}
