/* check.c - what LS_CHECK prints before it aborts. Only this file of the library may write to stderr. */
#include "check.h"
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void ls_abort_check(const char *file, int line, const char *expression, const char *format, ...)
{
    char detail[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    dprintf(STDERR_FILENO, "lockstep: %s:%d: broken invariant: %s%s%s\n", file, line, expression,
            detail[0] ? ": " : "", detail);
    void *frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    abort();
}
