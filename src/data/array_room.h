/* array_room.h - room for arrays that must be in memory as a whole. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* LS_E_MEMORY when this process cannot have so many bytes more: the kernel would kill it on the way. `what`
 * begins the message. */
ls_status ls_array_room(size_t bytes, const char *what);
uint64_t ls_array_room_left(void); /* the bytes that this process can have, in other words */
extern size_t ls_array_room_most;  /* as if the machine had no more; tests set it */
