/* box.h - a block of a tensor: in every dimension the elements from `start` on. Its rows are the runs of
 * elements that lie side by side in the tensor too. Private to src/ckpt. */
#pragma once
#include "lockstep/types.h"

typedef struct ls_box {
    int64_t start[LS_MAX_DIMS], size[LS_MAX_DIMS];
} ls_box;

typedef struct ls_box_rows {
    const ls_box *box;
    const ls_type *whole;
    int outer;         /* dimensions that number the rows; those after them are in a row */
    int64_t n, length; /* rows, elements of each; n 0: an empty box */
} ls_box_rows;

ls_box_rows ls_box_rows_of(const ls_box *box, const ls_type *whole);
/* the element of the tensor that begins it. They ascend */
int64_t ls_box_row(const ls_box_rows *r, int64_t row);
/* the first row that ends after element `first` of the tensor; n: none does */
int64_t ls_box_row_after(const ls_box_rows *r, int64_t first);
/* no size or start is negative, and none leads out */
bool ls_box_inside(const ls_box *box, const ls_type *whole);
