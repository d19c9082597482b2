/* pack.h - puts items into windows by their lengths: best-fit decreasing (Johnson 1973). The longest item
 * comes first; each goes to the window that it fills best, or opens one. The result is a function of the
 * lengths alone. */
#pragma once
#include <stdint.h>

#include "lockstep/status.h"

typedef struct ls_packing {
    int64_t windows; /* in the order of their first items */
    int64_t *first;  /* [windows + 1]: window w has the items item[first[w]] .. item[first[w + 1] - 1] */
    int64_t *item;   /* [n]: of a window, increasing */
} ls_packing;

/* lengths [n]: 1 to `room`. Needs memory for 4 numbers an item and one for each length up to `room`. */
ls_status ls_packing_make(ls_packing *out, const int32_t *lengths, int64_t n, int64_t room);
void ls_packing_release(ls_packing *p); /* may be called twice */
