/* test_data_record.c - the data in trainer.json: equal data is found equal, every difference is named, and
 * files of older versions cause no message. */
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "loop/data_record.h"

static ls_dataset_part parts[8];

static ls_dataset set_of(ls_split split, uint64_t digest, int64_t n, int n_parts)
{
    static const char *const PATHS[] = { "tok", "a", "b", "c", "d", "e", "f", "g" };
    for (int i = 0; i < 8; i++)
        parts[i] = (ls_dataset_part){ i ? "text" : "tokenizer", PATHS[i], (uint64_t)i + 0xfedcba9876543210u };
    return (ls_dataset){ .split = split, .n = n, .digest = digest, .parts = parts, .n_parts = n_parts };
}

static json_t *record(const ls_dataset *train, const ls_dataset *eval)
{
    ls_json j = { 0 };
    json_t *out;
    ls_json_object(&j, NULL);
    ls_data_record(&j, train, eval);
    ls_json_close_object(&j);
    ASSERT_OK(ls_json_parse(&out, ls_str_text(&j.out), j.out.len, "record"));
    ls_str_release(&j.out);
    return out;
}

static void compare(const json_t *was, const ls_dataset *now, bool same, const char *message)
{
    ls_str out = { 0 };
    assert_true(ls_data_difference(&out, was, now) == same);
    assert_string_equal(ls_str_text(&out), message);
    ls_str_release(&out);
}

static void differences_are_named(void **state)
{
    (void)state;
    ls_dataset train = set_of(LS_SPLIT_TRAIN, 0xf000000000000001u, 100, 7),
               eval = set_of(LS_SPLIT_EVAL, 2, 10, 7);
    json_t *was = record(&train, &eval);
    compare(was, &train, true, "");
    compare(was, &eval, true, "");
    train.digest = 5;
    compare(was, &train, false, "training data: other samples of the same files");
    train.n = 99;
    compare(was, &train, false, "training data: 99 samples here, 100 there");
    parts[2].digest++;
    compare(was, &train, false, "training data: text b (other content); 99 samples here, 100 there");
    parts[2].path = "x/b";
    train.n = 100;
    compare(was, &train, false, "training data: text x/b here, b there (other content)");
    for (int i = 3; i < 7; i++)
        parts[i].digest += 100;
    compare(was, &train, false,
            "training data: text x/b here, b there (other content), text c (other content), text d (other "
            "content) and 2 "
            "more files");
    train = set_of(LS_SPLIT_TRAIN, 5, 100, 8);
    compare(was, &train, false, "training data: text g (not there)");
    train.n_parts = 5;
    compare(was, &train, false, "training data: text e (there only), text f (there only)");
    train.n_parts = 7;
    parts[0].digest++; /* the tokenizer is not a file of the data: it is compared on its own */
    compare(was, &train, false, "training data: other samples of the same files");
    ls_str out = { 0 };
    ls_data_tokenizer_difference(&out, was, &train);
    assert_string_equal(ls_str_text(&out), "tokenizer: tok (other content)");
    ls_str_release(&out);
    train.builtin = true;
    compare(was, &train, false, "training data: the built-in shapes here, the real ones there");
    json_decref(was);
}

/* Nothing recorded, no digest on one side, a run without evaluation. */
static void silent_where_nothing_is_known(void **state)
{
    (void)state;
    ls_dataset train = set_of(LS_SPLIT_TRAIN, 1, 100, 3), eval = set_of(LS_SPLIT_EVAL, 2, 10, 3),
               unknown = set_of(LS_SPLIT_TRAIN, 0, 7, 0);
    json_t *old = json_pack("{sb}", "builtin_data", 0), *was = record(&train, NULL),
           *without = record(&unknown, &eval);
    compare(old, &train, false, "");
    compare(was, &eval, false, "");
    compare(was, &unknown, true, "");
    compare(without, &train, true, "");
    compare(NULL, &train, false, "");
    train.builtin = true;
    compare(old, &train, false, "training data: the built-in shapes here, the real ones there");
    json_decref(old);
    json_decref(was);
    json_decref(without);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(differences_are_named),
                                        cmocka_unit_test(silent_where_nothing_is_known) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
