/* gguf_tokenizer.c - the tokenizer of a folder as keys of a GGUF file. llama.cpp has two tokenizers that we
 * have, too: byte-level BPE ("gpt2"), whose pre-tokenizer it knows by a name that stands for a definition in
 * its code, and SentencePiece's BPE ("llama"), which knows no merges: it joins the neighbours that make the
 * token of the highest score. A definition that is not in the table here has no name, and is refused: with a
 * wrong name llama.cpp would split texts in other places, and nobody would notice. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "gguf_tokenizer.h"
#include "text/text.h"

enum {
    NORMAL = 1,
    UNKNOWN = 2,
    CONTROL = 3,
    USER = 4,
    UNUSED = 5,
    BYTE = 6
}; /* llama.cpp's types of tokens */

/* The definitions, in the words of describe(). Of one that several names stand for, the first is taken. */
#define BYTES "bytes"
#define WORDS "bytes, words of GPT-2"
#define SPLIT "split " /* then the pattern */
#define QWEN2                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| " \
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"                         \
    "|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define TEKKEN                                                                                           \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"         \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| " \
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const struct {
    const char *pre, *definition;
    bool whole; /* a piece that is a token is not split further (ignore_merges) */
} PRES[] = {
    { "gpt-2", WORDS, false },
    { "qwen2", SPLIT QWEN2 "\n" BYTES, false },
    { "llama-bpe", SPLIT LLAMA3 "\n" BYTES, true },
    { "tekken", SPLIT TEKKEN "\n" BYTES, true },
    { "smollm", "digits, one by one\n" WORDS, false },
};

typedef struct folder {
    const char *dir;
    char *texts[4];
    json_t *tokenizer, *config, *special, *model; /* files of it; NULL: it has none */
    ls_tokenizer *t;
    int64_t vocabulary;
    const int32_t *ends;
    int n_ends;
} folder;

static const char *text_in(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "";
}

