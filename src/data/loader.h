/* loader.h - memory of loaders, and closing a data set that they still use. */
#pragma once
#include "lockstep/data.h"

/* Bytes of a loader whose steps have this many; `ring` as in its options. The caller reads one more step. */
size_t ls_loader_bytes(size_t step_bytes, int ring);

/* True: a loader uses the set. The last loader to be destroyed will close it. */
bool ls_loader_keeps(ls_dataset *set);
