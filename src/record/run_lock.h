/* run_lock.h - one process owns a run directory at a time. It locks lock.txt, which names it. The kernel
 * releases the lock when the process ends, so a crashed run never blocks the next one. On a network file
 * system other hosts may not see the lock. Then the owner in lock.txt and the age of result.json decide. */
#pragma once
#include "lockstep/status.h"

/* Takes the lock until *fd is closed. LS_E_USAGE, with host and process id, if another process has it. Local.
 */
ls_status ls_run_lock(int *fd, const char *run_dir);
