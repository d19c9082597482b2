/* status.h - how Lockstep reports errors.
 *
 * Everything that does I/O, construction or communication returns ls_status. The first function to know about
 * an error writes the message with ls_fail(): what happened, where (file, line, key, tensor, offset), what to
 * do about it. Callers pass the status on with LS_TRY. The message is kept per thread until the next ls_fail.
 * The library never prints and never exits. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_API __attribute__((visibility("default")))

/* The version of these headers; ls_version() says that of the library, "0.1.0". */
#define LS_VERSION_MAJOR 0
#define LS_VERSION_MINOR 1
#define LS_VERSION_PATCH 0
#define LS_VERSION "0.1.0"
LS_API const char *ls_version(void);

/* Options. Each struct of options has its defaults in a macro beneath it, and as a function for C++ and
 * bindings: ls_trainer_opts_default(). The macros that take options by name are C's; in C++ they take a
 * pointer to a filled struct, or nothing for the defaults. NULL in place of options stands for the defaults,
 * too. */
#ifdef __cplusplus
#define LS_OR_DEFAULTS = NULL
#else
#define LS_OR_DEFAULTS
/* An option that is given by name overrides its default: nothing to warn of. */
#define LS_QUIETLY(type, call)                                                               \
    __extension__({                                                                          \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"") \
            type ls_quiet_ = (call);                                                         \
        _Pragma("GCC diagnostic pop") ls_quiet_;                                             \
    })
#endif

typedef enum ls_status {
    LS_OK = 0,
    LS_E_ARG,         /* a caller passed something that cannot be right */
    LS_E_USAGE,       /* command line or recipe: exit status 2 */
    LS_E_IO,          /* the operating system said no: message carries path and errno text */
    LS_E_FORMAT,      /* bytes from outside that are not what they claim to be */
    LS_E_SHAPE,       /* shapes, types or names that do not fit together */
    LS_E_MEMORY,      /* out of memory */
    LS_E_UNSUPPORTED, /* a real combination that this build or machine cannot do */
    LS_E_NUMERIC,     /* NaN or infinity where a number must be */
    /* another rank failed, died or did not come: the group is broken, the message names it */
    LS_E_PEER,
    LS_E_STOPPED,  /* stopped on request, everything saved: exit status 75 */
    LS_E_INTERNAL, /* a broken invariant that could be reported */
    LS_E_DEVICE,   /* work on a device with memory of its own failed; as a lost rank it need not come again */
    LS_STATUS_COUNT
} ls_status;

LS_API const char *ls_status_name(ls_status s);

/* Message of this thread's latest failure; "" if none. Valid until the next ls_fail on this thread. Local. */
LS_API const char *ls_error_message(void);

/* Where LS_TRY passed the latest failure on, innermost first, one "file:line function" per line; for -v and
 * bug reports. Local. */
LS_API const char *ls_error_trace(void);

/* Records a message and returns `code`, so that `return ls_fail(LS_E_IO, ...)` reads naturally. Local. */
LS_API ls_status ls_fail(ls_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prefixes the current message ("CONTEXT: message") and returns `code`: for callers who know where, not what.
 * Local. */
LS_API ls_status ls_fail_in(ls_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a frame to the trace and returns `s`. Used by LS_TRY. */
LS_API ls_status ls_trace(ls_status s, const char *file, int line, const char *function);

/* From now on long work of the library ends with LS_E_STOPPED soon after *flag is nonzero: looking for files,
 * reading and checking them, tokenizing, building models, ls_generate_all. Training steps, evaluations and
 * saves do not look at it: a loop of one's own looks itself, between steps. The library installs no signal
 * handler; the program's own may set the flag. For the whole process; NULL, as at first: nothing is stopped.
 * Any thread. Local. */
LS_API void ls_stop_on(const volatile sig_atomic_t *flag);

#define LS_TRY(expression)                                                 \
    do {                                                                   \
        ls_status ls_try_status_ = (expression);                           \
        if (ls_try_status_ != LS_OK)                                       \
            return ls_trace(ls_try_status_, __FILE__, __LINE__, __func__); \
    } while (0)

/* The same inside a function with a clean-up label: `ls_status s; ... LS_TRY_TO(s, call(), done);` */
#define LS_TRY_TO(status, expression, label)                  \
    do {                                                      \
        (status) = (expression);                              \
        if ((status) != LS_OK) {                              \
            ls_trace((status), __FILE__, __LINE__, __func__); \
            goto label;                                       \
        }                                                     \
    } while (0)

#ifdef __cplusplus
}
#endif
