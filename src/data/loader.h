/* loader.h - memory of loaders and of their steps, and closing a data set that they still use. */
#pragma once
#include "lockstep/data.h"

/* A field of a loader's step. */
typedef struct ls_loader_field {
    const ls_field *field;
    void *data;    /* [micro_batches, micro_batch, field of a sample] */
    size_t bytes;  /* of it */
    int64_t count; /* entries that count in the whole step, over all ranks; -1: not known */
} ls_loader_field;

/* Bytes of a loader whose steps have this many; `ring` as in its options. The caller reads one more step. */
size_t ls_loader_bytes(size_t step_bytes, int ring);

/* True: a loader uses the set. The last loader to be destroyed will close it. */
bool ls_loader_keeps(ls_dataset *set);
