/* argument.h - checks of pointer arguments in public functions. A NULL pointer is a mistake of the calling
 * program: the call fails with LS_E_ARG and a message that names the function and the argument, and the
 * program goes on. */
#pragma once
#include "lockstep/status.h"

/* Message: "ls_trainer_step: inputs is NULL". */
ls_status ls_argument_missing(const char *function, const char *argument) __attribute__((cold));

/* For functions that return an ls_status, a value (LS_ARG_OR), or nothing (LS_ARG_VOID). The last two leave
 * the message in ls_error_message. */
#define LS_ARG(x)                                     \
    do {                                              \
        if (!(x))                                     \
            return ls_argument_missing(__func__, #x); \
    } while (0)
#define LS_ARG_OR(x, value)                                  \
    do {                                                     \
        if (!(x))                                            \
            return ls_argument_missing(__func__, #x), value; \
    } while (0)
#define LS_ARG_VOID(x)                         \
    do {                                       \
        if (!(x)) {                            \
            ls_argument_missing(__func__, #x); \
            return;                            \
        }                                      \
    } while (0)
