/* utf8.c - UTF-8: validation, repair, and single characters. */
#include <utf8proc.h>

#include "base/argument.h"
#include "text.h"

size_t ls_utf8_sound(const char *text, size_t n)
{
    if (n)
        LS_ARG_OR(text, 0);
    utf8proc_int32_t c;
    for (size_t i = 0; i < n;) {
        if ((uint8_t)text[i] < 0x80) {
            i++;
            continue;
        }
        const utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                                        (utf8proc_ssize_t)(n - i), &c);
        if (bytes < 0)
            return i;
        i += (size_t)bytes;
    }
    return n;
}

/* The length in bytes of an invalid sequence at `s` that one U+FFFD replaces: the longest beginning of a
 * valid character, or one byte (Unicode 15, section 3.9, "maximal subpart"). */
static size_t invalid_bytes(const uint8_t *s, size_t n)
{
    const uint8_t c = s[0];
    size_t want = 1;                 /* bytes of the character that c begins; 1: c begins none */
    uint8_t low = 0x80, high = 0xbf; /* range of its second byte */
    if (c >= 0xc2 && c < 0xe0) {
        want = 2;
    } else if (c >= 0xe0 && c < 0xf0) {
        want = 3;
        if (c == 0xe0)
            low = 0xa0; /* smaller: an overlong form */
        if (c == 0xed)
            high = 0x9f; /* larger: a surrogate */
    } else if (c >= 0xf0 && c <= 0xf4) {
        want = 4;
        if (c == 0xf0)
            low = 0x90; /* smaller: an overlong form */
        if (c == 0xf4)
            high = 0x8f; /* larger: beyond U+10FFFF */
    }
    if (want == 1 || n < 2 || s[1] < low || s[1] > high)
        return 1;
    size_t i = 2;
    while (i < want && i < n && s[i] >= 0x80 && s[i] <= 0xbf)
        i++;
    return i;
}

void ls_utf8_add_sound(ls_str *out, const char *text, size_t n)
{
    utf8proc_int32_t c;
    for (size_t i = 0; i < n;) {
        const utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                                        (utf8proc_ssize_t)(n - i), &c);
        if (bytes > 0)
            ls_str_add_n(out, text + i, (size_t)bytes);
        else
            ls_str_add(out, "\xef\xbf\xbd");
        i += bytes > 0 ? (size_t)bytes : invalid_bytes((const uint8_t *)text + i, n - i);
    }
}

void ls_utf8_add(ls_str *out, uint32_t c)
{
    char s[4];
    size_t n = 0;
    if (c < 0x80)
        s[n++] = (char)c;
    else if (c < 0x800)
        s[n++] = (char)(0xc0 | c >> 6);
    else if (c < 0x10000)
        s[n++] = (char)(0xe0 | c >> 12);
    else
        s[n++] = (char)(0xf0 | c >> 18);
    if (c >= 0x10000)
        s[n++] = (char)(0x80 | (c >> 12 & 0x3f));
    if (c >= 0x800)
        s[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    if (c >= 0x80)
        s[n++] = (char)(0x80 | (c & 0x3f));
    ls_str_add_n(out, s, n);
}

const uint32_t ls_white_ranges[LS_WHITE_RANGES][2] = {
    { 9, 13 },          { 0x20, 0x20 },     { 0x85, 0x85 },     { 0xa0, 0xa0 },     { 0x1680, 0x1680 },
    { 0x2000, 0x200a }, { 0x2028, 0x2029 }, { 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 },
};

bool ls_is_white(uint32_t c)
{
    for (int i = 0; i < LS_WHITE_RANGES; i++)
        if (c >= ls_white_ranges[i][0] && c <= ls_white_ranges[i][1])
            return true;
    return false;
}
