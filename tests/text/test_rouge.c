/* test_rouge.c - ROUGE of 200 pairs of texts is that of rouge_score: tests/golden/rouge.json. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "support/support.h"
#include "text/rouge.h"

static void as_rouge_score(void **state)
{
    (void)state;
    char *text;
    size_t size, i;
    json_t *root, *row;
    const char *path = LS_TEST_SOURCE_DIR "/tests/golden/rouge.json";
    ASSERT_OK(ls_file_read(&text, &size, path));
    ASSERT_OK(ls_json_parse(&root, text, size, path));
    assert_int_equal(json_array_size(root), 200);
    json_array_foreach(root, i, row)
    {
        ls_rouge r;
        const json_t *target = json_array_get(row, 0), *made = json_array_get(row, 1);
        ASSERT_OK(ls_rouge_of(&r, json_string_value(target), json_string_length(target),
                              json_string_value(made), json_string_length(made)));
        const double got[] = { r.rouge1, r.rouge2, r.rougeL };
        for (size_t k = 0; k < 3; k++)
            if (fabs(got[k] - json_number_value(json_array_get(row, 2 + k))) > 1e-15)
                fail_msg("pair %zu, measure %zu: %.17g, rouge_score says %.17g", i, k, got[k],
                         json_number_value(json_array_get(row, 2 + k)));
    }
    json_decref(root);
    free(text);
}

static void texts_without_words(void **state)
{
    (void)state;
    ls_rouge r;
    ASSERT_OK(ls_rouge_of(&r, "", 0, "", 0));
    assert_true(r.rouge1 == 0 && r.rouge2 == 0 && r.rougeL == 0);
    ASSERT_OK(ls_rouge_of(&r, "one", 3, "...", 3));
    assert_true(r.rouge1 == 0 && r.rouge2 == 0 && r.rougeL == 0);
    ASSERT_OK(ls_rouge_of(&r, "one", 3, "ONE", 3));
    assert_true(r.rouge1 == 1 && r.rouge2 == 0 && r.rougeL == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_rouge_score),
                                        cmocka_unit_test(texts_without_words) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
