/* tokens.h - arguments of tokens.cu and embedding_grad.cu. Strides are from row to row. */
#pragma once
#include "types.h"

/* words: of a row; strides are in words too. The table has the rows first .. first + rows of `whole`. */
typedef struct embedding_args {
    gpu_address ids, table, y;
    i64 n, rows, first, whole, words, table_words, y_words;
    u32 nan; /* the bits of NaN, for 16-bit types twice */
} embedding_args;

enum { TOKEN_THREADS = 256, ROPE_PAIRS = 128, FAR_BUCKETS = 512 };

/* Features i and i + half of a head are a pair. Of each head, the pairs first .. first + pairs are turned. */
typedef struct rope_args {
    gpu_address x, positions, y; /* positions: 0: the number of the token */
    i64 rows, tokens, first_token, heads, x_row, y_row;
    i32 half, first, pairs, inverse;
    double frequency[ROPE_PAIRS];
} rope_args;

typedef struct shift_args {
    gpu_address ids, y;
    i64 n, tokens;
    i32 start, pad;
} shift_args;

/* The bucket of a distance (position.h): distances below `exact` have their own; then far[i] is the smallest
 * one in bucket exact + 1 + i or a later one. */
typedef struct position_args {
    gpu_address table, y, dy, dtable;
    i64 heads, distances, queries, buckets;
    i32 both, half, exact, n_far;
    i32 far[FAR_BUCKETS];
} position_args;

/* embedding_grad.cu */
typedef struct sort_args {
    gpu_address ids;                    /* i32 [n]; of the first pass, else 0 */
    gpu_address from_rows, from_places; /* u32 [n] each: sorted by the digits before this one */
    gpu_address to_rows, to_places;
    gpu_address counts; /* u32 [blocks, SORT_DIGITS] */
    i64 n, rows, first, blocks;
    i32 shift;
} sort_args;

typedef struct embedding_grad_args {
    gpu_address dy, addend, dtable; /* addend: 0 if absent */
    gpu_address sorted, places;     /* u32 [n]: row numbers, in order; positions */
    gpu_address starts, ends;       /* u32 [rows]: where the places of a row are; both 0 if there are none */
    gpu_address parts;              /* f32 [n / SUM_SLOT + 1, k] */
    i64 n, rows, k, dy_row;
} embedding_grad_args;

/* A row with more places than SUM_PART is summed in parts of so many. Part i of a row whose places begin at s
 * is number s / SUM_SLOT + i: so no two rows have the same. */
enum {
    SORT_THREADS = 256,
    SORT_TILE = 2048,
    SORT_DIGITS = 256,
    SUM_THREADS = 256,
    SUM_PART = 64,
    SUM_SLOT = 32
};
