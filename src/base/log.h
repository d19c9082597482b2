/* log.h - log messages go to one sink, which the program sets. The library never prints. */
#pragma once
#include <stdarg.h>
typedef enum ls_level { LS_ERROR, LS_WARN, LS_INFO, LS_DEBUG, LS_TRACE } ls_level;
typedef void (*ls_log_sink)(void *context, ls_level level, const char *message);
void ls_log_set(ls_log_sink sink, void *context, ls_level up_to); /* sink NULL (the default): no messages */
void ls_log(ls_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define ls_log_info(...) ls_log(LS_INFO, __VA_ARGS__)
#define ls_log_warn(...) ls_log(LS_WARN, __VA_ARGS__)
#define ls_log_debug(...) ls_log(LS_DEBUG, __VA_ARGS__)
