/* memory.h - the memory of a step of one rank, in all: that of the programs' plans, of the session's spares
 * and of saves; and where it lies.
 *
 * Most devices work in host memory: then all of it is there, and `host` is what parallel.offload keeps off
 * the device's part. A device whose memory is its own holds state, inputs and outputs, the arena, the mirror
 * of the window and the spares. The host has the window, the pinned memory that results of collectives pass
 * through, what is offloaded, and the staging memory of saves. */
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
    /* Parts of all of it, `total`, without plans.node. With `apart` the host's part has the window, which the
     * device's part mirrors. */
    size_t device, host, total;
    /* By category: what is there all the time, and all at the peak. With `apart` of the device only. */
    size_t fixed[LS_CAT_COUNT], by_category[LS_CAT_COUNT];
} ls_step_memory;

ls_step_memory ls_compiled_memory(const ls_compiled *c);

/* Whether a program's arena is where `device` counts: not that of a program on the host beside a device whose
 * memory is its own. */
static inline bool ls_on_device(const ls_step_memory *m, const ls_plan *p)
{
    return !(m->apart && p->on_host);
}

/* Checks that a step fits into ls_parallel.device_memory and, if the device is here and has memory of its
 * own, into that: LS_E_UNSUPPORTED names the largest values. */
ls_status ls_compiled_fits(const ls_compiled *c);
