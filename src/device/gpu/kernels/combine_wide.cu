/* combine_wide.cu - adds pieces of numbers of 128 bits, which are pairs of 64 bits, the low one first. Such
 * sums are exact, so their order does not matter. */
#include "combine.h"
#include "dialect.h"

KERNEL(combine_wide, combine_args, 256)
{
    const i64 i = BLOCK * THREADS + THREAD;
    if (i >= a.count)
        return;
    u64 low = 0, high = 0;
    for (int p = 0; p < a.n; p++) {
        const u64 *x = AT(const u64, a.in + (u64)(p * a.stride)) + 2 * i;
        low += x[0];
        high += x[1] + (low < x[0]);
    }
    AT(u64, a.out)[2 * i] = low;
    AT(u64, a.out)[2 * i + 1] = high;
}
