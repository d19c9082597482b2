/* sort.h - a stable sort of places by the numbers of their rows (kernels/embedding_grad.cu). */
#pragma once
#include "gpu.h"
#include "kernels/tokens.h"

/* ids[i] - first is the row of place i; of no row is what lies outside of 0 .. rows - 1, and comes last, with
 * number `rows`. */
typedef struct ls_gpu_sort {
    gpu_address ids; /* i32 [n] */
    int64_t n, rows, first;
    gpu_address list_rows[2], list_places[2]; /* u32 [n] each: one list is sorted into the other */
    gpu_address counts;                       /* ls_gpu_sort_counts(n) bytes */
} ls_gpu_sort;

static inline int64_t ls_gpu_sort_counts(int64_t n) { return ls_gpu_blocks(n, SORT_TILE) * SORT_DIGITS * 4; }
/* In which of the two lists the result is. */
int ls_gpu_sort_result(int64_t rows);
void ls_gpu_sort_run(struct ls_queue *q, const ls_gpu_sort *s);
