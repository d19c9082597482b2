/* bert.c - what BERT's tokenizers have and others do not (Devlin et al. 2018), as Hugging Face's library does
 * it: a normalizer that cleans text, a splitter into words and punctuation, pieces of words ("WordPiece"),
 * and the decoder that joins them. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text.h"

/* ---- the normalizer */

static bool is_control(uint32_t c)
{
    const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return c != '\t' && c != '\n' && c != '\r' && (k >= UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CN);
}

/* The blocks of CJK ideographs: each of their characters is a word. */
static bool is_ideograph(uint32_t c)
{
    static const uint32_t BLOCKS[][2] = { { 0x4e00, 0x9fff },   { 0x3400, 0x4dbf },   { 0x20000, 0x2a6df },
                                          { 0x2a700, 0x2b73f }, { 0x2b740, 0x2b81f }, { 0x2b920, 0x2ceaf },
                                          { 0xf900, 0xfaff },   { 0x2f800, 0x2fa1f } };
    for (size_t i = 0; i < sizeof BLOCKS / sizeof *BLOCKS; i++)
        if (c >= BLOCKS[i][0] && c <= BLOCKS[i][1])
            return true;
    return false;
}

/* What one character becomes: itself, with marks taken away, as small letters. */
static void add_character(const ls_normalizer *z, uint32_t c, ls_str *out)
{
    utf8proc_int32_t parts[32] = { (utf8proc_int32_t)c };
    utf8proc_ssize_t n = 1;
    if (z->strip_accents && c >= 0x80)
        n = utf8proc_decompose_char(parts[0], parts, 32, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &(int){ 0 });
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        const utf8proc_int32_t part = parts[i];
        if (z->strip_accents && utf8proc_category(part) == UTF8PROC_CATEGORY_MN)
            continue;
        const bool two = z->lowercase && part == 0x130; /* the only character whose small letter is two */
        ls_utf8_add(out, two ? 'i' : (uint32_t)(z->lowercase ? utf8proc_tolower(part) : part));
        if (two)
            ls_utf8_add(out, 0x307);
    }
}

void ls_bert_normalize(const ls_normalizer *z, const char *text, size_t n, const ls_text_range *from,
                       ls_str *out, ls_origin *trace)
{
    uint32_t c;
    for (size_t i = 0, bytes; i < n; i += bytes) {
        bytes = ls_utf8_next(text + i, &c);
        if (z->clean && (c == 0 || c == 0xfffd || is_control(c)))
            continue;
        const size_t before = out->len;
        const bool alone = z->ideographs && is_ideograph(c);
        if (alone)
            ls_str_add(out, " ");
        add_character(z, z->clean && ls_is_white(c) ? ' ' : c, out);
        if (alone)
            ls_str_add(out, " ");
        ls_origin_fill(trace, ls_range_of(from, i, i + bytes), out->len - before);
    }
}

/* ---- the splitter */

static bool is_punctuation(uint32_t c)
{
    const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126) ||
           (k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO);
}

void ls_bert_split(const char *text, size_t n, const ls_text_range *from, ls_text_pieces *out)
{
    uint32_t c;
    size_t word = 0;
    for (size_t i = 0, bytes; i < n; i += bytes) {
        bytes = ls_utf8_next(text + i, &c);
        const bool mark = is_punctuation(c);
        if (!mark && !ls_is_white(c))
            continue;
        ls_pieces_add_from(out, text + word, i - word, ls_range_at(from, word));
        if (mark)
            ls_pieces_add_from(out, text + i, bytes, ls_range_at(from, i));
        word = i + bytes;
    }
    ls_pieces_add_from(out, text + word, n - word, ls_range_at(from, word));
}

/* ---- the model */

static size_t characters(const char *text, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((uint8_t)text[i] & 0xc0) != 0x80;
    return count;
}

/* The longest token that the rest of a word begins with; *length: its bytes of the word. -1: none. */
static int32_t longest(const ls_wordpiece *w, const char *word, size_t at, size_t n, const ls_encoding *e,
                       ls_str *buffer, size_t *length)
{
    for (size_t end = n; end > at; end--) {
        if (end < n && ((uint8_t)word[end] & 0xc0) == 0x80)
            continue; /* within a character */
        ls_str_clear(buffer);
        if (at > 0)
            ls_str_add(buffer, w->prefix);
        ls_str_add_n(buffer, word + at, end - at);
        const int32_t id = ls_vocab_find(w->vocab, ls_str_text(buffer), buffer->len);
        *length = end - at;
        if (id >= 0 && ls_encoding_may(e, id, ls_range_of(e->from, at, end)))
            return id;
    }
    return -1;
}

/* A word that no pieces make is unknown as a whole. */
ls_status ls_wordpiece_encode(const ls_wordpiece *w, const char *word, size_t n, ls_encoding *out)
{
    const int64_t ids = out->ids->n, ranges = out->ranges ? out->ranges->n : 0;
    ls_str buffer = { 0 };
    ls_status s = LS_OK;
    bool known = characters(word, n) <= (size_t)w->longest;
    for (size_t at = 0, length = 0; s == LS_OK && known && at < n; at += length) {
        const int32_t id = longest(w, word, at, n, out, &buffer, &length);
        known = id >= 0;
        s = known ? ls_encoding_put(out, id, at, at + length) : ls_str_status(&buffer);
    }
    ls_str_release(&buffer);
    LS_TRY(s);
    if (known)
        return LS_OK;
    out->ids->n = ids;
    if (out->ranges)
        out->ranges->n = ranges;
    return ls_encoding_put(out, w->unknown, 0, n);
}

/* ---- the decoder */

/* Takes the spaces away that a tokenizer for English puts before marks and shortened words. */
static void tidy(ls_str *text)
{
    static const char *const FROM[] = { " .",  " ?",      " !",  " ,",   " ' ", " n't",
                                        " 'm", " do not", " 's", " 've", " 're" };
    static const char *const TO[] = { ".", "?", "!", ",", "'", "n't", "'m", " don't", "'s", "'ve", "'re" };
    ls_str other = { 0 };
    for (size_t k = 0; k < sizeof FROM / sizeof *FROM; k++) {
        ls_str_clear(&other);
        ls_replace_all(ls_str_text(text), text->len, FROM[k], TO[k], &other);
        const ls_str swap = *text;
        *text = other;
        other = swap;
    }
    ls_str_inherit(text, &other);
    ls_str_release(&other);
}

void ls_wordpiece_decode(const ls_decoder *d, const char *token, size_t n, bool first, ls_str *out)
{
    const size_t prefix = strlen(d->from);
    const bool inside = !first && n >= prefix && !memcmp(token, d->from, prefix);
    ls_str one = { 0 };
    if (!first && !inside)
        ls_str_add(&one, " ");
    ls_str_add_n(&one, token + (inside ? prefix : 0), n - (inside ? prefix : 0));
    if (d->tidy)
        tidy(&one);
    ls_str_append(out, &one);
    ls_str_release(&one);
}
