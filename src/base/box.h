/* box.h - a block of a tensor: in every dimension `size` elements of `whole`, from `start` on. The blocks
 * that ranks have of a tensor, the chunks of a file and the rows that a slice leaves are boxes. */
#pragma once
#include "lockstep/types.h"

typedef struct ls_box {
    int ndim;
    int64_t whole[LS_MAX_DIMS], start[LS_MAX_DIMS], size[LS_MAX_DIMS]; /* 0 behind ndim */
} ls_box;

ls_box ls_box_of(const ls_type *whole); /* all of it */
bool ls_box_equal(const ls_box *a, const ls_box *b);
bool ls_box_is_whole(const ls_box *box);
int64_t ls_box_count(const ls_box *box); /* its elements */
/* no size or start is negative, and none leads out */
bool ls_box_inside(const ls_box *box);

/* `count` elements of dimension `dim` of the box, from its element `start` on: a slice of a slice. */
void ls_box_slice(ls_box *box, int dim, int64_t start, int64_t count);
/* block number `at` of `n` equal ones along dimension `dim` of the box; false, and the box as it was: n does
 * not divide its size */
bool ls_box_split(ls_box *box, int dim, int64_t n, int64_t at);
/* Element i of the box, row-major: its number in the whole tensor, and (run may be NULL) how many elements
 * follow each other in both from there, itself included. */
int64_t ls_box_run(const ls_box *box, int64_t i, int64_t *run);

/* Its rows: the runs of elements that lie side by side in the tensor too. */
typedef struct ls_box_rows {
    const ls_box *box;
    int outer;         /* dimensions that number the rows; those after them are in a row */
    int64_t n, length; /* rows, elements of each; n 0: an empty box */
} ls_box_rows;

ls_box_rows ls_box_rows_of(const ls_box *box);
/* the element of the tensor that begins it. They ascend */
int64_t ls_box_row(const ls_box_rows *r, int64_t row);
/* the first row that ends after element `first` of the tensor; n: none does */
int64_t ls_box_row_after(const ls_box_rows *r, int64_t first);
