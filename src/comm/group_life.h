/* group_life.h - makes a group over a control block. */
#pragma once
#include "group_own.h"

/* Makes a group over a control block: uses the record of this local rank and makes the world axis. `first`,
 * `size`: number of the machine's first rank, and number of all ranks. LS_E_MEMORY. Local. */
ls_status ls_group_open(ls_group **out, ls_control_block *c, const ls_sharing *sharing, int fd, int local,
                        int first, int size);
