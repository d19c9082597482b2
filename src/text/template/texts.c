/* texts.c - what filters and methods do with texts, keeping the origin of every byte. */
#include <utf8proc.h>

#include "functions.h"
#include "text/text.h"

/* One character, in capital or small letters, with the origin of the byte at `at` of `text`. */
static void add_cased(ls_jrender *r, ls_jbuilder *b, const ls_jtext *text, size_t at, uint32_t c, bool upper)
{
    char bytes[8];
    size_t n;
    if (upper && c == 0xdf) { /* German sharp s has no capital letter of its own */
        bytes[0] = bytes[1] = 'S';
        n = 2;
    } else {
        const utf8proc_int32_t cased = upper ? utf8proc_toupper((utf8proc_int32_t)c)
                                             : utf8proc_tolower((utf8proc_int32_t)c);
        n = (size_t)utf8proc_encode_char(cased, (utf8proc_uint8_t *)bytes);
    }
    ls_jadd(r, b, bytes, n, ls_jorigin_at(text, at));
}

const ls_jtext *ls_jupper(ls_jrender *r, const ls_jtext *text, bool upper)
{
    ls_jbuilder b = { 0 };
    uint32_t c;
    for (size_t at = 0, n; at < text->n && !ls_jfailed(r); at += n) {
        n = ls_utf8_next(text->bytes + at, &c);
        add_cased(r, &b, text, at, c, upper);
    }
    return ls_jbuilt(r, &b);
}

const ls_jtext *ls_jcapitalize(ls_jrender *r, const ls_jtext *text)
{
    ls_jbuilder b = { 0 };
    uint32_t c;
    for (size_t at = 0, n; at < text->n && !ls_jfailed(r); at += n) {
        n = ls_utf8_next(text->bytes + at, &c);
        add_cased(r, &b, text, at, c, at == 0);
    }
    return ls_jbuilt(r, &b);
}

/* Whether the character of n bytes at `at` is to be stripped. */
static bool strips(const ls_jtext *text, size_t at, size_t n, const ls_jtext *chars)
{
    uint32_t c;
    if (!chars) {
        ls_utf8_next(text->bytes + at, &c);
        return ls_jis_white(c);
    }
    for (size_t i = 0, m; i < chars->n; i += m) {
        m = ls_utf8_next(chars->bytes + i, &c);
        if (m == n && memcmp(chars->bytes + i, text->bytes + at, n) == 0)
            return true;
    }
    return false;
}

const ls_jtext *ls_jstrip(ls_jrender *r, const ls_jtext *text, const ls_jtext *chars, int from)
{
    size_t begin = 0, end = text->n;
    uint32_t c;
    while (from & 1 && begin < end) {
        const size_t n = ls_utf8_next(text->bytes + begin, &c);
        if (!strips(text, begin, n, chars) || !ls_jstep(r, chars ? chars->n : 0))
            break;
        begin += n;
    }
    while (from & 2 && end > begin) {
        size_t at = end - 1;
        while (((uint8_t)text->bytes[at] & 0xc0) == 0x80)
            at--;
        if (!strips(text, at, end - at, chars) || !ls_jstep(r, chars ? chars->n : 0))
            break;
        end = at;
    }
    return ls_jpart(r, text, begin, end);
}

const ls_jtext *ls_jreplace(ls_jrender *r, const ls_jtext *text, const ls_jtext *old, const ls_jtext *by,
                            int64_t most)
{
    ls_jbuilder b = { 0 };
    size_t at = 0;
    while (most-- != 0 && ls_jstep(r, 0)) {
        const size_t found = ls_jfind(text, old, at);
        if (found == SIZE_MAX || (old->n == 0 && found > text->n))
            break;
        if (old->n == 0) { /* before every character, and at the end */
            ls_jadd_text(r, &b, by);
            if (found == text->n)
                break;
            at = ls_joffset(text, found, 1);
            ls_jadd_part(r, &b, text, found, at);
            continue;
        }
        ls_jadd_part(r, &b, text, at, found);
        ls_jadd_text(r, &b, by);
        at = found + old->n;
    }
    ls_jadd_part(r, &b, text, at, text->n);
    return ls_jbuilt(r, &b);
}

/* Whether Python's splitlines ends a line at this character. */
static bool ends_line(uint32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

ls_jvalue ls_jlines(ls_jrender *r, const ls_jtext *text, bool ends)
{
    ls_jvalue lines = ls_jlist_new(r, LS_JLIST, 0);
    size_t begin = 0;
    uint32_t c;
    for (size_t at = 0, n; at < text->n && ls_jstep(r, 0); at += n) {
        n = ls_utf8_next(text->bytes + at, &c);
        if (!ends_line(c))
            continue;
        if (c == '\r' && at + 1 < text->n && text->bytes[at + 1] == '\n')
            n = 2;
        ls_jlist_add(r, lines, ls_jtext_value(ls_jpart(r, text, begin, ends ? at + n : at)));
        begin = at + n;
    }
    if (begin < text->n)
        ls_jlist_add(r, lines, ls_jtext_value(ls_jpart(r, text, begin, text->n)));
    return lines;
}

const ls_jtext *ls_jjoin(ls_jrender *r, const ls_jlist *items, const ls_jtext *between)
{
    ls_jbuilder b = { 0 };
    for (int64_t i = 0; items && i < items->n && ls_jstep(r, 0); i++) {
        if (i)
            ls_jadd_text(r, &b, between);
        ls_jshow_to(r, &b, items->items[i]);
    }
    return ls_jbuilt(r, &b);
}
