/* memory.c - lays out the memory of a session. On a device that works in the host's memory one mapping has
 * states, IO and arena (in dev builds with unreadable pages around each). On other devices it is one room of
 * device memory, which also has a mirror of the window. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "base/sys.h"
#include "internal.h"

/* The planner has given gradients in the arena their place there. */
static ls_status place_gradients(ls_session *s, const ls_plan *p, bool check)
{
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        if (a->memory != LS_MEM_GRADIENT)
            continue;
        ls_named *e = &s->names[ls_session_lookup(s, a->is, a->name)];
        if (check && (e->memory != LS_MEM_GRADIENT || e->shared || e->offset != a->offset))
            return ls_fail(LS_E_INTERNAL, "session: \"%s\" lies elsewhere in program \"%s\" than in another",
                           a->name, p->graph->name);
        e->offset = a->offset;
    }
    return LS_OK;
}

static size_t page_up(size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (n + page - 1) / page * page;
}

/* A thread takes page faults ahead while the process continues with initial weights, run directory and
 * loader. They cost 30 ms for a hundred megabytes, which would double the time of the first step. The thread
 * does not change contents. Pages that it has not reached fault in as usual, as do all pages before Linux
 * 5.14, which lacks the call. */
static void *prefault_memory(void *context)
{
    ls_session *s = context;
#ifdef MADV_POPULATE_WRITE
    const size_t chunk = 4u << 20;
    bool possible = true;
    for (int k = 0; k < 3; k++)
        for (size_t at = 0, n = page_up(s->region_bytes[k]); at < n && possible && !atomic_load(&s->closing);
             at += chunk) {
            possible = madvise(s->region[k] + at, n - at < chunk ? n - at : chunk, MADV_POPULATE_WRITE) == 0;
            /* The call holds the lock of the address space. Without a pause this thread would have it again
             * before another that waits for it, to map memory or start a thread, is awake: for 4 ms each
             * time, until Linux hands it over. */
            nanosleep(&(struct timespec){ .tv_nsec = 1000 }, NULL);
        }
#endif
    atomic_store(&s->touched, true);
    return NULL;
}

/* Whether the value is a number of the blocks IN or OUT (numbers.c). */
static bool is_number(const ls_named *e)
{
    return e->memory == LS_MEM_IO && !e->shared && !e->host && e->owner < 0 && e->bytes <= LS_NUMBER_BYTES &&
           (e->input || e->output);
}

static void place_name(ls_session *s, ls_named *e)
{
    size_t *bytes = e->memory == LS_MEM_NODE ? &s->ranks->axes[e->axis].node_bytes
                    : e->shared && e->host   ? &s->ranks->host_bytes
                    : e->shared              ? &s->ranks->shared_bytes
                    : e->host                ? &s->region_bytes[LS_REGION_HOST]
                                             : &s->region_bytes[e->memory];
    e->offset = *bytes;
    *bytes += ls_align_up(e->bytes);
}

/* The blocks IN and OUT come first in IO memory. */
static void place_names(ls_session *s)
{
    ls_numbers *x = &s->numbers;
    for (int out = 0; out < 2; out++) {
        for (int k = 0; k < s->n_names; k++)
            if (is_number(&s->names[k]) && s->names[k].output == out)
                place_name(s, &s->names[k]);
        (out ? &x->out_bytes : &x->in_bytes)[0] = s->region_bytes[LS_MEM_IO] - x->in_bytes;
    }
    for (int k = 0; k < s->n_names; k++)
        if (s->names[k].owner < 0 && s->names[k].memory != LS_MEM_GRADIENT && !is_number(&s->names[k]))
            place_name(s, &s->names[k]);
}

static void at_least(size_t *bytes, size_t n) { *bytes = *bytes > n ? *bytes : n; }

ls_status ls_memory_lay_out(ls_session *s, int n_plans, ls_plan *const *plans)
{
    place_names(s);
    for (int i = 0; i < n_plans; i++)
        LS_TRY(place_gradients(s, plans[i], false));
    for (int i = 0; i < n_plans; i++)
        LS_TRY(place_gradients(s, plans[i], true));
    for (int i = 0; i < n_plans; i++) {
        at_least(&s->region_bytes[plans[i]->on_host ? LS_REGION_HOST_ARENA : LS_MEM_ARENA],
                 plans[i]->arena_bytes);
        at_least(&s->region_bytes[LS_MEM_PINNED], plans[i]->pinned_bytes);
        at_least(&s->region_bytes[LS_MEM_SYMMETRIC], plans[i]->symmetric_bytes);
    }
    return s->ranks ? ls_ranks_map(s, &plans[0]->device) : LS_OK;
}

/* Memory of the host beside an apart device. */
static ls_status map_host(ls_session *s, const ls_device *d)
{
    static const int ORDER[] = { LS_REGION_HOST, LS_REGION_HOST_ARENA, LS_REGION_HOST_SPARE };
    enum { REGIONS = sizeof ORDER / sizeof *ORDER };
    size_t at[REGIONS];
    for (int k = 0; k < REGIONS; k++) {
        at[k] = s->host_bytes;
        s->host_bytes += page_up(s->region_bytes[ORDER[k]]);
    }
    if (s->ranks)
        s->region[LS_REGION_HOST_SHARED] = s->ranks->window->mine + s->ranks->shared_bytes +
                                           s->region_bytes[LS_MEM_SYMMETRIC];
    if (!s->host_bytes)
        return LS_OK;
    LS_TRY(s->ops->pinned((void **)&s->host, d, s->host_bytes));
    for (int k = 0; k < REGIONS; k++)
        s->region[ORDER[k]] = s->host + at[k];
    return LS_OK;
}

