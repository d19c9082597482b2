/* test_ranges.c - which bytes of a text a token stands for, and text that becomes no special token. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "lockstep/tokenizer.h"
#include "support/support.h"
#include "text/expected.h"

#define GOLDEN LS_TEST_SOURCE_DIR "/tests/golden/tokenizer_"

typedef struct ranged {
    ls_tokens ids;
    ls_text_ranges at;
} ranged;

static void ranged_free(ranged *r)
{
    free(r->ids.ids);
    free(r->at.at);
    *r = (ranged){ 0 };
}

static ranged encode(const ls_tokenizer *t, const char *text, int64_t n_plain, const ls_text_range *plain)
{
    ranged r = { 0 };
    ASSERT_OK(ls_tokenizer_encode_ranges(t, text, strlen(text), true, n_plain, plain, &r.ids, &r.at));
    assert_int_equal(r.ids.n, r.at.n);
    return r;
}

/* Characters that begin before byte `at`. */
static int64_t characters(const char *text, int64_t at)
{
    int64_t n = 0;
    for (int64_t i = 0; i < at; i++)
        n += ((uint8_t)text[i] & 0xc0) != 0x80;
    return n;
}

static int64_t offset(const json_t *offsets, int64_t i)
{
    return json_integer_value(json_array_get(offsets, (size_t)i));
}

/* The ranges, as whole characters, are the offsets of Hugging Face's library, except for `wider` tokens of
 * graphemes that a normalizer changes: there the library tells the parts apart, or drops a mark that is
 * composed with a letter; here all of a changed grapheme comes from all of it. */
static void compare(const char *name, const char *path, int wider)
{
    ls_tokenizer *t;
    const json_t *texts = json_object_get(golden_tokenizers, "texts"),
                 *of = json_object_get(json_object_get(golden_tokenizers, "of"), name);
    ASSERT_OK(ls_tokenizer_open(&t, path));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        const json_t *want = json_array_get(json_object_get(of, "offsets"), i),
                     *ids = json_array_get(json_object_get(of, "ids"), i);
        ranged r = encode(t, text, 0, NULL);
        assert_int_equal(r.ids.n, (int64_t)json_array_size(ids));
        for (int64_t k = 0; k < r.at.n; k++) {
            const ls_text_range at = r.at.at[k];
            assert_int_equal(r.ids.ids[k], offset(ids, k));
            if (at.begin == at.end)
                continue; /* a special token, which is nowhere in the text */
            const int64_t begin = characters(text, at.begin + 1) - 1, end = characters(text, at.end);
            assert_true(begin <= offset(want, 2 * k) && end >= offset(want, 2 * k + 1));
            wider -= begin != offset(want, 2 * k) || end != offset(want, 2 * k + 1);
        }
        ranged_free(&r);
    }
    assert_int_equal(wider, 0);
    ls_tokenizer_close(&t);
}

static void small_ones(void **state)
{
    (void)state;
    compare("bpe", GOLDEN "bpe.json", 55);
    compare("gpt2", GOLDEN "gpt2.json", 0);
    compare("llama", GOLDEN "llama.json", 0);
    compare("unigram", GOLDEN "unigram.json", 9);
}

static ls_tokenizer *real(const char *name)
{
    ls_tokenizer *t;
    char *path = ls_path_join(ls_test_data(name), name);
    ASSERT_OK(ls_tokenizer_open(&t, path));
    free(path);
    return t;
}

static void real_ones(void **state)
{
    (void)state;
    char *path = ls_path_join(ls_test_data("qwen2.5"), "qwen2.5");
    compare("qwen2.5", path, 38);
    free(path);
    path = ls_path_join(ls_test_data("t5-base"), "t5-base");
    compare("t5-base", path, 7);
    free(path);
}

/* Byte-level tokens that share a character have its bytes one by one: the ranges lie side by side. */
static void bytes_side_by_side(void **state)
{
    (void)state;
    static const char TEXT[] = "caf\xc3\xa9 \xf0\x9f\x98\x80 stop  <mark> x";
    ls_tokenizer *t;
    ASSERT_OK(ls_tokenizer_open(&t, "bytes"));
    ranged r = encode(t, "\xf0\x9f\x98\x80<|endoftext|>", 0, NULL);
    assert_int_equal(r.at.n, 5);
    for (int k = 0; k < 4; k++)
        assert_true(r.at.at[k].begin == k && r.at.at[k].end == k + 1);
    assert_true(r.at.at[4].begin == 4 && r.at.at[4].end == 17);
    ranged_free(&r);
    ls_tokenizer_close(&t);
    ASSERT_OK(ls_tokenizer_open(&t, GOLDEN "bpe.json"));
    r = encode(t, TEXT, 0, NULL);
    for (int64_t k = 0; k < r.at.n; k++)
        assert_int_equal(r.at.at[k].begin, k ? r.at.at[k - 1].end : 0);
    assert_int_equal(r.at.at[r.at.n - 1].end, sizeof TEXT - 1);
    ranged_free(&r);
    ls_tokenizer_close(&t);
}

