/* sentencepiece.c - reads a SentencePiece model of kind Unigram (spiece.model: protocol buffers) by
 * converting it to an equivalent tokenizer.json, so the other files need not know of it. The file does not
 * say which special tokens surround a text: if it has </s>, that is added at the end, as T5 does. */
#include <string.h>

#include "text.h"

/* ---- protocol buffers: a message is a list of fields with number, kind and value */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
/* value: the number, or the length of `bytes`. */
typedef struct field {
    uint64_t number, value;
    const uint8_t *bytes;
    int kind;
} field;

static bool varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        const uint8_t b = *(*at)++;
        *out |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return true;
    }
    return false;
}

/* Reads the next field. False: there is none (then *at is end), or it is damaged. */
static bool next_field(const uint8_t **at, const uint8_t *end, field *f)
{
    const uint8_t *p = *at;
    uint64_t tag;
    if (!varint(&p, end, &tag))
        return false;
    *f = (field){ .number = tag >> 3, .kind = (int)(tag & 7) };
    const uint64_t fixed = f->kind == FIXED64 ? 8 : f->kind == FIXED32 ? 4 : 0;
    if (!fixed && ((f->kind != VARINT && f->kind != BYTES) || !varint(&p, end, &f->value)))
        return false;
    const uint64_t n = f->kind == BYTES ? f->value : fixed;
    if (n > (uint64_t)(end - p))
        return false;
    f->bytes = p;
    for (uint64_t i = 0; i < fixed; i++) /* the low byte comes first */
        f->value |= (uint64_t)p[i] << 8 * i;
    *at = p + n;
    return true;
}

/* ---- the parts that are understood */

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE }; /* kinds of pieces */

typedef struct reader {
    const char *path;
    json_t *vocab, *added;
    int64_t unknown, end; /* ids; -1: none */
    const uint8_t *charsmap;
    size_t charsmap_bytes;
    bool byte_fallback;
} reader;

static ls_status sentencepiece_damaged(const reader *r, const char *what)
{
    return ls_fail(LS_E_FORMAT, "%s: %s; this is not a sound SentencePiece model", r->path, what);
}

static ls_status read_piece(reader *r, const uint8_t *at, const uint8_t *end)
{
    const int64_t id = (int64_t)json_array_size(r->vocab);
    const char *text = "";
    size_t n = 0;
    float score = 0;
    uint64_t kind = NORMAL;
    for (field f; next_field(&at, end, &f);) {
        if (f.number == 1 && f.kind == BYTES) {
            text = (const char *)f.bytes;
            n = f.value;
        } else if (f.number == 2 && f.kind == FIXED32) {
            memcpy(&score, &(uint32_t){ (uint32_t)f.value }, sizeof score);
        } else if (f.number == 3) {
            kind = f.value;
        }
    }
    json_t *piece = json_stringn(text, n);
    if (at != end || !piece || memchr(text, 0, n) || !(score - score == 0)) {
        json_decref(piece);
        return ls_fail(LS_E_FORMAT, "%s: piece %lld is damaged", r->path, (long long)id);
    }
    if (kind == UNUSED || kind > BYTE) {
        json_decref(piece);
        return ls_fail(LS_E_UNSUPPORTED, "%s: piece %lld is of a kind, %lld, that is not supported", r->path,
                       (long long)id, (long long)kind);
    }
    if (kind == UNKNOWN)
        r->unknown = id;
    if (n == 4 && !memcmp(text, "</s>", 4))
        r->end = id;
    if (kind == UNKNOWN || kind == CONTROL || kind == USER_DEFINED)
        json_array_append_new(r->added, json_pack("{sI sO sb}", "id", (json_int_t)id, "content", piece,
                                                  "special", kind != USER_DEFINED));
    json_array_append_new(r->vocab, json_pack("[of]", piece, (double)score));
    return LS_OK;
}

static ls_status read_trainer(reader *r, const uint8_t *at, const uint8_t *end)
{
    static const char *const KINDS[] = { "", "Unigram", "BPE", "word", "character" };
    for (field f; next_field(&at, end, &f);) {
        if (f.number == 3 && f.value != 1)
            return ls_fail(LS_E_UNSUPPORTED, "%s: a model of kind %s; Unigram is known here", r->path,
                           f.value < 5 ? KINDS[f.value] : "?");
        if (f.number == 24 && f.value)
            return ls_fail(
                LS_E_UNSUPPORTED,
                "%s: spaces are at the end of pieces (treat_whitespace_as_suffix), which is not supported",
                r->path);
        if (f.number == 35)
            r->byte_fallback = f.value != 0;
    }
    return at == end ? LS_OK : sentencepiece_damaged(r, "the trainer's part is cut short");
}

