/* rng.h - random numbers as a pure function: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy
 * as 1, 2, 3", SC'11). A key (seed, purpose) and a 128-bit counter give four 32-bit words. There is no state,
 * so any element of any tensor can be drawn anywhere, in any order, on any number of ranks. `purpose` is a
 * hash of what the numbers are for (a scope path, "shuffle", ...). */
#pragma once
#include <stdint.h>

typedef struct ls_rng_key {
    uint32_t k[2];
} ls_rng_key;
ls_rng_key ls_rng_key_of(uint64_t seed, uint64_t purpose);
void ls_rng_block(ls_rng_key key, uint64_t counter_lo, uint64_t counter_hi, uint32_t out[4]);
/* The blocks of the counters first .. first + 7: the same numbers as eight calls, several times faster,
 * because the rounds of one block wait for each other. */
void ls_rng_blocks8(ls_rng_key key, uint64_t first, uint64_t counter_hi, uint32_t out[8][4]);
double ls_rng_uniform(ls_rng_key key, uint64_t index); /* in [0, 1), 53 random bits */
double ls_rng_normal(ls_rng_key key, uint64_t index);  /* mean 0, deviation 1 (Box-Muller, from one block) */
/* The numbers of first .. first + 7: the same bits as eight calls, several times faster. */
void ls_rng_normals8(ls_rng_key key, uint64_t first, double out[8]);
/* 16 random bits for element `index` of `plane`. Eight lanes of blocks give 64 of them, in an order that
 * vectors of eight produce without moving lanes. */
uint32_t ls_rng_bits16(ls_rng_key key, uint64_t plane, uint64_t index);
/* uniform on [0, n), n > 0, without bias */
uint64_t ls_rng_below(ls_rng_key key, uint64_t index, uint64_t n);

/* A pseudo-random permutation of [0, n) that needs no memory: returns the element at a position (a Feistel
 * network of at least 4 rounds, with cycle walking). */
uint64_t ls_permute_index(ls_rng_key key, uint64_t position, uint64_t n);
