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
 * refused is not needed. How often it failed. */
int ls_test_memory(ls_status (*call)(void *context), void *context, int stride);
/* Sets a locale with a decimal comma for the whole program, as a host program may. False: none is installed
 * and localedef cannot make one. setlocale(LC_NUMERIC, "C") ends it. */
bool ls_test_comma_locale(void);
/* LOCKSTEP_DATA, or NULL; then it says on stderr that `what` was skipped. */
const char *ls_test_data(const char *what);
