/* ranges.h - the files of a checkpoint, written by all ranks at once. Private to src/ckpt. */
#pragma once
#include "ckpt/checkpoint.h"
#include "ckpt/layout.h"
#include "ckpt/manifest.h"

typedef struct ls_ranges {
    char *dir;
    int rank, ranks;
    char *config, *trainer;
    ls_tensor_list lists[3]; /* model, optimizer, live: those that are there */
    ls_layout layouts[3];
    int n_lists;
    bool gone; /* files had disappeared when this rank wrote its part */
    /* Pieces that this rank has written; on rank 0, after ls_ranges_collect, all pieces. */
    ls_manifest manifest;
} ls_ranges;

/* What goes where, in folder `dir`. The lists of `c` are not copied. Release it also after a failure. Local.
 */
ls_status ls_ranges_init(ls_ranges *w, const char *dir, const ls_checkpoint_contents *c, int rank, int ranks);
void ls_ranges_release(ls_ranges *w);
uint64_t ls_ranges_bytes(const ls_ranges *w); /* of the tensors' files */

/* Rank 0, before the others write: makes the tensors' files with headers and sizes. Local. */
ls_status ls_ranges_create(ls_ranges *w);
/* Fails if this rank does not see those files. Local. */
ls_status ls_ranges_find(const ls_ranges *w);
ls_status ls_ranges_write(ls_ranges *w);                /* writes this rank's part to disk. Local */
ls_status ls_ranges_collect(ls_ranges *w, ls_group *g); /* sends the checksums to rank 0. Collective */
/* Rank 0: joins checksums of rows to checksums of pieces (compact.c). Local. */
ls_status ls_ranges_compact(ls_ranges *w);
ls_status ls_ranges_write_manifest(ls_ranges *w); /* rank 0. Local */