static void expect(const ls_tokenizer *t, const char *text, int n_plain, const ls_text_range *plain, int n,
                   const int32_t *want)
{
    ranged r = encode(t, text, n_plain, plain);
    assert_int_equal(r.ids.n, n);
    assert_memory_equal(r.ids.ids, want, sizeof *want * (size_t)n);
    ranged_free(&r);
}

/* The ids of tokenizers 0.23.3 with encode_special_tokens. `stop` is an added token, and not special. */
#define USER "hi <|endoftext|></s> <|im_end|>stop"
static void plain_text(void **state)
{
    (void)state;
    const ls_text_range all = { 0, sizeof USER - 1 };
    ls_tokenizer *t;
    ASSERT_OK(ls_tokenizer_open(&t, GOLDEN "bpe.json"));
    expect(t, USER, 1, &all, 30,
           (int32_t[]){ 71, 72, 220, 27, 91,  68, 271, 78, 69, 83, 68, 87,  83, 91, 29,
                        27, 14, 82,  29, 220, 27, 91,  72, 76, 62, 68, 271, 91, 29, 423 });
    /* the template's end of turn, and the user's: a token of which one byte is plain is not a special token
     */
    expect(t, "<|endoftext|>", 0, NULL, 1, (int32_t[]){ 420 });
    for (int64_t i = 0; i < 13; i++) {
        const ls_text_range byte = { i, i + 1 };
        ranged r = encode(t, "<|endoftext|>", 1, &byte);
        assert_int_equal(r.ids.n, 12);
        ranged_free(&r);
    }
    const ls_text_range beside[] = { { 0, 1 }, { 1, 1 }, { 14, 15 } };
    expect(t, "h<|endoftext|>i", 3, beside, 3, (int32_t[]){ 71, 420, 72 });
    ls_tokenizer_close(&t);
    t = real("qwen2.5");
    expect(t, USER, 1, &all, 15,
           (int32_t[]){ 6023, 82639, 8691, 723, 427, 91, 1472, 82, 29, 82639, 318, 6213, 91, 29, 9495 });
    expect(t, "<|im_end|><|im_end|>", 1, &(ls_text_range){ 0, 10 }, 7,
           (int32_t[]){ 27, 91, 318, 6213, 91, 29, 151645 });
    ls_tokenizer_close(&t);
}

/* The vocabulary of a Unigram model has its special tokens, and text that says the same is not one of them:
 * Hugging Face's library makes it one even with encode_special_tokens. */
static void plain_unigram(void **state)
{
    (void)state;
    ls_tokenizer *t;
    ASSERT_OK(ls_tokenizer_open(&t, GOLDEN "unigram.json"));
    ranged r = encode(t, "a </s> b", 1, &(ls_text_range){ 2, 6 });
    int ends = 0;
    for (int64_t k = 0; k < r.ids.n; k++)
        ends += r.ids.ids[k] == 1;
    assert_int_equal(ends, 1); /* the post-processor's */
    ranged_free(&r);
    ls_tokenizer_close(&t);
    /* a piece that is a token as a whole, and a character that is a special token */
    t = make_tokenizer(
        "{\"added_tokens\":[{\"id\":2,\"content\":\"ab\",\"special\":true},{\"id\":3,"
        "\"content\":\"#\",\"special\":true}],\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,"
        "\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"#\":3,\"?\":4},\"merges\":[]}}");
    expect(t, "ab", 0, NULL, 1, (int32_t[]){ 2 });
    expect(t, "ab", 1, &(ls_text_range){ 1, 2 }, 2, (int32_t[]){ 0, 1 });
    expect(t, "#", 1, &(ls_text_range){ 0, 1 }, 1, (int32_t[]){ 4 });
    ls_tokenizer_close(&t);
}

static void refuses_ranges(void **state)
{
    (void)state;
    static const ls_text_range BAD[][2] = { { { 2, 3 }, { 1, 2 } },
                                            { { 0, 2 }, { 1, 3 } },
                                            { { 1, 0 }, { 2, 3 } },
                                            { { 0, 1 }, { 2, 4 } },
                                            { { -1, 1 }, { 2, 3 } } };
    ls_tokenizer *t;
    ranged r = { 0 };
    ASSERT_OK(ls_tokenizer_open(&t, "bytes"));
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        ASSERT_FAILS(ls_tokenizer_encode_ranges(t, "abc", 3, true, 2, BAD[i], &r.ids, &r.at), LS_E_ARG,
                     "plain range", "within the text of 3 bytes");
    ASSERT_FAILS(ls_tokenizer_encode_ranges(t, "ab\xc3", 3, true, 0, NULL, &r.ids, &r.at), LS_E_FORMAT,
                 "not UTF-8");
    assert_int_equal(r.ids.n + r.at.n, 0);
    ls_tokenizer_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones), cmocka_unit_test(real_ones),     cmocka_unit_test(bytes_side_by_side),
        cmocka_unit_test(plain_text), cmocka_unit_test(plain_unigram), cmocka_unit_test(refuses_ranges)
    };
    return cmocka_run_group_tests(tests, read_golden, drop_golden);
}
