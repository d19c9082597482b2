/* read.c - reads tokenizer.json into the parts of a tokenizer. A member that changes ids and is not
 * understood is an error, because nobody would notice a tokenizer that is slightly wrong. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "read_own.h"

/* Calls `one` for a part, or for each part of a Sequence. */
typedef ls_status (*part_fn)(reader *r, const json_t *part, const char *type);
static ls_status each_part(reader *r, const json_t *part, const char *members, part_fn one)
{
    if (!part || json_is_null(part))
        return LS_OK;
    const char *type = read_text_of(part, "type");
    if (strcmp(type, "Sequence"))
        return one(r, part, type);
    const json_t *list = json_object_get(part, members);
    for (size_t i = 0; i < json_array_size(list); i++)
        LS_TRY(each_part(r, json_array_get(list, i), members, one));
    return LS_OK;
}

/* ---- normalizers */

static int base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Decodes base64. A NUL follows the last byte. */
static uint8_t *from_base64(ls_arena *a, const char *text, size_t *bytes)
{
    uint8_t *out = ls_arena_alloc(a, strlen(text) / 4 * 3 + 4);
    uint32_t bits = 0;
    int held = 0;
    *bytes = 0;
    if (!out)
        return NULL;
    for (; *text && *text != '='; text++) {
        const int digit = base64_digit(*text);
        if (digit < 0)
            return NULL;
        bits = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[(*bytes)++] = (uint8_t)(bits >> held);
        }
    }
    return out;
}

/* sentencepiece's character map: the length of the double array in four bytes, the array, the
 * replacements. */
static ls_status read_charsmap(reader *r, const json_t *part, ls_normalizer *z)
{
    size_t bytes;
    const uint8_t *map = from_base64(&r->t->arena, read_text_of(part, "precompiled_charsmap"), &bytes);
    const uint64_t trie = map && bytes >= 4 ? (uint32_t)map[0] | (uint32_t)map[1] << 8 |
                                                  (uint32_t)map[2] << 16 | (uint32_t)map[3] << 24
                                            : 0;
    if (!trie || trie % 4 || trie + 4 > bytes)
        return wrong(r, "precompiled_charsmap is damaged");
    uint32_t *units = LS_ARENA_ARRAY(&r->t->arena, uint32_t, trie / 4);
    LS_TRY(ls_arena_status(&r->t->arena));
    for (size_t i = 0; i < trie / 4; i++)
        units[i] = (uint32_t)map[4 + 4 * i] | (uint32_t)map[5 + 4 * i] << 8 | (uint32_t)map[6 + 4 * i] << 16 |
                   (uint32_t)map[7 + 4 * i] << 24;
    *z = (ls_normalizer){ .kind = LS_NORMAL_CHARSMAP,
                          .trie = units,
                          .units = (uint32_t)(trie / 4),
                          .replacements = (const char *)map + 4 + trie,
                          .replacement_bytes = bytes - 4 - trie };
    return LS_OK;
}

static ls_status read_normalizer(reader *r, const json_t *part, const char *type)
{
    static const char *const FORMS[] = {
        [LS_NORMAL_NFC] = "NFC", [LS_NORMAL_NFD] = "NFD", [LS_NORMAL_NFKC] = "NFKC", [LS_NORMAL_NFKD] = "NFKD"
    };
    LS_TRY(one_more(r, &r->t->n_normalizers, "normalizers"));
    ls_normalizer *z = &r->t->normalizers[r->t->n_normalizers - 1];
    for (int k = 0; k < 4; k++)
        if (!strcmp(type, FORMS[k])) {
            z->kind = (ls_normal)k;
            return LS_OK;
        }
    if (!strcmp(type, "Precompiled"))
        return read_charsmap(r, part, z);
    if (!strcmp(type, "Prepend")) {
        *z = (ls_normalizer){ .kind = LS_NORMAL_PREPEND, .to = read_keep(r, read_text_of(part, "prepend")) };
        return LS_OK;
    }
    if (!strcmp(type, "BertNormalizer")) {
        const bool lowercase = flag(part, "lowercase", true);
        *z = (ls_normalizer){ .kind = LS_NORMAL_BERT,
                              .clean = flag(part, "clean_text", true),
                              .ideographs = flag(part, "handle_chinese_chars", true),
                              .strip_accents = flag(part, "strip_accents", lowercase),
                              .lowercase = lowercase };
        return LS_OK;
    }
    const char *from = read_text_of(json_object_get(part, "pattern"), "String");
    if (strcmp(type, "Replace") || !*from)
        return unknown(r, *type ? "normalizer" : "normalizer without a", *type ? type : "type");
    *z = (ls_normalizer){ .kind = LS_NORMAL_REPLACE,
                          .from = read_keep(r, from),
                          .to = read_keep(r, read_text_of(part, "content")) };
    return LS_OK;
}

