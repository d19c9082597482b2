/* window.h - windows: memory that the members of an axis on one machine share. */
#pragma once
#include "axis.h"

typedef struct ls_window {
    char *mine;   /* this rank's part, 64-byte aligned, zero at first */
    size_t bytes; /* of each part */
    char **peer;  /* by position: that member's part as mapped here; NULL: on another machine */
    char *shared; /* one copy for all members on this machine; NULL when shared_bytes is 0 */
    size_t shared_bytes;
    ls_axis *axis;
    void *own; /* private */
} ls_window;
/* LS_E_MEMORY says how much is needed (bytes x members + shared_bytes) and how much there is; nothing is
 * reserved then. Collective over the axis. */
ls_status ls_window_create(ls_window **out, ls_axis *a, size_t bytes, size_t shared_bytes);
void ls_window_destroy(ls_window **w); /* local: others may still use their mappings */
