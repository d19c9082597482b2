/* test_str.c - growable text, globs, similar names, sizes, durations, and numbers that read back exactly,
 * also where the decimal point is a comma. */
#include "base/c_locale.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/shown.h"
#include "base/str.h"
#include "support/support.h"
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void growing(void **state)
{
    (void)state;
    ls_str s = { 0 };
    assert_string_equal(ls_str_text(&s), "");
    ls_str_add(&s, "");
    assert_string_equal(s.data, "");
    for (int i = 0; i < 1000; i++)
        ls_str_printf(&s, "%d,", i);
    assert_int_equal(s.len, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(s.len, strlen(s.data));
    assert_memory_equal(s.data + s.len - 9, ",998,999,", 9);
    ls_str_clear(&s);
    assert_string_equal(ls_str_text(&s), "");
    ls_str_add_n(&s, "a\0b", 3);
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.data, "a\0b", 4);
    ls_str_release(&s);
    assert_null(s.data);
    ls_str_release(&s);
}

/* What is added without memory is left out, and so is all behind it; the text stays a text. */
static void without_memory(void **state)
{
    (void)state;
    ls_str s = { 0 }, part = { 0 };
    ls_fault_arm(1u << LS_POINT_MEMORY, 0, LS_FAIL_ONCE);
    ls_str_add(&part, "lost");
    assert_string_equal(part.data, "");
    ASSERT_FAILS(ls_str_status(&part), LS_E_MEMORY, "out of memory", "more than 0 bytes");
    ls_str_add(&part, "more"); /* there would be memory now */
    ls_str_printf(&part, "%d", 1);
    ls_str_clear(&part);
    ls_str_cut(&part, part.len - 1);
    assert_string_equal(ls_str_text(&part), "");
    assert_int_equal(ls_fault_disarm(), 1);

    ls_str_add(&s, "first ");
    ASSERT_OK(ls_str_status(&s));
    ls_fault_arm(1u << LS_POINT_MEMORY, 0, LS_FAIL_ONCE);
    ls_str_printf(&s, "%0100d", 1);
    ls_fault_disarm();
    ls_str_add(&s, "last");
    assert_string_equal(s.data, "first ");
    ASSERT_FAILS(ls_str_status(&s), LS_E_MEMORY, "more than 6 bytes");
    ls_str_cut(&s, 3);
    assert_string_equal(s.data, "fir");
    ASSERT_FAILS(ls_file_write_text(ls_test_path("text"), &s), LS_E_MEMORY, "out of memory");
    assert_false(ls_file_exists(ls_test_path("text")));
    assert_null(ls_str_take(&s)); /* released: as new */
    ASSERT_CONTAINS(ls_error_message(), "out of memory");
    assert_null(s.data);

    ls_str_add(&s, "a");
    ls_str_append(&s, &part);
    ls_str_add(&s, "b");
    ASSERT_FAILS(ls_str_status(&s), LS_E_MEMORY, "out of memory");
    ls_str_release(&s);
    ls_str_add(&s, NULL);
    assert_string_equal(s.data, "");
    ASSERT_FAILS(ls_print_result(stdout, &s), LS_E_MEMORY, "out of memory");
    char *text = ls_str_take(&s);
    assert_string_equal(text, "");
    free(text);
    ls_str_release(&part);
}

static void globs(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool match;
    } CASES[] = {
        { "", "", true },
        { "", "a", false },
        { "*", "", true },
        { "*", "a.b", true },
        { "?", "", false },
        { "?", "a", true },
        { "encoder.*", "encoder.layers.0", true },
        { "encoder.*", "encoder", false },
        { "*.bias", "a.b.bias", true },
        { "*.bias", "a.bias.c", false },
        { "layers.?.mlp", "layers.3.mlp", true },
        { "layers.?.mlp", "layers.10.mlp", false },
        { "*a*b*c", "xxaxxbxxbxc", true },
        { "*a*b*c", "xxaxxbxxbx", false },
        { "**", "a.b", true },
        { "a**", "a", true },
        { "a*?", "a", false },
        { "a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaa", false },
        { "abc", "abd", false },
        { "abc", "ab", false },
        { "ab", "abc", false },
        { "*ab", "aab", true },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        if (ls_glob_match(CASES[i].pattern, CASES[i].text) != CASES[i].match)
            fail_msg("glob \"%s\" on \"%s\" must be %d", CASES[i].pattern, CASES[i].text, CASES[i].match);
}

static void endings(void **state)
{
    (void)state;
    assert_true(ls_ends_with("a.pt", ".pt") && ls_ends_with(".pt", ".pt") && ls_ends_with("a", ""));
    assert_false(ls_ends_with("pt", ".pt") || ls_ends_with("a.pt.gz", ".pt") || ls_ends_with("", ".pt"));
}

