/* test_tokenizer.c - tokenizers against Hugging Face's library (tests/golden/tokenizers.json, made by
 * tools/golden/tokenizers.py): four small ones that lie beside it, Qwen2.5's and T5's when LOCKSTEP_DATA has
 * them. And what is refused. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "lockstep/tokenizer.h"
#include "support/support.h"

static json_t *golden;

static int read_golden(void **state)
{
    (void)state;
    char *text;
    size_t n;
    ASSERT_OK(ls_file_read(&text, &n, LS_TEST_SOURCE_DIR "/tests/golden/tokenizers.json"));
    ASSERT_OK(ls_json_parse(&golden, text, n, "tokenizers.json"));
    free(text);
    return 0;
}

static int drop_golden(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static void expect_ids(const char *name, int text, const ls_tokens *got, const json_t *want)
{
    bool same = got->n == (int64_t)json_array_size(want);
    for (int64_t i = 0; i < got->n && same; i++)
        same = got->ids[i] == json_integer_value(json_array_get(want, (size_t)i));
    if (!same)
        fail_msg("%s: text %d has other ids (%lld, not %zu)", name, text, (long long)got->n,
                 json_array_size(want));
}

static void expect_text(const char *name, const ls_tokenizer *t, const ls_tokens *ids, bool skip,
                        const char *want)
{
    char *text;
    size_t bytes;
    ASSERT_OK(ls_tokenizer_decode(t, ids->ids, ids->n, skip, &text, &bytes));
    if (bytes != strlen(want) || memcmp(text, want, bytes) != 0)
        fail_msg("%s: ids give \"%s\" instead of \"%s\"", name, text, want);
    free(text);
}

/* The same as the ids come: whole characters only, which together are the text. */
static void expect_streamed(const char *name, const ls_tokenizer *t, const ls_tokens *ids, const char *want)
{
    ls_text_stream *s;
    ls_str all = { 0 };
    ASSERT_OK(ls_text_stream_create(&s, t));
    for (int64_t i = 0; i <= ids->n; i++) {
        const char *text;
        size_t bytes;
        if (i < ids->n)
            ASSERT_OK(ls_text_stream_add(s, ids->ids[i], &text, &bytes));
        else
            ls_text_stream_end(s, &text, &bytes);
        if (ls_utf8_sound(text, bytes) != bytes)
            fail_msg("%s: token %lld of \"%s\" gave a part of a character", name, (long long)i, want);
        ls_str_add_n(&all, text, bytes);
    }
    if (strcmp(ls_str_text(&all), want))
        fail_msg("%s: one by one the ids give \"%s\" instead of \"%s\"", name, ls_str_text(&all), want);
    ls_str_release(&all);
    ls_text_stream_destroy(&s);
}

static void streams_bytes(void **state)
{
    (void)state;
    ls_tokenizer *t;
    ASSERT_OK(ls_tokenizer_open(&t, "bytes"));
    /* two, three and four bytes; cut characters, in the middle and at the end; a byte that is none; the end
     * token; ids beyond the tokenizer's */
    static int32_t ids[] = { 'a',  0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80,
                             0xe2, 0x82, 'b',  0xff, 256,  'c',  5000, 0xf0, 0x9f };
    expect_streamed("bytes", t, &(ls_tokens){ ids, sizeof ids / sizeof ids[0], 0 },
                    "a\u00e9\u20ac\U0001f600\ufffdb\ufffdc\ufffd");
    ls_tokenizer_close(&t);
}

/* What Hugging Face's library makes of byte tokens: a run that is no text as a whole is U+FFFD for each of
 * its bytes. */
