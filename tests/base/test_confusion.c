/* test_confusion.c - what follows from a confusion matrix: numbers that a person can check, the same after
 * writing and reading, and files that are none. */
#include <math.h>
#include <string.h>

#include "base/confusion.h"
#include "support/support.h"

static const char *const NAMES[] = { "ant", "bee", "cat", "dog" };
/* true class by predicted class: dog has no rows, and is predicted once; nothing is predicted as cat */
static const int64_t COUNTS[] = { 3, 1, 0, 1, 2, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0 };

static ls_confusions make(const char *const *names)
{
    ls_confusions c = { 0 };
    ASSERT_OK(ls_confusions_add(&c, "accuracy", 4, names));
    memcpy(c.at[0].counts, COUNTS, sizeof COUNTS);
    return c;
}

static void scores_of_each_class(void **state)
{
    (void)state;
    ls_confusions c = make(NAMES);
    const ls_class_score ant = ls_confusion_score(&c.at[0], 0), cat = ls_confusion_score(&c.at[0], 2),
                         dog = ls_confusion_score(&c.at[0], 3), all = ls_confusion_macro(&c.at[0]);
    assert_int_equal(ls_confusion_rows(&c.at[0]), 13);
    assert_true(ant.rows == 5 && ant.predicted == 6 && ant.right == 3);
    assert_true(ant.precision == 0.5 && ant.recall == 0.6 && ant.f1 == 6.0 / 11);
    assert_true(cat.rows == 1 && isnan(cat.precision) && cat.recall == 0 && cat.f1 == 0);
    assert_true(dog.predicted == 1 && dog.precision == 0 && isnan(dog.recall) && dog.f1 == 0);
    assert_true(all.rows == 13 && all.predicted == 13 && all.right == 8);
    assert_true(fabs(all.precision - (0.5 + 5.0 / 6) / 4) < 1e-15); /* as scikit-learn with zero_division 0 */
    assert_true(fabs(all.recall - (0.6 + 5.0 / 7) / 4) < 1e-15);
    assert_true(fabs(all.f1 - (6.0 / 11 + 10.0 / 13) / 4) < 1e-15);
    ls_confusions_release(&c);
}

static void a_class_that_does_not_occur_is_in_no_mean(void **state)
{
    (void)state;
    ls_confusions c = { 0 };
    ASSERT_OK(ls_confusions_add(&c, "accuracy", 3, NULL));
    assert_true(isnan(ls_confusion_macro(&c.at[0]).f1));
    c.at[0].counts[0] = 4;
    assert_true(ls_confusion_macro(&c.at[0]).f1 == 1 && isnan(ls_confusion_score(&c.at[0], 2).f1));
    ls_confusions_release(&c);
}

static void the_worst_come_first(void **state)
{
    (void)state;
    ls_confusions c = make(NULL);
    ls_class_pair pairs[3];
    int lowest[4];
    char number[16];
    assert_int_equal(ls_confusion_worst(&c.at[0], pairs, 3), 3);
    assert_true(pairs[0].is == 1 && pairs[0].said == 0 && pairs[0].rows == 2);
    assert_true(pairs[1].is == 0 && pairs[1].said == 1 && pairs[2].is == 0 && pairs[2].said == 3);
    assert_int_equal(ls_confusion_lowest(&c.at[0], lowest, 4), 4);
    assert_true(lowest[0] == 2 && lowest[1] == 3 && lowest[2] == 0 && lowest[3] == 1);
    assert_int_equal(ls_confusion_lowest(&c.at[0], lowest, 1), 1);
    assert_int_equal(lowest[0], 2);
    assert_string_equal(ls_confusion_name(number, &c.at[0], 3), "3");
    ls_confusions_release(&c);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        ls_confusions c = make(named ? NAMES : NULL), read;
        ls_json j = { 0 };
        json_t *tree;
        ls_json_object(&j, NULL);
        ls_confusions_write(&j, &c);
        ls_json_close_object(&j);
        ASSERT_OK(ls_json_parse(&tree, ls_str_text(&j.out), j.out.len, "test"));
        ASSERT_OK(ls_confusions_read(&read, json_object_get(tree, "confusion"), "test"));
        assert_int_equal(read.n, 1);
        assert_string_equal(read.at[0].metric, "accuracy");
        assert_memory_equal(read.at[0].counts, COUNTS, sizeof COUNTS);
        assert_int_equal(read.at[0].names != NULL, named);
        if (named)
            assert_string_equal(read.at[0].names[3], "dog");
        json_decref(tree);
        ls_str_release(&j.out);
        ls_confusions_release(&read);
        ls_confusions_release(&c);
    }
}

static void other_files_are_refused(void **state)
{
    (void)state;
    static const char *const FILES[] = {
        "{\"a\":1}", "{\"a\":{\"classes\":[{\"class\":\"x\"}],\"matrix\":[[1]]}}",
        "{\"a\":{\"classes\":[{\"class\":\"x\"},{\"class\":\"y\"}],\"matrix\":[[1,2],[3]]}}",
        "{\"a\":{\"classes\":[{\"class\":\"x\"},{}],\"matrix\":[[1,2],[3,4]]}}"
    };
    for (int i = 0; i < 4; i++) {
        ls_confusions read;
        json_t *tree;
        ASSERT_OK(ls_json_parse(&tree, FILES[i], strlen(FILES[i]), "test"));
        assert_int_equal(ls_confusions_read(&read, tree, "FILE"), LS_E_FORMAT);
        assert_non_null(strstr(ls_error_message(), "FILE: \"a\" is not a confusion matrix"));
        json_decref(tree);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_of_each_class),
        cmocka_unit_test(a_class_that_does_not_occur_is_in_no_mean),
        cmocka_unit_test(the_worst_come_first),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
