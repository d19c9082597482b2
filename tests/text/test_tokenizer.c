/* test_tokenizer.c - text to tokens: the ids of Hugging Face tokenizers, SentencePiece models, and rules one
 * by one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "lockstep/tokenizer.h"
#include "support/support.h"
#include "text/expected.h"

static void expect_ids(const char *name, int text, const ls_tokens *got, const json_t *want)
{
    bool same = got->n == (int64_t)json_array_size(want);
    for (int64_t i = 0; i < got->n && same; i++)
        same = got->ids[i] == json_integer_value(json_array_get(want, (size_t)i));
    if (!same)
        fail_msg("%s: text %d has other ids (%lld, not %zu)", name, text, (long long)got->n,
                 json_array_size(want));
}

static void compare(const char *name, const char *path)
{
    ls_tokenizer *t;
    const json_t *texts = json_object_get(golden_tokenizers, "texts"),
                 *of = json_object_get(json_object_get(golden_tokenizers, "of"), name);
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
    compare("digits", LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_digits.json");
    compare("marks", LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_marks.json");
}

static void real_ones(void **state)
{
    (void)state;
    static const char *const NAMES[] = { "qwen2.5", "t5-base" };
    for (int i = 0; i < 2; i++) {
        char *path = ls_path_join(ls_test_data(NAMES[i]), NAMES[i]);
        compare(NAMES[i], path); /* a folder with a tokenizer.json */
        free(path);
    }
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
    ASSERT_FAILS(ls_tokenizer_open(&t, cut), LS_E_FORMAT, "cut.model", "not a sound SentencePiece model");
    free(whole);
}

/* T5's spiece.model gives the ids of its tokenizer.json, but for the <extra_id_...> that only the latter has.
 */
static void real_sentencepiece(void **state)
{
    (void)state;
    const char *data = ls_test_data("t5-base/spiece.model");
    ls_test_data("sentencepiece-fixtures");
    char *folder = ls_path_join(data, "t5-base"), *path = ls_path_join(folder, "spiece.model"),
         *other = ls_path_join(data, "sentencepiece-fixtures/test_sentencepiece_bpe.model");
    const json_t *texts = json_object_get(golden_tokenizers, "texts"),
                 *of = json_object_get(json_object_get(golden_tokenizers, "of"), "t5-base");
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
                 "token id 1048576 (number 1 of 2)");
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
        { "\\\\s", "a\u180e", 1, { 8 } }, /* U+180E is not white space since Unicode 6.3 */
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
        ls_tokenizer *t = make_tokenizer(json);
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
    char *path = ls_path_join(ls_test_data("qwen2.5"), "qwen2.5");
    ASSERT_OK(ls_tokenizer_open(&t, path));
    expect_small(t, TEXT, 6, (int32_t[]){ 87, 220, 86089, 254, 236, 279 });
    ls_tokenizer_close(&t);
    free(path);
}

/* A token that has to be a word of its own and is not is text, all of it: no other token begins inside. */
static void single_words(void **state)
{
    (void)state;
    ls_tokenizer *t = make_tokenizer(
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

/* Of added tokens that begin at one place the longest counts, in whatever order they stand. */
static void longest_added_token(void **state)
{
    (void)state;
    ls_tokenizer *t = make_tokenizer(
        "{\"added_tokens\":[{\"id\":3,\"content\":\"ab\"},{\"id\":4,\"content\":\"abab\"},"
        "{\"id\":5,\"content\":\"aba\"}],"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\" \":2},\"merges\":[]}}");
    expect_small(t, "abab", 1, (int32_t[]){ 4 });
    expect_small(t, "aba ab", 3, (int32_t[]){ 5, 2, 3 });
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
        ls_tokenizer *t = make_tokenizer(json);
        if (fuse)
            expect_small(t, "xyaz", 3, (int32_t[]){ 0, 1, 0 });
        else
            expect_small(t, "xyaz", 4, (int32_t[]){ 0, 0, 1, 0 });
        ls_tokenizer_close(&t);
    }
    /* bytes are known, so what comes behind them is a new run */
    ls_tokenizer *t = make_tokenizer(
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":true,\"byte_fallback\":true,"
        "\"vocab\":{\"?\":0,\"a\":1,\"<0xC3>\":2,\"<0xA9>\":3},\"merges\":[]}}");
    expect_small(t, "\xc3\xa9\xc3\xa8", 3, (int32_t[]){ 2, 3, 0 });
    ls_tokenizer_close(&t);
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
        ls_tokenizer *t = make_tokenizer(json);
        expect_small(t, CASES[i].text, CASES[i].n, CASES[i].ids);
        ls_tokenizer_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones),          cmocka_unit_test(real_ones),
        cmocka_unit_test(sentencepiece),       cmocka_unit_test(real_sentencepiece),
        cmocka_unit_test(tokens_by_name),      cmocka_unit_test(unknown_characters),
        cmocka_unit_test(unigram_sums),        cmocka_unit_test(patterns_are_unicode),
        cmocka_unit_test(longest_added_token), cmocka_unit_test(single_words),
        cmocka_unit_test(white_space),         cmocka_unit_test(from_many_threads),
    };
    return cmocka_run_group_tests(tests, read_golden, drop_golden);
}
