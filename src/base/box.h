/* box.h - a block of a tensor: in each dimension, `size` elements of `whole` elements, from element `start`
 * on. Boxes describe the local shards of ranks, the chunks of a file, and what a slice takes. */
#pragma once
#include "lockstep/types.h"

typedef struct ls_box {
    int ndim;
    int64_t whole[LS_MAX_DIMS], start[LS_MAX_DIMS], size[LS_MAX_DIMS]; /* 0 for dimensions >= ndim */
} ls_box;

ls_box ls_box_of(const ls_type *whole); /* the whole tensor */
bool ls_box_equal(const ls_box *a, const ls_box *b);
bool ls_box_is_whole(const ls_box *box);
int64_t ls_box_count(const ls_box *box); /* number of elements */
/* No size or start is negative, and the box lies inside the whole. */
bool ls_box_inside(const ls_box *box);

/* Narrows the box to `count` elements of its dimension `dim`, from the box's element `start` on. */
void ls_box_slice(ls_box *box, int dim, int64_t start, int64_t count);
/* Narrows the box to block number `at` of `n` equal blocks along dimension `dim`. Returns false and leaves
 * the box unchanged if n does not divide its size. */
bool ls_box_split(ls_box *box, int dim, int64_t n, int64_t at);
/* The number, in the whole tensor, of element i of the box (both in row-major order). *run, if not NULL,
 * receives how many elements from there on are neighbours in both the box and the tensor, including element
 * i. */
int64_t ls_box_run(const ls_box *box, int64_t i, int64_t *run);

/* Rows of a box: runs of elements that are neighbours in the whole tensor too. */
typedef struct ls_box_rows {
    const ls_box *box;
    int outer; /* a row covers the dimensions from `outer` on; the dimensions before number the rows */
    int64_t n, length; /* number of rows, 0 for an empty box; elements of a row */
} ls_box_rows;

ls_box_rows ls_box_rows_of(const ls_box *box);
/* The number of the row's first element in the whole tensor. It increases with the row number. */
int64_t ls_box_row(const ls_box_rows *r, int64_t row);
/* The first row that ends after element `first` of the whole tensor; n if there is none. */
int64_t ls_box_row_after(const ls_box_rows *r, int64_t first);
