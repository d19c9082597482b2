/* process.h - reads the kernel's record of a process. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LS_START_UNKNOWN = 1 }; /* no process of ours can start in the first clock tick after boot */

/* Start time of a process in clock ticks since boot; it tells a process from a later one with the same pid.
 * 0: there is no such process, or it has ended and waits to be reaped. LS_START_UNKNOWN: it exists, but its
 * record in /proc cannot be read. *stopped (may be NULL): a signal has stopped it. Local. */
uint64_t ls_process_start_time(int pid, bool *stopped);
