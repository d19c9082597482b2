/* test_json.c - the JSON writer: commas, escapes, numbers; jansson reads back everything that it writes. The
 * reader: its messages say where an error is. */
#include "base/json.h"
#include "support/support.h"
#include <math.h>
#include <string.h>

static void document(void **state)
{
    (void)state;
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "name", "a\"b\\c\n\t\x01</script> \xc3\xa9");
    ls_json_text(&j, "none", NULL);
    ls_json_int(&j, "big", INT64_MIN);
    ls_json_f32(&j, "loss", 2.3025851f);
    ls_json_f64(&j, "exact", 0.1);
    ls_json_f32(&j, "nan", NAN);
    ls_json_f64(&j, "inf", -INFINITY);
    ls_json_bool(&j, "yes", true);
    ls_json_raw(&j, "raw", "[1]");
    ls_json_array(&j, "list");
    ls_json_int(&j, NULL, 1);
    ls_json_object(&j, NULL);
    ls_json_close_object(&j);
    ls_json_array(&j, NULL);
    ls_json_close_array(&j);
    ls_json_bool(&j, NULL, false);
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    assert_int_equal(j.depth, 0);
    assert_string_equal(j.out.data, "{\"name\":\"a\\\"b\\\\c\\n\\t\\u0001\\u003c/script> "
                                    "\xc3\xa9\",\"none\":null,\"big\":-9223372036854775808,"
                                    "\"loss\":2.3025851,\"exact\":0.1,\"nan\":null,\"inf\":null,\"yes\":true,"
                                    "\"raw\":[1],\"list\":[1,{},[],false]}");
    json_t *tree;
    ASSERT_OK(ls_json_parse(&tree, j.out.data, j.out.len, "document"));
    assert_string_equal(json_string_value(json_object_get(tree, "name")),
                        "a\"b\\c\n\t\x01</script> \xc3\xa9");
    assert_true((float)json_number_value(json_object_get(tree, "loss")) == 2.3025851f);
    assert_true(json_integer_value(json_object_get(tree, "big")) == INT64_MIN);
    json_decref(tree);
    ls_str_release(&j.out);
}

/* Every two-byte text, and three- and four-byte sequences around every limit of UTF-8: valid ones come back,
 * others as U+FFFD. */
static void any_bytes_make_valid_json(void **state)
{
    (void)state;
    static const unsigned char EDGES[] = { 0x01, 0x20, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                           0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                           0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff };
    enum { E = sizeof EDGES };
    int valid = 0;
    for (int i = 0; i < E * E * E * E; i++) {
        char text[5] = { (char)EDGES[i % E], (char)EDGES[i / E % E], (char)EDGES[i / E / E % E],
                         (char)EDGES[i / E / E / E], 0 };
        ls_json j = { 0 };
        ls_json_array(&j, NULL);
        ls_json_text(&j, NULL, text);
        ls_json_close_array(&j);
        json_t *tree, *again = json_string(text); /* NULL: not UTF-8 by jansson's own judgement */
        ASSERT_OK(ls_json_parse(&tree, j.out.data, j.out.len, "text"));
        const char *back = json_string_value(json_array_get(tree, 0));
        assert_int_equal(strcmp(back, text) == 0, again != NULL);
        if (!again)
            assert_non_null(strstr(back, "\xef\xbf\xbd"));
        valid += again != NULL;
        json_decref(again);
        json_decref(tree);
        ls_str_release(&j.out);
    }
    assert_true(valid > 100);
}

static void bad_documents(void **state)
{
    (void)state;
    json_t *tree;
#define PARSE(text) ls_json_parse(&tree, text, sizeof text - 1, "dir/config.json")
    ASSERT_FAILS(PARSE("{\"a\": 1,\n \"a\": 2}"), LS_E_FORMAT, "dir/config.json:2:", "duplicate");
    ASSERT_FAILS(PARSE("{\"a\": 1,}"), LS_E_FORMAT, "dir/config.json:1:9");
    ASSERT_FAILS(PARSE(""), LS_E_FORMAT, "dir/config.json");
    ASSERT_FAILS(PARSE("{} x"), LS_E_FORMAT, "end of file expected");
    ASSERT_FAILS(PARSE("[\"\xff\"]"), LS_E_FORMAT, "unable to decode byte 0xff");
    ASSERT_FAILS(PARSE("[1"), LS_E_FORMAT, "dir/config.json:1:2");
    static char deep[100001];
    memset(deep, '[', sizeof deep - 1);
    ASSERT_FAILS(PARSE(deep), LS_E_FORMAT, "depth");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(document),
                                        cmocka_unit_test(any_bytes_make_valid_json),
                                        cmocka_unit_test(bad_documents) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
