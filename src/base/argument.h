/* argument.h - what a public function does with a pointer that must not be NULL: it fails with LS_E_ARG and a
 * message that names the function and the argument. A mistake of the calling program is an error of that
 * call; it does not end the program. */
#pragma once
#include "lockstep/status.h"

/* "ls_trainer_step: inputs is NULL". */
ls_status ls_argument_missing(const char *function, const char *argument) __attribute__((cold));

/* In functions that return ls_status, a value, and nothing. What returns a value leaves the message in
 * ls_error_message. */
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
