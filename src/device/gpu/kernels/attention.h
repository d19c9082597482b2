/* attention.h - arguments of the kernels of attention. Tensors are [batch, tokens, heads * head_dim], whose
 * rows may lie apart: strides are in elements from row to row. */
#pragma once
#include "types.h"

typedef struct attention_args {
    gpu_address q, k, v, bias, ids, key, positions; /* bias, ids, key, positions: 0 if absent */
    /* i32 [B, Tk] each: the first key of a key's document, and one after its last; 0 without positions */
    gpu_address starts, ends;
    gpu_address y, lse;
    gpu_address dy, delta, dq, dk, dv, dbias; /* of the gradient */
    gpu_address parts;                        /* f32 [H, tiles of queries, tiles of keys, DIAGONALS] */
    i64 q_row, k_row, v_row, y_row, dy_row, dq_row, dk_row, dv_row;
    i64 B, H, G, Tq, Tk;
    i64 apart;       /* query i stands at key i + apart: a causal query sees that one and those before it */
    i64 bias_batch;  /* elements of the bias from sample to sample; 0: all have the same */
    i64 pad, window; /* window: keys that a query sees at most; 0: all */
    i64 first_sample, first_query, first_head; /* in the whole */
    i64 all_queries;
    u64 purpose; /* of dropout */
    u32 below;
    float scale, kept;             /* kept: the factor of probabilities that dropout keeps; 1: none */
    i32 causal, distances, splits; /* distances: the bias is by distance; splits: of the output's columns */
} attention_args;

enum {
    TILE = 64,       /* queries and keys of a tile; dropout's groups of keys are as many */
    DIAGONALS = 128, /* of a tile, and one unused */
    CORE_THREADS = 256,
    CORE_COLUMNS = 128, /* columns of the output that a block of attention_core.cu computes */
    MMA_THREADS = 128
};

/* Queries of a block of attention_mma.cu: its four warps have one or two groups of 16. Two halve the reading
 * of keys, if there are registers. */
#define ATTENTION_GROUPS(head_dim, drops) ((head_dim) <= 64 && !(drops) ? 2 : 1)
#define ATTENTION_QUERIES(head_dim, drops) (64 * ATTENTION_GROUPS(head_dim, drops))

/* attention_cached.cu: part p of a row's keys are those from p * CACHED_PART on. Only the tokens from `first`
 * on are computed. */
typedef struct cached_args {
    gpu_address q, k, v, positions, bias, y;
    gpu_address parts; /* f32 [B, tokens, H, parts, D + 2]: sums of p v, largest score, sum of p */
    i64 q_row, y_row;
    i64 B, T, H, G, places, n_parts;
    i64 first, tokens;
    i64 blocks; /* of the rows of a key head */
    i64 window; /* keys that a query sees at most; 0: all */
    float scale;
} cached_args;

enum { CACHED_PART = 128, CACHED_ROWS = 8, CACHED_THREADS = 128 };
