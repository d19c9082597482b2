/* room.c - see room.h. */
#include "data/room.h"

#include <stdlib.h>

#include "base/sys.h"

void *ls_room_get(ls_room *r, ls_room_part part, size_t bytes)
{
    if (bytes <= r->size[part] && r->at[part])
        return r->at[part];
    free(r->at[part]);
    bytes = (bytes + bytes / 4 + 4095) / 4096 *
            4096; /* a little larger than asked for: sizes differ a little */
    r->at[part] = ls_sys_aligned_alloc(64, bytes);
    r->size[part] = r->at[part] ? bytes : 0;
    return r->at[part];
}

void ls_room_release(ls_room *r)
{
    for (int i = 0; i < LS_ROOM_PARTS; i++)
        free(r->at[i]);
    *r = (ls_room){ 0 };
}
