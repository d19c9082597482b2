/* thread.c - ranks as threads of one process, and the group of one: the control block and windows are
 * anonymous mappings, which all threads see. */
#include "cores.h"
#include "group_life.h"

#include <string.h>
#include <sys/mman.h>

#include "base/argument.h"
#include "base/sys.h"

static void *fresh(size_t bytes)
{
    void *p = ls_sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static ls_status reserve(ls_group *g, size_t bytes, uint64_t *handle)
{
    (void)g;
    char *base = fresh(bytes);
    if (!base)
        return ls_fail(LS_E_MEMORY, "no memory for a window of %zu bytes", bytes);
    *handle = (uint64_t)(uintptr_t)base;
    return LS_OK;
}

static ls_status map(ls_group *g, uint64_t handle, size_t bytes, char **base)
{
    (void)g, (void)bytes;
    *base = (char *)(uintptr_t)handle;
    return LS_OK;
}

static void unmap(ls_group *g, uint64_t handle, size_t bytes, char *base, bool last)
{
    (void)g, (void)handle;
    if (last)
        munmap(base, bytes);
}

static void thread_leave(ls_group *g)
{
    if (atomic_fetch_sub(&g->control->users, 1) == 1)
        munmap(g->control, ls_control_bytes(g->control->ranks));
}

static const ls_sharing THREADS = { "thread", reserve, map, unmap, thread_leave },
                        SELF = { "self", reserve, map, unmap, thread_leave };

static ls_status create(ls_group **out, int ranks, const ls_sharing *sharing)
{
    memset(out, 0, sizeof *out * (size_t)ranks);
    ls_control_block *control = fresh(ls_control_bytes(ranks));
    if (!control)
        return ls_fail(LS_E_MEMORY, "no memory for a group of %d ranks", ranks);
    ls_control_init(control, ranks);
    atomic_store(&control->users, ranks);
    for (int r = 0; r < ranks; r++) {
        ls_status s = ls_group_open(&out[r], control, sharing, -1, r, 0, ranks);
        if (s == LS_OK)
            continue;
        atomic_store(&control->users, r); /* the last of the groups that were made frees it */
        for (int made = 0; made < r; made++)
            ls_group_destroy(&out[made]);
        if (r == 0)
            munmap(control, ls_control_bytes(ranks));
        return s;
    }
    for (int r = 0; r < ranks; r++)
        ls_group_tune(out[r]);
    return LS_OK;
}

ls_status ls_group_self(ls_group **out)
{
    LS_ARG(out);
    return create(out, 1, &SELF);
}

ls_status ls_group_threads(ls_group **out, int ranks)
{
    LS_ARG(out);
    if (ranks < 1 || ranks > LS_CONTROL_RANKS)
        return ls_fail(LS_E_ARG, "a group of %d threads: 1 to %d are possible", ranks, LS_CONTROL_RANKS);
    return create(out, ranks, &THREADS);
}
