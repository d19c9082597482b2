/* stream.c - decodes ids one at a time. How a token is decoded depends on whether another token precedes it
 * (the first space of a text is dropped), but not on which. So each token is decoded together with its
 * predecessor, and the predecessor's bytes are removed.
 *
 * Byte tokens (byte fallback) are different: a run of them is text only if all of it is valid UTF-8. Text of
 * a run that has been returned cannot be taken back if the run turns out to be invalid. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/sys.h"
#include "text.h"

struct ls_text_stream {
    const ls_tokenizer *tokenizer;
    int32_t before;    /* the previous token; -1: none */
    ls_str bytes, out; /* bytes: decoded, but not returned yet; out: what the latest call returned */
    ls_str run;        /* bytes of the latest tokens, as long as they are byte tokens */
    size_t given;      /* how many bytes of `run` have been added to `bytes` */
};

ls_status ls_text_stream_create(ls_text_stream **out, const ls_tokenizer *t)
{
    LS_ARG(out);
    LS_ARG(t);
    ls_text_stream *s = *out = ls_sys_calloc(1, sizeof *s);
    if (!s)
        return ls_fail(LS_E_MEMORY, "out of memory for a text");
    *s = (ls_text_stream){ .tokenizer = t, .before = -1 };
    return LS_OK;
}

void ls_text_stream_destroy(ls_text_stream **sp)
{
    if (!sp)
        return;
    ls_text_stream *s = *sp;
    if (!s)
        return;
    ls_str_release(&s->bytes);
    ls_str_release(&s->out);
    ls_str_release(&s->run);
    free(s);
    *sp = NULL;
}

/* How many bytes at the end of the text are an incomplete character. */
static size_t cut(const char *text, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const uint8_t c = (uint8_t)text[n - back];
        if (c >= 0xc0) /* the first byte of a character of 2 to 4 bytes */
            return (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) > back ? back : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

/* Returns the first n bytes. The rest is at most an incomplete character. */
static void give(ls_text_stream *s, size_t n)
{
    char rest[4];
    const size_t left = s->bytes.len - n;
    ls_str_clear(&s->out);
    ls_utf8_add_sound(&s->out, ls_str_text(&s->bytes), n);
    memcpy(rest, ls_str_text(&s->bytes) + n, left);
    ls_str_clear(&s->bytes);
    ls_str_add_n(&s->bytes, rest, left);
}

/* The byte that a token stands for, if the tokenizer has byte fallback; else -1. */
static int byte_of(const ls_text_stream *s, int32_t id)
{
    const ls_tokenizer *t = s->tokenizer;
    bool falls_back = false;
    for (int i = 0; i < t->n_decoders; i++)
        falls_back = falls_back || t->decoders[i].kind == LS_DECODE_BYTE_FALLBACK;
    const char *token = falls_back ? ls_tokenizer_token(t, id) : NULL;
    return token ? ls_fallback_byte(token, strlen(token)) : -1;
}

/* Adds what is certain of the run: complete characters, or U+FFFD for each byte if the run is not text. over:
 * the run has ended. */
static void add_run(ls_text_stream *s, bool over)
{
    const char *run = ls_str_text(&s->run);
    const size_t n = s->run.len, sound = ls_utf8_sound(run, n);
    const bool text = sound == n || (!over && cut(run, n) == n - sound);
    for (; s->given < n && !text; s->given++)
        ls_str_add(&s->bytes, "\xef\xbf\xbd");
    if (s->given < sound) {
        ls_str_add_n(&s->bytes, run + s->given, sound - s->given);
        s->given = sound;
    }
    if (over) {
        ls_str_clear(&s->run);
        s->given = 0;
    }
}

ls_status ls_text_stream_add(ls_text_stream *s, int32_t id, const char **text, size_t *bytes)
{
    LS_ARG(s);
    LS_ARG(text);
    LS_ARG(bytes);
    ls_str before = { 0 }, both = { 0 };
    const int32_t ids[2] = { s->before, id };
    const bool first = s->before < 0, has_text = ls_tokenizer_has_text(s->tokenizer, id);
    const int byte = has_text ? byte_of(s, id) : -1;
    ls_status status = LS_OK;
    if (byte >= 0) {
        ls_str_add_n(&s->run, &(char){ (char)byte }, 1);
        add_run(s, false);
        s->before = id;
    } else if (has_text) {
        add_run(s, true);
        if (!first)
            status = ls_tokenizer_bytes(s->tokenizer, ids, 1, true, &before);
        if (status == LS_OK)
            status = ls_tokenizer_bytes(s->tokenizer, ids + first, 2 - first, true, &both);
        if (status == LS_OK && both.len > before.len)
            ls_str_add_n(&s->bytes, both.data + before.len, both.len - before.len);
        s->before = id;
    }
    ls_str_release(&before);
    ls_str_release(&both);
    LS_TRY(status);
    LS_TRY(ls_str_status(&s->run));
    LS_TRY(ls_str_status(&s->bytes));
    give(s, s->bytes.len - cut(ls_str_text(&s->bytes), s->bytes.len));
    *text = ls_str_text(&s->out);
    *bytes = s->out.len;
    return ls_str_status(&s->out);
}

void ls_text_stream_end(ls_text_stream *s, const char **text, size_t *bytes)
{
    LS_ARG_VOID(s);
    LS_ARG_VOID(text);
    LS_ARG_VOID(bytes);
    add_run(s, true);
    give(s, s->bytes.len);
    s->before = -1;
    *text = ls_str_text(&s->out);
    *bytes = s->out.len;
}
