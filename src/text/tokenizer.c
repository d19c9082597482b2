/* tokenizer.c - encodes a text as token ids and decodes token ids as a text, with the parts that read.c has
 * made. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/stop.h"
#include "specials.h"
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

const char *ls_tokenizer_special(const ls_tokenizer *t, int i)
{
    for (int k = 0; k < t->n_added; k++)
        if (t->added[k].special && i-- == 0)
            return t->added[k].text;
    return NULL;
}

bool ls_tokenizer_is_special(const ls_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab.size && t->special[id];
}

/* ---- text to ids */

typedef struct work {
    ls_text_pieces in, out;
    ls_str text, other;
    ls_origin from, other_from; /* of text and other */
    ls_encoding to;
} work;

static ls_status encode_pieces(const ls_tokenizer *t, work *w, const char *text, size_t n,
                               const ls_text_range *from, bool first)
{
    ls_pieces_clear(&w->in);
    ls_pieces_add_from(&w->in, text, n, from);
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
        w->to.from = ls_range_at(w->in.trace.at, (size_t)at);
        LS_TRY(t->bpe         ? ls_bpe_encode(t->bpe, piece, bytes, &w->to)
               : t->wordpiece ? ls_wordpiece_encode(t->wordpiece, piece, bytes, &w->to)
                              : ls_unigram_encode(t->unigram, piece, bytes, &w->to));
    }
    return LS_OK;
}

static ls_status encode_rest(const ls_tokenizer *t, work *w, bool normalized, const char *text, size_t n,
                             const ls_text_range *from, bool first);

/* Encodes text between added tokens: normalizes it, and looks for the added tokens that are found in
 * normalized text. */
static ls_status encode_normalized(const ls_tokenizer *t, work *w, const char *text, size_t n,
                                   const ls_text_range *from, bool first)
{
    ls_str_clear(&w->text);
    ls_str_add_n(&w->text, text, n);
    w->from.n = 0;
    ls_origin_copy(&w->from, from, n);
    for (int i = 0; i < t->n_normalizers; i++) {
        ls_str_clear(&w->other);
        w->other_from.n = 0;
        LS_TRY(ls_normalize(&t->normalizers[i], ls_str_text(&w->text), w->text.len, w->from.at, &w->other,
                            &w->other_from));
        const ls_str swap = w->text;
        w->text = w->other;
        w->other = swap;
        const ls_origin swap_from = w->from;
        w->from = w->other_from;
        w->other_from = swap_from;
    }
    LS_TRY(ls_str_status(&w->text));
    if (w->from.no_memory || w->other_from.no_memory)
        return ls_fail(LS_E_MEMORY, "no memory for a text of %zu bytes", n);
    return encode_rest(t, w, true, ls_str_text(&w->text), w->text.len, w->from.at, first);
}

/* Cuts out the added tokens of one kind. What lies between them is encoded next: normalized, or already in
 * pieces. */
static ls_status encode_rest(const ls_tokenizer *t, work *w, bool normalized, const char *text, size_t n,
                             const ls_text_range *from, bool first)
{
    for (size_t at = 0, begin, end; at < n; at = end) {
        const ls_added *a = ls_added_find(t, &w->to, normalized, text, n, from, at, &begin, &end);
        if (!a)
            begin = end = n;
        if (begin > at)
            LS_TRY((normalized ? encode_pieces : encode_normalized)(t, w, text + at, begin - at,
                                                                    ls_range_at(from, at), first && at == 0));
        if (a)
            LS_TRY(ls_encoding_add(&w->to, a->id, ls_range_of(from, begin, end)));
    }
    return LS_OK;
}

static ls_status encode_all(const ls_tokenizer *t, work *w, const char *text, size_t bytes, bool special)
{
    const ls_text_range end = { (int64_t)bytes, (int64_t)bytes };
    ls_origin from = { .on = w->from.on };
    ls_status s = LS_OK;
    for (size_t i = 0; i < bytes && from.on; i++)
        ls_origin_fill(&from, (ls_text_range){ (int64_t)i, (int64_t)i + 1 }, 1);
    if (from.no_memory)
        s = ls_fail(LS_E_MEMORY, "no memory for a text of %zu bytes", bytes);
    for (int i = 0; special && s == LS_OK && i < t->n_before; i++)
        s = ls_encoding_add(&w->to, t->before[i], (ls_text_range){ 0, 0 });
    if (s == LS_OK)
        s = encode_rest(t, w, false, text, bytes, from.at, true);
    for (int i = 0; special && s == LS_OK && i < t->n_after; i++)
        s = ls_encoding_add(&w->to, t->after[i], end);
    ls_origin_release(&from);
    return s;
}

static ls_status encode_checked(const ls_tokenizer *t, const char *text, size_t bytes, bool special,
                                ls_encoding to)
{
    const bool on = to.ranges || to.n_plain;
    work w = { .in.trace.on = on, .out.trace.on = on, .from.on = on, .other_from.on = on, .to = to };
    const int64_t before = to.ids->n, ranges = to.ranges ? to.ranges->n : 0;
    const size_t sound = ls_utf8_sound(text, bytes);
    if (sound < bytes)
        return ls_fail(LS_E_FORMAT, "the text is not UTF-8: byte %zu is 0x%02x; convert it first", sound,
                       (uint8_t)text[sound]);
    const ls_status s = encode_all(t, &w, text, bytes, special);
    if (s != LS_OK) {
        to.ids->n = before;
        if (to.ranges)
            to.ranges->n = ranges;
    }
    ls_pieces_release(&w.in);
    ls_pieces_release(&w.out);
    ls_str_release(&w.text);
    ls_str_release(&w.other);
    ls_origin_release(&w.from);
    ls_origin_release(&w.other_from);
    return s;
}

ls_status ls_tokenizer_encode(const ls_tokenizer *t, const char *text, size_t bytes, bool special,
                              ls_tokens *out)
{
    LS_ARG(t);
    if (bytes)
        LS_ARG(text);
    LS_ARG(out);
    return encode_checked(t, text, bytes, special, (ls_encoding){ .special = t->special, .ids = out });
}

ls_status ls_tokenizer_encode_ranges(const ls_tokenizer *t, const char *text, size_t bytes, bool special,
                                     int64_t n_plain, const ls_text_range *plain, ls_tokens *out,
                                     ls_text_ranges *ranges)
{
    LS_ARG(t);
    if (bytes)
        LS_ARG(text);
    if (n_plain)
        LS_ARG(plain);
    LS_ARG(out);
    LS_ARG(ranges);
    if (n_plain < 0)
        return ls_fail(LS_E_ARG, "n_plain: %lld ranges", (long long)n_plain);
    for (int64_t i = 0; i < n_plain; i++)
        if (plain[i].begin < (i ? plain[i - 1].end : 0) || plain[i].end < plain[i].begin ||
            plain[i].end > (int64_t)bytes)
            return ls_fail(
                LS_E_ARG,
                "plain range %lld is [%lld, %lld): ranges are sorted, do not overlap, and end within "
                "the text of %zu bytes",
                (long long)i, (long long)plain[i].begin, (long long)plain[i].end, bytes);
    return encode_checked(
        t, text, bytes, special,
        (ls_encoding){
            .special = t->special, .ids = out, .ranges = ranges, .plain = plain, .n_plain = n_plain });
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
