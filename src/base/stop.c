/* stop.c - the request to stop: a flag that the program owns and that its signal handler sets. */
#include "base/stop.h"
#include "c_locale.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic(const volatile sig_atomic_t *) watched;
static _Thread_local bool holds;

void ls_stop_on(const volatile sig_atomic_t *flag)
{
    atomic_store_explicit(&watched, flag, memory_order_release);
}

bool ls_stop_asked(void)
{
    const volatile sig_atomic_t *flag = atomic_load_explicit(&watched, memory_order_acquire);
    return flag && *flag && !holds;
}

void ls_stop_hold(bool held) { holds = held; }

ls_status ls_stop_check(const char *doing, ...)
{
    char text[1024];
    va_list args;
    if (!ls_stop_asked())
        return LS_OK;
    va_start(args, doing);
    ls_vsnprintf(text, sizeof text, doing, args);
    va_end(args);
    return ls_fail(LS_E_STOPPED, "stopped while %s", text);
}
