/* rows.h - rows of numbers in pieces of 16 bytes, and the team of threads that works on one row.
 *
 * The host chooses by a row's length (gpu/row_plan.h): TEAM threads work on a row, TEAMS rows lie in a block;
 * each thread holds PIECES pieces of a row in registers, and LONG 1 means that a row does not fit and is read
 * again. Piece j of a thread begins at element (j * TEAM + LANE) * V, whether it is loaded at once or element
 * by element, so the bits of a sum do not depend on addresses. Behind a row's end are zeros. */
#pragma once
#include "pieces.h"

enum { LANES = TEAM, SPAN = TEAM * PIECES * V, BLOCK_THREADS = TEAM * TEAMS };
#define LANE (THREAD % TEAM)
#define ROW (BLOCK * TEAMS + THREAD / TEAM)

/* A place in a row. */
#if LONG
typedef i64 place;
#define EACH_STEP(from, k) for (place from = 0; from < (k); from += SPAN)
#define READ_AGAIN(held, x, from, k) row_read(held, x, from, k)
#else
typedef int place;
#define EACH_STEP(from, k) for (place from = 0; from < 1; from++)
#define READ_AGAIN(held, x, from, k) \
    do {                             \
    } while (0)
#endif

/* Where piece j of this thread begins. */
DEVICE place piece_at(place from, int j) { return from + (j * TEAM + LANE) * V; }

/* How many numbers of the piece at place i lie in the row. */
DEVICE int piece_n(place i, place k) { return i < k ? (k - i < V ? (int)(k - i) : V) : 0; }

DEVICE void row_read(piece *held, const X *x, place from, place k)
{
    UNROLL for (int j = 0; j < PIECES; j++)
    {
        const place i = piece_at(from, j);
        held[j] = piece_read(x + i, piece_n(i, k));
    }
}

/* ---- sums over a row's team, in fixed trees: each of its threads gets the result. parts: shared memory for
 * WARP floats, which nobody may write before the block's next barrier. */

DEVICE float team_sum(float v, float *parts)
{
    for (int mask = (TEAM < WARP ? TEAM : WARP) / 2; mask; mask /= 2) {
        const float other = WARP_XOR(v, mask);
        v = v + other;
    }
#if TEAM > 32
    if (THREAD % WARP == 0)
        parts[THREAD / WARP] = v;
    BARRIER();
    v = parts[0];
    for (int w = 1; w < TEAM / WARP; w++)
        v = v + parts[w];
#else
    (void)parts;
#endif
    return v;
}
/* Two sums, with one barrier. */
DEVICE void team_sums(float *v, float *u, float *parts, float *other_parts)
{
    for (int mask = (TEAM < WARP ? TEAM : WARP) / 2; mask; mask /= 2) {
        const float other_v = WARP_XOR(*v, mask), other_u = WARP_XOR(*u, mask);
        *v = *v + other_v;
        *u = *u + other_u;
    }
#if TEAM > 32
    if (THREAD % WARP == 0) {
        parts[THREAD / WARP] = *v;
        other_parts[THREAD / WARP] = *u;
    }
    BARRIER();
    *v = parts[0];
    *u = other_parts[0];
    for (int w = 1; w < TEAM / WARP; w++) {
        *v = *v + parts[w];
        *u = *u + other_parts[w];
    }
#else
    (void)parts;
    (void)other_parts;
#endif
}
DEVICE float team_max(float v, float *parts)
{
    for (int mask = (TEAM < WARP ? TEAM : WARP) / 2; mask; mask /= 2) {
        const float other = WARP_XOR(v, mask);
        v = max_(v, other);
    }
#if TEAM > 32
    if (THREAD % WARP == 0)
        parts[THREAD / WARP] = v;
    BARRIER();
    v = parts[0];
    for (int w = 1; w < TEAM / WARP; w++)
        v = max_(v, parts[w]);
#else
    (void)parts;
#endif
    return v;
}
