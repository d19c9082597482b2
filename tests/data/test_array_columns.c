/* test_array_columns.c - lists of columns with ranges and patterns, and what they may not name. */
#include "files.h"

#include "data/array_columns.h"
#include "support/support.h"

static const char TABLE[] = "id,c0,c1,c-2,t 1,c0-c1,t2,!x\n1,2,3,4,5,6,7,8\n";

static ls_status names_in(char **out, const char *list, const char *text)
{
    return ls_columns_of_text(out, list, text, strlen(text), "a.csv");
}

static void lists_become_names(void **state)
{
    (void)state;
    static const struct {
        const char *list, *names;
    } CASES[] = {
        { "t2,id", "t2,id" },                  /* in the order of the list */
        { "c0-c1", "c0-c1" },                  /* a name before a range */
        { "c1-t2", "c1,c-2,t 1,c0-c1,t2" },    /* a range in the order of the table */
        { "c0-c-2", "c0,c1,c-2" },             /* names with a - */
        { "c0-c0", "c0" },                     /* of one column */
        { "c?", "c0,c1" },                     /* a pattern */
        { "t*,c*", "t 1,t2,c0,c1,c-2,c0-c1" }, /* two */
        { "*,!id,!c1-t2", "c0,!x" },           /* names and ranges to take away */
        { "!c*,*", "id,t 1,t2,!x" },           /* in any order */
        { "!x,id", "!x,id" },                  /* a name before what is taken away */
        { "*", "id,c0,c1,c-2,t 1,c0-c1,t2,!x" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *out, *again;
        assert_ok(names_in(&out, CASES[i].list, TABLE));
        assert_string_equal(out, CASES[i].names);
        assert_ok(names_in(&again, out, TABLE)); /* names stay as they are */
        assert_string_equal(again, out);
        free(again);
        free(out);
    }
    assert_true(ls_columns_pattern("*") && ls_columns_pattern("a?") && ls_columns_pattern("a-b") &&
                ls_columns_pattern("!a") && !ls_columns_pattern("a,b c_d.e"));
}

static void wrong_lists_are_named(void **state)
{
    (void)state;
    static const struct {
        ls_status status;
        const char *list, *text, *says, *more;
    } CASES[] = {
        { LS_E_USAGE, "d*", TABLE, "a.csv: \"d*\" names none", "id, c0, c1, c-2" },
        { LS_E_USAGE, "c0,c2-t2", "c0,t2,zz,z1,z2,z3,z4,z5,z6,z7,z8,z9,yy\n", "\"c2-t2\"",
          "z9, ... (13 columns)" },
        { LS_E_USAGE, "c0,tt2", TABLE, "no column \"tt2\"", "is it \"t2\"" },
        { LS_E_USAGE, "*,!nothing", TABLE, "\"nothing\" names none", "id" },
        { LS_E_USAGE, "c*,c0", TABLE, "column \"c0\"", "twice" },
        { LS_E_USAGE, "c0,!id", TABLE, "takes column \"id\" away", "does not name" },
        { LS_E_USAGE, "!id", TABLE, "takes column \"id\" away", "\"*,!id\" names all others" },
        { LS_E_USAGE, "*,!*", TABLE, "leaves no column", "" },
        { LS_E_USAGE, "c1-id", TABLE, "\"c1\" comes after \"id\"", "" },
        { LS_E_USAGE, "a-b-c", "a,a-b,b-c,c\n", "two ranges", "" },
        { LS_E_USAGE, "*", ",a\n", "takes column 1", "is empty" },
        { LS_E_USAGE, "*", "a,\"b,c\"\n", "takes column 2", "\"b,c\" has a comma" },
        { LS_E_USAGE, "*", "a,a\n", "column 2", "has the name \"a\"" },
        { LS_E_FORMAT, "a-b", "a;b\n", "semicolons separate", "" },
        { LS_E_FORMAT, "*", "", "a.csv", "empty" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *out;
        assert_fails(CASES[i].status, names_in(&out, CASES[i].list, CASES[i].text), CASES[i].says,
                     CASES[i].more);
        assert_null(out);
    }
    char *out;
    assert_ok(names_in(&out, "*,!", ",a\n"));
    assert_string_equal(out, "a");
    free(out);
}

static ls_status write_out(void *list)
{
    char *out;
    LS_TRY(names_in(&out, list, TABLE));
    free(out);
    return LS_OK;
}

static void out_of_memory_is_a_status(void **state)
{
    (void)state;
    char list[] = "*,!id,!c1-t2";
    assert_true(ls_test_memory(write_out, list, 1) >= 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(lists_become_names),
                                        cmocka_unit_test(wrong_lists_are_named),
                                        cmocka_unit_test(out_of_memory_is_a_status) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
