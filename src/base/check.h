/* check.h - LS_CHECK: a broken invariant aborts with file, line and a backtrace. It is for our own mistakes,
 * never for bad input. */
#pragma once
_Noreturn void ls_abort_check(const char *file, int line, const char *expression, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Writes the text and the calls that lead here to stderr. NULL writes nothing, and prepares: after that a
 * signal handler may call it. */
void ls_print_stack(const char *what);
#define LS_CHECK(e, ...) ((e) ? (void)0 : ls_abort_check(__FILE__, __LINE__, #e, "" __VA_ARGS__))
#ifdef LS_DEV
#define LS_ASSERT(e, ...) LS_CHECK(e, ##__VA_ARGS__)
#else
#define LS_ASSERT(e, ...) ((void)0)
#endif