/* Memory of an apart device, with a mirror of the window. Sources are zero in fresh memory, as in fresh host
 * memory. */
static ls_status map_apart(ls_session *s, const ls_device *d)
{
    static const int ORDER[] = { LS_MEM_STATE, LS_MEM_IO,        LS_REGION_SPARE,
                                 LS_MEM_ARENA, LS_REGION_SHARED, LS_MEM_SYMMETRIC };
    enum { REGIONS = sizeof ORDER / sizeof *ORDER };
    size_t at[REGIONS];
    char text[32];
    if (s->ranks)
        s->region_bytes[LS_REGION_SHARED] = s->ranks->shared_bytes;
    for (int k = 0; k < REGIONS; k++) {
        at[k] = s->bytes;
        s->bytes += ORDER[k] == LS_REGION_SHARED ? s->region_bytes[ORDER[k]]
                                                 : page_up(s->region_bytes[ORDER[k]]);
    }
    if (s->region_bytes[LS_MEM_PINNED])
        LS_TRY(s->ops->pinned((void **)&s->region[LS_MEM_PINNED], d, s->region_bytes[LS_MEM_PINNED]));
    LS_TRY(map_host(s, d));
    if (!s->bytes)
        return LS_OK;
    if (s->ops->room((void **)&s->memory, d, s->bytes) != LS_OK)
        return ls_fail(LS_E_MEMORY,
                       "session: device %s has no room of %s for state, inputs and the arena: %s; a smaller "
                       "micro-batch or recompute needs less",
                       d->ops->name, ls_format_bytes(text, s->bytes), ls_error_message());
    for (int k = 0; k < REGIONS; k++) {
        s->region[ORDER[k]] = s->memory + at[k];
        if (ORDER[k] != LS_MEM_ARENA && s->region_bytes[ORDER[k]])
            s->ops->fill(s->queue, s->memory + at[k], 0, s->region_bytes[ORDER[k]]);
    }
    s->region[LS_MEM_GRADIENT] = s->region[LS_MEM_ARENA];
    return LS_OK;
}

static ls_status map_memory(ls_session *s)
{
#ifdef LS_DEV
    const size_t guard = page_up(1);
#else
    const size_t guard = 0;
#endif
    static const int ORDER[] = { LS_MEM_STATE, LS_MEM_IO, LS_MEM_ARENA, LS_REGION_SPARE };
    enum { REGIONS = sizeof ORDER / sizeof *ORDER };
    size_t at[REGIONS], total = guard;
    for (int k = 0; k < REGIONS; k++) {
        at[k] = total;
        total += page_up(s->region_bytes[ORDER[k]]) + guard;
    }
    s->bytes = total;
    if (!total)
        return LS_OK;
    s->memory = ls_sys_mmap(total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->memory == MAP_FAILED) {
        char bytes[32];
        s->memory = NULL;
        return ls_fail(LS_E_MEMORY,
                       "session: the system refuses %s for state, inputs and the arena; a smaller "
                       "micro-batch or recompute needs less",
                       ls_format_bytes(bytes, total));
    }
    for (int k = 0; k < REGIONS; k++) {
        s->region[ORDER[k]] = s->memory + at[k];
        if (guard)
            mprotect(s->memory + at[k] - guard, guard, PROT_NONE);
    }
    s->region[LS_MEM_GRADIENT] = s->region[LS_MEM_ARENA];
    if (guard)
        mprotect(s->memory + total - guard, guard, PROT_NONE);
#ifdef MADV_HUGEPAGE
    /* (a step walks through all of it: with 4 KB pages, misses of address translation cost 2 %) */
    madvise(s->memory, total, MADV_HUGEPAGE);
#endif
    s->prefaulting = ls_sys_thread(&s->prefault, prefault_memory, s) == 0;
    return LS_OK;
}

char *ls_session_region(const ls_session *s, int region)
{
    return region >= LS_REGION_NODE ? s->ranks->axes[region - LS_REGION_NODE].node->shared
                                    : s->region[region];
}

static void locate_names(ls_session *s)
{
    for (int k = 0; k < s->n_names; k++) {
        const ls_named *e = &s->names[k];
        size_t offset = 0;
        for (int hops = 0; e->owner >= 0 && hops < s->n_names; hops++) { /* parts of parts */
            offset += e->offset;
            e = &s->names[e->owner];
        }
        s->names[k].region = e->memory == LS_MEM_NODE ? LS_REGION_NODE + e->axis
                             : e->shared && e->host   ? LS_REGION_HOST_SHARED
                             : e->shared              ? LS_REGION_SHARED
                             : e->host                ? LS_REGION_HOST
                                                      : (int)e->memory;
        s->names[k].at = offset + e->offset;
        s->names[k].tensor.data = ls_session_region(s, s->names[k].region) + s->names[k].at;
    }
}

ls_status ls_memory_map(ls_session *s, const ls_device *d)
{
    LS_TRY(s->ops->apart ? map_apart(s, d) : map_memory(s));
    locate_names(s);
    return LS_OK;
}

void ls_memory_release(ls_session *s)
{
    if (s->prefaulting) {
        atomic_store(&s->closing, true);
        pthread_join(s->prefault, NULL);
    }
    if (s->host)
        s->ops->unpin(s->host, s->host_bytes);
    if (s->memory && s->ops->apart) {
        s->ops->release(s->memory, s->bytes);
    } else if (s->memory) {
        ls_unpoison(s->region[LS_MEM_ARENA], s->region_bytes[LS_MEM_ARENA]);
        munmap(s->memory, s->bytes);
    }
}
