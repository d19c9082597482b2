/* memory.h - all memory of a step on one rank: that of the programs' plans, of the session's spares and of
 * saves; and its kinds.
 *
 * Most devices work in host memory. Then all memory is host memory, and `host` is the part that
 * parallel.offload keeps out of the device's limit. A device whose memory is its own has state, inputs and
 * outputs, the arena, the mirror of the window and the spares. The host has the window, the pinned memory
 * that results of collectives pass through, offloaded values, and the staging memory of saves. */
#pragma once
#include "compile.h"
#include "plan/describe.h"

typedef struct ls_step_memory {
    ls_footprint plans;
    ls_spares spares;
    size_t saves;  /* staging memory of saves */
    size_t pinned; /* results of collectives pass through it; 0 unless apart */
    size_t offloaded;
    bool apart; /* the device's memory is its own */
    /* `total` is all memory, without plans.node; device and host are its parts. With `apart` the host's part
     * includes the window, which the device's part mirrors. */
    size_t device, host, total;
    /* By category: memory that exists all the time, and all memory at the peak. With `apart`: of the device
     * only. */
    size_t fixed[LS_CAT_COUNT], by_category[LS_CAT_COUNT];
} ls_step_memory;

ls_step_memory ls_compiled_memory(const ls_compiled *c);

/* Whether a program's arena counts for `device`: not the arena of a program that runs on the host beside a
 * device whose memory is its own. */
static inline bool ls_on_device(const ls_step_memory *m, const ls_plan *p)
{
    return !(m->apart && p->on_host);
}

/* Checks that a step fits into ls_parallel.device_memory and, if the device is present and its memory is its
 * own, into that memory: LS_E_UNSUPPORTED names the largest values. */
ls_status ls_compiled_fits(const ls_compiled *c);
