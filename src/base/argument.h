/* argument.h - checks of arguments in public functions. A NULL pointer, or a number that is not a value of an
 * enum, is a mistake of the calling program: the call fails with LS_E_ARG and a message that names the
 * function and the argument, and the program goes on. */
#pragma once
#include "lockstep/types.h"

/* Message: "ls_trainer_step: inputs is NULL". */
ls_status ls_argument_missing(const char *function, const char *argument) __attribute__((cold));
/* Message: "ls_live_open_with: o->keep is 7, which is not a value of ls_live_keep". */
ls_status ls_argument_unknown(const char *function, const char *argument, int value, const char *type)
    __attribute__((cold));

/* Message: "ls_trainer_put: values->type has 12 dimensions: 0 to 8 are possible". */
ls_status ls_argument_unsound(const char *function, const char *argument, const ls_type *t)
    __attribute__((cold));

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

/* x is a value of the enum `type`, whose values go from 0 to `last`. */
#define LS_ARG_ENUM(type, x, last)                                      \
    do {                                                                \
        if ((unsigned)(x) > (unsigned)(last))                           \
            return ls_argument_unknown(__func__, #x, (int)(x), #type);  \
    } while (0)
#define LS_ARG_DTYPE(x) LS_ARG_ENUM(ls_dtype, x, LS_DTYPE_COUNT - 1)
/* x is a type that can be used: ls_type_is_sound. */
#define LS_ARG_TYPE(x)                                    \
    do {                                                  \
        LS_ARG_DTYPE(x.dtype);                            \
        if (!ls_type_is_sound(&x))                        \
            return ls_argument_unsound(__func__, #x, &x); \
    } while (0)

/* Whether a type that a caller gave can be used: its element type is one of ls_dtype, and it has 0 to
 * LS_MAX_DIMS dimensions, none below 0. */
bool ls_type_is_sound(const ls_type *t);
