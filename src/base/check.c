/* check.c - what LS_CHECK prints before it aborts. Only this file of the library may write to stderr. */
#include "check.h"
#include <execinfo.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static void print_frames(void)
{
    void *frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
}

void ls_abort_check(const char *file, int line, const char *expression, const char *format, ...)
{
    char detail[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    dprintf(STDERR_FILENO, "lockstep: %s:%d: broken invariant: %s%s%s\n", file, line, expression,
            detail[0] ? ": " : "", detail);
    print_frames();
    abort();
}

void ls_print_stack(const char *what)
{
    void *one[1];
    if (!what) {
        backtrace(one, 1); /* (it loads a library the first time) */
        return;
    }
    const struct iovec text[] = { { "lockstep: ", 10 },
                                  { (void *)(uintptr_t)what, strlen(what) },
                                  { "\n", 1 } };
    if (writev(STDERR_FILENO, text, 3) >= 0)
        print_frames();
}