static bool is_true(const json_t *j, const char *key, bool otherwise)
{
    const json_t *v = json_object_get(j, key);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

/* ---- what splits a text */

static ls_status describe(ls_str *out, const json_t *part)
{
    const char *type = text_in(part, "type"), *regex = text_in(json_object_get(part, "pattern"), "Regex");
    const json_t *list = json_object_get(part, "pretokenizers");
    for (size_t i = 0; i < json_array_size(list); i++)
        LS_TRY(describe(out, json_array_get(list, i)));
    if (list || !part || json_is_null(part))
        return LS_OK;
    ls_str_add(out, out->len ? "\n" : "");
    if (!strcmp(type, "ByteLevel") && !is_true(part, "add_prefix_space", true))
        ls_str_add(out, is_true(part, "use_regex", true) ? WORDS : BYTES);
    else if (!strcmp(type, "Split") && *regex && !strcmp(text_in(part, "behavior"), "Isolated") &&
             !is_true(part, "invert", false))
        ls_str_printf(out, SPLIT "%s", regex);
    else if (!strcmp(type, "Digits") && is_true(part, "individual_digits", false))
        ls_str_add(out, "digits, one by one");
    else
        ls_str_printf(out, "another %s", type);
    return ls_str_status(out);
}

static ls_status refuse_pre(const folder *f, const char *definition)
{
    ls_str names = { 0 };
    for (size_t i = 0; i < sizeof PRES / sizeof PRES[0]; i++)
        ls_str_printf(&names, "%s%s", i ? ", " : "", PRES[i].pre);
    const ls_status s = ls_fail(
        LS_E_UNSUPPORTED,
        "%s/tokenizer.json: llama.cpp knows a pre-tokenizer by name, and this one (%.300s) "
        "is none of those that this version knows: %s; a wrong name would split texts "
        "otherwise than in training, so no GGUF file is written",
        f->dir, definition, ls_str_text(&names));
    ls_str_release(&names);
    return s;
}

/* The name of the pre-tokenizer. Without merges it does not matter where a text is split. */
static ls_status find_pre(const folder *f, const char **pre)
{
    ls_str is = { 0 };
    int64_t merges = (int64_t)json_array_size(
        json_object_get(json_object_get(f->tokenizer, "model"), "merges"));
    ls_status s = describe(&is, json_object_get(f->tokenizer, "pre_tokenizer"));
    *pre = NULL;
    for (size_t i = 0; s == LS_OK && i < sizeof PRES / sizeof PRES[0] && !*pre; i++)
        if (!strcmp(PRES[i].definition, ls_str_text(&is)) &&
            (PRES[i].whole == f->t->bpe->ignore_merges || !merges))
            *pre = PRES[i].pre;
    for (int i = 0; s == LS_OK && i < f->t->n_normalizers; i++)
        if (f->t->normalizers[i].kind != LS_NORMAL_NFC) /* (llama.cpp takes texts as composed) */
            s = ls_fail(LS_E_UNSUPPORTED,
                        "%s/tokenizer.json: llama.cpp has no such normalizer for byte-level BPE", f->dir);
    if (s == LS_OK && !*pre)
        s = refuse_pre(f, ls_str_text(&is));
    ls_str_release(&is);
    return s;
}

/* ---- tokens */

static const ls_added *added_of(const folder *f, int32_t id)
{
    for (int i = 0; i < f->t->n_added; i++)
        if (f->t->added[i].id == id)
            return &f->t->added[i];
    return NULL;
}

static void put_tokens(ls_gguf_keys *k, const folder *f)
{
    const ls_vocab *v = &f->t->vocab;
    char unused[32];
    ls_gguf_array(k, "tokenizer.ggml.tokens", LS_GGUF_TEXT, (uint64_t)f->vocabulary);
    for (int32_t id = 0; id < f->vocabulary; id++) {
        const char *token = id < v->size ? v->text[id] : NULL;
        if (!token)
            snprintf(unused, sizeof unused, "[PAD%d]", id); /* a row of the table without a token */
        ls_gguf_item_text(k, token ? token : unused, token ? v->length[id] : strlen(unused));
    }
}

static int type_of(const folder *f, int32_t id, bool sentencepiece)
{
    const ls_vocab *v = &f->t->vocab;
    const ls_added *a = added_of(f, id);
    if (id >= v->size || !v->text[id])
        return UNUSED;
    if (sentencepiece && id == f->t->bpe->unknown)
        return UNKNOWN;
    if (a)
        return a->special ? CONTROL : USER;
    return sentencepiece && ls_fallback_byte(v->text[id], v->length[id]) >= 0 ? BYTE : NORMAL;
}

static void put_types(ls_gguf_keys *k, const folder *f, bool sentencepiece)
{
    ls_gguf_array(k, "tokenizer.ggml.token_type", LS_GGUF_I32, (uint64_t)f->vocabulary);
    for (int32_t id = 0; id < f->vocabulary; id++)
        ls_gguf_item_i32(k, type_of(f, id, sentencepiece));
    for (int i = 0; i < f->t->n_added; i++)
        if (f->t->added[i].lstrip || f->t->added[i].rstrip)
            ls_log_warn(
                "%s/tokenizer.json: the added token \"%s\" takes the white space beside it, which llama.cpp "
                "does not do",
                f->dir, f->t->added[i].text);
}

/* ---- merges */

static int by_rank(const void *a, const void *b)
{
    const ls_merge *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The merges in their order. */
static ls_status list_merges(ls_merge **out, int64_t *n, const ls_bpe *b)
{
    *out = ls_sys_malloc(sizeof **out * ((size_t)b->mask + 2));
    *n = 0;
    LS_TRY(ls_sys_have(*out));
    for (uint32_t i = 0; i <= b->mask; i++)
        if (b->merges[i].rank >= 0)
            (*out)[(*n)++] = b->merges[i];
    qsort(*out, (size_t)*n, sizeof **out, by_rank);
    return LS_OK;
}

static ls_status put_merges(ls_gguf_keys *k, const folder *f)
{
    const ls_vocab *v = &f->t->vocab;
    ls_merge *list;
    int64_t n;
    ls_str both = { 0 };
    ls_status s = list_merges(&list, &n, f->t->bpe);
    ls_gguf_array(k, "tokenizer.ggml.merges", LS_GGUF_TEXT, (uint64_t)n);
    for (int64_t i = 0; i < n && s == LS_OK; i++) {
        const int32_t left = (int32_t)(list[i].pair >> 32), right = (int32_t)list[i].pair;
        ls_str_clear(&both);
        ls_str_add_n(&both, v->text[left], v->length[left]);
        ls_str_add(&both, " ");
        ls_str_add_n(&both, v->text[right], v->length[right]);
        s = ls_str_status(&both);
        ls_gguf_item_text(k, ls_str_text(&both), both.len);
    }
    ls_str_release(&both);
    free(list);
    return s;
}

/* In how many places a token can be cut into two tokens that are not added ones. */
static int64_t cuts_of(const folder *f, int32_t id)
{
    const ls_vocab *v = &f->t->vocab;
    const char *text = v->text[id];
    const size_t n = v->length[id];
    int64_t cuts = 0;
    uint32_t c;
    for (size_t at = ls_utf8_next(text, &c); at < n; at += ls_utf8_next(text + at, &c)) {
        const int32_t left = ls_vocab_find(v, text, at), right = ls_vocab_find(v, text + at, n - at);
        cuts += left >= 0 && right >= 0 && !added_of(f, left) && !added_of(f, right);
    }
    return cuts;
}

static ls_status refuse_merges(const folder *f, int32_t id)
{
    return ls_fail(
        LS_E_UNSUPPORTED,
        "%s/tokenizer.json: its merges are not SentencePiece's: token %d (\"%s\") is not made wherever "
        "its two parts meet, or not in one turn; llama.cpp, which keeps no merges, would make other ids",
        f->dir, id, f->t->vocab.text[id]);
}

/* score[id]: minus the turn in which the token is made. All merges that make a token must follow each other,
 * and be every cut of it: then the order of merges is an order of tokens. */
static ls_status find_scores(float *score, const folder *f)
{
    ls_merge *list;
    int64_t n, turn = 0;
    ls_status s = list_merges(&list, &n, f->t->bpe);
    for (int64_t i = 0, end; i < n && s == LS_OK; i = end, turn++) {
        const int32_t id = list[i].id;
        for (end = i + 1; end < n && list[end].id == id;)
            end++;
        if (score[id] != 0 || end - i != cuts_of(f, id))
            s = refuse_merges(f, id);
        score[id] = -(float)(turn + 1);
    }
    for (int32_t id = 0; id < f->vocabulary && s == LS_OK; id++)
        if (score[id] == 0 && type_of(f, id, true) == NORMAL) /* characters, and tokens that nothing makes */
            s = cuts_of(f, id) ? refuse_merges(f, id) : LS_OK;
    free(list);
    return s;
}

static ls_status put_scores(ls_gguf_keys *k, const folder *f)
{
    float *score = ls_sys_calloc((size_t)f->vocabulary + 1, sizeof *score);
    LS_TRY(ls_sys_have(score));
    const ls_status s = find_scores(score, f);
    ls_gguf_array(k, "tokenizer.ggml.scores", LS_GGUF_F32, (uint64_t)f->vocabulary);
    for (int32_t id = 0; id < f->vocabulary; id++)
        ls_gguf_item_f32(k, score[id]);
    free(score);
    return s;
}

/* ---- SentencePiece */

static bool is_mark(const char *text) { return text && !strcmp(text, "\xe2\x96\x81"); }

/* Whether spaces become marks, and nothing else happens to the text. *prefix: it begins with a mark of its
 * own. */
static bool is_sentencepiece(const folder *f, bool *prefix)
{
    const ls_tokenizer *t = f->t;
    const json_t *pre = json_object_get(f->tokenizer, "pre_tokenizer");
    const ls_normalizer *z = t->normalizers;
    const int n = t->n_normalizers;
    *prefix = n == 2 && z[0].kind == LS_NORMAL_PREPEND && is_mark(z[0].to);
    if (n == 1 + *prefix && z[n - 1].kind == LS_NORMAL_REPLACE && !strcmp(z[n - 1].from, " ") &&
        is_mark(z[n - 1].to)) /* then there are no spaces left to split at */
        return !t->n_splitters || (!strcmp(text_in(pre, "type"), "Split") &&
                                   !strcmp(text_in(json_object_get(pre, "pattern"), "String"), " "));
    *prefix = t->n_splitters == 1 && t->splitters[0].prepend != LS_PREPEND_NEVER;
    return !n && t->n_splitters == 1 && t->splitters[0].kind == LS_SPLIT_METASPACE &&
           is_mark(t->splitters[0].mark) && !t->splitters[0].split;
}

static ls_status put_sentencepiece(ls_gguf_keys *k, const folder *f)
{
    bool prefix;
    if (!is_sentencepiece(f, &prefix))
        return ls_fail(
            LS_E_UNSUPPORTED,
            "%s/tokenizer.json: BPE with byte_fallback, but not SentencePiece's: its normalizer or "
            "pre-tokenizer does more than to put U+2581 in place of spaces, and llama.cpp has no such one",
            f->dir);
    for (int b = 0; b < 256; b++)
        if (f->t->bpe->byte_ids[b] < 0)
            return ls_fail(LS_E_UNSUPPORTED, "%s/tokenizer.json: no token <0x%02X>; llama.cpp needs all 256",
                           f->dir, (unsigned)b);
    ls_gguf_text(k, "tokenizer.ggml.model", "llama");
    ls_gguf_text(k, "tokenizer.ggml.pre", "default");
    put_tokens(k, f);
    LS_TRY(put_scores(k, f));
    put_types(k, f, true);
    ls_gguf_bool(k, "tokenizer.ggml.add_space_prefix", prefix);
    return LS_OK;
}

static ls_status put_bytes(ls_gguf_keys *k, const folder *f)
{
    const char *pre;
    LS_TRY(find_pre(f, &pre));
    ls_gguf_text(k, "tokenizer.ggml.model", "gpt2");
    ls_gguf_text(k, "tokenizer.ggml.pre", pre);
    put_tokens(k, f);
    put_types(k, f, false);
    return put_merges(k, f);
}

/* ---- special tokens */

/* The id of "bos_token" or so; -1: the folder names none. */
static int32_t special_id(const folder *f, const char *key)
{
    const json_t *from[] = { f->config, f->special };
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(from[i], key);
        const char *text = json_is_object(v) ? text_in(v, "content") : json_string_value(v);
        const int32_t id = text ? ls_tokenizer_id(f->t, text) : -1;
        if (id >= 0)
            return id;
    }
    char number[32];
    snprintf(number, sizeof number, "%s_id", key);
    const json_t *v = json_object_get(f->model, number);
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < f->vocabulary
               ? (int32_t)json_integer_value(v)
               : -1;
}

static void put_id(ls_gguf_keys *k, const char *key, int32_t id)
{
    if (id >= 0)
        ls_gguf_u32(k, key, (uint32_t)id);
}

/* What the tokenizer puts around a text must be the token that llama.cpp puts there. */
static ls_status around(const folder *f, const char *where, int n, const int32_t *ids, int32_t *special)
{
    if (n > 0 && *special < 0)
        *special = ids[0];
    return n == 0 || (n == 1 && ids[0] == *special)
               ? LS_OK
               : ls_fail(LS_E_UNSUPPORTED,
                         "%s/tokenizer.json: it puts other tokens %s a text than the one that the folder "
                         "names, which "
                         "a GGUF file cannot say",
                         f->dir, where);
}

static ls_status put_special(ls_gguf_keys *k, const folder *f)
{
    const ls_tokenizer *t = f->t;
    int32_t bos = special_id(f, "bos_token"), eos = special_id(f, "eos_token");
    LS_TRY(around(f, "before", t->n_before, t->before, &bos));
    LS_TRY(around(f, "after", t->n_after, t->after, &eos));
    if (eos < 0 && f->n_ends)
        eos = f->ends[0];
    put_id(k, "tokenizer.ggml.bos_token_id", bos);
    put_id(k, "tokenizer.ggml.eos_token_id", eos);
    put_id(k, "tokenizer.ggml.unknown_token_id", special_id(f, "unk_token"));
    put_id(k, "tokenizer.ggml.padding_token_id", special_id(f, "pad_token"));
    int other = 0; /* a second token that ends a text */
    while (other < f->n_ends && f->ends[other] == eos)
        other++;
    if (other < f->n_ends)
        put_id(k, "tokenizer.ggml.eot_token_id", f->ends[other]);
    ls_gguf_bool(k, "tokenizer.ggml.add_bos_token", t->n_before > 0);
    ls_gguf_bool(k, "tokenizer.ggml.add_eos_token", t->n_after > 0);
    return LS_OK;
}

/* A list of templates has one of the name "default". */
static ls_status put_template(ls_gguf_keys *k, const folder *f)
{
    const json_t *said = json_object_get(f->config, "chat_template");
    const char *text = json_string_value(said);
    char *path = ls_path_join(f->dir, "chat_template.jinja"), *file = NULL;
    size_t size = 0;
    ls_status s = ls_file_exists(path) ? ls_file_read(&file, &size, path) : LS_OK;
    for (size_t i = 0; i < json_array_size(said); i++)
        if (!strcmp(text_in(json_array_get(said, i), "name"), "default"))
            text = json_string_value(json_object_get(json_array_get(said, i), "template"));
    if (s == LS_OK && (file || text))
        ls_gguf_text(k, "tokenizer.chat_template", file ? file : text);
    free(file);
    free(path);
    return s;
}

/* ---- */

static ls_status read_file(const folder *f, const char *name, char **text, json_t **out)
{
    char *path = ls_path_join(f->dir, name);
    size_t size = 0;
    ls_status s = ls_file_exists(path) ? ls_file_read(text, &size, path) : LS_OK;
    if (s == LS_OK && *text)
        s = ls_json_parse(out, *text, size, path);
    free(path);
    return s;
}

static ls_status put_keys(ls_gguf_keys *k, folder *f)
{
    LS_TRY(read_file(f, "tokenizer.json", &f->texts[0], &f->tokenizer));
    if (!f->tokenizer)
        return ls_fail(
            LS_E_USAGE,
            "%s: no tokenizer.json, and a GGUF file contains the tokenizer: copy it there (checkpoints of "
            "this version have it)",
            f->dir);
    LS_TRY(read_file(f, "tokenizer_config.json", &f->texts[1], &f->config));
    LS_TRY(read_file(f, "special_tokens_map.json", &f->texts[2], &f->special));
    LS_TRY(read_file(f, "config.json", &f->texts[3], &f->model));
    LS_TRY(ls_tokenizer_open(&f->t, f->dir));
    if (f->t->vocab.size > f->vocabulary)
        return ls_fail(LS_E_USAGE, "%s: the tokenizer has ids up to %d, and the model's vocabulary is %lld",
                       f->dir, f->t->vocab.size - 1, (long long)f->vocabulary);
    if (!f->t->bpe)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s/tokenizer.json: a Unigram tokenizer; GGUF files are written with BPE ones",
                       f->dir);
    LS_TRY((f->t->bpe->byte_fallback ? put_sentencepiece : put_bytes)(k, f));
    LS_TRY(put_special(k, f));
    return put_template(k, f);
}

ls_status ls_gguf_tokenizer(ls_gguf_keys *k, const char *dir, int64_t vocabulary, const int32_t *ends,
                            int n_ends)
{
    folder f = { .dir = dir, .vocabulary = vocabulary, .ends = ends, .n_ends = n_ends };
    const ls_status s = put_keys(k, &f);
    json_decref(f.tokenizer);
    json_decref(f.config);
    json_decref(f.special);
    json_decref(f.model);
    for (int i = 0; i < 4; i++)
        free(f.texts[i]);
    ls_tokenizer_close(&f.t);
    return s;
}
