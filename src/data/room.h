/* room.h - memory that is used again for each picture, so that reading one allocates nothing once the largest
 * was seen. One thread at a time uses it. It begins as zeros. */
#pragma once
#include <stddef.h>

typedef enum ls_room_part {
    LS_ROOM_FILE,
    LS_ROOM_TAPS,
    LS_ROOM_PIXELS,
    LS_ROOM_ROWS,
    LS_ROOM_SAMPLE,
    LS_ROOM_PARTS
} ls_room_part;

typedef struct ls_room {
    void *at[LS_ROOM_PARTS];
    size_t size[LS_ROOM_PARTS];
} ls_room;

/* At least `bytes` of memory, aligned to 64; what was there is lost. NULL: no memory. */
void *ls_room_get(ls_room *r, ls_room_part part, size_t bytes);
void ls_room_release(ls_room *r);
