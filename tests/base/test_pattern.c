/* test_pattern.c - patterns of paths: which paths they match, patterns that need too much work, and the
 * request to stop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/pattern.h"
#include "base/stop.h"
#include "support/support.h"

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The names that match in the scratch folder, sorted, with a space behind each. */
static const char *found(const char *pattern)
{
    static char names[1024];
    char path[1024];
    ls_paths p;
    snprintf(path, sizeof path, "%s", ls_test_path(pattern));
    ASSERT_OK(ls_pattern_find(&p, path));
    if (p.n)
        qsort(p.at, p.n, sizeof *p.at, by_name);
    names[0] = 0;
    for (size_t i = 0; i < p.n; i++)
        sprintf(names + strlen(names), "%s ", p.at[i] + strlen(ls_test_dir()) + 1);
    ls_paths_release(&p);
    return names;
}

static void finds(void **state)
{
    (void)state;
    static const char *const FILES[] = { "a.txt", "b.txt", "c.md", "{x}", "d{}", "n08", "n09", "n10", "n11" };
    for (int i = 0; i < 9; i++)
        ASSERT_OK(ls_file_write(ls_test_path(FILES[i]), "x", 1));
    ASSERT_OK(ls_make_dirs(ls_test_path("sub")));
    ASSERT_OK(ls_file_write(ls_test_path("sub/a.txt"), "x", 1));
    assert_string_equal(found("*.txt"), "a.txt b.txt ");
    assert_string_equal(found("[bc].*"), "b.txt c.md ");
    assert_string_equal(found("*/?.txt"), "sub/a.txt ");
    assert_string_equal(found("nothing*"), "");
    assert_string_equal(found("{a,b}.txt"), "a.txt b.txt ");
    assert_string_equal(found("{sub/,}a.{md,txt}"), "a.txt sub/a.txt ");
    assert_string_equal(found("{{a,b}.txt,{c,d}.md}"), "a.txt b.txt c.md ");
    assert_string_equal(found("{{{a}}}.txt"), "a.txt ");
    assert_string_equal(found("d{}"), "d{} "); /* no choice */
    assert_string_equal(found("\\{x\\}"), "{x} ");
    assert_string_equal(found("{x"), "");
    assert_string_equal(found("n{09..10}"), "n09 n10 ");
    assert_string_equal(found("n{09..09}"), "n09 ");
    assert_string_equal(found("{a,n}{8..11}"), "n10 n11 "); /* as many digits as the first number */
    assert_string_equal(found("n{10..09}"), "");
    assert_string_equal(found("s*"), "sub "); /* a folder, too */
}

static void bounds(void **state)
{
    (void)state;
    char braces[200] = "", deep[400] = "";
    ls_paths p;
    for (int i = 0; i < 24; i++)
        strcat(braces, "{a,b}");
    ASSERT_FAILS(ls_pattern_find(&p, braces), LS_E_USAGE, braces, "more than 4096 patterns", "fewer files");
    assert_true(p.n == 0 && !p.at);
    ASSERT_FAILS(ls_pattern_find(&p, "n{0000..4096}"), LS_E_USAGE, "more than 4096 patterns");
    for (int i = 0; i < 100; i++)
        strcat(deep, "{");
    strcat(deep, "a");
    for (int i = 0; i < 100; i++)
        strcat(deep, "}");
    ASSERT_FAILS(ls_pattern_find(&p, deep), LS_E_USAGE, "patterns");
    char *longest = malloc((1 << 16) + 2);
    memset(longest, 'a', (1 << 16) + 1);
    longest[(1 << 16) + 1] = 0;
    ASSERT_FAILS(ls_pattern_find(&p, longest), LS_E_USAGE, "65537 bytes", "aaa...");
    free(longest);
    /* A star too many: links that lead back make 24^5 paths of 24 names. */
    for (int i = 0; i < 24; i++) {
        char name[32];
        snprintf(name, sizeof name, "loop/%d", i);
        ASSERT_OK(ls_make_dirs(ls_test_path("loop")));
        assert_int_equal(symlink(".", ls_test_path(name)), 0);
    }
    ASSERT_FAILS(ls_pattern_find(&p, ls_test_path("loop/*/*/*/*/*")), LS_E_USAGE, "loop/*/*/*/*/*",
                 "more than 1000000 names", "more exactly");
    assert_true(p.n == 0 && !p.at);
}

static void stops(void **state)
{
    (void)state;
    static volatile sig_atomic_t flag;
    ls_paths p;
    uint64_t hash;
    char bytes[100] = "abc";
    assert_false(ls_stop_asked());
    ls_stop_on(&flag);
    ASSERT_OK(ls_stop_check("doing %d", 3));
    ASSERT_OK(ls_hash64_long(&hash, bytes, sizeof bytes, "it"));
    assert_true(hash == ls_hash64(bytes, sizeof bytes));
    flag = 1;
    assert_true(ls_stop_asked());
    ASSERT_FAILS(ls_stop_check("doing %d", 3), LS_E_STOPPED, "stopped while doing 3");
    ASSERT_FAILS(ls_pattern_find(&p, ls_test_path("*")), LS_E_STOPPED, "stopped while looking for", "*");
    ASSERT_FAILS(ls_hash64_long(&hash, bytes, sizeof bytes, "it"), LS_E_STOPPED, "stopped while hashing it");
    ls_stop_on(NULL);
    assert_false(ls_stop_asked());
    ASSERT_OK(ls_pattern_find(&p, ls_test_path("*")));
    ls_paths_release(&p);
    uint8_t *large = calloc(1, 40 << 20); /* more than one part */
    large[39 << 20] = 7;
    ASSERT_OK(ls_hash64_long(&hash, large, 40 << 20, "it"));
    assert_true(hash == ls_hash64(large, 40 << 20));
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(finds), cmocka_unit_test(bounds),
                                        cmocka_unit_test(stops) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
