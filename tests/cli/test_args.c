/* test_args.c - options of the command line, and that the table of verbs is complete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "support/support.h"

static ls_args a;

static ls_status parse(const char *verb, int n, const char *const *words)
{
    ls_args_release(&a);
    return ls_args_parse(&a, ls_verb_find(verb), n, (char **)words);
}
#define PARSE(verb, ...)                                                         \
    parse(verb, (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
          (const char *const[]){ __VA_ARGS__ })

static void options_and_words_in_any_order(void **state)
{
    (void)state;
    ASSERT_OK(PARSE("train", "--set", "train.epochs=3", "r.yaml", "--workers=2", "-qv", "--set=a=b=c",
                    "--profile=5:6", "--dry-run"));
    assert_int_equal(a.n_words, 1);
    assert_string_equal(a.words[0], "r.yaml");
    assert_int_equal(a.n_sets, 3);
    assert_string_equal(a.sets[0], "train.epochs=3");
    assert_string_equal(a.sets[1], "workers=2");
    assert_string_equal(a.sets[2], "a=b=c");
    assert_true(ls_args_has(&a, "--quiet") && ls_args_has(&a, "--verbose") && ls_args_has(&a, "--dry-run"));
    assert_false(ls_args_has(&a, "--no-progress"));
    assert_string_equal(ls_args_value(&a, "--profile"), "5:6");
    ls_recipe_arg arg = ls_args_recipe(&a);
    assert_string_equal(arg.name, "r.yaml");
    assert_int_equal(arg.n_sets, 3);
    ASSERT_OK(PARSE("train", "r", "--profile"));
    assert_true(ls_args_has(&a, "--profile"));
    assert_null(ls_args_value(&a, "--profile"));
    /* the last of two words: what lies behind is not asked */
    ASSERT_OK(parse("train", 2, (const char *const[]){ "r", "--profile", "5:6" }));
    assert_true(ls_args_has(&a, "--profile"));
    assert_null(ls_args_value(&a, "--profile"));
    ASSERT_OK(PARSE("train", "--profile", "11:20", "r")); /* the next word, if it can be nothing else */
    assert_string_equal(ls_args_value(&a, "--profile"), "11:20");
    assert_string_equal(a.words[0], "r");
    ASSERT_OK(PARSE("train", "--profile", "2nd.yaml"));
    assert_null(ls_args_value(&a, "--profile"));
    assert_string_equal(a.words[0], "2nd.yaml");
    ASSERT_OK(PARSE("plan", "r", "--isa", "avx2", "--threads", "4"));
    assert_string_equal(a.sets[0], "isa=avx2");
    assert_string_equal(a.sets[1], "threads=4");
    ASSERT_OK(PARSE("predict", "run", "a.png", "--", "--b.png"));
    assert_int_equal(a.n_words, 3);
    assert_string_equal(a.words[2], "--b.png");
    ASSERT_OK(PARSE("predict", "run", "-")); /* a word, no option */
    assert_int_equal(a.n_words, 2);
    assert_string_equal(a.words[1], "-");
    ASSERT_OK(PARSE("eval", "-vv", "run"));
    assert_int_equal(ls_args_count(&a, "--verbose"), 2);
    ASSERT_OK(PARSE("train", "--help")); /* help needs no recipe */
}

