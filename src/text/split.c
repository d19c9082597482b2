/* split.c - pre-tokenizers: they split a text into pieces, each of which is encoded on its own. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "text.h"

enum { PART = 1 << 20 }; /* bytes between two checks for a request to stop, which ls_split reports */

/* ---- byte-level text, in which each byte is a character */

/* A byte that is a printable character of Latin-1 stands for itself. The other 68 bytes, in order, are the
 * characters from 256 on. */
static bool stands_for_itself(int b)
{
    return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

uint32_t ls_char_of_byte(uint8_t b)
{
    if (stands_for_itself(b))
        return b;
    uint32_t c = 256;
    for (int i = 0; i < b; i++)
        c += !stands_for_itself(i);
    return c;
}

int ls_byte_of_char(uint32_t c)
{
    if (c < 256)
        return stands_for_itself((int)c) ? (int)c : -1;
    uint32_t at = 256;
    for (int b = 0; b < 256; b++)
        if (!stands_for_itself(b) && at++ == c)
            return b;
    return -1;
}

/* ---- regular expressions */

/* Appends the ranges of \s, or of \S, for use in a character class. */
static void add_white(ls_str *out, bool white)
{
    uint32_t from = 0;
    for (int i = 0; i < LS_WHITE_RANGES; i++) {
        if (white)
            ls_str_printf(out, "\\x{%x}-\\x{%x}", ls_white_ranges[i][0], ls_white_ranges[i][1]);
        else
            ls_str_printf(out, "\\x{%x}-\\x{%x}", from, ls_white_ranges[i][0] - 1);
        from = ls_white_ranges[i][1] + 1;
    }
    if (!white)
        ls_str_printf(out, "\\x{%x}-\\x{10ffff}", from);
}

/* Copies the pattern with classes in place of \s and \S, because PCRE2 counts U+180E as white space, and
 * Unicode no longer does. */
static void with_own_white(ls_str *out, const char *pattern)
{
    const char *class = NULL; /* first character of the class that p is in, after [ or [^; NULL: none */
    for (const char *p = pattern; *p; p++) {
        if (p[0] == '\\' && (p[1] == 's' || p[1] == 'S')) {
            ls_str_add(out, class ? "" : "[");
            add_white(out, p[1] == 's');
            ls_str_add(out, class ? "" : "]");
            p++;
            continue;
        }
        ls_str_add_n(out, p, 1);
        if (p[0] == '\\' && p[1])
            ls_str_add_n(out, ++p, 1);
        else if (!class && *p == '[')
            class = p + 1 + (p[1] == '^');
        else if (class && *p == ']' && p != class) /* (the first character of a class may be a ]) */
            class = NULL;
        else
            continue;
        if (class == p + 2) /* copies the ^ of [^ too */
            ls_str_add_n(out, ++p, 1);
    }
}

static pcre2_code *split_compile(const char *pattern, int *error, PCRE2_SIZE *at)
{
    return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, error, at, NULL);
}

ls_status ls_regex_compile(void **out, const char *pattern, const char *where)
{
    int error;
    PCRE2_SIZE at;
    /* compiled once for its message, whose position is in the user's pattern */
    pcre2_code *code = split_compile(pattern, &error, &at);
    ls_str own = { 0 };
    if (code && (strstr(pattern, "\\s") || strstr(pattern, "\\S"))) {
        pcre2_code_free(code);
        with_own_white(&own, pattern);
        const ls_status s = ls_str_status(&own);
        code = s == LS_OK ? split_compile(ls_str_text(&own), &error, &at) : NULL;
        ls_str_release(&own);
        LS_TRY(s);
    }
    if (!code) {
        PCRE2_UCHAR message[160];
        pcre2_get_error_message(error, message, sizeof message);
        return ls_fail(LS_E_FORMAT, "%s: the pattern %s is wrong at character %zu: %s", where, pattern,
                       (size_t)at, (const char *)message);
    }
    /* if PCRE2 has no JIT compiler here, the pattern is interpreted */
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    *out = code;
    return LS_OK;
}

void ls_regex_free(void *regex) { pcre2_code_free(regex); }

static ls_status split_regex(const ls_splitter *s, const char *text, size_t n, const ls_text_range *from,
                             ls_text_pieces *out)
{
    pcre2_match_data *m = pcre2_match_data_create_from_pattern(s->regex, NULL);
    if (!m)
        return ls_fail(LS_E_MEMORY, "no memory to split %zu bytes of text", n);
    size_t done = 0;
    int found = 0;
    uint32_t turn = 0;
    for (size_t at = 0; at < n;) {
        found = pcre2_match(s->regex, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, m, NULL);
        if (found < 0 || (++turn % (1 << 12) == 0 && ls_stop_asked()))
            break;
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m);
        if (!s->removed || !s->invert)
            ls_pieces_add_from(out, text + done, span[0] - done, ls_range_at(from, done));
        if (!s->removed || s->invert)
            ls_pieces_add_from(out, text + span[0], span[1] - span[0], ls_range_at(from, span[0]));
        at = done = span[1];
    }
    pcre2_match_data_free(m);
    LS_TRY(ls_stop_check("splitting a text of %zu bytes", n));
    if (found < 0 && found != PCRE2_ERROR_NOMATCH)
        return ls_fail(LS_E_FORMAT,
                       "splitting %zu bytes of text: the pattern needs more than a match may take (error %d)",
                       n, found);
    if (!s->removed || !s->invert)
        ls_pieces_add_from(out, text + done, n - done, ls_range_at(from, done));
    return LS_OK;
}

/* ---- the other pre-tokenizers */

