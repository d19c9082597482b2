/* test_arena.c - arenas: memory is zeroed, aligned and disjoint; any size is possible; a released arena can
 * be used again. */
#include "base/arena.h"
#include "base/fault.h"
#include "support/support.h"
#include <stdlib.h>
#include <string.h>

static void zeroed_aligned_apart(void **state)
{
    (void)state;
    enum { N = 3000 };
    static unsigned char *p[N];
    static size_t size[N];
    ls_arena a;
    ls_arena_init(&a);
    for (int round = 0; round < 2; round++) {
        size_t total = 0;
        for (int i = 0; i < N; i++) {
            size[i] = i % 500 == 499 ? 2000000 : (size_t)(i * 37 % 301);
            total += size[i];
            p[i] = ls_arena_alloc(&a, size[i]);
            assert_non_null(p[i]);
            assert_int_equal((uintptr_t)p[i] % 16, 0);
            for (size_t k = 0; k < size[i]; k++)
                if (p[i][k])
                    fail_msg("byte %zu of allocation %d is not zero", k, i);
            memset(p[i], i % 255 + 1, size[i]);
            if (i && size[i] == 0)
                assert_ptr_not_equal(p[i], p[i - 1]);
        }
        for (int i = 0; i < N; i++) /* nobody wrote into anybody else */
            for (size_t k = 0; k < size[i]; k++)
                if (p[i][k] != i % 255 + 1)
                    fail_msg("byte %zu of allocation %d was overwritten", k, i);
        assert_true(a.bytes >= total);
        ls_arena_release(&a);
        assert_int_equal(a.bytes, 0);
        assert_null(a.head);
        ls_arena_release(&a);
    }
}

static void copies(void **state)
{
    (void)state;
    ls_arena a;
    ls_arena_init(&a);
    const char text[] = "lock\0step";
    assert_memory_equal(ls_arena_dup(&a, text, sizeof text), text, sizeof text);
    assert_non_null(ls_arena_dup(&a, NULL, 0));
    assert_string_equal(ls_arena_strdup(&a, ""), "");
    assert_string_equal(ls_arena_strdup(&a, "abc"), "abc");
    char *whole = malloc(10001);
    memset(whole, 'y', 10000);
    whole[10000] = 0;
    assert_string_equal(ls_arena_printf(&a, "%d %s", 5, "five"), "5 five");
    const char *printed = ls_arena_printf(&a, "<%s>", whole);
    assert_int_equal(strlen(printed), 10002);
    assert_memory_equal(printed + 1, whole, 10000);
    int *numbers = LS_ARENA_ARRAY(&a, int, 10), *one = LS_ARENA_NEW(&a, int);
    numbers[9] = *one = 3;
    free(whole);
    ls_arena_release(&a);
}

/* What is asked for behind a failure fails, too, so that nothing is built on what is missing. */
static void without_memory(void **state)
{
    (void)state;
    ls_arena a;
    ls_arena_init(&a);
    char *before = ls_arena_strdup(&a, "before");
    ls_fault_arm(1u << LS_POINT_MEMORY, 0, LS_FAIL_ONCE);
    assert_null(ls_arena_alloc(&a, 8));
    ls_fault_disarm();
    assert_null(ls_arena_alloc(&a, 8));
    assert_null(ls_arena_dup(&a, "x", 2));
    assert_string_equal(ls_arena_strdup(&a, "text"), "");
    assert_string_equal(ls_arena_printf(&a, "%d", 1), "");
    assert_string_equal(before, "before");
    ASSERT_FAILS(ls_arena_status(&a), LS_E_MEMORY, "out of memory");
    ls_arena_release(&a);
    ASSERT_OK(ls_arena_status(&a));
    assert_string_equal(ls_arena_strdup(&a, NULL), "");
    ASSERT_FAILS(ls_arena_status(&a), LS_E_MEMORY, "out of memory");
    ls_arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(zeroed_aligned_apart),
                                        cmocka_unit_test(without_memory), cmocka_unit_test(copies) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