static void near_names(void **state)
{
    (void)state;
    static const char *const NAMES[] = { "global_batch", "micro_batch", "epochs",     "steps",
                                         "lr",           "clip_norm",   "sgd",        "adam",
                                         "adamw",        "checkpoint",  "tensorboard" };
    static const struct {
        const char *name, *nearest;
    } CASES[] = {
        { "global_bacth", "global_batch" },
        { "globalbatch", "global_batch" },
        { "Epochs", "epochs" },
        { "epoch", "epochs" },
        { "step", "steps" },
        { "lt", "lr" },
        { "rl", "lr" },
        { "xy", NULL },
        { "clipnorm", "clip_norm" },
        { "sdg", "sgd" },
        { "adma", "adam" },
        { "admaw", "adamw" },
        { "tensrobaord", "tensorboard" },
        { "momentum", NULL },
        { "clpnrom", NULL },
        { "checkpoint_id", NULL }, /* another number of parts */
        { "spf", NULL },
        { "", NULL },
        { "zz", NULL },
        { "a_name_that_is_far_longer_than_any_key_of_the_recipe_could_ever_be_in_practice", NULL },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *got = ls_nearest_name(CASES[i].name, NAMES, sizeof NAMES / sizeof *NAMES);
        if ((got == NULL) != (CASES[i].nearest == NULL) || (got && strcmp(got, CASES[i].nearest) != 0))
            fail_msg("nearest to \"%s\" is %s, not %s", CASES[i].name,
                     CASES[i].nearest ? CASES[i].nearest : "none", got ? got : "none");
    }
    assert_null(ls_nearest_name("a", NULL, 0));
    assert_null(ls_nearest_name("a", (const char *const[]){ "b" }, 1)); /* they have nothing in common */
    /* of equals the first */
    assert_string_equal(ls_nearest_name("betas", (const char *const[]){ "betal", "betax", "betay" }, 3),
                        "betal");
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } CASES[] = {
        { "64", 64 },
        { "0", 0 },
        { "64B", 64 },
        { "512MiB", 512 << 20 },
        { "1.5GB", 1500000000 },
        { "1.5 GiB", 3 << 29 },
        { "5gib", 5LL << 30 },
        { "2kB", 2000 },
        { "1e3", 1000 },
        { "7EiB", -1 },
        { "2TiB", 2LL << 40 },
        { "", -1 },
        { "MiB", -1 },
        { "-1", -1 },
        { "1.5", -1 },
        { "1M", -1 },
        { "1MiBs", -1 },
        { "1 MiB ", -1 },
        { "nan", -1 },
        { "inf", -1 },
        { "0x10", -1 },
        { " 1", -1 },
        { "1,5GB", -1 },
        { "1e30", -1 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int64_t bytes = -1;
        if (!ls_parse_bytes(CASES[i].text, &bytes))
            bytes = -1;
        if (bytes != CASES[i].bytes)
            fail_msg("\"%s\" is %lld bytes, not %lld", CASES[i].text, (long long)CASES[i].bytes,
                     (long long)bytes);
    }
    char b[32];
    assert_string_equal(ls_format_bytes(b, 0), "0 B");
    assert_string_equal(ls_format_bytes(b, 1023), "1023 B");
    assert_string_equal(ls_format_bytes(b, 1024), "1.0 KiB");
    assert_string_equal(ls_format_bytes(b, 1536), "1.5 KiB");
    assert_string_equal(ls_format_bytes(b, 1023 * 1024 + 600), "1.0 MiB");
    assert_string_equal(ls_format_bytes(b, 414u << 20), "414 MiB");
    assert_string_equal(ls_format_bytes(b, UINT64_MAX), "16.0 EiB");
}

static void durations(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } CASES[] = {
        { 0, "0 us" },
        { 12.4e-6, "12 us" },
        { 0.00151, "1.5 ms" },
        { 0.0123, "12 ms" },
        { 0.9999, "1.0 s" },
        { 3.21, "3.2 s" },
        { 59.96, "1 min 00 s" },
        { 125, "2 min 05 s" },
        { 3599.8, "1 h 00 min" },
        { 3720, "1 h 02 min" },
        { 25 * 3600, "25 h 00 min" },
        { 48 * 3600, "2 d 00 h" },
        { 50 * 3600, "2 d 02 h" },
        { -3.21, "-3.2 s" },
    };
    char b[32];
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_string_equal(ls_format_duration(b, CASES[i].seconds), CASES[i].text);
    assert_string_equal(ls_format_duration(b, NAN), "unknown");
    assert_string_equal(ls_format_duration(b, INFINITY), "forever");
}

