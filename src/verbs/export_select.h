/* export_select.h - which tensors `lockstep export` writes, and under which names. */
#pragma once
#include "commands.h"

/* Leaves in `w`, which was opened from `from`, what --module, --strip-prefix and --ignore-frozen ask for. */
ls_status ls_export_select(ls_weights *w, const char *from, const ls_export_opts *o);
