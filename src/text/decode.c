/* decode.c - decoders: from the tokens' texts to text. */
#include <string.h>

#include "text.h"

static bool bytes_of(const char *token, size_t n, ls_str *out)
{
    uint32_t c;
    const size_t before = out->len;
    for (size_t i = 0; i < n;) {
        i += ls_utf8_next(token + i, &c);
        const int byte = ls_byte_of_char(c);
        if (byte < 0) {
            out->len = before;
            return false;
        }
        ls_str_add_n(out, &(char){ (char)byte }, 1);
    }
    return true;
}

/* Byte-level tokens stand for bytes. A token with a character that stands for no byte (an added token) is
 * copied as it is. */
static void decode_bytes(const char *token, size_t n, ls_str *out)
{
    if (!bytes_of(token, n, out))
        ls_str_add_n(out, token, n);
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

int ls_fallback_byte(const char *token, size_t n)
{
    const bool is = n == 6 && !memcmp(token, "<0x", 3) && token[5] == '>' && hex(token[3]) >= 0 &&
                    hex(token[4]) >= 0;
    return is ? hex(token[3]) << 4 | hex(token[4]) : -1;
}

/* Adds bytes of consecutive byte tokens: as text if together they are valid UTF-8, else U+FFFD for each
 * byte. */
static void add_run(const char *bytes, size_t n, ls_text_pieces *out)
{
    if (ls_utf8_sound(bytes, n) == n)
        ls_pieces_add(out, bytes, n);
    else
        for (size_t i = 0; i < n; i++)
            ls_pieces_add(out, "\xef\xbf\xbd", 3);
}

static void decode_fallback(ls_text_pieces *tokens)
{
    ls_text_pieces out = { 0 };
    ls_str run = { 0 };
    for (int64_t i = 0, at = 0; i < tokens->n; at = tokens->end[i++]) {
        const char *token = tokens->text.data + at;
        const size_t n = (size_t)(tokens->end[i] - at);
        const int byte = ls_fallback_byte(token, n);
        if (byte >= 0) {
            ls_str_add_n(&run, &(char){ (char)byte }, 1);
            continue;
        }
        add_run(ls_str_text(&run), run.len, &out);
        ls_str_clear(&run);
        ls_pieces_add(&out, token, n);
    }
    add_run(ls_str_text(&run), run.len, &out);
    ls_str_inherit(&out.text, &run);
    ls_str_release(&run);
    ls_pieces_release(tokens);
    *tokens = out;
}

static void strip(const ls_decoder *d, const char *token, size_t n, ls_str *out)
{
    size_t begin = 0, end = n;
    const size_t length = strlen(d->from);
    for (int64_t k = 0; k < d->start && length <= end - begin && !memcmp(token + begin, d->from, length); k++)
        begin += length;
    for (int64_t k = 0;
         k < d->stop && length <= end - begin && !memcmp(token + end - length, d->from, length); k++)
        end -= length;
    ls_str_add_n(out, token + begin, end - begin);
}

ls_status ls_decode(const ls_decoder *d, ls_text_pieces *tokens)
{
    ls_str out = { 0 };
    if (d->kind == LS_DECODE_FUSE) {
        tokens->n = tokens->n > 0;
        if (tokens->n)
            tokens->end[0] = (int64_t)tokens->text.len;
        return LS_OK;
    }
    if (d->kind == LS_DECODE_BYTE_FALLBACK) {
        decode_fallback(tokens);
        return LS_OK;
    }
    for (int64_t i = 0, at = 0; i < tokens->n; i++) {
        const char *token = tokens->text.data + at;
        const size_t n = (size_t)(tokens->end[i] - at);
        at = tokens->end[i];
        switch (d->kind) {
        case LS_DECODE_BYTES: decode_bytes(token, n, &out); break;
        case LS_DECODE_METASPACE:
            ls_replace_all(token, n, d->from, i == 0 && !d->keep_first ? "" : " ", &out);
            break;
        case LS_DECODE_REPLACE: ls_replace_all(token, n, d->from, d->to, &out); break;
        case LS_DECODE_STRIP: strip(d, token, n, &out); break;
        case LS_DECODE_WORDPIECE: ls_wordpiece_decode(d, token, n, i == 0, &out); break;
        case LS_DECODE_BYTE_FALLBACK:
        case LS_DECODE_FUSE: break;
        }
        tokens->end[i] = (int64_t)out.len;
    }
    ls_str_release(&tokens->text);
    tokens->text = out;
    return LS_OK;
}