/* Adds bytes [begin, end) of a text that a pre-tokenizer has made, if memory did not run out before. */
static void add_part(ls_text_pieces *out, const ls_str *made, const ls_origin *trace, size_t begin,
                     size_t end)
{
    if (!made->no_memory && !trace->no_memory)
        ls_pieces_add_from(out, ls_str_text(made) + begin, end - begin, ls_range_at(trace->at, begin));
}

static void release_made(ls_text_pieces *out, ls_str *made, ls_origin *trace)
{
    ls_str_inherit(&out->text, made);
    out->trace.no_memory = out->trace.no_memory || trace->no_memory;
    ls_str_release(made);
    ls_origin_release(trace);
}

static void to_bytes(const char *text, size_t n, const ls_text_range *from, ls_text_pieces *out)
{
    ls_str mapped = { 0 };
    ls_origin trace = { .on = out->trace.on };
    for (size_t i = 0; i < n && (i % PART || !ls_stop_asked()); i++) {
        const size_t before = mapped.len;
        ls_utf8_add(&mapped, ls_char_of_byte((uint8_t)text[i]));
        if (trace.on)
            ls_origin_fill(&trace, from[i], mapped.len - before);
    }
    add_part(out, &mapped, &trace, 0, mapped.len);
    release_made(out, &mapped, &trace);
}

static ls_status split_bytes(const ls_splitter *s, const char *text, size_t n, const ls_text_range *from,
                             ls_text_pieces *out)
{
    ls_str spaced = { 0 };
    ls_origin trace = { .on = out->trace.on };
    ls_text_pieces words = { .trace.on = out->trace.on };
    ls_status status = LS_OK;
    if (s->prefix_space && text[0] != ' ') {
        ls_str_add(&spaced, " ");
        ls_str_add_n(&spaced, text, n);
        if (trace.on)
            ls_origin_fill(&trace, from[0], 1);
        ls_origin_copy(&trace, from, n);
        status = trace.no_memory ? ls_fail(LS_E_MEMORY, "out of memory for a text") : ls_str_status(&spaced);
        text = spaced.data;
        from = trace.at;
        n = spaced.len;
    }
    if (status == LS_OK && s->regex)
        status = split_regex(s, text, n, from, &words);
    else if (status == LS_OK)
        ls_pieces_add_from(&words, text, n, from);
    if (status == LS_OK)
        status = ls_pieces_check(&words);
    for (int64_t i = 0, at = 0; status == LS_OK && i < words.n; at = words.end[i++])
        to_bytes(words.text.data + at, (size_t)(words.end[i] - at), ls_range_at(words.trace.at, (size_t)at),
                 out);
    ls_pieces_release(&words);
    release_made(out, &spaced, &trace);
    return status;
}

static void split_white(const char *text, size_t n, const ls_text_range *from, ls_text_pieces *out)
{
    uint32_t c;
    size_t begin = 0;
    for (size_t i = 0, bytes; i < n; i += bytes) {
        bytes = ls_utf8_next(text + i, &c);
        if (!ls_is_white(c))
            continue;
        ls_pieces_add_from(out, text + begin, i - begin, ls_range_at(from, begin));
        begin = i + bytes;
    }
    ls_pieces_add_from(out, text + begin, n - begin, ls_range_at(from, begin));
}

static void split_metaspace(const ls_splitter *s, const char *text, size_t n, const ls_text_range *from,
                            bool first, ls_text_pieces *out)
{
    const size_t mark = strlen(s->mark);
    ls_str all = { 0 };
    ls_origin trace = { .on = out->trace.on };
    const bool has = text[0] == ' ' || (n >= mark && !memcmp(text, s->mark, mark));
    if (!has && (s->prepend == LS_PREPEND_ALWAYS || (s->prepend == LS_PREPEND_FIRST && first))) {
        ls_str_add(&all, s->mark);
        if (trace.on)
            ls_origin_fill(&trace, from[0], mark);
    }
    for (size_t i = 0; i < n && (i % PART || !ls_stop_asked()); i++) {
        if (text[i] == ' ')
            ls_str_add(&all, s->mark);
        else
            ls_str_add_n(&all, text + i, 1);
        if (trace.on)
            ls_origin_fill(&trace, from[i], text[i] == ' ' ? mark : 1);
    }
    size_t begin = 0;
    for (size_t i = 1; s->split && i + mark <= all.len && (i % PART || !ls_stop_asked()); i++)
        if (!memcmp(all.data + i, s->mark, mark)) {
            add_part(out, &all, &trace, begin, i);
            begin = i;
        }
    add_part(out, &all, &trace, begin, all.len);
    release_made(out, &all, &trace);
}

ls_status ls_split(const ls_splitter *s, const ls_text_pieces *in, bool first, ls_text_pieces *out)
{
    for (int64_t i = 0, at = 0; i < in->n; at = in->end[i++]) {
        const char *text = in->text.data + at;
        const ls_text_range *from = ls_range_at(in->trace.at, (size_t)at);
        const size_t n = (size_t)(in->end[i] - at);
        switch (s->kind) {
        case LS_SPLIT_REGEX: LS_TRY(split_regex(s, text, n, from, out)); break;
        case LS_SPLIT_BYTES: LS_TRY(split_bytes(s, text, n, from, out)); break;
        case LS_SPLIT_WHITESPACE: split_white(text, n, from, out); break;
        case LS_SPLIT_BERT: ls_bert_split(text, n, from, out); break;
        case LS_SPLIT_METASPACE: split_metaspace(s, text, n, from, first && i == 0, out); break;
        }
    }
    LS_TRY(ls_pieces_check(out));
    return ls_stop_check("splitting a text of %zu bytes", in->text.len);
}
