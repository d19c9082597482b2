/* ranges.h - the files of a checkpoint, written by all ranks at once. Private to src/ckpt. */
#pragma once
#include "ckpt/checkpoint.h"
#include "ckpt/layout.h"
#include "ckpt/manifest.h"
#include "ckpt/pieces.h"

typedef struct ls_ranges {
    char *dir;
    int rank, ranks;
    char *config, *trainer, *adapter; /* adapter NULL: none */
    ls_beside *beside;
    int n_beside;
    ls_tensor_list lists[3]; /* model, optimizer, live: those that are there */
    const char *names[3];
    ls_layout layouts[3];
    int n_lists;
    bool per_rank;  /* each rank has files of its own, rank_files.h; each layout is this rank's one file */
    uint64_t bytes; /* of the tensors' files of all ranks */
    /* of each list, element_digest.h: of what this rank has written; on rank 0, after ls_ranges_collect, of
     * all */
    uint64_t digests[3];
    /* for what lies in a session's memory; made before the files are */
    ls_pieces pieces;
    bool gone; /* files had disappeared when this rank wrote its part */
    /* Pieces that this rank has written; on rank 0, after ls_ranges_collect, all pieces. */
    ls_manifest manifest;
} ls_ranges;

/* What goes where, in folder `dir`. The lists of `c` are not copied. Release it also after a failure. Local.
 */
ls_status ls_ranges_init(ls_ranges *w, const char *dir, const ls_checkpoint_contents *c, int rank, int ranks);
void ls_ranges_release(ls_ranges *w);
/* Lists the tensors' files and their sizes. Collective; g NULL: one rank. */
ls_status ls_ranges_list(ls_ranges *w, ls_group *g);

/* Rank 0, before the others write, and of `per_rank` then each of them: makes the tensors' files with headers
 * and sizes. Local. */
ls_status ls_ranges_create(ls_ranges *w);
/* Fails if this rank does not see rank 0's files. Local. */
ls_status ls_ranges_find(const ls_ranges *w);
ls_status ls_ranges_write(ls_ranges *w);                /* writes this rank's part to disk. Local */
ls_status ls_ranges_collect(ls_ranges *w, ls_group *g); /* sends the checksums to rank 0. Collective */
/* finite.c: LS_E_NUMERIC if one of elements at .. at + n - 1 of the range of tensor i, which are at `data`,
 * is none that the list may have. Local. */
ls_status ls_ranges_finite(const ls_tensor_list *l, int64_t i, int64_t at, int64_t n, const void *data);
/* Rank 0: reads the ranks' own files as a reader does, which finds every element once. Local. */
ls_status ls_ranges_prove(const ls_ranges *w);
/* Rank 0: joins checksums of rows to checksums of pieces (compact.c). Local. */
ls_status ls_ranges_compact(ls_ranges *w);
ls_status ls_ranges_write_manifest(ls_ranges *w); /* rank 0. Local */