static void wrong_usage_says_what_is_right(void **state)
{
    (void)state;
    ASSERT_FAILS(PARSE("train", "--rezume=auto", "r"), LS_E_USAGE, "lockstep train has no option --rezume",
                 "--resume");
    ASSERT_FAILS(PARSE("train", "r", "-z"), LS_E_USAGE, "no option -z");
    ASSERT_FAILS(PARSE("eval", "s3://bucket/run"), LS_E_USAGE,
                 "eval: s3://bucket/run: s3:// is not supported; what is: a path in a file system");
    ASSERT_FAILS(PARSE("export", "run", "--to", "http://host/model.pt"), LS_E_USAGE,
                 "--to: http://host/model.pt: ");
    ASSERT_FAILS(PARSE("train", "r", "--resume", "file:///runs/a"), LS_E_USAGE, "--resume: file:///runs/a: ");
    /* an address may be where one is wanted */
    ASSERT_OK(PARSE("train", "r", "--set", "data.mirror=https://host/data/"));
    ASSERT_FAILS(PARSE("runs", "--set", "a=b"), LS_E_USAGE, "lockstep runs has no option --set");
    ASSERT_FAILS(PARSE("train", "r", "--set"), LS_E_USAGE, "--set needs a value", "KEY=VALUE");
    ASSERT_FAILS(PARSE("train", "r", "--dry-run=yes"), LS_E_USAGE, "--dry-run takes no value");
    ASSERT_FAILS(PARSE("train", "-q"), LS_E_USAGE, "lockstep train needs RECIPE");
    ASSERT_FAILS(PARSE("train", "a", "b"), LS_E_USAGE, "unexpected argument 'b'");
    ASSERT_FAILS(ls_verb_unknown("tarin"), LS_E_USAGE, "did you mean `lockstep train`?");
    ASSERT_FAILS(ls_verb_unknown("xyzzy-plugh"), LS_E_USAGE, "lockstep --help");
    int64_t n = 10;
    ASSERT_OK(PARSE("predict", "r", "--count", "12x"));
    ASSERT_FAILS(ls_args_int(&a, "--count", 1, &n), LS_E_USAGE, "--count 12x", "whole number from 1");
    ASSERT_OK(PARSE("predict", "r", "--count", "0"));
    ASSERT_FAILS(ls_args_int(&a, "--count", 1, &n), LS_E_USAGE, "--count 0");
    ASSERT_OK(PARSE("predict", "r", "--count", "99999999999999999999"));
    ASSERT_FAILS(ls_args_int(&a, "--count", 1, &n), LS_E_USAGE, "--count");
    assert_int_equal(n, 10);
    ASSERT_OK(PARSE("predict", "r", "--count", "12"));
    ASSERT_OK(ls_args_int(&a, "--count", 1, &n));
    assert_int_equal(n, 12);
}

static void too_many_options_are_refused(void **state)
{
    (void)state;
    const char *words[2 * LS_MAX_ARGS + 4];
    for (int i = 0; i < 2 * LS_MAX_ARGS + 4; i++)
        words[i] = "-q";
    ASSERT_FAILS(parse("train", LS_MAX_ARGS + 1, words), LS_E_USAGE, "more than");
    for (int i = 0; i < 2 * LS_MAX_ARGS + 4; i++)
        words[i] = "w";
    ASSERT_FAILS(parse("predict", LS_MAX_ARGS + 1, words), LS_E_USAGE, "more than");
}

/* (inlined, gcc 12 takes the stream's pointer to `text` for one that outlives it) */
__attribute__((noinline)) static char *help_of(const ls_verb *v)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    v ? ls_help_verb(f, v) : ls_help_table(f);
    fclose(f);
    return text;
}

static void every_verb_has_help_and_examples(void **state)
{
    (void)state;
    static const char *const CONTRACT[] = { "train",  "eval",    "predict", "plan", "explain",
                                            "export", "inspect", "recipe",  "runs", "doctor" };
    char *table = help_of(NULL);
    for (size_t i = 0; i < sizeof CONTRACT / sizeof CONTRACT[0]; i++) {
        const ls_verb *v = ls_verb_find(CONTRACT[i]);
        assert_non_null(v);
        char *help = help_of(v), line[64];
        assert_true(v->run && *v->summary && *v->about);
        for (const ls_option *o = v->options; o->name; o++)
            ASSERT_CONTAINS(help, o->name);
        ASSERT_CONTAINS(help, v->recipe ? "--set KEY=VALUE" : "--quiet");
        snprintf(line, sizeof line, "  lockstep %s", v->name);
        ASSERT_CONTAINS(strstr(help, "Examples:"), line);
        snprintf(line, sizeof line, "verb\t%s\t", v->name);
        ASSERT_CONTAINS(table, line);
        free(help);
    }
    free(table);
}

static int release(void **state)
{
    (void)state;
    ls_args_release(&a);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_words_in_any_order),
        cmocka_unit_test(wrong_usage_says_what_is_right),
        cmocka_unit_test(too_many_options_are_refused),
        cmocka_unit_test(every_verb_has_help_and_examples),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
