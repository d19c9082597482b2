/* status.c - the error record of a thread: one message, and the places that passed it on. Nothing here
 * allocates, so that "out of memory" can be reported too. A message that is too long is cut, and marked as
 * cut. */
#include "argument.h"
#include "c_locale.h"
#include "field.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const STATUS[LS_STATUS_COUNT] = {
    [LS_OK] = "ok",
    [LS_E_ARG] = "invalid argument",
    [LS_E_USAGE] = "wrong usage",
    [LS_E_IO] = "input/output error",
    [LS_E_FORMAT] = "wrong format",
    [LS_E_SHAPE] = "shapes do not fit",
    [LS_E_MEMORY] = "out of memory",
    [LS_E_UNSUPPORTED] = "not supported",
    [LS_E_NUMERIC] = "not a finite number",
    [LS_E_PEER] = "another rank failed",
    [LS_E_STOPPED] = "stopped",
    [LS_E_INTERNAL] = "internal error",
    [LS_E_DEVICE] = "the device failed",
};

enum { MESSAGE_SIZE = 4096, TRACE_SIZE = 2048 };
static _Thread_local char message[MESSAGE_SIZE];
static _Thread_local char trace[TRACE_SIZE];
static _Thread_local const char *field; /* the option whose name begins `message`; NULL: none */

const char *ls_version(void) { return LS_VERSION; }

const char *ls_status_name(ls_status s)
{
    return (unsigned)s < LS_STATUS_COUNT ? STATUS[s] : "unknown status";
}

const char *ls_error_message(void) { return message; }

const char *ls_error_trace(void) { return trace; }

const char *ls_error_field(void) { return field; }

static void mark_cut(char *text, size_t size, int wanted)
{
    if (wanted >= (int)size)
        memcpy(text + size - 4, "...", 4);
}

ls_status ls_fail(ls_status code, const char *format, ...)
{
    char text[MESSAGE_SIZE]; /* (not `message`: it may be one of the arguments) */
    va_list args;
    va_start(args, format);
    mark_cut(text, sizeof text, ls_vsnprintf(text, sizeof text, format ? format : "", args));
    va_end(args);
    strcpy(message, text);
    trace[0] = 0;
    field = NULL;
    return code;
}

ls_status ls_fail_field(ls_status code, const char *option, const char *format, ...)
{
    char text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    mark_cut(text, sizeof text, ls_vsnprintf(text, sizeof text, format, args));
    va_end(args);
    ls_fail(code, "%s: %s", option, text);
    field = option;
    return code;
}

ls_status ls_argument_missing(const char *function, const char *argument)
{
    return ls_fail(LS_E_ARG, "%s: %s is NULL", function, argument);
}

ls_status ls_argument_unknown(const char *function, const char *argument, int value, const char *type)
{
    return ls_fail(LS_E_ARG, "%s: %s is %d, which is not a value of %s", function, argument, value, type);
}

ls_status ls_fail_in(ls_status code, const char *format, ...)
{
    char context[MESSAGE_SIZE], text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    ls_vsnprintf(context, sizeof context, format ? format : "", args);
    va_end(args);
    mark_cut(text, sizeof text, snprintf(text, sizeof text, "%s: %s", context, message));
    strcpy(message, text);
    field = NULL;
    return code;
}

ls_status ls_trace(ls_status s, const char *file, int line, const char *function)
{
    size_t used = strlen(trace);
    int wanted = snprintf(trace + used, sizeof trace - used, "%s:%d %s\n", file ? file : "?", line,
                          function ? function : "?");
    if (wanted >= (int)(sizeof trace - used))
        /* Whole frames only. Later frames are dropped, because the innermost ones say most. */
        trace[used] = 0;
    return s;
}