static void byte_fallback(void **state)
{
    (void)state;
    enum { END = -1, A = -2, SPACE = -3 };
    static const struct {
        int tokens[8];
        const char *text, *streamed;
    } CASES[] = {
        /* streamed: where it differs */
        { { 0x41, 0x80, 0x42, END }, "\ufffd\ufffd\ufffd", "A\ufffd\ufffd" },
        { { 0x41, END }, "A", NULL },
        { { 0xe2, 0x82, END }, "\ufffd\ufffd", NULL },
        { { A, 0xe2, 0x82, A, END }, "a\ufffd\ufffda", NULL },
        { { 0xe2, 0x82, 0xac, 0x41, END }, "\u20acA", NULL },
        { { A, 0x41, 0x80, SPACE, 0x42, END }, "a\ufffd\ufffd B", "aA\ufffd B" },
        { { 0xc3, A, 0xa9, END }, "\ufffda\ufffd", NULL },
        { { 0x80, 0x41, 0xe2, 0x82, 0xac, END }, "\ufffd\ufffd\ufffd\ufffd\ufffd", NULL },
        { { A, 0x20, 0x0a, A, END }, "a \na", NULL },
    };
    ls_tokenizer *t;
    ASSERT_OK(ls_tokenizer_open(&t, LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_llama.json"));
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        int32_t ids[8];
        ls_tokens list = { ids, 0, 0 };
        for (; CASES[i].tokens[list.n] != END; list.n++) {
            char name[8];
            snprintf(name, sizeof name, "<0x%02X>", (unsigned)CASES[i].tokens[list.n] & 0xff);
            ids[list.n] = ls_tokenizer_id(t, CASES[i].tokens[list.n] == A       ? "a"
                                             : CASES[i].tokens[list.n] == SPACE ? "\u2581"
                                                                                : name);
            assert_true(ids[list.n] >= 0);
        }
        expect_text("llama", t, &list, true, CASES[i].text);
        expect_streamed("llama", t, &list, CASES[i].streamed ? CASES[i].streamed : CASES[i].text);
    }
    ls_tokenizer_close(&t);
}

static void compare(const char *name, const char *path)
{
    ls_tokenizer *t;
    const json_t *texts = json_object_get(golden, "texts"),
                 *of = json_object_get(json_object_get(golden, "of"), name);
    ASSERT_OK(ls_tokenizer_open(&t, path));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        ls_tokens ids = { 0 }, plain = { 0 };
        ASSERT_OK(ls_tokenizer_encode(t, text, strlen(text), true, &ids));
        ASSERT_OK(ls_tokenizer_encode(t, text, strlen(text), false, &plain));
        expect_ids(name, (int)i, &ids, json_array_get(json_object_get(of, "ids"), i));
        expect_ids(name, (int)i, &plain, json_array_get(json_object_get(of, "plain"), i));
        expect_text(name, t, &ids, true, json_string_value(json_array_get(json_object_get(of, "text"), i)));
        expect_streamed(name, t, &ids, json_string_value(json_array_get(json_object_get(of, "text"), i)));
        expect_text(name, t, &ids, false,
                    json_string_value(json_array_get(json_object_get(of, "text_with_special"), i)));
        free(ids.ids);
        free(plain.ids);
    }
    ls_tokenizer_close(&t);
    assert_null(t);
}

