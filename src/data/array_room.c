/* array_room.c - see array_room.h. */
#include "data/array_room.h"

#include "base/str.h"
#include "comm/memory_room.h"

size_t ls_array_room_most = (size_t)-1;

uint64_t ls_array_room_left(void)
{
    const uint64_t room = ls_memory_room();
    return room < ls_array_room_most ? room : ls_array_room_most;
}

ls_status ls_array_room(size_t bytes, const char *what)
{
    char need[32], have[32];
    const uint64_t room = ls_array_room_left();
    if (bytes <= room)
        return LS_OK;
    return ls_fail(LS_E_MEMORY,
                   "%s: its numbers need %s of memory, and %s are available here: save them with numpy.save "
                   "as .npy, of which only the rows that are read are in memory",
                   what, ls_format_bytes(need, bytes), ls_format_bytes(have, room));
}
