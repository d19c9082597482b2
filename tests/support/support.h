/* support.h - what every test program uses: cmocka with its includes, checks of statuses and messages, a
 * scratch folder. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lockstep/status.h"

/* The call succeeds; its message is shown if it does not. */
#define ASSERT_OK(call) ls_test_ok((call), #call, __FILE__, __LINE__)
/* The call fails with this status, and its message contains every further text: what, where, what to do. */
#define ASSERT_FAILS(call, code, ...) \
    ls_test_fails((call), (code), #call, __FILE__, __LINE__, (const char *[]){ __VA_ARGS__, NULL })
/* `text` contains `part`. */
#define ASSERT_CONTAINS(text, part) ls_test_contains((text), (part), __FILE__, __LINE__)

void ls_test_ok(ls_status s, const char *call, const char *file, int line);
void ls_test_fails(ls_status s, ls_status expected, const char *call, const char *file, int line,
                   const char *const *parts);
void ls_test_contains(const char *text, const char *part, const char *file, int line);

/* An empty folder of this process, removed at exit. And a path in it: valid until the eighth call after this
 * one. */
const char *ls_test_dir(void);
const char *ls_test_path(const char *name);
/* The file NAME of the two folders has the same bytes. */
void ls_test_same_file(const char *a, const char *b, const char *name);
/* Number of entries of the folder. */
int ls_test_count(const char *dir);
/* Calls it again and again, while the first, the second, ... allocation is refused, each `stride` behind the
 * last one, until no more are made. It ends each time with LS_E_MEMORY and a message, or well, where what was
 * refused is not needed. How often it failed. Under sanitizers only each fifth behind the 50th is tried, and
 * counts for five. */
int ls_test_memory(ls_status (*call)(void *context), void *context, int stride);
/* Ends the test case, because this machine lacks something that a package or LOCKSTEP_DATA would bring. The
 * program then exits with 77, which ctest counts as skipped, unless a case fails. cmocka's skip() is for what
 * this processor or this kind of build cannot have; it does not change the exit status. */
_Noreturn void ls_test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The folder that LOCKSTEP_DATA named when the program began. If it is not set or does not contain `name`,
 * the test case is skipped. */
const char *ls_test_data(const char *name);

/* The exit status of a test program: 1 if a case failed, 77 if none failed but ls_test_skip was called. */
int ls_test_result(int failed);
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown) \
    ls_test_result(_cmocka_run_group_tests(#tests, tests, sizeof(tests) / sizeof *(tests), setup, teardown))
/* Sets a locale with a decimal comma for the whole program, as a host program may. If none is installed and
 * localedef cannot make one, the test case is skipped. setlocale(LC_NUMERIC, "C") ends it. */
void ls_test_comma_locale(void);