/* ---- pre-tokenizers */

/* GPT-2's pattern, which ByteLevel uses */
static const char GPT2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static char *quoted(ls_arena *a, const char *text)
{
    ls_str s = { 0 };
    for (; *text; text++) {
        if (!strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", *text) &&
            (uint8_t)*text < 0x80)
            ls_str_add(&s, "\\");
        ls_str_add_n(&s, text, 1);
    }
    char *out = ls_arena_strdup(a, s.no_memory ? NULL : ls_str_text(&s));
    ls_str_release(&s);
    return out;
}

static ls_status read_split(reader *r, const json_t *part, ls_splitter *s)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const char *regex = read_text_of(pattern, "Regex"), *behavior = read_text_of(part, "behavior");
    const bool removed = !strcmp(behavior, "Removed");
    if (!removed && strcmp(behavior, "Isolated"))
        return unknown(r, "pre-tokenizer Split with behavior", behavior);
    *s = (ls_splitter){ .kind = LS_SPLIT_REGEX, .removed = removed, .invert = flag(part, "invert", false) };
    return ls_regex_compile(&s->regex, *regex ? regex : quoted(&r->t->arena, read_text_of(pattern, "String")),
                            r->path);
}

static ls_status read_splitter(reader *r, const json_t *part, const char *type)
{
    LS_TRY(one_more(r, &r->t->n_splitters, "pre-tokenizers"));
    ls_splitter *s = &r->t->splitters[r->t->n_splitters - 1];
    if (!strcmp(type, "Split"))
        return read_split(r, part, s);
    if (!strcmp(type, "ByteLevel")) {
        *s = (ls_splitter){ .kind = LS_SPLIT_BYTES, .prefix_space = flag(part, "add_prefix_space", true) };
        return flag(part, "use_regex", true) ? ls_regex_compile(&s->regex, GPT2, r->path) : LS_OK;
    }
    if (!strcmp(type, "WhitespaceSplit") || !strcmp(type, "BertPreTokenizer")) {
        *s = (ls_splitter){ .kind = *type == 'B' ? LS_SPLIT_BERT : LS_SPLIT_WHITESPACE };
        return LS_OK;
    }
    if (strcmp(type, "Metaspace"))
        return unknown(r, "pre-tokenizer", type);
    *s = (ls_splitter){ .kind = LS_SPLIT_METASPACE,
                        .mark = read_keep(r, read_text_of(part, "replacement")),
                        .split = flag(part, "split", true) };
    return ls_read_metaspace(r, part, &s->prepend);
}

/* ---- models, and the ids of both */

static ls_status read_put(reader *r, int64_t id, const char *text)
{
    ls_vocab *v = &r->t->vocab;
    if (id >= 0 && id < v->size && ls_vocab_put(v, &r->t->arena, (int32_t)id, text, strlen(text)))
        return LS_OK;
    const int32_t other = ls_vocab_find(v, text, strlen(text));
    return ls_fail(LS_E_FORMAT, "%s: token \"%.60s\" of id %" PRId64 ": %s", r->path, text, id,
                   other >= 0 ? "it is there twice" : "the id is taken, or none");
}

static int64_t largest_id(const json_t *model, const json_t *added)
{
    const json_t *vocab = json_object_get(model, "vocab");
    const char *key;
    json_t *value;
    int64_t most = json_is_array(vocab) ? (int64_t)json_array_size(vocab) - 1 : -1;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value)
        most = json_integer_value(value) > most ? json_integer_value(value) : most;
    for (size_t i = 0; i < json_array_size(added); i++) {
        const int64_t id = json_integer_value(json_object_get(json_array_get(added, i), "id"));
        most = id > most ? id : most;
    }
    return most;
}

static ls_status read_merge(reader *r, int64_t rank, const json_t *merge)
{
    ls_vocab *v = &r->t->vocab;
    const char *both = json_string_value(merge), *space = both && *both ? strchr(both + 1, ' ') : NULL;
    const char *left = both ? both : json_string_value(json_array_get(merge, 0)),
               *right = space ? space + 1 : json_string_value(json_array_get(merge, 1));
    const size_t n = space ? (size_t)(space - both) : left ? strlen(left) : 0;
    ls_str joined = { 0 };
    if (!left || !right)
        return ls_fail(LS_E_FORMAT, "%s: merge %" PRId64 " is not a pair", r->path, rank);
    ls_str_add_n(&joined, left, n);
    ls_str_add(&joined, right);
    const int32_t a = ls_vocab_find(v, left, n), b = ls_vocab_find(v, right, strlen(right)),
                  id = ls_vocab_find(v, joined.data, joined.len);
    const ls_status whole = ls_str_status(&joined);
    ls_str_release(&joined);
    LS_TRY(whole);
    if (a < 0 || b < 0 || id < 0)
        return ls_fail(LS_E_FORMAT,
                       "%s: merge %" PRId64 " has tokens, or makes one, that the vocabulary does not have",
                       r->path, rank);
    ls_bpe_put(r->t->bpe, a, b, (int32_t)rank, id);
    return LS_OK;
}

