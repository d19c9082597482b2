/* stream.c - ids to text as they come. How a token is decoded depends on whether one stands before it (the
 * first space of a text is dropped), not on which text that was: so each is decoded behind its predecessor,
 * whose bytes are then taken off. Bytes by fallback are another matter: a run of them is a text only if all
 * of it is UTF-8, so what was given of a run cannot be taken back when it turns out to be none. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/sys.h"
#include "text.h"

struct ls_text_stream {
    const ls_tokenizer *tokenizer;
    int32_t before;    /* the token before, -1: none */
    ls_str bytes, out; /* not given yet; given by the latest call */
    ls_str run;        /* the latest tokens, as long as they are bytes by fallback */
    size_t given;      /* of these */
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

/* How many bytes at the end are the beginning of a character. */
static size_t cut(const char *text, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const uint8_t c = (uint8_t)text[n - back];
        if (c >= 0xc0) /* it leads a character of so many bytes */
            return (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) > back ? back : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

/* The first n of the bytes; few are left, and none of a whole character. */
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

/* The token's byte, where the tokenizer has bytes by fallback; else -1. */
static int byte_of(const ls_text_stream *s, int32_t id)
{
    const ls_tokenizer *t = s->tokenizer;
    bool falls_back = false;
    for (int i = 0; i < t->n_decoders; i++)
        falls_back = falls_back || t->decoders[i].kind == LS_DECODE_BYTE_FALLBACK;
    const char *token = falls_back ? ls_tokenizer_token(t, id) : NULL;
    return token ? ls_fallback_byte(token, strlen(token)) : -1;
}

/* What may be given of the run: whole characters; or, of one that is no text, U+FFFD for each byte. */
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
