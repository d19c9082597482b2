/* rounds.c - see rounds.h. */
#include "rounds.h"

#include <stdlib.h>

#include "group_calls.h"

static uint32_t flag_is_set(void *context)
{
    const volatile sig_atomic_t *flag = context;
    return flag && *flag;
}

ls_rounds ls_rounds_of_flag(ls_group *g, const volatile sig_atomic_t *flag)
{
    return (ls_rounds){ .group = g, .asked_here = flag_is_set, .context = (void *)(uintptr_t)flag };
}

ls_status ls_rounds_next(ls_rounds *w)
{
    if (w->asked)
        return LS_OK;
    const uint32_t mine = w->asked_here(w->context);
    if (!w->group) {
        w->asked = mine;
        return LS_OK;
    }
    uint32_t *all;
    LS_TRY(ls_group_all_gather_new(w->group, &mine, sizeof mine, (void **)&all));
    for (int r = 0; r < ls_group_size(w->group); r++)
        w->asked |= all[r];
    free(all);
    return LS_OK;
}
