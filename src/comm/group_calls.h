/* group_calls.h - calls of a group that the public header does not offer. */
#pragma once
#include "lockstep/group.h"

/* ls_group_all_gather for calls that the program repeats in every step. The ranks' calls are not compared,
 * which saves a message between machines. Collective. */
ls_status ls_group_all_gather_same(ls_group *g, const void *mine, size_t bytes, void *all);
/* ls_group_all_gather into new memory: *all is [size][bytes], and the caller frees it; NULL after an error. A
 * rank without memory gets LS_E_MEMORY, and the others do not wait for it. Collective. */
ls_status ls_group_all_gather_new(ls_group *g, const void *mine, size_t bytes, void **all);
