/* log.c - one sink for the whole process. A lock separates messages of different threads; a sink must not
 * log. */
#include "log.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include "c_locale.h"
#include "shown.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ls_log_sink sink;
static void *sink_context;
static atomic_int most = -1; /* messages of higher levels are not even formatted */

void ls_log_set(ls_log_sink new_sink, void *context, ls_level up_to)
{
    pthread_mutex_lock(&lock);
    sink = new_sink;
    sink_context = context;
    atomic_store(&most, new_sink ? (int)up_to : -1);
    pthread_mutex_unlock(&lock);
}

void ls_log(ls_level level, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&most, memory_order_relaxed))
        return;
    char text[4096];
    va_list args;
    va_start(args, format);
    ls_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_str shown = { 0 };
    ls_str_add_shown(&shown, text, true);
    pthread_mutex_lock(&lock);
    if (sink)
        sink(sink_context, level, ls_str_text(&shown));
    pthread_mutex_unlock(&lock);
    ls_str_release(&shown);
}
