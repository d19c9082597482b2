/* matmul_finish.cu - what follows a product that a library made: it is at `left`, with its bias and rounded
 * to ELEMENT; if there is a `pre`, it is that. A thread has 8 neighbours of a row. */
#define STORES_PRE 0
#include "matmul_finish.h"

KERNEL(matmul_finish, matmul_args, SUMS_THREADS)
{
    const i64 eights = (a.n + 7) / 8, i = BLOCK * SUMS_THREADS + THREAD, m = i / eights, n = i % eights * 8;
    float product[8];
    if (m >= a.m)
        return;
    eight_load(AT(const ELEMENT, a.left) + m * a.ld_left + n, a.n - n, (a.whole & MATMUL_LEFT) != 0, product);
    finish_8(&a, 0, m, n, product);
}
