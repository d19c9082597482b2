/* test_status.c - the error record: message, trace, long texts, threads; and the harm that each status
 * declares. */
#include "base/field.h"
#include "support/support.h"
#include <pthread.h>
#include <string.h>

static ls_status inner(void) { return ls_fail(LS_E_IO, "%s: %d", "path", 7); }
static ls_status middle(void)
{
    LS_TRY(inner());
    return LS_OK;
}
static ls_status outer(void)
{
    ls_status s;
    LS_TRY_TO(s, middle(), done);
done:
    return s;
}

static void message_and_trace(void **state)
{
    (void)state;
    assert_int_equal(outer(), LS_E_IO);
    assert_string_equal(ls_error_message(), "path: 7");
    const char *trace = ls_error_trace(), *first = strstr(trace, " middle\n"),
               *second = strstr(trace, " outer\n");
    assert_non_null(first);
    assert_non_null(second);
    assert_true(first < second); /* innermost first */
    assert_non_null(strstr(trace, "test_status.c:"));
    ls_fail(LS_E_ARG, "new");
    assert_string_equal(ls_error_trace(), "");
}

static void message_of_the_message(void **state)
{
    (void)state;
    ls_fail(LS_E_ARG, "b");
    assert_int_equal(ls_fail(LS_E_FORMAT, "a %s c", ls_error_message()), LS_E_FORMAT);
    assert_string_equal(ls_error_message(), "a b c");
    assert_int_equal(ls_fail_in(LS_E_SHAPE, "layer %d", 3), LS_E_SHAPE);
    assert_string_equal(ls_error_message(), "layer 3: a b c");
}

/* The field is that of the latest message alone, and only as long as the message begins with its name. */
static void field_of_the_message(void **state)
{
    (void)state;
    assert_int_equal(ls_fail_field(LS_E_USAGE, "units", "%d", 7), LS_E_USAGE);
    assert_string_equal(ls_error_field(), "units");
    assert_string_equal(ls_error_message(), "units: 7");
    ls_fail_in(LS_E_USAGE, "context");
    assert_null(ls_error_field());
    ls_fail_field(LS_E_USAGE, "mesh", "no");
    ls_fail(LS_E_USAGE, "another");
    assert_null(ls_error_field());
}

static void long_texts_are_cut_and_marked(void **state)
{
    (void)state;
    static char text[10000];
    memset(text, 'x', sizeof text - 1);
    ls_fail(LS_E_ARG, "%s", text);
    size_t n = strlen(ls_error_message());
    assert_true(n > 1000 && n < sizeof text - 1);
    assert_string_equal(ls_error_message() + n - 3, "...");
    ls_fail_in(LS_E_ARG, "%s", "context");
    assert_memory_equal(ls_error_message(), "context: xxx", 12);
    for (int i = 0; i < 1000; i++)
        ls_trace(LS_E_ARG, "file.c", i, "function");
    n = strlen(ls_error_trace());
    assert_true(n > 500);
    assert_memory_equal(ls_error_trace(), "file.c:0 function\n", 18);
    assert_string_equal(ls_error_trace() + n - 10, " function\n"); /* whole frames only */
}

static void *other_thread(void *found)
{
    strcpy(found, ls_error_message());
    ls_fail(LS_E_ARG, "theirs");
    return NULL;
}

static void one_record_a_thread(void **state)
{
    (void)state;
    char found[64] = "?";
    pthread_t t;
    ls_fail(LS_E_ARG, "mine");
    assert_int_equal(pthread_create(&t, NULL, other_thread, found), 0);
    pthread_join(t, NULL);
    assert_string_equal(found, "");
    assert_string_equal(ls_error_message(), "mine");
}

static void every_status_has_a_name(void **state)
{
    (void)state;
    for (int a = 0; a < LS_STATUS_COUNT; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(ls_status_name((ls_status)a), ls_status_name((ls_status)b));
    assert_string_equal(ls_status_name(LS_STATUS_COUNT), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_and_trace),    cmocka_unit_test(message_of_the_message),
        cmocka_unit_test(field_of_the_message), cmocka_unit_test(long_texts_are_cut_and_marked),
        cmocka_unit_test(one_record_a_thread),  cmocka_unit_test(every_status_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
