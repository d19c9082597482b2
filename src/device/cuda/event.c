/* event.c - events of the device cuda: those of the driver. */
#include <stdlib.h>
#include <unistd.h>

#include "base/sys.h"
#include "cuda_own.h"

ls_status ls_cuda_event(ls_event **out, const ls_device *d)
{
    const cu_driver *cu;
    (void)d;
    LS_TRY(ls_cuda_enter(&cu));
    LS_TRY(ls_sys_have(*out = ls_sys_calloc(1, sizeof **out)));
    (*out)->process = getpid();
    const ls_status s = ls_cuda_check(cu->event_create(&(*out)->event, CU_EVENT_DEFAULT), "cuEventCreate");
    if (s != LS_OK) {
        free(*out);
        *out = NULL;
    }
    return s;
}

void ls_cuda_forget(ls_event **e)
{
    const cu_driver *cu;
    if (*e && (*e)->process == getpid() && ls_cuda_enter(&cu) == LS_OK)
        cu->event_destroy((*e)->event);
    free(*e);
    *e = NULL;
}

double ls_cuda_elapsed(const ls_event *from, const ls_event *to)
{
    const cu_driver *cu;
    float milliseconds = 0;
    if (ls_cuda_enter(&cu) == LS_OK)
        cu->event_elapsed(&milliseconds, from->event, to->event);
    return (double)milliseconds * 1e-3;
}
