/* tokenizer.c - encodes a text as token ids and decodes token ids as a text, with the parts that read.c has
 * made. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/stop.h"
#include "text.h"

int32_t ls_tokenizer_size(const ls_tokenizer *t)
{
    LS_ARG_OR(t, 0);
    return t->vocab.size;
}
int32_t ls_tokenizer_id(const ls_tokenizer *t, const char *token)
{
    LS_ARG_OR(t, -1);
    LS_ARG_OR(token, -1);
    return ls_vocab_find(&t->vocab, token, strlen(token));
}

/* The added token with this id; NULL: the id belongs to the model, or to nothing. */
static const ls_added *added_of(const ls_tokenizer *t, int32_t id)
{
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].id == id)
            return &t->added[i];
    return NULL;
}

const char *ls_tokenizer_token(const ls_tokenizer *t, int32_t id)
{
    LS_ARG_OR(t, NULL);
    const ls_added *a = added_of(t, id); /* (its text may be normalized) */
    return a ? a->text : id >= 0 && id < t->vocab.size ? t->vocab.text[id] : NULL;
}

bool ls_tokenizer_has_text(const ls_tokenizer *t, int32_t id)
{
    const ls_added *a = added_of(t, id);
    return ls_tokenizer_token(t, id) && !(a && a->special);
}

/* ---- text to ids */

typedef struct work {
    ls_text_pieces in, out;
    ls_str text, other;
} work;

static ls_status encode_pieces(const ls_tokenizer *t, work *w, const char *text, size_t n, bool first,
                               ls_tokens *out)
{
    ls_pieces_clear(&w->in);
    ls_pieces_add(&w->in, text, n);
    LS_TRY(ls_pieces_check(&w->in));
    for (int i = 0; i < t->n_splitters; i++) {
        ls_pieces_clear(&w->out);
        LS_TRY(ls_split(&t->splitters[i], &w->in, first, &w->out));
        const ls_text_pieces swap = w->in;
        w->in = w->out;
        w->out = swap;
    }
    for (int64_t i = 0, at = 0; i < w->in.n; at = w->in.end[i++]) {
        const char *piece = w->in.text.data + at;
        const size_t bytes = (size_t)(w->in.end[i] - at);
        if (i % (1 << 12) == 0)
            LS_TRY(ls_stop_check("encoding a text of %zu bytes", n));
        LS_TRY(t->bpe         ? ls_bpe_encode(t->bpe, piece, bytes, out)
               : t->wordpiece ? ls_wordpiece_encode(t->wordpiece, piece, bytes, out)
                              : ls_unigram_encode(t->unigram, piece, bytes, out));
    }
    return LS_OK;
}

static ls_status encode_rest(const ls_tokenizer *t, work *w, bool normalized, const char *text, size_t n,
                             bool first, ls_tokens *out);

/* Encodes text between added tokens: normalizes it, and looks for the added tokens that are found in
 * normalized text. */
static ls_status encode_normalized(const ls_tokenizer *t, work *w, const char *text, size_t n, bool first,
                                   ls_tokens *out)
{
    ls_str_clear(&w->text);
    ls_str_add_n(&w->text, text, n);
    for (int i = 0; i < t->n_normalizers; i++) {
        ls_str_clear(&w->other);
        LS_TRY(ls_normalize(&t->normalizers[i], ls_str_text(&w->text), w->text.len, &w->other));
        const ls_str swap = w->text;
        w->text = w->other;
        w->other = swap;
    }
    LS_TRY(ls_str_status(&w->text));
    return encode_rest(t, w, true, ls_str_text(&w->text), w->text.len, first, out);
}

/* Cuts out the added tokens of one kind. What lies between them is encoded next: normalized, or already in
 * pieces. */
static ls_status encode_rest(const ls_tokenizer *t, work *w, bool normalized, const char *text, size_t n,
                             bool first, ls_tokens *out)
{
    for (size_t at = 0, begin, end; at < n; at = end) {
        const ls_added *a = ls_added_find(t->added, t->n_added, normalized, text, n, at, &begin, &end);
        if (!a)
            begin = end = n;
        if (begin > at)
            LS_TRY((normalized ? encode_pieces : encode_normalized)(t, w, text + at, begin - at,
                                                                    first && at == 0, out));
        if (a)
            LS_TRY(ls_tokens_add(out, a->id));
    }
    return LS_OK;
}

ls_status ls_tokenizer_encode(const ls_tokenizer *t, const char *text, size_t bytes, bool special,
                              ls_tokens *out)
{
    LS_ARG(t);
    if (bytes)
        LS_ARG(text);
    LS_ARG(out);
    work w = { 0 };
    const int64_t before = out->n;
    const size_t sound = ls_utf8_sound(text, bytes);
    if (sound < bytes)
        return ls_fail(LS_E_FORMAT, "the text is not UTF-8: byte %zu is 0x%02x; convert it first", sound,
                       (uint8_t)text[sound]);
    ls_status s = LS_OK;
    for (int i = 0; special && s == LS_OK && i < t->n_before; i++)
        s = ls_tokens_add(out, t->before[i]);
    if (s == LS_OK)
        s = encode_rest(t, &w, false, text, bytes, true, out);
    for (int i = 0; special && s == LS_OK && i < t->n_after; i++)
        s = ls_tokens_add(out, t->after[i]);
    if (s != LS_OK)
        out->n = before;
    ls_pieces_release(&w.in);
    ls_pieces_release(&w.out);
    ls_str_release(&w.text);
    ls_str_release(&w.other);
    return s;
}

/* ---- ids to text */

ls_status ls_tokenizer_bytes(const ls_tokenizer *t, const int32_t *ids, int64_t n, bool skip_special,
                             ls_str *out)
{
    ls_text_pieces tokens = { 0 };
    ls_status s = LS_OK;
    for (int64_t i = 0; i < n && s == LS_OK; i++) {
        const char *token = ls_tokenizer_token(t, ids[i]);
        const ls_added *added = skip_special ? added_of(t, ids[i]) : NULL;
        if (!token)
            s = ls_fail(LS_E_ARG, "token id %d (number %lld of %lld) is out of range: ids go from 0 to %d",
                        ids[i], (long long)i, (long long)n, t->vocab.size - 1);
        else if (!added || !added->special)
            ls_pieces_add(&tokens, token, strlen(token));
    }
    if (s == LS_OK)
        s = ls_pieces_check(&tokens);
    for (int i = 0; i < t->n_decoders && s == LS_OK; i++)
        s = ls_decode(&t->decoders[i], &tokens);
    if (s == LS_OK)
        s = ls_pieces_check(&tokens);
    if (s == LS_OK) {
        ls_str_append(out, &tokens.text);
        s = ls_str_status(out);
    }
    ls_pieces_release(&tokens);
    return s;
}

ls_status ls_tokenizer_decode(const ls_tokenizer *t, const int32_t *ids, int64_t n, bool skip_special,
                              char **text, size_t *bytes)
{
    LS_ARG(t);
    if (n)
        LS_ARG(ids);
    LS_ARG(text);
    LS_ARG(bytes);
    ls_str raw = { 0 }, out = { 0 };
    ls_status s = ls_tokenizer_bytes(t, ids, n, skip_special, &raw);
    if (s == LS_OK) {
        ls_utf8_add_sound(&out, ls_str_text(&raw), raw.len);
        *bytes = out.len;
        *text = ls_str_take(&out);
        s = *text ? LS_OK : LS_E_MEMORY;
    }
    ls_str_release(&raw);
    return s;
}
