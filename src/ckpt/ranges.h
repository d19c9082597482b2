/* ranges.h - the files of a checkpoint, written by all ranks at once. Private to src/ckpt. */
#pragma once
#include "ckpt/checkpoint.h"
#include "ckpt/layout.h"
#include "ckpt/manifest.h"

typedef struct ls_ranges {
    char *dir;
    int rank, ranks;
    char *config, *trainer;
    ls_tensor_list lists[2]; /* model, optimizer */
    ls_layout layouts[2];
    int n_lists;
    bool gone; /* files were not there any more when this rank wrote its part */
    /* of what this rank has written; on rank 0, after ls_ranges_collect, of everything */
    ls_manifest manifest;
} ls_ranges;

/* What goes where, in folder `dir`. The lists of `c` are not copied. Release it also after a failure. Local.
 */
ls_status ls_ranges_init(ls_ranges *w, const char *dir, const ls_checkpoint_contents *c, int rank, int ranks);
void ls_ranges_release(ls_ranges *w);
uint64_t ls_ranges_bytes(const ls_ranges *w); /* of the tensors' files */

/* rank 0, before any writes: the tensors' files, with their headers and sizes. Local */
ls_status ls_ranges_create(ls_ranges *w);
/* refused where this rank does not see those files. Local */
ls_status ls_ranges_find(const ls_ranges *w);
ls_status ls_ranges_write(ls_ranges *w);                /* this rank's part, onto the disk. Local */
ls_status ls_ranges_collect(ls_ranges *w, ls_group *g); /* the checksums to rank 0. Collective */
/* rank 0: sums for rows become sums for pieces of a tensor (compact.c). Local */
ls_status ls_ranges_compact(ls_ranges *w);
ls_status ls_ranges_write_manifest(ls_ranges *w); /* rank 0, with that. Local */
