/* rng.h - random numbers as a pure function: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy
 * as 1, 2, 3", SC'11). A key (seed, purpose) and a 128-bit counter give four 32-bit words; nothing has state,
 * so any element of any tensor can be drawn anywhere, in any order, on any number of ranks. `purpose` is the
 * hash of what the numbers are for (a scope path, "shuffle", ...). */
#pragma once
#include <stdint.h>

typedef struct ls_rng_key {
    uint32_t k[2];
} ls_rng_key;
ls_rng_key ls_rng_key_of(uint64_t seed, uint64_t purpose);
void ls_rng_block(ls_rng_key key, uint64_t counter_lo, uint64_t counter_hi, uint32_t out[4]);
/* The blocks of counters first .. first+7, the same numbers as eight calls, several times faster (the rounds
 * of one block wait for each other). */
void ls_rng_blocks8(ls_rng_key key, uint64_t first, uint64_t counter_hi, uint32_t out[8][4]);
double ls_rng_uniform(ls_rng_key key, uint64_t index); /* [0, 1), 53 bits */
double ls_rng_normal(ls_rng_key key, uint64_t index);  /* Box-Muller over one block; mean 0, deviation 1 */
/* those of first .. first + 7, the same bits, several times as fast */
void ls_rng_normals8(ls_rng_key key, uint64_t first, double out[8]);
/* 16 bits that decide about element `index` of `plane`. Eight lanes of blocks give 64 numbers in an order
 * that vectors of eight make without moving any. */
uint32_t ls_rng_bits16(ls_rng_key key, uint64_t plane, uint64_t index);
uint64_t ls_rng_below(ls_rng_key key, uint64_t index, uint64_t n); /* uniform on [0, n), n > 0, unbiased */

/* Position -> element of a pseudo-random permutation of [0, n), without storing it (cycle-walking Feistel
 * network, 4+ rounds). */
uint64_t ls_permute_index(ls_rng_key key, uint64_t position, uint64_t n);