static ls_status read_bpe(reader *r, const json_t *model)
{
    ls_tokenizer *t = r->t;
    const json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges"),
                 *dropout = json_object_get(model, "dropout");
    const char *key, *unk = read_text_of(model, "unk_token");
    json_t *value;
    if (!json_is_object(vocab) || !json_is_array(merges))
        return wrong(r, "a BPE model needs vocab and merges");
    if ((json_is_number(dropout) && json_number_value(dropout) != 0) ||
        *read_text_of(model, "continuing_subword_prefix") || *read_text_of(model, "end_of_word_suffix"))
        return unknown(r, "BPE model with", "dropout, continuing_subword_prefix or end_of_word_suffix");
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value)
        LS_TRY(read_put(r, json_is_integer(value) ? json_integer_value(value) : -1, key));
    t->bpe = LS_ARENA_NEW(&t->arena, ls_bpe);
    LS_TRY(ls_arena_status(&t->arena));
    *t->bpe = (ls_bpe){ .vocab = &t->vocab,
                        .unknown = *unk ? ls_vocab_find(&t->vocab, unk, strlen(unk)) : -1,
                        .fuse_unknown = flag(model, "fuse_unk", false),
                        .byte_fallback = flag(model, "byte_fallback", false),
                        .ignore_merges = flag(model, "ignore_merges", false) };
    ls_find_byte_ids(&t->vocab, t->bpe->byte_ids);
    LS_TRY(ls_bpe_room(t->bpe, &t->arena, (int64_t)json_array_size(merges)));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        LS_TRY(read_merge(r, (int64_t)i, json_array_get(merges, i)));
        LS_TRY(i % (1 << 12) ? LS_OK : ls_stop_check("reading %s", r->path));
    }
    return LS_OK;
}

static ls_status read_unigram(reader *r, const json_t *model)
{
    ls_tokenizer *t = r->t;
    const json_t *vocab = json_object_get(model, "vocab");
    const int64_t n = (int64_t)json_array_size(vocab),
                  unk = json_is_integer(json_object_get(model, "unk_id"))
                            ? json_integer_value(json_object_get(model, "unk_id"))
                            : -1;
    double *score = LS_ARENA_ARRAY(&t->arena, double, t->vocab.size + 1);
    LS_TRY(ls_arena_status(&t->arena));
    if (n < 1 || unk < 0 || unk >= n)
        return wrong(r, "a Unigram model needs vocab, and unk_id in it");
    for (int64_t id = 0; id < n; id++) {
        const json_t *entry = json_array_get(vocab, (size_t)id);
        const char *text = json_string_value(json_array_get(entry, 0));
        LS_TRY(read_put(r, text ? id : -1, text ? text : ""));
        score[id] = json_number_value(json_array_get(entry, 1));
    }
    t->unigram = LS_ARENA_NEW(&t->arena, ls_unigram);
    LS_TRY(ls_arena_status(&t->arena));
    *t->unigram = (ls_unigram){ .vocab = &t->vocab,
                                .score = score,
                                .unknown = (int32_t)unk,
                                .byte_fallback = flag(model, "byte_fallback", false) };
    ls_find_byte_ids(&t->vocab, t->unigram->byte_ids);
    return ls_unigram_prepare(t->unigram, &t->arena);
}

static ls_status read_wordpiece(reader *r, const json_t *model)
{
    ls_tokenizer *t = r->t;
    const char *key, *unk = read_text_of(model, "unk_token");
    json_t *value, *vocab = json_object_get(model, "vocab");
    const json_t *longest = json_object_get(model, "max_input_chars_per_word");
    json_object_foreach(vocab, key, value)
        LS_TRY(read_put(r, json_is_integer(value) ? json_integer_value(value) : -1, key));
    t->wordpiece = LS_ARENA_NEW(&t->arena, ls_wordpiece);
    LS_TRY(ls_arena_status(&t->arena));
    *t->wordpiece = (ls_wordpiece){ .vocab = &t->vocab,
                                    .prefix = read_keep(r, read_text_of(model, "continuing_subword_prefix")),
                                    .unknown = ls_vocab_find(&t->vocab, unk, strlen(unk)),
                                    .longest = json_is_integer(longest) ? json_integer_value(longest) : 100 };
    return t->wordpiece->unknown < 0 ? wrong(r, "a WordPiece model needs vocab, with unk_token in it")
                                     : ls_arena_status(&t->arena);
}

