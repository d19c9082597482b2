/* mapping.h - layouts of tests that also run on a device whose memory is its own: LOCKSTEP_DEVICE=emulated.
 */
#pragma once
#include "device/queue.h"
#include "lockstep/parallel.h"
#include "support/support.h"

/* `gather`, but auto instead of a mapping where the device has none. */
static inline ls_gather_choice mapping_or_auto(ls_gather_choice gather)
{
    ls_device d;
    ASSERT_OK(ls_device_open(&d, NULL, &(ls_device_opts){ LS_DEVICE_DEFAULTS }));
    return gather == LS_GATHER_MAP && ls_device_apart(&d) ? LS_GATHER_AUTO : gather;
}