static void small_ones(void **state)
{
    (void)state;
    compare("bpe", LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_bpe.json");
    compare("gpt2", LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_gpt2.json");
    compare("llama", LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_llama.json");
    compare("unigram", LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_unigram.json");
}

static void real_ones(void **state)
{
    (void)state;
    static const char *const NAMES[] = { "qwen2.5", "t5-base" };
    const char *data = ls_test_data("tokenizers of Qwen2.5 and T5");
    for (int i = 0; i < 2 && data; i++) {
        char *path = ls_path_join(data, NAMES[i]);
        if (ls_dir_exists(path))
            compare(NAMES[i], path); /* a folder with a tokenizer.json */
        free(path);
    }
}

static void expect_small(const ls_tokenizer *t, const char *text, int n, const int32_t *want)
{
    ls_tokens ids = { 0 };
    ASSERT_OK(ls_tokenizer_encode(t, text, strlen(text), true, &ids));
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.ids, want, sizeof *want * (size_t)n);
    free(ids.ids);
}

/* Ten pieces: <pad> </s> <unk> \u2581 a b ab \u2581ab <mark> \u00e9. */
static void sentencepiece(void **state)
{
    (void)state;
    ls_tokenizer *t;
    ls_tokens ids = { 0 };
    ASSERT_OK(ls_tokenizer_open(&t, LS_TEST_SOURCE_DIR "/tests/fuzz/corpus/sentencepiece/small.model"));
    assert_int_equal(ls_tokenizer_size(t), 10);
    expect_small(t, "", 1, (int32_t[]){ 1 });
    expect_small(t, " ab  ba\n", 5, (int32_t[]){ 7, 3, 5, 4, 1 });
    expect_small(t, "aab\xc3\xa9 zz", 7, (int32_t[]){ 3, 4, 6, 9, 3, 2, 1 });
    expect_small(t, "a<mark>b</s>", 7, (int32_t[]){ 3, 4, 8, 3, 5, 1, 1 });
    ASSERT_OK(ls_tokenizer_encode(t, "ab ba", 5, true, &ids));
    expect_text("small.model", t, &ids, true, "ab ba");
    free(ids.ids);
    ls_tokenizer_close(&t);
    ASSERT_FAILS(ls_tokenizer_open(&t, LS_TEST_SOURCE_DIR "/tests/fuzz/corpus/sentencepiece/bpe.model"),
                 LS_E_UNSUPPORTED, "bpe.model", "of kind BPE");
    ASSERT_FAILS(
        ls_tokenizer_open(&t, LS_TEST_SOURCE_DIR "/tests/fuzz/corpus/sentencepiece/damaged_map.model"),
        LS_E_FORMAT, "damaged_map.model", "precompiled_charsmap is damaged");
    const char *cut = ls_test_path("cut.model");
    char *whole;
    size_t n;
    ASSERT_OK(ls_file_read(&whole, &n, LS_TEST_SOURCE_DIR "/tests/fuzz/corpus/sentencepiece/small.model"));
    ASSERT_OK(ls_file_write(cut, whole, n - 1));
    ASSERT_FAILS(ls_tokenizer_open(&t, cut), LS_E_FORMAT, "cut.model", "no sound SentencePiece model");
    free(whole);
}

/* T5's spiece.model gives the ids of its tokenizer.json, but for the <extra_id_...> that only the latter has.
 */
static void real_sentencepiece(void **state)
{
    (void)state;
    const char *data = ls_test_data("the SentencePiece model of T5");
    if (!data)
        return;
    char *folder = ls_path_join(data, "t5-base"), *path = ls_path_join(folder, "spiece.model"),
         *other = ls_path_join(data, "sentencepiece-fixtures/test_sentencepiece_bpe.model");
    const json_t *texts = json_object_get(golden, "texts"),
                 *of = json_object_get(json_object_get(golden, "of"), "t5-base");
    ls_tokenizer *t;
    ASSERT_OK(ls_tokenizer_open(&t, path));
    assert_int_equal(ls_tokenizer_size(t), 32000);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        ls_tokens ids = { 0 };
        if (strstr(text, "<extra_id_"))
            continue;
        ASSERT_OK(ls_tokenizer_encode(t, text, strlen(text), true, &ids));
        expect_ids("spiece.model", (int)i, &ids, json_array_get(json_object_get(of, "ids"), i));
        expect_text("spiece.model", t, &ids, true,
                    json_string_value(json_array_get(json_object_get(of, "text"), i)));
        free(ids.ids);
    }
    ls_tokenizer_close(&t);
    if (ls_file_exists(other))
        ASSERT_FAILS(ls_tokenizer_open(&t, other), LS_E_UNSUPPORTED, "of kind BPE", "");
    free(folder);
    free(path);
    free(other);
}

static void tokens_by_name(void **state)
{
    (void)state;
    ls_tokenizer *t;
    ASSERT_OK(ls_tokenizer_open(&t, LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_unigram.json"));
    assert_int_equal(ls_tokenizer_id(t, "</s>"), 1);
    assert_string_equal(ls_tokenizer_token(t, 2), "<unk>");
    assert_int_equal(ls_tokenizer_id(t, "no such token"), -1);
    assert_null(ls_tokenizer_token(t, ls_tokenizer_size(t)));
    assert_null(ls_tokenizer_token(t, -1));
    char *text;
    size_t bytes;
    ASSERT_FAILS(ls_tokenizer_decode(t, (int32_t[]){ 5, 1 << 20 }, 2, true, &text, &bytes), LS_E_ARG,
                 "id 1048576, number 1 of 2");
    ls_tokens ids = { 0 };
    ASSERT_OK(ls_tokenizer_encode(t, "one", 3, true, &ids));
    const int64_t n = ids.n;
    ASSERT_FAILS(ls_tokenizer_encode(t, "ab\xc3", 3, true, &ids), LS_E_FORMAT, "not UTF-8: byte 2 is 0xc3");
    assert_int_equal(ids.n, n);
    ASSERT_OK(ls_tokenizer_encode(t, "one", 3, true, &ids)); /* appends */
    assert_int_equal(ids.n, 2 * n);
    assert_memory_equal(ids.ids, ids.ids + n, sizeof *ids.ids * (size_t)n);
    free(ids.ids);
    ls_tokenizer_close(&t);
}

static void *encode_much(void *tokenizer)
{
    for (int i = 0; i < 50; i++) {
        ls_tokens ids = { 0 };
        static const char TEXT[] = "the ranks \xc3\xa9l\xc3\xa8ve stop \xf0\x9f\x98\x80";
        if (ls_tokenizer_encode(tokenizer, TEXT, sizeof TEXT - 1, true, &ids) != LS_OK || ids.n < 5)
            return "failed";
        free(ids.ids);
    }
    return NULL;
}

static void from_many_threads(void **state)
{
    (void)state;
    ls_tokenizer *t;
    pthread_t threads[3];
    void *wrong;
    ASSERT_OK(ls_tokenizer_open(&t, LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_bpe.json"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_much, t), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    ls_tokenizer_close(&t);
}

/* A tokenizer of one's own. */
static ls_tokenizer *made(const char *json)
{
    ls_tokenizer *t;
    const char *path = ls_test_path("tokenizer.json");
    ASSERT_OK(ls_file_write(path, json, strlen(json)));
    ASSERT_OK(ls_tokenizer_open(&t, path));
    return t;
}

/* \w, \s, \d and \b are Unicode's, as in the patterns of Hugging Face's library. */
static void patterns_are_unicode(void **state)
{
    (void)state;
    static const char JSON[] =
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\u00e9\":1,\"\u0663\":2,\"\u3000\":3,\"a\u00e9\":4,"
        "\"a\u0663\":5,\"a\u3000\":6,"
        "\"\u180e\":7,\"a\u180e\":8,\"]\":9,\"a]\":10},\"merges\":[\"a \u00e9\",\"a \u0663\",\"a "
        "\u3000\",\"a \u180e\",\"a ]\"]}}";
    static const struct {
        const char *pattern, *text;
        int n;
        int32_t ids[3];
    } CASES[] = {
        { "\\\\w+", "a\u00e9", 1, { 4 } },   /* a letter belongs to the word */
        { "\\\\d", "a\u0663", 2, { 0, 2 } }, /* an Arabic digit is a digit */
        { "\\\\s", "a\u3000", 2, { 0, 3 } }, /* an ideographic space is a space */
        { "\\\\S+", "a\u3000", 2, { 0, 3 } },
        { "a\\\\b", "a\u00e9", 1, { 4 } }, /* no end of a word: nothing is split */
        { "a\\\\b", "a\u3000", 2, { 0, 3 } },
        { "\\\\s", "a\u180e", 1, { 8 } }, /* U+180E is no white space since Unicode 6.3 */
        { "\\\\S+", "a\u180e", 1, { 8 } },
        { "[^\\\\s]+", "a\u180e", 1, { 8 } },
        { "[^\\\\S]", "a\u3000", 2, { 0, 3 } },
        { "[\\\\S\\\\]]+", "a\u180e", 1, { 8 } },
        { "[]\\\\s]", "a]", 2, { 0, 9 } },
        { "[^]\\\\s]", "a]", 2, { 0, 9 } },
        { "\\\\[\\\\s", "a\u180e", 1, { 8 } }, /* an escaped [ begins no class */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char json[600];
        snprintf(json, sizeof json, JSON, CASES[i].pattern);
        ls_tokenizer *t = made(json);
        expect_small(t, CASES[i].text, CASES[i].n, CASES[i].ids);
        ls_tokenizer_close(&t);
    }
}

/* U+180E, a format character since Unicode 6.3, ends white space: the ids are those of tokenizers 0.23.3. */
static void white_space(void **state)
{
    (void)state;
    static const char TEXT[] = "x  \u180e the";
    ls_tokenizer *t;
    ASSERT_OK(ls_tokenizer_open(&t, LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_gpt2.json"));
    expect_small(t, TEXT, 8, (int32_t[]){ 220, 87, 220, 220, 157, 254, 236, 264 });
    ls_tokenizer_close(&t);
    ASSERT_OK(ls_tokenizer_open(&t, LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_bpe.json"));
    expect_small(t, TEXT, 7, (int32_t[]){ 87, 220, 220, 157, 254, 236, 263 });
    ls_tokenizer_close(&t);
    const char *data = ls_test_data("the tokenizer of Qwen2.5");
    char *path = data ? ls_path_join(data, "qwen2.5") : NULL;
    if (path && ls_dir_exists(path)) {
        ASSERT_OK(ls_tokenizer_open(&t, path));
        expect_small(t, TEXT, 6, (int32_t[]){ 87, 220, 86089, 254, 236, 279 });
        ls_tokenizer_close(&t);
    }
    free(path);
}

/* A token that has to be a word of its own and is not is text, all of it: no other token begins inside. */
static void single_words(void **state)
{
    (void)state;
    ls_tokenizer *t = made(
        "{\"added_tokens\":[{\"id\":4,\"content\":\"abc\",\"single_word\":true},{\"id\":5,\"content\":\"bc\"}"
        "],"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\" \":2,\"c\":3},\"merges\":[]}}");
    expect_small(t, "abc", 1, (int32_t[]){ 4 });
    expect_small(t, "a abc a", 5, (int32_t[]){ 0, 2, 4, 2, 0 });
    expect_small(t, "aabc", 4, (int32_t[]){ 0, 0, 1, 3 }); /* not 0, 0, 5 */
    expect_small(t, "abca", 4, (int32_t[]){ 0, 1, 3, 0 });
    expect_small(t, "abcabc abc", 8, (int32_t[]){ 0, 1, 3, 0, 1, 3, 2, 4 });
    expect_small(t, "bc aabcbc", 7, (int32_t[]){ 5, 2, 0, 0, 1, 3, 5 });
    ls_tokenizer_close(&t);
}

/* Characters that no token is: one unknown token each, or one for a run of them. */
static void unknown_characters(void **state)
{
    (void)state;
    for (int fuse = 0; fuse < 2; fuse++) {
        char json[200];
        snprintf(
            json, sizeof json,
            "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":%s,\"vocab\":{\"?\":0,\"a\":1},"
            "\"merges\":[]}}",
            fuse ? "true" : "false");
        ls_tokenizer *t = made(json);
        if (fuse)
            expect_small(t, "xyaz", 3, (int32_t[]){ 0, 1, 0 });
        else
            expect_small(t, "xyaz", 4, (int32_t[]){ 0, 0, 1, 0 });
        ls_tokenizer_close(&t);
    }
}

/* Unigram: the greatest sum, of equal ones that with the longer token first; a character that no token is
 * costs 10 more than the worst of them. */
static void unigram_sums(void **state)
{
    (void)state;
    static const struct {
        const char *vocab, *text;
        int n;
        int32_t ids[3];
    } CASES[] = {
        { "[\"a\",-1],[\"b\",-1],[\"ab\",-2]", "ab", 1, { 3 } },
        { "[\"ab\",-20],[\"c\",-8],[\"bc\",-1]", "abc", 2, { 1, 2 } },  /* -28; unknown and bc: -31 */
        { "[\"ab\",-20],[\"c\",-12],[\"bc\",-1]", "abc", 2, { 0, 3 } }, /* -32; unknown and bc: -31 */
        { "[\"ab\",-20],[\"bc\",-1]", "abc", 2, { 0, 2 } },             /* a begins a token and is none */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char json[200];
        snprintf(json, sizeof json,
                 "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],%s]}}", CASES[i].vocab);
        ls_tokenizer *t = made(json);
        expect_small(t, CASES[i].text, CASES[i].n, CASES[i].ids);
        ls_tokenizer_close(&t);
    }
}

static void expect_decoded(const char *decoder, const char *tokens, int64_t n, const char *want)
{
    char json[400];
    int32_t ids[3] = { 0, 1, 2 };
    snprintf(json, sizeof json, "{\"decoder\":%s,\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[]}}",
             decoder, tokens);
    ls_tokenizer *t = made(json);
    expect_text(decoder, t, &(ls_tokens){ ids, n, n }, false, want);
    ls_tokenizer_close(&t);
}

/* The space before the first word, which "never" keeps; a byte-level token with a character that stands for
 * no byte, taken whole. */
static void decoders(void **state)
{
    (void)state;
    expect_decoded("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"}",
                   "\"_a\":0,\"_b\":1", 2, "a b");
    expect_decoded("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\"}",
                   "\"_a\":0,\"_b\":1", 2, " a b");
    expect_decoded("{\"type\":\"ByteLevel\"}", "\"a\u4e2d\":0,\"\u0120b\":1", 2, "a\u4e2d b");
}

static void replacements(void **state)
{
    (void)state;
    ls_tokenizer *t = made(
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"c\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]}}");
    expect_small(t, "abaabb", 4, (int32_t[]){ 2, 0, 2, 1 });
    ls_tokenizer_close(&t);
}

/* One word may be as long as a file. */
static void stops(void **state)
{
    (void)state;
    static const char *const FILES[] = { "tokenizer_bpe.json", "tokenizer_unigram.json" };
    static volatile sig_atomic_t flag = 1;
    static char word[1 << 18];
    memset(word, 'e', sizeof word);
    for (int i = 0; i < 2; i++) {
        ls_tokenizer *t;
        ls_tokens ids = { 0 };
        char path[512];
        snprintf(path, sizeof path, LS_TEST_SOURCE_DIR "/tests/golden/%s", FILES[i]);
        ASSERT_OK(ls_tokenizer_open(&t, path));
        ls_stop_on(&flag);
        ASSERT_FAILS(ls_tokenizer_encode(t, word, sizeof word, false, &ids), LS_E_STOPPED, "stopped while");
        assert_int_equal(ids.n, 0);
        ls_stop_on(NULL);
        ASSERT_OK(ls_tokenizer_encode(t, word, sizeof word, false, &ids));
        assert_true(ids.n > 0);
        free(ids.ids);
        ls_tokenizer_close(&t);
    }
}

/* Every allocation fails once: opening or encoding ends with LS_E_MEMORY, and nothing aborts. */
static void no_memory(void **state)
{
    (void)state;
    static const char *const FILES[] = { "tokenizer_bpe.json", "tokenizer_unigram.json" };
    char text[512];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 7 ? (char)('a' + i % 26) : ' ';
    for (int f = 0; f < 2; f++) {
        char path[512];
        snprintf(path, sizeof path, LS_TEST_SOURCE_DIR "/tests/golden/%s", FILES[f]);
        int64_t failures = 0;
        for (ls_status s = LS_E_MEMORY; s != LS_OK; failures++) {
            ls_tokenizer *t = NULL;
            ls_tokens ids = { 0 };
            ls_fault_arm(1u << LS_POINT_MEMORY, failures, LS_FAIL_ONCE);
            s = ls_tokenizer_open(&t, path);
            if (s == LS_OK)
                s = ls_tokenizer_encode(t, text, sizeof text, true, &ids);
            ls_fault_disarm();
            assert_true(s == LS_OK || s == LS_E_MEMORY);
            free(ids.ids);
            ls_tokenizer_close(&t);
        }
        assert_true(failures > 4);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const char MODEL[] =
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}";
    static const struct {
        const char *json, *says;
        ls_status status;
    } CASES[] = {
        { "[1]", "no tokenizer.json", LS_E_FORMAT },
        { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", "model \"WordPiece\" is not known",
          LS_E_UNSUPPORTED },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}", "merge 0",
          LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "the id is taken",
          LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-3},\"merges\":[]}}", "", LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}", "too large",
          LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":500000000},\"merges\":[]}}",
          "2 tokens have ids up to 500000000", LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"\"]}}", "merge 0 is no pair",
          LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "merge 0 is no pair",
          LS_E_FORMAT },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",-1]]}}", "unk_id", LS_E_FORMAT },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",-1],[\"a\",-2]]}}", "twice",
          LS_E_FORMAT },
        { "{\"normalizer\":{\"type\":\"Lowercase\"},%s}", "normalizer \"Lowercase\" is not known",
          LS_E_UNSUPPORTED },
        { "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"},%s}",
          "precompiled_charsmap is damaged", LS_E_FORMAT },
        { "{\"pre_tokenizer\":{\"type\":\"Punctuation\"},%s}", "pre-tokenizer \"Punctuation\"",
          LS_E_UNSUPPORTED },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"},%"
          "s}",
          "pattern (a is wrong", LS_E_FORMAT },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" "
          "\"},\"behavior\":\"MergedWithNext\"},%s}",
          "MergedWithNext", LS_E_UNSUPPORTED },
        { "{\"decoder\":{\"type\":\"WordPiece\"},%s}", "decoder \"WordPiece\"", LS_E_UNSUPPORTED },
        { "{\"post_processor\":{\"type\":\"BertProcessing\"},%s}", "post-processor \"BertProcessing\"",
          LS_E_UNSUPPORTED },
        { "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"</"
          "s>\"}}],\"special_tokens\":{}},%s}",
          "\"</s>\"", LS_E_FORMAT },
        { "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Token\":1}]},%s}",
          "neither SpecialToken nor Sequence", LS_E_FORMAT },
        { "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\"}],\"post_processor\":{\"type\":"
          "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],"
          "\"special_tokens\":{\"x\":{\"ids\":[5]}}},%s}",
          "ids that are no tokens", LS_E_FORMAT },
        { "{\"added_tokens\":[{\"id\":1,\"content\":\"new\"}],%s}", "the id is taken", LS_E_FORMAT },
        { "{\"model\":{\"type\":\"BPE\"", "not valid JSON", LS_E_FORMAT },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_tokenizer *t = NULL;
        char text[600];
        const char *path = ls_test_path("tokenizer.json");
        snprintf(text, sizeof text, CASES[i].json, MODEL);
        ASSERT_OK(ls_file_write(path, text, strlen(text)));
        ASSERT_FAILS(ls_tokenizer_open(&t, path), CASES[i].status, "tokenizer.json", CASES[i].says);
        assert_null(t);
    }
    ls_tokenizer *t;
    ASSERT_FAILS(ls_tokenizer_open(&t, ls_test_path("nothing")), LS_E_IO, "nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones),
        cmocka_unit_test(real_ones),
        cmocka_unit_test(sentencepiece),
        cmocka_unit_test(real_sentencepiece),
        cmocka_unit_test(tokens_by_name),
        cmocka_unit_test(unknown_characters),
        cmocka_unit_test(unigram_sums),
        cmocka_unit_test(decoders),
        cmocka_unit_test(replacements),
        cmocka_unit_test(patterns_are_unicode),
        cmocka_unit_test(single_words),
        cmocka_unit_test(streams_bytes),
        cmocka_unit_test(byte_fallback),
        cmocka_unit_test(white_space),
        cmocka_unit_test(from_many_threads),
        cmocka_unit_test(refusals),
        cmocka_unit_test(stops),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, read_golden, drop_golden);
}