static ls_status read_normalizer(reader *r, const uint8_t *at, const uint8_t *end)
{
    static const char *const MUST[] = {
        [3] = "add_dummy_prefix", [4] = "remove_extra_whitespaces", [5] = "escape_whitespaces"
    };
    for (field f; next_field(&at, end, &f);) {
        if (f.number >= 3 && f.number <= 5 && !f.value)
            return ls_fail(LS_E_UNSUPPORTED, "%s: without %s, which is not supported", r->path,
                           MUST[f.number]);
        if (f.number == 2 && f.kind == BYTES) {
            r->charsmap = f.bytes;
            r->charsmap_bytes = f.value;
        }
    }
    return at == end ? LS_OK : sentencepiece_damaged(r, "the normalizer's part is cut short");
}

static ls_status read_model(reader *r, const uint8_t *at, const uint8_t *end)
{
    for (field f; next_field(&at, end, &f);) {
        if (f.number == 1 && f.kind == BYTES)
            LS_TRY(read_piece(r, f.bytes, f.bytes + f.value));
        if (f.number == 2 && f.kind == BYTES)
            LS_TRY(read_trainer(r, f.bytes, f.bytes + f.value));
        if (f.number == 3 && f.kind == BYTES)
            LS_TRY(read_normalizer(r, f.bytes, f.bytes + f.value));
    }
    return at != end        ? sentencepiece_damaged(r, "it is cut short")
           : r->unknown < 0 ? sentencepiece_damaged(r, "no piece stands for what is unknown")
                            : LS_OK;
}

/* ---- conversion to a tokenizer.json */

static json_t *base64(const uint8_t *from, size_t n)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    ls_str out = { 0 };
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t bits = (uint32_t)from[i] << 16 | (i + 1 < n ? (uint32_t)from[i + 1] << 8 : 0) |
                              (i + 2 < n ? from[i + 2] : 0);
        for (size_t k = 0; k < 4; k++)
            ls_str_add_n(&out, i + k > n ? "=" : &DIGITS[bits >> (18 - 6 * k) & 63], 1);
    }
    json_t *text = out.no_memory ? NULL : json_string(ls_str_text(&out));
    ls_str_release(&out);
    return text;
}

/* Takes over r->vocab and r->added. */
static json_t *as_json(const reader *r)
{
    static const char MARK[] = "\xe2\x96\x81"; /* sentencepiece's mark for a space */
    json_t *root = json_pack("{s{ss sI so sb} so s{ss s[{ss} {ss ss}]} s{ss ss}}", "model", "type", "Unigram",
                             "unk_id", (json_int_t)r->unknown, "vocab", r->vocab, "byte_fallback",
                             r->byte_fallback, "added_tokens", r->added, "pre_tokenizer", "type", "Sequence",
                             "pretokenizers", "type", "WhitespaceSplit", "type", "Metaspace", "replacement",
                             MARK, "decoder", "type", "Metaspace", "replacement", MARK);
    if (r->charsmap_bytes)
        json_object_set_new(root, "normalizer",
                            json_pack("{ss so}", "type", "Precompiled", "precompiled_charsmap",
                                      base64(r->charsmap, r->charsmap_bytes)));
    if (r->end >= 0)
        json_object_set_new(root, "post_processor",
                            json_pack("{ss s[{s{ss}} {s{ss}}] s{s{s[I]}}}", "type", "TemplateProcessing",
                                      "single", "Sequence", "id", "A", "SpecialToken", "id", "</s>",
                                      "special_tokens", "</s>", "ids", (json_int_t)r->end));
    return root;
}

ls_status ls_tokenizer_read_sentencepiece(ls_tokenizer *t, const char *bytes, size_t n, const char *path)
{
    reader r = { .path = path, .vocab = json_array(), .added = json_array(), .unknown = -1, .end = -1 };
    const uint8_t *begin = (const uint8_t *)bytes;
    ls_status s = read_model(&r, begin, begin + n);
    json_t *root = s == LS_OK ? as_json(&r) : NULL;
    if (s == LS_OK)
        s = ls_tokenizer_read(t, root, path);
    json_decref(root);
    if (!root) {
        json_decref(r.vocab);
        json_decref(r.added);
    }
    return s;
}
