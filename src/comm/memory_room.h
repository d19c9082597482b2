/* memory_room.h - how much memory this process may still use. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "lockstep/status.h"

/* Bytes of memory that this process may still use: limited by the memory that the machine has free or can
 * free, and by the control groups of this process. Local. */
uint64_t ls_memory_room(void);
/* LS_E_MEMORY when `bytes` more are not available on this machine. `what` begins the message. Local. */
ls_status ls_check_room(size_t bytes, const char *what);