static ls_status read_model(reader *r, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const char *type = read_text_of(model, "type");
    const int64_t most = largest_id(model, json_object_get(root, "added_tokens"));
    if (most < 0 || most >= INT32_MAX / 4)
        return wrong(r, "no tokens, or ids that are too large");
    const json_t *vocab = json_object_get(model, "vocab");
    const size_t tokens = (json_is_array(vocab) ? json_array_size(vocab) : json_object_size(vocab)) +
                          json_array_size(json_object_get(root, "added_tokens"));
    if ((uint64_t)most / 16 > tokens + 65536) /* some ids may be unused, but each id takes memory */
        return ls_fail(LS_E_FORMAT, "%s: %zu tokens have ids up to %" PRId64 ": an id is wrong", r->path,
                       tokens, most);
    LS_TRY(ls_vocab_make(&r->t->vocab, &r->t->arena, (int32_t)most + 1));
    if (!strcmp(type, "BPE") || (!*type && json_is_object(json_object_get(model, "vocab"))))
        return read_bpe(r, model);
    if (!strcmp(type, "Unigram") || (!*type && json_is_array(json_object_get(model, "vocab"))))
        return read_unigram(r, model);
    return strcmp(type, "WordPiece") ? unknown(r, "model", type) : read_wordpiece(r, model);
}

/* ---- added tokens */

/* A token that is found in normalized text is normalized itself. It is also decoded to its normal form. */
static ls_status normal_text(reader *r, ls_added *a)
{
    ls_str text = { 0 }, other = { 0 };
    LS_TRY(ls_arena_status(&r->t->arena));
    ls_status s = LS_OK;
    ls_str_add(&text, a->text);
    for (int i = 0; i < r->t->n_normalizers && s == LS_OK; i++) {
        ls_str_clear(&other);
        s = ls_normalize(&r->t->normalizers[i], text.data, text.len, NULL, &other, &(ls_origin){ 0 });
        const ls_str swap = text;
        text = other;
        other = swap;
    }
    if (s == LS_OK)
        s = ls_str_status(&text);
    a->text = read_keep(r, ls_str_text(&text));
    ls_str_release(&text);
    ls_str_release(&other);
    return s;
}

static ls_status read_added(reader *r, const json_t *list)
{
    ls_tokenizer *t = r->t;
    t->added = LS_ARENA_ARRAY(&t->arena, ls_added, json_array_size(list) + 1);
    t->special = LS_ARENA_ARRAY(&t->arena, bool, t->vocab.size);
    LS_TRY(ls_arena_status(&t->arena));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *j = json_array_get(list, i), *id = json_object_get(j, "id");
        ls_added *a = &t->added[t->n_added++];
        *a = (ls_added){ .text = read_keep(r, read_text_of(j, "content")),
                         .id = json_is_integer(id) ? (int32_t)json_integer_value(id) : -1,
                         .special = flag(j, "special", false),
                         .normalized = flag(j, "normalized", !flag(j, "special", false)),
                         .single_word = flag(j, "single_word", false),
                         .lstrip = flag(j, "lstrip", false),
                         .rstrip = flag(j, "rstrip", false) };
        if (!a->text[0])
            return wrong(r, "an added token has no content");
        const int32_t there = ls_vocab_find(&t->vocab, a->text, strlen(a->text));
        if (there >= 0)
            a->id = there; /* the model has the token already */
        else
            LS_TRY(read_put(r, a->id, a->text));
        t->special[a->id] = t->special[a->id] || a->special;
        if (a->normalized)
            LS_TRY(normal_text(r, a));
        a->length = strlen(a->text);
    }
    return LS_OK;
}

ls_status ls_tokenizer_read(ls_tokenizer *t, json_t *root, const char *path)
{
    reader r = { t, path };
    if (!json_is_object(root) || !json_is_object(json_object_get(root, "model")))
        return wrong(&r, "this is not a tokenizer.json: it has no model");
    LS_TRY(read_model(&r, root));
    LS_TRY(each_part(&r, json_object_get(root, "normalizer"), "normalizers", read_normalizer));
    LS_TRY(each_part(&r, json_object_get(root, "pre_tokenizer"), "pretokenizers", read_splitter));
    LS_TRY(read_added(&r, json_object_get(root, "added_tokens")));
    LS_TRY(each_part(&r, json_object_get(root, "post_processor"), "processors", ls_read_processor));
    return each_part(&r, json_object_get(root, "decoder"), "decoders", ls_read_decoder);
}