static void float_round_trip(void)
{
    char b[32];
    uint32_t bits = 12345;
    for (int i = 0; i < 50000; i++) {
        float x, back;
        bits = bits * 1664525 + 1013904223;
        memcpy(&x, &bits, 4);
        if (!isfinite(x))
            continue;
        back = strtof(ls_format_f32(b, x), NULL);
        if (memcmp(&back, &x, 4) != 0 || strlen(b) > 16)
            fail_msg("%a is written %s", (double)x, b);
    }
    uint64_t wide = 777;
    for (int i = 0; i < 20000; i++) {
        double x, back;
        wide = wide * 6364136223846793005u + 1442695040888963407u;
        memcpy(&x, &wide, 8);
        if (!isfinite(x))
            continue;
        back = strtod(ls_format_f64(b, x), NULL);
        if (memcmp(&back, &x, 8) != 0 || strlen(b) > 25)
            fail_msg("%a is written %s", x, b);
    }
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        float x;
        const char *text;
    } CASES[] = {
        { 0, "0" },
        { -0.0f, "-0" },
        { 1, "1" },
        { 100, "100" },
        { -2.5f, "-2.5" },
        { 2.3025851f, "2.3025851" },
        { 1e-3f, "0.001" },
        { 0.1f, "0.1" },
        { 1.25e-5f, "0.0000125" },
        { 1e-6f, "1e-6" },
        { 1.5e-7f, "1.5e-7" },
        { 123456792, "123456790" },
        { 1e9f, "1e9" },
        { 3.4028235e38f, "3.4028235e38" },
        { 1e-45f, "1e-45" },
        { NAN, "nan" },
        { INFINITY, "inf" },
        { -INFINITY, "-inf" },
    };
    char b[32];
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_string_equal(ls_format_f32(b, CASES[i].x), CASES[i].text);
    assert_string_equal(ls_format_number(b, "%.4g", -6e-7), "-6e-7"); /* as the other two */
    assert_string_equal(ls_format_number(b, "%.3g", 1.25e+10), "1.25e10");
    assert_string_equal(ls_format_number(b, "%.2e", 2e-100), "2.00e-100");
    assert_string_equal(ls_format_number(b, "%.0e", 1), "1e0");
    assert_string_equal(ls_format_number(b, "%.4f", 999999999), "999999999.0000");
    assert_string_equal(ls_format_number(b, "%.4f", -4.3515e30), "-4.3515e30");
    assert_string_equal(ls_format_number(b, "%.2f%%", 12.5), "12.50%");
    assert_string_equal(ls_format_number(b, "%g", -INFINITY), "-inf");
    assert_string_equal(ls_format_f64(b, 0.1), "0.1");
    assert_string_equal(ls_format_f64(b, 1.0 / 3), "0.3333333333333333");
    assert_string_equal(ls_format_f64(b, 1e15), "1000000000000000");
    assert_string_equal(ls_format_f64(b, 1e22), "1e22");
    assert_string_equal(ls_format_f64(b, -4.9406564584124654e-324), "-5e-324");
    float_round_trip();
}

static void decimal_comma(void **state)
{
    (void)state;
    ls_test_comma_locale();
    char b[32];
    int64_t n;
    assert_string_equal(ls_format_f32(b, 0.5f), "0.5");
    assert_string_equal(ls_format_f64(b, 0.25), "0.25");
    assert_string_equal(ls_format_bytes(b, 1536), "1.5 KiB");
    assert_true(ls_parse_bytes("1.5GB", &n));
    assert_int_equal(n, 1500000000);
    assert_true(ls_strtod("0.5", NULL) == 0.5);
    ls_snprintf(b, sizeof b, "%g", 0.5);
    assert_string_equal(b, "0.5");
    ls_str s = { 0 };
    ls_str_printf(&s, "%.1f", 0.5);
    assert_string_equal(ls_str_text(&s), "0.5");
    ls_str_release(&s);
    ASSERT_FAILS(ls_fail(LS_E_ARG, "half is %g", 0.5), LS_E_ARG, "half is 0.5");
    snprintf(b, sizeof b, "%g", 0.5); /* and the program's own numbers stay as it wants them */
    assert_string_equal(b, "0,5");
    setlocale(LC_NUMERIC, "C");
}

static void control_characters_are_shown(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown, *lines;
    } CASES[] = {
        { "", "", "" },
        { "plain \xc3\xa4 \xc2\xa0", "plain \xc3\xa4 \xc2\xa0", "plain \xc3\xa4 \xc2\xa0" },
        { "\033[2Ja\nb\tc\r", "\\x1b[2Ja\\nb\\tc\\x0d", "\\x1b[2Ja\nb\tc\\x0d" },
        { "\x7f\xc2\x9b"
          "1m\xc2",
          "\\x7f\\x9b1m\xc2", "\\x7f\\x9b1m\xc2" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        for (int lines = 0; lines < 2; lines++) {
            ls_str s = { 0 };
            ls_str_add_shown(&s, CASES[i].text, lines);
            assert_string_equal(ls_str_text(&s), lines ? CASES[i].lines : CASES[i].shown);
            ls_str_release(&s);
        }
}

static void fields_of_csv(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        { "", "" },          { "loss", "loss" }, { "a,b", "\"a,b\"" }, { "\"a\"", "\"\"\"a\"\"\"" },
        { "a\nb", "a\\nb" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_str s = { 0 };
        ls_str_add_csv(&s, CASES[i][0]);
        assert_string_equal(ls_str_text(&s), CASES[i][1]);
        ls_str_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growing),       cmocka_unit_test(without_memory),
        cmocka_unit_test(globs),         cmocka_unit_test(endings),
        cmocka_unit_test(near_names),    cmocka_unit_test(sizes),
        cmocka_unit_test(numbers),       cmocka_unit_test(durations),
        cmocka_unit_test(decimal_comma), cmocka_unit_test(control_characters_are_shown),
        cmocka_unit_test(fields_of_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
