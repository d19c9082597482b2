/* test_bert.c - BERT's tokenizer: ids, ranges and decoded texts are those of Hugging Face's library; what a
 * damaged file says. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "lockstep/tokenizer.h"
#include "support/support.h"

#define GOLDEN LS_TEST_SOURCE_DIR "/tests/golden/bert/"

static int64_t number(const json_t *list, size_t i) { return json_integer_value(json_array_get(list, i)); }

static void odd_texts_have_the_ids_of_hugging_faces(void **state)
{
    (void)state;
    char *text;
    size_t size;
    json_t *expected;
    ls_tokenizer *t;
    ASSERT_OK(ls_file_read(&text, &size, GOLDEN "expected.json"));
    ASSERT_OK(ls_json_parse(&expected, text, size, "expected.json"));
    ASSERT_OK(ls_tokenizer_open(&t, GOLDEN "tokenizer.json"));
    const json_t *odd = json_object_get(expected, "odd");
    assert_int_equal(json_array_size(odd), 9);
    for (size_t i = 0; i < json_array_size(odd); i++) {
        const json_t *one = json_array_get(odd, i), *ids = json_object_get(one, "ids"),
                     *ranges = json_object_get(one, "ranges"), *given = json_object_get(one, "text");
        ls_tokens have = { 0 };
        ls_text_ranges at = { 0 };
        const char *from = json_string_value(given);
        ASSERT_OK(ls_tokenizer_encode_ranges(t, from, json_string_length(given), true, 0, NULL, &have, &at));
        assert_int_equal(have.n, (int64_t)json_array_size(ids));
        for (int64_t k = 0; k < have.n; k++) {
            const json_t *range = json_array_get(ranges, (size_t)k);
            assert_int_equal(have.ids[k], number(ids, (size_t)k));
            if (k > 0 && k + 1 < have.n) { /* the two special tokens are nowhere */
                assert_int_equal(at.at[k].begin, number(range, 0));
                assert_int_equal(at.at[k].end, number(range, 1));
            }
        }
        char *decoded;
        size_t bytes;
        ASSERT_OK(ls_tokenizer_decode(t, have.ids, have.n, true, &decoded, &bytes));
        assert_string_equal(decoded, json_string_value(json_object_get(one, "decoded")));
        free(decoded);
        free(have.ids);
        free(at.at);
    }
    ls_tokenizer_close(&t);
    json_decref(expected);
    free(text);
}

/* The tokenizer with `from` replaced by `to` once. */
static ls_status open_changed(const char *from, const char *to)
{
    char *text;
    size_t size;
    ls_tokenizer *t = NULL;
    ASSERT_OK(ls_file_read(&text, &size, GOLDEN "tokenizer.json"));
    char *at = strstr(text, from);
    assert_non_null(at);
    ls_str changed = { 0 };
    ls_str_add_n(&changed, text, (size_t)(at - text));
    ls_str_add(&changed, to);
    ls_str_add(&changed, at + strlen(from));
    const char *path = ls_test_path("tokenizer.json");
    ASSERT_OK(ls_file_write(path, ls_str_text(&changed), changed.len));
    const ls_status s = ls_tokenizer_open(&t, path);
    ls_tokenizer_close(&t);
    ls_str_release(&changed);
    free(text);
    return s;
}

static void damaged_files(void **state)
{
    (void)state;
    ASSERT_FAILS(open_changed("\"unk_token\":\"[UNK]\"", "\"unk_token\":\"nothing\""), LS_E_FORMAT,
                 "unk_token");
    ASSERT_FAILS(open_changed("\"type\":\"BertPreTokenizer\"", "\"type\":\"Bert\""), LS_E_UNSUPPORTED,
                 "pre-tokenizer \"Bert\"");
    ASSERT_FAILS(open_changed("\"type\":\"TemplateProcessing\"",
                              "\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",2],\"sep\":[\"[SEP]\",9999]"),
                 LS_E_FORMAT, "no cls and sep that are tokens");
    ASSERT_OK(open_changed("\"type\":\"TemplateProcessing\"",
                           "\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",2],\"sep\":[\"[SEP]\",3]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(odd_texts_have_the_ids_of_hugging_faces),
                                        cmocka_unit_test(damaged_files) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
