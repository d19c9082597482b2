/* sums_64.h - sums in f64 over a block of threads, in a fixed tree. */
#pragma once
#include "dialect.h"

/* parts: shared memory for WARP numbers. Every thread gets the sum. Nobody may write parts before the block's
 * next barrier. */
DEVICE double block_sum_64(double v, double *parts)
{
    for (int mask = WARP / 2; mask; mask /= 2) {
        const double other = WARP_XOR(v, mask);
        v = v + other;
    }
    if (THREAD % WARP == 0)
        parts[THREAD / WARP] = v;
    BARRIER();
    double t = 0;
    for (int w = 0; w < THREADS / WARP; w++)
        t = t + parts[w];
    return t;
}
