/* node_bytes.h - bytes of a session's mapped units, which the ranks of an axis on this machine have once. */
#pragma once
#include "execute/internal.h"

static inline size_t node_bytes(const ls_session *s)
{
    size_t bytes = 0;
    for (int i = 0; s->ranks && i < s->ranks->n_axes; i++)
        bytes += s->ranks->axes[i].node_bytes;
    return bytes;
}
